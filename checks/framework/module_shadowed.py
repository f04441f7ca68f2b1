"""Whether a module of somebody's own takes the place of one that torch imports (GPD416)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.finding import Confidence, Evidence, Finding, Fix, Manual, Severity
from gpudoctor.frameworks.torch import check
from gpudoctor.machine import WORKING_FOLDER, ImportTrial, ShadowingModule, Torch
from gpudoctor.situation import Situation

_SHOWN = 3


@check("GPD416", "module-shadowed", "framework")
def module_shadowed(situation: Situation) -> Verdicts:
    """A module of another origin takes the place of one that torch imports.

    ## Why it matters
    `import torch` loads a hundred modules of the standard library and of its requirements. A file queue.py,
    numbers.py or typing.py in an earlier folder of the import path is loaded in their place, and the import fails
    with an error that names neither.

    ## How it is judged
    gpudoctor compares the names of files in PYTHONPATH, the user's site folder and .pth folders with the modules that
    torch loads. It is an error if the import was tried and its error points at such a file, and a warning if it was
    not tried. A module that the import does without is a warning; one that it was tried with and works with is none.
    A file in the folder where gpudoctor was started is a warning: programs started there import it first. A package
    with its own record is another install of it, and a folder without __init__.py takes nobody's place.

    ## Fix safety
    A renamed file has to be renamed wherever it is imported.
    """
    torch, environment = situation.torch, situation.environment
    if torch is None or environment is None or not environment.shadows:
        return
    here = tuple(shadow for shadow in environment.shadows if shadow.via == WORKING_FOLDER)
    if here:
        names = _names(here)
        yield _finding(
            torch,
            here,
            f"Programs started in this folder import {names} from it, in place of the modules that torch needs.",
            "warning",
            "possible",
        )
    trial = torch.trial.value
    blamed = _blamed(situation, trial) if trial else None
    others = tuple(shadow for shadow in environment.shadows if shadow not in here)
    if blamed is not None:
        ordered = (blamed, *(shadow for shadow in others if shadow != blamed))
        yield _finding(torch, ordered, _in_place_of(blamed), "error", "certain")
        return
    left = tuple(shadow for shadow in others if not (trial and trial.ok and shadow.at_import))
    if left:
        yield _finding(torch, left, _in_place_of(left[0]), "warning", "likely" if left[0].standard else "possible")


def _blamed(situation: Situation, trial: ImportTrial) -> ShadowingModule | None:
    from gpudoctor.frameworks.torch.import_faults import blamed_shadow

    return blamed_shadow(situation, trial)


def _in_place_of(shadow: ShadowingModule) -> str:
    whose = "the standard library's" if shadow.standard else "the installed"
    return f"Python imports {shadow.path} ({shadow.via}) in place of {whose} {shadow.name}, which torch needs."


def _names(shadows: tuple[ShadowingModule, ...]) -> str:
    names = [shadow.path.rpartition("/")[2] for shadow in shadows]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _finding(
    torch: Torch, shadows: tuple[ShadowingModule, ...], message: str, severity: Severity, confidence: Confidence
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
        want=first.hides,
        subject=f"torch {torch.version}",
        confidence=confidence,
        evidence=tuple(Evidence("environment.shadows", f"{one.name} ({one.via})", one.path) for one in shadows[:5]),
        fixes=(Fix(f"Rename {_names(shadows)}", (Manual(text, risk="safe"),)),),
        supersedes=("torch-import-fails", "no-gpu") if severity == "error" else (),
    )
