"""Whether torch is installed, complete, and the copy that programs import (GPD401, GPD411, GPD412)."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts
from gpudoctor.finding import (
    AnyRemedy,
    Evidence,
    Finding,
    Fix,
    Manual,
    NotJudged,
    RemovePackage,
    SetVariable,
    UnsetVariable,
    by_hand,
)
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.machine import DamagedFile, Torch, TorchCopy
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_OWN_LIBRARIES = ("libtorch", "libc10", "libcaffe2", "libshm")
_OPENED_LATER = ("libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")

_AHEAD = ("PYTHONPATH", "user site", ".pth")
"""Places that can put another torch before the one that is installed in the environment."""

_NAME_ANOTHER = by_hand(
    "Install torch, or name the environment that has it",
    "Install the build that `gpudoctor recommend` names, or name an environment with `--python PATH`.",
)

_HIDES_ANOTHER = ("torch-no-arch-for-gpu", "torch-dropped-old-gpu", "torch-rocm-no-arch-for-gpu", "torch-cpu-only")
_WRONG_COPY = (
    *_HIDES_ANOTHER, "cuda-torch-on-amd", "torch-wrong-build-or-cpu", "rocblas-no-arch", "driver-too-old", "no-gpu",
    "torch-import-fails", "torch-install-damaged", "torchvision-mismatch", "torchaudio-mismatch", "numpy2-old-torch",
    "cudnn-mismatch", "nccl-shadowed", "ld-library-path-shadow",
)  # fmt: skip


@check("GPD401", "torch-missing", "framework")
def torch_missing(situation: Situation) -> Verdicts:
    """No torch is installed in the examined environment.

    ## Why it matters
    Nothing that needs torch runs there. Often another environment was intended: `--python` names it.

    ## How it is judged
    No folder that the interpreter imports from holds a torch. This is an error if torch is required or smoke kernels
    were asked for, or if a GPU is usable and an installed package with GPU code requires torch (torchvision, vLLM
    ...); else a note. An environment of another framework (JAX, TensorFlow ...) needs no torch.

    ## Fix safety
    Installs torch into this environment; other packages stay as they are. Where no GPU could use it and nothing
    requires it, there is nothing to fix.
    """
    environment, required = situation.machine.environment.value, situation.requires_torch
    if environment is None:
        if (situation.usable or required) and situation.machine.environment.undecided:
            yield NotJudged(why=f"no Python environment was read: {situation.machine.environment.why}", matters=True)
        return
    if environment.torch.undecided and situation.machine.pasted is None:
        yield NotJudged(
            why=f"whether torch is installed is unknown: {environment.torch.why}",
            matters=bool(situation.usable) or required,
        )
    if not environment.torch.absent or environment.torch_remains:
        return  # torch-install-interrupted tells what is left of it
    needing = _needing_torch(situation) if situation.usable else ()
    if situation.others and not (required or needing):
        return
    trace = environment.torch.why.removeprefix("no torch there").removeprefix("; ")
    left_over = f" ({trace})" if trace else ""
    needed_by = f", and {enumeration(needing, 3)} cannot work without" if needing else ""
    yield Finding(
        severity="error" if required or needing else "note",
        message=f"There is no torch in {environment.prefix or 'the examined environment'}{left_over}{needed_by}.",
        saw="no torch",
        subject="Python environment",
        evidence=(Evidence.of("environment.torch", environment.torch),),
        fixes=better_torch(situation) if situation.usable else (_NAME_ANOTHER,) if required else (),
    )


def _needing_torch(situation: Situation) -> list[str]:
    """Installed packages with GPU code that require torch."""
    from gpudoctor.frameworks.torch.unmet_dependencies import required_here

    asked = (one.by for one in required_here(situation) if one.what.name == "torch")
    names = dict.fromkeys(f"{one.name} {one.version}" for one in asked if one.name in situation.matrix.gpu_packages)
    return list(names) if situation.machine.pasted is None else []


@check("GPD412", "torch-shadowed", "framework")
def torch_shadowed(situation: Situation) -> Verdicts:
    """Python imports another torch than the installed one.

    ## Why it matters
    Commands that install or update torch change one copy while programs import another, so nothing seems to help.
    Mixed files of two versions fail in unpredictable ways.

    ## How it is judged
    gpudoctor looks into every folder that the interpreter imports from, in order. It is an error if PYTHONPATH, the
    user's site folder or a .pth file puts a torch of another version before the installed one, if a file torch.py
    takes its place, or if the installers' records name another version than the files. A torch in the folder where
    gpudoctor was started is a warning: programs started there import it first. So is a record without a list of files
    beside a whole torch, and conda's record of a torch that pip replaced by a whole one. Copies of one version, and
    what an interrupted uninstall leaves, are a note.

    ## Fix safety
    Unsetting PYTHONPATH affects other packages found through it, and PYTHONNOUSERSITE those in the user's site
    folder. Removing a copy needs that copy's own installer; a record that lists no files is a folder to remove.
    For copies of one version, and remains that nothing is imported from, there is nothing to fix.
    """
    torch = situation.torch
    if torch is None:
        return
    importable = tuple(copy for copy in torch.copies if not copy.is_trace)
    here = next((copy for copy in torch.copies if copy.via == "working folder"), None)
    if here is not None:
        yield _in_working_folder(torch, here)
    traces = tuple(copy for copy in torch.copies if copy.is_trace and copy is not here)
    first, others = importable[:1], importable[1:]
    if first and first[0].path.endswith("/torch.py"):
        yield _shadowed(torch, first[0], others)
        return
    if first and others and first[0].via in _AHEAD:
        hidden = tuple(copy for copy in others if copy.version != first[0].version)
        if hidden:
            yield _shadowed(torch, first[0], hidden)
            return
        yield _note(f"torch {torch.version} is installed twice: {first[0].path} and {others[0].path}.", importable)
    stale = [trace for trace in traces if trace.via in ("left-over dist-info", "conda record")]
    stale.sort(key=lambda trace: trace.via != "conda record")  # no pip takes that away
    if stale:
        left = _left_record(situation, torch, stale[0]) or _unknown_to_conda(situation, torch, stale[0])
        yield left or _two_records(situation, torch, stale[0])
    elif traces:
        yield _note(f"An earlier install of torch left {traces[0].path} ({traces[0].via}).", traces)


def _shadowed(torch: Torch, first: TorchCopy, hidden: tuple[TorchCopy, ...]) -> Finding:
    also = hidden[0] if hidden else None
    what = f"torch {first.version}" if first.version else first.path
    behind = f", before torch {also.version or 'of unknown version'} in {also.path}" if also else ""
    return Finding(
        severity="error",
        message=f"Python imports {what} from {posixpath.dirname(first.path)} ({first.via}){behind}.",
        saw=f"{first.path} ({first.version or 'no version'})",
        want=f"{also.path} ({also.version or 'no version'})" if also else "the torch package",
        subject=f"torch {torch.version}",
        evidence=tuple(map(Evidence.of_copy, (first, *hidden))),
        fixes=(_own_torch_first(first),),
        supersedes=_WRONG_COPY,
    )


def _in_working_folder(torch: Torch, copy: TorchCopy) -> Finding:
    title = f"Start programs from another folder, or rename {copy.path}"
    return Finding(
        severity="warning",
        message=f"Programs started in this folder import {copy.path} before torch {torch.version}.",
        saw=copy.path,
        want="no torch in the folder where programs are started",
        subject=copy.path,
        confidence="possible",
        evidence=(Evidence("torch.copy", copy.via, copy.path),),
        fixes=(by_hand(title, f"{title}.", "safe"),),
    )


def _own_torch_first(first: TorchCopy) -> Fix:
    folder = posixpath.dirname(first.path)
    if first.path.endswith("/torch.py"):
        text = f"Rename {first.path}: Python imports a file of that name in place of torch."
        return by_hand("Rename the file torch.py", text)
    why = f"Python then no longer looks into {folder} first"
    if first.via == "PYTHONPATH":
        return Fix("Unset PYTHONPATH, or take that folder out of it", (UnsetVariable("PYTHONPATH", why=why),))
    if first.via == "user site":
        from gpudoctor.situation.import_order import NO_USER_SITE, remedy_title

        keep_out = SetVariable(NO_USER_SITE, "1", why=why)
        return Fix(remedy_title(keep_out), (keep_out,))
    text = f"Take {folder} out of the .pth file that names it, or remove the torch there."
    return by_hand("Take the folder out of the .pth file", text, "replaces")


def _left_record(situation: Situation, torch: Torch, stale: TorchCopy) -> Finding | None:
    """Of a record that lists no files beside a whole torch with a record of its own; None: the two may be mixed."""
    record = situation.machine.installed("torch")
    fails = situation.torch_trial is not None and not situation.torch_imported
    if record is None or stale.path not in record.strays or record.lacks or torch.damaged or fails:
        return None
    from shlex import quote  # few reports show a command

    text = f"Remove the folder, which no installer does:\nrm -rf {quote(stale.path)}"
    return Finding(
        severity="warning",
        message=f"{posixpath.basename(stale.path)} is left of an earlier torch and lists no files. torch "
        f"{torch.version} is whole, but programs that ask for its version (transformers, accelerate) may be told "
        f"{stale.version}, or none.",
        saw=f"record of {stale.version}",
        want=f"one record, of {torch.version}",
        subject=f"torch {torch.version}",
        evidence=(Evidence.of_copy(stale),),
        fixes=(by_hand("Remove what is left of the earlier torch", text, "replaces"),),
    )


def _unknown_to_conda(situation: Situation, torch: Torch, stale: TorchCopy) -> Finding | None:
    """Of a whole torch that pip put in the place of conda's; None: the files of both may be mixed."""
    record = situation.machine.installed("torch")
    fails = situation.torch_trial is not None and not situation.torch_imported
    if stale.via != "conda record" or record is None or record.installer in ("", "conda"):
        return None
    if record.lacks or record.strays or record.twins or torch.damaged or fails:
        return None
    text = (
        "Leave it as it is while it works. Before conda installs or updates anything here, make a new environment "
        "and install torch into it once, with either conda or pip."
    )
    return Finding(
        severity="warning",
        message=f"torch {torch.version} took the place of conda's {stale.version}. It is whole, but conda still "
        f"counts {stale.version} as installed, and writes over its files when it next updates or removes it.",
        saw=f"conda's record of {stale.version}",
        want=f"one record, of {torch.version}",
        subject=f"torch {torch.version}",
        confidence="likely",
        evidence=(Evidence.of_torch(torch), Evidence.of_copy(stale)),
        fixes=(by_hand("Do not let conda change packages here", text),),
    )


def _two_records(situation: Situation, torch: Torch, stale: TorchCopy) -> Finding:
    from gpudoctor.frameworks.torch.reinstall import same_build

    remedies: tuple[AnyRemedy, ...] = (
        RemovePackage("torch", why="all its records must go"),
        same_build(situation, torch, why="files and record of one version"),
    )
    record = situation.machine.installed("torch")
    if record is not None and stale.path in record.strays:
        remedies = remedies[1:]  # nothing can uninstall what has no RECORD; its folder goes with the other files
    if stale.via == "conda record" or torch.origin in ("conda", "conda-forge"):
        text = (
            "Make a new environment and install torch into it once, with either conda or pip: here both "
            "wrote their files into one folder."
        )
        remedies = (Manual(text, risk="safe"),)
    return Finding(
        severity="error",
        message=f"The files are those of torch {torch.version}, and {posixpath.basename(stale.path)} says "
        f"{stale.version}: two installs of torch are mixed.",
        saw=f"record of {stale.version}",
        want=f"one torch, {torch.version}",
        subject=f"torch {torch.version}",
        evidence=(Evidence.of_torch(torch), Evidence.of_copy(stale)),
        fixes=(Fix("Install torch cleanly again", remedies),),
        supersedes=("torch-install-damaged", "torch-import-fails"),
    )


def _note(message: str, copies: tuple[TorchCopy, ...]) -> Finding:
    return Finding(
        severity="note",
        message=message,
        saw=", ".join(copy.path for copy in copies),
        subject="torch",
        evidence=tuple(map(Evidence.of_copy, copies)),
    )


@check("GPD411", "torch-install-damaged", "framework")
def torch_install_damaged(situation: Situation) -> Verdicts:
    """Files of the installed torch are missing or cut short.

    ## Why it matters
    A full disk, an interrupted download or two installers at once leave a torch that fails at import or later.

    ## How it is judged
    gpudoctor compares the files that torch cannot do without with the sizes in the installer's RECORD. Headers, tests
    and other parts that images leave out to save room do not count; edited files are not damage. It is an error.
    Where the import was tried and works, a lost library was not needed, and a lost Python file is a warning: it is
    imported later, by torch.compile for example. So is a lost library that torch opens later. Where nothing was
    imported, and the loader finds another copy of the only library that is lost (libgomp), it is a likely warning.

    ## Fix safety
    Installs the same version again.
    """
    torch = situation.torch
    if torch is None or not torch.damaged:
        return
    from gpudoctor.situation.wsl import WHEEL_RUNTIME

    exchanged = WHEEL_RUNTIME if situation.in_wsl and torch.hip else None
    damaged = tuple(
        file
        for file in torch.damaged
        if file.problem in ("missing", "truncated") and not (exchanged and exchanged in file.path)
    )
    record = situation.machine.installed("torch")
    imported = situation.torch_imported
    if imported:
        damaged = tuple(file for file in damaged if _is_used_later(file.path))
    if not damaged or (record is not None and record.unlinked):
        return
    from gpudoctor.frameworks.torch.reinstall import reinstall_torch

    more = f" and {len(damaged) - 1} more" if len(damaged) > 1 else ""
    replaced = not imported and all(_is_elsewhere(torch, file) for file in damaged)
    later = " `import torch` does without it, and what needs it fails." if imported else ""
    later = " The loader finds another one, which may do." if replaced else later
    yield Finding(
        severity="warning" if imported or replaced else "error",
        message=f"The installed torch {torch.version} is damaged: {damaged[0].path} is {damaged[0].problem}{more}."
        f"{later}",
        saw=f"{damaged[0].problem}: {damaged[0].path}",
        want="all files as installed",
        subject=f"torch {torch.version}",
        confidence="likely" if replaced else "certain",
        evidence=tuple(Evidence("torch.damaged", file.problem, file.path) for file in damaged[:5]),
        fixes=(reinstall_torch(situation, torch),),
        supersedes=("torch-import-fails", "no-gpu"),
    )


def _is_used_later(path: str) -> bool:
    """Whether code that runs after `import torch` needs a file."""
    if path.endswith(".py"):
        return "/testing/" not in path
    return posixpath.basename(path) in _OPENED_LATER


def _is_elsewhere(torch: Torch, file: DamagedFile) -> bool:
    """Whether a lost library is none of torch's own, and the loader finds one of its name all the same."""
    name = posixpath.basename(file.path)
    foreign = ".so" in name and "/torch/lib/" in file.path and not name.startswith(_OWN_LIBRARIES)
    return foreign and file.problem == "missing" and name not in torch.needs_libraries
