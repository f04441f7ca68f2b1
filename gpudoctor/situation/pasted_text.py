"""What a pasted text itself says against a finding: that a GPU was used, or that it is of another system."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.finding import (
    AnyRemedy,
    Evidence,
    Finding,
    Fix,
    Manual,
    ReinstallPackage,
    RemovePackage,
    ReplacePackage,
    ReplaceTorch,
    SetVariable,
    UnsetVariable,
    by_hand,
)
from gpudoctor.machine.pasted_text import WORKS_NOW
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation

_SEEN = ("error", "kernel_log")
"""Evidence that something failed, and is not only concluded."""
ONE_OF_SEVERAL = "mig-confusion"
"""A cause with which torch finds a GPU, and misses others."""
_ANYWHERE = (ReplacePackage, ReinstallPackage, RemovePackage, SetVariable, UnsetVariable)
_OF_LINUX = (
    r"gpudoctor|/(?:dev|etc|usr|proc|opt)/|LD_(?:LIBRARY_PATH|PRELOAD)|\+rocm\d|(?i:\b(?:sudo|root|apt|dnf|dmesg|modprobe|rmmod"
    r"|lsmod|dkms|systemctl|ldconfig|ulimit|kernel|linux[\w-]*|rocminfo|docker|podman|containers?|hosts?)\b)"
)
"""What advice for Linux names."""
_PYTORCH_INDEX, _OLDEST, _NEWEST = "download.pytorch.org", "sm_60", "sm_120"
_OF_SYSTEM = {"windows": r"^In Windows\b|\b[Ii]n Windows[,:]|\bwsl --", "macos": r"\b[Oo]n (?:a Mac|macOS)\b"}
"""What advice names that says what to do on another system, whatever else it names."""
_ONLY_NO_GPU = ("torch-cpu-only", "framework-cpu-only", "no-gpu", "no-driver", "program-on-cpu")
"""What says no more than that no GPU is used."""
_OTHER_TORCH = ("torch-cpu-only", "cuda-torch-on-amd")
"""What another build of torch mends on each system."""
_NO_WHEEL = "torch-wheel-missing"
_NO_DEVICE = ("cuda-visible-devices", "container-no-gpu", "container-toolkit-missing", "cuda-torch-on-amd")
"""What a runtime that finds no GPU may mean on Linux."""
_USE_THE_CPU = by_hand(
    "Let the program use the CPU",
    "The program asks for CUDA where the CPU is meant: set its device to cpu (an option such as --device "
    "cpu, or `map_location='cpu'`), or change the lines that call .cuda().",
)
_ON_A_MAC = "CUDA and ROCm do not run on macOS: torch uses Apple's GPU through its device mps, else the CPU."
_FOR_LINUX_ALONE = r"\b(?:jax|tensorflow)\[(?:and-)?(?:cuda|rocm)"
_IN_WSL = (
    "JAX, and TensorFlow since 2.11, have no GPU build for Windows. Use them in WSL2: there the driver of Windows "
    'serves (install none in WSL), and `pip install "jax[cuda12]"` or `pip install "tensorflow[and-cuda]"` brings '
    "the rest."
)
_NEWER_DRIVER = (
    "In Windows, install the newest driver for the GPU (nvidia.com/drivers, or the vendor's app), and restart. "
    "WSL 2 and the containers of Docker Desktop use that driver, too; a newer CUDA toolkit does not replace it."
)
_AMDS_TORCH_FOR_WINDOWS = by_hand(
    "Install AMD's torch for Windows",
    "The package index and PyTorch's own have no torch for AMD GPUs in Windows. AMD has one for the series RX 7000 "
    "and RX 9000, the PRO cards of their time, and Ryzen AI: install the newest driver, then torch as "
    'rocm.docs.amd.com says under "PyTorch via PIP installation" for Windows (it names the Python that it needs). '
    "For an older GPU take a program with a backend for Vulkan or DirectML.",
)
"""Source: rocm.docs.amd.com, ROCm on Radeon and Ryzen, Windows, install-pytorch (7.2)."""
_ELSEWHERE = {
    "windows": "gpudoctor has no steps for Windows: install the newest driver with the vendor's installer, and "
    "the program's build for Windows (PyTorch's web site gives the command for PyTorch).",
    "macos": "CUDA and ROCm do not run on macOS.",
}


def as_the_text_allows(finding: Finding, situation: Situation) -> Finding:
    """The finding, as a note where the text shows that a GPU was used; and with fixes that exist on its system."""
    text = situation.machine.text
    if text.works and _is_refuted(finding, situation):
        said = Evidence("torch.cuda.is_available()", "True", text.works)
        message = f"{finding.message} torch found a GPU all the same: nothing has to be done."
        return replace(finding, severity="note", message=message, evidence=(*finding.evidence, said), fixes=())
    if finding.severity != "note" and (works := _said_to_work(finding, situation)):
        message = f"{finding.message} The text says that it works all the same: nothing has to be done."
        return replace(finding, severity="note", message=message, evidence=(*finding.evidence, works), fixes=())
    elsewhere = text.foreign == "macos" and finding.slug in (*_ONLY_NO_GPU, *_NO_DEVICE)
    on_the_cpu = text.wants_cpu and not situation.machine.gpus
    if elsewhere or (on_the_cpu and finding.slug in _ONLY_NO_GPU):
        built = finding.slug == "torch-cpu-only" and text.foreign == "macos"
        message = _ON_A_MAC if built else finding.message
        fixes = _there(finding.fixes, text.foreign) if elsewhere else ()
        return replace(finding, severity="note", message=message, fixes=fixes or (_USE_THE_CPU,))
    if text.foreign and finding.fixes:
        fixes = _there(finding.fixes, text.foreign)
        other = by_hand("Look for the fix for that system", _ELSEWHERE[text.foreign])
        if text.foreign == "windows" and any(_only_in_wsl(one) for fix in finding.fixes for one in fix.remedies):
            other = by_hand("Use WSL2", _IN_WSL)
        elif text.foreign == "windows" and finding.slug == "driver-too-old":
            other = by_hand("Update the driver in Windows", _NEWER_DRIVER, "reboot")
        elif text.foreign == "windows" and finding.slug == _NO_WHEEL and not _may_be_nvidia(situation):
            other = _AMDS_TORCH_FOR_WINDOWS  # the indexes for ROCm have wheels for Linux alone
        elif text.foreign == "windows" and finding.slug in _OTHER_TORCH:
            other = _torch_for_windows(situation) if _may_be_nvidia(situation) else _AMDS_TORCH_FOR_WINDOWS
        return replace(finding, fixes=fixes or (other,))
    return finding


def _may_be_nvidia(situation: Situation) -> bool:
    return not situation.machine.of_vendor("amd") and situation.machine.text.vendor != "amd"


def _torch_for_windows(situation: Situation) -> Fix:
    """Where no GPU is named: the index whose newest torch has code for most GPUs, and that for new ones."""
    torch = situation.matrix.torch
    rows = [row for row in torch.builds("linux-x86_64") if row.origin == _PYTORCH_INDEX and row.cuda and row.archs]
    most = max((row for row in rows if _OLDEST in (row.archs or ())), key=lambda row: figures(row.version))
    new = min((row for row in rows if _NEWEST in (row.archs or ())), key=lambda row: figures(row.cuda or ""))
    text = (
        "For Windows the package index has CPU builds of torch alone. With the Python of the program, run:\n"
        "python -m pip uninstall torch torchvision torchaudio\n"
        f"python -m pip install torch torchvision torchaudio --index-url {torch.index_url(most)}\n"
        f"For a GPU of the series RTX 50, end it with {torch.index_url(new)}."
    )
    return by_hand("Install a torch for the GPU", text)


def _only_in_wsl(remedy: AnyRemedy) -> bool:
    """Whether it names a build that its framework has for Linux alone."""
    if isinstance(remedy, ReplacePackage):
        return re.match(_FOR_LINUX_ALONE, f"{remedy.name}[{remedy.extra}]") is not None
    return isinstance(remedy, Manual) and re.search(_FOR_LINUX_ALONE, remedy.text) is not None


def _said_to_work(finding: Finding, situation: Situation) -> Evidence | None:
    """Where the text says that all works now. What was seen to fail did fail."""
    works = situation.machine.text.tells(WORKS_NOW)
    if works is None or any(item.fact in _SEEN for item in finding.evidence):
        return None
    return Evidence("the text", works.text, f"text, line {works.line}")


def _is_refuted(finding: Finding, situation: Situation) -> bool:
    """Whether, if it were so, torch could have found no GPU. What was seen to fail did fail."""
    if finding.severity == "note" or any(item.fact in _SEEN for item in finding.evidence):
        return False
    starts = finding.layer in ("driver", "access") or finding.slug == "driver-too-old"
    return starts and finding.slug != ONE_OF_SEVERAL and finding.slug in situation.matrix.errors.stopping_causes


def _there(fixes: tuple[Fix, ...], system: str) -> tuple[Fix, ...]:
    """Those that a person can do on that system."""
    return tuple(fix for fix in fixes if all(_exists_there(one, system) for one in fix.remedies))


def _exists_there(remedy: AnyRemedy, system: str) -> bool:
    """Advice that is not about Linux. The package index's own torch for Windows is a CPU build, and there is no ROCm
    build."""
    if isinstance(remedy, Manual) and re.search(_OF_SYSTEM[system], remedy.text):
        return True
    if system != "windows":
        return False
    if isinstance(remedy, ReplaceTorch):
        return bool(remedy.index_url) and remedy.build.startswith("cu")
    if isinstance(remedy, Manual):
        return not re.search(_OF_LINUX, remedy.text) and ("WSL" in remedy.text or not _only_in_wsl(remedy))
    return isinstance(remedy, _ANYWHERE) and not _only_in_wsl(remedy)
