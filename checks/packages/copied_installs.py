"""What happens to installed packages that are copied or moved: they were made for another Python (GPD475), their
programs may not be executed (GPD476), their files are links that lead nowhere (GPD477).
"""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AllowExecution, Evidence, Finding, Fix
from gpudoctor.frameworks.torch.file_faults import OTHER_PYTHON, UNLINKED
from gpudoctor.frameworks.torch.reinstall import reinstall_all
from gpudoctor.frameworks.torch.unmet_dependencies import needed_first, needed_packages
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_MOST_NAMED = 5


@check("GPD475", OTHER_PYTHON, "packages")
def packages_for_another_python(situation: Situation) -> Verdicts:
    """Installed packages were made for another Python or platform.

    ## Why it matters
    Python does not find their compiled modules, or refuses to load them: "No module named 'torch._C'", "undefined
    symbol", "wrong ELF class". So it is where site-packages was copied or mounted from another environment, where a
    venv got another Python, or where `pip install --target --python-version` chose the wheels.

    ## How it is judged
    The tags of the wheel, in the WHEEL file beside its metadata, are for another Python, processor, system or C
    library (musl of Alpine Linux, glibc). If RECORD lists a module for this Python, the tags do not count. Only
    packages inside the examined environment are compared, and only those that have a RECORD. It is an error if a
    package with GPU code is among them, or something that such a package requires; else a warning.

    ## Fix safety
    Installs all of them again in the same versions, by this Python. Packages that are the same for every Python stay.
    """
    faults = situation.environment.start_faults
    wrong = needed_first(situation, (one for one in situation.machine.packages if one.made_for))
    if not wrong or any(fault.kind == "interpreter-foreign" for fault in faults):
        return  # it is the interpreter that is wrong, and not what it is compared with
    named = enumeration([f"{one.name} {one.version}" for one in wrong], _MOST_NAMED)
    made_for = " or ".join(dict.fromkeys(one.made_for for one in wrong))
    here = f"Python {situation.python} on {situation.platform.partition('-')[2]}"
    if "Linux with" in made_for:
        here += f" with {(situation.machine.system.libc.value or 'another C library').partition(' ')[0]}"
    yield Finding(
        severity="error" if wrong[0].name in needed_packages(situation) else "warning",
        message=f"{named} {'was' if len(wrong) == 1 else 'were'} made for {made_for}, and this is {here}: "
        "compiled modules of another Python or platform cannot be loaded.",
        saw=made_for,
        want=here,
        subject=f"{wrong[0].name} {wrong[0].version}",
        evidence=tuple(Evidence(one.name, f"wheel for {one.made_for}", f"{one.path}/WHEEL") for one in wrong[:10]),
        fixes=(
            Fix("Install these packages again", reinstall_all(situation, wrong, f"its files are for {made_for}")),
        ),
        supersedes=(
            "torch-import-fails",
            "framework-import-fails",
            "requirements-incomplete",
            "python-dev-missing",
            "no-gpu",
        ),
    )


_EFFECTS = {
    "ptxas": "torch.compile and other compilers of GPU code stop with `Permission denied`",
    "torch_shm_manager": "torch cannot share tensors between processes through files",
}


@check("GPD476", "programs-not-executable", "packages")
def programs_not_executable(situation: Situation) -> Verdicts:
    """Programs that GPU packages start have lost the right to be executed.

    ## Why it matters
    Triton and XLA start ptxas to compile kernels, torch starts torch_shm_manager to share tensors between processes:
    "Permission denied", "execl failed". Copies through zip files, Windows shares and some volumes lose the right.

    ## How it is judged
    RECORD names the programs in the bin folders of torch, of other GPU packages and of what they require. One is
    reported if nobody may execute it. It is a warning: work that does not need the program goes on.

    ## Fix safety
    Gives these files the right to be executed; their contents stay.
    """
    owners = [one for one in situation.machine.packages if one.locked and not one.unlinked]
    if not owners:
        return
    paths = tuple(file.path for one in owners for file in one.locked)
    names = tuple(dict.fromkeys(map(posixpath.basename, paths)))
    effects = [text for name, text in _EFFECTS.items() if name in names]
    named = ", ".join(f"{one.name} {one.version}" for one in owners)
    yield Finding(
        severity="warning",
        message=f"Nobody may execute {', '.join(names)} of {named}{': ' if effects else ''}{'; '.join(effects)}.",
        saw="no right to execute",
        want="executable programs",
        subject=f"{owners[0].name} {owners[0].version}",
        evidence=tuple(Evidence("mode", "not executable", path) for path in paths[:10]),
        fixes=(Fix("Allow their execution", (AllowExecution(paths, why="the packages start these programs"),)),),
    )


@check("GPD477", UNLINKED, "packages")
def package_links_lead_nowhere(situation: Situation) -> Verdicts:
    """The files of installed packages are links into a folder that is gone.

    ## Why it matters
    The packages cannot be imported. `uv --link-mode symlink` installs links into uv's cache: `uv cache clean`, or a
    cache in a temporary folder, takes all files away at once. No installer can repair one package alone, because the
    records of the others cannot be read.

    ## How it is judged
    METADATA or WHEEL of a package is a symbolic link, and leads nowhere. It is an error if a package with GPU code is
    among them, or something that such a package requires; else a warning.

    ## Fix safety
    Installs all of them again in the same versions. What else is wrong with them can be read only after that.
    """
    found = needed_first(situation, (one for one in situation.machine.packages if one.unlinked))
    if not found:
        return
    named = enumeration([f"{one.name} {one.version}" for one in found], _MOST_NAMED)
    yield Finding(
        severity="error" if found[0].name in needed_packages(situation) else "warning",
        message=f"The files of {named} are links that lead nowhere: the cache from which they were "
        "installed is gone.",
        saw=f"{len(found)} package{'s' * (len(found) > 1)} of links that lead nowhere",
        want="packages with their files",
        subject=f"{found[0].name} {found[0].version}",
        evidence=tuple(Evidence(one.name, "links that lead nowhere", one.path) for one in found[:10]),
        fixes=(Fix("Install these packages again", reinstall_all(situation, found, "its files are gone")),),
        supersedes=("torch-import-fails", "torch-missing", "torch-install-damaged", "python-dev-missing", "no-gpu"),
    )
