"""Causes of a message that the facts of the same text rule out: they are not told. What is only assumed rules nothing
out."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import judgement, problems

CUBLAS = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
NO_IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
NCCL = "ncclUnhandledCudaError: Call to CUDA function failed.\n"
SMI = """\
| NVIDIA-SMI 575.57.08              Driver Version: 575.57.08      CUDA Version: 12.9     |
|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0  On |                  Off |
|  0%   45C    P8             22W /  450W |  {used:>6}MiB /  24564MiB |      3%      Default |
"""


def told(text: str) -> tuple[str, ...]:
    """All causes that are told for the messages of a text."""
    findings = judgement(text).findings
    return tuple(dict.fromkeys(slug for one in findings for slug in (one.slug, *one.possible_causes)))


def test_memory_that_the_drivers_tool_shows_full_is_the_first_cause_and_else_none() -> None:
    assert problems(f"{CUBLAS}{SMI.format(used=24100)}torch 2.7.1+cu128\n")[0] == "gpu-busy-or-exclusive"
    assert "gpu-busy-or-exclusive" not in told(f"{CUBLAS}{SMI.format(used=600)}torch 2.7.1+cu128\n")
    assert "gpu-busy-or-exclusive" in told(f"{CUBLAS}RTX 4090\ntorch 2.7.1+cu128\n")


@pytest.mark.parametrize(
    ("text", "refuted"),
    [
        (f"{CUBLAS}RTX 4090, driver 575.57.08\ntorch 2.7.1+cu128\n", "driver-too-old"),
        (f"{CUBLAS}RTX 4090, driver 575.57.08\ntorch 2.7.1+cu128\n", "torch-no-arch-for-gpu"),
        (f"{NO_IMAGE}RTX 4090\n", "torch-dropped-old-gpu"),
        (f"{NCCL}RTX 4090\n", "fabric-manager-not-running"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nRTX 3070\n",
         "nvidia-driver-dropped-gpu"),
    ],
)  # fmt: skip
def test_what_the_facts_rule_out_is_no_cause(text: str, refuted: str) -> None:
    assert refuted not in told(text)


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        (f"{CUBLAS}RTX 4090\ntorch 2.7.1+cu128\n", "driver-too-old"),  # nobody named the driver
        (f"{CUBLAS}RTX 4090, driver 575.57.08\ntorch 2.7.1\n", "driver-too-old"),  # nor, here, the build
        (f"{CUBLAS}RTX 4090, driver 550.54.15\ntorch 2.7.1+cu128\n", "driver-too-old"),
        (f"{NO_IMAGE}GTX 1080\n", "torch-dropped-old-gpu"),
        (f"{NCCL}H100\n", "fabric-manager-not-running"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\nGTX 1080\n",
         "nvidia-driver-dropped-gpu"),
    ],
)  # fmt: skip
def test_what_is_only_assumed_rules_nothing_out(text: str, possible: str) -> None:
    assert possible in told(text)


def test_memory_that_nccl_does_not_find_blames_neither_driver_nor_build() -> None:
    assert not problems("NCCL WARN Cuda failure 'out of memory'\nRTX 4090, driver 580.95.05\ntorch 2.9.1+cu128\n")


def test_a_driver_and_a_message_described_without_a_gpu_are_judged() -> None:
    from gpudoctor.intake.described import described_machine, healthy
    from gpudoctor.intake.description import Description
    from tests.support.check_cases import matrix

    described = Description(driver="580.95.05", errors=("CUDA error: out of memory",))
    assert described_machine(healthy({}), described, matrix()).nvidia.module.value is not None


NO_GPUS = "RuntimeError: No CUDA GPUs are available\n"


@pytest.mark.parametrize(
    "asked",
    [
        "#SBATCH --gres=gpu:4\n",
        "#PBS -l select=1:ncpus=8:ngpus=1\n",
        '#BSUB -gpu "num=1"\n',
        "#$ -l gpu=1\n",
        'I used "srun -N 1 --gres=gpu:1 -p gpu --pty bash" to get onto the node.\n',
    ],
)
def test_a_job_that_asked_for_gpus_is_not_said_to_lack_them(asked: str) -> None:
    assert "job-without-gpu" not in told(f"In my slurm job:\n{asked}{NO_GPUS}")
    assert "job-without-gpu" not in told(f"{asked}My torch cannot find the GPU on the node that slurm gave me.\n")


@pytest.mark.parametrize(
    ("option", "fix"),
    [
        ("#SBATCH --time=2:00:00", "--gres=gpu:1"),
        ("#PBS -l select=1:ncpus=8", "-l select=1:ngpus=1"),
        ("#BSUB -n 8", '-gpu "num=1"'),
        ("#$ -l h_rt=1:0:0", "-l gpu=1"),
    ],
)
def test_a_job_that_asked_for_none_is_told_how_its_own_batch_system_gives_one(option: str, fix: str) -> None:
    found = next(one for one in judgement(f"{option}\npython train.py\n{NO_GPUS}").findings)
    assert found.slug == "job-without-gpu"
    assert fix in str(found.fixes[0])
