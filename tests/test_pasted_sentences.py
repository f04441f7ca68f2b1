"""Texts in which a person tells in sentences what they have: what is taken from them, and what is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.judged_texts import first, judgement, machine, problems

NO_KERNEL = "RuntimeError: HIP error: invalid device function\n\n"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("GPU: Radeon RX 7600 XT, torch 2.4.1+rocm6.1, Linux Mint 22", "Radeon RX 7600 XT"),
        ("GPU: Radeon RX 7600 XT; 32 GB of memory", "Radeon RX 7600 XT"),
        ("Hardware: AMD Ryzen 9 5950X, Radeon RX 7600 XT, 64 GB", "Radeon RX 7600 XT"),
    ],
)
def test_what_stands_beside_a_gpu_behind_one_key_is_not_part_of_its_name(line: str, name: str) -> None:
    (gpu,) = machine(NO_KERNEL + line).gpus
    assert (gpu.name, gpu.arch.value) == (name, "gfx1102")


def test_a_gpu_whose_architecture_is_unknown_is_asked_for_and_not_given_up() -> None:
    finding = first(NO_KERNEL + "GPU: AMD Radeon Frobnicator 9\ntorch 2.4.1+rocm6.1\n")
    titles = [fix.title for fix in finding.fixes]
    assert "Build torch from source, or use another GPU" not in titles
    assert "Find out which GPU this is" in titles


INDEX = "pip install torch torchvision --index-url https://download.pytorch.org/whl/rocm6.2"


def test_the_index_of_an_install_command_tells_the_build() -> None:
    text = f"I have an RX 580 and installed torch with {INDEX}. torch.cuda.is_available() returns False."
    torch = machine(text).torch
    assert torch is not None
    assert torch.build == "rocm6.2"
    assert any("newest of that index" in assumed for assumed in machine(text).assumed)
    assert first(text).slug == "torch-rocm-no-arch-for-gpu"


def test_the_index_completes_a_version_that_does_not_name_its_build() -> None:
    torch = machine(f"GPU: RX 6800\n$ {INDEX}\ntorch: 2.5.0\n").torch
    assert torch is not None
    assert torch.version == "2.5.0+rocm6.2"


@pytest.mark.parametrize("advice", ["You could try {}", "Somebody told me: please {}", "Should I {}?"])
def test_an_install_command_that_is_advice_tells_nothing(advice: str) -> None:
    assert machine(f"GPU: RX 6800\n{advice.format(INDEX)}\nIt does not work.").torch is None


@pytest.mark.parametrize("told", ["5.15.167.4-microsoft-standard-WSL2 Ubuntu 24.04 LTS", "Ubuntu 24.04 LTS"])
def test_a_kernel_before_the_distribution_is_not_part_of_its_name(told: str) -> None:
    system = machine(f"### Operating System\n\n{told}\n\n### GPU\n\nRX 9070 XT\n").system
    assert system.os.value is not None
    assert (system.os.value.id, system.os.value.version) == ("ubuntu", "24.04")


def test_an_install_command_that_found_nothing_installed_nothing() -> None:
    refused = "ERROR: No matching distribution found for torch==2.4.1"
    assert machine(f"RX 6650 XT\n> {INDEX} torch==2.4.1\n{refused}\n").torch is None
    again = machine(f"RX 6650 XT\n> {INDEX} torch==2.4.1\n{refused}\n> {INDEX.replace('6.2', '6.1')}\n").torch
    assert again is not None
    assert again.build == "rocm6.1"


@pytest.mark.parametrize(
    ("sentence", "arch"),
    [("my platform:5070ti", "sm_120"), ("a 2070 super of 8 GB", "sm_75"), ("the port is 5070, the title 3060", None)],
)
def test_a_card_of_nvidia_is_known_by_its_number_and_what_follows_it(sentence: str, arch: str | None) -> None:
    found = machine(f"{sentence}\nRuntimeError: CUDA error: no kernel image is available\n").gpus
    assert [gpu.arch.value for gpu in found if gpu.arch.known] == ([arch] if arch else [])


def test_a_heading_that_repeats_a_warning_is_no_second_gpu() -> None:
    warning = "NVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible with the current PyTorch."
    assert len(machine(f"# {warning}\n\nUserWarning: \n{warning}\n").gpus) == 1


def test_who_names_every_system_is_not_inside_one_of_them() -> None:
    assert not machine("Linux Ubuntu 24.04.3 LTS, WSL2 Ubuntu 24.04, Windows10\n").system.wsl.known
    listed = "WSL2 Ubuntu 24.04\n"
    assert machine(listed).system.wsl.known
    for sentence in ("This issue persists on Linux, WSL, and Windows.", "the same on Windows, WSL2 and Linux"):
        assert not machine(f"{listed}{sentence}\n").system.wsl.known
        assert not machine(f"{sentence}\n{listed}").system.wsl.known


@pytest.mark.parametrize(
    ("sentence", "inside"),
    [
        ("When deploying the model with Docker, it fails.", True),
        ("I configured Docker Desktop to run with Docker Desktop 4.31.", False),
        ("the docker of the host", False),
    ],
)
def test_a_sentence_says_that_it_ran_in_a_container(sentence: str, inside: bool) -> None:
    assert machine(sentence).system.container.known is inside


def test_a_version_that_its_index_never_had_is_not_put_together_with_it() -> None:
    torch = machine(f"GPU: RX 6800\n$ {INDEX}\ntorch: 1.13.1\n").torch
    assert torch is not None
    assert torch.build != "rocm6.2"


FELL = "[  812.345] NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def test_a_log_in_which_a_gpu_falls_off_the_bus_is_what_was_asked_about() -> None:
    finding = first(FELL)
    assert (finding.slug, finding.severity) == ("gpu-off-bus", "error")


def test_a_gpu_that_worked_in_the_same_text_is_not_gone() -> None:
    text = f"{FELL}\nGPU: RTX 3090\n>>> torch.cuda.is_available()\nTrue\n"
    assert not [
        finding
        for finding in judgement(text).findings
        if finding.slug == "gpu-off-bus" and finding.severity == "error"
    ]


def test_a_driver_of_windows_is_not_judged_by_the_branches_of_linux() -> None:
    text = "GPU: NVIDIA GeForce GTX 1080\nDriver Version: 581.15\nOS: {}\ntorch: 2.8.0+cu126\n"
    assert not [one for one in judgement(text.format("Windows 11")).findings if one.severity == "error"]
    assert first(text.format("Ubuntu 24.04")).slug == "nvidia-driver-dropped-gpu"


GIVEN_UP = "[   12.345678] amdgpu 0000:03:00.0: amdgpu: Fatal error during GPU init\n"


def test_a_gpu_that_amdgpu_gave_up_has_no_driver() -> None:
    finding = first(f"{GIVEN_UP}GPU: RX 7900 XTX\n")
    assert (finding.slug, finding.severity) == ("no-driver", "error")


def test_a_sentence_names_the_kernel_that_is_too_old_for_the_gpu() -> None:
    assert first(f"{GIVEN_UP}Radeon AI PRO R9700, Ubuntu 22.04 kernel 6.8").slug == "amd-kernel-or-runtime-too-old"


@pytest.mark.parametrize(
    ("sentence", "kernel"),
    [
        ("I am on kernel 6.14.2-arch1-1, all up to date", "6.14.2-arch1-1"),
        ("Kernel: 6.8.", "6.8"),
        ("It needs kernel 6.12", None),
        ("It worked before kernel 6.12", None),
        ("the CUDA kernel 6.1.2.3 of cutlass", None),
    ],
)
def test_a_sentence_names_the_kernel(sentence: str, kernel: str | None) -> None:
    read = machine(f"GPU: RX 7900 XTX\n{sentence}\n").system.kernel
    assert (read.value if read.source.startswith("text") else None) == kernel


def test_a_container_that_was_started_without_the_gpu_comes_before_what_it_looks_like_inside() -> None:
    text = (
        "torch.cuda.is_available() -> False in my container, MI210 host:\n"
        "docker run -it {}rocm/pytorch:latest bash\nROCk module is NOT loaded, possibly no GPU devices\n"
    )
    finding = first(text.format(""))
    assert (finding.slug, finding.severity) == ("container-no-gpu", "error")
    assert first(text.format("--device=/dev/kfd --device=/dev/dri ")).slug != "container-no-gpu"


@pytest.mark.parametrize("style", ["text", "markdown", "html", "junit"])
def test_a_fix_that_is_one_sentence_is_told_once(style: str, tmp_path: Path) -> None:
    text = tmp_path / "report.txt"
    text.write_text("CUDA Setup failed despite CUDA being available. Please run the following command\n")
    argv = [sys.executable, "-m", "gpudoctor", "check", "--from", str(text), "--format", style]
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    above, _, last = told.partition("Next: ")
    assert above.count("Install a newer bitsandbytes") == 1
    assert bool(last) == ("Install a newer bitsandbytes" in last)  # what to do next is the fix


# --- what sentences of fresh reports showed ----------------------------------------------------------


def test_a_sentence_with_a_version_does_not_tell_whose_gpus_the_build_is_for() -> None:
    """A CUDA build on an AMD GPU would be an error that nobody reported."""
    text = "RX 5700 XT with rocm: I set HSA_OVERRIDE_GFX_VERSION=10.1.0 and it crashes with pytorch 2.1.0 at once."
    torch = machine(text).torch
    assert torch is not None
    assert (torch.version, torch.build) == ("2.1.0", None)
    assert "cuda-torch-on-amd" not in [finding.slug for finding in judgement(text).findings]


def test_the_full_stop_of_a_sentence_is_not_part_of_a_variable() -> None:
    text = "On a Radeon 780M it works on other systems with HSA_OVERRIDE_GFX_VERSION=11.0.0."
    assert machine(text).variables["HSA_OVERRIDE_GFX_VERSION"] == "11.0.0"


@pytest.mark.parametrize(
    "text",
    [
        "the `kfd` device is not present",
        "/dev/kfd does not exist on the host",
        'stat("/dev/kfd") = -1 ENOENT',
        "amdgpu-firmware not registering `kfd` device",
    ],
)
def test_a_sentence_tells_that_the_compute_node_is_missing(text: str) -> None:
    assert first(f"Radeon RX 6800, amdgpu is loaded, {text}").slug == "amd-kfd-missing"


@pytest.mark.parametrize(
    "text", ["cdi: missing `nvidia-uvm` `deviceNodes`", "lstat /dev/nvidia-uvm: no such file or directory"]
)
def test_a_container_without_the_node_that_cuda_needs(text: str) -> None:
    whole = f"NVIDIA Tesla P100, inside a docker container\n{text}\n>>> torch.cuda.is_available()\nFalse\n"
    assert first(whole).slug == "nvidia-uvm-missing"


def test_a_kernel_is_named_before_and_after_the_word() -> None:
    text = "RX 9070 XT. It did not really work for me. Ubuntu 24.04 with 6.8 Kernel"
    assert machine(text).system.kernel.value == "6.8"


def test_a_gfx_target_within_a_name_tells_the_gpu() -> None:
    (gpu,) = machine("Hardware: Mini PC with AMD Ryzen 7 PRO 8845HS (Radeon 780M, gfx1103)").gpus
    assert gpu.arch.value == "gfx1103"


def test_a_command_goes_on_behind_a_backslash() -> None:
    text = "podman run -it --rm \\\n  --device=/dev/kfd \\\n  --device /dev/dri image\nNo HIP GPUs are available\n"
    pasted = machine(text).pasted
    assert pasted is not None
    assert pasted.gpus_given
    assert first(text).slug != "container-no-gpu"


def test_in_a_container_a_missing_compute_node_was_not_given() -> None:
    text = """root@101acc334128:/# rocminfo
ROCk module is loaded
Unable to open /dev/kfd read-write: No such file or directory
"""
    found = first(text)
    assert found.slug == "container-no-gpu"
    assert "nvidia-ctk" not in str(found.fixes)


@pytest.mark.parametrize(
    "place", ["running the image in a pod", "kubernetes k0s 1.29.4 on ubuntu", "/aio/entrypoint.sh: line 5: starting"]
)
def test_words_for_a_container(place: str) -> None:
    assert first(f"{place}\nnvidia-smi: command not found\n").slug == "container-no-gpu"


def test_the_kernel_log_within_a_sentence_is_read() -> None:
    text = 'After the update I see "nvidia-modeset: Version mismatch: nvidia.ko(378.13) nvidia-modeset(375.26)"'
    assert first(text).slug == "driver-lib-mismatch"


def test_the_driver_names_the_gpu_that_it_dropped_and_itself() -> None:
    text = """NVRM: The NVIDIA GeForce GTX 1050 GPU installed in this system is
NVRM:  supported through the NVIDIA 580.xx Legacy drivers. Please
NVRM:  visit the site. The 595.58.03 NVIDIA driver will ignore this GPU.
NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.
"""
    found = machine(text)
    assert [gpu.arch.value for gpu in found.gpus] == ["sm_61"]
    assert found.nvidia.module.value is None or found.nvidia.module.value.version == "595.58.03"
    slugs = [finding.slug for finding in judgement(text).findings if finding.severity == "error"]
    assert slugs == ["nvidia-driver-dropped-gpu"]
    assert "580" in first(text).fixes[0].title


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("WARN: NVML: can't get GPU #0, error code 15", "gpu-off-bus"),
        ("nvmlInit failed with return code 9", "no-driver"),
        ("NVML: error code 18", "driver-lib-mismatch"),
    ],
)
def test_codes_of_nvml(text: str, slug: str) -> None:
    assert first(f"NVIDIA GeForce GTX 1060\n{text}\n").slug == slug


def test_access_that_is_lost_is_no_gpu_off_the_bus() -> None:
    text = "NVIDIA RTX A2000: after some days the access to the GPU is lost in the docker container"
    assert "gpu-off-bus" not in [finding.slug for finding in judgement(text).findings]


def test_triton_that_nobody_needs_is_no_problem() -> None:
    text = "A matching Triton is not available, some optimizations will not be enabled\nNo module named 'triton'\n"
    assert [finding.severity for finding in judgement(f"RTX 4070\n{text}").findings] == ["note"]
    assert first("RTX 4070\nModuleNotFoundError: No module named 'triton'\n").severity == "warning"


def test_the_flavour_of_a_driver_is_not_made_up() -> None:
    told = machine("NVIDIA GeForce RTX 3060\nNVIDIA-SMI 550.120   Driver Version: 550.120   CUDA Version: 12.4\n")
    assert any("kernel module" in assumed for assumed in told.assumed)


def test_lspci_tells_that_nvidias_module_is_installed() -> None:
    """Then nouveau has to go, and no driver has to be installed."""
    text = """01:00.0 VGA compatible controller: NVIDIA Corporation GA106 [GeForce RTX 3060] (rev a1)
\tKernel driver in use: nouveau
\tKernel modules: nouveau{more}
"""
    titles = [first(text.format(more=more)).fixes[0].title for more in ("", ", nvidia_drm, nvidia")]
    assert titles[0].startswith("Install NVIDIA driver")
    assert titles[1] == "Stop nouveau from taking the GPU"


def test_a_message_of_cuda_on_amds_gpu_asks_for_no_driver_of_nvidia() -> None:
    text = "Radeon RX 6750 XT: RuntimeError: CUDA driver version is insufficient for CUDA runtime version"
    found = first(text)
    assert found.slug == "cuda-torch-on-amd"
    assert "no-driver" not in found.possible_causes


def test_an_error_that_names_the_integrated_gpu_beside_another_one() -> None:
    text = """- AMD 6800XT
rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file for GPU arch : gfx1036
"""
    assert [gpu.arch.value for gpu in machine(text).gpus] == ["gfx1030"]
    assert first(text).slug == "amd-igpu-interferes"


@pytest.mark.parametrize(
    ("line", "arch"),
    [
        ("Graphics card: 1 Tesla P100", "sm_60"),
        ("a laptop with a Geforce 940MX", "sm_50"),
        ("it works for the 4090", "sm_89"),
        ("\u67094080\u663e\u5361", "sm_89"),
    ],
)
def test_short_names_of_gpus(line: str, arch: str) -> None:
    (gpu,) = machine(line).gpus
    assert gpu.arch.value == arch


def test_cuda_behind_the_version_of_torch_tells_the_build() -> None:
    torch = machine("I use it with a RTX 3090 and PyTorch 2.0.1 CUDA 11.8 on Linux").torch
    assert torch is not None
    assert torch.build == "cu118"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (
            "ERROR: Dense stereo reconstruction requires CUDA, which is not available on your system.",
            "framework-cpu-only",
        ),
        ("WARNING: jax 0.4.31 does not provide the extra 'rocm'", "framework-cpu-only"),
        ("amdgpu_device_initialize: amdgpu_get_auth (1) failed (-1)", "container-cgroup-revoked"),
        ("`nvidia-smi` can't communicate with the drivers", "no-driver"),
    ],
)
def test_messages_of_further_programs(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "How can I run this on the CPU? Torch not compiled with CUDA enabled",
        "I run train.py with device=cpu in config.py\nAssertionError: Torch not compiled with CUDA enabled",
        "On my MacBook: AssertionError: Torch not compiled with CUDA enabled",
        "I don't have a GPU. RuntimeError: Torch is not able to use GPU",
    ],
)
def test_who_wants_the_cpu_has_no_fault_of_a_gpu(text: str) -> None:
    assert {finding.severity for finding in judgement(text).findings} == {"note"}
    assert "CPU" in first(text).fixes[0].title


@pytest.mark.parametrize(
    "text",
    [
        "It runs on the CPU instead of the GPU. AssertionError: Torch not compiled with CUDA enabled",
        "RTX 3060, device=cpu works. AssertionError: Torch not compiled with CUDA enabled",
        "Device: cpu\nRuntimeError: No GPU found. A GPU is needed for quantization.",
    ],
)
def test_who_misses_the_gpu_does(text: str) -> None:
    assert first(text).severity == "error"
    assert first(text).slug == "torch-cpu-only"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("7 of my 8 GPUs get PCI rejects atomics", "amd-pcie-atomics"),
        ("[hevc_nvenc @ 0x5] Cannot load libnvidia-encode.so.1", "container-no-gpu"),
        ("Number of platforms                               0", "container-no-gpu"),
        ("Could not load dynamic library 'libhip_hcc.so'; dlerror: cannot open", "rocm-version-mismatch"),
        ("Could not load dynamic library 'libcusolver.so.10'; dlerror: cannot open", "framework-cuda-libs-missing"),
        ("GPU #0: FATAL: the 't' kernel requires 5.0 capability!", "ext-built-without-gpu-arch"),
        ("[PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]", "framework-cuda-libs-missing"),
        ("ERROR: NVIDIA driver is not loaded", "no-driver"),
        ("cudaGetDeviceCount returned 35", "driver-too-old"),
    ],
)
def test_messages_that_a_third_batch_of_reports_showed(text: str, slug: str) -> None:
    assert first(text).slug == slug


FACTS = "RTX 4060, driver 560.35.03, Ubuntu 22.04, torch 2.5.1+cu124. "


@pytest.mark.parametrize(
    "complaint",
    [
        "Everything runs on the CPU.",
        "GPU usage is 0% during training.",
        "It hangs when I call .cuda() on the GPU.",
        "Training crashes with a segmentation fault.",
        "import torch fails.",
        "My script cannot use CUDA.",
        "It does not work.",
        "It stopped working after an update.",
        "Training is very slow on it.",
        "torch.cuda.is_available() is True, and the GPU is as slow as the CPU.",
        "I have two of these cards, but torch.cuda.device_count() gives 1.",
        "The PC shuts down when I train.",
        "CUDA out of memory although the GPU is empty.",
        "torch.cuda.is_available() was True yesterday and now it is False.",
        "It reaches 60% of the speed of its sister. What could that be?",
        "An epoch takes six hours, is that normal?",
        "The clock drops to 1200 MHz in training.",
        "The memory of the GPU is not freed when my script ends.",
        "llama.cpp nur 3 t/s statt 40 t/s seit dem Update.",
    ],
)
def test_a_complaint_that_nothing_explains_is_never_well(complaint: str) -> None:
    found = judgement(FACTS + complaint)
    assert [one.id for one in found.not_judged if one.matters] == ["GPD911"]


@pytest.mark.parametrize(
    "told",
    [
        "Training runs fine on the GPU.",
        "It works, without a crash.",
        "Which torch should I take?",
        "The GPU is not slow.",
        "Is torch slower than JAX on a GPU?",
        "I have two of these cards, and torch.cuda.device_count() gives 2.",
        "After the PC restarts the GPU works.",
        "Device: cuda:0 NVIDIA GeForce RTX 4060",
        "Is this a good GPU? What can I do with 8 GB?",
        "Any suggestions for a model that fits?",
    ],
)
def test_what_is_no_complaint_leaves_nothing_open(told: str) -> None:
    assert not judgement(FACTS + told).not_judged


def test_a_question_about_a_harmless_message_is_answered_by_it() -> None:
    harmless = (
        "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already"
    )
    assert judgement(f"{FACTS}\n{harmless} been registered\nIs that normal?\n").verdict == "ok"


def test_too_little_memory_for_a_model_is_no_complaint() -> None:
    assert not judgement(f"{FACTS}Training fails with CUDA out of memory, batch size 64.").not_judged


def test_a_complaint_beside_a_cause_asks_for_nothing_more() -> None:
    found = judgement(FACTS.replace("4060", "5090").replace("560.35", "580.95") + "Training crashes on the GPU.")
    assert [one.slug for one in found.findings] == ["torch-no-arch-for-gpu"]
    assert not found.not_judged


@pytest.mark.parametrize(
    ("told", "blind"),
    [
        ("torch 2.5.1+cu124 sees no GPU", True),
        ("PyTorch 2.5.1+cu124 can't detect the GPU", True),
        ("torch 2.5.1+cu124: no GPU found by torch", True),
        ("torch 2.5.1+cu124, cuda not available", True),
        ("torch 2.5.1+cu124 sees 0 GPUs", True),
        ("torch 2.5.1+cu124 sees the GPU", False),
        ("If torch 2.5.1+cu124 does not see the GPU, reinstall it", False),
        ("torch 2.5.1+cu124 does not use the GPU fully", False),
        ("torch 2.5.1+cu124 not only sees the GPU but is fast", False),
        ("With torch 2.4 it did not see the GPU; torch 2.5.1+cu124 does.", False),
        ("torch 2.5.1+cu124 does not see the GPU at boot. torch.cuda.is_available() is True", False),
    ],
)
def test_a_torch_that_sees_no_gpu_in_a_persons_words(told: str, blind: bool) -> None:
    slugs = problems(f"RTX 4060, driver 560.35.03. {told}\n")
    assert slugs == (["torch-wrong-build-or-cpu"] if blind else [])
