"""`check --from` with messages of frameworks beside torch: the fix names the release that goes with the rest."""

from __future__ import annotations

import pytest

from gpudoctor.finding import InstallDriver
from tests.support.judged_texts import first, judgement, machine, problems

ORT = "FAIL : Failed to load library libonnxruntime_providers_cuda.so with error: {}: cannot open shared object file"
CT2 = "RuntimeError: Library {} is not found or cannot be loaded"
CUPY = "CuPy failed to load {0}: OSError: {0}: cannot open shared object file: No such file or directory"
SYMBOL = "ImportError: /v/lib/python3.12/site-packages/{}.abi3.so: undefined symbol: _ZN3c104cuda9SetDeviceE"
GPU = "NVIDIA GeForce RTX 4090, driver 580.95.05, Python 3.12\n"


@pytest.mark.parametrize(
    ("text", "wanted", "wrong"),
    [
        ("torch 2.13.0+cu130\n" + ORT.format("libcublasLt.so.12"), ["onnxruntime-gpu[cuda,cudnn]==1.31.1"], "1.26.0"),
        ("torch 2.9.1+cu126\n" + ORT.format("libcublasLt.so.13"), ["onnxruntime-gpu[cuda,cudnn]==1.26.0"], "1.31.1"),
        ("torch 2.9.1+cu128\n" + ORT.format("libcublasLt.so.11"), ["onnxruntime-gpu[cuda,cudnn]==1.26.0"], "1.31.1"),
        (ORT.format("libcublasLt.so.11"), ["==1.31.1", "==1.26.0", "torch.version.cuda", "driver 580"], "uninstall"),
        ("torch 2.13.0+cu130\n" + CUPY.format("libnvrtc.so.12"), ["-y cupy-cuda12x", "cupy-cuda13x["], "nv"),
        ("torch 2.9.1+cu128\n" + CUPY.format("libnvrtc.so.12"), ["cupy-cuda12x[ctk]"], "uninstall"),
        ("torch 2.13.0+cu130\n" + CT2.format("libcublas.so.12"), ["nvidia-cublas-cu12"], "nvidia-cudnn-cu12"),
        (CT2.format("libcublas.so.12"), ["nvidia-cublas-cu12", "nvidia-cudnn-cu12==9"], "ctranslate2=="),
        (CT2.format("libcublas.so.11"), ["ctranslate2==4.8.5", "nvidia-cublas-cu12"], "cu11"),
    ],
)  # fmt: skip
def test_a_missing_library_is_mended_with_the_release_for_the_cuda_that_is_here(
    text: str, wanted: list[str], wrong: str
) -> None:
    fix = first(GPU + text).fixes[0].title
    assert all(word in fix for word in wanted) and wrong not in fix


def test_a_driver_before_cuda_13_gets_no_build_for_it() -> None:
    fix = first("RTX 2080 Ti, driver 550.54.14\n" + ORT.format("libcublas.so.11")).fixes[0].title
    assert "onnxruntime-gpu[cuda,cudnn]==1.26.0" in fix and "1.31.1" not in fix


def test_an_amd_gpu_gets_the_build_for_amd() -> None:
    fix = first("AMD Radeon RX 6800 XT, torch 2.9.1+rocm6.4\n" + ORT.format("libcublasLt.so.12")).fixes[0].title
    assert "uninstall -y onnxruntime-gpu" in fix and "onnxruntime-migraphx==" in fix


def test_an_old_python_gets_the_last_release_for_it() -> None:
    text = "RTX 4090, driver 580.95.05, Python 3.10\ntorch 2.9.1+cu128\n"
    assert "onnxruntime-gpu[cuda,cudnn]==1.23.2" in first(text + ORT.format("libcublasLt.so.11")).fixes[0].title


@pytest.mark.parametrize(
    ("text", "slug", "torch"),
    [
        (
            "I run vllm 0.11.0 with torch 2.9.1+cu128\n" + SYMBOL.format("vllm/_C"),
            "vllm-torch-abi",
            "with torch 2.8.0+cu128",
        ),
        (
            "torch 2.11.0+cu130\n# sglang version: v0.5.9\n" + SYMBOL.format("sgl_kernel/common_ops"),
            "sglang-torch-mismatch",
            "with torch 2.9.1+cu12",  # as the kernels of the package index are
        ),
    ],
)
def test_a_version_in_a_sentence_counts_where_a_message_is_about_that_package(
    text: str, slug: str, torch: str
) -> None:
    finding = first(GPU + text)
    assert finding.slug == slug and torch in finding.fixes[0].title


@pytest.mark.parametrize(
    "told",
    [
        "vllm 0.11.0 fails and vllm 0.9.2 does not",
        "it worked with vllm 0.11.0",
        "pip install vllm 0.11.0",
        "should I update to vllm 0.11.0?",
    ],
)
def test_a_version_that_may_be_another_does_not_count(told: str) -> None:
    finding = first(f"{GPU}torch 2.9.1+cu128\n{told}\n{SYMBOL.format('vllm/_C')}")
    assert finding.slug == "vllm-torch-abi" and finding.subject.startswith("text, line ")


def test_a_version_in_a_sentence_is_no_fault_without_a_message() -> None:
    assert problems(f"{GPU}I run vllm 0.11.0 with torch 2.9.1+cu128\nIs CUDA available: True") == []


@pytest.mark.parametrize(
    ("text", "slug", "word"),
    [
        (
            "W tensorflow/compiler/mlir/tools/kernel_gen/tf_gpu_runtime_wrappers.cc:40] "
            "'cuModuleLoadData(&module, data)' failed with 'CUDA_ERROR_INVALID_PTX'",
            "torch-no-arch-for-gpu",
            "nvcr.io/nvidia/tensorflow",
        ),
        ("RuntimeError: CUDA error: cuModuleLoadData failed: CUDA_ERROR_INVALID_PTX", "driver-too-old", "driver"),
        (
            "jaxlib/cuda/versions_helpers.cc:90: operation gpuDeviceGetAttribute(&major) failed: "
            "CUDA_ERROR_NOT_INITIALIZED",
            "jax-plugin-mismatch",
            "jax",
        ),
        (
            "numba.cuda.cudadrv.error.NvvmSupportError: No supported GPU compute capabilities found.",
            "cuda-toolkit-mismatch",
            "numba-cuda[cu12]",
        ),
        (
            "xFormers can't load C++/CUDA extensions. xFormers was built for:\n"
            "    PyTorch 2.2.0+cu121 with CUDA 1201 (you have 2.2.0+cpu)",
            "torch-cpu-only",
            "",
        ),
        (
            "transformer_engine failed to import: libcudnn_adv.so.9: cannot open shared object file",
            "framework-libraries-not-found",
            "CUDNN_HOME",
        ),
    ],
    ids=["tensorflow", "others", "jaxlib", "numba", "xformers", "transformer-engine"],
)  # fmt: skip
def test_a_frameworks_own_message_is_told_from_the_general_one(text: str, slug: str, word: str) -> None:
    finding = first(text)
    assert finding.slug == slug and word in finding.fixes[0].title


def test_on_a_machine_with_rocm_no_driver_of_nvidia_is_missed() -> None:
    text = (
        "{}vLLM: Exception happens when checking CUDA platform: NVML Shared Library Not Found\nNo platform detected\n"
    )
    assert "no-driver" in problems(text.format("")) and problems(text.format("AMD ROCm6.4.2\n")) == []


_NO_CUDART = "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("frame", "of_cupy"),
    [
        ('  File "/home/u/.local/lib/python3.10/site-packages/cupy/_core/__init__.py", line 3, in <module>', True),
        ('  File "cupy/cuda/device.pyx", line 9, in init cupy.cuda.device', True),
        ('  File "/home/u/.local/lib/python3.10/site-packages/gsplat/__init__.py", line 3, in <module>', False),
        ('  File "/home/u/cupy/train.py", line 3, in <module>', False),
    ],
)
def test_a_library_is_missed_by_the_package_whose_frame_stands_above(frame: str, of_cupy: bool):
    told = first(f"Traceback (most recent call last):\n{frame}\n    from . import core\n{_NO_CUDART}\n")
    assert ("cupy-cuda12x[ctk]" in told.fixes[0].title) == of_cupy


_NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
_NO_NVRTC = "OSError: libnvrtc.so.12: cannot open shared object file: No such file or directory"
_NOT_BUILT = "AttributeError: module 'faiss' has no attribute 'StandardGpuResources'"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("PaddleOCR on my RTX 5080\n" + _NO_KERNEL, "paddlepaddle-gpu"),
        ("PaddleOCR on my RTX 5080\ntorch 2.9.1+cu128\n" + _NO_KERNEL, ""),
        ("PaddleOCR or faiss on my RTX 5080?\n" + _NO_KERNEL, ""),
        ("My paddle steamer\n" + _NO_KERNEL, "paddlepaddle-gpu"),
        ("SGLang does not start\nsgl_kernel is imported\n" + _NO_NVRTC, "whl/cu130"),
        ('Traceback:\n  File "/v/site-packages/sgl_kernel/ops.py", line 3, in f\n' + _NO_KERNEL, "whl/cu130"),
        (
            'sgl-kernel\n  File "/v/site-packages/torch/_ops.py", line 3, in f\n' + _NO_NVRTC.replace("OS", "Import"),
            "",
        ),
        (_NOT_BUILT, "faiss-gpu"),
        ("llama-cpp-python does not use my GPU at all", "GGML_CUDA=on"),
        ("vLLM on an RTX 5090\n" + _NO_KERNEL, "vllm=="),
        ("docker run --gpus all vllm/vllm-openai:v0.8 on an RTX 5090\n" + _NO_KERNEL, ""),
        ("vllm and faiss on an RTX 5090\n" + _NO_KERNEL, ""),
        ("Faiss assertion 'err == CUBLAS_STATUS_SUCCESS' failed; details: cublas failed (13)", "faiss-gpu"),
    ],
)
def test_what_many_programs_print_is_mended_with_the_build_of_the_one_that_the_text_is_about(text: str, wanted: str):
    found = first(text).fixes[0]
    words = f"{found.title} {getattr(found.remedies[0], 'text', '')}"
    every = ("paddlepaddle-gpu", "whl/cu130", "faiss-gpu", "GGML_CUDA=on", "vllm==")
    assert [word for word in every if word in words] == ([wanted] if wanted else [])


def test_a_status_of_cublas_is_nvidias_where_nothing_names_amd() -> None:
    status = "ExternalError: Cublas error, CUBLAS_STATUS_EXECUTION_FAILED at (blas_impl.cu.h:34)"
    assert first(status).slug == "ld-library-path-shadow"
    assert first(f"AMD Radeon RX 7900 XTX\n{status}").slug == "hipblaslt-unsupported-arch"


@pytest.mark.parametrize(
    ("path", "of_toolkit"),
    [("/usr/local/cuda-9.0/nvvm/lib64/libnvvm.so", True), ("libnuma.so.1", False), ("/v/lib/libnuma.so.1", False)],
)
def test_a_library_of_a_toolkits_folder_is_no_fault_of_torch(path: str, of_toolkit: bool) -> None:
    found = judgement(f"OSError: {path}: cannot open shared object file: No such file or directory").findings
    assert [one.slug for one in found if "CUDA_HOME" in str(one.fixes)] == ["cuda-toolkit-missing"] * of_toolkit


@pytest.mark.parametrize(
    ("text", "for_amd"),
    [
        ("docker run --gpus=all ollama/ollama:0.4.0-rocm does not use my A100", True),
        ("docker run --gpus all rocm/pytorch finds no GPU, it is an NVIDIA A100", True),
        ("docker run --gpus=all ollama/ollama:0.4.0 does not use my A100", False),
        ("docker run --device /dev/kfd ollama/ollama:rocm does not use my Radeon RX 7900 XTX, nor NVIDIA's", False),
        ("I moved from ollama/ollama:rocm to a new box with --gpus=all, and the A100 works", False),
    ],
)
def test_an_image_for_amd_finds_no_gpu_of_nvidia(text: str, for_amd: bool) -> None:
    told = [one for one in judgement(text).findings if "image for CUDA" in str(one.fixes)]
    assert [one.slug for one in told] == ["program-on-cpu"] * for_amd


def test_a_text_is_not_about_what_its_commands_bring_along() -> None:
    told = first("pip install cuml-cu12\npip uninstall -y cupy-cuda11x\nimport cuml fails:\n" + _NO_NVRTC)
    assert "Install all of RAPIDS" in str(told.fixes[0].remedies)


@pytest.mark.parametrize(
    ("text", "slugs"),
    [
        ("NVIDIA B200, driver 580.95.05\nonnxruntime-gpu==1.29.0\n", ["ext-built-without-gpu-arch"]),
        ("RTX 5090 with driver 580.95.05. I use onnxruntime-gpu 1.23.0.\n", ["ext-built-without-gpu-arch"]),
        ("RTX 5090 with driver 580.95.05. I use onnxruntime-gpu 1.18.0.\n", ["ext-built-without-gpu-arch"]),
        ("RTX 4090 with driver 580.95.05. I use onnxruntime-gpu 1.18.0.\n", []),
        ("RTX 3060 with driver 580.95.05. I use ctranslate2 3.24.0.\n", []),
        ("NVIDIA B200, driver 580.95.05\nonnxruntime-gpu==1.28.0\n", []),
        ("RTX 3090 with driver 580.95.05. I use onnxruntime-gpu 1.23.0.\n", []),
        ("RTX 5090 with driver 580.95.05. I upgraded from onnxruntime-gpu 1.23.0.\n", []),
    ],
)
def test_a_framework_that_a_text_names_is_judged_by_the_code_of_its_release(text: str, slugs: list[str]) -> None:
    assert problems(text) == slugs


def test_a_text_about_another_framework_is_not_asked_for_torch() -> None:
    assert not judgement("RTX 3090, driver 580.95.05\nonnxruntime-gpu==1.28.0\n").not_judged
    assert judgement("RTX 3090, driver 580.95.05\nonnxruntime==1.28.0\n").not_judged


def test_a_message_whose_cause_another_message_names_comes_after_it() -> None:
    effect = (
        "WARNING:2025-07-08 12:39:34,994 jax._src.xla_bridge:794] An NVIDIA GPU may be present on this machine, but "
        "a CUDA-enabled jaxlib is not installed. Falling back to cpu.\n"
    )
    cause = "RuntimeError: Unable to load cuSPARSE. Is it installed?\n"
    assert problems(effect)[0] == "framework-cpu-only"
    assert problems(cause + effect)[0] == problems(effect + cause)[0] == "framework-cuda-libs-missing"


def test_a_report_of_jax_that_lists_the_cpu_is_a_fault_beside_an_nvidia_gpu_only() -> None:
    report = "jax:    0.4.38\npython: 3.12.8\ndevice info: cpu-1, 1 local devices\n"
    table = "| NVIDIA-SMI 550.144.03   Driver Version: 550.144.03   CUDA Version: 12.4 |\n"
    assert problems(report + table) == ["framework-cpu-only"]
    assert problems(report) == problems(f"JAX_PLATFORMS=cpu\n{report}{table}") == []
    assert problems(report.replace("cpu-1", "NVIDIA A100-1") + table) == []


def test_what_no_torch_printed_makes_no_torch() -> None:
    failed = "cudaGetDeviceCount returned 35\n-> CUDA driver version is insufficient for CUDA runtime version\n"
    assert machine(failed).torch is None
    of_torch = "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804\n"
    assert machine(of_torch).torch is not None


def test_memory_that_ran_out_under_nccl_is_no_fault_of_the_driver() -> None:
    unhandled = "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
    assert problems(f"{unhandled}Cuda failure 'out of memory'\n") == []
    assert problems(f"{unhandled}Cuda failure 'invalid device function'\n") != []


def test_a_gpu_that_paddle_does_not_see_has_the_driver_that_the_text_names() -> None:
    message = "UserWarning: You are using GPU version Paddle, but your CUDA device is not set properly.\n"
    found = judgement(f"Tesla P40, driver 440.33.01\n{message}").findings[0]
    assert found.slug == "driver-too-old"
    assert any(isinstance(remedy, InstallDriver) for remedy in found.fixes[0].remedies)
    # Near misses: a driver that runs such builds, and none that is named.
    assert judgement(f"RTX 3060, driver 550.54.14\n{message}").findings[0].slug == "no-driver"
    assert judgement(message).findings[0].slug == "no-driver"


NO_CUDA_IN_JAX = "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. "


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ("jax==0.4.38, RTX 3060, driver 550.54.14", "0.4.38"),
        ("jax==0.4.38", "0.4.38"),
        ("jax==0.7.2, RTX 3060, driver 550.54.14", "0.7.2"),
    ],
)
def test_the_plugin_of_jax_is_of_the_release_that_is_told(said: str, release: str) -> None:
    found = judgement(f"{said}\n{NO_CUDA_IN_JAX}\n").findings[0]
    assert found.slug == "framework-cpu-only"
    assert f"=={release}" in str(found.fixes[0]) and "0.12" not in str(found.fixes[0])


def test_a_jax_that_only_is_named_is_no_build_for_the_cpu() -> None:
    assert problems("jax==0.4.38 on my RTX 3060, driver 550.54.14: the loss is nan in the second epoch.\n") == []
