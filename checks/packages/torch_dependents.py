"""Packages compiled against torch, NumPy, and what Triton needs (GPD422 to GPD425, GPD429, GPD438, GPD473)."""

from __future__ import annotations

from gpudoctor.check import Verdicts
from gpudoctor.dependencies import find_one, parsed
from gpudoctor.finding import Evidence, Finding, Fix, InstallSystemPackage, ReplacePackage, by_hand
from gpudoctor.frameworks.torch import check
from gpudoctor.frameworks.torch.installed_build import version_evidence
from gpudoctor.machine import Distribution
from gpudoctor.matrix.versions import package_matches
from gpudoctor.situation import Situation

# --- NumPy -----------------------------------------------------------------------------------------


@check("GPD422", "numpy2-old-torch", "packages")
def numpy2_old_torch(situation: Situation) -> Verdicts:
    """NumPy 2 is installed beside a torch that was built for NumPy 1.

    ## Why it matters
    torch prints "A module that was compiled using NumPy 1.x cannot be run in NumPy 2", and tensor.numpy() fails with
    "Numpy is not available".

    ## How it is judged
    torch before 2.3 is installed with NumPy 2 or newer.

    ## Fix safety
    Replaces NumPy in this environment; packages that need NumPy 2 stop working. The alternative is a newer torch.
    """
    torch = situation.torch
    for row in situation.matrix.tables.package_conflicts if torch else ():
        installed = situation.machine.installed(row.package)
        if row.slug != "numpy2-old-torch" or torch is None or installed is None:
            continue
        if not (
            package_matches(row.version, installed.version) and package_matches(row.other_version, torch.version)
        ):
            continue
        newer = "Use torch 2.3 or newer, which works with NumPy 2."
        yield Finding(
            severity="error",
            message=f"torch {torch.version} was built for NumPy 1, and NumPy {installed.version} is installed.",
            saw=f"numpy {installed.version}",
            want="numpy <2",
            subject=f"numpy {installed.version}",
            evidence=version_evidence(torch, installed),
            fixes=(
                Fix("Install NumPy 1", (ReplacePackage("numpy", "<2", why="this torch was built for NumPy 1"),)),
                by_hand("Use a newer torch", newer, "replaces"),
            ),
            refs=(row.source,),
            supersedes=("torch-import-fails",),
        )


# --- packages that are compiled against torch ------------------------------------------------------


@check("GPD423", "flash-attn-abi", "packages")
def flash_attn_abi(situation: Situation) -> Verdicts:
    """The installed flash-attn was compiled for another torch.

    ## Why it matters
    `import flash_attn` fails with an undefined symbol of c10 or at.

    ## How it is judged
    By the torch in the wheel's own name (…torch2.7cxx11abiTRUE…), as its version or its recorded address keeps it,
    else by the matrix. A flash-attn that was compiled here names no torch and is not checked.

    ## Fix safety
    Replaces only flash-attn; if no wheel fits it is compiled, which takes long.
    """
    yield from _dependent(situation, "flash-attn", ("Dao-AILab/flash-attention#931",))


@check("GPD424", "xformers-mismatch", "packages")
def xformers_mismatch(situation: Situation) -> Verdicts:
    """The installed xformers was compiled for another torch.

    ## Why it matters
    "xFormers can't load C++/CUDA extensions": its attention falls back or fails.

    ## How it is judged
    By the torch that the package itself requires, else by the matrix. Another release line is an error, another patch
    release a warning.

    ## Fix safety
    Replaces only xformers. Installing it without care replaces torch.
    """
    yield from _dependent(situation, "xformers", ("invoke-ai/InvokeAI#6590",))


@check("GPD425", "vllm-torch-abi", "packages")
def vllm_torch_abi(situation: Situation) -> Verdicts:
    """The installed vLLM was compiled for another torch.

    ## Why it matters
    `import vllm._C` fails with an undefined symbol.

    ## How it is judged
    By the torch that the package itself requires exactly, else by the matrix. Another release line is an error,
    another patch release a warning. A vLLM whose libraries were not read is judged by the CUDA of its wheel, too. One
    that was built here, or came with an image, is not checked.

    ## Fix safety
    Replaces torch with the one that vLLM was compiled for, or vLLM with a build for this torch.
    """
    yield from _dependent(situation, "vllm", ("vllm-project/vllm#13608",))


@check("GPD473", "sglang-torch-mismatch", "packages")
def sglang_torch_mismatch(situation: Situation) -> Verdicts:
    """The installed SGLang was made for another torch.

    ## Why it matters
    sglang-kernel, which it computes with, is compiled for that torch: "Could not load any common_ops library".

    ## How it is judged
    By the torch that SGLang requires exactly. Another release line is an error, unless the libraries of sglang-kernel
    were read and find all that they need; another patch release is a warning.

    ## Fix safety
    Replaces torch with the one that SGLang requires, or SGLang with a release for this torch. vLLM often requires
    another torch: then each needs an environment of its own.
    """
    yield from _dependent(situation, "sglang", ("sgl-project/sglang#18203",), ("sglang-kernel", "sgl-kernel"))


@check("GPD438", "torchcodec-mismatch", "packages")
def torchcodec_mismatch(situation: Situation) -> Verdicts:
    """The installed TorchCodec was compiled for another torch.

    ## Why it matters
    `import torchcodec` fails with "Could not load libtorchcodec" or an undefined symbol; so do torchaudio.load and
    the audio and video features of other packages that use it.

    ## How it is judged
    By the table of TorchCodec's own README. A release that the table does not have is not checked, nor is one that
    was built here.

    ## Fix safety
    Replaces only TorchCodec.
    """
    yield from _dependent(situation, "torchcodec", ("meta-pytorch/torchcodec#1180",))


def _dependent(situation: Situation, name: str, refs: tuple[str, ...], compiled: tuple[str, ...] = ()) -> Verdicts:
    """`compiled` are the packages that hold its libraries, if not the package itself."""
    torch, installed = situation.torch, situation.machine.installed(name)
    if torch is None or installed is None:
        return
    from gpudoctor.frameworks.described_packages import supports_none
    from gpudoctor.frameworks.torch.compiled_packages import (
        built_for,
        cuda_needed,
        needs_other_cuda,
        symbol_evidence,
        torch_mismatch,
        unloadable,
    )
    from gpudoctor.frameworks.torch.release_for_torch import for_this_torch

    severity = torch_mismatch(situation, name, compiled)
    if severity is None or supports_none(situation, installed):  # no torch helps there
        return
    wanted, source = built_for(situation, installed)
    release = torch.release
    lacking = tuple(one for package in (name, *compiled) for one in unloadable(situation, package))
    if lacking and wanted and package_matches(wanted, release):
        wanted = ""  # what it says of itself does not hold
    rival = _rival(situation, name, wanted)
    beside = f" {rival.name} {rival.version} also requires another torch." if rival else ""
    cuda = f" with CUDA {cuda_needed(situation, name)}" if needs_other_cuda(situation, installed, torch) else ""
    built = f"torch {wanted.removeprefix('==')}{cuda}" if wanted else "another torch"
    symbol = f": it needs {lacking[0].undefined[0]}, which this torch does not define" if lacking else ""
    yield Finding(
        severity=severity,
        message=f"{name} {installed.version} was built for {built}, and torch {torch.version} is installed{symbol}."
        f"{beside}",
        saw=f"torch {torch.version}",
        want=f"torch {wanted}{cuda}" if wanted else f"a torch with {lacking[0].undefined[0]}",
        subject=f"{name} {installed.version}",
        confidence="certain" if lacking else "likely",
        evidence=(
            *version_evidence(torch, installed),
            *((Evidence(f"{name} was built for", f"torch {wanted}", source),) if wanted else ()),
            *symbol_evidence(lacking),
        ),
        fixes=(*_apart(name, rival), *for_this_torch(situation, torch, name, wanted)),
        refs=refs,
    )


def _rival(situation: Situation, name: str, wanted: str) -> Distribution | None:
    """Another framework here that requires exactly another torch: no torch suits both."""
    names = (package for row in situation.matrix.tables.frameworks_on_torch for package in row.packages)
    for other in names if wanted.startswith("==") else ():
        installed = situation.machine.installed(other) if other != name else None
        pins = (parsed(line) for line in installed.requires) if installed else ()
        for pin in pins:
            if pin and pin.name == "torch" and pin.specifier.startswith("==") and pin.specifier != wanted:
                return installed
    return None


def _apart(name: str, rival: Distribution | None) -> tuple[Fix, ...]:
    if rival is None:
        return ()
    text = f"Install {name} or {rival.name} into an environment of its own: no torch suits both."
    return (by_hand(f"Separate {name} and {rival.name}", text, "replaces"),)


# --- Triton ----------------------------------------------------------------------------------------


@check("GPD429", "python-dev-missing", "packages")
def python_dev_missing(situation: Situation) -> Verdicts:
    """Python's C headers, which Triton needs, are missing.

    ## Why it matters
    Triton (torch.compile, many attention kernels) compiles a small C module when it is first used: "fatal error:
    Python.h: No such file or directory".

    ## How it is judged
    Triton is installed, a GPU is usable, and the interpreter's Python.h is missing.

    ## Fix safety
    Installs a package of the distribution as root; nothing else changes.
    """
    environment = situation.environment
    if situation.torch is None or not situation.built_for or not situation.usable_of(situation.built_for):
        return
    triton = find_one("triton", environment.distribution)
    headers = environment.python_headers
    if triton is None or headers.undecided or headers.value is True:
        return
    python = environment.python.value or ""
    remedy = InstallSystemPackage(
        "python-headers", version=python.rstrip("t"), why="Triton compiles against Python.h"
    )
    yield Finding(
        severity="warning",
        message=f"Python.h of Python {python} is missing: Triton (torch.compile) cannot compile its launcher.",
        saw="no Python.h",
        want=f"the headers of Python {python}",
        subject=f"{triton.name} {triton.version}",
        evidence=(Evidence.of("environment.python_headers", headers), Evidence.of_package(triton)),
        fixes=(Fix("Install Python's headers", (remedy,)),),
        refs=("pytorch/pytorch#129351",),
    )
