"""A torch for CPUs in an image for GPUs, and the torch of an environment beside that of the base image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpudoctor.dockerfile.torch import torch_of
from tests.support.check_cases import matrix
from tests.test_dockerfile import findings, image_of, lines, of_compose

CPU = "https://download.pytorch.org/whl/cpu"
CUDA = "FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu22.04\n"
ROCM = "FROM rocm/dev-ubuntu-22.04:6.4\n"
TORCH = "FROM pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime\nWORKDIR /app\n"
PROJECT = (
    '[project]\nname = "app"\nversion = "1"\ndependencies = ["torch==2.7.1"]\n\n'
    '[tool.uv.sources]\ntorch = [{ index = "cpu" }]\n\n'
    f'[[tool.uv.index]]\nname = "cpu"\nurl = "{CPU}"\nexplicit = true\n'
)
SYNC = "COPY pyproject.toml .\nRUN uv sync --no-dev\n"


def on_cpu(text: str, files: dict[str, str] | None = None) -> list[str]:
    return [lines(one) for one in findings(text, files) if one.slug == "image-torch-cpu-only"]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (
            CUDA + f"RUN pip3 install torch==2.9.1 --index-url {CPU}",
            "torch==2.9.1+cu128 --index-url https://download.pytorch.org/whl/cu128",
        ),
        (
            CUDA + f"RUN pip3 install torch==2.9.1+cpu --index-url {CPU}",
            "torch==2.9.1+cu128 --index-url https://download.pytorch.org/whl/cu128",
        ),
        (CUDA + f"ENV PIP_INDEX_URL={CPU}\nRUN pip3 install torch==2.9.1", "torch==2.9.1+cu128"),
        (CUDA + "RUN uv pip install --system torch==2.9.1 --torch-backend=cpu", "torch==2.9.1+cu128"),
        (
            ROCM + f"RUN pip3 install torch==2.9.1 --index-url {CPU}",
            "torch==2.9.1+rocm6.4 --index-url https://download.pytorch.org/whl/rocm6.4",
        ),
        (
            f"FROM python:3.12-slim\nRUN pip install torch==2.8.0 --index-url {CPU}\nRUN pip install vllm==0.11.0",
            "torch==2.8.0+cu129 --index-url https://download.pytorch.org/whl/cu129",
        ),
    ],
)
def test_a_torch_for_cpus_in_an_image_for_gpus_is_told(text: str, fix: str):
    (found,) = on_cpu(text)
    assert fix in found


def test_the_torch_that_another_package_brings_comes_from_another_index():
    (found,) = on_cpu(CUDA + f"RUN pip3 install vllm==0.11.0 --extra-index-url {CPU}")
    assert found.endswith("name https://download.pytorch.org/whl/cu128 in place of the index for CPUs")


def test_a_torch_for_cpus_in_place_of_nvidias_own_is_told_once():
    text = f"FROM nvcr.io/nvidia/pytorch:25.06-py3\nRUN pip install torch==2.7.1 --index-url {CPU} --force-reinstall"
    assert [one.slug for one in findings(text)] == ["image-torch-replaced"]


@pytest.mark.parametrize("base", [CUDA, TORCH])
def test_the_sources_of_a_project_name_the_index_for_cpus(base: str):
    (found,) = on_cpu(base + SYNC, {"pyproject.toml": PROJECT})
    assert "from https://download.pytorch.org/whl/cu128 in pyproject.toml" in found
    assert "in place of its sources of torch" in found


@pytest.mark.parametrize(
    "text",
    [
        f"FROM python:3.12-slim\nRUN pip install torch==2.9.1 --index-url {CPU}",
        f"FROM python:3.12-slim\nRUN pip install torch==2.8.0 accelerate --index-url {CPU}",
        CUDA + "RUN pip3 install torch==2.9.1",
        CUDA + f"ARG INDEX={CPU}\nRUN pip3 install torch==2.9.1 --index-url $INDEX",
        CUDA.replace("\n", " AS serve-cpu\n") + f"RUN pip3 install torch==2.9.1 --index-url {CPU}",
        CUDA + f"RUN pip3 install 'jax[cuda12]' && pip3 install torch==2.9.1 --index-url {CPU}",
        CUDA + f"RUN CMAKE_ARGS=-DGGML_CUDA=on pip3 install llama-cpp-python && pip3 install torch --index-url {CPU}",
        CUDA + f"RUN pip3 install tensorrt && pip3 install torch==2.9.1 --index-url {CPU}",
        CUDA.replace("\n", " AS docs\n") + f"RUN pip3 install torch==2.9.1 sphinx --index-url {CPU}",
        CUDA.replace("\n", " AS run-tests\n") + f"RUN pip3 install torch==2.9.1 --index-url {CPU}",
        CUDA + f"RUN pip3 install torch==2.9.1 --index-url {CPU} && pytest && pip3 uninstall -y torch",
        CUDA + f'ARG CPU=0\nRUN if [ "$CPU" = 1 ]; then pip3 install torch --index-url {CPU}; fi',
    ],
)
def test_a_torch_for_cpus_that_is_meant_is_fine(text: str):
    assert on_cpu(text) == []


def test_the_torch_that_is_installed_after_a_removal_counts():
    removed = CUDA + f"RUN pip3 install torch==2.9.1 --index-url {CPU}\nRUN pip3 uninstall -y torch\n"
    assert torch_of(image_of(removed), matrix()) is None
    again = torch_of(
        image_of(removed + f"RUN pip3 install torch==2.9.1 --index-url {CPU}8".replace("cpu8", "cu128")), matrix()
    )
    assert again is not None and again.build == "cu128"
    (found,) = on_cpu(CUDA + f"RUN pip3 uninstall -y torch && pip3 install torch==2.9.1 --index-url {CPU}")
    assert "torch==2.9.1+cu128" in found


APART = {
    "uv sync": SYNC,
    "uv venv": f"RUN uv venv /v && VIRTUAL_ENV=/v uv pip install torch==2.7.1 --index-url {CPU}\n",
    "venv": f"RUN python -m venv /opt/venv && /opt/venv/bin/pip install torch==2.7.1 --index-url {CPU}\n",
}
SEEN = {
    "the image's own Python": f"RUN pip install torch==2.7.1 --index-url {CPU}\n",
    "of the system": "RUN uv venv --system-site-packages\n" + SYNC,
    "by a file": "RUN uv venv && echo /opt/conda/lib > .venv/lib/python3.11/site-packages/a.pth\n" + SYNC,
    "the environment of the base": "ENV UV_PROJECT_ENVIRONMENT=/opt/conda\n" + SYNC,
}


@pytest.mark.parametrize("name", APART)
def test_an_environment_of_its_own_does_not_see_the_torch_of_the_base_image(name: str):
    held = torch_of(image_of(TORCH + APART[name], {"pyproject.toml": PROJECT}), matrix())
    assert held is not None and (held.version, held.build) == ("2.7.1", "cpu")


@pytest.mark.parametrize("name", SEEN)
def test_an_environment_that_sees_the_torch_of_the_base_image_keeps_it(name: str):
    held = torch_of(image_of(TORCH + SEEN[name], {"pyproject.toml": PROJECT}), matrix())
    assert held is not None and held.source == "base"


TOOLS = f"RUN python -m venv /tools && /tools/bin/pip install torch==2.5.1 --index-url {CPU}\n"


@pytest.mark.parametrize(
    ("start", "build"),
    [
        ('CMD ["python", "app.py"]', "cu128"),
        ("CMD exec python3 app.py", "cu128"),
        ('CMD ["/tools/bin/python", "app.py"]', "cpu"),
        ('ENV PATH=/tools/bin:$PATH\nCMD ["python", "app.py"]', "cpu"),
        ("CMD . /tools/bin/activate && python app.py", "cpu"),
        ('CMD ["./start.sh"]', "cpu"),
        ("", "cpu"),
    ],
)
def test_an_environment_beside_the_python_that_is_started_is_for_a_tool(start: str, build: str):
    held = torch_of(image_of(TORCH + TOOLS + start), matrix())
    assert held is not None and held.build == build


CONDA = "FROM mambaorg/micromamba:2.0.5\n"
GIVEN = "services:\n  lab:\n    build: .\n    gpus: all\n"
FORGE = "RUN micromamba install -y -n base -c conda-forge python=3.12 "
WITHOUT_CUDA = {
    "its words": (FORGE + "pytorch torchvision", "Dockerfile:2: above it: ENV CONDA_OVERRIDE_CUDA="),
    "the channel in the spec": (
        "RUN conda install -y conda-forge::pytorch=2.7",
        "Dockerfile:2: above it: ENV CONDA_OVERRIDE_CUDA=",
    ),
    "a pin of CUDA, which no driver admits": (
        FORGE + "pytorch cuda-version=12.6",
        "Dockerfile:2: above it: ENV CONDA_OVERRIDE_CUDA=",
    ),
    "a file": (
        "COPY environment.yml .\nRUN micromamba create -y -f environment.yml",
        "Dockerfile:3: above it: ENV CONDA_OVERRIDE_CUDA=",
    ),
    "another vendor's index for CPUs": (
        "RUN micromamba install -y -c conda-forge python=3.12 && pip install torch --index-url " + CPU,
        "Dockerfile:2: RUN micromamba install",
    ),
}
WITH_CUDA = {
    "told": "ENV CONDA_OVERRIDE_CUDA=12.8\n" + FORGE + "pytorch",
    "told for the command": "RUN CONDA_OVERRIDE_CUDA=12.8 micromamba install -y -c conda-forge pytorch",
    "exported": "RUN export CONDA_OVERRIDE_CUDA=12.8 && micromamba install -y -c conda-forge pytorch",
    "told by who builds the image": "ARG CONDA_OVERRIDE_CUDA\n" + FORGE + "pytorch",
    "told of a variable": "ARG CUDA\nENV CONDA_OVERRIDE_CUDA=$CUDA\n" + FORGE + "pytorch",
    "a build in brackets": FORGE + "\"pytorch[version='2.7.*', build='cuda126*']\"",
    "asked for": FORGE + "pytorch-gpu",
    "a build": FORGE + "'pytorch=2.7.0=cuda126*'",
    "the channel of PyTorch": "RUN conda install -y pytorch pytorch-cuda=12.4 -c pytorch -c nvidia",
    "no channel": "RUN conda install -y pytorch",
}


def composed(tmp_path: Path, text: str, compose: str = GIVEN, base: str = CONDA) -> list[Any]:
    (tmp_path / "Dockerfile").write_text(base + text + "\n")
    (tmp_path / "environment.yml").write_text(
        "channels: [conda-forge]\ndependencies:\n  - python=3.12\n  - pytorch\n"
    )
    found = of_compose(tmp_path, compose)
    return [one for one in found if one["slug"] == "image-torch-cpu-only"]


@pytest.mark.parametrize("name", WITHOUT_CUDA)
def test_a_service_with_gpus_and_a_torch_for_cpus(tmp_path: Path, name: str):
    text, fix = WITHOUT_CUDA[name]
    (found,) = composed(tmp_path, text)
    assert found["fixes"][0]["steps"][0]["text"].removeprefix(f"{tmp_path}/").startswith(fix)


@pytest.mark.parametrize("name", WITH_CUDA)
def test_conda_that_is_told_of_cuda_is_fine(tmp_path: Path, name: str):
    assert composed(tmp_path, WITH_CUDA[name]) == []


def test_conda_beside_an_image_that_may_tell_it_of_cuda(tmp_path: Path):
    assert composed(tmp_path, FORGE + "pytorch", base="FROM mambaorg/micromamba:2.1.1-cuda12.8.1-ubuntu24.04\n") == []
    assert composed(tmp_path, FORGE + "pytorch", GIVEN.replace("    gpus: all\n", "")) == []


def test_conda_has_no_torch_for_rocm():
    (found,) = on_cpu(ROCM + "RUN conda install -y -c conda-forge pytorch=2.7.1")
    assert "CONDA_OVERRIDE_CUDA" not in found
    assert "rocm6.3" in found or "rocm6.2" in found, found
