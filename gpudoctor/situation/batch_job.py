"""What a batch job was given, how it asks for more, and whether it should run on the CPU."""

from __future__ import annotations

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import VISIBILITY, Machine
from gpudoctor.situation import Situation

WITHOUT_GPU = "job-without-gpu"
_ASK = {
    "slurm": "submit with `--gres=gpu:1` (or `--gpus=1`) on a partition that has GPUs",
    "ray": "ask for it: `@ray.remote(num_gpus=1)`",
    "pbs": "submit with `-l select=1:ngpus=1`",
    "lsf": 'submit with `-gpu "num=1"`',
    "sge": "submit with `-l gpu=1`",
    "htcondor": "put `request_gpus = 1` into the submit file",
}


def cpu_task(situation: Situation) -> bool:
    """Whether this is a task of a batch system or of Ray that hides all GPUs on purpose, to run on the CPU."""
    return situation.machine.system.job.known and any(situation.variable(name) == "" for name in VISIBILITY)


def without_request(situation: Situation) -> bool:
    """Whether this is a batch job that says that it has no GPU, or says nothing about GPUs."""
    job = situation.machine.system.job.value
    return job is not None and not job.gpus


def submits_to(machine: Machine) -> str | None:
    """The batch system to which this machine submits jobs, as a login node does. A driver on a machine without GPUs
    is that of a node which lost them."""
    with_driver = machine.nvidia.module.known or machine.nvidia.userland.known or machine.amd.module.known
    return None if machine.gpus or with_driver else machine.system.batch_system.value


def ask_for_gpus(kind: str) -> Fix:
    """How a job of this batch system asks for a GPU."""
    return by_hand("Ask for a GPU", f"Ask for a GPU when the job starts: {_how(kind)}.")


def run_in_a_job(kind: str) -> Fix:
    """What a person does on a machine from which jobs are submitted."""
    return by_hand("Run it in a job with a GPU", f"Run it in a job with a GPU: {_how(kind)}.")


def _how(kind: str) -> str:
    return _ASK.get(kind, "ask the batch system for a GPU")
