"""What a person tells around a fault in words of their own, and no program prints."""

from __future__ import annotations

import pytest

from tests.support.check_cases import matrix
from tests.support.judged_texts import first, machine, problems

ROWS = matrix().tables.told_circumstances
NVIDIA, AMD = "GPU: NVIDIA GeForce RTX 3060\n", "GPU: AMD Radeon RX 6800\n"
NO_GPU = "RuntimeError: Torch is not able to use GPU; add --skip-torch-cuda-test to COMMANDLINE_ARGS variable\n"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_no_text_keeps_a_pattern_busy(row) -> None:
    nearly = row.example[:-2]
    assert machine(nearly * 400).pasted is not None


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("When my notebook wakes up from sleep, the GPU is not found any more.", "nvidia-uvm-after-suspend"),
        ("Since I hibernated the machine CUDA fails until I reboot.", "nvidia-uvm-after-suspend"),
        ("Suspend/resume leads to ollama without CUDA.", "nvidia-uvm-after-suspend"),
        ("Since the last\nkernel update the GPU is missing", "nvidia-dkms-kernel-mismatch"),
        ("The GPU works with the older kernel 6.8, with 6.14 it does not.", "nvidia-dkms-kernel-mismatch"),
        ("With secure boot enabled the GPU is not found.", "secure-boot-module-rejected"),
        ("The GPU is detected only when I use sudo.", "gpu-device-permission"),
        ("In the docker container the GPU is lost after some hours.", "container-cgroup-revoked"),
        ("Ollama doesn't use my GPU", "program-on-cpu"),
        ("Why does it only use the CPU?", "torch-cpu-only"),
        ("It never uses my GPU.", "torch-cpu-only"),
        ("\u6709\u663e\u5361\uff0c\u4e3a\u4ec0\u4e48\u5374\u53ea\u7528CPU\uff1f", "torch-cpu-only"),
        ("GPU: \u0440\u0430\u0431\u043e\u0442\u0430\u0435\u0442 \u043d\u0430 CPU", "torch-cpu-only"),
        ("nvidia-dkms fails with kernel 6.14", "nvidia-dkms-kernel-mismatch"),
        ("NVIDIA DKMS fails on kernel 6.14", "nvidia-dkms-kernel-mismatch"),
        ("Installing both `onnxruntime` and `onnxruntime-gpu` breaks the GPU.", "ort-cpu-and-gpu-both"),
        (
            "I found that sudo apt-get install linux-headers-$(uname -r) fixes the driver.",
            "nvidia-dkms-kernel-mismatch",
        ),
        ("Every time the driver is updated, nvidia-ctk cdi generate has to be re-run.", "cdi-spec-stale"),
        ("My setup broke and I had to\nsudo dnf install akmod-nvidia-580xx", "nvidia-driver-dropped-gpu"),
        ("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm helped", "nvidia-uvm-after-suspend"),
        ("With NCCL_P2P_DISABLE=1 it works for me", "nccl-p2p-hang"),
        ("--shm-size=8g solved it", "shm-small"),
        ("unset LD_LIBRARY_PATH fixed it for my GPU", "ld-library-path-shadow"),
        ("Updating the NVIDIA driver solved the problem", "driver-too-old"),
        ("I had to blacklist nouveau and to reboot", "nouveau-conflict"),
        ("The logs say that nouveau wasn't disabled, and the nvidia module found no GPU.", "nouveau-conflict"),
        ("[BUG] GPUs of the node run into errors, potentially vGPU unlicensed", "vgpu-unlicensed"),
        ("tensorflow can't utilize the gpu", "framework-cpu-only"),
        ("When upgrading to Linux 6.14 the NVIDIA GPU was lost", "nvidia-dkms-kernel-mismatch"),
        ("It works **only as root**, my user gets no GPU", "gpu-device-permission"),
        ("Training is stuck at the start with both GPUs, but not with one GPU.", "nccl-p2p-hang"),
        (
            "The modules of nvidia are refused: loading fails due to Secure Boot",
            "secure-boot-module-rejected",
        ),
        ("Secure Boot blocks the nvidia kernel module on my laptop.", "secure-boot-module-rejected"),
        ("The nouveau driver conflicts with the nvidia driver of the node, and no GPU is left.", "nouveau-conflict"),
        ("No GPU: conda keeps installing cpuonly pytorch", "torch-cpu-only"),
        ("My program says that my NVIDIA version is too old", "driver-too-old"),
        ("Going from 'intel' to 'on-demand' nvidia-smi finds no devices", "module-blacklisted"),
        ("WSL 2 on Windows 10.0.19041.572 does not show my GPU to CUDA.", "wsl-driver"),
        ("NCCL dies at its start. When I disable nccl_p2p, it works.", "nccl-p2p-hang"),
        ("The NVIDIA GPU stopped working after upgrade to kernel 6", "nvidia-dkms-kernel-mismatch"),
        ("My nvidia drivers do not work after upgrading to 6.8", "nvidia-dkms-kernel-mismatch"),
        (
            "After I updated the driver CUDA did not find the GPU. I did a reboot and everything went fine.",
            "driver-installed-no-reboot",
        ),
        ("Docker cannot find the GPU: it fails to recognize nvidia runtime", "container-toolkit-missing"),
    ],
)
def test_a_complaint_without_any_message_names_a_cause(text: str, slug: str) -> None:
    found = first(NVIDIA + text)
    assert found.slug == slug
    assert found.confidence == "possible"
    assert found.fixes


@pytest.mark.parametrize(
    "text",
    [
        "CUDA runs out of memory on my GPU when I resume training from a checkpoint",
        "[Bug] sleep mode: the GPU memory is not released after wake_up; I call llm.sleep(level=1)",
        "time.sleep(10) does not help, the GPU is busy",
        "pip says that it should not be run as root, and the GPU is not the problem",
        "I installed it with sudo apt install, the GPU is fine",
        "I switched secure boot off and the GPU is still not found",
        "The CUDA kernel fails after the update of torch on this GPU",
        'level=ERROR msg="amdgpu devices detected but permission problems block access"',
        "Multi-GPU training is supported.",
        "ollama uses the GPU and the CPU is idle",
        "I ran sudo apt-get install linux-headers-$(uname -r) before",
        "docker run --gpus all --shm-size=8g image",
        "I updated the NVIDIA driver yesterday, the GPU is an old one",
        "The GPU is used, and the CPU only 5 %.",
        "Feature request: it only uses the CPU today, please add support for the GPU",
        "How do I force the CPU? I want to run on the CPU only, not use my GPU",
        "pip install 'numpy<2' torch",
        "I tried NCCL_P2P_DISABLE=1, but nothing helped with these GPUs",
        "The monitor is connected to the integrated Intel graphics, the NVIDIA GPU is free",
        "I disabled secure boot, nvidia-smi works, and training on the GPU does not get faster",
        "The GPU works under WSL 2 on Windows 10.0.19045.3803, but the disk is full",
        "With prime-select intel the battery lasts longer, and the GPU is off",
        "torch is not faster on the GPU after the upgrade to 2.7",
        "How do I install the nvidia container toolkit for podman? The GPU is there",
    ],
)
def test_other_things_that_are_told_with_the_same_words_name_none(text: str) -> None:
    assert not problems(NVIDIA + text)


def test_what_is_told_ranks_the_causes_of_a_message() -> None:
    plain = first(NVIDIA + NO_GPU)
    told = first(NVIDIA + NO_GPU + "It works only as superuser.\n")
    assert (plain.slug, told.slug) == ("torch-cpu-only", "gpu-device-permission")
    assert "torch-cpu-only" in told.possible_causes


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("My graphics card is an Intel HD Graphics 520, and I want to run it on CUDA.", "no-gpu"),
        ("How can I make it run on my AMD GPU? It never uses my GPU.", "framework-other-vendor"),
        ("My AMD graphics card is not found by HIP; upgrading the kernel fixed it.", "amd-kernel-or-runtime-too-old"),
        ("amdgpu-dkms fails with Ubuntu kernel 6.8.0-44, AMD GPU", "amd-dkms-kernel-mismatch"),
        ("AMDGPU DKMS fails to build on Linux 6.16. GPU: AMD Radeon RX 9070 XT", "amd-dkms-kernel-mismatch"),
        ("AMDGPU/ROCm DKMS fails on kernel 6.16", "amd-dkms-kernel-mismatch"),
    ],
)
def test_a_text_that_names_no_gpu_tells_whose_it_is_about(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("I have an Intel Arc A770 and torch.cuda.is_available() returns False.", "no-gpu"),
        ("torch.cuda.is_available() returns False. My laptop has Iris Xe graphics.", "no-gpu"),
        ("RuntimeError: No CUDA GPUs are available. My laptop has Intel Iris Xe graphics", "no-gpu"),
        ("Intel Core i7, RTX 3060: RuntimeError: No CUDA GPUs are available. I am lost", "cuda-visible-devices"),
        ("Intel UHD 770 and an RTX 3090. RuntimeError: No CUDA GPUs are available", "cuda-visible-devices"),
    ],
)
def test_what_a_person_says_in_the_line_of_a_message_counts(text: str, slug: str) -> None:
    assert first(text).slug == slug


def test_a_hosted_notebook_needs_a_gpu_to_be_chosen() -> None:
    message = "RuntimeError: No CUDA GPUs are available\n"
    assert first(f"I run the notebook in Google Colab.\n{message}").slug == "job-without-gpu"
    assert first(f"It works in Google Colab, but not on my PC.\n{message}").slug == "cuda-visible-devices"


def test_a_mac_in_few_words_is_no_broken_linux() -> None:
    assert not problems("i have a mac m2 and torch.cuda.is_available() is False")
    assert problems("RTX 4000 Ada, torch 2.6.0+cpu. The lock file was made on a mac.") == ["torch-cpu-only"]
    assert problems("the mac address of my RTX 3060 machine changed and torch.cuda.is_available() is False")


def test_the_vendor_of_the_gpu_decides_whose_nodes_are_closed() -> None:
    assert first(AMD + NO_GPU + "It works only with sudo.\n").slug == "amd-device-permission"


def test_an_exact_message_is_not_overruled_by_what_is_told() -> None:
    text = NVIDIA + "Failed to initialize NVML: Driver/library version mismatch\nIt came after a kernel update.\n"
    assert first(text).slug == "driver-lib-mismatch"


def test_a_new_driver_that_helped_was_too_old_although_the_machine_was_restarted() -> None:
    assert first(f"{NVIDIA}Updating the NVIDIA driver and a reboot fixed it.").slug == "driver-too-old"


def test_a_reboot_that_did_not_help_is_not_proposed_first() -> None:
    message = "Failed to initialize NVML: Driver/library version mismatch\n"
    before, after = first(message), first(message + "I tried rebooting, but it still does not work.\n")
    assert before.slug == after.slug == "driver-lib-mismatch"
    assert before.fixes[0].title.startswith("Reboot")
    assert not after.fixes[0].title.startswith("Reboot")


def test_a_gpu_that_computed_silences_what_is_told() -> None:
    assert not problems(NVIDIA + "Is CUDA available: True\nAfter suspend the GPU was lost once.\n")


def test_a_harmless_message_does_not_hide_a_complaint() -> None:
    harmless = 'level=WARN msg="amdgpu version file missing: /sys/module/amdgpu/version stat: no such file"\n'
    assert problems(AMD + harmless) == []
    assert first(AMD + harmless + "ollama fails to detect the GPU").slug == "program-on-cpu"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("# llama.cpp does not find the GPU since I put nomodeset into grub", "module-blacklisted"),
        (
            "no ROCm-capable device is detected\nBOOT_IMAGE=/vmlinuz root=/dev/sda1 nomodeset quiet\n",
            "module-blacklisted",
        ),
        ("As a normal user rocminfo finds nothing, with sudo it lists my gfx1030 card.", "amd-device-permission"),
        ("llama.cpp crashes if the integrated GPU (gfx1036) is seen beside the gfx1201", "amd-igpu-interferes"),
    ],
)
def test_what_people_tell_of_amd_gpus_names_a_cause(text: str, slug: str) -> None:
    assert first(f"{text}\n{AMD}").slug == slug


NO_CODE = "CUDA error: no kernel image is available for execution on the device\n"


def test_a_program_with_cuda_code_of_its_own_is_compiled_again_and_no_torch_installed() -> None:
    told = first(f"{NVIDIA}{NO_CODE}It is my own build of darknet, with OpenCV.\n")
    assert told.slug == "ext-built-without-gpu-arch"
    assert "CUDA_ARCH_BIN" in str(told.fixes[0].remedies)
    assert "torch" not in str(told.fixes)
    assert first(f"{NVIDIA}{NO_CODE}I use OpenCV and torch.\n").slug == "torch-no-arch-for-gpu"


def test_the_web_ui_on_an_amd_gpu_has_a_build_for_nvidia() -> None:
    for message in (NO_GPU, "PyTorch is not able to access CUDA\n"):
        assert first(AMD + message).slug == "cuda-torch-on-amd"
        assert first(NVIDIA + message).slug == "torch-cpu-only"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("It is a VirtualBox virtual machine without a GPU: no GPU is installed there.", "no-gpu"),
        ("On k3s the pod needs runtimeClassName: nvidia, and I cannot set it.", "container-no-gpu"),
    ],
)
def test_where_a_program_runs_ranks_why_it_finds_no_gpu(text: str, slug: str) -> None:
    assert first(f"RuntimeError: No CUDA GPUs are available\n{text}\n").slug == slug


def test_a_pull_request_quotes_errors_and_complains_of_none() -> None:
    body = "This PR adds a section on `CUDA error: no kernel image is available for execution on the device`.\n"
    assert problems(f"# docs(readme): old GPUs\n\n## Summary\n\n{body}") == []
    assert problems(f"# CUDA error on an old GPU\n\n## Summary\n\n{body[8:]}") != []


def test_the_cudnn_of_ctranslate2_is_put_on_the_load_path() -> None:
    message = "Unable to load any of {libcudnn_cnn.so.9.1.0, libcudnn_cnn.so.9}\n"
    assert "LD_LIBRARY_PATH" in first(f"{message}faster-whisper==1.1.0\nI use faster-whisper here").fixes[0].title


def test_in_wsl_no_module_of_the_kernel_keeps_the_driver_away() -> None:
    refused = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    found = first(f"Linux version 5.4.91-microsoft-standard-WSL2 (oe-user@oe-host)\n{refused}")
    assert found.slug == "wsl-driver"
    assert not {"nouveau-conflict", "secure-boot-module-rejected"} & set(found.possible_causes)
    assert first(refused).slug == "no-driver"


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("My driver is 390; however, CUDA 9.2 requires driver 396, so the GPU is not found.", "driver-too-old"),
        ("nouveau was configured by default. Putting it on the black list fixed the bug.", "nouveau-conflict"),
        (
            "The GPU hangs on Strix Halo: rolling back to an older amd-gpu-firmware fixed it.",
            "amd-firmware-regression",
        ),
        ("My Radeon APU is not supported by ROCm under WSL2.", "rocm-wsl-unsupported"),
        ("I must run nvidia-smi after each boot, otherwise the container fails.", "nvidia-uvm-missing"),
        ("ollama lost the GPU. What got it working:\nsudo modprobe nvidia_uvm", "nvidia-uvm-after-suspend"),
    ],
)
def test_what_decided_in_the_words_of_a_person(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "Verify permissions\n\nThis adds a check. Fixes:\n\nFixes #6685\n\n> open /dev/kfd: permission denied\n",
        "Add a troubleshooting note\n\nFailed to initialize NVML: Driver/library version mismatch\n\n"
        "### Related Issue\n",
        "nvidia: the old branch for Pascal\n\n###### Description of changes\n\nDriver 590 no longer supports my "
        "GTX 1070.\n\n###### Things done\n",
    ],
)
def test_a_change_without_the_title_of_a_commit_is_no_complaint_either(text: str) -> None:
    assert problems(text) == []


def test_win10_is_windows() -> None:
    found = first("OS: win10\nAMD 6600XT\nAssertionError: Torch not compiled with CUDA enabled\n")
    assert not any("--index-url" in str(fix) or "HSA_OVERRIDE" in str(fix) for fix in found.fixes)


def test_a_kfd_that_took_no_gpu_is_told_once_and_an_old_processor_names_the_cause() -> None:
    printed = (
        "Unable to open /dev/kfd read-write: Cannot allocate memory\nhsa api call failure at: rocminfo.cc:1142\n"
    )
    assert list(problems(f"Radeon VII\n{printed}")) == ["amd-kernel-or-runtime-too-old"]
    assert first(f"My Radeon RX 570 is in a board with a Xeon E5-2689.\n{printed}").slug == "amd-pcie-atomics"
    assert first(f"My Radeon RX 570 is in a board with a Xeon E5-2689 v3.\n{printed}").slug != "amd-pcie-atomics"


def test_a_manual_that_says_what_to_do_complains_of_nothing() -> None:
    manual = (
        "# Installation\n\nInstall the NVIDIA driver first. CUDA 12.8 requires driver 570.26 or newer.\n"
        "Do not boot with nomodeset. Blacklist nouveau before you install the driver.\n"
        "On k3s set runtimeClassName: nvidia in the pod.\n"
    )
    assert problems(manual) == []
    assert problems("# ROCm\n\nROCm under WSL2 is not supported on Radeon APUs.\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "If you see `Failed to initialize NVML: Driver/library version mismatch`, just reboot.",
        "The build will most likely throw CUDA driver version is insufficient for CUDA runtime version",
        "- fix: no longer crash with CUDA error: no kernel image is available for execution on the device",
        "* Fixed Failed to initialize NVML: Driver/library version mismatch (#812)",
        "1. To run docker with a GPU, you need to install the nvidia container toolkit",
    ],
)
def test_what_others_may_see_is_no_complaint(text: str) -> None:
    assert problems(text) == []


def test_what_a_person_saw_counts_beside_what_a_manual_says() -> None:
    seen = "I see it, too:\nFailed to initialize NVML: Driver/library version mismatch\n"
    assert problems(f"The manual says: if you see a version mismatch, reboot.\n{seen}") == ["driver-lib-mismatch"]


def test_a_short_text_is_about_one_matter() -> None:
    sentence = "For some reason secure boot turned on after the update of the BIOS.\n"
    assert problems(f"The nvidia module is missing\n\nIt worked before.\nI did not look.\n\n{sentence}") == [
        "secure-boot-module-rejected"
    ]
    long = "The rest of the machine is as it was, and nothing else was changed on it since then.\n" * 6
    assert problems(f"The nvidia module is missing\n\n{long}\n{sentence}") == []
    assert problems(f"Which nvidia modules are missing?\n\nI ask.\nI read.\n\n{sentence}") == []


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("`lspci | grep -i nvidia` yields no output.", "no-gpu"),
        ("The GPU of NVIDIA is not even listed in lspci.", "no-gpu"),
        ("lspci | grep -i nvidia shows the GPU, nvidia-smi prints nothing.", None),
        ("The pip command gave me a CPU-only version of torch, so no GPU is used.", "torch-cpu-only"),
        ("How do I install the CPU version of torch?", None),
        ("With ROCm 7.1 there is a rocblas error on my gfx906.", "rocblas-no-arch"),
        ("rocblas works on my gfx906.", None),
        ("The execution providers list only azure and cpu, no cuda.", "ort-cpu-and-gpu-both"),
        ("providers=['CPUExecutionProvider'] is what I use on my GPU server.", None),
    ],
)
def test_what_is_missing_in_the_words_of_a_person(text: str, slug: str | None) -> None:
    found = problems(f"{text}\n")
    assert (found[0] if found else None) == slug


# --- the same command without and with sudo --------------------------------------------------------

DENIED = "hsa api call failure at: rocminfo.cc:1102\nHSA_STATUS_ERROR_OUT_OF_RESOURCES\n"
LISTED = "HSA System Attributes\nRuntime Version: 1.1\nVendor Name: AMD\n"


@pytest.mark.parametrize(
    ("user", "root", "slug"),
    [
        (f"$ /opt/rocm/bin/rocminfo\n{DENIED}", f"$ sudo /opt/rocm/bin/rocminfo\n{LISTED}", "amd-device-permission"),
        (
            "me@box:~$ clinfo --list\n",
            "me@box:~$ sudo -u root clinfo --list\nDevice #0: gfx1030\n",
            "amd-device-permission",
        ),
        (
            "$ nvidia-smi\nFailed to initialize NVML: Insufficient Permissions\n",
            "$ sudo nvidia-smi\n| NVIDIA-SMI 550.54.14 |\n",
            "gpu-device-permission",
        ),
    ],
)
def test_a_command_that_lists_gpus_for_root_only(user: str, root: str, slug: str) -> None:
    assert first(f"{user}\nand\n\n{root}").slug == slug


@pytest.mark.parametrize(
    "text",
    [
        f"$ rocminfo\n{DENIED}\n$ sudo rocminfo\n{DENIED}",  # root sees no more
        f"$ rocminfo\n{DENIED}\n$ sudo clinfo\n{LISTED}",  # another command
        f"$ rocminfo\n\n$ sudo rocminfo\n{LISTED}",  # what the user saw is not pasted
        f"$ rocminfo\n{DENIED}\n$ sudo rocminfo\n{LISTED}\n$ rocminfo\n{LISTED}",  # it works by now
    ],
)
def test_commands_that_do_not_tell_of_rights(text: str) -> None:
    assert machine(text).pasted.told == ()


# --- a crash with a ROCm that has no code for the GPU ----------------------------------------------

CRASH = "tensorflow ends with a segmentation fault on my GPU.\n"


@pytest.mark.parametrize(
    "text",
    [
        f"GPU: RX 5600 XT\nROCm/MIOpen version: 3.5.0\n{CRASH}",
        f"I use ROCm 6.4 with a Radeon VII.\n{CRASH}",
    ],
)
def test_a_crash_with_a_rocm_that_has_no_kernels_for_the_gpu(text: str) -> None:
    assert first(text).slug == "rocblas-no-arch"


@pytest.mark.parametrize(
    "text",
    [
        f"I use ROCm 6.4 with a Radeon RX 6800.\n{CRASH}",  # gfx1030 is in its list
        f"I have a Radeon VII.\n{CRASH}",  # which ROCm, nobody tells
        f"I use ROCm 6.4.\n{CRASH}",  # which GPU, nobody tells
        f"GPU: RX 5600 XT\nROCm version: 6.4\nPyTorch version: 2.7.1+rocm6.3\n{CRASH}",  # torch brings its own
        f"I upgraded from ROCm 6.4 with a Radeon VII.\n{CRASH}",  # another release than the present one
        "I use ROCm 6.4 with a Radeon VII, and tensorflow trains on my GPU.\n",
    ],
)
def test_crashes_that_a_gap_of_rocm_does_not_explain(text: str) -> None:
    assert "crash-without-rocm-code" not in [one.circumstance for one in machine(text).pasted.told]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("My RX 9070 XT is not recognized. Ubuntu 24.04 with 6.8 kernel.", False),
        ("Kernel 6.8.0-60-generic doesn't find my RX 9070 XT.", False),
        ("Kernel 6.14.0 doesn't find my RX 9070 XT.", True),
        ("Kernel 5.14.0-570.el9.x86_64 doesn't find my RX 9070 XT.", True),  # Red Hat adds newer drivers
        ("RHEL 9.6, kernel 5.14: it doesn't find my RX 9070 XT.", True),
        ("Kernel 6.8.0 doesn't find my RX 9070 XT, with amdgpu-dkms installed.", True),
        ("Kernel 6.8.0 runs my RX 9070 XT.", True),
        ("My RX 9070 XT is not recognized.", True),
    ],
)
def test_a_kernel_from_before_the_gpu(text: str, *, known: bool) -> None:
    assert problems(f"{text}\n") == ([] if known else ["amd-kernel-or-runtime-too-old"])


def test_wsl_that_cannot_find_the_gpu() -> None:
    text = "I installed the driver, and WSL can't find the Radeon RX 9070 XT with rocminfo.\n"
    assert problems(text) == ["rocm-wsl-unsupported"]


def test_a_program_that_runs_in_the_container_is_in_a_container() -> None:
    failed = "cudaGetDeviceCount returned 30\n-> unknown error\n"
    assert first(f"When I run the samples in the container, I get:\n{failed}").slug == "nvidia-uvm-missing"
    assert first(f"When I run the samples on the host, I get:\n{failed}").slug != "nvidia-uvm-missing"


def test_what_clinfo_says_in_the_words_of_a_person() -> None:
    assert problems("In the docker container clinfo reported number of platforms 0.\n") == ["container-no-gpu"]


def test_steps_that_lead_to_a_fault_are_no_remedy() -> None:
    step = "I had to install nvidia-container-toolkit on the host.\n"
    assert problems(f"The container does not see the GPU.\n\n## Fix\n{step}") == ["container-toolkit-missing"]
    assert problems(f"The container does not see the GPU.\n\n## Steps to reproduce\n{step}") == ["container-no-gpu"]


@pytest.mark.parametrize(
    ("attribute", "said", "slug"),
    [
        (
            "The driver has to have a branch-matched fabric manager on the GPU node.",
            "I had to match the fabric manager with the driver of the GPU.",
            "fabric-manager-not-running",
        ),
        (
            "The check tells if torch can use the GPU instead of just the CPU.",
            "Here torch runs on just the CPU, not on the GPU.",
            "torch-cpu-only",
        ),
    ],
)
def test_words_that_only_describe_are_no_complaint(attribute: str, said: str, slug: str) -> None:
    assert problems(f"{attribute}\n") == []
    assert problems(f"{said}\n") == [slug]


@pytest.mark.parametrize(
    ("remedy", "helped"),
    [
        ("Adding --device=/dev/kfd fixed it.", True),
        ("I had to uncomment the /dev/kfd line of docker-compose.yml.", True),
        ("Fixed by adding runtime: nvidia to the compose file.", True),
        ("Adding --gpus all did not help.", False),
        ("Adding --gpus all worked until the last update.", False),
        ("I run it with --gpus all, and it worked before.", False),
    ],
)
def test_a_container_that_was_given_the_gpu(remedy: str, *, helped: bool) -> None:
    assert problems(f"In docker the GPU was not found.\n{remedy}\n") == (["container-no-gpu"] if helped else [])


def test_a_device_node_is_given_to_containers_only() -> None:
    assert problems("The GPU was not found.\nAdding --device=/dev/kfd fixed it.\n") == []


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Since the last update torch has no CUDA anymore. RTX 3060, Windows 11.", "torch-cpu-only"),
        (
            "The installer replaced my torch with the CPU version. How do I get the GPU back? RTX 4070",
            "torch-cpu-only",
        ),
        (
            "Torch does not have CUDA\n\nThe update script downgraded torch to the cpu build, RTX 3090.",
            "torch-cpu-only",
        ),
        ("requirements.txt reinstalls torch without cuda every time, my GPU is a RTX 4090", "torch-cpu-only"),
        ("onnxruntime-gpu reports missing libcublasLt.so.12 on my server", "framework-cuda-libs-missing"),
        ("Could not find library libcudnn.so.9 when running onnxruntime-gpu 1.20", "framework-cuda-libs-missing"),
        ("nvidia.com/gpu: 0 on the node, although the device plugin runs (containerd)", "container-toolkit-missing"),
        ('The device plugin logs "No devices found. Waiting indefinitely." on k3s', "container-toolkit-missing"),
        ('TensorFlow 2.16.1 on Windows 11: list_physical_devices("GPU") returns [].', "framework-cpu-only"),
        ("Num GPUs Available:  0 is printed\ntensorflow 2.12.0\nOS: Windows 10", "framework-cpu-only"),
        ("nvidia-smi works on the host but not inside the docker container", "container-no-gpu"),
        ("The NVIDIA driver is too old for torch, it says.", "driver-too-old"),
        ("ROCm 6.2 works fine on my MI210, with ROCm 6.4 every matmul hangs", "rocm-runtime-bug"),
        ("Since upgrading from ROCm 6.3 to 7.0 llama.cpp crashes with a segfault on gfx1030", "rocm-runtime-bug"),
        ("rocminfo works for my colleague on this server, but not for my account. RX 6800", "amd-device-permission"),
        (NVIDIA + "$ srun -p gpu --pty bash\n$ nvidia-smi\nNo devices were found", "job-without-gpu"),
        ("#SBATCH --partition=gpu\npython train.py\nRuntimeError: No CUDA GPUs are available", "job-without-gpu"),
        (NVIDIA + "Error: Unable to find a match: kernel-headers kernel-devel", "nvidia-dkms-kernel-mismatch"),
        (AMD + "Error! Your kernel headers for kernel 6.5.0-14 cannot be found at /x", "amd-dkms-kernel-mismatch"),
        ("Error: ... Radeon card detected, but permissions not set up properly.", "amd-device-permission"),
        (
            "I use an AMD Radeon GTX 6750 GPU.\nRuntimeError: Found no NVIDIA driver on your system",
            "cuda-torch-on-amd",
        ),
        ("gt650m: no kernel image is available for execution on the device", "torch-dropped-old-gpu"),
        (
            "$ podman run --env HSA_OVERRIDE_GFX_VERSION=gfx1103 --device /dev/kfd --device /dev/dri ollama\n"
            'msg="detected amdgpu versions [gfx1103]"\nCUDA error: invalid device ordinal',
            "hsa-override-wrong",
        ),
    ],
)
def test_a_cause_in_one_sentence(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("My torch sees no GPU since I closed the lid of the laptop. RTX 3060", "nvidia-uvm-after-suspend"),
        ("[rock-dkms] dkms build fails", "amd-dkms-kernel-mismatch"),
        (
            "$ sudo dkms install nvidia/390.157\nError! Bad return status for module build on kernel: 6.5.2",
            "nvidia-dkms-kernel-mismatch",
        ),
        ("The 470 driver for my GTX 660 does not build on kernel 6.12", "nvidia-dkms-kernel-mismatch"),
        ("driver 590 no longer detects my GTX 1070", "nvidia-driver-dropped-gpu"),
        ("RTX 5090 will need `nvidia-open` installed\n\nThe script does not install it.", "blackwell-open-module"),
        ("My RX 7800 XT is not detected on Ubuntu on WSL2.", "rocm-wsl-unsupported"),
        ("hsa_init: No WDDM adapters found. Ryzen AI MAX 395", "rocm-wsl-unsupported"),
        ("ComfyUI uses the integrated Radeon graphics instead of the 7900 XTX", "amd-igpu-interferes"),
        ("CUDA_VISIBLE_DEVICES=1 but I have only one GPU, torch finds no GPU", "cuda-visible-devices"),
        ("My user is not in the render group, rocminfo finds nothing", "amd-device-permission"),
        ("MIOpen kernel compilation fails with assembly errors on Radeon 8050S", "rocm-runtime-bug"),
        ("LXC container: /dev/nvidia-uvm missing, and CUDA fails with error 999. RTX 3060", "nvidia-uvm-missing"),
        ("The A100 nodes are MIGed, and my script finds no CUDA device.", "mig-confusion"),
        ("It is stuck with the backend nccl, and works with gloo. 2 RTX 4090", "nccl-p2p-hang"),
        ("LM Studio couldn't detect GPU", "program-on-cpu"),
        ("In a new virtual environment tensorflow says the GPUs are not recognized", "framework-cuda-libs-missing"),
        (
            "symbol cublasLtGetVersion version libcublasLt.so.11 not defined in file libcublasLt.so.11",
            "ld-library-path-shadow",
        ),
        ('exec: "nvidia-smi": executable file not found in $PATH: unknown', "no-driver"),
        ("Failed to initialize NVML: Driver / library version mismatch", "driver-lib-mismatch"),
        ("GTX 1060 with torch 2.8 cu129 gives wrong pictures", "torch-dropped-old-gpu"),
        ("sm_120 is not compatible with the current PyTorch installation", "torch-no-arch-for-gpu"),
        ("RuntimeError: Found no NVIDIA driver on your system\nsame, i'm using AMD Radeon", "cuda-torch-on-amd"),
        ("Installing onnxruntime on top of onnxruntime-gpu takes CUDA away.", "ort-cpu-and-gpu-both"),
        (
            "['CUDAExecutionProvider'] does not contain a subset of available providers ['CPUExecutionProvider']",
            "ort-cpu-and-gpu-both",
        ),
        ("It crashes with the RTX 50XX series, it needs to update torch to 12.8", "torch-no-arch-for-gpu"),
        ("RTX 50 series not working. You need PyTorch with cu128.", "torch-no-arch-for-gpu"),
        ("驱动出现了xid 79, GPU是Rtx Pro 6000", "gpu-off-bus"),
        ("paddle trainer: libcudnn v5 with header v7 unmatched", "cudnn-mismatch"),
        (
            "#0 0x00007f in hip::FatBinaryInfo::AddDevProgram(int) () from libamdhip64.so",
            "torch-rocm-no-arch-for-gpu",
        ),
    ],
)
def test_a_cause_in_a_few_words(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "How do I install the CPU version of torch? I have no GPU.",
        "ROCm 6.4 works fine on my MI210, thanks!",
        "Is ROCm 7.0 faster than ROCm 6.4 on RX 7900 XTX?",
        "TensorFlow 2.16 has no GPU build for Windows 11; I use WSL2 and the GPU works.",
        "#SBATCH --gres=gpu:1\nTraining runs on the GPU.",
        "After the kernel update nvidia works without problems.",
        "Removing HSA_OVERRIDE_GFX_VERSION=12.0.1 has no effect on my RX 9070, you were right.",
        "It only uses the CPU while loading, then the GPU takes over. Is this normal? RTX 3060",
        "ROCm on WSL works on my 7900 XTX, the GPU is detected.",
        "nvidia-driver-570-open works on my RTX 5090, thanks.",
        'print("GOOD") if "render" in groups else print("BAD: not in render group")',
        "RTX 5090 with torch 2.8.0+cu128: which batch size is recommended?",
        "We moved from onnxruntime to onnxruntime-gpu, and everything is fast now.",
    ],
)
def test_the_same_words_without_a_complaint(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    "title",
    [
        "[CI] Add a GPU runner",
        "[ci fix] torchvision channel\n\nSimilar to the fix in https://github.com/a/b/pull/2959",
        "[Doc] Update the troubleshooting page",
        "[Bugfix] Fix the device count on ROCm",
        "Bump torch to 2.8\n\nFollow-up to https://github.com/a/b/pull/12.",
        "Update gpu.md\n\n# Pull Request\nWhy?",
        "Document the issue with MIG in the FAQ",
        "added runtimeClassName to fix the CUDA error on gpu-pod.yaml\n\nThis will fix the issue.",
    ],
)
def test_titles_of_changes_are_no_complaints(title: str) -> None:
    assert problems(f"{title}\n\nBefore, it raised `RuntimeError: No CUDA GPUs are available`.") == []


def test_tags_that_reports_carry_are_no_titles_of_changes() -> None:
    text = "[ROCm] Use of torch fails\n\nRuntimeError: No HIP GPUs are available"
    assert problems(text) != []


@pytest.mark.parametrize(
    "line",
    [
        "      # - HSA_OVERRIDE_GFX_VERSION=9.0.0",
        "      #HSA_OVERRIDE_GFX_VERSION: 9.0.0",
        "#export HSA_OVERRIDE_GFX_VERSION=9.0.0",
        "# - HSA_OVERRIDE_GFX_VERSION=9.0.0",
    ],
)
def test_a_line_that_is_commented_out_sets_nothing(line: str) -> None:
    text = f"    environment:\n{line}\nRX 7900 XTX, torch 2.6.0+rocm6.2"
    assert problems(text) == []
    assert problems(text.replace("#", "")) == ["hsa-override-wrong"]


def test_the_prompt_of_root_is_no_comment() -> None:
    assert problems("# HSA_OVERRIDE_GFX_VERSION=9.0.0 python main.py\nRX 7900 XTX") == ["hsa-override-wrong"]


def test_a_compose_file_that_gives_no_device_is_why_no_gpu_is_found() -> None:
    text = "services:\n  comfy:\n    image: rocm/pytorch\n#    devices:\n#      - /dev/kfd\n"
    assert first(f"{text}RuntimeError: No HIP GPUs are available").slug == "container-no-gpu"


def test_rocm_needs_more_nodes_than_kfd_in_a_container() -> None:
    failed = "hsa api call failure at line 900, file: rocminfo.cc. Call returned 4104"
    card = "04:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Vega 10 XT [Radeon RX Vega 64]"
    given = "docker run -it --device=/dev/kfd{} rocm/rocm-terminal\n"
    assert first(f"{given.format('')}{failed}\n{card}").slug == "container-no-gpu"
    assert first(f"{given.format(' --device=/dev/dri')}{failed}\n{card}").slug != "container-no-gpu"


def test_the_sample_in_a_pod_has_no_driver_rather_than_an_old_one() -> None:
    failed = (
        "Failed to allocate device vector A (error code CUDA driver version is insufficient for CUDA runtime ...)"
    )
    assert first(f"The cuda-vectoradd pod is in CrashLoopBackOff.\n{failed}").slug == "container-no-gpu"
    assert first(f"The sample fails on my workstation.\n{failed}").slug == "driver-too-old"


def test_one_sentence_names_one_cause() -> None:
    text = "My RX 7900 XT: ComfyUI in WSL2 does not use my GPU, and the GPU is not detected."
    assert problems(text) == ["rocm-wsl-unsupported"]


def test_packages_of_rocm_for_a_newer_system_are_named_as_such() -> None:
    by = "/opt/rocm/lib/libhsa-runtime64.so.1"
    finding = first(f"rocminfo: /lib/libstdc++.so.6: version `GLIBCXX_3.4.30' not found (required by {by})")
    assert finding.slug == "libstdcxx-too-old"
    assert "packages for this release" in finding.fixes[0].title


@pytest.mark.parametrize(
    "line",
    [
        "Note: On MIG-enabled GPUs, querying the utilization of encoder, decoder, jpeg is not currently supported.",
        "Nvlink queries are not supported for Devices in MIG mode.",
    ],
)
def test_what_nvidia_smi_prints_of_mig_is_no_complaint(line: str) -> None:
    assert problems(f"NVIDIA H100 80GB HBM3\n$ nvidia-smi -h\n{line}") == []


def test_a_driver_of_which_only_the_cuda_is_told_is_one_that_knows_the_gpu() -> None:
    query = 'Device 0: "NVIDIA GeForce RTX 5090"\n  CUDA Driver Version / Runtime Version          12.8 / 11.8\n'
    capability = "  CUDA Capability Major/Minor version number:    12.0\n"
    assert problems(f" CUDA Device Query (Runtime API) version\n\n{query}{capability}Result = PASS") == []


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("NVIDIA driver was not found by the program", "no-driver"),
        ("nvidia-smi no longer works", "no-driver"),
        ("GPU not detected in WSL2", "wsl-driver"),
        ("WSL can't see my NVIDIA GPU", "wsl-driver"),
        ("podman container does not find any GPU", "container-no-gpu"),
        ("My sbatch script was missing --gres=gpu:1, so CUDA has no device", "job-without-gpu"),
        ("torch.version.cuda is None", "torch-cpu-only"),
        ("pytorch doesn't support my RTX 5080", "torch-no-arch-for-gpu"),
        ("The torch 2.5 of the requirements has no sm_120", "torch-no-arch-for-gpu"),
        ("PyTorch dropped support for my GTX 1080 Ti", "torch-dropped-old-gpu"),
        ("triton does not support sm_120", "ptxas-too-old"),
        ("flash-attn is compiled against a different torch version", "flash-attn-abi"),
        ("xformers fails after updating pytorch", "xformers-mismatch"),
        ("vllm broke after I upgraded torch to 2.7", "vllm-torch-abi"),
        ("pytorch 2.1 with numpy 2.0 breaks my GPU script", "numpy2-old-torch"),
        ("TensorFlow can't load cudart", "framework-cuda-libs-missing"),
        ("the service user can't open /dev/nvidia0", "gpu-device-permission"),
        ("My RTX 3090 disappears under load", "gpu-off-bus"),
        ("GPU 3 has uncorrectable ECC errors, training crashes", "gpu-ecc"),
        ("NVIDIA driver version mismatch after the update", "driver-lib-mismatch"),
        ("After unattended-upgrades touched the nvidia packages nvidia-smi fails", "driver-lib-mismatch"),
        ("CUDA is unavailable after closing the lid of my laptop", "nvidia-uvm-after-suspend"),
        ("unattended-upgrades broke my NVIDIA driver", "driver-lib-mismatch"),
        ("My docker container can't access the GPU", "container-no-gpu"),
        ("numpy 2.0 is not compatible with torch 2.2", "numpy2-old-torch"),
        ("PyTorch doesn't support my RTX 5090", "torch-no-arch-for-gpu"),
        ("It does not work, the GPU is lost", "gpu-off-bus"),
    ],
)
def test_one_plain_sentence_names_a_cause(text: str, slug: str) -> None:
    assert problems(text) == [slug]


@pytest.mark.parametrize(
    "text",
    [
        "Which NVIDIA driver works with CUDA 12.8?",
        "Add a check that the nvidia driver is not loaded before the update",
        "nvidia-smi does not show the power of my laptop GPU",
        "Screen tearing: the NVIDIA driver is not working well with Wayland",
        "In WSL the GPU does not work as fast as in Windows",
        "Containers cannot access the database, GPU training goes on",
        "The node is missing the label gres=gpu in our slurm docs",
        "PyTorch 2.9 does not support Python 3.9, RTX 5090",
        "torch no longer supports lua, our GTX 1080 results are in table 2",
        "How to compile vllm against torch nightly?",
        "My GPU is lost in thought",
        "The job disappeared from the queue while the GPU was idle",
        "jax cannot find the cuda example notebook",
        "Rootless podman does not open /dev/nvidia0 by itself, CDI does that.",
        "GPU utilization drops off during validation.",
        "The exporter counts uncorrectable ECC errors of each GPU.",
        "    if torch.version.cuda is None:",
        "torch.version.cuda is None on purpose: this image is for the CPU.",
        "NVIDIA drivers of Ubuntu are signed, so secure boot does not block them.",
        "unattended-upgrades installs the nvidia driver every night without problems.",
        "No NVIDIA driver version mismatch was found.",
        "The container does not see the GPU until you pass --gpus all.",
        "The NVIDIA container runtime is not installed on CPU nodes of our k8s.",
        "JAX does not load the CUDA toolkit of the system, it uses its wheels.",
        "PyTorch does not support FP4 on the RTX 5090 yet.",
        "Flash attention does not support torch on the V100.",
        "flash attention does not crash after the upgrade to torch 2.7.",
        "flash-attn was compiled with a newer torch version and works.",
        "numpy 2 is not required by torch.",
        "WSL does not use an NVIDIA Linux driver.",
        "I didn't find NVIDIA driver updates, 570 is the newest.",
        "Training never hangs with NCCL on multiple GPUs.",
        "The driver isn't too old for CUDA 12.8.",
    ],
)
def test_a_sentence_about_something_else_names_none(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("LM Studio does not detect my RTX 4070, it only offers the CPU runtime.", "program-on-cpu"),
        ("Ollama ignores my RTX 3090 and computes everything on the CPU.", "program-on-cpu"),
        ("Ollama is not utilizing my 3090 at all", "program-on-cpu"),
        ("llama-cpp-python does not use my RTX 4090, n_gpu_layers has no effect", "program-on-cpu"),
        ("I set n_gpu_layers=-1 with llama_cpp but the RTX 3080 stays idle", "program-on-cpu"),
        ("whisper.cpp runs on CPU only, I have an RTX 3060", "program-on-cpu"),
        ("ComfyUI starts in CPU mode although I have an RTX 3080", "torch-cpu-only"),
        ("InvokeAI says it is using the CPU, my card is a GTX 1070", "torch-cpu-only"),
        ("Automatic1111 can't find my GTX 1080 Ti", "torch-cpu-only"),
        ("Is the model not touching my VRAM? It is spiking the CPU", "torch-cpu-only"),
        ('torch.cuda.is_available() in python3 bounced back "False", RTX 3060', "torch-cpu-only"),
        ("JAX can't see the H100", "framework-cpu-only"),
        ("onnxruntime lists ['AzureExecutionProvider', 'CPUExecutionProvider'], RTX 3060", "ort-cpu-and-gpu-both"),
        ("TensorRT libraries not found, tensorrt detector not present", "framework-cuda-libs-missing"),
        ("My RTX 3060 isn't recognized inside the container", "container-no-gpu"),
        ("Plex in docker cannot use the Quadro P400, nvidia-smi works on the host", "container-no-gpu"),
        ("The machine learning container says: no CUDA-capable device is detected", "container-no-gpu"),
        ("kubectl describe node lists no nvidia.com/gpu resource", "container-toolkit-missing"),
        ("In my unprivileged LXC container nvidia-smi works but CUDA gives unknown error 999", "nvidia-uvm-missing"),
        ("In my slurm job: RuntimeError: No CUDA GPUs are available", "job-without-gpu"),
        ("srun python train.py cannot find a GPU", "job-without-gpu"),
        ("In WSL the GPU is not detected, on Windows everything works. RTX 3080", "wsl-driver"),
        ("Cannot find GPU in WSL2\nCudaSupportError: cuInit results in CUDA_ERROR_NO_DEVICE (100)", "wsl-driver"),
        ("The new build uses cu128, which no longer supports my GTX 1080 Ti", "torch-dropped-old-gpu"),
        ("The docker image has CUDA 12.1 and does not support my RTX 5080", "torch-no-arch-for-gpu"),
        ("The nvidia dkms module disappeared after the update", "nvidia-dkms-kernel-mismatch"),
        ("The GPU vanished after I upgraded the nvidia driver", "driver-installed-no-reboot"),
        ("There is no /dev/kfd, how can I create it? RX 580", "amd-kfd-missing"),
        ("I get permission denied on /dev/kfd with my RX 6900 XT", "amd-device-permission"),
        ("Proxmox LXC: Unable to open /dev/kfd read-write: Invalid argument", "amd-device-permission"),
        ("The A100 fell off the bus after two hours", "gpu-off-bus"),
        ("Two 4090s hang in all_reduce with NCCL", "nccl-p2p-hang"),
    ],
)
def test_the_name_of_a_gpu_and_rarer_words_tell_the_same(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "Ollama runs on the CPU since I set num_gpu to 0, my 3090 is for games.",
        "How can I make LM Studio use only the CPU? I have an RTX 4060 Ti",
        "My RTX 3060 isn't used by the desktop, torch sees it and trains on it",
        "The GPU sits idle between batches on my RTX 3080, data loading is the bottleneck",
        "My game doesn't use the RTX 3060, it runs on the Intel graphics of the laptop",
        "The newest version of wasabi doesn't detect my RTX5060 graphic card.",
        "Our Dockerfile installs the CPU version of torch on purpose, no GPU there",
        "The script never uses the GPU for tokenization, only for training; that is fine",
        "You cannot access the GPU from the web UI, only from the CLI",
        "The wheel without TensorRT is smaller, the GPU works with it",
        "The slurm job has no GPU on purpose",
        "We don't use the GPU in CI",
        "My ollama never uses the CPU, the RTX 3050 does all",
        "The docs say that cu130 dropped Pascal; we have Ampere only and all works",
        "The RTX 3090 never falls off the bus under load",
        "I have two 4090s and NCCL works, nothing hangs",
        "onnxruntime lists CUDAExecutionProvider and CPUExecutionProvider on my RTX 3060",
        "In WSL the GPU is detected, on Windows everything works, too. RTX 3080",
        "After a kernel upgrade, the installed NVIDIA driver may stop working. So check the exit code of nvidia-smi.",
    ],
)
def test_a_gpu_that_nobody_misses_is_no_fault(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        (
            "nvidia-uvm is not loaded at boot, so CUDA programs find no GPU although nvidia-smi works",
            "nvidia-uvm-missing",
        ),
        ("The nvidia_uvm module doesn't get loaded automatically with nvidia-open", "nvidia-uvm-missing"),
        ("CUDA fails after every boot until I run sudo modprobe nvidia-uvm by hand", "nvidia-uvm-missing"),
        ("NVIDIA driver lost after os upgrade and reboot", "nvidia-dkms-kernel-mismatch"),
        ("After the apt upgrade and a reboot the nvidia driver is gone", "nvidia-dkms-kernel-mismatch"),
        ("My GPU server lost its NVIDIA driver after the distribution upgrade", "nvidia-dkms-kernel-mismatch"),
        ("modprobe nvidia does nothing: I found a file in modprobe.d that blacklists nvidia", "module-blacklisted"),
        ("The amdgpu module is blacklisted in modprobe.d, so rocminfo finds no GPU", "module-blacklisted"),
        (
            "nvidia does not load: some file blacklists the modules, disabling it seems to fix it",
            "module-blacklisted",
        ),
        ("CUDA12 plugin segfaults when older version of JAX is installed", "jax-plugin-mismatch"),
        ("jax-cuda12-plugin 0.5.1 with jaxlib 0.4.30 crashes", "jax-plugin-mismatch"),
        ("Looking for NVIDIA drivers on an AMD GPU", "cuda-torch-on-amd"),
        ("The webui complains about a missing nvidia driver, but I have a 7900 XTX", "cuda-torch-on-amd"),
        ("requirements.txt overwrote my ROCm torch with the CUDA one, RX 7800 XT", "cuda-torch-on-amd"),
        ("The 6.18 kernel fails to build amdgpu-dkms", "amd-dkms-kernel-mismatch"),
        ("Unable to build amdgpu-dkms with linux 6.15", "amd-dkms-kernel-mismatch"),
        ("TensorFlow ignores my RX 6700 XT due to unsupported amdgpu version gfx1031", "torch-rocm-no-arch-for-gpu"),
        ("The ROCm build of torch has no kernels for gfx1032", "torch-rocm-no-arch-for-gpu"),
        (
            'TensorFlow: "The supported AMDGPU versions are gfx1030, gfx900". Mine is gfx1102',
            "torch-rocm-no-arch-for-gpu",
        ),
        ("I read that ollama supports AMD GPUs but it's not using it", "program-on-cpu"),
        ("LM Studio lists my GPU but never uses it", "program-on-cpu"),
        (
            "CUDA SETUP: Loading binary /x/site-packages/bitsandbytes/libbitsandbytes_cpu.so...",
            "bitsandbytes-no-cuda-lib",
        ),
    ],
)
def test_a_module_a_plugin_or_a_build_that_does_not_serve_the_gpu(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "nvidia_uvm is loaded and CUDA works, but the fan is loud.",
        "Do I need nvidia_uvm if I only use OpenGL?",
        "After the OS upgrade and a reboot the NVIDIA driver works as before.",
        "Should I blacklist nouveau before I install the NVIDIA driver?",
        "We blacklist amdgpu on purpose on the VFIO host, the guests get the GPUs.",
        "JAX: this happens even when a GPU is not used (e.g. JAX_PLATFORMS=cpu)",
        "I replaced my NVIDIA card by a Radeon RX 7900 XTX, which driver do I need?",
        "Does this need an NVIDIA driver, or does it run on AMD GPUs as well?",
        "amdgpu-dkms builds fine on kernel 6.14.",
        "Which gfx versions does TensorFlow support? I have a gfx1100.",
        "ollama supports AMD GPUs, but I am not using it yet.",
    ],
)
def test_a_word_about_modules_plugins_and_builds_alone_is_no_fault(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    "text",
    [
        "I upgraded the nvidia driver from 550 to 580 and rebooted. Everything is fine, nvidia-smi shows the 3090.",
        "We upgraded all nodes to the newer driver last week, all is well.",
        "I added my user to the render group as the docs say, and rocminfo works fine.",
        "Please advise how amdgpu must be built while we are waiting for a newer kernel.",
        "Is there a package that I need to update, or is a newer kernel needed? It has fixes.",
    ],
)
def test_a_deed_before_which_nothing_was_amiss_is_no_remedy(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    ("place", "slug"),
    [
        ("In the distrobox vLLM fails.", "amd-device-permission"),
        ("vLLM fails in containers: their user is not in the numeric group of /dev/kfd.", "amd-device-permission"),
        ("In the container the GID of the render group differs from the host's.", "amd-device-permission"),
        ("The host can see the GPUs, but processes inside Docker cannot.", "container-no-gpu"),
        ("It runs on bare metal.", "amd-device-permission"),
    ],
)
def test_the_place_ranks_the_causes_of_no_hip_gpus(place: str, slug: str) -> None:
    assert first(f"RuntimeError: No HIP GPUs are available\n{place}\n").slug == slug


@pytest.mark.parametrize(
    ("told", "slug"),
    [
        ("I installed ONNX Runtime with pip.", "framework-cpu-only"),
        ("I had installed onnxruntime and onnxruntime-gpu.", "ort-cpu-and-gpu-both"),
    ],
)
def test_the_package_that_is_named_ranks_the_causes_of_a_missing_provider(told: str, slug: str) -> None:
    assert first(f"UserWarning: CUDAExecutionProvider is not available\n{told}\n").slug == slug


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("[Bug]: torch 2.9 wheel says sm_61 is not supported on my P40", "torch-dropped-old-gpu"),
        ("The newest pytorch says that my Tesla M40 is too old", "torch-dropped-old-gpu"),
        ("GPU not recognized after Fedora 42 upgrade", "nvidia-dkms-kernel-mismatch"),
        (
            "Since I switched from the 6.8 to the 6.14 kernel my NVIDIA card isn't there",
            "nvidia-dkms-kernel-mismatch",
        ),
        ('"Unknown Error" from nvidia-smi inside a long running container', "container-cgroup-revoked"),
        ("Whisper runs on CPU although a RTX 4070 is installed", "torch-cpu-only"),
        ("Installer picks CPU torch on a machine with RTX 5090", "torch-cpu-only"),
        ("Can't use GPU on WSL2 with RX 7900 XT", "rocm-wsl-unsupported"),
        ("Installing requirements breaks torch on AMD", "cuda-torch-on-amd"),
        ("H100 node: error 802 after reboot", "fabric-manager-not-running"),
        ("MIG enabled but torch sees no device", "mig-confusion"),
        ("undefined symbol in flash_attn_2_cuda after torch upgrade", "flash-attn-abi"),
        ("bitsandbytes broken with CUDA 13", "bitsandbytes-no-cuda-lib"),
        ("torchvision::nms missing", "torchvision-mismatch"),
        ("Bus error in dataloader workers in Docker", "shm-small"),
        ("Our admin updated the driver and did not reboot; since then all jobs die.", "driver-installed-no-reboot"),
        ("I forgot --gpus all, is that why the container finds nothing?", "container-no-gpu"),
        ("The 5090 is here; with my old torch I get an error about sm_120.", "torch-no-arch-for-gpu"),
        ("prime-select says intel, and torch finds no CUDA.", "module-blacklisted"),
        ("pip pulled numpy 2 and now my torch 2.1 prints a long warning.", "numpy2-old-torch"),
        ("My Radeon 6600 crashes with torch unless I set that HSA variable.", "torch-rocm-no-arch-for-gpu"),
        ("With my Ryzen's built-in graphics on, ROCm takes it instead of the RX 7800 XT.", "amd-igpu-interferes"),
        ("Docker says it could not select a device driver with capabilities gpu.", "container-toolkit-missing"),
    ],
)
def test_a_title_alone_names_a_cause(title: str, slug: str) -> None:
    assert first(title).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "We updated the driver without a reboot by reloading the modules; everything works.",
        "Ollama uses the RX 6800 and not the integrated GPU, as it should.",
        "Is MIG enabled by default on an H100? I see no devices of MIG in the docs.",
        "Never forget --gpus all when you start the container.",
        "I switched from the 6.8 to the 6.14 kernel and everything works with my NVIDIA card.",
        "The installer asks whether it should pick the CPU torch or the CUDA one.",
        "The tests run on the CPU although we have GPUs, since the GPUs are for the nightly job.",
        "The newest PyTorch is not too old for my GTX 1080, is it?",
        "We had an error about sm_120 in torch last spring; since the upgrade to 2.8 all 5090s run.",
        "A different version of jax would need another plugin, I suppose?",
        "Docker can't use GPU memory limits, is that planned?",
        "Years ago the container could not see the GPU.",
        "Years ago, the container could not see the GPU.",
    ],
)
def test_what_is_asked_in_general_or_is_long_over_is_no_fault(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("An image takes ages, the GTX 1660 is asleep and all twelve cores are busy.", "torch-cpu-only"),
        ("On the new 5060 Ti torch stumbles over a kernel image.", "torch-no-arch-for-gpu"),
        ("After the update of torch my two GTX 1080 are not accepted any more.", "torch-dropped-old-gpu"),
        (
            "The driver is 470.xx, the admins refuse an update, and torch complains that it's too old",
            "driver-too-old",
        ),
        (
            "I shut the laptop in the evening and in the morning CUDA programs do not start.",
            "nvidia-uvm-after-suspend",
        ),
        ("Lid closed, lid opened, CUDA gone.", "nvidia-uvm-after-suspend"),
        ("nvidia-smi tells me that the driver and the library have different versions.", "driver-lib-mismatch"),
        ("A new kernel came with the updates, and nvidia-smi can't reach the driver.", "nvidia-dkms-kernel-mismatch"),
        ("On the server itself torch finds the GPU, in docker it claims that there is no GPU.", "container-no-gpu"),
        ("My devcontainer drops its GPU after several hours; docker restart cures it.", "container-cgroup-revoked"),
        ("HIP takes the small GPU in my Ryzen 7600 instead of the RX 7700 XT.", "amd-igpu-interferes"),
        ("ROCm inside WSL never finds the Radeon, only the processor.", "rocm-wsl-unsupported"),
        ("amdgpu-install stops with an error while it builds the module. RX 7900 XT.", "amd-dkms-kernel-mismatch"),
        ("ollama ps tells 100% CPU, my RTX 3060 has nothing to do.", "program-on-cpu"),
        ("torchrun with two A6000 never gets past the NCCL initialisation.", "nccl-p2p-hang"),
        ("As soon as I use both 3090s the script simply sits there.", "nccl-p2p-hang"),
        ("One card drops out and is missing from nvidia-smi until I power cycle the server.", "gpu-off-bus"),
        ("import of flash attention dies with an undefined symbol", "flash-attn-abi"),
        ("If I hibernate my desktop, torch cannot find CUDA until I restart it.", "nvidia-uvm-after-suspend"),
        ("With sudo my HIP program runs, without sudo it finds no device (RX 7700 XT).", "amd-device-permission"),
        # Only the clause of the complaint can be of another time, or of somebody else.
        ("I bought the RTX 5090 two months ago and torch does not use the GPU.", "torch-cpu-only"),
        ("The laptop used to see the GPU, after the kernel update nvidia-smi fails.", "nvidia-dkms-kernel-mismatch"),
        ("Docker used to give the container its GPU and the container does not see the GPU.", "container-no-gpu"),
        ("The docs mention that it works, but torch does not see my GPU.", "torch-cpu-only"),
        ("The docker container does not see the GPU, but it does on the host.", "container-no-gpu"),
        ("torch can't find the GPU in docker, but it works on the host.", "container-no-gpu"),
        ("Torch doesn't detect my RTX 3060 inside the container.", "container-no-gpu"),
        ("Torch only uses the CPU, is that intended?", "torch-cpu-only"),
        ("Why does torch not see my GPU by default?", "torch-cpu-only"),
        ("My RTX-5090 is not detected by Ollama.", "program-on-cpu"),
        ("The RTX 3060 isn't recognized by PyTorch.", "torch-cpu-only"),
        ("GPU not visible to jax", "framework-cpu-only"),
        ("[k0s] `libnvidia-ml.so.1` missing in the pod", "container-no-gpu"),
        ("nvidia-smi is not found inside the docker container", "container-no-gpu"),
    ],
)
def test_people_who_know_no_message_by_heart_are_understood(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "While the data is loaded the GPU does nothing, that is a second per epoch.",
        "I close the lid of the laptop and training goes on over night.",
        "A new kernel came with the updates, I rebooted, and everything about the GPU is as before.",
        "On the server itself and in the container torch finds the GPU.",
        "The integrated graphics drive my monitors, so the 7900 XTX has all its memory for models.",
        "Ollama ps shows 100% CPU for the tiny model as configured, the chat model is on the GPU.",
        "The script sits there until the data is downloaded, then it trains on both 4090s.",
        "The docs explain how a kernel image is chosen for sm_120.",
        "If one of your cards falls off the bus, drain the node and call the vendor. Our runbook says so.",
        "My friend says that ROCm cannot use my RX 6700 XT, but it does.",
        "People say the driver is too old for CUDA 13, but mine works.",
        "Our training container is up for 2 days on 4 GPUs, and the loss no longer decreases.",
        "Training has been running for 3 days on the GPU in docker and the learning rate drops as scheduled.",
        "The pod was alive for hours, then I lost my ssh connection. GPU usage was fine.",
        "With sudo apt works, without it apt refuses. torch sees the RTX 3090.",
        "With both GPUs the accuracy is stuck at 0.5, with one of them, too.",
        "My monitor runs on the integrated GPU instead of the RX 7900 XTX; ROCm and torch work great.",
        "How do I make the desktop use the iGPU instead of the 7900 XTX, so that ROCm has all the VRAM?",
        "Ollama runs on my GTX 750. CUDA 13 would not work with it, so it takes CUDA 12.",
        "If the GPU is not found by PyTorch, install the driver.",
        "nvidia-smi is not needed inside the container, the GPU is used.",
    ],
)
def test_the_same_words_of_people_who_miss_nothing(text: str) -> None:
    assert not problems(text)


@pytest.mark.parametrize("row", [row for row in ROWS if row.together], ids=lambda row: row.id)
def test_each_concept_of_a_circumstance_has_words_for_it(row) -> None:
    known = {concept.concept for concept in matrix().tables.told_concepts}
    assert {name for names in row.together for name in names} <= known


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("CUDA is gone each morning. The PC sleeps at night.", "nvidia-uvm-after-suspend"),
        ("nvidia-smi fails. Pacman gave me linux 6.16 yesterday.", "nvidia-dkms-kernel-mismatch"),
        ("The nvidia module does not load, Secure Boot was switched on by a reset.", "secure-boot-module-rejected"),
        ("Frigate in docker finds no NVIDIA device. The host has a P2000 and shows it.", "container-no-gpu"),
        ("Every job dies. It is the old conda env with torch 2.4, on a new RTX 5090.", "torch-no-arch-for-gpu"),
        ("No CUDA kernel runs on the 1080 Ti, I installed PyTorch 2.9 with CUDA 13.0.", "torch-dropped-old-gpu"),
        ("The job crashes at its start: torch 2.9.1+cu128, and driver 450.80.02 on the A100.", "driver-too-old"),
        ("A bus error kills them: the DataLoader workers in our container.", "shm-small"),
        ("No program finds the RTX 3060: CUDA_VISIBLE_DEVICES is empty.", "cuda-visible-devices"),
        ("nouveau holds the RTX 2080, I installed the NVIDIA packages; nvidia-smi fails.", "nouveau-conflict"),
        ("A core dump ends each matmul on the RX 5500 XT, with torch for ROCm.", "torch-rocm-no-arch-for-gpu"),
        ("ComfyUI crashes with HIP, the iGPU is at fault. My card is an RX 7900 XTX.", "amd-igpu-interferes"),
        ("There is no CUDA; the card is a Radeon RX 7600, and torch is 2.9.0+cu128.", "cuda-torch-on-amd"),
        ("No agent is found by HIP without root; with root there is my RX 7700 XT.", "amd-device-permission"),
    ],
)
def test_the_order_of_words_does_not_matter_in_a_short_complaint(text: str, slug: str) -> None:
    assert first(text).slug == slug


@pytest.mark.parametrize(
    "text",
    [
        "My laptop sleeps badly. CUDA is not the reason, the GPU is fine.",
        "I wake the server over the network. The GPUs are there at once.",
        "Secure Boot stays off, the nvidia module is not signed.",
        "The container does not start since port 8080 is in use on the host; the GPU is free.",
        "Docker cannot pull the image cuda:12.4, the host has no route to the registry.",
        "torch 2.5 on the RTX 5090 and the 3090 crashes with out of memory.",
        "My new RTX 5090 is not delivered yet. I train with torch 2.4 on the old card.",
        "How does one find out which GPU a container uses, if the host lists two?",
        "The RX 6600 crashes in Cyberpunk on Windows. torch I do not use.",
        "numpy 2 and torch 2.5 work, scipy is broken.",
        "DKMS does not build the VirtualBox module any more; my RX 6800 works.",
        "In WSL my Radeon is not needed, I use the Windows build.",
        "If the nvidia module is gone and Secure Boot was reset, sign it again.",
        "Last year the containers lost their GPUs on each host. CDI put an end to that.",
        "VAE load device: cuda:0, offload device: cpu, dtype: torch.float32",
    ],
)
def test_concepts_that_tell_of_something_else_name_no_cause(text: str) -> None:
    assert not problems(text)


def test_concepts_far_from_each_other_tell_nothing_together() -> None:
    far = (
        "My PC sleeps at night. I like that. The disks are silent. The GPU is an RTX 3060. A song says love is gone."
    )
    assert not problems(far)
    assert problems("My PC sleeps at night. In the morning the GPU is gone.")


def test_a_foreign_complaint_is_told_as_it_stands_in_the_text() -> None:
    text = "Die Grafikkarte RTX 3060 ist weg. Der Rechner war im Ruhezustand."
    said = machine(text).pasted
    assert said is not None
    told = next(one for one in said.told if one.circumstance == "after-suspend")
    assert told.text in text


def test_a_line_of_the_journal_names_a_program_and_is_no_complaint() -> None:
    line = "Sep 24 08:12:01 host {}[1234]: {}\n"
    told = line.format("dockerd", "nvidia-smi is not found inside the docker container")
    assert problems(told) == []
    assert problems(told.partition("]: ")[2]) == ["container-no-gpu"]
    lacks = "CUDA error: no kernel image is available for execution on the device"
    assert first(line.format("ollama", lacks)).slug == "ext-built-without-gpu-arch"


def test_lines_that_are_no_one_sentence_are_kept_apart() -> None:
    card = (
        "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD104 [GeForce RTX 4070] [10de:2786] (rev a1)\n"
    )
    lists = "\tKernel driver in use: nouveau\n\tKernel modules: nouveau\n"
    text = f"{card}{lists}Fedora Linux 42, torch 2.7.1+cu126, torch.cuda.is_available() False\n"
    assert problems(text) == ["nouveau-conflict"]
    assert "Kernel modules: nouveau / Fedora Linux 42" in first(text).message


def test_what_onnx_runtime_logs_is_nobodys_complaint() -> None:
    logged = (
        "4 Memcpy nodes are added for CUDAExecutionProvider. It might be unable to run CUDA graph.",
        "Some nodes were not assigned. ORT assigns shape related ops to CPU to improve perf.",
    )
    stamp = "2025-02-14 12:11:09.112244 [W:onnxruntime:, transformer_memcpy.cc:74 ApplyImpl]"
    providers = "['CUDAExecutionProvider', 'CPUExecutionProvider']"
    assert not problems(f"{providers}\n{stamp} {logged[0]}\n{stamp} {logged[1]}\n{providers}\n")
