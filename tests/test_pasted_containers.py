"""Pasted texts about containers: what starts them decides what gives them the GPU."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import advice, first, judgement, machine, problems

NO_HIP = "RuntimeError: No HIP GPUs are available\n"
NO_MODULE = "ROCk module is NOT loaded, possibly no GPU devices\n"
NVML = (
    "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object "
    "file: no such file or directory: unknown\n"
)
GIVEN = "docker run -it --device /dev/kfd --device /dev/dri vllm-rocm bash\n"
SEES = "The host can see the GPUs (2x Radeon PRO W7900), but processes inside Docker cannot.\n"


@pytest.mark.parametrize(
    "told",
    [
        "I am on Ubuntu with Docker Desktop for Linux.",
        "We use Docker Desktop on Fedora",
        "`docker context ls` says desktop-linux *",
        "uname -r in the container: 6.10.14-linuxkit",
    ],
)
@pytest.mark.parametrize("error", [NO_HIP, NO_MODULE, NO_HIP + NO_MODULE])
def test_docker_desktop_gives_no_container_an_amd_gpu(told: str, error: str) -> None:
    text = f"{SEES}{told}\n{GIVEN}{error}"
    assert problems(text) == ["container-no-gpu"]
    assert "Docker Engine" in advice(text)
    for refuted in ("modprobe", "--device"):
        assert refuted not in advice(text)


def test_a_container_of_docker_engine_with_the_nodes_is_not_blamed_for_them() -> None:
    text = f"Radeon PRO W7900, no Docker Desktop here.\n{GIVEN}{NO_MODULE}"
    assert problems(text) == ["amd-kfd-missing"]
    assert "Docker Engine" not in advice(text)


WSL = "I'm using WSL2 (latest Docker Desktop), running docker compose in powershell. GPU is RTX3090."


@pytest.mark.parametrize("windows", ["Windows 10 Pro, 20H2, 19042.928", "Windows 10 21H1", "Windows build 19041.450"])
def test_a_windows_without_gpus_in_wsl_is_too_old(windows: str) -> None:
    text = f"{WSL} {windows}\n\n{NVML}"
    assert problems(text) == ["wsl-driver"]
    assert "21H2" in first(text).message
    assert first(text).fixes[0].title.startswith("Update Windows to 10 21H2")
    assert "nvidia-ctk" not in advice(text)


@pytest.mark.parametrize("windows", ["Windows 10 22H2", "Windows 11", "Windows 10 Pro 21H2 19044.1288"])
def test_docker_desktop_in_wsl_takes_the_driver_of_windows(windows: str) -> None:
    text = f"{WSL} {windows}\n\n{NVML}"
    assert problems(text) == ["wsl-driver"]
    assert "older" not in first(text).message
    assert "nvidia-ctk" not in advice(text)
    assert machine(text).system.wsl.known


@pytest.mark.parametrize(
    ("error", "title"),
    [
        ('could not select device driver "" with capabilities: [[gpu]].', "install nvidia-container-toolkit"),
        ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", "nvidia-ctk cdi generate"),
        ("nvidia-smi: command not found", "In Windows install the newest NVIDIA driver"),
    ],
)
def test_what_is_installed_inside_wsl_is_no_matter_of_the_driver_of_windows(error: str, title: str) -> None:
    wsl = "Ubuntu 22.04 in WSL2 (5.15.167.4-microsoft-standard-WSL2), docker-ce inside WSL, RTX 3070."
    assert title in first(f"{wsl}\n\n{error}\n").fixes[0].title


PLUGIN = (
    "E0121 12:04:24.666432       1 factory.go:113] If this is a GPU node, did you configure the NVIDIA Container "
    "Toolkit?\nI0121 12:04:24.666452       1 main.go:287] No devices found. Waiting indefinitely.\n"
)
NO_RUNTIME = 'kubelet: failed to get sandbox runtime: no runtime for "nvidia" is configured\n'
INSUFFICIENT = "Warning  FailedScheduling  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n"


@pytest.mark.parametrize(
    ("told", "runtime"),
    [
        ("on the node itself nvidia-smi works fine (Tesla T4, 535.129.03), containerd 1.7", "containerd"),
        ("Kubernetes 1.30 on two nodes with a Tesla T4 each", "containerd"),
        ("The node has a Tesla T4 and CRI-O as its engine under Kubernetes", "crio"),
        ("cri-o 1.30, Tesla T4, the device plugin sees nothing", "crio"),
    ],
)
@pytest.mark.parametrize("error", [PLUGIN, NO_RUNTIME, INSUFFICIENT + PLUGIN])
def test_the_toolkit_is_configured_for_the_engine_of_the_node(told: str, runtime: str, error: str) -> None:
    text = f"{error}{told}\n"
    found = first(text)
    assert found.slug == "container-toolkit-missing"
    fix = found.fixes[0].title
    assert f"--runtime={runtime} --set-as-default" in fix
    assert "docker" not in f"{fix} {found.message.partition('What decides')[2]}".lower()


def test_a_question_in_a_programs_line_is_no_remedy() -> None:
    text = f"{PLUGIN}on the node itself nvidia-smi works fine (Tesla T4)\n"
    assert "had no NVIDIA Container Toolkit" not in first(text).message


@pytest.mark.parametrize(
    "told",
    [
        "We use Kubernetes with containerd (Tesla T4), all GPUs are in use by another team.",
        "containerd 1.7 with a Tesla T4; on the node nvidia-smi fails",
    ],
)
def test_the_engine_is_not_blamed_without_a_sign(told: str) -> None:
    assert "containerd on the node" not in first(f"{INSUFFICIENT}{told}\n").message


NO_DEVICE_DRIVER = (
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].\n'
)


@pytest.mark.parametrize(
    ("told", "slug", "advice"),
    [
        ("Ubuntu 24.04, RTX 3070", "container-toolkit-missing", "nvidia-ctk runtime configure"),
        ("I use Docker Desktop on Fedora 41, RTX 3070", "container-no-gpu", "docker context use default"),
        ("Windows 11, Docker Desktop 4.30, RTX 3070", "wsl-driver", "In Windows"),
        ("Docker Desktop on Windows 11 with WSL2, RTX 3070", "wsl-driver", "Install no toolkit"),
        ("WSL2: I removed Docker Desktop and use docker-ce, RTX 3070", "container-toolkit-missing", "nvidia-ctk"),
        ("Ubuntu 22.04 in WSL2, docker-ce, RTX 3070", "container-toolkit-missing", "nvidia-ctk runtime configure"),
    ],
)
def test_which_docker_it_is_decides_what_gives_it_gpus(told: str, slug: str, advice: str) -> None:
    found = judgement(NO_DEVICE_DRIVER + told).findings[0]
    assert found.slug == slug
    assert advice in str(found.fixes[0].remedies)
    assert slug == "container-toolkit-missing" or "WSL2" not in told or "nvidia-ctk" not in str(found.fixes)


COMPOSE = """services:
  ollama:
    image: ollama/ollama
    environment:
      - {}
"""


@pytest.mark.parametrize(
    ("entry", "told", "slug", "fix"),
    [
        ('CUDA_VISIBLE_DEVICES="0"', "RTX 3060, ollama only uses the CPU.", "cuda-visible-devices", "'0'"),
        (
            "HSA_OVERRIDE_GFX_VERSION='10.3.0'",
            "RX 6700 XT: HIP error: invalid device function",
            "hsa-override-wrong",
            "'10.3.0'",
        ),
    ],
)
def test_quotes_in_the_list_of_a_compose_file_are_part_of_the_value(
    entry: str, told: str, slug: str, fix: str
) -> None:
    found = {one.slug: one for one in judgement(f"{COMPOSE.format(entry)}\n{told}").findings}
    assert found[slug].severity == "error"
    assert f"value={fix}" in str(found[slug].fixes[0])


@pytest.mark.parametrize("entry", ['"CUDA_VISIBLE_DEVICES=0"', "CUDA_VISIBLE_DEVICES=0"])
def test_an_entry_without_quotes_around_its_value_hides_no_gpu(entry: str) -> None:
    told = "RTX 3060, ollama only uses the CPU."
    assert "cuda-visible-devices" not in problems(f"{COMPOSE.format(entry)}\n{told}")
    assert "cuda-visible-devices" not in problems(f'export CUDA_VISIBLE_DEVICES="0"\n{told}')


UNSUPPORTED = "Error 803: system has unsupported display driver / cuda driver combination"


@pytest.mark.parametrize(
    ("told", "slug"),
    [
        ("docker run --gpus all vllm/vllm-openai:v0.15.0", "container-libcuda-baked-in"),
        ("GPUStack in Kubernetes, driver 580", "container-libcuda-baked-in"),
        ("In a container, after I upgraded the driver on the host", "driver-installed-no-reboot"),
        ("In the container; nvidia-smi on the host fails, too", "driver-lib-mismatch"),
        ("Ubuntu 24.04, no docker", "driver-lib-mismatch"),
    ],
)
def test_a_container_that_starts_and_refuses_cuda_has_a_libcuda_of_its_own(told: str, slug: str) -> None:
    found = first(f"{told}\n{UNSUPPORTED}")
    assert found.slug == slug
    assert ("LD_LIBRARY_PATH" in str(found.fixes[0])) == (slug == "container-libcuda-baked-in")


@pytest.mark.parametrize(
    ("resource", "slug", "plugin"),
    [
        ("nvidia.com/gpu", "container-toolkit-missing", "k8s-device-plugin or the GPU Operator"),
        ("amd.com/gpu", "amd-kfd-missing", "ROCm/k8s-device-plugin"),
    ],
)
def test_a_pod_that_waits_for_a_gpu_lacks_the_device_plugin_of_that_vendor(
    resource: str, slug: str, plugin: str
) -> None:
    waits = f"0/1 nodes are available: 1 Insufficient {resource}."
    text = f"Pod fails to start with the gpu option of the ollama chart\n{waits}"
    assert first(text).slug == slug
    assert plugin in advice(text)


@pytest.mark.parametrize(
    ("text", "slug", "fix"),
    [
        (
            "singularity exec -c --nv image.sif python train.py\nNo CUDA GPUs are available",
            "container-no-gpu",
            "--contain",
        ),
        ("Colab T4: the provided PTX was compiled with an unsupported toolchain.", "driver-too-old", "-arch=sm_75"),
        ("Tesla T4: the provided PTX was compiled with an unsupported toolchain.", "driver-too-old", "NVIDIA driver"),
    ],
)
def test_a_fix_is_one_that_can_be_done_in_that_place(text: str, slug: str, fix: str) -> None:
    assert first(text).slug == slug
    assert fix in str(first(text).fixes[0])
    assert ("Colab" in text) == ("belongs to the service" in first(text).message)
    assert "docker" not in str(first(text).fixes[0])
