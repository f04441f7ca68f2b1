"""Pasted texts that tell where a program runs: the cause, and the first fix, are those of that place."""

from __future__ import annotations

import pytest

from gpudoctor.finding import Finding
from tests.support.judged_texts import judgement, problems

NO_DRIVER_FOR = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
NO_NVML = (
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object "
    "file: no such file or directory: unknown\n"
)
UNRESOLVED = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all\n"
NO_NODE = 'error gathering device information while adding custom device "/dev/kfd": no such file or directory\n'
NO_GPUS = "RuntimeError: No CUDA GPUs are available\n"
NO_RIGHT = (
    "nvidia-container-cli: mount error: open failed: /sys/fs/cgroup/devices/user.slice/devices.allow: "
    "permission denied\n"
)


def first(text: str) -> Finding:
    return next(finding for finding in judgement(text).findings if finding.severity != "note")


@pytest.mark.parametrize(
    ("text", "slug", "fix"),
    [
        (f"I did sudo snap install docker.\n{NO_NVML}", "container-toolkit-missing", "snap remove docker"),
        (f"{NO_DRIVER_FOR}The docker is from the snap.", "container-toolkit-missing", "snap remove docker"),
        (f"We are on NixOS 25.05.\n{UNRESOLVED}", "container-toolkit-missing", "hardware.nvidia-container-toolkit"),
        (UNRESOLVED, "container-toolkit-missing", "nvidia-ctk cdi generate"),
        (f"An LXC container on Proxmox.\n{NO_NVML}", "no-driver", "--no-kernel-modules"),
        (f"{NO_DRIVER_FOR}Ubuntu with Docker Desktop.", "container-no-gpu", "Docker Engine"),
        (f"{NO_DRIVER_FOR}Windows 11 and Docker Desktop.", "wsl-driver", "wsl --update"),
        (f"{NO_DRIVER_FOR}My laptop has no NVIDIA card.", "no-gpu", "compose file"),
        (NO_DRIVER_FOR, "container-toolkit-missing", "nvidia-ctk runtime configure"),
        (f"{NO_NODE}RX 6800, docker compose", "amd-kfd-missing", "modprobe amdgpu"),
        ("unraid: docker: unknown runtime specified nvidia.", "container-toolkit-missing", "nvidia-ctk"),
        ("In an LXC container: RuntimeError: No HIP GPUs are available", "container-no-gpu", "/dev/kfd"),
        ("rootless podman, ollama/ollama:rocm only uses the CPU", "amd-device-permission", "keep-groups"),
        (f"rootless docker:\n{NO_RIGHT}", "container-toolkit-missing", "no-cgroups"),
        (f"singularity run image.sif\n{NO_GPUS}", "container-no-gpu", "--nv"),
        (f"In a @ray.remote function it says:\n{NO_GPUS}", "job-without-gpu", "num_gpus"),
        ("TrueNAS refuses to start my app:\n" + NO_DRIVER_FOR, "no-driver", "Install NVIDIA Drivers"),
    ],
)
def test_the_place_decides_what_helps(text: str, slug: str, fix: str) -> None:
    found = first(text)
    assert found.slug == slug
    assert fix in str(found.fixes[0])


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("My pod has resources: {} and finds no GPU, the node has an A100. Kubernetes 1.31.", "nvidia.com/gpu: 1"),
        ("docker run --gpus all works on the node, but pods of Kubernetes see no GPU.", "--set-as-default"),
        ("The AMD GPU operator runs, and the node has no amd.com/gpu. It is an MI210.", "CONFIG_HSA_AMD"),
        ("Torch in my Ray actor does not see the GPU, an RTX 3090.", "num_gpus"),
        ("The container gets no /dev/nvidia-uvm unless I pass --device /dev/nvidia-uvm.", "compute,utility"),
        ("The rootless podman container with --privileged does not find my RTX 3090.", "nvidia.com/gpu=all"),
        ("My rootless podman container does not find the Radeon RX 7900 XTX.", "keep-groups"),
    ],
)
def test_what_is_told_of_a_place_without_a_message(text: str, fix: str) -> None:
    assert fix in str(first(text).fixes[0])


@pytest.mark.parametrize(
    "text",
    [
        "The Ray dashboard shows that all 4 GPUs are used.",
        "The pod asks for nvidia.com/gpu: 1 and computes.",
        "amd.com/gpu: 1 is allocatable, and rocminfo is fine in the pods.",
        "I removed the docker snap, and now docker run --gpus all works.",
        "On TrueNAS the GPU of the apps is an RTX 4000, all is fine.",
        "Rootless podman with --device nvidia.com/gpu=all works.",
    ],
)
def test_a_place_alone_is_no_fault(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize(
    ("command", "slugs"),
    [
        ("srun python", ["job-without-gpu"]),
        ("srun -N1 python", ["job-without-gpu"]),
        ("srun --gpus=1 python", ["torch-cpu-only"]),
        ("docker exec -it app python3", ["torch-cpu-only"]),
        ("uv run python", ["torch-cpu-only"]),
    ],
)
def test_what_starts_python_may_stand_before_it(command: str, slugs: list[str]) -> None:
    text = f'$ {command} -c "import torch; print(torch.cuda.is_available())"\n'
    assert problems(f"{text}False\n") == slugs
    assert problems(f"{text}# False\n") == slugs
    assert problems(f"{text}True\n") == []


def test_on_a_mac_the_request_for_a_gpu_is_taken_out() -> None:
    found = judgement(f"{NO_DRIVER_FOR}It is a Mac mini.").findings[0]
    assert (found.slug, found.severity) == ("no-gpu", "note")
    assert "run the program outside of Docker" in str(found.fixes[0].remedies)


@pytest.mark.parametrize("end", ["", " torchvision", " --upgrade"])
def test_the_package_indexs_own_torch_is_for_nvidia_on_linux(end: str) -> None:
    told = f"RX 6800 on Ubuntu 22.04.\nI did pip install torch{end}\ntorch.cuda.is_available() is False\n"
    assert first(told).slug == "cuda-torch-on-amd"
    of_rocm = told.replace(f"torch{end}", "torch --index-url https://download.pytorch.org/whl/rocm6.4")
    assert first(of_rocm).slug != "cuda-torch-on-amd"
    assert first(told.replace("RX 6800", "RTX 3060")).slug == "torch-cpu-only"


def test_the_name_of_ubuntus_package_tells_the_flavour_of_the_driver() -> None:
    told = "RTX 5080 on Ubuntu.\nI installed nvidia-driver-575\nNo devices were found\n"
    assert first(told).slug == "blackwell-open-module"
    assert first(told.replace("575", "575-open")).slug == "driver-init-failed-hw"
    assert first(told.replace("RTX 5080", "RTX 3080")).slug == "driver-init-failed-hw"
