"""Texts that tell of several releases of torch, that all works by now, or of errors that are the program's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from tests.support.judged_texts import machine, problems

NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("I upgraded from torch 2.6.0+cu124 to torch 2.9.1+cu128 and my RTX 5090 works now.", "2.9.1+cu128"),
        ("I had torch 2.6.0+cu124 before. Now with torch 2.9.1+cu128 my RTX 5090 works perfectly.", "2.9.1+cu128"),
        (
            "RX 7900 XTX: first I installed torch 2.9.1+cu128 by mistake, now torch 2.9.1+rocm6.4, it works.",
            "2.9.1+rocm6.4",
        ),
        ("Thanks, replacing torch 2.9.1+cu128 with 2.7.1+cu126 made my GTX 1080 work again", "2.7.1+cu126"),
        ("Ich habe von torch 2.6.0+cu124 auf torch 2.9.1+cu128 aktualisiert. RTX 5090", "2.9.1+cu128"),
        ("RTX 5090: torch 2.6.0+cu124 の代わりに torch 2.9.1+cu128 を使う", "2.9.1+cu128"),
        (
            "Feature request: ship sm_61 in +cu128 again. torch 2.9.1+cu128 dropped my GTX 1080. "
            "I use 2.7.1+cu126 and it is fine",
            "2.7.1+cu126",
        ),
        ("I want to use torch 2.9.1+cu128 on my GTX 1080, so far I have torch 2.7.1+cu126.", "2.7.1+cu126"),
        ("On my RTX 5090 I use torch 2.9.1+cu128 instead of torch 2.6.0+cu124", "2.9.1+cu128"),
    ],
)
def test_the_release_that_the_words_call_the_present_one(text: str, version: str) -> None:
    torch = machine(text).torch
    assert torch is not None
    assert torch.version == version
    assert problems(text) == []


def test_the_present_release_may_be_the_wrong_one() -> None:
    text = "After upgrading from torch 2.7.1+cu126 to torch 2.9.1+cu128 my GTX 1080 no longer works"
    assert problems(text) == ["torch-dropped-old-gpu"]


def test_of_releases_that_no_word_tells_apart_none_is_blamed() -> None:
    text = "My RTX 5090 and torch 2.6.0+cu124, torch 2.9.1+cu128 and others."
    assert machine(text).torch is None
    assert problems(text) == []


def test_a_report_knows_more_than_a_sentence() -> None:
    report = "PyTorch version: 2.6.0+cu124\nGPU 0: NVIDIA GeForce RTX 5090\n"
    found = machine(f"{report}I upgraded from torch 2.5.1+cu121 to torch 2.9.1+cu128 on another machine.").torch
    assert found is not None
    assert found.version == "2.6.0+cu124"


@pytest.mark.parametrize(
    ("text", "driver", "found"),
    [
        (
            "Please add FP8 on RTX 4090. I use torch 2.9.1+cu128, driver 470.82.01, everything else works well.",
            "470.82.01",
            ["driver-too-old"],
        ),
        ("RTX 4090. I use torch 2.9.1+cu128, driver 580.95.05, everything works well.", "580.95.05", []),
        ("RTX 4090, torch 2.9.1+cu128, драйвер 580.95.05, всё остальное работает", "580.95.05", []),
    ],
)
def test_the_driver_is_read_beside_something_that_works(text: str, driver: str, found: list[str]) -> None:
    module = machine(text).nvidia.module.value
    assert module is not None
    assert module.version == driver
    assert problems(text) == found


@pytest.mark.parametrize(
    "sentence",
    [
        "I updated from driver 470.82.01 to 580.95.05",
        "I replaced driver 470.82.01, it was too old",
        "With driver 470.82.01 it failed, driver 580.95.05 works",
    ],
)
def test_a_driver_that_was_replaced_is_not_blamed(sentence: str) -> None:
    assert problems(f"RTX 4090, torch 2.9.1+cu128. {sentence}.") == []


def test_the_torch_of_another_machine_is_not_this_one() -> None:
    text = "Environment: torch 2.6.0+cu124, RTX 5090. Works on another machine with torch 2.9.1+cu128."
    assert problems(text) == ["torch-no-arch-for-gpu"]


@pytest.mark.parametrize(
    "text",
    [
        f'SOLVED: yesterday I got "{NO_KERNEL}" on my RTX 5090. After an upgrade everything works now. Closing.',
        'Gelöst! Der Fehler "CUDA driver version is insufficient" kam vom alten Treiber 470. '
        "Mit Treiber 580.95.05 läuft alles auf meiner RTX 4090.",
        "RTX 5090 with torch 2.6.0+cu124: it works now.",
        'RTX 4090. Fixed! "CUDA driver version is insufficient for CUDA runtime version" came from driver 470.',
        f"Solved by an upgrade. The error was: {NO_KERNEL}. RTX 5090",
        f'Yesterday I still had "{NO_KERNEL}" on my 5080, but after a new torch it went away.',
        "Two years ago CUDA used to die every time my laptop woke up. This does not happen any more.",
        "Update: solved. dkms had not built the nvidia module for the new kernel. I ran it, and nvidia-smi is back.",
        "I had the driver/library version mismatch this morning. After a reboot the error is gone.",
        "The container could not see the GPU because I had forgotten --gpus all. It works now, closing this.",
        "rocminfo prints ROCk module is NOT loaded, possibly no GPU devices. Is a module missing? No, it's just a "
        "misleading error message!",
    ],
)
def test_a_text_that_says_that_all_works_now_has_no_problem(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"{NO_KERNEL} on my RTX 5090. It works now only on the CPU.",
        f"{NO_KERNEL} on my RTX 5090. How was this solved?",
        f"{NO_KERNEL} on my RTX 5090. On Windows it works.",
        f"{NO_KERNEL} on my RTX 5090. After a restart it works again for some minutes.",
        "The old GPU works fine, but my RTX 5090 with torch 2.6.0+cu124 does not.",
        f"On the host all works now. In the container: {NO_KERNEL}. RTX 5090",
        f"The error is back: {NO_KERNEL} on my RTX 5090.",
        f"{NO_KERNEL}, now nothing works on my RTX 5090.",
        f"My RTX 5090 is back and torch says {NO_KERNEL}.",
        f"{NO_KERNEL} on my RTX 5090. Is it just a misleading message?",
        f"I thought that {NO_KERNEL} was just a wrong message on my RTX 5090, but nothing is computed.",
    ],
)
def test_a_text_that_complains_all_the_same_has_one(text: str) -> None:
    assert problems(text) == ["torch-no-arch-for-gpu"]


WINDOWS = """PyTorch version: 2.9.1+cu128
CUDA used to build PyTorch: 12.8
OS: Microsoft Windows 11 Pro (10.0.26100 64-bit)
Python platform: Windows-11-10.0.26100-SP0
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090
Nvidia driver version: 581.57
"""
MACOS = """PyTorch version: 2.9.1
CUDA used to build PyTorch: None
ROCM used to build PyTorch: N/A
OS: macOS 15.5 (arm64)
Python platform: macOS-15.5-arm64-arm-64bit
Is CUDA available: False
GPU models and configuration: No CUDA
Nvidia driver version: No CUDA
"""


def screen(text: str, path: Path) -> tuple[int, str]:
    """Exit code and output of `gpudoctor check --from`, with single spaces."""
    file = path / "text.txt"
    file.write_text(text)
    result = CliRunner().invoke(gpudoctor, ["check", "--from", str(file)])
    return result.exit_code, " ".join(result.output.split())


def test_on_windows_a_torch_that_found_the_gpu_needs_no_number_of_the_driver(tmp_path: Path) -> None:
    code, output = screen(WINDOWS, tmp_path)
    assert (code, output.startswith("No problem found")) == (0, True)
    assert "kernel module" not in output


def test_on_windows_nobody_says_that_the_named_driver_was_not_found(tmp_path: Path) -> None:
    _, output = screen(WINDOWS.replace("available: True", "available: False"), tmp_path)
    assert "no driver version was found" not in output


def test_a_mac_needs_no_tool_of_a_driver_and_is_no_x86(tmp_path: Path) -> None:
    _, output = screen(MACOS, tmp_path)
    assert "libraries of macOS: gpudoctor knows Linux and WSL2" in output
    assert output.endswith("Next: gpudoctor explain GPD914")
    for wrong in ("nvidia-smi", "x86_64", "cannot use any GPU"):
        assert wrong not in output
    assert "arm64" in output


@pytest.mark.parametrize(
    "error",
    [
        "ModuleNotFoundError: No module named 'einops'",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        "RuntimeError: Expected all tensors to be on the same device, but found two devices, cuda:0 and cpu!",
        "train.py:3: UserWarning: torch.cuda.amp.GradScaler(args...) is deprecated. Please use torch.amp.GradScaler",
        'Traceback (most recent call last):\n  File "t.py", line 3, in f\nIndexError: list index out of range',
    ],
)
def test_an_error_of_the_program_is_no_fault_of_the_gpu(error: str, tmp_path: Path) -> None:
    code, output = screen(error, tmp_path)
    assert code == 0
    assert output.startswith("The text tells of an error of the program: that is no fault of the GPU or its driver.")


@pytest.mark.parametrize(
    "text",
    [
        "My GPU is not found by torch\nIndexError: list index out of range",
        "ModuleNotFoundError: No module named 'torch'",
        "RuntimeError: CUDA error: out of range of something new",
    ],
)
def test_an_error_beside_a_word_about_the_gpu_leaves_it_open(text: str, tmp_path: Path) -> None:
    _, output = screen(text, tmp_path)
    assert "no fault of the GPU" not in output


def test_a_text_that_says_that_all_works_is_asked_nothing(tmp_path: Path) -> None:
    code, output = screen(f'SOLVED: yesterday I got "{NO_KERNEL}", everything works now. Closing.', tmp_path)
    assert code == 0
    assert output.startswith("The text tells of no problem with a GPU.")


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("pip show torch says 2.9.0+cu128, but I have a Radeon RX 7600.", "cuda-torch-on-amd"),
        ("We have an RTX PRO 6000 Blackwell and torch 2.4, CUDA 12.1.", "torch-no-arch-for-gpu"),
        ("I use PyTorch 2.3 with CUDA 12.1 on my new RTX 5080", "torch-no-arch-for-gpu"),
        ("RTX 5090, torch 2.5.1 from the cu121 index, fails at once", "torch-no-arch-for-gpu"),
        ("Tesla P40 and PyTorch 2.9 with CUDA 13", "torch-dropped-old-gpu"),
        ("We replaced the RTX A6000 by an RTX 5090 and kept torch 2.4, CUDA 12.1.", "torch-no-arch-for-gpu"),
    ],
)
def test_a_release_and_its_build_in_a_sentence_are_a_fact(text: str, slug: str) -> None:
    assert problems(text) == [slug]


@pytest.mark.parametrize(
    "text",
    [
        "RTX 5090 and torch 2.8, CUDA 12.1 is only the toolkit",
        "The docs require torch 2.4, CUDA 12.1 for the RTX 5090.",
        "Yesterday I had torch 2.4, CUDA 12.1 on the RTX 5090.",
        "I swapped the GTX 1080 Ti for an RTX 5090 and put torch 2.8 with cu128 on the machine.",
    ],
)
def test_a_cuda_that_torch_was_not_built_for_or_a_release_of_old_is_none(text: str) -> None:
    assert problems(text) == []


_TITLE_OF_A_FAULT = "# HIP error: invalid device function on RX 7600 XT\n\n"
_REPORT = (
    "PyTorch version: 2.5.1+rocm6.2\nIs CUDA available: True\nGPU models and configuration: RX 7900 XTX (gfx1100)\n"
)


@pytest.mark.parametrize(
    ("comment", "solved"),
    [
        ("I can now confirm that the same code in Debian works without issue:", True),
        ("I tested this with ROCm 7.1.1, and the issue appears to be resolved:", True),
        ("I followed your steps and got it working, using the whole GPU.", True),
        ("Cannot reproduce it with a nightly build:", True),
        ("It works fine with ROCm 6.2.", False),
        ("I got it working on the CPU only.", False),
        ("I tested this with ROCm 7.1.1, and the issue appears to be resolved, but the GPU hangs:", False),
        ("After the update it ran without any error.\nSince yesterday it fails again.", False),
    ],
)
def test_a_comment_that_says_that_it_works_answers_the_title(comment: str, solved: bool) -> None:
    assert (problems(f"{_TITLE_OF_A_FAULT}{comment}\n\n{_REPORT}") == []) is solved


def test_a_message_below_such_a_comment_counts() -> None:
    text = f"{_TITLE_OF_A_FAULT}Got it working. With 7.0:\n\nRuntimeError: HIP error: invalid device function\n"
    assert problems(text) != []


def test_an_answer_of_torch_before_the_words_that_it_is_solved_is_past() -> None:
    text = "# torch.cuda.is_available() returns False\n\nIssue is solved now!"
    assert problems(text) == []
    assert problems(f"{text}\n>>> torch.cuda.is_available()\nFalse") == ["torch-cpu-only"]


def test_a_text_that_calls_itself_a_solution_is_no_report() -> None:
    text = '# 报错解决方案: could not select device driver "nvidia" with capabilities: [[gpu]]\n\n首先要安装'
    assert problems(text) == []
    assert problems(text.replace("报错解决方案", "请问怎么解决")) != []


def test_a_note_that_supposes_a_message_is_no_report() -> None:
    message = "# RuntimeError: CUDA driver version is insufficient for CUDA runtime version\n\n"
    assert problems(f"{message}If you encounter this error, please install the latest NVIDIA driver.") == []
    assert problems(f"{message}If you have seen this error, please tell me how to get rid of it.") != []


def test_what_is_no_longer_of_interest_is_past() -> None:
    message = '# JAX says "No GPU/TPU found, falling back to CPU."\n\n'
    assert problems(f"{message}No longer applicable.") == []
    assert problems(f"{message}No longer applicable, but it still happens with 0.5.") != []


def test_a_variable_that_was_tried_in_vain_is_no_remedy() -> None:
    text = (
        "Training on two RTX 3090 hangs at the end of an epoch, one GPU is at 100%.\nI tried NCCL_P2P_DISABLE=1. {}"
    )
    assert problems(text.format("But it didn't work.")) == []
    assert problems(text.format("With it the run ends.")) == ["nccl-p2p-hang"]


def test_a_guide_in_steps_is_no_report_in_chinese_either() -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    guide = f"# {said}\n第一步, 打开终端\n第二步, 检查驱动\n第三步, sudo apt-get install dkms"
    assert problems(guide) == []
    assert problems(f"{guide}\n请问我还要做什么") != []
