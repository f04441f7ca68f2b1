"""Frameworks beside torch in Dockerfiles: which build a line installs, and whether the image has what it needs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from gpudoctor.dockerfile.compose import read_compose
from gpudoctor.dockerfile.frameworks import frameworks_of
from tests.support.check_cases import matrix
from tests.test_dockerfile import findings, image_of, lines, told

BASE_TORCH = "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel\n"
CUDA12 = "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu24.04\nENV PIP_BREAK_SYSTEM_PACKAGES=1\n"
CUDA11 = "FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04\n"
ROCM = "FROM rocm/dev-ubuntu-22.04:6.4-complete\n"
SLIM = "FROM python:3.12-slim\n"

MISSING, VENDOR = "image-framework-libraries-missing", "image-framework-other-vendor"
FAULTY = {
    "onnxruntime-gpu without any CUDA": (SLIM + "RUN pip install onnxruntime-gpu==1.31.1", MISSING, "error"),
    "onnxruntime-gpu that is too new": (CUDA12 + "RUN pip install onnxruntime-gpu", MISSING, "warning"),
    "onnxruntime-gpu beside a torch of another CUDA": (
        SLIM + "RUN pip install torch==2.6.0\nRUN pip install onnxruntime-gpu==1.31.1", MISSING, "warning",
    ),
    "TensorFlow for another CUDA": (CUDA11 + "RUN pip install tensorflow==2.18.0", MISSING, "error"),
    "TensorFlow without cuDNN": (
        "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN pip install tensorflow==2.18.0", MISSING, "error",
    ),
    "CuPy for another CUDA": (CUDA11 + "RUN pip install cupy-cuda12x==13.6.0", MISSING, "error"),
    "JAX for the CUDA of the image": (CUDA12 + "RUN pip install 'jax[cuda13-local]'", MISSING, "warning"),
    "CTranslate2 in an image of CUDA 11": (CUDA11 + "RUN pip install ctranslate2 faster-whisper", MISSING, "warning"),
    "JAX for CUDA in an image for ROCm": (ROCM + "RUN pip install 'jax[cuda12]'", VENDOR, "error"),
    "CuPy for CUDA in an image for ROCm": (ROCM + "RUN pip install cupy-cuda12x", VENDOR, "error"),
    "ONNX Runtime for AMD in an image for CUDA": (CUDA12 + "RUN pip install onnxruntime-migraphx", VENDOR, "error"),
    "both ONNX Runtimes in one command": (
        SLIM + "RUN pip install onnxruntime 'onnxruntime-gpu[cuda,cudnn]'", "image-packages-overwrite", "warning",
    ),
    "the CPU's ONNX Runtime last": (
        SLIM + "RUN pip install 'onnxruntime-gpu[cuda,cudnn]' && pip install onnxruntime",
        "image-packages-overwrite", "error",
    ),
    "JAX for CPUs in an image for CUDA": (CUDA12 + "RUN pip install jax flax", "image-framework-cpu-only", "warning"),
    "vLLM beside another torch": (
        SLIM + "RUN pip install torch==2.6.0 vllm==0.11.2", "image-package-requires-other-torch", "error",
    ),
    "torchvision that is newer than torch": (
        SLIM + "RUN pip install torch==2.6.0\nRUN pip install torchvision",
        "image-package-requires-other-torch", "warning",
    ),
    "torchvision of another torch": (
        SLIM + "RUN pip install torch==2.6.0\nRUN pip install torchvision==0.20.1",
        "image-package-requires-other-torch", "warning",
    ),
    "torchvision of another torch in one command": (
        SLIM + "RUN pip install torch==2.6.0 torchvision==0.20.1", "image-package-requires-other-torch", "error",
    ),
    "torchaudio of another torch in one command": (
        SLIM + "RUN pip install torch==2.6.0 torchaudio==2.5.1", "image-package-requires-other-torch", "error",
    ),
    "vLLM over the torch of the base image": (
        "FROM pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime\nRUN pip install vllm==0.11.0",
        "image-package-requires-other-torch", "warning",
    ),
    "torchvision over the torch of the base image": (
        BASE_TORCH + "RUN pip install torchvision==0.20.0", "image-package-requires-other-torch", "warning",
    ),
    "vLLM of the package index in an image for ROCm": (
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN apt-get install -y python3-pip && pip install vllm",
        "image-torch-other-vendor", "error",
    ),
    "xformers that replaces torch": (
        SLIM + "RUN pip install torch==2.9.1\nRUN pip install xformers==0.0.29.post3",
        "image-package-requires-other-torch", "warning",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTY)
def test_each_fault_is_told_alone(case: str):
    text, slug, severity = FAULTY[case]
    assert told(text) == [(slug, severity)]


HEALTHY = {
    "onnxruntime-gpu of the image's CUDA": CUDA12 + "RUN pip install onnxruntime-gpu==1.22.0",
    "a Python too old for the newest": "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\n"
    "RUN pip install onnxruntime-gpu",
    "libraries by an extra": SLIM + "RUN pip install 'onnxruntime-gpu[cuda,cudnn]'",
    "libraries of torch": SLIM + "RUN pip install torch onnxruntime-gpu",
    "libraries of wheels": SLIM + "RUN pip install onnxruntime-gpu nvidia-cublas-cu12 nvidia-cudnn-cu12",
    "libraries by apt": SLIM + "RUN apt-get install -y libcudnn9-cuda-12\nRUN pip install onnxruntime-gpu",
    "libraries of another stage": "FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 AS cuda\n" + SLIM
    + "COPY --from=cuda /usr/local/cuda /usr/local/cuda\nRUN pip install onnxruntime-gpu",
    "a file that is not there": SLIM + "RUN pip install onnxruntime-gpu\nRUN pip install -r requirements.txt",
    "the other package removed": SLIM + "RUN pip install onnxruntime\n"
    "RUN pip uninstall -y onnxruntime && pip install 'onnxruntime-gpu[cuda,cudnn]'",
    "the GPU's package last": SLIM + "RUN pip install onnxruntime\nRUN pip install 'onnxruntime-gpu[cuda,cudnn]'",
    "two environments": SLIM + "RUN /a/bin/pip install 'onnxruntime-gpu[cuda,cudnn]'\n"
    "RUN /b/bin/pip install onnxruntime",
    "ONNX Runtime for CPUs beside torch": CUDA12 + "RUN pip install torch==2.6.0 onnxruntime",
    "TensorFlow for CPUs": SLIM + "RUN pip install tensorflow",
    "TensorFlow with its CUDA": CUDA11 + "RUN pip install 'tensorflow[and-cuda]==2.18.0'",
    "TensorFlow of the image's CUDA": CUDA11 + "RUN pip install tensorflow==2.14.0",
    "CuPy of the image's CUDA": CUDA12 + "RUN pip install cupy-cuda12x",
    "old CTranslate2 in an image of CUDA 11": CUDA11 + "RUN pip install ctranslate2==3.24.0",
    "JAX with CUDA": CUDA12 + "RUN pip install -U 'jax[cuda12]' flax",
    "JAX beside torch": CUDA12 + "RUN pip install torch==2.6.0\nRUN pip install jax",
    "old JAX": CUDA11 + "RUN pip install 'jax[cuda11_pip]==0.4.13' -f https://example.com/jax.html",
    "old JAX whose jaxlib names its CUDA": "FROM nvidia/cuda:11.8.0-cudnn8-devel-ubuntu20.04\n"
    "RUN pip install jax jaxlib==0.1.64+cuda110",
    "old JAX from a page of builds": CUDA11 + "RUN pip install jax jaxlib -f https://example.com/jax.html",
    "TensorRT by its own name": CUDA12 + "RUN pip install tensorrt==10.12.0.36",
    "llama-cpp-python that is compiled": CUDA12 + "RUN CMAKE_ARGS=-DGGML_CUDA=on pip install llama-cpp-python",
    "vLLM's own torch": SLIM + "RUN pip install torch==2.9.0 vllm==0.11.2",
    "torchvision of the same torch": SLIM + "RUN pip install torch==2.6.0\nRUN pip install torchvision==0.21.0",
    "torchvision and torch in one command": SLIM + "RUN pip install torch==2.6.0 torchvision",
    "torchvision that is there": SLIM + "RUN pip install torch==2.6.0 torchvision\nRUN pip install torchvision",
    "torchvision of the base image": "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\n"
    "RUN pip install torchvision",
    "torchvision that a file may have brought": SLIM + "RUN pip install torch==2.6.0\n"
    "RUN pip install -r requirements.txt\nRUN pip install torchvision",
    "torchvision without its requirements": SLIM + "RUN pip install torch==2.6.0\n"
    "RUN pip install --no-deps torchvision",
    "torchaudio, which requires no torch": SLIM + "RUN pip install torch==2.13.0\nRUN pip install torchaudio",
    "torchvision under a constraint": SLIM + "ENV PIP_CONSTRAINT=/c.txt\nRUN pip install torch==2.6.0\n"
    "RUN pip install torchvision",
    "vLLM without its requirements": SLIM + "RUN pip install torch==2.6.0\nRUN pip install --no-deps vllm==0.11.2",
    "vLLM for the torch of the base image": BASE_TORCH + "RUN pip install vllm==0.8.5",
    "torchvision of the base image's torch": BASE_TORCH + "RUN pip install torchvision==0.21.0",
    "vLLM beside the torch of the base image": BASE_TORCH
    + "RUN python -m venv /venv && /venv/bin/pip install vllm==0.11.2",
    "an image that is not known": "FROM example.com/team/base:1\nRUN pip install onnxruntime-gpu jax cupy-cuda12x",
}  # fmt: skip


@pytest.mark.parametrize("case", HEALTHY)
def test_good_images_are_silent(case: str):
    assert [one for one in told(HEALTHY[case]) if one[1] != "note"] == []


def test_the_companion_of_the_pinned_torch_is_proposed():
    index = "--index-url https://download.pytorch.org/whl/cu126"
    (finding,) = findings(SLIM + f"RUN pip install {index} torch==2.7.1\nRUN pip install torchvision")
    assert "requires torch >=2.14.0" in finding.message
    assert lines(finding) == f"Dockerfile:3: RUN pip install {index} torchvision==0.22.1"
    (finding,) = findings(SLIM + "RUN pip install torch==2.6.0 torchvision==0.20.1")
    assert lines(finding) == "Dockerfile:2: RUN pip install torch==2.6.0 torchvision==0.21.0"


def test_torchvision_replaces_the_torch_of_an_index_by_that_of_the_package_index():
    rocm = "--index-url https://download.pytorch.org/whl/rocm6.4"
    text = "FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install " + rocm + " torch==2.8.0\nRUN pip install torchvision{}"
    assert ("image-torch-other-vendor", "error") in told(text.format(""))
    assert told(text.format(" " + rocm)) == [("image-package-requires-other-torch", "warning")]
    assert told(text.format("==0.23.0 " + rocm)) == []


def test_the_release_for_the_images_cuda_is_proposed_first():
    (finding,) = findings(CUDA12 + "RUN pip install onnxruntime-gpu")
    assert lines(finding) == "Dockerfile:3: RUN pip install onnxruntime-gpu==1.26.0"


def test_what_finds_its_libraries_itself_is_given_its_extra():
    (finding,) = findings("FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04\nRUN uv pip install tensorflow==2.18.0")
    assert lines(finding) == "Dockerfile:2: RUN uv pip install 'tensorflow[and-cuda]==2.18.0'"


@pytest.mark.parametrize(
    "text, build, version",
    [
        ("FROM python:3.12\nRUN pip install jax[cuda12]", "jax-cuda12-plugin", "0.12.0.1"),
        ("FROM python:3.12\nRUN pip install jax jax-cuda13-plugin==0.8.0", "jax-cuda13-plugin", "0.12.0.1"),
        ("FROM python:3.12\nRUN pip install 'onnxruntime-gpu<1.27'", "onnxruntime-gpu", "1.26.0"),
        ("FROM python:3.12\nRUN pip install tensorflow", "tensorflow", "2.21.0"),
        ("FROM python:3.10\nRUN pip install onnxruntime-gpu", "onnxruntime-gpu", "1.23.2"),
    ],
)
def test_the_build_that_a_line_installs(text: str, build: str | None, version: str):
    (one,) = frameworks_of(image_of(text), matrix())
    assert (one.build.package if one.build else None, one.version) == (build, version)


def run(tmp_path: Path, text: str, *words: str) -> list[dict[str, object]]:
    (tmp_path / "Dockerfile").write_text(text)
    result = CliRunner().invoke(dockerfile, [str(tmp_path / "Dockerfile"), *words, "--format", "json"])
    found: list[dict[str, object]] = json.loads(result.output)["findings"]
    return [one for one in found if one["severity"] != "note"]


def test_a_framework_is_judged_on_the_described_gpu(tmp_path: Path):
    old = ("--gpu", "RTX 4090", "--driver", "550.54.15")
    (one,) = run(tmp_path, SLIM + "RUN pip install 'jax[cuda13]'", *old)
    assert (one["slug"], one["framework"]) == ("driver-too-old", "jax")
    assert run(tmp_path, SLIM + "RUN pip install 'jax[cuda12]'", *old) == []
    (one,) = run(tmp_path, SLIM + "RUN pip install 'jax[cuda12]'", "--gpu", "MI300X")
    assert one["slug"] == "framework-other-vendor"


def test_the_torch_that_vllm_brings_is_judged_on_the_described_gpu(tmp_path: Path):
    text = SLIM + "RUN pip install torch==2.5.1 --index-url https://download.pytorch.org/whl/cu118\n"
    assert run(tmp_path, text, "--gpu", "RTX 5090")[0]["slug"] == "torch-no-arch-for-gpu"
    found = run(tmp_path, text + "RUN pip install vllm==0.11.2", "--gpu", "RTX 5090", "--driver", "580.82.07")
    assert [one["slug"] for one in found] == ["image-package-requires-other-torch"]


def test_a_torch_of_the_base_image_is_changed_by_another_base_image(tmp_path: Path):
    text = "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install transformers"
    (one,) = run(tmp_path, text, "--gpu", "RTX 5090", "--driver", "580.82.07")
    assert ":1: FROM an image with torch 2." in json.dumps(one["fixes"])


def test_the_torch_of_amds_images_is_no_wheel_that_is_missing(tmp_path: Path):
    text = "FROM rocm/pytorch:rocm7.2_ubuntu24.04_py3.12_pytorch_release_2.7.1\n"
    assert run(tmp_path, text, "--gpu", "MI300X") == []


def test_two_findings_do_not_propose_two_indexes_for_a_described_gpu(tmp_path: Path):
    text = SLIM + "RUN pip install torch --extra-index-url https://download.pytorch.org/whl/cu118"
    assert [one["slug"] for one in run(tmp_path, text)] == ["image-torch-without-index"]
    found = run(tmp_path, text, "--gpu", "RTX 5090", "--driver", "570.133.07")
    assert [one["slug"] for one in found] == ["driver-too-old"]


@pytest.mark.parametrize(
    "reservation, vendors",
    [
        ("{driver: nvidia, count: all, capabilities: [gpu]}", "nvidia"),
        ("{driver: rocm, count: all, capabilities: [gpu, video]}", "amd"),
        ("{driver: cdi, device_ids: ['amd.com/gpu=all'], capabilities: [gpu]}", "amd"),
        ("{driver: cdi, device_ids: ['nvidia.com/gpu=0']}", "nvidia"),
        ("{capabilities: [gpu]}", "nvidia amd"),
        ("{capabilities: [tpu]}", ""),
    ],
)
def test_a_reservation_is_for_the_vendor_that_it_names(reservation: str, vendors: str):
    text = (
        f"services:\n  a:\n    image: x\n    deploy: {{resources: {{reservations: {{devices: [{reservation}]}}}}}}\n"
    )
    (service,) = read_compose("compose.yaml", text)
    assert [name for name in ("nvidia", "amd") if getattr(service, name)] == vendors.split()


def test_a_service_of_an_image_for_amd_needs_its_devices(tmp_path: Path):
    file = tmp_path / "compose.yaml"
    for image, slugs in (("ollama/ollama:rocm", ["compose-no-device"]), ("ollama/ollama:latest", [])):
        file.write_text(f"services:\n  a: {{image: '{image}'}}\n")
        result = CliRunner().invoke(dockerfile, [str(file), "--format", "json"])
        assert [one["slug"] for one in json.loads(result.output)["findings"]] == slugs


@pytest.mark.parametrize(
    ("base", "command", "line"),
    [
        (BASE_TORCH, "pip install xformers==0.0.28", "2: RUN pip install xformers==0.0.29.post3"),
        (BASE_TORCH, "pip install torchvision==0.20.0", "2: RUN pip install torchvision==0.21.0"),
        (
            "FROM rocm/dev-ubuntu-22.04:6.4-complete\n",
            "pip install vllm==0.11.0",
            "2: leave out vllm, or install it from a source that has it for ROCm",
        ),
    ],
)
def test_a_package_is_one_for_the_torch_of_the_base_image(base: str, command: str, line: str):
    (one,) = findings(f"{base}RUN {command}")
    assert lines(one) == f"Dockerfile:{line}"


@pytest.mark.parametrize(
    ("base", "package", "image"),
    [
        ("python:3.12-slim", "1.20.1", "CUDA 12 and cuDNN 9, such as nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04"),
        (
            "nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
            "1.16.3",
            "CUDA 11, such as nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu20.04",
        ),
    ],
)
def test_a_base_image_with_the_libraries_is_named(base: str, package: str, image: str):
    (one,) = findings(f"FROM {base}\nRUN pip install onnxruntime-gpu=={package}")
    texts = [remedy.text for fix in one.fixes for remedy in fix.remedies]  # type: ignore[union-attr]
    assert f"Dockerfile:1: FROM an image with the libraries of {image}" in texts


@pytest.mark.parametrize(
    ("base", "package", "fix"),
    [
        ("rocm/pytorch:latest", "jax[rocm61]", "jax[rocm7-local]"),
        ("python:3.12-slim", "jax[cuda12_pip]", "ask for jax[cuda] or jax[cuda12]"),
        ("nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04", "jax[gpu]", "ask for jax[cuda]"),
        ("python:3.11-slim", "jax[cuda13]==0.6.2", "ask for jax[cuda] or jax[cuda12]"),
        ("python:3.12-slim", "jax[rocm]==0.12.0.1", "jax[rocm7-local]==0.12.0.1"),
        ("python:3.12-slim", "tensorflow[gpu]", "tensorflow[and-cuda]"),
        ("python:3.11-slim", "tensorflow[and-cuda]==2.13.1", "take a release of tensorflow with GPU support"),
    ],
)
def test_an_extra_that_the_release_does_not_have_brings_no_gpu(base: str, package: str, fix: str):
    found = findings(f"FROM {base}\nRUN pip install '{package}'")
    (one,) = [one for one in found if one.slug == "image-framework-cpu-only"]
    assert one.severity == "warning" and "has no extra" in one.message
    assert fix in lines(one)


@pytest.mark.parametrize(
    ("base", "package"),
    [
        ("python:3.12-slim", "jax[cuda12]"),
        ("python:3.12-slim", "jax[cuda13-local,k8s]"),
        ("python:3.12-slim", "jax[cuda12,rocm61]"),
        ("python:3.9-slim", "jax[cuda12_pip]"),  # its newest release for this Python may have it
        ("python:3.10-slim", "jax[cuda12_pip]==0.4.30"),
        ("python:3.10-slim", "jax[rocm]==0.6.2"),
        ("python:3.12-slim", "tensorflow[and-cuda]"),
        ("nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04", "tensorflow[gpu]"),
    ],
)
def test_an_extra_that_the_release_has_is_silent(base: str, package: str):
    found = findings(f"FROM {base}\nRUN pip install '{package}'")
    assert "has no extra" not in " ".join(one.message for one in found)


def test_the_release_for_an_old_python_counts():
    text = "FROM nvidia/cuda:11.8.0-{}runtime-ubuntu20.04\nRUN pip install tensorflow numpy"
    (one,) = [one for one in findings(text.format("")) if one.slug == "image-framework-libraries-missing"]
    assert one.severity == "warning" and "TensorFlow 2.13.1 needs cuDNN 8" in one.message
    assert lines(one).startswith("Dockerfile:1: FROM an image with cuDNN 8")
    assert findings(text.format("cudnn8-")) == []


RUNTIME = "pip install onnxruntime-gpu==1.20.1"
BUILDER = "FROM nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04 AS b\nRUN python3 -m venv /opt/venv\n"
COPIED = {
    "the packages of an environment": f"{BUILDER}RUN /opt/venv/bin/{RUNTIME}\nFROM python:3.11-slim\n"
    "COPY --from=b /opt/venv/lib/python3.11/site-packages /usr/local/lib/python3.11/site-packages\n",
    "an environment": f"FROM python:3.11 AS b\nRUN python -m venv /opt/venv && /opt/venv/bin/{RUNTIME}\n"
    "FROM python:3.11-slim\nCOPY --from=b /opt/venv /opt/venv\n",
    "uv": f"FROM python:3.11-slim\nCOPY --from=ghcr.io/astral-sh/uv:0.8 /uv /uvx /bin/\nRUN uv {RUNTIME} --system\n",
    "one program": f"FROM python:3.11-slim\nCOPY --from=ghcr.io/astral-sh/uv /uv /usr/local/bin/uv\nRUN {RUNTIME}\n",
    "the pages of its interface": f"FROM node:20 AS web\nRUN npm run build\nFROM python:3.11-slim\nRUN {RUNTIME}\n"
    "COPY --from=web /src/dist ./dist\n",
}
WITH_LIBRARIES = {
    "the libraries of CUDA": f"FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 AS c\nFROM python:3.11-slim\n"
    f"COPY --from=c /usr/local/cuda /usr/local/cuda\nRUN {RUNTIME}\n",
    "some libraries": f"FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 AS c\nFROM python:3.11-slim\n"
    f"COPY --from=c /usr/local/cuda/lib64/*.so* /usr/local/lib/\nRUN {RUNTIME}\n",
    "a folder with an environment": f"FROM python:3.11 AS b\nRUN fetch /app\nFROM python:3.11-slim\nRUN {RUNTIME}\n"
    "COPY --from=b /app /app\n",
    "everything": f"FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 AS c\nFROM python:3.11-slim\n"
    f"COPY --from=c / /\nRUN {RUNTIME}\n",
    "an environment with the wheels of CUDA": f"FROM python:3.11 AS b\nRUN python -m venv /v && /v/bin/{RUNTIME} "
    "nvidia-cublas-cu12 nvidia-cudnn-cu12\nFROM python:3.11-slim\nCOPY --from=b /v /v\n",
}


@pytest.mark.parametrize("name", COPIED)
def test_what_is_copied_from_a_stage_brings_no_libraries(name: str):
    (found,) = [one for one in findings(COPIED[name]) if one.slug == "image-framework-libraries-missing"]
    assert "python:3.11-slim has no CUDA" in found.message


@pytest.mark.parametrize("name", WITH_LIBRARIES)
def test_what_may_hold_libraries_keeps_the_check_silent(name: str):
    assert [one for one in findings(WITH_LIBRARIES[name]) if one.slug == "image-framework-libraries-missing"] == []


ALPINE = "FROM python:3.12-alpine\nRUN "


@pytest.mark.parametrize(
    ("command", "told_"),
    [
        ("pip install onnxruntime-gpu", True),
        ("uv pip install --system 'jax[cuda12]'", True),
        ("pip install cupy-cuda12x==13.6.0", True),
        ("pip install onnxruntime", False),
        ("pip install requests", False),
        ('if [ -n "$GPU" ]; then pip install onnxruntime-gpu; fi', False),
    ],
)
def test_no_gpu_build_has_a_wheel_for_musl(command: str, told_: bool):
    found = findings(ALPINE + command)
    assert [one.slug for one in found] == ["image-no-torch-wheel"] * told_
    assert not told_ or lines(found[0]) == "Dockerfile:1: FROM python:3.12-slim"
