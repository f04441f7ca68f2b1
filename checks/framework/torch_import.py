"""Whether torch can be imported, and if not, why (GPD410)."""

from __future__ import annotations

import posixpath
import re

from gpudoctor.check import Verdicts
from gpudoctor.finding import Evidence, Finding, Fix, Manual, ReplacePackage, UnsetVariable
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.c_library import asked_glibc, c_library, cannot_load
from gpudoctor.frameworks.torch.gpu_coverage import FROM_AN_INDEX, better_torch
from gpudoctor.frameworks.torch.reinstall import installed_again
from gpudoctor.frameworks.torch.requirements import SLUG, explains
from gpudoctor.frameworks.torch.shadowed_libraries import pins
from gpudoctor.machine import NOT_STARTED, ImportTrial, Torch
from gpudoctor.situation import Situation, needs

_SHOW_THE_PROCESSOR = (
    "In a virtual machine, pass the host's own processor through (QEMU: -cpu host). On a processor without AVX2, "
    "build torch from source for it, or use another machine."
)
_CRASHES_OF_CUT_FILES = ("SIGBUS", "SIGSEGV", "SIGABRT")
_DAMAGED = ("torch-install-damaged",)


@check("GPD410", "torch-import-fails", "framework", needs=needs.torch)
def torch_import_fails(situation: Situation) -> Verdicts:
    """`import torch` fails in the examined environment.

    ## Why it matters
    Nothing that uses torch runs.

    ## How it is judged
    The import in a child of the examined interpreter is certain. From files alone it is certain that torch's
    libraries ask for symbols of a newer glibc than the system has, and likely where this is only known of such builds
    and systems. It is likely where they ask for a library that is in no folder of the loader. A processor without
    AVX2 is a warning by itself: wheels may end there with an illegal instruction.

    ## Fix safety
    Depends on the reason, which the message names.
    """
    torch = situation.torch
    if torch is None:
        return
    trial = torch.trial.value
    if trial is not None and not trial.ok:
        yield _failed(situation, torch, trial)
    elif trial is None and cannot_load(situation, torch):
        yield _for_a_newer_libc(situation, torch)
    elif trial is None and torch.needs_libraries:
        names = ", ".join(torch.needs_libraries[:3])
        yield Finding(
            severity="error",
            message=f"torch {torch.version} needs {names}, and no folder of the loader has it: `import torch` fails.",
            saw="no such library",
            want=names,
            subject=f"torch {torch.version}",
            confidence="likely",
            evidence=(Evidence("torch.needs_libraries", " ".join(torch.needs_libraries), torch.source),),
            fixes=(_with_what_it_needs(situation, torch),),
            possible_causes=_causes(situation, torch, torch.needs_libraries),
        )
    elif trial is None and _old_processor(situation):
        yield Finding(
            severity="warning",
            message="This processor (or virtual machine) has no AVX2. torch is slow without it, and some builds end "
            "with "
            "an illegal instruction.",
            saw="no avx2",
            want="a processor with AVX2",
            subject=f"torch {torch.version}",
            confidence="possible",
            evidence=(Evidence.of("cpu_flags", situation.machine.system.cpu_flags),),
            fixes=(Fix("Use a processor with AVX2", (Manual(_SHOW_THE_PROCESSOR),)),),
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
    why, fix = _reason(situation, torch, trial)
    died = f"ended with {trial.signal}" if trial.signal else "failed"
    said = f": {trial.error}" if trial.error else ""
    return Finding(
        severity="error",
        message=f"`import torch` {died}{said}.{f' {why}' if why else ''}".replace("..", "."),
        saw=f"import torch ended with {trial.signal}" if trial.signal else trial.error[:200] or "no answer",
        want="an import that works",
        subject=f"torch {torch.version}",
        evidence=(Evidence("torch.trial", trial.signal or trial.error, torch.trial.source),),
        fixes=(fix,),
        supersedes=("python-dev-missing", "no-gpu"),
        possible_causes=(
            *(_DAMAGED if _tells_of_damage(torch, trial) else ()),
            *((SLUG,) if explains(situation, _named_in(trial.error)) else ()),
        ),
    )


def _tells_of_damage(torch: Torch, trial: ImportTrial) -> bool:
    """Whether damaged files of torch would explain the failure. They do if the error names a damaged library or a
    module of torch, or is a crash as by a truncated file. An error that names something else has another reason."""
    if trial.signal:
        return trial.signal in _CRASHES_OF_CUT_FILES
    libraries = re.findall(r"[\w.+-]+\.so\b[\w.]*", trial.error)
    modules = re.findall(r"(?:module(?: named)?|from) '([\w.]+)'", trial.error)
    if libraries:
        return not _damaged_names(torch).isdisjoint(libraries)
    return any(name.partition(".")[0] == "torch" for name in modules)


def _causes(situation: Situation, torch: Torch, libraries: tuple[str, ...]) -> tuple[str, ...]:
    """Why libraries are missing: torch's own files, or those of packages that it requires."""
    own = _DAMAGED if _damaged_names(torch).issuperset(libraries) else ()
    return (*own, SLUG) if explains(situation, libraries) else own


def _named_in(error: str) -> tuple[str, ...]:
    """The modules and libraries that an error names."""
    modules = re.findall(r"(?:module(?: named)?|from) '([\w.]+)'", error)
    return (*modules, *re.findall(r"[\w.+-]+\.so\b[\w.]*", error))


def _damaged_names(torch: Torch) -> set[str]:
    return {posixpath.basename(file.path) for file in torch.damaged}


def _reason(situation: Situation, torch: Torch, trial: ImportTrial) -> tuple[str, Fix]:
    """What the error means, and its fix."""
    error = trial.error
    if trial.signal == "SIGILL":
        lacking = " This processor has no AVX2." if _old_processor(situation) else ""
        text = (
            "Use an older processor-neutral build of torch (conda-forge's), or a machine whose processor has AVX2; "
            "in a "
            "virtual machine pass the host's processor through (cpu host-passthrough)."
        )
        return f"The build uses an instruction that this processor does not know.{lacking}", Fix(
            "Use a processor with AVX2, or another build", (Manual(text),)
        )
    if error.startswith(NOT_STARTED):
        text = (
            "Create the environment again with a Python that exists (`python3 -m venv --clear`, `uv venv --clear`, "
            "or your project's tool), and install its packages again."
        )
        return "", Fix("Create the environment again", (Manual(text, risk="replaces"),))
    if "static TLS" in error:
        text = (
            "Import torch before other libraries, or start with LD_PRELOAD set to the library that the error names."
        )
        return "The process has no room left for thread-local data of this library.", Fix(
            "Import torch first", (Manual(text),)
        )
    if cannot_load(situation, torch):
        return "This torch is built for another C library than this system has.", better_torch(situation)[0]
    if re.search(r"version .GLIBC_[\d.]+. not found", error):
        text = "This library needs a newer C library: update the distribution, or use a container with a newer one."
        return "A library is built for a newer C library.", Fix("Use a newer distribution", (Manual(text),))
    missing = re.search(r"(lib[\w.+-]+\.so[\w.]*): cannot open shared object file", error)
    if missing:
        return f"The loader cannot find the library {missing[1]}.", _with_what_it_needs(situation, torch)
    if "undefined symbol" in error:
        variables = [name for name in ("LD_PRELOAD", "LD_LIBRARY_PATH") if situation.variable(name)]
        if variables:
            return f"A library of another version is loaded, perhaps through {variables[0]}.", Fix(
                f"Unset {variables[0]}", (UnsetVariable(variables[0], why="libraries of other versions lie there"),)
            )
        return "A library of another version is loaded.", installed_again(situation, torch)
    if trial.signal:
        return "", installed_again(situation, torch)
    return "", installed_again(situation, torch)


def _with_what_it_needs(situation: Situation, torch: Torch) -> Fix:
    """Install the missing packages that torch requires; all of torch if none is known to be missing."""
    wanted = pins(situation) if torch.origin in FROM_AN_INDEX else {}
    named = {f"{base}-cu{suffix}" if suffix else base: version for base, (suffix, version) in wanted.items()}
    listed = situation.environment.distributions.value if situation.environment else None
    there = {distribution.name for distribution in listed or ()}
    lacking = {name: version for name, version in named.items() if listed is not None and name not in there}
    if not lacking:
        return installed_again(situation, torch)
    remedies = tuple(
        ReplacePackage(name, f"=={version}", why="torch requires it") for name, version in lacking.items()
    )
    return Fix(f"Install the packages that torch requires and that are missing ({len(lacking)})", remedies)
