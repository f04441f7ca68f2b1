"""AMD GPUs without compute access because their slot lacks PCIe atomics (GPD106)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Fix, InstallSystemPackage, Reboot
from gpudoctor.machine import VISIBILITY, Gpu, LogFault
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import lines_about, log_evidence
from gpudoctor.situation.no_kernel_driver import MOVE_FOR_ATOMICS, all_need_atomics, names_gpu, without_kfd
from gpudoctor.situation.working_gpus import worthwhile


@check("GPD106", "amd-pcie-atomics", "driver")
def amd_pcie_atomics(situation: Situation) -> Verdicts:
    """A GPU's slot does not forward PCIe atomics, so KFD leaves the GPU out.

    ## Why it matters
    ROCm needs atomic operations across PCIe on these GPUs. Without them the kernel driver gives the GPU display
    output but no compute access: HIP does not find it.

    ## How it is judged
    Certain if the kernel log says so ("PCI rejects atomics") for a GPU without a KFD node. Likely without that line,
    if the GPU is bound to amdgpu, KFD lists other nodes but not this one, and the matrix says that it needs atomics.
    Possible where of a machine only its GPU is known, one that always needs them, and that rocminfo lists none.

    ## Fix safety
    Moving a GPU to another slot changes nothing on disk.
    """
    faults = situation.log_faults("amd-pcie-atomics")
    for severity, gpus in without_kfd(situation, "amd-pcie-atomics"):
        lines = tuple(fault for gpu in gpus for fault in lines_about(gpu, faults) if names_gpu(fault, gpu))
        firmware = _atomics_firmware(situation, gpus[0], lines)
        needs = f", which firmware before release {firmware} needs" if firmware else ""
        yield finding(
            severity,
            gpus,
            message=f"The slot of {called(gpus)} does not forward PCIe atomics{needs}: the GPU gets no compute "
            "access.",
            saw=lines[-1].line if lines else "bound to amdgpu, no KFD node",
            want="a slot with PCIe atomics",
            confidence="certain" if lines else "likely",
            evidence=(*log_evidence(situation, lines), Evidence.of("amd.topology", situation.machine.amd.topology)),
            fixes=worthwhile(situation, gpus, _with_atomics(firmware)),
            supersedes=("amd-kfd-missing",),
        )
    if situation.machine.pasted is not None and not faults and _is_unseen(situation):
        gpus = situation.usable_of("amd")
        yield finding(
            "error",
            gpus,
            message=f"The ROCm runtime lists no GPU. {called(gpus)} needs a slot with PCIe atomics; without them the "
            "kernel gives it no compute access. `sudo dmesg | grep kfd` then says `PCI rejects atomics`.",
            saw="no GPU agent",
            want="a slot with PCIe atomics",
            confidence="possible",
            evidence=(Evidence.of("amd.hsa", situation.machine.amd.hsa),),
            fixes=worthwhile(situation, gpus, (MOVE_FOR_ATOMICS,)),
            supersedes=("no-driver", "no-gpu"),
        )


def _is_unseen(situation: Situation) -> bool:
    """Whether the ROCm runtime started and lists no GPU, and nothing but their slots may keep them from it."""
    hsa = situation.machine.amd.hsa.value
    asked = hsa is not None and hsa.status == 0 and not hsa.lists_gpu and bool(situation.usable_of("amd"))
    hidden = any(situation.variable(name) is not None for name in VISIBILITY)
    return (
        asked and not hidden and not situation.in_container and not situation.in_wsl and all_need_atomics(situation)
    )


def _atomics_firmware(situation: Situation, gpu: Gpu, lines: tuple[LogFault, ...]) -> int | None:
    """First firmware release of the GPU's MEC that works without PCIe atomics, if a newer one fixes the problem. The
    kernel writes "PCI rejects atomics 300<509": the loaded release, and the first that would do; 0 is none."""
    target = situation.matrix.gpus.target(gpu.arch.value)
    releases = re.search(r"atomics (\d{1,9})<(\d{1,9})", lines[-1].line) if lines else None
    if releases:
        return int(releases[2]) or None
    return target.atomics_firmware if target and target.atomics == "unless-firmware" else None


def _with_atomics(firmware: int | None) -> tuple[Fix, ...]:
    if firmware is None:
        return (MOVE_FOR_ATOMICS,)
    update = InstallSystemPackage("linux-firmware", why=f"from release {firmware} on it needs no PCIe atomics")
    return (Fix("Update linux-firmware", (update, Reboot(why="amdgpu loads the firmware"))), MOVE_FOR_ATOMICS)
