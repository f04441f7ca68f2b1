"""What one line holds beside a message or a name: its cause in the same line, and the other GPU of the machine."""

from __future__ import annotations

import pytest

from gpudoctor.matrix.errors import own_words_behind
from tests.support.judged_texts import judgement, machine, problems


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (
            "RuntimeError: No CUDA GPUs are available because I started the container without --gpus all",
            "container-no-gpu",
        ),
        ("RuntimeError: CUDA unknown error since my laptop woke up from suspend", "nvidia-uvm-after-suspend"),
        ("RuntimeError: No CUDA GPUs are available, but it works with sudo", "gpu-device-permission"),
        ("RuntimeError: No CUDA GPUs are available because my sbatch script has no --gres=gpu:1", "job-without-gpu"),
        (
            "RuntimeError: No CUDA GPUs are available, because I had set CUDA_VISIBLE_DEVICES to an empty string",
            "cuda-visible-devices",
        ),
    ],
)
def test_who_goes_on_behind_a_message_tells_its_cause(text: str, slug: str) -> None:
    assert problems(text)[:1] == [slug]


@pytest.mark.parametrize(
    "message",
    [
        "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
        "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "The NVIDIA driver on your system is too old (found version 10010). Please update your GPU driver",
        "CUDA error: device-side assert triggered",
    ],
)
def test_a_program_goes_on_in_no_words_of_a_person(message: str) -> None:
    assert own_words_behind(message) == ""


@pytest.mark.parametrize(
    ("text", "archs"),
    [
        ("My machine has a 2080 Ti and a 5070 Ti; torch 2.6.0+cu124 fails on the new one.", ["sm_75", "sm_120"]),
        ("RTX 3090 + RTX 5090, torch 2.5.1+cu121 fails", ["sm_86", "sm_120"]),
        ("My server has one Tesla K80 and two RTX 3090.", ["sm_37", "sm_86"]),
        ("I put an RTX 5080 beside my old RTX 3080.", ["sm_120", "sm_86"]),
        # Not of one machine.
        ("Which is better for training, an RTX 4090 or an RTX 5090?", []),
        ("It works on my RTX 3090. On the RTX 5090 of a colleague it fails.", []),
        ("I compared an RTX 3090 and an RTX 5090.", []),
        ("I replaced my GTX 1080 by an RTX 4090.", ["sm_89"]),
    ],
)
def test_a_sentence_may_name_all_gpus_of_a_machine(text: str, archs: list[str]) -> None:
    assert [gpu.arch.value for gpu in machine(text).gpus] == archs


@pytest.mark.parametrize(
    ("text", "slug", "name"),
    [
        (
            'My machine has a 2080 Ti and a 5070 Ti; torch 2.6.0+cu124 fails with "no kernel image is available for '
            'execution on the device" on the new one.',
            "torch-no-arch-for-gpu",
            "5070",
        ),
        (
            "I have an RTX 5090 and a GTX 1080 Ti, torch 2.9.1+cu130 says no kernel image is available for execution "
            "on the device on the second one",
            "torch-dropped-old-gpu",
            "1080",
        ),
    ],
)
def test_of_two_gpus_the_one_that_torch_has_no_code_for_is_meant(text: str, slug: str, name: str) -> None:
    found = [one for one in judgement(text).findings if one.severity != "note"]
    assert [one.slug for one in found] == [slug]
    assert name in found[0].subject


@pytest.mark.parametrize(
    ("text", "misses"),
    [
        ("is_available() returns False although nvidia-smi works with my RTX 4090", True),
        ("`is_available()` gives False, torch 2.9.0+cpu, RTX 3090", True),
        ("is_available() is always False on my A100 since the driver update", True),
        ("GPU: RTX 3090, torch 2.9.0+cpu\nIn [2]: torch.cuda.is_available()\nOut[2]: False", True),
        # It counts none, and computes on one.
        (
            "In [7]: torch.cuda.device_count()\nOut[7]: 0\nIn [8]: torch.rand(2).cuda()\n"
            "Out[8]: tensor([0.4866, 0.3877], device='cuda:0')\ntorch 1.13.1, NVIDIA driver 515.86.01, A100",
            False,
        ),
        # Of a class of somebody's own, or over.
        ("My RTX 4090 is fine, but plugin.is_available() returns False", False),
        ("torch.cuda.is_available() returned False until I installed the right wheel", False),
    ],
)
def test_that_torch_finds_no_gpu_is_told_in_several_ways(text: str, misses: bool) -> None:
    assert bool(problems(text)) == misses


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("I have one RTX 3060, torch 2.6.0+cu124.\nexport CUDA_VISIBLE_DEVICES=3\n", True),
        ("My server has 4 RTX 3090, torch 2.6.0+cu124.\nexport CUDA_VISIBLE_DEVICES=3\n", False),
        ("There are two A100 in it, torch 2.6.0+cu124.\nexport CUDA_VISIBLE_DEVICES=1\n", False),
        ("My server has 4 RTX 3090, torch 2.6.0+cu124.\nexport CUDA_VISIBLE_DEVICES=-1\n", True),
    ],
)
def test_a_number_is_right_where_a_sentence_counts_several_gpus(text: str, hidden: bool) -> None:
    assert ("cuda-visible-devices" in problems(text)) == hidden


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("CUDA_VISIBLE_DEVICES=1 python a.py\nRTX 5090, torch 2.5.1+cu124\n"
         "RuntimeError: CUDA error: no kernel image is available for execution on the device\n",
         ["torch-no-arch-for-gpu"]),
        ("HIP_VISIBLE_DEVICES=1 python a.py\nRX 7600, torch 2.4.0+rocm6.1\n"
         "RuntimeError: HIP error: invalid device function\n", ["torch-rocm-no-arch-for-gpu"]),
        ("CUDA_VISIBLE_DEVICES=1 python a.py\nRTX 5090, torch 2.9.1+cu130\n"
         "RuntimeError: No CUDA GPUs are available\n", ["cuda-visible-devices"]),
    ],
)  # fmt: skip
def test_a_variable_hides_no_gpu_that_the_program_sees(text: str, found: list[str]) -> None:
    assert [slug for slug in problems(text) if slug != "rocm-mem-efficient-attention"] == found


def test_the_colon_of_a_chinese_keyboard_is_one() -> None:
    assert [gpu.arch.value for gpu in machine("GPU 0\uff1a NVIDIA GeForce RTX 3090").gpus] == ["sm_86"]


def test_a_command_between_backticks_ends_with_them() -> None:
    pasted = machine("I start it with `docker run --rm pytorch/pytorch python x.py`, torch finds no GPU.").pasted
    assert pasted is not None
    assert pasted.container_command == "docker run --rm pytorch/pytorch python x.py"


def test_a_command_within_a_command_does_not_end_it() -> None:
    pasted = machine("$ docker run -v `pwd`:/work --gpus all pytorch/pytorch python x.py").pasted
    assert pasted is not None
    assert pasted.container_command == ""
