"""NVML, the driver's management library, beside a CUDA that starts."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AddContainerFlags, Evidence, Finding, Fix, Manual, Reboot
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import NVML_MISMATCH, cuda_status, driver_answers


@check("GPD131", "nvml-not-answering", "driver")
def nvml_not_answering(situation: Situation) -> Verdicts:
    """NVML hangs, crashes or refuses, although CUDA starts.

    ## Why it matters
    torch computes without NVML (nvidia-smi's library); NCCL, vLLM and monitoring do not start without it. Nobody
    could ask for errors of the memory, lost GPUs, processes on a GPU: what passed here, passed by CUDA alone.

    ## How it is judged
    At level driver: NVML was opened and gave no answer, an error, or no list of its GPUs, and cuInit answers 0. A
    container that was not given NVML is none of it, nor is a Jetson.

    ## Fix safety
    A new container or a reboot ends what runs; nothing on disk changes.
    """
    nvml, answer = situation.machine.nvidia.nvml, situation.machine.nvidia.nvml.value
    opened = situation.machine.level != "static" and nvml.source and not nvml.absent
    if (
        not opened
        or cuda_status(situation) != 0
        or not situation.usable_of("nvidia")
        or situation.machine.system.jetson.known
    ):
        return
    if answer and (answer.status == NVML_MISMATCH or answer.devices is not None):
        return
    said = nvml.why if answer is None else answer.message or f"error {answer.status}"
    text = (
        "If it stays: install the driver's libraries (libnvidia-ml.so.1) in the kernel module's version, or update."
    )
    stays = Manual(text, risk="root")
    yield Finding(
        severity="warning",
        message=f"NVML does not answer ({said}); CUDA starts, and the GPUs were judged by CUDA alone.",
        saw=said,
        want="NVML that lists the GPUs",
        subject="NVIDIA driver",
        confidence="certain",
        evidence=(Evidence.of("nvidia.nvml", nvml), *driver_answers(situation)),
        fixes=(
            Fix("Start the container anew; reboot its host", (AddContainerFlags("recreate"), stays))
            if situation.in_container
            else Fix("Reboot", (Reboot(), stays)),
        ),
    )
