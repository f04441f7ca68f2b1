"""GPUs inside WSL, where Windows provides the driver (GPD120, GPD121)."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, NotJudged, Severity, by_hand
from gpudoctor.machine import HsaApi, Torch
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import cuda_status, driver_answers, nvml_status
from gpudoctor.situation.wsl import (
    BRIDGE,
    OUTSIDE_WSL,
    UPDATE_WINDOWS,
    WHEEL_RUNTIME,
    dxg_opens,
    looks_behind_dxg,
    never_in_wsl,
    of_another_vendor,
    refused_in_wsl,
)

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import WslSupport

NEVER_IN_WSL = ("ROCm/legacy-rocm-build#4503", "ROCm/legacy-rocm-build#5030")


@check("GPD120", "wsl-driver", "driver")
def wsl_driver(situation: Situation) -> Verdicts:
    """The NVIDIA driver of Windows does not reach this WSL system.

    ## Why it matters
    WSL uses the driver of Windows: Linux reaches it through /dev/dxg and /usr/lib/wsl/lib. A Linux driver installed
    inside WSL puts its own libcuda in front, and CUDA fails.

    ## How it is judged
    The check looks at /dev/dxg, at the first libcuda on the load path, and at level driver at that library's answer.
    If ROCm is installed and nothing of NVIDIA's is there, torch is the wrong build, and no driver is missing.

    ## Fix safety
    Removing the Linux driver packages inside WSL does not touch Windows. Updating WSL stops its running systems.
    """
    machine = situation.machine
    if not situation.in_wsl or situation.in_container or situation.framework_vendor == "amd":
        return
    first, dxg = machine.load_path.first("libcuda.so.1"), dxg_opens(situation)
    evidence = (
        Evidence.of("system.wsl", machine.system.wsl),
        Evidence("nvidia.nodes", "/dev/dxg" if dxg else "no /dev/dxg", machine.nvidia.nodes.source),
        Evidence("load_path.libcuda", first.path if first else "absent", first.via if first else "load path"),
    )
    found: Finding | None = None
    if dxg is False:
        found = _without_dxg(machine.system.wsl.value or "") if situation.framework_vendor == "nvidia" else None
    elif first is not None and first.kind == "driver" and cuda_status(situation) != 0:
        found = _linux_driver(first.path, sure=bool(cuda_status(situation)))
    elif dxg and situation.framework_vendor == "nvidia" and not of_another_vendor(situation):
        found = _silent_driver(situation)
    if found is not None:
        supersedes = ("no-driver", "driver-too-old")
        yield replace(found, evidence=(*evidence, *found.evidence), supersedes=supersedes)


def _without_dxg(kernel: str) -> Finding:
    if kernel.endswith("-Microsoft"):  # WSL 2 writes it small
        text = "In Windows: `wsl --set-version DISTRIBUTION 2` (`wsl -l -v` lists the names), then start it again."
        message = f"This is WSL 1 (kernel {kernel}), which has no GPU: only WSL 2 has."
        fixes = (by_hand("Convert the distribution to WSL 2", text), UPDATE_WINDOWS)
        return Finding("error", message, "WSL 1", "WSL 2", "WSL", fixes=fixes)
    message = "This WSL system has no /dev/dxg: Windows gives it no GPU."
    return Finding("error", message, "no /dev/dxg", "/dev/dxg", "WSL", fixes=(UPDATE_WINDOWS,))


def _linux_driver(path: str, *, sure: bool) -> Finding:
    text = (
        "Remove the packages of the Linux driver inside WSL; /usr/lib/wsl/lib has the right libcuda. On Ubuntu:\n"
        "sudo apt-get purge 'nvidia-driver-*' 'libnvidia-compute-*'\n"
        "sudo ldconfig"
    )
    return Finding(
        severity="error",
        message=f"A Linux NVIDIA driver is installed inside WSL: {path} comes before Windows' own library in "
        "/usr/lib/wsl/lib.",
        saw=path,
        want="/usr/lib/wsl/lib/libcuda.so.1",
        subject="WSL",
        confidence="certain" if sure else "likely",
        fixes=(by_hand("Remove the Linux driver inside WSL", text, "root"),),
    )


def _silent_driver(situation: Situation) -> Finding | None:
    """The driver of Windows does not answer, or its library is not there; None where it may."""
    path = situation.machine.load_path
    missing = path.first("libcuda.so.1") is None and path.complete.value and bool(path.searched)
    cuda, nvml = cuda_status(situation), nvml_status(situation)
    fails = cuda not in (None, 0) or nvml not in (None, 0)
    if not (missing or fails) or situation.machine.variables.get("CUDA_VISIBLE_DEVICES"):
        return None
    return Finding(
        severity="error",
        message="Windows' NVIDIA driver does not answer in this WSL system."
        if fails
        else "This WSL system has no libcuda: Windows has no NVIDIA driver, or an old one that lacks it.",
        saw=f"CUDA error {cuda}, NVML error {nvml}" if fails else "no libcuda",
        want="/usr/lib/wsl/lib/libcuda.so.1 that answers",
        subject="WSL",
        confidence="likely",
        evidence=driver_answers(situation),
        fixes=(UPDATE_WINDOWS,),
    )


@check("GPD121", "rocm-wsl-unsupported", "driver")
def rocm_wsl_unsupported(situation: Situation) -> Verdicts:
    """ROCm on WSL does not support this GPU, distribution or release.

    ## Why it matters
    Inside WSL, ROCm supports only some Radeon and Ryzen products, ROCm releases and Ubuntu. Elsewhere the runtime
    finds no GPU or fails at its start (HSA_STATUS_ERROR_OUT_OF_RESOURCES).

    ## How it is judged
    The check compares a known GPU with what AMD documents for the ROCm release, as the matrix lists it. A GPU that
    no release supports there (RX 6000 and older, RX 7600) gets no other torch, and no override helps. Beside a GPU
    that is supported it is a note. At level driver the check also reports a runtime that does not start, or lists no
    GPU: the cause is a distribution other than Ubuntu, a missing librocdxg, or the GPU or the Windows driver. It
    reports nothing if the runtime lists a GPU. The runtime in wheels of ROCm before 7.2 does not support WSL: an
    error, unless the system's runtime replaced it, as AMD's guide says. Without a runtime's answer no file names the
    GPU: gpudoctor cannot tell whether it can be used.

    ## Fix safety
    Native Linux, Windows' own build, and the CPU change nothing here; another runtime or torch does.
    """
    machine, torch = situation.machine, situation.torch
    if not situation.in_wsl or torch is None or torch.rocm is None or situation.built_for != "amd":
        return
    row, trial = situation.matrix.amd.wsl_rocm(torch.rocm), torch.trial.value
    if (trial and trial.device_count) or dxg_opens(situation) is False or of_another_vendor(situation):
        return
    gpus = machine.of_vendor("amd")
    if gpus and all(never_in_wsl(situation, gpu) for gpu in gpus):
        for name, arch in {gpu.name: gpu.arch.value for gpu in gpus}.items():
            message = f"No release of ROCm supports {name} ({arch}) inside WSL, and an override does not change that."
            yield _not_on_wsl(situation, name, message, NEVER_IN_WSL)
        return
    runtime = situation.matrix.amd.wsl_runtime(torch.rocm)
    if runtime != "wheel" and torch.own_hsa_runtime and not _runtime_replaced(torch):
        yield _blind_runtime(situation, torch, row)
        return
    hsa = machine.amd.hsa.value
    if hsa and hsa.lists_gpu:
        return
    if hsa is None and not machine.gpus:
        why = "no file of WSL names the GPU behind /dev/dxg: its ROCm runtime does, at level driver"
        yield NotJudged(why=why, matters=True)
    refused = [gpu for gpu in gpus if refused_in_wsl(situation, torch.rocm or "", gpu)]
    severity: Severity = "error" if len(refused) == len(gpus) else "note"
    for gpu in refused:
        refs = (row.source,) if row else NEVER_IN_WSL
        yield _unsupported(situation, torch, f"{gpu.name} ({gpu.arch.value})", gpu.name, refs, severity)
    if hsa is not None:
        yield from _without_any_gpu(situation, torch, hsa, row)


def _without_any_gpu(situation: Situation, torch: Torch, hsa: HsaApi, row: WslSupport | None) -> Iterator[Finding]:
    """Why the runtime lists no GPU: the first of the causes that files show, else the GPU or its driver."""
    system = situation.machine.system.os.value
    if hsa.status and system is not None and system.id != "ubuntu":
        yield _unsupported(situation, torch, system.name or system.id)
    elif row and looks_behind_dxg(situation) and _bridge_is_missing(situation, row):
        yield _without_bridge(situation, torch)
    elif hsa.status and not situation.machine.of_vendor("amd") and looks_behind_dxg(situation) is not False:
        yield _unsupported(situation, torch, "this GPU, or this Windows driver")


def _unsupported(
    situation: Situation,
    torch: Torch,
    what: str,
    subject: str = "",
    refs: tuple[str, ...] = (),
    severity: Severity = "error",
) -> Finding:
    message = f"ROCm {torch.rocm} inside WSL does not support {what}."
    return _not_on_wsl(situation, subject or what, message, refs, severity)


def _bridge_is_missing(situation: Situation, row: WslSupport) -> bool:
    """Whether there surely is no librocdxg, through which a runtime of that ROCm reaches the driver of Windows."""
    path = situation.machine.load_path
    return not row.librocdxg and path.complete.value is True and bool(path.searched) and not path.first(BRIDGE)


def _without_bridge(situation: Situation, torch: Torch) -> Finding:
    found = _not_on_wsl(
        situation,
        f"no {BRIDGE}",
        f"ROCm {torch.rocm} finds no GPU inside WSL: {BRIDGE}, through which it reaches the driver of Windows, is "
        "not on the load path.",
        ("ROCm/librocdxg README",),
    )
    text = (
        "Build and install librocdxg (github.com/ROCm/librocdxg), run `sudo ldconfig`, and install a current AMD "
        "driver in Windows."
    )
    install = by_hand("Install librocdxg", text, "root")
    return replace(found, want=f"{BRIDGE} on the load path", fixes=(install, *found.fixes))


def _runtime_replaced(torch: Torch) -> bool:
    """Whether the system's HSA runtime replaced the one of pip in torch/lib, as AMD's guide says."""
    return any(posixpath.basename(file.path).startswith(WHEEL_RUNTIME) for file in torch.damaged)


_WHERE_TORCH_IS = (
    "python -c 'import importlib.util as u; print(u.find_spec(\"torch\").submodule_search_locations[0])'"
)
"""Prints its folder and does not import it."""


def _blind_runtime(situation: Situation, torch: Torch, row: WslSupport | None) -> Finding:
    """The runtime inside torch looks for GPUs in /dev/kfd, which WSL does not have."""
    from shlex import quote

    folder = quote(posixpath.join(torch.path, "lib")) if torch.path else f'"$({_WHERE_TORCH_IS})"/lib'
    system = (
        f"Install AMD's ROCm {torch.rocm} for WSL (`amdgpu-install --usecase=wsl,rocm --no-dkms`), and delete "
        f"torch's own runtime, so that the system's is loaded:\nrm {folder}/{WHEEL_RUNTIME}*"
    )
    newer = (
        "Install librocdxg (github.com/ROCm/librocdxg/releases) and a torch of ROCm 7.2 or newer; with ROCm before "
        "7.13 also set HSA_ENABLE_DXG_DETECTION=1."
    )
    exchange = by_hand("Let torch load WSL's ROCm runtime", system, "root")
    return Finding(
        severity="error",
        message=f"{WHEEL_RUNTIME} of ROCm {torch.rocm} in torch does not support WSL: it looks for /dev/kfd and "
        "finds no GPU.",
        saw=f"the runtime of ROCm {torch.rocm} in torch/lib",
        want="a runtime that uses /dev/dxg",
        subject="ROCm on WSL",
        confidence="likely",
        evidence=(
            Evidence.of("system.wsl", situation.machine.system.wsl),
            Evidence("torch.rocm", torch.rocm or "", torch.source),
        ),
        fixes=(
            *((exchange,) if row and row.runtime == "system" else ()),
            by_hand("Use a torch of ROCm 7.2 or newer", newer, "replaces"),
        ),
        refs=(row.source,) if row else (),
    )


def _not_on_wsl(
    situation: Situation, what: str, message: str, refs: tuple[str, ...], severity: Severity = "error"
) -> Finding:
    return Finding(
        severity=severity,
        message=message,
        saw=what,
        want="what AMD lists for ROCm on WSL",
        subject="ROCm on WSL",
        confidence="likely",
        evidence=(
            Evidence.of("system.wsl", situation.machine.system.wsl),
            Evidence.of("amd.hsa", situation.machine.amd.hsa),
        ),
        fixes=(OUTSIDE_WSL,),
        refs=refs,
        supersedes=("rocm-wsl-dxg-env",),
    )
