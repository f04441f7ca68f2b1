"""How the GPUs of one machine reach each other: NVLinks that are down, PCI bridges in the way (GPD152, GPD153)."""

from __future__ import annotations

from collections import Counter

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, by_hand
from gpudoctor.machine import Gpu
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import finding, group_by, subject_of
from gpudoctor.situation.network import active_ports

_ENOUGH = 3


@check("GPD152", "pcie-acs-redirects", "driver")
def pcie_acs_redirects(situation: Situation) -> Verdicts:
    """PCI bridges send transfers between GPUs up to the processor (ACS).

    ## Why it matters
    Direct transfers between GPUs, and between GPUs and RDMA devices, then take the way through the processor's root
    complex: they are slower, and with some processors they hang.

    ## How it is judged
    The check reads the ACS control register of the bridges above the GPUs: the bits that redirect requests or
    completions of peers. Only root may read it. It is a note, for several usable GPUs on bare metal that use PCIe for
    transfers: no NVLink connects them, and libcuda does not rule transfers out, or an RDMA port is active. Virtual
    machines need ACS.

    ## Fix safety
    Without ACS, PCI devices are less separated from each other: keep it where devices are passed through to virtual
    machines.
    """
    system, bridges = situation.machine.system, situation.machine.system.acs
    gpus = situation.usable
    if not bridges.value or len(gpus) < 2 or not system.virtual_machine.absent:
        return
    by_nvlink = all(gpu.board.links_up for gpu in gpus)
    if (by_nvlink or not _reach_each_other(situation, gpus)) and not active_ports(situation.machine):
        return
    text = (
        "Where no device is passed through to a virtual machine, switch ACS off in the firmware setup, or "
        "after each boot with `sudo setpci -s BRIDGE ECAP_ACS+0x6.w=0000` for these bridges: "
        f"{enumeration(bridges.value, 8)}. Measure before and after, for example with nvbandwidth."
    )
    yield finding(
        "note",
        gpus,
        message=f"ACS is on in PCI bridges above the GPUs ({len(bridges.value)}): direct transfers go through the "
        "processor.",
        saw=f"request or completion redirect in {enumeration(bridges.value, 4)}",
        want="ACS off in the bridges above GPUs",
        confidence="possible",
        evidence=(Evidence.of("system.acs", bridges), Evidence.of("system.iommu", system.iommu)),
        fixes=(by_hand("Switch ACS off", text, "root"),),
        refs=("NVIDIA NCCL user guide, PCI Access Control Services",),
    )


def _reach_each_other(situation: Situation, gpus: tuple[Gpu, ...]) -> bool:
    """False if libcuda says that no GPU reaches another one."""
    if any(gpu.vendor == "amd" for gpu in gpus):
        return True
    cuda = situation.machine.nvidia.cuda.value
    peers = [device.peers for device in (cuda.devices if cuda else None) or () if device.peers is not None]
    return not peers or any(peers)


@check("GPD153", "nvlink-down", "driver")
def nvlink_down(situation: Situation) -> Verdicts:
    """A GPU has fewer active NVLinks than the others of its model.

    ## Why it matters
    Transfers from and to this GPU are slower, and every collective operation waits for it. On machines with NVSwitch
    a GPU without its links does not take part at all.

    ## How it is judged
    NVML counts the active links. The check compares three or more usable GPUs of one model: what most of them have is
    normal. A GPU with fewer is a warning. One with none is reported only on machines with NVSwitch: bridges need not
    connect all GPUs. GPUs in MIG mode have no links.

    ## Fix safety
    A reset or reboot ends every program on the GPUs. Checking seats and bridges means opening the machine.
    """
    linked = (gpu for gpu in situation.usable_of("nvidia") if gpu.nvml and not gpu.nvml.mig)
    models = group_by((gpu for gpu in linked if gpu.board.links_up is not None), lambda gpu: gpu.name)
    switched = bool(situation.machine.nvidia.fabric.switches.value)
    for gpus in models.values():
        usual, most = Counter(gpu.board.links_up or 0 for gpu in gpus).most_common(1)[0]
        odd = tuple(gpu for gpu in gpus if (gpu.board.links_up or 0) < usual and (gpu.board.links_up or switched))
        if odd and len(gpus) >= _ENOUGH and 2 * most > len(gpus):
            yield _fewer_links(situation, odd, usual, len(gpus))


def _fewer_links(situation: Situation, odd: tuple[Gpu, ...], usual: int, count: int) -> Finding:
    up = ", ".join(str(gpu.board.links_up) for gpu in odd)
    text = (
        "End all programs on the GPUs, then reset all of them together as root (`nvidia-smi --gpu-reset`), or "
        "reboot. See the links with `nvidia-smi nvlink -s` and `--errorcounters`, and the kernel log for Xid 74. "
        "If they stay down, have the bridge, seat or GPU checked."
    )
    return finding(
        "warning",
        odd,
        message=f"{subject_of(odd)} has {up} active NVLinks; most of the {count} GPUs of its model here have "
        f"{usual}.",
        saw=f"{up} NVLinks up",
        want=f"{usual}, as the others have",
        confidence="likely",
        evidence=(Evidence("NVLinks up", up, situation.machine.nvidia.nvml.source),),
        fixes=(by_hand("Reset the GPUs and check the links", text, "root"),),
        refs=("NVIDIA NVML documentation, nvmlDeviceGetNvLinkState",),
    )
