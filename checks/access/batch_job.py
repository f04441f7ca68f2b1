"""Batch jobs without a GPU, and tasks that should run on the CPU (GPD205)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Confidence, Evidence, Finding
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import ask_for_gpus, cpu_task, without_request
from gpudoctor.situation.usable_gpus import Standing
from gpudoctor.situation.working_gpus import gpus_without_driver


def _open_gpus(situation: Situation) -> tuple[Standing, ...]:
    """The GPUs whose nodes are here and open."""
    return tuple(gpu for gpu in situation.standings if gpu.openable == "yes" and gpu.granted != "no")


@check("GPD205", "job-without-gpu", "access")
def job_without_gpu(situation: Situation) -> Verdicts:
    """The batch job was given no GPU.

    ## Why it matters
    A cluster gives GPUs to the jobs that ask for them. Without a request the job runs on a machine without GPUs, or
    may not use the GPUs that are there.

    ## How it is judged
    A GPU build of torch is installed, or a GPU is required. The job says that it has no GPU, or says nothing, and no
    GPU can be used. If it says nothing, and only a variable hides GPUs that open, the variable is the problem. A CPU
    task that hides all GPUs on purpose (an empty CUDA_VISIBLE_DEVICES, as Ray and Slurm set it) is not reported.

    ## Fix safety
    The job is submitted again; nothing on the machine changes.
    """
    job, vendor = situation.machine.system.job, situation.expected_vendor
    if (
        job.value is None
        or vendor is None
        or not without_request(situation)
        or cpu_task(situation)
        or situation.usable
    ):
        return
    if gpus_without_driver(situation, vendor) or (
        not situation.machine.gpus and situation.machine.buses.undecided and job.value.gpus is None
    ):
        return
    refused = [standing for standing in situation.standings if standing.openable == "no"]
    denied = any(node.opened == "EACCES" for node in situation.machine.nvidia.nodes.value or ())
    if job.value.gpus is None and (denied or any(standing.selected == "no" for standing in _open_gpus(situation))):
        return
    confidence: Confidence = "certain" if job.value.gpus == 0 else "likely"
    yield Finding(
        severity="error",
        message=f"This job ({job.value.kind}) was given no GPU"
        + (", and it may not open the GPUs of this machine." if refused else "."),
        saw="no GPU granted" if job.value.gpus == 0 else "no GPU in the job's variables, and none that opens",
        want="a job with a GPU",
        subject=f"{job.value.kind} job",
        confidence=confidence,
        evidence=(Evidence("system.job", f"{job.value.kind}, gpus={job.value.gpus}", job.source),),
        fixes=(ask_for_gpus(job.value.kind),),
        supersedes=("gpu-device-permission", "amd-device-permission", "container-cgroup-revoked"),
    )
