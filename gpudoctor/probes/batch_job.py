"""The batch job that this process runs in, and its number of GPUs, from the variables that schedulers set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpudoctor.host import Host
from gpudoctor.machine import BatchJob, Fact, absent, known, unknown

_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
# What schedulers write for "no GPU": Slurm, Flux, HTCondor; the empty value is Ray's and Slurm's.
_NO_GPU = ("", "NoDevFiles", "-1", "10000", "none", "void")

Variables = Mapping[str, str]


def probe_job(host: Host) -> Fact[BatchJob]:
    """Slurm, LSF, PBS, SGE, HTCondor, Flux, Ray ...; `gpus` stays None if the scheduler does not say."""
    variables = host.environ
    for name, kind, count in _SCHEDULERS:
        if not variables.get(name):
            continue
        gpus = count(variables)
        if kind == "pbs" and gpus is None:
            gpus = _lines(host, variables.get("PBS_GPUFILE", ""))
        return known(BatchJob(kind=kind, gpus=gpus, source=name), f"variable {name}")
    if variables or host.live:
        return absent("variables", "none of a batch system")
    return unknown("no variables are recorded", "variables")


def _slurm(variables: Variables) -> int | None:
    """The step's own list takes precedence over the job's, and a list over a number."""
    if _listed(variables.get("CUDA_VISIBLE_DEVICES")) == 0 and variables["CUDA_VISIBLE_DEVICES"] == "NoDevFiles":
        return 0
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if variables.get(name) is not None:
            return _listed(variables[name])
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
        number = re.fullmatch(r"(?:[^:,]+:)*(\d{1,9})", variables.get(name, ""))
        if number:
            return int(number[1])
    # salloc leaves its shell on the machine where it was typed: no GPU is granted or refused there.
    return _visible(variables) if variables.get("SLURMD_NODENAME") else None


def _condor(variables: Variables) -> int | None:
    assigned = variables.get("_CONDOR_AssignedGPUs")
    return _visible(variables) if assigned is None else _listed(assigned)


def _grid_engine(variables: Variables) -> int | None:
    granted = variables.get("SGE_HGR_gpu")
    return _visible(variables) if granted is None else len(granted.split())


def _visible(variables: Variables) -> int | None:
    """Schedulers without a variable of their own use the visibility variables."""
    return next((_listed(variables[name]) for name in _VISIBILITY if name in variables), None)


def _listed(value: str | None) -> int | None:
    """How many GPUs "0,1", "0-3", "GPU-..,GPU-.." or "gpu:2" names; 0 for a value that names none."""
    if value is None or value.strip() in _NO_GPU:
        return None if value is None else 0
    total = 0
    for entry in re.sub(r"\(.*?\)", "", value).split(","):
        span = re.fullmatch(r"(\d{1,9})-(\d{1,9})", entry.strip())
        counted = re.fullmatch(r"gpu(?::[^:]+)*:(\d{1,9})", entry.strip())
        if span:
            total += max(0, int(span[2]) - int(span[1]) + 1)
        elif counted:
            total += int(counted[1])
        else:
            total += bool(entry.strip())
    return total


def _lines(host: Host, path: str) -> int | None:
    """PBS_GPUFILE has one line per GPU."""
    text = host.text(path) if path.startswith("/") else None
    return None if text is None or text.value is None else len(text.value.split())


# Inner schedulers first: a Ray worker may run inside a Slurm job.
_SCHEDULERS: tuple[tuple[str, str, Callable[[Variables], int | None]], ...] = (
    ("RAY_RAYLET_PID", "ray", _visible),
    ("RAY_JOB_ID", "ray", _visible),
    ("FLUX_JOB_ID", "flux", _visible),
    ("SLURM_JOB_ID", "slurm", _slurm),
    ("SLURM_JOBID", "slurm", _slurm),
    ("LSB_JOBID", "lsf", _visible),
    ("PBS_JOBID", "pbs", _visible),
    ("_CONDOR_JOB_AD", "htcondor", _condor),
    ("_CONDOR_SCRATCH_DIR", "htcondor", _condor),
    ("OAR_JOB_ID", "oar", _visible),
    ("PJM_JOBID", "pjm", _visible),
    ("SGE_TASK_ID", "sge", _grid_engine),
)
