"""The batch job that this process runs in, and its number of GPUs, from the variables that schedulers set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.machine import BatchJob, Fact, absent, known, unknown
from gpudoctor.probes.search_path import on_path

_VISIBILITY = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
# What schedulers write for "no GPU": Slurm, Flux, HTCondor; the empty value is Ray's and Slurm's.
_NO_GPU = ("", "NoDevFiles", "-1", "10000", "none", "void")

Variables = Mapping[str, str]


def probe_job(host: Host) -> Fact[BatchJob]:
    """Slurm, LSF, PBS, SGE, HTCondor, Flux, Ray ...; `gpus` stays None if the scheduler does not say."""
    variables = host.environ
    job = job_of(variables)
    if job is None and not variables and not host.live:
        return unknown("no variables are recorded", "variables")
    if job is None:
        return absent("variables", "none of a batch system")
    if job.kind == "pbs" and job.gpus is None:
        job = replace(job, gpus=_count_lines(host, variables.get("PBS_GPUFILE", "")))
    return known(job, f"variable {job.source}")


def probe_batch_system(host: Host) -> Fact[str]:
    """What submits jobs here, by its program or its settings: so it is on a login node."""
    for kind, program, settings in _SUBMITTING:
        if program and on_path(host, program):
            return known(kind, f"{program} on PATH")
        if host.stat(settings).known:
            return known(kind, settings)
    return absent("PATH and /etc", "no batch system submits jobs")


def job_of(variables: Variables) -> BatchJob | None:
    """The batch job that these variables are of; None if they are of none."""
    for name, kind, count in _SCHEDULERS:
        if variables.get(name):
            return BatchJob(kind=kind, gpus=count(variables), source=name)
    return None


def _slurm(variables: Variables) -> int | None:
    """The step's own list takes precedence over the job's, and a list over a number."""
    if variables.get("CUDA_VISIBLE_DEVICES") == "NoDevFiles":
        return 0
    for name in ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        if variables.get(name) is not None:
            return _count_listed(variables[name])
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"):
        number = re.fullmatch(r"(?:[^:,]+:)*(\d{1,9})", variables.get(name, ""))
        if number:
            return int(number[1])
    # salloc leaves its shell on the machine where it was typed: no GPU is granted or refused there.
    return _from_visibility(variables) if variables.get("SLURMD_NODENAME") else None


def _condor(variables: Variables) -> int | None:
    assigned = variables.get("_CONDOR_AssignedGPUs")
    return _from_visibility(variables) if assigned is None else _count_listed(assigned)


def _grid_engine(variables: Variables) -> int | None:
    granted = variables.get("SGE_HGR_gpu")
    return _from_visibility(variables) if granted is None else len(granted.split())


def _from_visibility(variables: Variables) -> int | None:
    """Schedulers without a variable of their own use the visibility variables."""
    return next((_count_listed(variables[name]) for name in _VISIBILITY if name in variables), None)


def _count_listed(value: str | None) -> int | None:
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


def _count_lines(host: Host, path: str) -> int | None:
    """PBS_GPUFILE has one line per GPU."""
    text = host.text(path) if path.startswith("/") else None
    return None if text is None or text.value is None else len(text.value.split())


# qsub is a program of several.
_SUBMITTING = (
    ("slurm", "sbatch", "/etc/slurm/slurm.conf"),
    ("lsf", "bsub", "/etc/lsf.conf"),
    ("pbs", "", "/etc/pbs.conf"),
    ("htcondor", "condor_submit", "/etc/condor/condor_config"),
)

# Inner schedulers first: a Ray worker may run inside a Slurm job.
_SCHEDULERS: tuple[tuple[str, str, Callable[[Variables], int | None]], ...] = (
    ("RAY_RAYLET_PID", "ray", _from_visibility),
    ("RAY_JOB_ID", "ray", _from_visibility),
    ("FLUX_JOB_ID", "flux", _from_visibility),
    ("SLURM_JOB_ID", "slurm", _slurm),
    ("SLURM_JOBID", "slurm", _slurm),
    ("LSB_JOBID", "lsf", _from_visibility),
    ("PBS_JOBID", "pbs", _from_visibility),
    ("_CONDOR_JOB_AD", "htcondor", _condor),
    ("_CONDOR_SCRATCH_DIR", "htcondor", _condor),
    ("OAR_JOB_ID", "oar", _from_visibility),
    ("PJM_JOBID", "pjm", _from_visibility),
    ("SGE_TASK_ID", "sge", _grid_engine),
)
