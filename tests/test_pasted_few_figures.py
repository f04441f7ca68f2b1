"""What people write of a machine without its figures: a driver's branch, a distribution, the number of an error."""

from __future__ import annotations

import pytest

from gpudoctor.finding import Finding, InstallDriver
from tests.support.judged_texts import first, judgement, machine, problems

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"


def driver(text: str) -> str | None:
    module = machine(text).nvidia.module
    return module.value.version.partition(".")[0] if module.value and module.source.startswith("text") else None


def advice(finding: Finding) -> str:
    remedy = finding.fixes[0].remedies[0]
    return getattr(remedy, "text", "")


@pytest.mark.parametrize(
    ("text", "branch"),
    [
        ("My RTX 3060 has the NVIDIA driver 535 and torch does not see it.", "535"),
        ("GTX 1080 with driver 590: nvidia-smi says No devices were found", "590"),
        ("NVIDIA 535 is incompatible with the GTX 760 and ignored it at boot.", "535"),
        ("RTX 4090, nvidia-driver-550-open, CUDA error: no CUDA-capable device is detected", "550"),
        ("The 570.xx driver is what my RTX 3080 has.", "570"),
        ("The GPU is gone on my GTX 1060 since I upgraded to nvidia 595.", "595"),
        # Near misses: several of them, another machine's, other numbers, what is only wished for, lists.
        (f"RTX 3060: I tried drivers 535, 550 and 570. {MISMATCH}", None),
        ("My RTX 3080 draws 550 W, whatever the driver.", None),
        ("RTX 4090: the program needs driver 580 or newer.", None),
        ("The NVIDIA 595 driver drops Pascal, so I stay on 580 with my GTX 1070.", None),
        ("NVIDIA's driver 595 dropped Pascal; my GTX 1070 is fine.", None),
        ("RTX 4090: before, with driver 550, all worked.", None),
        ("My RX 580 driver crashes.", None),
        ("RTX 3060\nrc  nvidia-driver-470  470.239.06-0ubuntu0.20.04.1 amd64 NVIDIA driver metapackage", None),
        ("RTX 3060\ndriver   : nvidia-driver-535 - distro non-free", None),
    ],
)
def test_the_branch_of_a_driver_is_enough(text: str, branch: str | None) -> None:
    assert driver(text) == branch


def test_a_release_counts_before_a_branch() -> None:
    text = "RTX 3060, driver 550. nvidia-smi: Driver Version: 550.54.14"
    assert machine(text).nvidia.module.value is not None
    assert machine(text).nvidia.module.value.version == "550.54.14"  # type: ignore[union-attr]


def test_a_branch_and_a_release_of_torch_without_its_last_figure_decide() -> None:
    finding = first("torch 2.12 does not find my RTX 3060, nvidia driver 535 on Ubuntu")
    assert finding.slug == "driver-too-old"
    assert any(isinstance(remedy, InstallDriver) for remedy in finding.fixes[0].remedies)


def test_a_release_of_torch_without_its_last_figure_counts_only_beside_a_complaint() -> None:
    assert problems("I train with torch 2.4, and my RTX 5090 is still in its box.") == []
    torch = machine("torch 2.4 on an RTX 5090: CUDA error: no kernel image is available for execution").torch
    assert torch is not None
    assert torch.version.startswith("2.4.0")


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ("I am on Arch Linux with a GTX 1080.", "arch"),
        ("Since I upgraded to Fedora 43, my RTX 3060 is not found.", "fedora"),
        ("RTX 3060, NixOS, torch sees no GPU", "nixos"),
        ("RTX 3060\nLinux box 6.17.4-200.fc42.x86_64 #1 SMP PREEMPT_DYNAMIC x86_64 GNU/Linux", "fedora"),
        ("RTX 3060\nKernel: 6.12.65-1-lts", "arch"),
        ("GTX 1050: the GPU is gone.\n`nixos-version`: 26.05.20260409.4c1018d (Yarara)", "nixos"),
        ("GTX 1070: the GPU is gone since I rebased to `bazzite-nvidia:stable`", "bazzite"),
        ("RTX 3060\nii  libc6  2.39\nInstalled: 570.133.07-0ubuntu0.24.04.1 of the archive", "ubuntu"),
        # Near misses
        ("RTX 3060: see https://wiki.archlinux.org/title/NVIDIA, I use NixOS/nixpkgs#1", ""),
        ("RTX 3060: the Arch Linux wiki says so", ""),
        ("RTX 3060: it works on Fedora, here it does not", ""),
        ("RTX 3060\nGCC version: (Ubuntu 11.4.0-1ubuntu1) 11.4.0", ""),
    ],
)
def test_a_distribution_without_a_number(text: str, os: str) -> None:
    found = machine(text).system.os.value
    assert (found.id if found else "") == os


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("dmesg shows repeated Xid 48 and Xid 94 on the A100, then the job dies.", "gpu-ecc"),
        ("Xid 79 every night on my RTX 3090 rig", "gpu-off-bus"),
        ("The H100 node was drained: `XID 95` in the log", "gpu-ecc"),
        # Near misses: errors of programs, none at all, manuals.
        ("Xid 13 and Xid 31 come from our own CUDA kernel on the H100.", ""),
        ("No Xid 79 in dmesg, all runs on the RTX 3090.", ""),
        ("If you see Xid 79, reseat the GPU.", ""),
    ],
)
def test_the_number_of_an_error_in_a_sentence(text: str, slug: str) -> None:
    assert [one for one in problems(text) if one] == ([slug] if slug else [])


def test_memory_that_fails_is_replaced_and_not_only_looked_at() -> None:
    assert "replaced" in advice(first("dmesg shows Xid 48 on the A100, uncorrectable."))


def test_a_message_names_one_of_several_gpus() -> None:
    text = (
        "CUDA error: no kernel image is available for execution on the device with a Tesla K40c\n\n"
        "The machine has a Tesla K80 and two Tesla K40c cards, which are all visible.\n"
    )
    finding = first(text)
    assert [gpu.name for gpu in machine(text).gpus] == ["Tesla K80", "Tesla K40c"]
    assert [gpu.name for gpu in finding.devices] == ["Tesla K40c"]
    assert "sm_37" not in finding.fixes[0].title


def test_of_gpus_that_may_be_of_several_machines_the_title_decides() -> None:
    text = (
        "# no kernel image is available for execution on the device with my RTX 5090\n\n"
        "torch 2.5.1+cu124. A colleague compared it on an RTX 3090 or an A100, where all is well.\n"
    )
    assert [gpu.name for gpu in machine(text).gpus] == ["RTX 5090"]


def test_boxes_that_nobody_checked_say_nothing() -> None:
    form = (
        "### Running it with Docker?\n\n- [ ] docker\n- [x] pip install\n\n"
        "RTX 5090: no kernel image is available for execution on the device\n"
    )
    assert not machine(form).system.container.known
    assert machine(form.replace("[ ]", "[x]")).system.container.known


def test_the_form_of_wsl_is_of_wsl() -> None:
    form = (
        "### Windows Version\n\nMicrosoft Windows [Version 10.0.22631.3593]\n\n### WSL Version\n\n2.1.5.0\n\n"
        "### Kernel Version\n\n5.15.146.1\n\nRTX 3060: torch.cuda.is_available() is False\n"
    )
    assert machine(form).system.wsl.known


def test_the_table_of_nvidia_smi_without_a_cuda() -> None:
    head = "| NVIDIA-SMI 450.80.02    Driver Version: 450.80.02    CUDA Version: N/A      |\n"
    assert problems(head) == ["container-no-gpu"]
    assert "NVIDIA_DRIVER_CAPABILITIES" in advice(first(head))
    assert problems(f"{head}>>> torch.cuda.is_available()\nTrue\n") == []
    assert problems(head.replace("N/A", "11.0")) == []


def test_privileged_brings_no_library_into_a_container() -> None:
    text = "$ sudo docker run -it --privileged image bash\nAssertionError: Found no NVIDIA driver on your system."
    assert first(text).slug == "container-no-gpu"
    assert "docker run --gpus all" in advice(first(text))


def test_a_gpu_that_does_not_start_in_a_virtual_machine() -> None:
    log = (
        "[    1.103456] NVRM: GPU 0000:13:00.0: RmInitAdapter failed! (0x26:0x56:1463)\n"
        "[    1.203456] Hardware name: {}, BIOS 6.00 11/12/2020\n"
    )
    assert "pciPassthru" in advice(first(log.format("VMware, Inc. VMware Virtual Platform")))
    assert "pciPassthru" not in advice(first(log.format("ASUS System Product Name")))


def test_a_gpu_is_named_in_the_middle_of_a_sentence() -> None:
    text = (
        "we run on rtx 5080 with yolo and see NVIDIA GeForce RTX 5080 with CUDA capability sm_120 is not compatible "
        "with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_90 compute_37.\n"
        "torch 2.7.0+cu118\n"
    )
    assert [gpu.name for gpu in machine(text).gpus] == ["NVIDIA GeForce RTX 5080"]
    assert first(text).slug == "torch-no-arch-for-gpu"


def test_the_image_in_a_title_tells_the_package() -> None:
    text = (
        "# [Usage]: vllm-openai:v0.7.3 fails: CUDA error: no kernel image is available for execution on the device\n"
        "PyTorch version: 2.5.1+cu124\nGPU 0: Tesla P100-PCIE-16GB\nNvidia driver version: 550.54.14\n"
        "Is CUDA available: True\n"
    )
    assert "llama.cpp" in advice(first(text))


def test_a_build_that_is_named_before_its_torch() -> None:
    torch = machine("V100, a cu130 build of torch 2.10: CUDA error: no kernel image is available").torch
    assert torch is not None
    assert torch.version == "2.10.0+cu130"


def test_a_driver_that_is_too_old_is_updated_in_windows() -> None:
    text = (
        "(base) PS C:\\projects> docker run --gpus all image\n"
        "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver\n"
        "| NVIDIA-SMI 551.78                 Driver Version: 551.78         CUDA Version: 12.4     |\n"
    )
    finding = first(text)
    assert finding.slug == "driver-too-old"
    assert finding.fixes[0].title == "Update the driver in Windows"


HARMLESS = "/sbin/ldconfig.real: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link\n"


@pytest.mark.parametrize(
    ("complaint", "verdict"),
    [
        ("", "ok"),
        ("Everything runs on the GPU.\n", "ok"),
        ("It does not work on the GPU.\n", "unknown"),
        ("RuntimeError: cannot run the cuda thing at all\n", "unknown"),
        (">>> torch.cuda.is_available()\nFalse\n", "error"),
        (">>> torch.cuda.is_available()\nTrue\n", "ok"),
    ],
)
def test_a_harmless_message_does_not_answer_for_a_complaint_beside_it(complaint: str, verdict: str) -> None:
    assert judgement(f"{HARMLESS}{complaint}").verdict == verdict


def test_a_variable_that_may_hide_the_gpu_is_named_in_the_fix() -> None:
    found = first('RuntimeError: No CUDA GPUs are available\nos.environ["CUDA_VISIBLE_DEVICES"] = "1"\n')
    assert found.slug == "cuda-visible-devices"
    assert "Unset CUDA_VISIBLE_DEVICES" in advice(found)


def test_devices_that_are_busy_are_not_blamed_on_the_container() -> None:
    text = (
        "Sometimes I get `all CUDA-capable devices are busy or unavailable` in my container.\nThen it runs again.\n"
    )
    assert problems(text) == []
    why = " ".join(one.why for one in judgement(text).not_judged)
    assert "nvidia-smi" in why


@pytest.mark.parametrize("tried", ["Rebooted , but getting same issue.", "The error persists after several reboots."])
def test_a_reboot_that_did_not_help_is_not_asked_for_again(tried: str) -> None:
    assert advice(first(f"{MISMATCH}\n{tried}\n")).startswith("Bring all driver packages to one version")
    assert advice(first(f"{MISMATCH}\nI have not rebooted yet, but the same kernel runs.\n")).startswith("Reboot")


@pytest.mark.parametrize(
    "words",
    [
        "GPU: (4090)",
        "with 4090, Ubuntu 24.04",
        "on 4090.",
        "2x 4090",
        "dual 4090s, Debian 12",
        "I am using 4090 in it",
    ],
)
def test_a_bare_number_in_the_place_of_a_gpu_is_one(words: str) -> None:
    assert [gpu.arch.value for gpu in machine(f"{words}\n{MISMATCH}\n").gpus] == ["sm_89"]


@pytest.mark.parametrize(
    "words", ["listening on 4090.", "(2050)", "epoch 3 with 4080 samples", "step 4090, with 1024."]
)
def test_a_bare_number_elsewhere_is_no_gpu(words: str) -> None:
    assert not any(gpu.arch.value for gpu in machine(f"{words}\n{MISMATCH}\n").gpus)


NO_DEVICES = "$ nvidia-smi\nNo devices were found\n"


def test_a_gpu_that_needs_the_open_modules_lacks_them_unless_the_text_names_them() -> None:
    found = first(f"RTX 5090, Ubuntu 24.04\n{NO_DEVICES}")
    assert found.slug == "blackwell-open-module"
    assert "nvidia-driver-580-open" in advice(found)
    for modules in (
        "nvidia-driver-570-open",
        "nvidia-open-dkms",
        "the open kernel modules",
        "the open source driver",
    ):
        assert problems(f"RTX 5090 with {modules}, Ubuntu 24.04\n{NO_DEVICES}") == ["driver-init-failed-hw"]
    assert problems(f"RTX 4090, Ubuntu 24.04\n{NO_DEVICES}") == ["driver-init-failed-hw"]


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("GeForce 1070", "sm_61"),
        ("the 1070 card", "sm_61"),
        ("nvidia 3060 laptop", "sm_86"),
        ("A5000", "sm_86"),
        ("NVIDIA A16", "sm_86"),
        ("H20 x8", "sm_90"),
        ("Titan RTX with torch", "sm_75"),
        ("Nvidia Pro 6000 Blackwell", "sm_120"),
    ],
)
def test_names_of_gpus_as_people_shorten_them(name: str, arch: str) -> None:
    assert [gpu.arch.value for gpu in machine(f"{name}, Ubuntu 24.04\n{MISMATCH}\n").gpus] == [arch]


@pytest.mark.parametrize(
    "words", ["nvidia 580 driver", "the 1080 images", "my 1070 lines of CUDA", "nvidia 1080p video"]
)
def test_numbers_beside_such_words_that_are_no_gpu(words: str) -> None:
    assert not any(gpu.arch.value for gpu in machine(f"{words}\n{MISMATCH}\n").gpus)


def test_what_a_person_says_beside_a_message_that_the_sentence_quotes_counts() -> None:
    text = "I have a 5090. dmesg says open kernel modules are required, nvidia-smi says no devices were found\n"
    assert problems(text) == ["blackwell-open-module"]


def test_an_answer_in_a_comment_behind_the_call_is_read() -> None:
    text = "WSL2, the GPU is at zero load.\nprint(torch.cuda.is_available()) // {}\n"
    assert not problems(text.format("true"))
    assert problems(text.format("false"))


def test_a_command_of_conda_tells_for_which_cuda_torch_is() -> None:
    text = "Tesla V100, driver 418.67\nconda install pytorch cudatoolkit=10.2\ntorch.cuda.is_available() is False"
    assert problems(text) == ["driver-too-old"]
    assert "driver-too-old" not in problems(text.replace("418.67", "470.57.02"))
    assert "driver-too-old" not in problems(text.replace("pytorch", "numba"))


def test_a_torch_without_cuda_is_for_the_cpu_beside_nvidias_gpus() -> None:
    text = "RTX 3090\ntorch.cuda.is_available() is False\ntorch.version.cuda is None"
    assert machine(text).torch is not None
    assert problems(text) == ["torch-cpu-only"]
    assert machine(text.replace("RTX 3090", "RX 7900 XTX")).torch is None


def test_a_gpu_in_tcc_mode_is_given_to_wsl_in_wddm_mode() -> None:
    text = "WSL2, Tesla P40 in TCC mode\nFailed to initialize NVML: GPU access blocked by the operating system"
    told = next(iter(judgement(text).findings))
    assert (told.slug, "-dm 0" in told.fixes[0].title) == ("wsl-driver", True)
    without = next(iter(judgement(text.replace(" in TCC mode", "")).findings))
    assert "-dm 0" not in without.fixes[0].title


def test_a_build_of_torch_in_a_line_of_its_own_is_read() -> None:
    text = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n- RTX2060\n- {}"
    assert problems(text.format("2.7.1+cu128")) == ["ext-built-without-gpu-arch"]
    assert problems(text.format("2.7.1+cu128").replace("2060", "5060").replace("cu128", "cu126")) == [
        "torch-no-arch-for-gpu"
    ]
    assert machine(text.format("0.22.1+cu128")).torch is None


def test_a_person_who_says_that_torch_sees_no_gpu_complains_beside_a_report() -> None:
    report = "PyTorch version: 1.10.2\nCUDA used to build PyTorch: 11.3\nIs CUDA available: False\n"
    assert problems(report) == []
    assert problems(f"I get cuda.is_available false all the time.\n{report}") != []


def test_an_xid_that_names_another_one_before_it_is_told_by_that() -> None:
    line = "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=1818990, name=python3, Ch 00000001"
    assert problems(f"{line} caused by previous Xid 149") == ["nvlink-error"]
    assert problems(line) == []


def torch_of(text: str) -> str | None:
    torch = machine(text).torch
    return torch.version if torch else None


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("  Downloading torch-1.13.1-cp310-cp310-manylinux1_x86_64.whl (887.5 MB)", "1.13.1+cu117"),
        ("Using cached https://x.org/cu124/torch-2.6.0%2Bcu124-cp311-cp311-linux_x86_64.whl", "2.6.0+cu124"),
        ("docker run --gpus all -it pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime python train.py", "2.6.0+cu124"),
        (
            "Requirement already satisfied: torch>=2.0 in ./venv/lib (from -r r.txt (line 1)) (2.6.0+cu124)",
            "2.6.0+cu124",
        ),
        ("The image ships torch `2.6.0+cu124`.", "2.6.0+cu124"),
        ("Environment: Python 3.11, PyTorch 2.6 + CUDA 12.4", "2.6.0+cu124"),
        ("Ubuntu, torch==2.6.0, python==3.11", "2.6.0+cu124"),
        # Near misses: not taken, not installed, another's, refused.
        (
            "  Downloading torch-1.13.1-cp310-cp310-linux_x86_64.whl\nERROR: Could not install packages: [Errno 28]",
            None,
        ),
        ("I replaced it by torch-2.0.1-cp310-cp310-manylinux1_x86_64.whl, which is slow", None),
        ("ERROR: torch-2.6.0+cu124-cp311-cp311-linux_x86_64.whl is not a supported wheel on this platform.", None),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel\nRUN pip install torch==2.8.0", None),
        ("Because vllm depends on torch==2.6.0, the resolver gave up", None),
        ("It is fixed in torch==2.6.0", None),
    ],
)
def test_the_names_of_wheels_and_images_and_the_words_of_pip_tell_which_torch_it_is(
    line: str, version: str | None
) -> None:
    assert torch_of(f"RTX 5090: no kernel image is available for execution on the device\n{line}\n") == version


def test_the_torch_of_the_package_index_on_an_amd_gpu_is_found_in_what_pip_downloaded() -> None:
    log = (
        "RX 6800 XT\npip install torch --extra-index-url https://download.pytorch.org/whl/rocm5.1.1\n"
        "  Downloading torch-1.13.1-cp310-cp310-manylinux1_x86_64.whl (887.5 MB)\nTorch is not able to use GPU\n"
    )
    assert problems(log)[0] == "cuda-torch-on-amd"


def test_a_driver_that_is_too_old_is_updated_whichever_gpu_it_is() -> None:
    text = "torch.cuda.is_available() is False\ntorch 1.3.0, driver 410.48, NVIDIA GPU\n"
    assert "418.39 or newer" in advice(first(text))


def test_a_program_without_a_build_for_the_gpu_keeps_the_advice_of_its_message() -> None:
    text = "OSError: libcublas.so.10: cannot open shared object file\nonnxruntime-gpu-1.4.0 on a Tesla K80\n"
    assert first(text).fixes


@pytest.mark.parametrize(
    ("text", "system"),
    [
        ("CentOS 7 with an RTX 3090", "CentOS 7"),
        ("Linuxmint 21.3 with an RTX 3090", "Linuxmint 21.3"),
        ("The server has SLES 15 and an RTX 3090", "SLES 15"),
        ("Pop OS 22.04, RTX 3090", "Pop OS 22.04"),
        ("RTX 3090: it works on CentOS 7", None),
    ],
)
def test_a_distribution_is_read_in_the_ways_that_people_write_it(text: str, system: str | None) -> None:
    os = machine(text).system.os
    assert (os.value.name if os.value and os.source.startswith("text") else None) == system


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("My FirePro W7100 is not used", ["FirePro W7100"]),
        ("显卡 4090 报错", ["4090"]),
        ("3090单卡 报错", ["3090"]),
        ("An NVIDIA T1000 in a small server", ["NVIDIA T1000"]),
        ("The T1000 of the film", []),
    ],
)
def test_gpus_that_only_a_sentence_names(text: str, named: list[str]) -> None:
    assert [gpu.name for gpu in machine(text).gpus] == named


def test_the_log_of_a_compose_service_is_of_a_container() -> None:
    line = "app-1  | RuntimeError: Found no NVIDIA driver on your system.\n"
    assert machine(f"RTX 3090\n{line}").system.container.value == "docker"
    assert not machine("RTX 3090\n| app-1  | RuntimeError |\n").system.container.value


_NO_LIBCUDA = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory\n"


def test_the_driver_library_that_programs_of_nix_do_not_find() -> None:
    assert "/run/opengl-driver/lib" in advice(first(f"nix develop, RTX 3080\n{_NO_LIBCUDA}"))
    assert "opengl-driver" not in advice(first(f"Ubuntu 22.04, RTX 3080\n{_NO_LIBCUDA}"))
    assert "opengl-driver" not in advice(first(f"NixOS, RTX 3080, in a docker container\n{_NO_LIBCUDA}"))


def test_a_driver_whose_packages_do_not_fit_is_not_mended_by_headers() -> None:
    unmet = "dpkg: dependency problems prevent configuration of {}:\n {} depends on x; however:\n"
    nvidia, amd = (first(unmet.format(one, one)) for one in ("nvidia-driver-550", "amdgpu-dkms"))
    assert nvidia.slug == "no-driver" and "--fix-broken" in advice(nvidia)
    assert amd.slug == "amd-dkms-kernel-mismatch" and "--fix-broken" in advice(amd) and "nvidia" not in advice(amd)
    assert problems(unmet.format("docker-ce", "docker-ce")) == []


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ("torch 2.1.2 (cpu build: py3.10_cpu_0)", "2.1.2+cpu"),
        ("I have torch 2.5.0-cpu and an older one", "2.5.0+cpu"),
        ("torch 2.8.0 (cu129)", "2.8.0+cu129"),
        ("pytorch version: 2.3.0 (rocm6.0)", "2.3.0+rocm6.0"),
        ("torch 2.8.0, CPU: Ryzen 5", "2.8.0+cu128"),
        ("torch 2.8.0 (CPU Ryzen 5)", "2.8.0+cu128"),
        ("torch 2.8.0 cpu usage is high", "2.8.0+cu128"),
    ],
)
def test_the_build_that_stands_behind_a_version_is_that_of_torch(told: str, version: str) -> None:
    torch = machine(f"{told}, RTX 3090\n").torch
    assert torch is not None
    assert torch.version == version


def test_the_program_of_a_line_that_names_its_version_is_the_one_that_lacks_code_or_computes_on_the_cpu() -> None:
    image = "OSError: (External) CUDA error(209), no kernel image is available for execution on the device.\n"
    assert "paddlepaddle-gpu" in advice(first(f"paddlepaddle-gpu 2.6.1, RTX 5070:\n{image}"))
    unseen = "Could not find cuda drivers on your machine, GPU will not be used.\nnvidia-smi works\n"
    assert "tensorflow[and-cuda]" in advice(first(f"TensorFlow 2.16.1, RTX 4070, driver 550:\n{unseen}"))


def test_the_page_of_wheels_is_that_of_the_torch_that_is_told() -> None:
    missing = "OSError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    scatter = f"torch {{}}, torch-scatter 2.0.9 is what fails:\n{missing}"
    assert "torch-2.1.0+cu121.html" in advice(first(scatter.format("2.1.2+cu121")))
    assert "torch-${TORCH}" in advice(first(scatter.format("of some kind")))


@pytest.mark.parametrize(
    "said",
    ["is_available is False", "is_available() gives me False", "is_available = False", "CUDA available: False"],
)
def test_the_answer_of_is_available_is_read_in_a_sentence(said: str) -> None:
    assert problems(f"RTX 3090, torch 2.6.0+cu124, driver 560.35.03, {said}\n") == ["torch-wrong-build-or-cpu"]
    assert problems(f"RTX 3090, torch 2.6.0+cu124, driver 560.35.03, {said.replace('False', 'True')}\n") == []


@pytest.mark.parametrize(
    "complaint",
    [
        "it crashes after 10 minutes",
        "GPU usage stays at 0 percent",
        "The images are all black.",
        "Only one of my two GPUs is used.",
        "The screen goes black when training starts.",
    ],
)
@pytest.mark.parametrize("facts", ["RTX 3080, torch 2.5.1+cu124", "RTX 3080, torch 2.5.1+cu124, driver 560.35.03"])
def test_a_complaint_is_never_called_well_whether_or_not_the_driver_is_told(facts: str, complaint: str) -> None:
    assert judgement(f"{facts}. {complaint}\n").verdict == "unknown"
    assert judgement(f"{facts}. Everything works.\n").verdict == "ok"


def test_the_branch_of_a_driver_stands_behind_where_it_is_from() -> None:
    text = "RTX 5090 on Debian 12, installed nvidia-driver from bookworm (535). nvidia-smi: No devices were found\n"
    assert problems(text) == ["driver-too-old"]
    assert problems(text.replace("(535)", "(see 535 replies)")) == ["blackwell-open-module"]


def test_one_slice_of_a_gpu_is_a_complaint_where_the_person_expected_several() -> None:
    several = "A100 with MIG enabled. CUDA_VISIBLE_DEVICES=0,1,2 but torch.cuda.device_count() is 1.\n"
    assert problems(several) == ["mig-confusion"]
    assert problems(several.replace("enabled", "mode disabled")) == []
    assert problems("A100 with MIG, one process each: torch.cuda.device_count() is 1, as it should be.\n") == []


def test_the_index_for_rocm_has_no_wheel_for_windows() -> None:
    text = (
        "On Windows 11 with an {}: pip install torch --index-url https://download.pytorch.org/whl/rocm6.2\n"
        "ERROR: No matching distribution found for torch\n"
    )
    assert "AMD has one" in advice(first(text.format("RX 7800 XT")))
    assert "AMD has one" not in advice(first(text.replace("rocm6.2", "cu118").format("RTX 3060")))


_SYMBOL = "ImportError: /v/lib/python3.10/site-packages/{}: undefined symbol: _ZNK3c106SymIntltEl\n"


def test_the_library_of_an_extension_tells_which_package_to_install_again() -> None:
    libraries = ("causal_conv1d_cuda.cpython-310.so", "torch_scatter/_scatter_cuda.so", "some_ext.abi3.so")
    conv, scatter, unknown = (first(_SYMBOL.format(library)) for library in libraries)
    flash = first(_SYMBOL.format("flash_attn_2_cuda.cpython-310.so"))
    assert "--no-build-isolation flash-attn" in advice(flash)
    assert "--no-build-isolation causal-conv1d" in advice(conv)
    assert "--no-build-isolation torch-scatter" in advice(scatter)
    assert "pip install" not in advice(unknown)


@pytest.mark.parametrize("said", ["3xP40", "8xA100", "2*V100"])
def test_the_number_of_gpus_may_touch_their_name(said: str) -> None:
    assert len(machine(f"It fails on my server with {said}").gpus) >= 1


def test_who_installs_torch_for_rocm_has_a_gpu_of_amd() -> None:
    failed = "Torch is not able to use GPU\n"
    wheel = "  Using cached torch-1.13.1-cp310-cp310-manylinux1_x86_64.whl (887.5 MB)\n"
    command = "pip install torch --extra-index-url https://download.pytorch.org/whl/{}\n"
    assert problems(command.format("rocm5.1.1") + wheel + failed)[0] == "cuda-torch-on-amd"
    assert "cuda-torch-on-amd" not in problems(command.format("cu118") + wheel + failed)


def test_a_container_that_was_given_the_nodes_of_amd_lacks_the_right_to_them() -> None:
    run = "docker run -it --device=/dev/kfd --device=/dev/dri rocm/rocm-terminal\n"
    text = f"RX 570\n{run}hsa api call failure at line 900, file: rocminfo.cc. Call returned 4104\n"
    assert first(text).slug == "amd-device-permission"
    assert first(text.replace(run, "")).slug != "amd-device-permission"


def test_a_container_tool_that_reports_an_error_of_cuda_is_there() -> None:
    error = "nvidia-container-cli: initialization error: {}\n"
    assert first(error.format("cuda error: unknown error")).slug == "nvidia-uvm-after-suspend"
    assert first(error.format("load library failed")).slug == "container-toolkit-missing"


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("GTX 3090", "sm_86"),
        ("RTX 1080 Ti", "sm_61"),
        ("RTX 6700 XT", "gfx1031"),
        ("AMD RTX 580", "gfx803"),
        # Near misses: one of both makers, one that is several, one that is none.
        ("RTX 580", None),
        ("GTX 4000", None),
        ("GTX 5095", None),
    ],
)
def test_a_number_of_one_line_of_products_tells_the_gpu_whatever_line_is_written(name: str, arch: str | None) -> None:
    (gpu,) = machine(f"GPU: {name}\nPyTorch version: 2.6.0+cu124\n").gpus
    assert gpu.arch.value == arch
