"""Texts about AMD's GPUs: where a program runs, which of two GPUs it takes, and what is told in words only."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import judgement, machine, problems

NO_NODE = (
    "docker: Error response from daemon: error gathering device information while adding custom device "
    '"/dev/kfd": no such file or directory.'
)
WSL = "WSL version: 2.6.1.0\nKernel version: 6.6.87.2-1\nWSLg version: 1.0.66\n"
TWO_GPUS = """\
ggml_cuda_init: found 2 ROCm devices:
  Device 0: AMD Radeon RX 9070, gfx1201 (0x1201), VMM: no, Wave Size: 32
  Device 1: AMD Radeon 740M Graphics, gfx1103 (0x1103), VMM: no, Wave Size: 32
ROCm error: invalid device function
  current device: {index}, in function ggml_cuda_compute_forward at ggml-cuda.cu:2932
"""


def advice(text: str) -> str:
    """The first fix of the first problem, in words."""
    return str(judgement(text).findings[0].fixes[0])


# --- containers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "My Radeon RX 6800 works on the Proxmox host, but in the LXC container rocminfo finds nothing.",
        "In my LXC container ollama only uses the CPU, the card is an RX 7900 XTX. On the host everything works.",
        "I passed /dev/dri into my Incus container, rocminfo inside still shows only the CPU. RX 6700 XT.",
        "Proxmox, unprivileged LXC, MI50: Unable to open /dev/kfd read-write: No such file or directory",
        "In an LXC I get RuntimeError: No HIP GPUs are available. Radeon 780M.",
    ],
)
def test_a_container_of_lxc_gets_its_nodes_by_entries(text: str) -> None:
    assert problems(text) == ["container-no-gpu"]
    assert "dev0: /dev/kfd,gid=N" in advice(text)


def test_in_lxc_a_node_that_may_not_be_opened_has_the_wrong_group() -> None:
    text = (
        "LXD container on Ubuntu with a Radeon VII: rocminfo: Unable to open /dev/kfd read-write: Permission denied"
    )
    assert problems(text) == ["amd-device-permission"]
    assert "AddContainerFlags" in advice(text)
    text = "Proxmox LXC, RX 7600. In it renderD128 is root:render, but /dev/kfd is root:root 0660."
    assert problems(text) == ["amd-device-permission"]
    assert problems("My LXC container with the Radeon 780M works fine, ollama uses the GPU.") == []
    assert problems("/dev/kfd is root:render 0660, and my user is in the group render. RX 7600.") == []


def test_docker_desktop_has_no_gpu_whatever_the_host_has() -> None:
    told = (
        "With Docker Desktop the rocm/pytorch container does not see /dev/kfd unless I use sudo docker run. RX 7600."
    )
    for text in (told, f"Docker Desktop on Ubuntu, RX 7900 XTX: {NO_NODE}"):
        assert problems(text) == ["container-no-gpu"]
        assert "Docker Engine" in advice(text)
    assert problems(f"I have an RX 6800. {NO_NODE}") == ["amd-kfd-missing"]


def test_a_container_that_asks_for_an_amd_gpu_on_a_machine_of_nvidia() -> None:
    text = f"My GTX 1060 box: {NO_NODE}"
    assert problems(text) == ["no-gpu"]
    assert "out of the command" in advice(text)


def test_the_cloud_kernel_has_amdgpu_in_a_package_of_its_own() -> None:
    assert "linux-modules-extra" in advice(f"Azure VM with a V710, Ubuntu 24.04, cloud kernel. {NO_NODE}")
    assert "linux-modules-extra" not in advice(f"Ubuntu 24.04 with an RX 6800. {NO_NODE}")


def test_wsl_tells_its_kernel_in_a_form_of_its_own() -> None:
    text = f"RX 9060 XT, WSL2 on Windows 11.\n{WSL}$ rocminfo\nROCk module is NOT loaded, possibly no GPU devices\n"
    assert machine(text).system.wsl.known
    assert problems(text) == ["rocm-wsl-unsupported"]
    assert "apt-get" not in advice(text)
    assert not machine("RX 9060 XT\nKernel version: 6.6.87-1-lts\n").system.wsl.known


def test_the_device_plugin_that_finds_no_compute_node() -> None:
    log = (
        "I0724 03:19:09.793051       1 main.go:305] AMD GPU device plugin for Kubernetes\n"
        "I0724 03:19:09.793166       1 manager.go:66] Handling incoming signals\n"
    )
    assert problems(log) == ["amd-kfd-missing"]
    assert problems(f"{log}I0724 03:19:09.8       1 manager.go:71] Received new list of plugins: [gpu]\n") == []


def test_an_image_of_ollama_without_rocm() -> None:
    text = "Image ollama/ollama:0.5.7 on my RX 7900 XTX: it does not use the GPU."
    assert problems(text) == ["program-on-cpu"]
    assert "ollama/ollama:rocm" in advice(text)
    assert "ollama/ollama:rocm" not in advice(text.replace("0.5.7", "0.5.7-rocm"))


# --- whether ROCm finds the GPU --------------------------------------------------------------------


def test_the_runtime_s_own_error_is_an_effect_of_the_module_that_is_not_loaded() -> None:
    text = (
        "Four 6900XT\nROCk module is NOT loaded, possibly no GPU devices\n"
        "Unable to open /dev/kfd read-write: No such file or directory\nrocm is member of video group\n"
        "hsa api call failure at: /src/rocminfo/rocminfo.cc:1142\nCall returned HSA_STATUS_ERROR_OUT_OF_RESOURCES\n"
    )
    assert problems(text) == ["amd-kfd-missing"]
    assert "usermod" not in advice(text)


def test_what_nobody_said_of_the_kernel_is_no_evidence() -> None:
    (found,) = [one for one in judgement("There's no /dev/kfd. Vega 64, Debian.").findings if one.severity == "error"]
    assert (found.slug, found.confidence) == ("amd-kfd-missing", "likely")
    assert "lists" not in found.message
    assert "modprobe amdgpu" in str(found.fixes[0])


def test_a_rocm_build_that_sees_no_gpu_lacks_no_driver_of_nvidia() -> None:
    text = "RX 7900 XTX, torch 2.9.1+rocm6.4, torch.cuda.is_available() is False"
    assert problems(text) == ["amd-device-permission"]
    assert "rocminfo" in advice(text)
    assert "+cpu" not in advice(text)
    assert problems(text.replace("RX 7900 XTX", "RX 480").replace("2.9.1+rocm6.4", "1.10.0+rocm4.2")) == [
        "amd-card-not-listed"
    ]


def test_onnxruntime_and_jax_have_packages_of_their_own_for_amd() -> None:
    provider = (
        "RX 6800: UserWarning: Specified provider '{}ExecutionProvider' is not in available provider names."
        "Available providers: 'CPUExecutionProvider'"
    )
    for text in (
        provider.format("ROCM"),
        "After pip install onnxruntime-gpu: OSError: libcublas.so.10: cannot open shared object file: No such file "
        "or directory. My card is a Radeon RX 6800.",
    ):
        assert "onnxruntime-migraphx" in advice(text)
    assert "onnxruntime-gpu" in advice(provider.format("CUDA").replace("RX 6800", "RTX 3060"))
    jax = "Jax plugin configuration error: Exception when calling jax_plugins.xla_rocm7.initialize()"
    assert "cuda" not in advice(f"MI300X, {jax}\nRuntimeError: No AMD GPUs were found")


# --- two GPUs --------------------------------------------------------------------------------------


def test_the_program_names_the_gpu_that_failed() -> None:
    assert problems(TWO_GPUS.format(index=1)) == ["amd-igpu-interferes"]
    assert "Hide the integrated GPU" in advice(TWO_GPUS.format(index=1))
    assert problems(TWO_GPUS.format(index=0)) == ["torch-rocm-no-arch-for-gpu"]
    assert "RX 9070" in judgement(TWO_GPUS.format(index=0)).findings[0].subject


def test_a_discrete_gpu_and_the_integrated_one_beside_it_are_both_of_the_machine() -> None:
    text = "I have a Radeon 780M and an RX 6600 XT. torch 2.4.1+rocm6.1: HIP error: invalid device function"
    assert {gpu.arch.value for gpu in machine(text).gpus} == {"gfx1032", "gfx1103"}
    assert problems(text)[0] == "torch-rocm-no-arch-for-gpu"
    listed = "amdgpu [0] gfx1103 is not supported by /tmp/ollama/rocm [gfx1100]"
    assert "gfx1100" not in {gpu.arch.value for gpu in machine(listed).gpus}


@pytest.mark.parametrize(
    "text",
    [
        "Two GPUs: the iGPU of my 7950X and an RX 7900 XTX. torch.cuda.is_available() is True but it crashes with a "
        "segmentation fault.",
        "ollama crashes as soon as I load a model. RX7900XTX and a 7800X3D. If I turn off the iGPU in the BIOS "
        "everything works.",
    ],
)
def test_a_crash_beside_an_integrated_gpu(text: str) -> None:
    assert problems(text) == ["amd-igpu-interferes"]


# --- a crash, told without a version ---------------------------------------------------------------


def test_that_torch_sees_the_gpu_does_not_make_a_crash_well() -> None:
    text = "I have a 7900 XTX. torch recognizes the GPU, but it segfaults whenever a tensor is placed onto it."
    assert problems(text) == ["torch-rocm-no-arch-for-gpu"]
    covered = judgement("torch 2.9.1+rocm6.4 on my RX 7900 XTX segfaults in my script.")
    assert covered.verdict == "unknown"
    assert problems("import torch segfaults on my RX 7900 XTX machine.") != ["torch-rocm-no-arch-for-gpu"]


def test_who_overrides_the_target_computes_on_the_gpu_of_the_processor() -> None:
    text = "Ryzen 5600G, rocm/pytorch container, export HSA_OVERRIDE_GFX_VERSION={}, torch aborts at the first tensor"
    assert problems(text.format("10.3.0")) == ["hsa-override-wrong"]
    assert "9.0.0" in advice(text.format("10.3.0"))
    assert "hsa-override-wrong" not in problems(text.format("9.0.0"))


# --- what a text shows of rights decides what gives them --------------------------------------------

REFUSED = "RX 7800 XT: Unable to open /dev/kfd read-write: Permission denied"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (REFUSED, "usermod -aG render,video"),
        (f"{REFUSED}; `crw-rw---- 1 root video 236, 0 Jul 23 18:21 /dev/kfd` says ls", "JoinGroup(group='video'"),
        (
            f"{REFUSED}\n$ ls -la /dev | grep kfd\ncrw-------   1 root    root    234,   0 Mai 21 05:13 kfd",
            "udev rules",
        ),
        (f"In a docker container, {REFUSED}: crw-rw---- 1 root **148** 236, 0 Jul 23 18:21 /dev/kfd", "group_id=148"),
        (f"I run ollama in a distrobox. {REFUSED}", "AddContainerFlags(wants='amd', group_id=None"),
    ],
)
def test_the_rights_that_a_text_shows_decide_how_the_user_gets_them(text: str, fix: str) -> None:
    assert problems(text) == ["amd-device-permission"]
    assert fix in advice(text)


def test_a_node_that_everybody_may_open_refuses_nobody() -> None:
    text = "RX 7800 XT, all works. `crw-rw-rw- 1 root render 236, 0 Jul 23 18:21 /dev/kfd` is what ls says."
    assert problems(text) == []


def test_amdgpu_that_gets_no_memory_gets_no_addresses() -> None:
    text = "My MI100s do not start: `amdgpu: probe of 0000:09:00.0 failed with error -12`"
    assert problems(text) == ["driver-init-failed-bios"]
    assert problems(text.replace("-12", "-22")) == ["no-driver"]


def test_a_message_in_small_letters() -> None:
    assert problems("error: runtimeerror: no hip gpus are available, rx 7800 xt")[:1] == ["amd-device-permission"]
    assert problems("my rx 7800 xt is fine, no hip gpus are available in the shop") == []


def test_a_model_tells_more_than_the_targets_of_a_build() -> None:
    found = machine("Built for gfx1030 rather than gfx900. My RX 6650M is a gfx1032, and rocBLAS fails.")
    assert [gpu.arch.value for gpu in found.gpus] == ["gfx1032"]


def test_the_version_of_torch_alone_on_a_line() -> None:
    torch = machine("Radeon RX 7900 XTX\n2.9.0.dev20250713+rocm6.4\nTrue\n").torch
    assert torch is not None
    assert torch.version == "2.9.0.dev20250713+rocm6.4"


def test_the_beginning_of_a_long_form_tells_its_matter() -> None:
    form = "### What happened?\n\nWebui starts, but uses the CPU to generate images. My GPU is an AMD 6800XT.\n\n"
    rest = "".join(
        f"### Question {number}\n\nNothing to add here, it is as it was before.\n\n" for number in range(20)
    )
    assert problems(form + rest) == ["torch-wrong-build-or-cpu"]
    assert problems(rest + form) == []
