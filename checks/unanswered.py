"""Drivers that were asked at level driver and did not answer, or refused to start. Holds no checks itself."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.check import Case
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Manual, NotJudged, Reboot, WayOut
from gpudoctor.machine import Vendor

_NEVER_ASKED = "not probed"
_SELECTING = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")


def unanswered(case: Case) -> Iterator[NotJudged]:
    """A card that is to be used, and a driver that hung, crashed or could not be opened when it was asked: whether
    it starts is not known, whatever the files say."""
    if case.machine.level == "static":
        return
    if _to_be_used(case, "nvidia"):
        cuda = case.machine.nvidia.cuda
        half = cuda.value is not None and cuda.value.status == 0 and cuda.value.devices is None
        if half or (cuda.undecided and cuda.why != _NEVER_ASKED):
            yield _open("NVIDIA driver", cuda.value.message if cuda.value else cuda.why)
    hsa = case.machine.amd.hsa
    if _to_be_used(case, "amd") and hsa.undecided and hsa.why != _NEVER_ASKED:
        yield _open("ROCm runtime", hsa.why)


def _open(who: str, why: str) -> NotJudged:
    return NotJudged(
        why=f"whether the {who} starts is not known ({why or 'it said nothing'})", matters=True, fallback=True
    )


def _to_be_used(case: Case, vendor: Vendor) -> bool:
    """Without a torch another framework may use it; a CPU build does not."""
    needed = case.meant_for == vendor or (case.meant_for is None and (case.requires_card or case.torch is None))
    return needed and bool(case.usable_of(vendor))


def refusing_runtime(case: Case) -> Iterator[Finding]:
    """The nodes of an AMD card open, and the HSA runtime does not start or finds no card."""
    hsa = case.machine.amd.hsa.value
    if hsa is None or not case.usable_of("amd") or case.machine.system.wsl.known:
        return
    chosen = any(case.variable(name) is not None for name in _SELECTING)
    cards = any(agent.kind == "gpu" for agent in hsa.agents)
    if hsa.status == 0 and (cards or chosen):
        return
    said = f"does not start: hsa_init answers {hsa.status:#x}" if hsa.status else "starts and finds no card"
    text = "Read the kernel log: `sudo dmesg | grep -i -e amdgpu -e kfd`; update the host's amdgpu driver or kernel."
    again = (AddContainerFlags("recreate"),) if case.in_container else ()
    host = Manual(f"On the host: reboot if it stays. {text}", risk="reboot")
    yield Finding(
        severity="error",
        message=f"/dev/kfd opens, and the ROCm runtime {said}{f' ({hsa.message})' if hsa.message else ''}.",
        saw=f"HSA status {hsa.status:#x}" if hsa.status else "no GPU agent",
        want="a GPU agent",
        subject="ROCm runtime",
        confidence="likely",
        evidence=(Evidence.of("amd.hsa", case.machine.amd.hsa),),
        ways_out=(
            WayOut("Start the container anew; look at its host", (*again, host))
            if case.in_container
            else WayOut("Reboot", (Reboot(), Manual(text, risk="root"))),
        ),
        supersedes=("no-gpu",),
        fallback=True,
    )
