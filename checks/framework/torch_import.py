"""Whether torch can be imported, and if not, why (GPD410)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, NotJudged, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.c_library import asked_glibc, cannot_load
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.frameworks.torch.unmet_dependencies import explains
from gpudoctor.machine import ImportTrial, Torch
from gpudoctor.situation import Situation, needs
from gpudoctor.situation.c_library import c_library

if TYPE_CHECKING:
    from gpudoctor.frameworks.torch.file_faults import ImportFault

_SHOW_THE_PROCESSOR = (
    "In a virtual machine, pass the host's own processor through (QEMU: -cpu host). On a processor without AVX2, "
    "build torch from source for it, or use another machine."
)


@check("GPD410", "torch-import-fails", "framework")
def torch_import_fails(situation: Situation) -> Verdicts:
    """`import torch` fails in the examined environment.

    ## Why it matters
    Nothing that uses torch runs.

    ## How it is judged
    The import in a child of the examined interpreter is certain; one that gives no answer within its time limit
    fails, too. The error names a library, a module or a file, and the RECORD of the installed packages tells whose it
    is: that package is repaired, and torch only where its own files are wrong. A mount with noexec, missing rights,
    limits of memory and threads, and files for another Python or processor are told as such. What tells nothing is
    unknown.

    From files alone it is certain that this interpreter cannot load torch's own extension module, and that torch's
    libraries ask for symbols of a newer glibc than the system has (likely where this is only known of such builds and
    systems). It is likely where they ask for a library that is in no folder of the loader. A processor without AVX2
    is a warning by itself: wheels may end there with an illegal instruction.

    ## Fix safety
    Depends on the reason, which the message names.
    """
    torch = situation.torch
    if torch is None or needs.start_faults(situation):  # environment-broken tells the reason
        return
    trial = torch.trial
    if trial.value is not None:
        if not trial.value.ok:
            yield _failed(situation, torch, trial.value)
        return
    if trial.source:  # it was tried
        yield NotJudged(why=trial.why, matters=True)
    if cannot_load(situation, torch):
        yield _for_a_newer_libc(situation, torch)
    elif fault := _unloadable(situation, torch):
        yield _without_a_trial(torch, fault)
    elif torch.needs_libraries:
        yield _without_libraries(situation, torch)
    elif _old_processor(situation):
        yield Finding(
            severity="warning",
            message="This processor (or virtual machine) has no AVX2. torch is slow without it, and some builds end "
            "with an illegal instruction.",
            saw="no avx2",
            want="a processor with AVX2",
            subject=f"torch {torch.version}",
            confidence="possible",
            evidence=(Evidence.of("cpu_flags", situation.machine.system.cpu_flags),),
            fixes=(by_hand("Use a processor with AVX2", _SHOW_THE_PROCESSOR),),
        )


def _unloadable(situation: Situation, torch: Torch) -> ImportFault | None:
    if not torch.unloadable:
        return None
    from gpudoctor.frameworks.torch.file_faults import of_file

    faults = (of_file(situation, file) for file in torch.unloadable)
    return next((fault for fault in faults if fault), None)


def _without_a_trial(torch: Torch, fault: ImportFault) -> Finding:
    file = torch.unloadable[0]
    return Finding(
        severity="error",
        message=f"`import torch` fails: {fault.why}",
        saw=f"{file.path}: {file.detail or file.problem}",
        want="files that this Python can load",
        subject=f"torch {torch.version}",
        confidence="likely" if file.problem == "other-python" else "certain",  # names tell the Python
        evidence=(Evidence("torch.unloadable", file.problem, file.path),),
        fixes=fault.fixes,
        supersedes=("python-dev-missing", "no-gpu"),
        possible_causes=fault.causes,
    )


def _without_libraries(situation: Situation, torch: Torch) -> Finding:
    from gpudoctor.frameworks.torch.file_faults import DAMAGED, REQUIREMENTS
    from gpudoctor.frameworks.torch.pinned_packages import missing_pins

    names = ", ".join(torch.needs_libraries[:3])
    damaged = {file.path.rpartition("/")[2] for file in torch.damaged}
    text = f"Install what has {names}, or prove the import: `gpudoctor check` without `--level static` tries it."
    pins = missing_pins(situation, torch, torch.needs_libraries)
    return Finding(
        severity="error",
        message=f"torch {torch.version} needs {names}, and no folder of the loader has it: `import torch` fails.",
        saw="no such library",
        want=names,
        subject=f"torch {torch.version}",
        confidence="likely",
        evidence=(Evidence("torch.needs_libraries", " ".join(torch.needs_libraries), torch.source),),
        fixes=(pins or by_hand(f"Install {names}", text),),
        possible_causes=(DAMAGED,)
        if damaged.issuperset(torch.needs_libraries)
        else (REQUIREMENTS,)
        if explains(situation, torch.needs_libraries)
        else (),
    )


def _for_a_newer_libc(situation: Situation, torch: Torch) -> Finding:
    """The fix is a build for the C library that is there: that one belongs to the system."""
    system, libc = situation.machine.system, c_library(situation) or ""
    asked = asked_glibc(situation, torch) or ""
    read = torch.needs_glibc.known
    return Finding(
        severity="error",
        message=f"torch {torch.version} needs glibc {asked}, and this system has {libc}: `import torch` fails.",
        saw=libc,
        want=f"glibc {asked}",
        subject=f"torch {torch.version}",
        confidence="certain" if read and system.libc.known else "likely",
        evidence=(
            Evidence.of("torch.needs_glibc", torch.needs_glibc) if read else Evidence("torch_builds.glibc", asked),
            Evidence.of("system.libc", system.libc) if system.libc.known else Evidence.of("system.os", system.os),
        ),
        fixes=better_torch(situation),
        supersedes=("python-dev-missing", "no-gpu"),
    )


def _old_processor(situation: Situation) -> bool:
    system = situation.machine.system
    return (
        system.arch.value == "x86_64"
        and bool(system.cpu_flags.value)
        and "avx2" not in (system.cpu_flags.value or ())
    )


def _failed(situation: Situation, torch: Torch, trial: ImportTrial) -> Finding:
    from gpudoctor.frameworks.import_finding import failed_import
    from gpudoctor.frameworks.torch.import_faults import explain

    fault = explain(situation, torch, trial)
    return failed_import(
        "torch",
        trial,
        torch.trial.source,
        fault,
        subject=f"torch {torch.version}",
        supersedes=("python-dev-missing", "no-gpu"),
        possible_causes=fault.causes,
    )
