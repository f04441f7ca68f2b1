"""Pasted logs of programs with libraries of their own: ollama, llama.cpp and others that use ggml."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import advice, first, judgement, machine, problems

FOUND_ROCM, FOUND_CUDA = "ggml_cuda_init: found 1 ROCm devices:\n", "ggml_cuda_init: found 1 CUDA devices:\n"
INVALID = (
    "CUDA error: invalid device function\n"
    "  current device: 0, in function ggml_cuda_compute_forward at ggml/src/ggml-cuda.cu:2326\n"
)
NO_VERSION_FILE = (
    'level=WARN source=amd_linux.go:59 msg="ollama recommends running the https://www.amd.com/en/support" '
    'error="amdgpu version file missing: /sys/module/amdgpu/version stat /sys/module/amdgpu/version: no such file"\n'
)


# --- whose GPU it is -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        ("Radeon RX 7900 XTX, compute capability 11.0, VMM: no", "gfx1100"),
        ("AMD Radeon RX 7800 XT, compute capability 11.0, VMM: no", "gfx1101"),
        ("AMD Radeon RX 6700 XT, compute capability 10.3, VMM: no", "gfx1031"),
        ("AMD Radeon RX 6800, compute capability 10.3, VMM: no", "gfx1030"),
        ("AMD Radeon VII, compute capability 9.0, VMM: no", "gfx906"),
        ("AMD Instinct MI100, compute capability 9.0, VMM: no", "gfx908"),
        ("gfx1151, compute capability 11.5, VMM: no", "gfx1151"),
        ("AMD Radeon Graphics, compute capability 10.3, VMM: no", None),
    ],
)
def test_a_compute_capability_of_rocm_is_no_architecture_of_nvidia(device: str, arch: str | None) -> None:
    for head in (FOUND_ROCM, ""):
        (gpu,) = machine(f"{head}  Device 0: {device}\nllm_load_tensors: offloaded 33/33 layers to GPU\n").gpus
        assert (gpu.vendor, gpu.arch.value) == ("amd", arch)


def test_below_rocm_devices_a_gpu_without_a_makers_name_is_amds() -> None:
    (gpu,) = machine(f"{FOUND_ROCM}  Device 0: Graphics, compute capability 10.3, VMM: no\n").gpus
    assert gpu.vendor == "amd"


def test_below_cuda_devices_a_compute_capability_is_nvidias() -> None:
    text = f"{FOUND_ROCM}  Device 0: AMD Radeon RX 6800, compute capability 10.3, VMM: no\n\n{FOUND_CUDA}"
    gpus = machine(f"{text}  Device 0: NVIDIA GeForce RTX 3060, compute capability 8.6, VMM: yes\n").gpus
    assert [gpu.arch.value for gpu in gpus] == ["sm_86"]


def test_a_healthy_log_of_ollama_on_rocm_is_silent() -> None:
    log = f"{NO_VERSION_FILE}{FOUND_ROCM}  Device 0: Radeon RX 7900 XTX, compute capability 11.0, VMM: no\n"
    judged = judgement(f"{log}llm_load_tensors: offloaded 43/43 layers to GPU\n")
    assert {finding.severity for finding in judged.findings} == {"note"}
    assert not any(question.matters for question in judged.not_judged)


def test_a_program_without_code_for_an_amd_gpu_gets_a_build_for_rocm() -> None:
    text = f"{FOUND_ROCM}  Device 0: AMD Radeon RX 6700 XT, compute capability 10.3, VMM: no\n{INVALID}"
    assert problems(text) == ["torch-rocm-no-arch-for-gpu"]
    assert "AMDGPU_TARGETS" in advice(text)
    for wrong in ("CMAKE_CUDA_ARCHITECTURES", "nvidia-smi", "torch=="):
        assert wrong not in f"{advice(text)} {first(text).message}"


def test_a_rocblas_without_code_is_named_beside_such_a_device() -> None:
    text = f"{FOUND_ROCM}  Device 0: AMD Radeon RX 6750 XT, compute capability 10.3, VMM: no\n"
    error = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: Illegal seek"
    assert problems(f"{text}{error} for GPU arch : gfx1031\n") == ["rocblas-no-arch"]


# --- a driver that is too old ----------------------------------------------------------------------

INSUFFICIENT = (
    "ggml_cuda_init: failed to initialize CUDA: CUDA driver version is insufficient for CUDA runtime version\n"
)


@pytest.mark.parametrize(
    ("machine", "needed", "branch"),
    [
        ("NVIDIA A100-PCIE-40GB, host driver 515.65.01", "CUDA 12 (driver 525.60.13 or newer)", "580"),
        ("GTX 1080, driver 470.256.02", "CUDA 12 (driver 525.60.13 or newer)", "580"),
        ("RTX 3060, driver 550.120", "CUDA 13 (driver 580 or newer)", "580"),
    ],
)
def test_a_known_driver_is_told_what_it_is_too_old_for(machine: str, needed: str, branch: str) -> None:
    found = first(f"{machine}, ollama\n{INSUFFICIENT}")
    assert found.slug == "driver-too-old"
    assert needed in found.message
    assert found.fixes[0].title.startswith(f"Install NVIDIA driver {branch}")
    for wrong in ("torch", "nvidia-smi"):
        assert wrong not in f"{found.message} {found.fixes}"


@pytest.mark.parametrize("machine", ["RTX 4070", "Tesla K80, driver 470.256.02", "RTX 3060, driver 580.95.05"])
def test_no_driver_is_proposed_where_none_is_known_to_help(machine: str) -> None:
    found = first(f"{machine}, faster-whisper\n{INSUFFICIENT}")
    assert found.slug == "driver-too-old"
    assert "Install NVIDIA driver" not in advice(f"{machine}\n{INSUFFICIENT}")


# --- a target that a program has no code for -------------------------------------------------------

REFUSED = (
    'level=WARN source=amd_linux.go:341 msg="amdgpu is not supported" gpu=0 gpu_type={gfx} library=/opt/rocm/lib '
    'supported_types="[gfx1030 gfx1100 gfx1101 gfx1102 gfx900 gfx906 gfx908 gfx90a]"\n'
    'level=INFO source=types.go:105 msg="inference compute" id=0 library=cpu compute="" driver=0.0 name=""\n'
)


@pytest.mark.parametrize(
    ("gfx", "value", "named"), [("gfx1031", "10.3.0", "gfx1030"), ("gfx1032", "10.3.0", "gfx1030")]
)
def test_ollama_is_told_the_override_and_its_place(gfx: str, value: str, named: str) -> None:
    text = f"export HSA_OVERRIDE_GFX_VERSION={value}\n\n{REFUSED.format(gfx=gfx)}"
    assert problems(text) == ["torch-rocm-no-arch-for-gpu"]  # that it computes on the CPU is the effect
    assert first(text).fixes[0].title == f"Make the GPU run as {named} with HSA_OVERRIDE_GFX_VERSION={value}"
    assert "systemctl edit ollama" in advice(text)
    assert f'Environment="HSA_OVERRIDE_GFX_VERSION={value}"' in advice(text)


@pytest.mark.parametrize("gfx", ["gfx803", "gfx1010", "gfx1201"])
def test_a_target_without_another_of_its_generation_is_told_no_override(gfx: str) -> None:
    assert "HSA_OVERRIDE_GFX_VERSION=" not in advice(REFUSED.format(gfx=gfx))


def test_a_message_is_explained_before_it_is_quoted() -> None:
    message = first(REFUSED.format(gfx="gfx1031")).message
    assert message.startswith("On gfx1031, Navi 22 (RX 6700/6750): ollama's ROCm libraries have no code")
    assert message.index("Seen: ") < message.index("amdgpu is not supported")
    told = first(f"RTX 4070, ollama\n{INSUFFICIENT}").message
    assert told.startswith("The CUDA runtime finds no driver") and told.endswith(f"Seen: {INSUFFICIENT[:-1]}.")


def test_what_the_text_suggests_is_said_with_one_colon() -> None:
    message = 'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].'
    told = first(f"I use Docker Desktop on Ubuntu.\n{message}\n").message
    assert (
        "suggests that Docker Desktop runs containers in a virtual machine of its own, which has no GPU: no" in told
    )


@pytest.mark.parametrize(
    "text",
    [
        f"Ollama uses only the CPU.\n{REFUSED.format(gfx='gfx1031').splitlines()[1]}\n",
        "Secure Boot is on.\nmodprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n",
        "I forgot to log in again after usermod.\n/dev/kfd: Permission denied\n",
    ],
)
def test_words_that_name_the_cause_of_the_message_are_not_said_to_suggest_something_else(text: str) -> None:
    assert "Something else in the text suggests" not in first(text).message


# --- texts that leave all open ---------------------------------------------------------------------

GATED = "huggingface_hub.errors.GatedRepoError: 401 Client Error.\nCannot access gated repo, please log in.\n"
UNBOUND = (
    "  Warning  FailedScheduling  3m4s  default-scheduler  0/3 nodes are available: pod has unbound immediate "
    "PersistentVolumeClaims.\n"
)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (GATED, "nothing in this text is about a GPU. If there is a GPU problem, add its message and"),
        (f"vLLM on MI300X does not start:\n{GATED}", "no error in this text is about a GPU. If there is"),
        (f"limits nvidia.com/gpu: 1\n{UNBOUND}", "no error in this text is about a GPU. If there is"),
        ("GPU: NVIDIA GeForce RTX 3060", "the text does not say which driver and torch. Send "),
        ("RuntimeError: ggml CUDA frobnication failed", "could not judge this error, whose cause is not known: "),
    ],
)
def test_what_is_open_is_said_in_plain_words(text: str, begin: str) -> None:
    judged = judgement(text)
    (open_,) = [question for question in judged.not_judged if question.matters]
    assert open_.why.startswith(begin)
    assert not judged.findings


# --- a library that does not know the GPU, an image, an index --------------------------------------

CUPY_NVRTC = "cupy.cuda.compiler.CompileException: nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
NO_IMAGE = "torch.AcceleratorError: HIP error: no kernel image is available for execution on the device\n"
OFFLINE = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after connection broken "
    "by 'NewConnectionError: Failed to establish a new connection: [Errno -2] Name or service not known'\n"
)
NO_RELEASE = "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)\n"
ON_CPU = 'level=INFO msg="inference compute" id=cpu library=cpu compute="" name=cpu description=cpu\n'


def test_cupy_beside_a_cuda_that_no_longer_knows_the_gpu() -> None:
    found = first(f"GTX 1080, driver 580.105.08, cupy-cuda13x 13.6.0\n{CUPY_NVRTC}")
    assert found.slug == "ext-built-without-gpu-arch"
    assert "cupy-cuda13x 13.6.0 has no code for GTX 1080" in found.message
    assert "cupy-cuda12x" in str(found.fixes[0])


@pytest.mark.parametrize(
    ("gpu", "slug"), [("Tesla P40", "torch-dropped-old-gpu"), ("RTX 4090", "torch-no-arch-for-gpu")]
)
def test_nvrtc_of_torch_is_older_or_newer_than_the_gpu(gpu: str, slug: str) -> None:
    assert problems(f"{gpu}\nRuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)\n") == [slug]


def test_torch_is_not_replaced_in_the_image_of_a_server() -> None:
    found = first(f"MI355X (gfx950), docker image vllm/vllm-openai-rocm:v0.14.0\n{NO_IMAGE}")
    assert found.slug == "ext-built-without-gpu-arch"
    assert "pip install" not in str(found.fixes)
    assert "another tag" in str(found.fixes[0])


@pytest.mark.parametrize(
    "where", ["vllm in a venv", "rocm/pytorch image", "vllm 0.14.0 built from vllm-project/vllm"]
)
def test_elsewhere_torch_may_be_replaced(where: str) -> None:
    assert first(f"MI355X (gfx950), {where}, torch 2.5.1+rocm6.2\n{NO_IMAGE}").slug == "torch-rocm-no-arch-for-gpu"


def test_an_index_that_cannot_be_reached_has_no_release_of_anything() -> None:
    assert problems(f"radeon pro w7900\n{OFFLINE}{NO_RELEASE}") == []
    assert problems(f"radeon pro w7900\n{NO_RELEASE}") == ["torch-wheel-missing"]


def test_lightgbm_is_compiled_for_cuda() -> None:
    text = "RTX A4000\n[LightGBM] [Fatal] CUDA Tree Learner was not enabled in this build.\n"
    assert problems(text) == ["framework-cpu-only"]
    assert "USE_CUDA=ON" in advice(text)


def test_ollama_without_its_libraries_for_rocm() -> None:
    folder = "$ ls /usr/local/lib/ollama\ncuda_v12  cuda_v13  libggml-base.so{rocm}\n"
    assert "ollama-linux-amd64-rocm" in advice(f"R9700 (gfx1201)\n{folder.format(rocm='')}{ON_CPU}")
    assert "ollama-linux-amd64-rocm" not in advice(f"R9700 (gfx1201)\n{folder.format(rocm='  rocm')}{ON_CPU}")
    assert "ollama-linux-amd64-rocm" not in advice(f"RTX 4090\n{folder.format(rocm='')}{ON_CPU}")


def test_a_node_without_the_tool_that_gives_containers_gpus() -> None:
    text = "slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see https://github.com/x\n"
    assert problems(text) == ["container-toolkit-missing"]
    assert "libnvidia-container-tools" in advice(text)
    assert problems("nvidia-container-cli: device error: 4: unknown device\n") != ["container-toolkit-missing"]


def test_rocminfo_that_lists_the_cpu_is_no_program_that_computes() -> None:
    skipped = "[    7.0] kfd kfd: amdgpu: skipped device 1002:67df, PCI rejects atomics\n"
    assert problems(f"rocminfo lists only the CPU.\n{skipped}") == ["amd-pcie-atomics"]
    assert problems("My RX 6800: rocminfo lists only the CPU.") == ["amd-kernel-or-runtime-too-old"]
    assert problems("My RX 6800: rocminfo lists the CPU and the GPU.") == []


_SM_120 = (
    "NVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible with the current PyTorch installation."
)


@pytest.mark.parametrize(
    ("said", "brings_vllm"),
    [
        ("[Bug]: vllm v0.10.0 does not start", True),
        ("VLLM version: 0.9.2.dev226+g9a3b88328", True),
        ("[Bug]: ComfyUI does not start", False),
    ],
)
def test_a_text_about_a_program_that_pins_its_torch_gets_both(said: str, brings_vllm: bool) -> None:
    found = next(one for one in judgement(f"{said}\n{_SM_120}\n").findings if one.slug == "torch-no-arch-for-gpu")
    named = [getattr(remedy, "name", "") for remedy in found.fixes[0].remedies]
    assert ("vllm" in named) is brings_vllm


def test_where_no_driver_is_told_a_program_comes_for_the_cuda_that_most_drivers_run() -> None:
    found = next(iter(judgement(f"vllm 0.6.3 on an RTX 5080\n{_SM_120.replace('5070 Ti', '5080')}\n").findings))
    assert "CUDA 12" in found.fixes[0].title
