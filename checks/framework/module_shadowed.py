"""Whether a module of somebody's own takes the place of one that torch imports (GPD416)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Confidence, Evidence, Finding, Severity, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.machine import WORKING_FOLDER, ImportTrial, ShadowingModule
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_SHOWN = 3


@check("GPD416", "module-shadowed", "framework")
def module_shadowed(situation: Situation) -> Verdicts:
    """A module of another origin takes the place of one that torch imports.

    ## Why it matters
    `import torch` loads a hundred modules of the standard library and of its requirements; other frameworks do the
    same. A file queue.py, numbers.py or typing.py in an earlier folder of the import path is loaded in their place,
    and the import fails with an error that names neither.

    ## How it is judged
    gpudoctor compares the names of files in PYTHONPATH, the user's site folder and .pth folders with the modules
    that torch, JAX, ONNX Runtime and TensorFlow load. It is an error if the import was tried and its error points at
    such a file, and a warning if it was not tried. A module that the import does without is a warning; one that it
    was tried with and works with is none. A file in the folder where gpudoctor was started is a warning: programs
    started there import it first, also in place of a package that is not installed and that the import only tries
    (numpy.py). A package with its own record is another install of it, and a folder without __init__.py takes
    nobody's place.

    ## Fix safety
    A renamed file has to be renamed wherever it is imported.
    """
    shadows = situation.environment.shadows
    for framework in dict.fromkeys(shadow.framework for shadow in shadows):
        yield from _of_framework(situation, framework, tuple(one for one in shadows if one.framework == framework))


def _of_framework(situation: Situation, framework: str, shadows: tuple[ShadowingModule, ...]) -> Verdicts:
    here = tuple(shadow for shadow in shadows if shadow.via == WORKING_FOLDER)
    if here:
        names = _names(here)
        yield _finding(
            situation,
            here,
            f"Programs started in this folder import {names} from it, in place of the modules that {framework} "
            "needs.",
            "warning",
            "possible",
        )
    trial = _trial(situation, framework)
    blamed = _blamed(situation, trial) if trial else None
    others = tuple(shadow for shadow in shadows if shadow not in here)
    if blamed is not None:
        ordered = (blamed, *(shadow for shadow in others if shadow != blamed))
        yield _finding(situation, ordered, _in_place_of(blamed), "error", "certain")
        return
    left = tuple(shadow for shadow in others if not (trial and trial.ok and shadow.at_import))
    if left:
        yield _finding(
            situation, left, _in_place_of(left[0]), "warning", "likely" if left[0].standard else "possible"
        )


def _trial(situation: Situation, framework: str) -> ImportTrial | None:
    """What the import of a framework did, if it was tried."""
    if framework == "torch":
        return situation.torch_trial
    tried = situation.environment.frameworks.imports
    return next((one.trial.value for one in tried if one.framework == framework), None)


def _blamed(situation: Situation, trial: ImportTrial) -> ShadowingModule | None:
    from gpudoctor.frameworks.torch.import_faults.files import blamed_shadow

    return blamed_shadow(situation, trial)


def _in_place_of(shadow: ShadowingModule) -> str:
    if not shadow.hides:
        return f"Python imports {shadow.path} ({shadow.via}) where {shadow.framework} looks for {shadow.name}."
    whose = "the standard library's" if shadow.standard else "the installed"
    does = f"which {shadow.framework} needs"
    return f"Python imports {shadow.path} ({shadow.via}) in place of {whose} {shadow.name}, {does}."


def _names(shadows: tuple[ShadowingModule, ...]) -> str:
    return enumeration([shadow.path.rpartition("/")[2] for shadow in shadows], _SHOWN)


def _finding(
    situation: Situation,
    shadows: tuple[ShadowingModule, ...],
    message: str,
    severity: Severity,
    confidence: Confidence,
) -> Finding:
    first = shadows[0]
    if first.via == WORKING_FOLDER:
        text = f"Start programs from another folder, or rename {_names(shadows)} there."
    else:
        folder = first.path.rpartition("/")[0]
        text = f"Rename or remove {first.path}, or take {folder} out of what names it ({first.via})."
    return Finding(
        severity=severity,
        message=message,
        saw=first.path,
        want=first.hides or f"no other {first.name}",
        subject=_subject(situation, first.framework),
        confidence=confidence,
        evidence=tuple(Evidence("environment.shadows", f"{one.name} ({one.via})", one.path) for one in shadows[:5]),
        fixes=(by_hand(f"Rename {_names(shadows)}", text, "safe"),),
        supersedes=("torch-import-fails", "framework-import-fails", "no-gpu") if severity == "error" else (),
    )


def _subject(situation: Situation, framework: str) -> str:
    if framework == "torch":
        return f"torch {situation.torch.version}" if situation.torch else "torch"
    return f"{framework} {situation.environment.frameworks.files_of(framework).version}"
