"""Does the installed torch have code for the cards (GPD402 to GPD409, GPD413, GPD903)."""

from __future__ import annotations

import re

from gpudoctor.builds import cards_to_serve
from gpudoctor.builds.carried import torch_vendor
from gpudoctor.check import Case, Verdicts, check
from gpudoctor.finding import (
    Evidence,
    Finding,
    Manual,
    NotJudged,
    Severity,
    WayOut,
)
from gpudoctor.isa import cuda_runs
from gpudoctor.machine import Gpu, Torch
from gpudoctor.matrix.versions import figures

from .fitting import (
    REPAIRED_WITH_TORCH,
    Fit,
    about,
    alike,
    better_torch,
    build_name,
    evidence,
    fits,
    spelled,
    weight,
    why_unknown,
)

_RESERVED = ("vfio-pci", "pci-stub", "pciback", "xen-pciback")


# --- NVIDIA ----------------------------------------------------------------------------------------


@check("GPD402", "torch-no-arch-for-gpu")
def torch_no_arch_for_gpu(case: Case) -> Verdicts:
    """The installed torch is older than the NVIDIA card: no code for it.

    ## Why it matters
    `torch.cuda.is_available()` says True, and the first kernel dies with "no kernel image is available for
    execution on the device".

    ## How it is judged
    By the code that torch's own libraries carry, else by the list of that very build in the matrix. Machine code
    runs on the same major capability and an equal or higher minor; PTX on anything newer, if the driver can compile
    it. A weaker card beside one that works is a note. A build whose list is not known is not judged.

    ## Fix safety
    Replaces torch and its companions in this environment; packages that are compiled against torch may need their
    own update. The version is kept where a build of it serves the card and the driver.
    """
    all_fits = fits(case)
    yield from _no_list(case, all_fits)
    for group in alike(tuple(fit for fit in all_fits if _lacks_cuda(fit) and not _dropped(fit))):
        yield _without_code(case, group, all_fits)


@check("GPD403", "torch-dropped-old-gpu")
def torch_dropped_old_gpu(case: Case) -> Verdicts:
    """The installed torch no longer has code for this older NVIDIA card.

    ## Why it matters
    `torch.cuda.is_available()` says True, and the first kernel dies with "no kernel image is available for
    execution on the device". A newer driver does not help.

    ## How it is judged
    As torch-no-arch-for-gpu, for a card that is older than everything the build was made for. Builds of the same
    version for an older CUDA often keep it (cu126 keeps Maxwell to Volta).

    ## Fix safety
    Replaces torch and its companions in this environment; packages that are compiled against torch may need their
    own update.
    """
    all_fits = fits(case)
    for group in alike(tuple(fit for fit in all_fits if _lacks_cuda(fit) and _dropped(fit))):
        yield _without_code(case, group, all_fits)


def _lacks_cuda(fit: Fit) -> bool:
    return fit.gpu.vendor == "nvidia" and fit.carried.runs == "no"


def _dropped(fit: Fit) -> bool:
    """Whether the card is older than all that the build has code for."""
    card = _capability(fit.gpu.arch.value or "")
    code = [_capability(arch) for arch in fit.carried.code]
    return card is not None and all(arch is None or arch > card for arch in code) and bool(code)


def _capability(arch: str) -> int | None:
    found = re.match(r"(?:sm|compute)_(\d+)", arch)
    return int(found[1]) if found else None


def _no_list(case: Case, all_fits: tuple[Fit, ...]) -> Verdicts:
    """Cards of NVIDIA of which cannot be told whether the build serves them."""
    torch = case.torch
    if torch is None:
        return
    if torch_vendor(torch) is None and torch.build != "xpu" and case.usable:
        yield NotJudged(
            why=f"whether torch {torch.version} is built for CUDA, ROCm or neither is not known", matters=True
        )
    served = any(fit.served for fit in all_fits)
    unknown = tuple(fit for fit in all_fits if fit.gpu.vendor == "nvidia" and fit.carried.runs == "unknown")
    for group in alike(unknown):
        yield NotJudged(why=why_unknown(torch, group[0]), matters=not (served and group[0].gpu.integrated))


def _without_code(case: Case, group: tuple[Fit, ...], all_fits: tuple[Fit, ...]) -> Finding:
    torch, fit = case.torch, group[0]
    assert torch is not None
    severity = weight(fit, all_fits)
    arch = fit.gpu.arch.value or ""
    few = f", only a few kernels for {arch}" if fit.carried.partial else ""
    message = (
        f"{build_name(torch)} has no kernels for {fit.gpu.name} ({arch}); it was built for "
        f"{spelled(fit.carried.code)}{few}."
    )
    if fit.carried.rule == "ptx-too-new":
        message = (
            f"{build_name(torch)} has only PTX for {fit.gpu.name} ({arch}), and this driver is too old to compile "
            "the "
            f"PTX of CUDA {torch.cuda}."
        )
    if severity == "note":
        message += " The other cards work."
    return about(
        group,
        severity=severity,
        message=message,
        saw=spelled(fit.carried.code),
        want=arch,
        evidence=evidence(torch, fit),
        ways_out=better_torch(case) if severity == "error" else (),
        refs=("pytorch/pytorch#149845",) if not _dropped(fit) else ("pytorch/pytorch#157517",),
        moots=("driver-too-old", *REPAIRED_WITH_TORCH),
    )


@check("GPD413", "torch-linalg-no-arch")
def torch_linalg_no_arch(case: Case) -> Verdicts:
    """The linear-algebra library of this torch has no code for the card.

    ## Why it matters
    torch itself runs on the card; calls such as torch.linalg.eigh or lstsq, which live in a library of their own
    (libtorch_cuda_linalg), find no code there.

    ## How it is judged
    By the architectures read from that library, else by the matrix. It is so on Turing with torch 2.11 to 2.14,
    whose linear-algebra library starts at sm_80. Read from the files; not seen to fail on a card.

    ## Fix safety
    Replaces torch in this environment. Nothing to do where no such function is used.
    """
    torch = case.torch
    row = case.matrix.build_of(torch, case.platform) if torch else None
    if torch is None:
        return
    own = torch.archs.value
    linalg = (own.linalg if own else ()) or ((row.linalg or ()) if row else ())
    for group in alike(tuple(fit for fit in fits(case) if fit.served and fit.gpu.vendor == "nvidia")):
        fit = group[0]
        arch = fit.gpu.arch.value or ""
        ptx = tuple(code for code in fit.carried.code if code.startswith("compute_"))
        if not linalg or cuda_runs(arch, linalg, ptx).runs != "no":
            continue
        yield about(
            group,
            severity="warning",
            message=(
                f"The linear-algebra library of {build_name(torch)} has no code for {fit.gpu.name} ({arch}): "
                "functions of "
                "torch.linalg may fail on this card, all else runs."
            ),
            saw=spelled(linalg),
            want=arch,
            confidence="likely",
            evidence=(
                Evidence.of("gpu.arch", fit.gpu.arch),
                Evidence("torch.archs.linalg", spelled(linalg), torch.archs.source or "compat_matrix"),
            ),
            ways_out=(
                WayOut(
                    "Compute these functions on the CPU, or use torch 2.10",
                    (
                        Manual(
                            "Move the input of torch.linalg functions to the CPU, or take torch 2.10 (cu126, cu128)."
                        ),
                    ),
                ),
            ),
        )


# --- the wrong kind of build -----------------------------------------------------------------------


@check("GPD405", "torch-cpu-only")
def torch_cpu_only(case: Case) -> Verdicts:
    """A CPU build of torch is installed although a card could be used.

    ## Why it matters
    `torch.cuda.is_available()` is False and everything runs on the processor.

    ## How it is judged
    By torch's own files. An error where a usable card is there that some build serves; integrated graphics alone, or
    a card that no build serves, is a note. Cards that are reserved, not granted or deselected do not count.

    ## Fix safety
    Replaces torch and its companions in this environment by a GPU build, which needs several gigabytes.
    """
    torch = case.torch
    if torch is None or torch_vendor(torch) != "cpu" or torch.build == "xpu" or not case.usable:
        return
    cards = cards_to_serve(case.machine, case.matrix, case.usable)
    served = tuple(gpu for gpu in cards if not gpu.integrated and _could_be_served(case, gpu))
    names = ", ".join(dict.fromkeys(gpu.name for gpu in served or cards))
    severity: Severity = "error" if served else "note"
    why = ""
    if torch.origin in ("pypi", "unknown") and case.platform == "linux-aarch64" and "+" not in torch.version:
        why = " For aarch64 the package index has CPU builds only, up to torch 2.10."
    message = f"{build_name(torch)} is a CPU build: it cannot use {names}.{why}"
    if not served:
        message = f"{build_name(torch)} is a CPU build; {names} is not used. No other build is needed for it."
    yield Finding(
        severity=severity,
        message=message,
        saw="CPU build",
        want="CUDA build" if (served or cards)[0].vendor == "nvidia" else "ROCm build",
        subject=f"torch {torch.version}",
        evidence=(
            Evidence("torch.version", torch.version, torch.source),
            Evidence("torch.build", torch.build or "no CUDA, no ROCm", torch.source),
            *(Evidence.of("gpu.arch", gpu.arch) for gpu in cards[:2]),
        ),
        ways_out=better_torch(case) if served else (),
        moots=REPAIRED_WITH_TORCH if served else (),
    )


def _could_be_served(case: Case, gpu: Gpu) -> bool:
    """Whether any build serves the card, on this driver and Python or others."""
    if not gpu.arch.value:
        return True
    policy = case.matrix.override(gpu.arch.value) if gpu.vendor == "amd" else None
    if policy and policy.value and policy.safety == "safe-class":
        return True
    from gpudoctor.builds import candidates

    choices, rejected = candidates(case.machine, case.matrix, (gpu,), None, case.platform)
    return bool(choices) or any(item.because == "driver" for item in rejected) or case.machine.system.jetson.known


@check("GPD406", "cuda-torch-on-amd")
def cuda_torch_on_amd(case: Case) -> Verdicts:
    """A CUDA build of torch is installed on a machine whose cards are AMD's.

    ## Why it matters
    CUDA builds see no AMD card: `torch.cuda.is_available()` is False. On Linux `pip install torch` brings a CUDA
    build.

    ## How it is judged
    The only usable cards are AMD's, and no NVIDIA card is there that a repair could bring back.

    ## Fix safety
    Replaces torch and its companions in this environment by a ROCm build.
    """
    torch = case.torch
    others = [gpu for gpu in case.machine.of_vendor("nvidia") if gpu.driver.value not in _RESERVED]
    if torch is None or case.built_for != "nvidia" or others or not case.usable_of("amd"):
        return
    yield _other_vendor(case, torch, "a CUDA build, and this machine's cards are AMD's", "ROCm build")


@check("GPD407", "torch-wrong-build-or-cpu")
def torch_wrong_build_or_cpu(case: Case) -> Verdicts:
    """The installed torch is built for other cards than this machine's.

    ## Why it matters
    `torch.cuda.is_available()` is False: a ROCm or XPU build sees no NVIDIA card, and a build whose files name
    neither CUDA nor ROCm uses none.

    ## How it is judged
    A ROCm build where the cards to use are NVIDIA's; an XPU build beside NVIDIA or AMD cards; a build whose label
    says CUDA or ROCm while its own files name neither.

    ## Fix safety
    Replaces torch and its companions in this environment.
    """
    torch = case.torch
    if torch is None or not case.usable:
        return
    cards = cards_to_serve(case.machine, case.matrix, case.usable)
    label = torch.build or torch.version.partition("+")[2]
    if torch.build == "xpu":
        yield _other_vendor(case, torch, "a build for Intel GPUs", "CUDA build or ROCm build")
    elif re.match(r"rocm|cu\d", label) and not (torch.hip or torch.rocm or torch.cuda):
        yield _other_vendor(case, torch, f"labelled {label}, but its own files name neither CUDA nor ROCm", label)
    elif case.built_for == "amd" and all(gpu.vendor == "nvidia" for gpu in cards) and not _serves_any(case):
        yield _other_vendor(case, torch, "a ROCm build, and this machine's cards are NVIDIA's", "CUDA build")


def _serves_any(case: Case) -> bool:
    """Whether the build works on, or may work on, a card of its own maker."""
    return any(fit.carried.runs != "no" for fit in fits(case))


def _other_vendor(case: Case, torch: Torch, what: str, want: str) -> Finding:
    from gpudoctor.builds import replacements

    cards = cards_to_serve(case.machine, case.matrix, case.usable)
    names = ", ".join(dict.fromkeys(gpu.name for gpu in cards))
    return Finding(
        severity="error",
        message=f"{build_name(torch)} is {what}: it cannot use {names}.",
        saw=f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.rocm}" if torch.rocm else torch.build or "neither",
        want=want,
        subject=f"torch {torch.version}",
        evidence=(
            Evidence("torch.version", torch.version, torch.source),
            *(Evidence("gpu", gpu.name, gpu.source) for gpu in cards[:2]),
        ),
        ways_out=replacements(case.machine, case.matrix, cards, keep=torch),
        moots=("torch-rocm-no-arch-for-gpu", "amd-igpu-interferes", *REPAIRED_WITH_TORCH),
    )


# --- the matrix ------------------------------------------------------------------------------------


@check("GPD903", "matrix-older-than-torch")
def matrix_older_than_torch(case: Case) -> Verdicts:
    """The installed torch is newer than what this gpudoctor knows.

    ## Why it matters
    What that release was built for is judged by reading its libraries; pairs and pins of it are not known.

    ## How it is judged
    By the newest release in the compatibility matrix.

    ## Fix safety
    Updating gpudoctor changes nothing in the examined environment.
    """
    torch = case.torch
    if torch is None:
        return
    release, newest = figures(torch.version.partition("+")[0])[:2], figures(case.matrix.newest_torch())[:2]
    if not release or release <= newest:
        return
    yield Finding(
        severity="note",
        message=f"torch {torch.version} is newer than the newest release that this gpudoctor knows "
        f"({case.matrix.newest_torch()}).",
        saw=torch.version,
        want=f"at most {case.matrix.newest_torch()}",
        subject=f"torch {torch.version}",
        evidence=(Evidence("matrix.version", case.matrix.tables.version, "compat_matrix"),),
        ways_out=(WayOut("Update gpudoctor", (Manual("Update gpudoctor to a version whose matrix knows it."),)),),
    )
