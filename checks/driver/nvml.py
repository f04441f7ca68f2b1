"""NVML, the driver's management library, on machines where CUDA starts."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Fix, Manual, Reboot
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import NVML_MISMATCH, cuda_status, driver_answers


@check("GPD131", "nvml-not-answering", "driver")
def nvml_not_answering(situation: Situation) -> Verdicts:
    """NVML hangs, crashes or fails, although CUDA starts.

    ## Why it matters
    torch computes without NVML, the library behind nvidia-smi. NCCL, vLLM and monitoring do not start without it.
    gpudoctor could not check for memory errors, lost GPUs or processes on a GPU: its results rest on CUDA alone.

    ## How it is judged
    At level driver: NVML was opened and gave no answer, an error, or no list of its GPUs, while cuInit answers 0.
    Containers without NVML and Jetson are not reported.

    ## Fix safety
    A new container or a reboot ends running programs; nothing on disk changes.
    """
    nvml, answer = situation.machine.nvidia.nvml, situation.machine.nvidia.nvml.value
    opened = situation.machine.level != "static" and nvml.source and not nvml.absent
    if not opened or cuda_status(situation) != 0 or not situation.usable_of("nvidia") or situation.on_jetson:
        return
    if answer and (answer.status == NVML_MISMATCH or answer.devices is not None):
        return
    reason = nvml.why if answer is None else answer.message or f"error {answer.status}"
    text = "If that does not help: install libnvidia-ml.so.1 in the kernel module's version, or update the driver."
    if_it_remains = Manual(text, risk="root")
    yield Finding(
        severity="warning",
        message=f"NVML does not answer ({reason}); CUDA starts, so the GPUs were checked through CUDA alone.",
        saw=reason,
        want="NVML that lists the GPUs",
        subject="NVIDIA driver",
        confidence="certain",
        evidence=(Evidence.of("nvidia.nvml", nvml), *driver_answers(situation)),
        fixes=(
            Fix("Recreate the container, or reboot its host", (AddContainerFlags("recreate"), if_it_remains))
            if situation.in_container
            else Fix("Reboot", (Reboot(), if_it_remains)),
        ),
    )
