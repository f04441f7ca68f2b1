"""Whether the Python of the examined environment starts and sees its packages, and this user may read them (GPD400,
GPD417)."""

from __future__ import annotations

import shlex

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Severity, by_hand, unset
from gpudoctor.frameworks.torch import check
from gpudoctor.machine import PythonEnvironment, StartFault, StartFaultKind
from gpudoctor.situation import Situation

_EFFECTS = (
    "torch-import-fails", "torch-missing", "torch-shadowed", "python-dev-missing", "requirements-incomplete",
    "framework-cpu-only", "framework-missing", "no-gpu",
)  # fmt: skip

_FAILED_IMPORTS = ("torch-import-fails", "framework-import-fails")
"""What is installed is seen, and judged."""


@check("GPD400", "environment-broken", "framework")
def environment_broken(situation: Situation) -> Verdicts:
    """The Python of the examined environment does not work.

    ## Why it matters
    Nothing that is installed there can be used, and no package is to blame: the interpreter does not start, or looks
    for packages elsewhere.

    ## How it is judged
    From files. The interpreter of a venv is a link to a Python, which may have been removed; it may lead to another
    version than the one that the folder of packages is for (lib/python3.11); pyvenv.cfg, which makes a folder a
    venv, may be gone, or name another Python than that link; the interpreter may be no program, or one for another
    processor, or the venv one of Windows; its packages may lie behind a link that leads nowhere; PYTHONHOME may
    name a folder without the standard library of this version; and a .pth file that is not UTF-8, as PowerShell's
    `>` writes it, ends every start of Python. Without its pyvenv.cfg a folder with bin/activate is no environment.
    Where the import of torch worked, nothing of this was a fault. It is a warning if the shell counts a folder as
    the active environment that is gone, and the Python found in its place has nothing for GPUs (else a note). It is
    a note if only `pip` starts the Python of another folder, as in a copied venv: it installs there, or not at all.

    ## Fix safety
    The venv is made again around its packages, which stay. PYTHONHOME is unset: each Python finds its own library.
    A .pth file that cannot be decoded adds nothing.
    """
    environment = situation.environment
    faults = () if situation.torch_imported else environment.start_faults
    for fault in faults:
        # A program may bring a Python of its own, which PYTHONHOME is for, where this one has nothing for GPUs.
        of_another = fault.kind == "no-library" and not (situation.frameworks or situation.required)
        yield _finding(fault, environment.prefix, "note" if of_another else "error")
    if environment.instead_of:
        yield _of_another_place(environment, "note" if situation.frameworks else "warning")
    if environment.pip_starts and not faults:
        yield _pip_of_another(environment)


def _of_another_place(environment: PythonEnvironment, severity: Severity) -> Finding:
    gone = environment.instead_of
    text = (
        "Activate an environment that exists, or name it with --python. A moved or renamed one still activates "
        "its old path; this writes its bin/activate again, and the packages stay:\n"
        "python3 -m venv --without-pip FOLDER"
    )
    return Finding(
        severity=severity,
        message=f"The active environment {gone} is gone: it was deleted, moved or renamed. What is said here is of "
        f"{environment.interpreter}.",
        saw=environment.interpreter,
        want=gone,
        subject="Python environment",
        evidence=(Evidence("environment.instead_of", gone, environment.source),),
        fixes=(by_hand("Activate an environment that exists", text, "safe", elsewhere=True),),
    )


def _pip_of_another(environment: PythonEnvironment) -> Finding:
    program, python = environment.pip_program, shlex.quote(environment.interpreter)
    text = (
        f"Install with `{python} -m pip`. This writes pip's programs again; other programs in bin (torchrun ...) and "
        f"bin/activate still name the old folder:\n{python} -m pip install --force-reinstall --no-deps pip"
    )
    return Finding(
        severity="note",  # everything else works: no problem comes behind this
        message=f"{program} starts {environment.pip_starts}, which is not in this environment: it was copied or "
        "renamed, and `pip install` changes the other one, or does not start.",
        saw=environment.pip_starts,
        want=environment.interpreter,
        subject="Python environment",
        evidence=(Evidence("environment.pip_starts", environment.pip_starts, program),),
        fixes=(by_hand("Use the Python of this environment", text, "replaces", elsewhere=True),),
    )


def _finding(fault: StartFault, prefix: str, severity: Severity) -> Finding:
    return Finding(
        severity=severity,
        message=_message(fault),
        saw=fault.detail or fault.path,
        want=_WANTED.get(fault.kind, f"Python {fault.python}"),
        subject="Python environment",
        evidence=(Evidence("environment.start_faults", fault.detail or fault.kind, fault.path),),
        fixes=(_fix(fault, fault.prefix or prefix),),
        supersedes=_FAILED_IMPORTS if fault.kind == "no-library" else _EFFECTS,
    )


_WANTED: dict[StartFaultKind, str] = {"pth-undecodable": "a UTF-8 text", "packages-gone": "a folder of packages"}


def _message(fault: StartFault) -> str:
    path, found, python = fault.path, fault.detail, fault.python
    leads = "does not exist" if found == path else f"leads to {found}, which does not exist"
    messages: dict[StartFaultKind, str] = {
        "interpreter-gone": f"{path} {leads}: this environment has no Python.",
        "interpreter-other": f"{path} is {found}, and the packages of this environment are for Python {python}: it "
        "sees none of them.",
        "interpreter-foreign": f"{path} is a program for {found}: this machine cannot start it.",
        "interpreter-no-program": f"{path} is no program: it was a link, and copying or an archive left its text.",
        "interpreter-mixed": f"{path} leads to {found}, and pyvenv.cfg to the standard library of another Python "
        f"{python}, as `python -m venv --upgrade` leaves it: modules of the one do not fit the other.",
        "of-windows": f"{fault.prefix} is an environment of Windows (its Python is in {found}): nothing in it works "
        "here, in WSL neither.",
        "no-pyvenv-cfg": f"{path} is gone: its Python looks for packages in {found or 'its own folder'}, not here.",
        "no-library": f"PYTHONHOME makes Python {python} look for its standard library in {path}, where none of "
        "this version is: it does not start.",
        "pth-undecodable": f"{path} is not UTF-8: Python ends with an error when it starts.",
        "packages-gone": f"{path} {leads}: this environment has no packages.",
    }
    return messages[fault.kind]


def _fix(fault: StartFault, prefix: str) -> Fix:
    if fault.kind == "pth-undecodable":
        text = f"Remove the file, or write it again as UTF-8: rm {shlex.quote(fault.path)}"
        return by_hand("Remove the .pth file", text, "replaces")
    if fault.kind == "packages-gone":
        text = f"Mount or restore {fault.detail}, or make the environment again with its packages."
        return by_hand("Bring the folder of the packages back", text, "safe")
    if fault.kind == "no-library":
        return unset("PYTHONHOME", "each Python finds its own standard library")
    if fault.kind == "of-windows":
        text = "Make an environment of Linux in another folder (`python3 -m venv ~/venv`), with the same packages."
        return by_hand("Make an environment of Linux", text, "safe", elsewhere=True)
    python = fault.other or f"python{fault.python}"
    first = "" if fault.other else f"Install Python {fault.python} first (`uv python install {fault.python}`). "
    clear = f"rm -f {shlex.join(fault.links)}\n" if fault.links and fault.kind != "no-pyvenv-cfg" else ""
    text = f"{first}The packages stay:\n{clear}{shlex.quote(python)} -m venv --without-pip {shlex.quote(prefix)}"
    return by_hand("Make the venv again around its packages", text, "replaces")


@check("GPD417", "environment-unreadable", "framework")
def environment_unreadable(situation: Situation) -> Verdicts:
    """This user may not read the packages of the examined environment.

    ## Why it matters
    Python finds no package in a folder that it may not list: `import torch` says that there is no torch.

    ## How it is judged
    The user that gpudoctor runs as may not list a folder of the environment that holds installed packages, and no
    other folder has a torch. Folders outside of the environment, such as the site folder of another user, are no
    fault.

    ## Fix safety
    Rights are given by a person. Running as the owner of the environment changes nothing.
    """
    environment = situation.environment
    if environment.torch.state != "denied":
        return
    folder = environment.torch.source
    if not environment.prefix or not folder.startswith(f"{environment.prefix.rstrip('/')}/"):
        return
    text = f"Give this user the right to read {folder} and what is below it, or run as the owner of the environment."
    yield Finding(
        severity="error",
        message=f"This user may not list {folder}: Python finds no torch there.",
        saw=f"{folder}: {environment.torch.why}",
        want="a folder that this user may read",
        subject="Python environment",
        evidence=(Evidence.of("environment.torch", environment.torch),),
        fixes=(by_hand("Give this user access", text),),
        supersedes=("torch-missing", "no-gpu"),
    )
