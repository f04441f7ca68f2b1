"""Batch jobs: what they were given, and tasks that are meant to run on the CPU (GPD205)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Confidence, Evidence, Finding, Fix, Manual
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task, without_request
from gpudoctor.situation.no_kernel_driver import unserved
from gpudoctor.situation.standing import Standing


def _open(situation: Situation) -> tuple[Standing, ...]:
    """The GPUs whose nodes are here and open."""
    return tuple(gpu for gpu in situation.standings if gpu.openable == "yes" and gpu.granted != "no")


@check("GPD205", "job-without-gpu", "access")
def job_without_gpu(situation: Situation) -> Verdicts:
    """The batch job was given no GPU.

    ## Why it matters
    A cluster hands GPUs to the jobs that ask for them. Without a request the job runs on a machine without GPUs, or
    is kept from those that are there.

    ## How it is judged
    A GPU build of torch is installed, or a GPU is required; the job says that it has none, or says nothing, and no
    GPU can be used. Where it says nothing, and GPUs open that only a variable hides, the variable is at fault. A
    CPU task that hides all GPUs on purpose (an empty CUDA_VISIBLE_DEVICES, as Ray and Slurm set it) is no fault.

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
    if unserved(situation, vendor) or (
        not situation.machine.gpus and situation.machine.buses.undecided and job.value.gpus is None
    ):
        return
    refused = [standing for standing in situation.standings if standing.openable == "no"]
    denied = any(node.opened == "EACCES" for node in situation.machine.nvidia.nodes.value or ())
    if job.value.gpus is None and (denied or any(standing.selected == "no" for standing in _open(situation))):
        return
    options = {
        "slurm": "submit with `--gres=gpu:1` (or `--gpus=1`) on a partition that has GPUs",
        "ray": "ask for it: `@ray.remote(num_gpus=1)`",
        "pbs": "submit with `-l select=1:ngpus=1`",
        "lsf": 'submit with `-gpu "num=1"`',
        "sge": "submit with `-l gpu=1`",
        "htcondor": "put `request_gpus = 1` into the submit file",
    }
    confidence: Confidence = "certain" if job.value.gpus == 0 else "likely"
    how = options.get(job.value.kind, "ask the batch system for a GPU")
    yield Finding(
        severity="error",
        message=f"This job ({job.value.kind}) was given no GPU"
        + (", and the GPUs of this machine are closed to it." if refused else "."),
        saw="no GPU granted" if job.value.gpus == 0 else "no GPU in the job's variables, none that opens",
        want="a job with a GPU",
        subject=f"{job.value.kind} job",
        confidence=confidence,
        evidence=(Evidence("system.job", f"{job.value.kind}, gpus={job.value.gpus}", job.source),),
        fixes=(Fix("Ask for a GPU", (Manual(f"Ask for a GPU when the job starts: {how}."),)),),
        supersedes=("gpu-device-permission", "amd-device-permission", "container-cgroup-revoked"),
    )
