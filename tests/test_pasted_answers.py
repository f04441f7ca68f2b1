"""Texts with the answers of commands: dkms, uname, a Python that was asked for torch, rocminfo, lspci."""

from __future__ import annotations

import pytest

from gpudoctor.intake.described import described_machine
from gpudoctor.intake.description import Description
from gpudoctor.machine import Machine
from tests.support.check_cases import matrix
from tests.support.judged_texts import judgement, machine, problems
from tests.support.pasted import WARNING

NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
BUILT_FOR_33 = "nvidia/550.163.01, 6.14.0-33-generic, x86_64: installed\n"


# --- dkms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"$ uname -r\n6.14.0-35-generic\n$ dkms status\n{BUILT_FOR_33}{NO_DRIVER}RTX 3070\n",
        f"$ dkms status\n{BUILT_FOR_33}$ uname -r\n6.14.0-35-generic\n{NO_DRIVER}RTX 3070\n",
        f"uname -r: 6.14.0-35-generic\ndkms status: {BUILT_FOR_33}{NO_DRIVER}RTX 3070\n",
        f"{NO_DRIVER}Linux pc 6.14.0-35-generic #35-Ubuntu SMP x86_64 GNU/Linux\n{BUILT_FOR_33}RTX 3070\n",
        f"$ uname -r && dkms status\n6.14.0-35-generic\n{BUILT_FOR_33}{NO_DRIVER}RTX 3070\n",
        f"$ uname -r\n6.14.0-35-generic\n$ dkms status\nnvidia, 550.163.01: added\n{NO_DRIVER}RTX 3070\n",
    ],
)
def test_a_module_that_dkms_built_for_another_kernel_only_is_why_no_driver_answers(text: str) -> None:
    assert machine(text).system.kernel.value == "6.14.0-35-generic"
    assert problems(text)[0] == "nvidia-dkms-kernel-mismatch"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("RuntimeError: No CUDA GPUs are available\nRTX 3070\nnvidia/550.163.01: added\n",
         "nvidia-dkms-kernel-mismatch"),
        ("torch 2.8.0+cu128\ntorch.cuda.is_available() -> False\nRTX 3070\nnvidia/550.163.01: added\n",
         "nvidia-dkms-kernel-mismatch"),
        ("ROCk module is NOT loaded, possibly no GPU devices\nRX 7900 XTX\n"
         "amdgpu/6.8.5-2041575.22.04, 6.8.0-40-generic, x86_64: installed\n", "amd-dkms-kernel-mismatch"),
    ],
)  # fmt: skip
def test_so_is_one_where_a_program_finds_no_gpu(text: str, first: str) -> None:
    assert problems(f"$ uname -r\n6.8.0-45-generic\n{text}")[0] == first


def test_a_module_that_dkms_built_for_the_running_kernel_accuses_no_kernel() -> None:
    both = f"$ uname -r\n6.14.0-33-generic\n{BUILT_FOR_33}nvidia/550.163.01, 6.8.0-60-generic, x86_64: installed\n"
    assert problems(f"{both}{NO_DRIVER}RTX 3070\n")[0] == "no-driver"
    assert not problems(f"$ uname -r\n6.14.0-35-generic\n{BUILT_FOR_33}RTX 3070\ntorch 2.8.0+cu128\n")


def test_a_driver_whose_tool_lists_the_gpu_is_loaded_whatever_dkms_says() -> None:
    text = f"$ uname -r\n6.14.0-35-generic\n{BUILT_FOR_33}GPU 0: NVIDIA GeForce RTX 3070 (UUID: GPU-1)\n"
    assert problems(f"{text}2.5.1+cpu False\n") == ["torch-cpu-only"]


# --- what a Python was asked -----------------------------------------------------------------------

ASKED = 'python -c "import torch; print(torch.__version__, torch.cuda.is_available(), torch.cuda.get_arch_list())"'


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (f"$ {ASKED}\n2.9.1+rocm6.4 False []\n", "2.9.1+rocm6.4"),
        (f"$ rocminfo | grep gfx; echo $X; {ASKED}\n  Name:   gfx1031\n\n2.9.1+rocm6.4 False []\n", "2.9.1+rocm6.4"),
        ("2.5.1+cpu False\n", "2.5.1+cpu"),
        ("('2.5.1+cpu', False)\n", "2.5.1+cpu"),
        ("2.5.1+cu124 12.4 False ['sm_50', 'sm_80']\n", "2.5.1+cu124"),
        ('$ python -c "import torch; print(torch.__version__); print(torch.cuda.is_available())"\n2.5.1+cpu\nFalse\n',
         "2.5.1+cpu"),
    ],
)  # fmt: skip
def test_what_torch_printed_of_itself_is_read_with_or_without_the_command(text: str, version: str) -> None:
    torch = machine(f"{text}RTX 3090\n").torch
    assert torch is not None and torch.version == version
    assert torch.trial.value is not None and torch.trial.value.device_count == 0


def test_a_cpu_build_is_named_from_the_bare_answer() -> None:
    assert problems("2.5.1+cpu None\nRTX 3090\n") == ["torch-cpu-only"]


def test_a_prompt_that_is_asked_for_the_version_of_a_framework_answers_on_the_next_line() -> None:
    found = machine(">>> import vllm\n>>> vllm.__version__\n'0.8.1'\nRTX 4070\n").environment.value
    assert found is not None
    assert ("vllm", "0.8.1") in [(one.name, one.version) for one in found.distributions.value or ()]


@pytest.mark.parametrize(
    "line", ["torch==2.7.0+cu128 torchvision==0.20.1", "torch 2.7.0+cu128, torchvision 0.20.1",
             "torch 2.7.0+cu128 and torchvision 0.20.1"],
)  # fmt: skip
def test_several_packages_in_one_line_are_read_and_the_fix_is_a_command(line: str) -> None:
    found = judgement(f"RuntimeError: operator torchvision::nms does not exist\n{line}\ngpu: RTX 5080\n").findings[0]
    assert found.slug == "torchvision-mismatch" and found.saw == "torchvision 0.20.1"
    assert "specifier='==0.22.0'" in str(found.fixes[0]) and "local='cu128'" in str(found.fixes[0])


def test_the_companion_of_a_known_torch_is_named_exactly_though_nobody_named_the_wrong_one() -> None:
    text = "RuntimeError: operator torchvision::nms does not exist\ntorch 2.7.0+cu128\ngpu: RTX 5080\n"
    assert "specifier='==0.22.0'" in str(judgement(text).findings[0].fixes[0])


def test_a_command_that_asks_for_packages_does_not_say_that_they_are_there() -> None:
    assert machine("pip install torch==2.7.0 torchvision==0.20.1\ngpu: RTX 5080\n").installed("torchvision") is None


# --- GPUs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("$ rocminfo | grep gfx\n  Name:                    gfx1031\n      Name:        amdgcn-amd-amdhsa--gfx1031\n"
         "2.9.1+rocm6.4 True ['gfx1030', 'gfx1100']\n", ["gfx1031"]),
        ("  Name:     gfx1100\n  Name:     gfx1100\n", ["gfx1100", "gfx1100"]),
        ("# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic\n2.9.1+cpu False\n", ["sm_87"]),
        ("Laptop: HP ZBook Ultra G1a, Ryzen AI Max+ 395, 128GB\ntorch 2.9.0+rocm6.4\n", ["gfx1151"]),
        ("CPU: Ryzen 7 5700G\ntorch 2.9.0+rocm6.4\n", [None]),
        ("CPU: Ryzen AI Max+ 395\nGPU: RTX 4090\n", ["sm_89"]),
        ("GPU0: RTX 3090, GPU1: RX 6600, torch 2.8.0+cu128\n", ["sm_86", "gfx1032"]),
    ],
)  # fmt: skip
def test_the_gpus_of_a_text(text: str, gpus: list[str | None]) -> None:
    assert [gpu.arch.value for gpu in machine(text).gpus] == gpus


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("GPU: RTX 3070 driver 580.95.05 torch 2.8.0+cu128\n", "RTX 3070"),
        ("GPU: RTX 5060 Ti  driver 575.64.03\n", "RTX 5060 Ti"),
        ("GPU: NVIDIA GeForce RTX 4090 on Ubuntu 22.04 with CUDA 12.4\n", "NVIDIA GeForce RTX 4090"),
        ("GPU0: RTX 3090, GPU1: RX 6600, torch 2.8.0+cu128\n", "RTX 3090"),
        ("03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Navi 22 [Radeon RX 6700/6700 XT/"
         "6750 XT / 6800M/6850M XT] (rev c1)\n", "AMD Navi 22 (Radeon RX 6700/6700 XT/6750 XT / 6800M/6850M XT)"),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n",
         "NVIDIA GeForce RTX 3090"),
    ],
)  # fmt: skip
def test_a_name_ends_where_something_else_begins_and_is_no_more_exact_than_the_text(text: str, name: str) -> None:
    assert machine(text).gpus[0].name == name


def test_a_jetson_is_told_by_its_release_and_gets_its_own_wheels() -> None:
    text = "# R36 (release), REVISION: 4.3, GCID: 1\nLinux o 5.15.148-tegra #1 SMP aarch64 GNU\n2.9.1+cpu False\n"
    found = machine(text)
    assert found.system.jetson.value is not None and found.system.jetson.value.l4t == "36.4.3"
    assert [one for one in found.assumed if "driver" in one or "module" in one] == ["NVIDIA driver of Jetson Linux"]
    assert problems(text) == ["torch-cpu-only"]


# --- systems ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Fedora 43, kernel 6.17.1-300.fc43.x86_64\nRTX 4070\n", "Fedora 43"),
        ("Ubuntu 24.04, nothing changed since yesterday!!\nRTX 4070\n", "Ubuntu 24.04"),
        ("It works on Ubuntu 22.04 of a friend.\nRTX 4070\n", ""),
        ("Ubuntu 22.04 here, Fedora 43 there\nRTX 4070\n", ""),
        ("docker run --gpus all nvidia/cuda:12.4.1-base-ubuntu22.04\nRTX 4070\n", ""),
    ],
)
def test_a_sentence_names_the_distribution_where_it_names_one(text: str, name: str) -> None:
    os = machine(text).system.os.value
    assert os is not None and os.name == name


def test_of_windows_no_kernel_module_is_assumed() -> None:
    found = machine("RTX 5070, driver 576.52, Windows 11\ntorch: 2.3.1+cu121\n")
    assert not any("module" in one for one in found.assumed)
    assert found.nvidia.module.value is not None and found.nvidia.module.value.flavour is None


# --- beside options --------------------------------------------------------------------------------


def with_options(text: str, **options: str) -> Machine:
    return described_machine(machine(text), Description(**options), matrix())


def test_what_is_described_beside_a_text_replaces_only_what_was_assumed() -> None:
    found = with_options(WARNING.replace("python3.12", "python3.10"), torch="2.9.1+cu128", driver="575.57.08")
    assert found.environment.value is not None and found.environment.value.python.value == "3.10"
    assert not any("torch" in one or "driver" in one or "module" in one for one in found.assumed)
    assert found.pasted is not None and not found.pasted.unsaid
    assert "kernel" in found.assumed


def test_a_python_that_only_the_described_torch_suggests_is_assumed() -> None:
    found = with_options("RTX 3090\ntorch 2.8.0+cu128\n", torch="2.7.1+cu126")
    assert any(one.startswith("Python 3.") for one in found.assumed)


# --- several machines ------------------------------------------------------------------------------


def test_a_text_with_two_issues_is_cut_before_the_second_gpu() -> None:
    smi = "| NVIDIA-SMI 575.57.08      Driver Version: 575.57.08      CUDA Version: 12.9     |\n"
    row = "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:01:00.0  On |                  Off |\n"
    error = "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`\n"
    found = machine(f"{error}\n{smi}{row}torch 2.7.1+cu128\n\ntorch==2.7.0+cu128\ngpu: NVIDIA GeForce RTX 5080\n")
    assert [gpu.arch.value for gpu in found.gpus] == ["sm_89"]
    assert found.pasted is not None and found.pasted.machines[0] == "NVIDIA GeForce RTX 4090 (lines 1 to 7)"


@pytest.mark.parametrize(
    "text",
    [
        ">>> tf.config.list_physical_devices('GPU')\n[]",
        "python3 -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\"\n[]",
        ">>> jax.devices()\n[CpuDevice(id=0)]\nnvidia-smi lists an RTX 3090",
        "RTX 3090\n>>> ort.get_available_providers()\n['AzureExecutionProvider', 'CPUExecutionProvider']",
        "cuda 12.4\n>>> print(ort.get_device())\nCPU",
    ],
)
def test_a_framework_that_lists_no_gpu_misses_one(text: str) -> None:
    assert problems(text)[0] in ("framework-cpu-only", "framework-cuda-libs-missing")


@pytest.mark.parametrize(
    "text",
    [
        ">>> jax.devices()\n[CpuDevice(id=0)]\nHow do I simulate 8 devices?",
        ">>> ort.get_available_providers()\n['AzureExecutionProvider', 'CPUExecutionProvider']",
        "RTX 3090\n>>> jax.devices()\n[CudaDevice(id=0)]",
        "RTX 3090\n>>> ort.get_available_providers()\n['CUDAExecutionProvider', 'CPUExecutionProvider']",
        ">>> tf.config.list_physical_devices('GPU')\n[PhysicalDevice(name='/physical_device:GPU:0')]",
    ],
)
def test_a_framework_on_a_cpu_that_nobody_minds_is_no_problem(text: str) -> None:
    assert problems(text) == []
