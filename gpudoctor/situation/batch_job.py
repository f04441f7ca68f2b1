"""What a batch job was given, how it asks for more, and whether it should run on the CPU."""

from __future__ import annotations

from gpudoctor.finding import Fix, by_hand
from gpudoctor.machine import VISIBILITY
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


def ask_for_gpus(kind: str) -> Fix:
    """How a job of this batch system asks for a GPU."""
    how = _ASK.get(kind, "ask the batch system for a GPU")
    return by_hand("Ask for a GPU", f"Ask for a GPU when the job starts: {how}.")
