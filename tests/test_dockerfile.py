"""Dockerfiles and compose files judged before they are built: what is told of each, and silence over good ones."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as change

from gpudoctor.dockerfile.compose import read_compose
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.recipe import Recipe, RecipeService
from gpudoctor.dockerfile.recipe_files import read_recipe
from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.dockerfile.syntax import RecipeError, parse
from gpudoctor.dockerfile.torch import torch_of
from gpudoctor.engine import judge_recipe
from gpudoctor.finding import Finding
from gpudoctor.host import InputError
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.matrix.questions import Matrix
from gpudoctor.suites import image_checks
from tests.support.check_cases import matrix
from tests.support.in_process import invoked


def image_of(text: str, files: dict[str, str] | None = None, target: str = "", **arguments: str) -> Image:
    return read_dockerfile("Dockerfile", text, matrix(), (files or {}).get, arguments, target)


def findings(text: str, files: dict[str, str] | None = None, *, gpu: str = "", driver: str = "") -> list[Finding]:
    gpus = imagined_machine(Description(gpus=(gpu,), driver=driver), {}, matrix()).gpus if gpu else ()
    case = Recipe(matrix(), (image_of(text, files),), (), gpus, driver)
    return list(judge_recipe(case, image_checks()).findings)


def told(text: str, files: dict[str, str] | None = None, **given_: str) -> list[tuple[str, str]]:
    return [(one.slug, one.severity) for one in findings(text, files, **given_)]


def lines(finding: Finding) -> str:
    return finding.fixes[0].remedies[0].text  # type: ignore[union-attr]


# --- good ones -------------------------------------------------------------------------------------------

CU124 = "--index-url https://download.pytorch.org/whl/cu124"
HEALTHY = {
    "slim Python, index named": f"FROM python:3.12-slim\nRUN pip install {CU124} torch==2.6.0 torchvision",
    "slim Python, the package index's own": "FROM python:3.11-slim\n"
    "RUN pip install --no-cache-dir torch transformers",
    "exact version of the package index": "FROM python:3.11\nRUN pip install torch==2.6.0",
    "CPU on purpose": "FROM python:3.12-slim\nENV CUDA_VISIBLE_DEVICES=\n"
    "RUN pip install torch --index-url https://download.pytorch.org/whl/cpu",
    "CUDA base of the wheel's version": "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\n"
    f"RUN apt-get update && apt-get install -y python3-pip && pip3 install {CU124} torch==2.6.0",
    "CUDA base newer than the wheel": f"FROM nvidia/cuda:12.8.1-base-ubuntu22.04\n"
    f"RUN pip install {CU124} torch==2.6.0",
    "official torch image": "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install -r requirements.txt",
    "official torch image, torch asked for as it is": "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel\n"
    "RUN pip install torch==2.6.0 accelerate && pip install 'torch>=2.1' flash-attn --no-build-isolation",
    "NGC": "FROM nvcr.io/nvidia/pytorch:25.10-py3\nRUN pip install --no-cache-dir transformers datasets 'torch>=2.0'",
    "NGC with compat on its own path": "FROM nvcr.io/nvidia/pytorch:25.10-py3\n"
    "ENV LD_LIBRARY_PATH=/opt/hpcx/lib:$LD_LIBRARY_PATH",
    "ROCm base": "FROM rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0\n"
    "RUN pip install transformers torch",
    "ROCm toolkit with a ROCm wheel": "FROM rocm/dev-ubuntu-22.04:6.4-complete\n"
    "RUN pip3 install torch==2.8.0 --index-url https://download.pytorch.org/whl/rocm6.4",
    "stubs for linking only": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04\n"
    "ENV LIBRARY_PATH=/usr/local/cuda/lib64/stubs\n"
    "RUN LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs make",
    "stubs that a runtime image does not have": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04 AS build\nRUN make\n"
    "FROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\n"
    "ENV LD_LIBRARY_PATH=/usr/local/mpi/lib:/usr/local/cuda/lib64/stubs\n"
    "COPY --from=build /usr/local/mpi /usr/local/mpi",
    "stubs in a stage that only builds": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04 AS build\n"
    "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs\nRUN apt-get install -y nvidia-driver-550\n"
    "FROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\nCOPY --from=build /app /app",
    "toolkit packages without the driver": "FROM ubuntu:22.04\n"
    "RUN apt-get update && apt-get install -y cuda-toolkit-12-4 cuda-nvcc-12-4 "
    "nvidia-container-toolkit libcudnn9-cuda-12",
    "variables of NVIDIA's images": "FROM python:3.12\n"
    "ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility\n"
    "RUN pip install torch",
    "driver packages named, not installed": "FROM ubuntu:22.04\n"
    "RUN apt-get remove -y nvidia-driver-550; echo cuda-drivers",
    "an unknown base": "FROM registry.example/team/base:1\nRUN pip install torch==2.6.0",
    "an argument that nobody gave": "ARG BASE\nFROM ${BASE}\nRUN pip install torch",
    "torch chosen by an argument": "FROM python:3.12\nARG TORCH\nRUN pip install torch==${TORCH}",
    "uv with a backend": "FROM python:3.12-slim\nRUN uv pip install --system --torch-backend=cu126 torch==2.9.1",
    "uv with an extra index": "FROM python:3.12\n"
    "RUN uv pip install torch --extra-index-url https://download.pytorch.org/whl/cu126",
    "an extra index that has the newest version, too": "FROM nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04\n"
    "RUN pip install torch --extra-index-url https://download.pytorch.org/whl/cu126",
    "extra index with an exact version": "FROM python:3.12\n"
    "RUN pip install torch==2.6.0+cu124 --extra-index-url https://download.pytorch.org/whl/cu124",
    "a mirror": "FROM python:3.12\nENV PIP_INDEX_URL=https://mirror.example/simple\n"
    "RUN pip install torch==2.6.0+cu124",
    "a mirror in pip's configuration": "FROM python:3.12\nCOPY pip.conf /etc/pip.conf\n"
    "RUN pip install torch==2.6.0+cu124",
    "a build for Intel's GPUs": "FROM python:3.12-slim\n"
    "RUN pip install torch==2.6.0+xpu --index-url https://download.pytorch.org/whl/xpu",
    "a wheel by its address": "FROM python:3.12\n"
    "RUN pip install https://download.pytorch.org/whl/cu124/torch-2.6.0%2Bcu124-cp312-cp312-linux_x86_64.whl",
    "another Python than the distribution's": "FROM ubuntu:20.04\nRUN add-apt-repository ppa:deadsnakes/ppa && "
    "apt-get install -y python3.11 && python3.11 -m pip install torch==2.6.0",
    "a venv of uv": "FROM ubuntu:20.04\nRUN uv venv --python 3.12 && uv pip install torch==2.9.1",
    "conda": "FROM continuumio/miniconda3\nRUN conda install -y pytorch pytorch-cuda=12.4 -c pytorch -c nvidia",
    "one of two by a condition": "FROM rocm/dev-ubuntu-22.04:6.4\nARG CUDA\n"
    'RUN if [ -n "$CUDA" ]; then pip install torch==2.6.0; else pip install torch==2.8.0 '
    "--index-url https://download.pytorch.org/whl/rocm6.4; fi",
    "packages with torch in their names": "FROM python:3.13-alpine\nRUN pip install torchlib-example pytorch-nothing",
    "an override that only one RUN has": "FROM rocm/dev-ubuntu-22.04:6.4\nRUN HSA_OVERRIDE_GFX_VERSION=10.3.0 ./test",
    "Alpine without torch": "FROM python:3.12-alpine\nRUN pip install flask",
    "a here-document of data": "FROM python:3.12\nCOPY <<EOF /app/notes.txt\n"
    "RUN apt-get install nvidia-driver-550\nEOF\n",
    "multi-arch": "FROM --platform=linux/arm64 python:3.12-slim\nRUN pip install torch==2.9.1",
    "torch of another index after the base's is taken out": "FROM rocm/pytorch:latest\nRUN pip uninstall -y torch\n"
    "RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm6.4",
    "the other branch": 'FROM rocm/dev-ubuntu-22.04:6.4\n'
    'RUN if [ "$KIND" = rocm ]; then echo; else pip install torch; fi',
    "a Python built from source": "FROM nvidia/cuda:12.1.0-devel-ubuntu20.04\n"
    "RUN wget https://www.python.org/ftp/python/3.12.4/Python-3.12.4.tgz && make altinstall\n"
    "RUN pip3 install torch==2.6.0",
    "an index worked out by the shell": "FROM python:3.12\nARG CUDA=12.4.1\nRUN uv pip install torch==2.6.0+cu124 "
    "--extra-index-url https://download.pytorch.org/whl/cu$(echo $CUDA | cut -d. -f1,2 | tr -d .)",
    "an index in a file that is not here": "FROM python:3.12\nRUN pip install torch==2.6.0+cu124 -r https://e.example/r.txt",
    "constraints": "FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install -c /constraints.txt torch",
    "uv that compares all indexes": "FROM python:3.12\nRUN uv pip install torch --index-strategy unsafe-best-match "
    "--extra-index-url https://download.pytorch.org/whl/cu118",
    "wheels of an old page": "FROM nvidia/cuda:11.6.2-base-ubuntu20.04\nRUN pip3 install torch==1.10.1+cu113 "
    "-f https://download.pytorch.org/whl/cu113/torch_stable.html",
    "torch for any machine by a backend that is found out": "FROM python:3.12-bookworm\n"
    "COPY --from=ghcr.io/astral-sh/uv:latest /uv /bin/\n"
    "RUN uv pip install --system torch --torch-backend=auto",
    "ROCm without its kernel module": "FROM ubuntu:24.04\nRUN apt install -y ./amdgpu-install.deb && "
    "amdgpu-install -y --no-dkms --usecase=rocm,hip",
    "ops that are compiled when they run, not here": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04\n"
    "RUN pip install torch==2.6.0\nRUN pip install --no-build-isolation deepspeed",
    "a Python too old for the newest torch": "FROM nvcr.io/nvidia/cuda:10.2-cudnn7-runtime-ubuntu18.04\n"
    "RUN pip3 install torch~=1.8 timm",
    "an override that is asked for at build": "FROM rocm/dev-ubuntu-22.04:6.4\nARG HSA_OVERRIDE_GFX_VERSION\n"
    "ENV HSA_OVERRIDE_GFX_VERSION=${HSA_OVERRIDE_GFX_VERSION}",
    "an older spelling of a tag": "FROM rocm/pytorch:rocm6.1.3_ubuntu22.04_py3.10_pytorch_release-2.1.2\n"
    "RUN pip install 'torch>=2.1'",
    "the stub named for the linker alone": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04\n"
    "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/stubs/libcuda.so.1\n"
    "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/lib/libcuda.so",
    "the stub for one build only": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04\n"
    "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/libcuda.so.1 && make "
    "&& rm /usr/local/cuda/lib64/libcuda.so.1",
    "an installer taken away, and a package named like it": "FROM ubuntu:24.04\n"
    "RUN apt-get install -y amdgpu-install && amdgpu-install -y --uninstall",
    "compiled with the wheel's major": "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04\n"
    "RUN pip install torch==2.6.0 --index-url https://download.pytorch.org/whl/cu126\n"
    "RUN pip install flash-attn --no-build-isolation",
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_good_images_are_silent(name: str):
    files = {"requirements.txt": "torch>=2.1\ntransformers\n"}
    assert [one for one in told(HEALTHY[name], files) if one[1] != "note"] == []


def test_a_newer_wheel_of_the_same_major_on_an_older_base_is_a_note_at_most():
    text = "FROM nvidia/cuda:12.1.1-base-ubuntu22.04\nRUN pip install torch==2.6.0"
    assert told(text) == [("image-cuda-older-than-wheel", "note")]


# --- faults -----------------------------------------------------------------------------------------------

FAULTY = {
    "driver": ("FROM ubuntu:22.04\nRUN apt-get install -y nvidia-driver-550", "image-installs-driver", "error"),
    "libcuda of the driver": (
        "FROM ubuntu:22.04\nRUN apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get -y install "
        "--no-install-recommends libnvidia-compute-550=550.54.15-0ubuntu1", "image-installs-driver", "error",
    ),
    "driver by a metapackage": ("FROM ubuntu:22.04\n"
    "RUN apt-get install -y cuda-12-4", "image-installs-driver", "warning"),
    "vLLM by a backend that is found out": (
        "FROM python:3.12-bookworm\nRUN uv pip install --system vllm --torch-backend=auto",
        "image-torch-backend-auto", "warning",
    ),
    "a backend that is found out in an image for GPUs": (
        "FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04\nENV UV_TORCH_BACKEND=auto\nRUN uv pip install torch",
        "image-torch-backend-auto", "warning",
    ),
    "all GPUs in CUDA's own variable": (
        "FROM python:3.12\nENV CUDA_VISIBLE_DEVICES=all\nRUN pip install torch", "image-hides-gpus", "error",
    ),
    "driver by dnf": ("FROM rockylinux:9\nRUN dnf -y install cuda-drivers", "image-installs-driver", "error"),
    "libcuda copied": ("FROM ubuntu:22.04\nCOPY libcuda.so.550.54.15 /usr/lib/", "image-installs-driver", "error"),
    "driver in a here-document": (
        "FROM ubuntu:22.04\nRUN <<EOF\nset -e\napt-get update\napt-get install -y \\\n  nvidia-driver-550\nEOF\n",
        "image-installs-driver", "error",
    ),
    "driver in the exec form": (
        'FROM ubuntu:22.04\nRUN ["/bin/bash", "-c", "apt-get update && apt-get install -y nvidia-driver-550"]',
        "image-installs-driver", "error",
    ),
    "a build that the package index lacks": (
        "FROM python:3.12\nRUN pip install torch==2.6.0+cu124", "image-torch-without-index", "error",
    ),
    "an extra index that is outrun": (
        "FROM python:3.12\nRUN pip install torch --extra-index-url https://download.pytorch.org/whl/cu118",
        "image-torch-without-index", "warning",
    ),
    "compiled with another major": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch==2.12.0\n"
        "RUN FLASH_ATTENTION_FORCE_BUILD=TRUE pip install --no-build-isolation flash-attn",
        "image-cuda-older-than-wheel", "error",
    ),
    "compiled with another major where no ready wheel is found": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install torch==2.12.0\n"
        "RUN pip install --no-build-isolation flash-attn", "image-cuda-older-than-wheel", "warning",
    ),
    "a package that is always compiled": (
        "FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\nRUN pip install torch==2.6.0\n"
        "RUN pip install --no-build-isolation pytorch3d", "image-cuda-older-than-wheel", "error",
    ),
    "old libraries first": (
        "FROM nvidia/cuda:12.1.1-runtime-ubuntu22.04\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64:$LD_LIBRARY_PATH\n"
        "RUN pip install torch==2.9.1", "image-cuda-older-than-wheel", "warning",
    ),
    "made for older drivers": (
        "FROM nvidia/cuda:11.8.0-base-ubuntu22.04\n"
        "RUN pip install torch==2.6.0", "image-cuda-older-than-wheel", "warning",
    ),
    "CUDA torch in a ROCm image": (
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install torch", "image-torch-other-vendor", "error",
    ),
    "ROCm torch in a CUDA image": (
        "FROM nvidia/cuda:12.8.1-base-ubuntu22.04\n"
        "RUN pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/rocm6.4",
        "image-torch-other-vendor", "error",
    ),
    "CUDA torch over a ROCm torch": (
        "FROM rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0\nRUN pip install torch==2.7.1",
        "image-torch-other-vendor", "error",
    ),
    "musl": ("FROM python:3.12-alpine\nRUN pip install torch", "image-no-torch-wheel", "error"),
    "a Python too new": ("FROM python:3.13-slim\nRUN pip install torch==2.2.0", "image-no-torch-wheel", "error"),
    "a Python too old": (
        "FROM ubuntu:20.04\n"
        "RUN apt-get install -y python3-pip && pip3 install torch==2.6.0", "image-no-torch-wheel", "error",
    ),
    "an index without that release": (
        "FROM python:3.12\nRUN pip install torch==2.6.0 --index-url https://download.pytorch.org/whl/cu121",
        "image-no-torch-wheel", "error",
    ),
    "a kernel module": ("FROM ubuntu:24.04\nRUN apt-get install -y amdgpu-dkms", "image-installs-driver", "warning"),
    "a kernel module by AMD's installer": (
        "FROM ubuntu:24.04\nRUN amdgpu-install -y --usecase=rocm", "image-installs-driver", "warning",
    ),
    "the stub where programs load it": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"
        "RUN ln -s /usr/local/cuda/lib64/stubs/libcuda.so /usr/local/cuda/lib64/libcuda.so.1",
        "image-stub-libcuda", "error",
    ),
    "a stub that is copied with the toolkit": (
        "FROM nvidia/cuda:12.8.1-devel-ubuntu22.04 AS build\nFROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\n"
        "COPY --from=build /usr/local/cuda /usr/local/cuda\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs",
        "image-stub-libcuda", "warning",
    ),
    "a stub of the distribution's package": (
        "FROM nvidia/cuda:12.8.1-runtime-ubuntu22.04\nRUN apt-get update && apt-get install -y cuda-driver-dev-12-8\n"
        "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs", "image-stub-libcuda", "warning",
    ),
    "the stub in the loader's configuration": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"
        'RUN echo "/usr/local/cuda/lib64/stubs" > /etc/ld.so.conf.d/stubs.conf && ldconfig',
        "image-stub-libcuda", "error",
    ),
    "an index of ROCm that is outrun in a ROCm image": (
        "FROM rocm/dev-ubuntu-22.04:6.1\n"
        "RUN pip3 install torch --extra-index-url https://download.pytorch.org/whl/rocm6.1",
        "image-torch-other-vendor", "error",
    ),
    "an index of CUDA that is outrun on an old base": (
        "FROM nvidia/cuda:11.6.2-devel-ubuntu20.04\n"
        "RUN pip3 install torch --extra-index-url https://download.pytorch.org/whl/cu116",
        "image-torch-without-index", "warning",
    ),
    "GPUs hidden": (
        "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nENV NVIDIA_VISIBLE_DEVICES void", "image-hides-gpus", "warning",
    ),
    "no compute capability": (
        "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nENV NVIDIA_DRIVER_CAPABILITIES=graphics,utility",
        "image-hides-gpus", "error",
    ),
    "override": (
        "FROM rocm/dev-ubuntu-22.04:6.4\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0", "image-bakes-gfx-override", "warning",
    ),
    "stubs": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH",
        "image-stub-libcuda", "warning",
    ),
    "compat library": (
        "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nENV LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH",
        "image-compat-library", "warning",
    ),
    "system packages": (
        "FROM debian:bookworm\nRUN pip install --break-system-packages torch", "image-breaks-system-packages", "note",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTY)
def test_each_fault_is_told_alone(name: str):
    text, slug, severity = FAULTY[name]
    assert [one for one in told(text) if one[1] != "note" or severity == "note"] == [(slug, severity)]


@pytest.mark.parametrize(
    "base, better",
    [
        ("nvidia/cuda:11.1-cudnn8-devel-ubuntu20.04", "FROM nvidia/cuda:11.1.1-cudnn8-devel-ubuntu20.04"),
        ("docker.io/nvidia/cuda:11.6.0-base-ubuntu20.04", "FROM nvidia/cuda:11.6.2-base-ubuntu20.04"),
        ("nvidia/cuda:10.2-cudnn7-runtime-ubuntu18.04", "use nvidia/cuda with CUDA 11.8 or newer"),
        ("nvidia/cuda:12.1-devel-ubuntu22.04", "use a tag with three numbers"),
        ("nvidia/cuda", "use a tag with the CUDA and the system"),
    ],
)
def test_a_tag_that_docker_hub_does_not_have_is_told(base: str, better: str):
    (finding,) = findings(f"FROM {base}\nRUN ./configure")
    assert (finding.slug, finding.severity) == ("image-base-removed", "error")
    assert lines(finding).startswith(f"Dockerfile:1: {better}")


@pytest.mark.parametrize(
    "base",
    [
        "nvidia/cuda:11.1.1-cudnn8-devel-ubuntu20.04",
        "nvidia/cuda:11.8.0-base-ubuntu22.04",
        "nvidia/cuda:12.1.0-devel-ubuntu22.04",
        "nvidia/cuda:13.0.1-runtime-ubuntu22.04",
        "nvcr.io/nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04",
        "registry.example/nvidia/cuda:10.2-devel",
        "${BASE}",
    ],
)
def test_a_tag_that_is_there_or_in_another_registry_is_silent(base: str):
    assert told(f"FROM {base}\nRUN ./configure") == []


def test_a_finding_names_file_and_line_of_the_command():
    run = "RUN apt-get update && \\\n    # why\n    apt-get install -y \\\n      nvidia-driver-550\n"
    text = "# note\nFROM ubuntu:22.04\n\n" + run
    (finding,) = findings(text)
    assert finding.evidence[0].source == "Dockerfile:6"
    assert lines(finding).startswith("Dockerfile:6:")


def test_the_requirements_file_of_the_context_is_read_and_named():
    text = "FROM rocm/dev-ubuntu-22.04:6.4\nWORKDIR /app\nCOPY . .\nRUN pip install -r requirements/gpu.txt"
    (finding,) = findings(text, {"./requirements/gpu.txt": "numpy\ntorch==2.8.0\n"})
    assert finding.slug == "image-torch-other-vendor"
    assert "requirements/gpu.txt, line 2" in finding.evidence[1].value
    bound = (
        "FROM python:3.12-alpine\nRUN --mount=type=bind,source=req.txt,target=/tmp/r.txt pip install -r /tmp/r.txt"
    )
    assert told(bound, {"req.txt": "torch"}) == [("image-no-torch-wheel", "error")]


def test_a_proposed_line_has_a_build_that_exists_for_the_base():
    (finding,) = findings("FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install torch==2.8.0")
    assert lines(finding) == (
        "Dockerfile:2: RUN pip install --index-url https://download.pytorch.org/whl/rocm6.4 torch==2.8.0+rocm6.4"
    )


def test_a_proposed_line_brings_the_companions_that_the_file_installs():
    (finding,) = findings("FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install torch==2.8.0 torchvision\n")
    assert lines(finding).endswith("whl/rocm6.4 torch==2.8.0+rocm6.4 torchvision==0.23.0+rocm6.4")


@pytest.mark.parametrize(
    "image, python",
    [
        ("nvidia/cuda:12.8.1-cudnn-devel-ubuntu24.04", "3.12"),
        ("nvcr.io/nvidia/cuda:11.8.0-base-ubuntu20.04", "3.8"),
        ("docker.io/nvidia/cuda:12.4.1-runtime-rockylinux9", None),
        ("rocm/dev-ubuntu-22.04:6.4-complete", "3.10"),
        ("rocm/dev-ubuntu-24.04:latest", "3.12"),
        ("debian:bookworm-slim", "3.11"),
        ("ubuntu:noble", "3.12"),
        ("debian:12.5", "3.11"),
    ],
)
def test_the_python_of_a_distribution_is_that_of_its_images(image: str, python: str | None):
    facts = matrix().images.base_image(image)
    assert facts is not None
    assert facts.python == python


def test_arguments_choose_the_base():
    text = "ARG BASE=python:3.12\nFROM ${BASE}\nRUN pip install torch"
    assert image_of(text).base == "python:3.12"
    assert image_of(text, BASE="python:3.12-alpine").facts.musl
    assert image_of("ARG V=12.4.1\nFROM nvidia/cuda:${V:-1}-base-ubuntu22.04").facts.cuda == "12.4"


def test_the_target_stage_is_judged():
    text = "FROM python:3.12 AS cpu\nFROM cpu AS gpu\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\nFROM cpu AS last\n"
    assert "HSA_OVERRIDE_GFX_VERSION" not in image_of(text).settings
    assert "HSA_OVERRIDE_GFX_VERSION" in image_of(text, target="gpu").settings
    with pytest.raises(RecipeError, match="no stage 'nothing'"):
        image_of(text, target="nothing")


def test_a_value_that_the_described_gpu_needs_is_silent():
    text = "FROM rocm/dev-ubuntu-22.04:6.4\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0"
    assert told(text, gpu="gfx1031") == []
    assert told(text) == [("image-bakes-gfx-override", "warning")]


ROCM64 = (
    "FROM python:3.12-slim\n{}RUN pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/rocm6.4\n"
)


def dockerfile_report(tmp_path: Path, *options: str) -> dict[str, Any]:
    """The report of a folder, without notes."""
    report: dict[str, Any] = json.loads(run(str(tmp_path), *options, "--format", "json")[1])
    return {**report, "findings": [one for one in report["findings"] if one["severity"] != "note"]}


def of_compose(folder: Path, text: str) -> list[Any]:
    """The findings of a compose file, without notes."""
    (folder / "compose.yaml").write_text(text)
    found: list[Any] = dockerfile_report(folder / "compose.yaml")["findings"]
    return found


def found_for(tmp_path: Path, gpu: str, dockerfile_: str, compose: str = "") -> list[dict[str, object]]:
    (tmp_path / "Dockerfile").write_text(dockerfile_)
    if compose:
        (tmp_path / "compose.yaml").write_text(compose)
    found: list[dict[str, object]] = json.loads(run(str(tmp_path), "--gpu", gpu, "--format", "json")[1])["findings"]
    return [one for one in found if one["severity"] != "note"]


def test_an_override_of_the_image_counts_on_the_described_gpu(tmp_path: Path):
    text = ROCM64.format("ENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n")
    for gpu, slug, severity in (
        ("RX 6700 XT", "torch-rocm-no-arch-for-gpu", "warning"),
        ("RX 7900 XTX", "hsa-override-wrong", "error"),
        ("RX 6800 XT", "", ""),
    ):
        found = found_for(tmp_path, gpu, text)
        assert [(one["slug"], one["severity"]) for one in found] == ([(slug, severity)] if slug else [])
    (one,) = found_for(tmp_path, "RX 7900 XTX", text)
    assert one["fixes"][0]["steps"][0]["text"].endswith("Dockerfile:2: leave out HSA_OVERRIDE_GFX_VERSION")  # type: ignore[index]


def test_an_override_of_the_service_counts_on_the_described_gpu(tmp_path: Path):
    compose = "services:\n  a:\n    build: .\n    shm_size: 8gb\n    devices: [/dev/kfd, /dev/dri]\n"
    assert [one["severity"] for one in found_for(tmp_path, "RX 6700 XT", ROCM64.format(""), compose)] == ["error"]
    compose += "    environment: [HSA_OVERRIDE_GFX_VERSION=10.3.0]\n"
    assert [one["severity"] for one in found_for(tmp_path, "RX 6700 XT", ROCM64.format(""), compose)] == ["warning"]
    (one,) = found_for(tmp_path, "RX 7900 XTX", ROCM64.format(""), compose)
    assert "leave out HSA_OVERRIDE_GFX_VERSION in the environment of a" in one["fixes"][0]["steps"][0]["text"]  # type: ignore[index]


def test_a_wrong_override_is_left_out_of_an_image_of_amd(tmp_path: Path):
    base = "rocm/pytorch:rocm6.4.1_ubuntu22.04_py3.10_pytorch_release_2.6.0"
    (one,) = found_for(tmp_path, "RX 7900 XTX", f"FROM {base}\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n")
    assert one["fixes"][0]["title"] == "Unset HSA_OVERRIDE_GFX_VERSION"  # type: ignore[index]


@pytest.mark.parametrize(
    "archs, gpu, told_",
    [
        ("8.0;8.6", "RTX 5090", True),
        ("8.0 8.6 8.9 9.0", "RTX 5090", True),
        ("8.0;8.6", "RTX 4090", False),
        ("8.0;9.0+PTX", "RTX 5090", False),
        ("8.0;12.0", "RTX 5090", False),
        ("9.0a", "RTX 4090", True),
        ("Ampere", "RTX 5090", False),
    ],
)
def test_a_list_of_gpus_for_extensions_is_judged(archs: str, gpu: str, told_: bool):
    base = f'FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel\nENV TORCH_CUDA_ARCH_LIST="{archs}"\n'
    for command in ("pip install --no-build-isolation ./ops", "cd ops && python setup.py install"):
        found = [one for one in told(base + f"RUN {command}", gpu=gpu) if one[0] == "image-extension-archs"]
        assert found == ([("image-extension-archs", "warning")] if told_ else [])
    assert "image-extension-archs" not in dict(told(base + "RUN pip install flask", gpu=gpu))
    assert "image-extension-archs" not in dict(told(base + "RUN python setup.py install"))


def test_the_gpu_is_added_to_the_list():
    text = 'FROM python:3.12\nENV TORCH_CUDA_ARCH_LIST="8.0 8.6"\nRUN pip install --no-build-isolation ./ops'
    (one,) = [one for one in findings(text, gpu="RTX 5090") if one.slug == "image-extension-archs"]
    assert lines(one) == 'Dockerfile:2: TORCH_CUDA_ARCH_LIST="8.0;8.6;12.0"'


def test_compat_is_an_error_on_a_geforce_and_nothing_on_a_data_centre_gpu():
    text = "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nENV LD_LIBRARY_PATH=/usr/local/cuda/compat"
    assert told(text, gpu="RTX 4090", driver="535.104.05") == [("image-compat-library", "error")]
    assert told(text, gpu="H100 PCIe", driver="535.104.05") == []
    for base in ("dustynv/l4t-pytorch:r36.2.0", "$BASE"):
        assert told(f"FROM {base}\nENV LD_LIBRARY_PATH=/usr/local/cuda/compat") == []


@pytest.mark.parametrize(
    "text, torch",
    [
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", ("2.6.0", "cu124")),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install torch", ("2.6.0", "cu124")),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install torch==2.9.1", ("2.9.1", "cu128")),
        ("FROM python:3.12\nRUN pip install torch==2.6.0", ("2.6.0", "cu124")),
        (f"FROM python:3.12\nRUN pip install {CU124} torch", ("2.6.0", "cu124")),
        ("FROM python:3.12\nRUN python3 -m pip install 'torch>=2.5,<2.7'", ("2.6.0", "cu124")),
        ("FROM python:3.12\nRUN (pip uninstall -y torch || true) && pip install torch==2.6.0", ("2.6.0", "cu124")),
        ("FROM python:3.12\nENV UV_TORCH_BACKEND=cu126\nRUN uv pip install torch==2.9.1", ("2.9.1", "cu126")),
    ],
)  # fmt: skip
def test_the_torch_of_an_image(text: str, torch: tuple[str, str]):
    held = torch_of(image_of(text), matrix())
    assert held is not None
    assert (held.version, held.build) == torch


@pytest.mark.parametrize(
    "commands, conditional",
    [
        ("a || b", "b"),
        ("a || true && b", "true"),
        ("a || (b && c) && d", "b c"),
        ("a || { b; c; } && d; e", "b c"),
        ("(a||b)&&c", "b"),
        ("a && b || c; d", "c"),
        ("a || b | c && d", "b c"),
        ("[ -f x ] && a && b || c && d", "a b c"),
        ("[ -f x ] || a && b", "a"),
        ('[ -n "x" ] && a && b || c && d', "c"),
        ('if [ -n "$X" ]; then a; elif [ "$X" = b ]; then b; else c; fi; d', "a b c"),
        ('[ -n "$KNOWN" ] && a; [ "$KNOWN" = cu124 ] && b || c; d', "c"),
        ('if [ "$KNOWN" = "cu124" ] && [ -f x ]; then a; else b; fi; c', "a b"),
        ("! test -e x && (a; b) && c; d", "a b c"),
        ("if a; then b && c; fi && d", "a b c"),
        ("a & b |& c", ""),
        ("for i in 1 2 3; do a && break || b; done; c", "b"),
        ("for i in $(seq 1 5); do a && break; b; done", "seq"),
        ("until a; do b; done; c", "b"),
        ("while ! a; do b; done", "b"),
        ('n=0; until [ "$n" -ge 5 ]; do a && break; n=$((n+1)); done', ""),
        ('n=0; while [ "$n" -lt 5 ]; do a; done', ""),
        ('n=5; while [ "$n" -lt 5 ]; do a; done', "a"),
        ("for i in $LIST; do a; done; b", "a"),
        ("for i in 1 2; do if [ -f x ]; then a; fi; b; done", "a"),
        ("while a; do b; done", "a b"),
    ],
)
def test_a_command_is_conditional_where_others_decide_whether_it_runs(commands: str, conditional: str):
    steps = image_of(f"FROM x\nARG KNOWN=cu124\nRUN {commands}").steps
    names = [step.command.argv[0] for step in steps if step.command.maybe]
    assert [name for name in names if name != "["] == conditional.split()


@pytest.mark.parametrize(
    "commands, run",
    [
        ('if [ "$KNOWN" = cu124 ]; then a; else b; fi; c', "a c"),
        ('if [ -z "$KNOWN" ]; then a; elif [ "${KNOWN}" != "cu118" ]; then b; else c; fi', "b"),
        ('if [ "$KNOWN" = cu118 ]; then if [ -f x ]; then a; fi; b; fi; c', "c"),
        ('[ "$KNOWN" = cu118 ] && a; b', "b"),
        ("[ x = y ] && { a; b; }; c", "c"),
        ('if ! [ "$KNOWN" = cu118 ]; then a; fi', "a"),
        ("<<EOF\nif [ $KNOWN = cu118 ]; then\n  a\nelse\n  b\nfi\nc\nEOF", "b c"),
    ],
)
def test_a_test_of_known_values_decides_which_commands_run(commands: str, run: str):
    steps = image_of(f"FROM x\nARG KNOWN=cu124\nRUN {commands}").steps
    names = [(step.command.argv[0], step.command.maybe) for step in steps]
    assert [one for one in names if one[0] != "["] == [(name, False) for name in run.split()]


def test_a_variable_without_quotes_is_split_at_blanks():
    lines = "FROM python:3.12\nARG WHAT='torch==2.6.0  torchvision'\nRUN "
    (install,) = (step.pip for step in image_of(f"{lines}pip install $WHAT {CU124}").steps)
    assert install is not None and [one.name for one in install.requirements] == ["torch", "torchvision"]
    (step,) = image_of(lines + 'echo "$WHAT"').steps
    assert step.command.argv == ("echo", "torch==2.6.0  torchvision")


def test_a_here_document_may_have_a_blank_before_its_word():
    image = image_of("FROM x\nRUN cat > /x <<  'EOF'\necho 1\nEOF\nRUN a")
    assert [step.command.argv[0] for step in image.steps][-1] == "a"


# --- described GPUs ------------------------------------------------------------------------------------


def verdict(text: str, gpu: str, driver: str = "", files: dict[str, str] | None = None) -> str:
    gpus = imagined_machine(Description(gpus=(gpu,), driver=driver), {}, matrix()).gpus
    return judge_recipe(Recipe(matrix(), (image_of(text, files),), (), gpus, driver), image_checks()).verdict


STAGES = "FROM {}\nRUN {}\nFROM python:3.12-slim\n{}\n"


@pytest.mark.parametrize(
    "base, command, copy, torch",
    [
        ("python:3.12-slim AS build", "python -m venv /opt/venv && /opt/venv/bin/pip install torch==2.6.0",
         "COPY --from=build /opt/venv /opt/venv", ("2.6.0", "cu124")),
        ("python:3.12-slim AS build", f"pip install {CU124} torch==2.5.1",
         "COPY --from=Build /usr/local/lib/python3.12/site-packages /usr/local/lib/python3.12/site-packages",
         ("2.5.1", "cu124")),
        ("nvidia/cuda:12.8.1-devel-ubuntu24.04", "uv venv && uv pip install torch==2.9.1",
         "COPY --from=0 --chown=1000 /app/.venv /app/.venv", ("2.9.1", "cu128")),
        ("python:3.12-slim AS build", "pip install torch==2.6.0", "COPY --from=build /app/dist /dist", None),
        ("python:3.12-slim AS build", "pip install torch==2.6.0", "COPY --from=other.example/a:1 /opt/venv /v", None),
        ("example.com/team/base:1 AS build", "pip install torch==2.6.0", "COPY --from=build /opt/venv /v", None),
    ],
)  # fmt: skip
def test_an_environment_that_is_copied_from_a_stage_is_followed(
    base: str, command: str, copy: str, torch: tuple[str, str] | None
):
    held = torch_of(image_of(STAGES.format(base, command, copy)), matrix())
    assert (held and (held.version, held.build)) == torch


def test_a_torch_of_another_stage_is_told_with_its_line(tmp_path: Path):
    file = tmp_path / "Dockerfile"
    file.write_text(STAGES.format("python:3.12-slim AS b", "pip install torch==2.6.0", "COPY --from=b /opt/venv /v"))
    code, text = run(str(file), "--gpu", "RTX 5090", "--format", "json")
    (finding,) = json.loads(text)["findings"]
    assert (code, finding["slug"]) == (1, "torch-no-arch-for-gpu")
    assert finding["evidence"][0]["source"].endswith("Dockerfile:2")


@pytest.mark.parametrize(
    "text",
    [
        "FROM registry.example/team/base:1",
        "FROM pytorch/pytorch:latest",
        "FROM python:3.12\nRUN uv sync --frozen",
        "FROM python:3.12\nRUN pip install -r requirements.txt",
        "FROM python:3.12\nRUN pip install -e .",
        "FROM python:3.12\nRUN pip install vllm",
        "FROM rocm/dev-ubuntu-22.04:6.4\nRUN cd pytorch && python3 setup.py bdist_wheel && pip install dist/*.whl",
        "FROM continuumio/miniconda3\nRUN conda install -y pytorch",
        "FROM python:3.12\nRUN if true; then pip install torch==2.6.0; fi",
        "FROM python:3.12\nRUN pip install torch==2.6.0 -i https://mirror.example/simple",
        "FROM python:3.12\nCOPY --from=deps /app/.venv /app/.venv",
    ],
)
def test_a_torch_that_cannot_be_told_is_unknown_for_a_described_gpu_only(text: str):
    assert told(text) == []
    assert verdict(text, "RX 7900 XTX" if "rocm" in text else "RTX 4090") == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "FROM ubuntu:24.04\nRUN apt-get install -y curl",
        "FROM python:3-slim-bookworm\nRUN pip install flask",
        "FROM scratch\nCOPY --from=build /app /app",
    ],
)
def test_an_image_without_torch_has_nothing_to_judge(text: str):
    assert verdict(text, "RTX 4090") == "ok"


SCRIPT = "FROM python:3.12\nWORKDIR /app\nCOPY . .\nRUN chmod +x tools/deps.sh && "


@pytest.mark.parametrize(
    "run", ["./tools/deps.sh", "bash -e tools/deps.sh", "sh /app/tools/deps.sh", ". tools/deps.sh"]
)
@pytest.mark.parametrize(
    "script",
    [
        "#!/bin/sh\npip install torch==$1\n",
        "#!/bin/sh\nuv sync --frozen\n",
        "#!/bin/sh\nexec tools/more.sh\n",
        None,
    ],
)
def test_a_script_may_bring_a_torch_that_cannot_be_told(run: str, script: str | None):
    files = {"./tools/deps.sh": script} if script else {}
    assert told(SCRIPT + run, files) == []
    assert verdict(SCRIPT + run, "RTX 4090", files=files) == "unknown"


@pytest.mark.parametrize(
    "run, script",
    [
        ("./tools/deps.sh", "#!/bin/sh\nuseradd me\napt-get install -y curl\n"),
        ("bash Miniconda3-latest-Linux-x86_64.sh -b", None),
        (". /opt/venv/bin/activate", None),
        ("curl -LsSf https://astral.sh/uv/install.sh | sh", None),
        ("./configure && make", None),
    ],
)
def test_a_script_that_installs_no_packages_brings_no_torch(run: str, script: str | None):
    assert verdict(SCRIPT + run, "RTX 4090", files={"./tools/deps.sh": script} if script else {}) == "ok"


def test_a_script_may_replace_torch():
    text = SCRIPT + "pip install torch==1.13.1 && tools/deps.sh"
    held = torch_of(image_of(text, {"./tools/deps.sh": "pip install torch==2.6.0\n"}), matrix())
    assert held is not None and held.version == "2.6.0"
    assert torch_of(image_of(text, {"./tools/deps.sh": "wrapped pip install -U torch\n"}), matrix()) is None
    held = torch_of(image_of(text, {"./tools/deps.sh": "pip install flask\n"}), matrix())
    assert held is not None and held.version == "1.13.1"


def test_an_image_of_nvidia_is_judged_by_its_release():
    text = "FROM nvcr.io/nvidia/pytorch:25.10-py3"
    assert verdict(text, "RTX 5090") == "ok"
    assert told(text, gpu="Tesla V100-SXM2-16GB") == [("image-for-other-cards", "error")]
    assert verdict(text, "RTX 5090", "580.95.05") == "ok"
    assert verdict(text.replace("25.10", "29.10"), "RTX 5090", "580.95.05") == "unknown"  # its CUDA is not known


@pytest.mark.parametrize("release", ["25.10", "26.03", "26.07"])
def test_an_image_of_nvidia_is_judged_by_the_cuda_of_its_release(release: str):
    text = f"FROM nvcr.io/nvidia/pytorch:{release}-py3"
    assert told(text, gpu="RTX 4090", driver="570.133.07") == [("image-too-new-for-driver", "error")]
    assert told(text, gpu="H100", driver="570.133.20") == []  # by the image's cuda-compat
    assert told(text, gpu="H100", driver="525.147.05") == [("image-too-new-for-driver", "error")]


def test_a_driver_that_does_not_run_the_gpu_is_told_for_an_image_of_nvidia(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM nvcr.io/nvidia/pytorch:25.10-py3\n")

    def slugs(*described: str) -> list[str]:
        return [one["slug"] for one in json.loads(run(str(tmp_path), *described, "--format", "json")[1])["findings"]]

    assert slugs("--gpu", "RTX 5090", "--driver", "535.183.01")[0] == "driver-too-old"
    assert slugs("--gpu", "RTX 5090", "--driver", "580.95.05") == []


def test_an_image_of_nvidia_that_is_older_than_the_gpu_has_only_ptx_for_it():
    text = "FROM nvcr.io/nvidia/pytorch:24.07-py3"
    assert told(text, gpu="RTX 5090") == [("image-for-other-cards", "warning")]
    assert told(text, gpu="RTX 4090") == []


def test_another_python_is_the_nearest_usual_one():
    text = "FROM python:{}-slim\nRUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126"
    (old,) = findings(text.format("3.9"))
    assert "Python 3.10" in [fix.title + str(fix.remedies) for fix in old.fixes][-1]
    assert (old.slug, old.want) == ("image-no-torch-wheel", "Python 3.10 to 3.14")


@pytest.mark.parametrize("torch", ["torch", "torch==2.9.1"])
def test_there_is_no_rocm_for_arm(torch: str):
    index = "--index-url https://download.pytorch.org/whl/rocm6.4"
    text = f"FROM --platform=linux/arm64 python:3.12-slim\nRUN pip install {torch} {index}"
    assert told(text) == [("image-no-torch-wheel", "error")]


NGC, L4T = "FROM nvcr.io/nvidia/pytorch:25.10-py3", "FROM nvcr.io/nvidia/l4t-pytorch:r35.2.1-pth2.0-py3"


@pytest.mark.parametrize(
    "text, severity",
    [
        (f"{NGC}\nRUN pip install torch==2.9.1", "warning"),
        (f"{NGC}\nRUN uv pip install --system -U torch", "warning"),
        (f"{NGC}\nRUN pip install torch transformers", ""),  # NVIDIA's own is there
        (f"{NGC}\nRUN python -m venv /v && /v/bin/pip install torch==2.9.1", ""),
        (f"{L4T}\nRUN pip3 install torch==2.0.1", "error"),
        ("FROM dustynv/pytorch:2.7-r36.4.0\nRUN pip install torch==2.11.0", "error"),
        (f"{L4T}\nRUN pip3 install transformers torch", ""),
        (f"{L4T}\nRUN pip3 install torch==2.0.1 --index-url https://pypi.jetson-ai-lab.io/jp5/cu114", ""),
        ("FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install torch==2.9.1", ""),
    ],
)
def test_the_torch_that_nvidia_built_for_an_image_is_kept(text: str, severity: str):
    found = [finding for finding in findings(text) if finding.slug == "image-torch-replaced"]
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert all("leave torch out" in lines(finding) for finding in found)


JETPACK = "FROM nvcr.io/nvidia/l4t-jetpack:r36.4.0"
WHEEL = "torch-2.2.0a0+git8ac9b20-cp310-cp310-linux_aarch64.whl"


@pytest.mark.parametrize(
    "text, found",
    [
        (f"{JETPACK}\nRUN pip3 install torch", True),
        (f"{JETPACK}\nRUN pip3 install /tmp/{WHEEL} && pip3 install torchvision transformers", True),
        (f"{JETPACK}\nRUN pip3 install https://a.example/{WHEEL}\nRUN pip3 install torchvision", True),
        (f"{JETPACK}\nRUN pip3 install /tmp/{WHEEL} && pip3 install --no-deps torchvision", False),
        (f"{JETPACK}\nRUN pip3 install /tmp/{WHEEL}", False),
        (f"{JETPACK}\nRUN pip3 install torch-2.8.0-cp310-cp310-linux_aarch64.whl\n"
         "RUN pip3 install torchvision==0.23.0", False),
        (f"{JETPACK}\nRUN pip3 install torch-*.whl\nRUN pip3 install torchvision", False),
        (f"{JETPACK}\nRUN pip3 install torch --index-url https://pypi.jetson-ai-lab.io/jp6/cu126", False),
        (f"{JETPACK}\nRUN pip3 install torch --index-url https://download.pytorch.org/whl/cpu", False),
        (f"{JETPACK}\nRUN pip3 install flask", False),
    ],
)  # fmt: skip
def test_a_torch_that_is_not_for_jetson_is_told(text: str, found: bool):
    assert told(text) == ([("image-torch-not-for-jetson", "error")] if found else [])


def test_a_package_that_brings_its_torch_belongs_beside_nvidias() -> None:
    (found,) = [one for one in findings(f"{NGC}\nRUN pip install vllm==0.11.2") if one.slug == "image-torch-replaced"]
    assert "install vllm 0.11.2, which requires that torch, into a virtual environment" in lines(found)


def test_pip_is_told_to_stop_at_the_constraints_of_an_image_that_has_them():
    pinned = [f"{NGC}\nRUN pip install torch==2.9.1"]
    free = [
        f"{NGC}\nENV PIP_CONSTRAINT=\nRUN pip install torch==2.9.1",
        "FROM nvcr.io/nvidia/pytorch:24.07-py3\nRUN pip install torch==2.9.1",
    ]
    assert ["PIP_CONSTRAINT" in findings(text)[0].message for text in (*pinned, *free)] == [True, False, False]


COMPAT = "ENV LD_LIBRARY_PATH=/usr/local/cuda/compat"


@pytest.mark.parametrize(
    "base, gpu, driver, slugs",
    [
        (f"nvidia/cuda:13.0.1-runtime-ubuntu22.04\n{COMPAT}", "H100", "535.183.01", set()),
        (f"nvidia/cuda:13.0.1-runtime-ubuntu22.04\n{COMPAT}", "H100", "580.95.05", set()),
        ("nvidia/cuda:13.0.1-runtime-ubuntu22.04", "H100", "570.133.20", set()),  # the container toolkit loads it
        (
            f"nvidia/cuda:13.0.1-runtime-ubuntu22.04\n{COMPAT}",
            "H100",
            "545.23.08",
            {"driver-too-old", "image-too-new-for-driver"},
        ),
        (f"nvidia/cuda:13.0.1-runtime-ubuntu22.04\n{COMPAT}", "H100", "595.58.03", {"image-compat-library"}),
        ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", "H100", "535.183.01", {"driver-too-old"}),
        ("python:3.12-slim", "H100", "535.183.01", {"driver-too-old"}),
        (
            "ubuntu:22.04\nRUN apt-get install -y cuda-compat-13-0\nENV LD_LIBRARY_PATH=/usr/local/cuda-13.0/compat",
            "H100",
            "535.183.01",
            set(),
        ),
        (
            "nvidia/cuda:13.0.1-runtime-ubuntu22.04",
            "RTX 4090",
            "570.133.07",
            {"driver-too-old", "image-too-new-for-driver"},
        ),
    ],
)
def test_cuda_compat_of_an_image_counts_on_data_centre_gpus(
    base: str, gpu: str, driver: str, slugs: set[str], tmp_path: Path
):
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nRUN pip install torch==2.14.1\n")
    _, out = run(str(tmp_path), "--gpu", gpu, "--driver", driver, "--format", "json")
    faults = {one["slug"] for one in json.loads(out)["findings"] if one["severity"] in ("error", "warning")}
    assert faults - {"image-cuda-older-than-wheel"} == slugs


@pytest.mark.parametrize(
    ("base", "gpu", "driver", "refused"),
    [
        ("nvidia/cuda:12.8.1-runtime-ubuntu24.04", "RTX 4090", "550.144.03", True),
        ("nvidia/cuda:12.8.1-runtime-ubuntu24.04", "RTX 4090", "570.124.06", False),
        ("nvidia/cuda:12.8.1-runtime-ubuntu24.04\nENV NVIDIA_DISABLE_REQUIRE=1", "RTX 4090", "550.144.03", False),
        ("nvidia/cuda:12.8.1-runtime-ubuntu24.04", "H100", "550.144.03", False),
        ("nvidia/cuda:12.4.1-base-ubuntu22.04", "RTX 3060", "535.183.01", False),
        ("nvidia/cuda:12.4.1-base-ubuntu22.04", "RTX 3060", "545.23.08", True),
        ("ubuntu:24.04", "RTX 4090", "550.144.03", False),
    ],
)
def test_an_image_of_cuda_starts_on_geforce_with_the_drivers_that_it_names(
    base: str, gpu: str, driver: str, refused: bool, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\n")
    _, out = run(str(tmp_path), "--gpu", gpu, "--driver", driver, "--format", "json")
    slugs = {one["slug"] for one in json.loads(out)["findings"] if one["severity"] == "error"}
    assert ("image-too-new-for-driver" in slugs) == refused


def test_an_image_of_nvidia_is_judged_by_its_cuda_where_the_matrix_has_it():
    image = "nvcr.io/nvidia/pytorch:25.12-py3"
    row = change(matrix().images.base_image(image), pattern=re.escape(image), cuda="13.1")
    known = Matrix(change(matrix().tables, base_images=(row, *matrix().tables.base_images)))

    def judged(gpu: str, driver: str, more: str = "") -> tuple[str, list[str]]:
        gpus = imagined_machine(Description(gpus=(gpu,), driver=driver), {}, known).gpus
        recipe = read_dockerfile("Dockerfile", f"FROM {image}{more}", known, {}.get, {})
        judgement = judge_recipe(Recipe(known, (recipe,), (), gpus, driver), image_checks())
        return judgement.verdict, [finding.slug for finding in judgement.findings]

    assert judged("RTX 4090", "550.54.15") == ("error", ["image-too-new-for-driver"])
    assert judged("RTX 4090", "590.44.01") == ("ok", [])
    assert judged("H100 PCIe", "550.54.15") == ("ok", [])  # the compatibility library serves it
    other_torch = "\nRUN pip install --force-reinstall torch==2.6.0"
    assert "image-too-new-for-driver" not in judged("RTX 4090", "550.54.15", other_torch)[1]


def test_an_image_of_the_other_vendor_is_told():
    assert told("FROM vllm/vllm-openai:latest", gpu="RX 7900 XTX") == [("image-for-other-cards", "error")]
    assert told("FROM vllm/vllm-openai:rocm6.3", gpu="RTX 4090") == [("image-for-other-cards", "error")]
    assert told("FROM nvidia/cuda:12.4.1-base-ubuntu22.04", gpu="RX 7900 XTX") == [("image-for-other-cards", "error")]


def test_amds_device_code_is_asked_for_with_torch_and_torchvision(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(
        "FROM rocm/dev-ubuntu-24.04:6.4.1\nENV PIP_BREAK_SYSTEM_PACKAGES=1\n"
        "RUN pip install torch==2.9.1 torchvision==0.24.1 --index-url "
        "https://download.pytorch.org/whl/rocm6.4\n"
    )
    _, out = run(str(tmp_path), "--gpu", "RX 6700 XT", "--format", "json")
    written = json.loads(out)["findings"][0]["fixes"][0]["steps"][0]["text"]
    assert "'torch[device-gfx1031]==2.11.0+rocm7.14.0' 'torchvision[device-gfx1031]==0.26.0+rocm7.14.0'" in written


def test_an_image_whose_cuda_the_driver_does_not_serve_is_told():
    text = "FROM nvidia/cuda:13.0.1-base-ubuntu22.04"
    assert told(text, gpu="RTX 4090", driver="550.54.15") == [("image-too-new-for-driver", "error")]
    assert told(text, gpu="RTX 4090", driver="580.95.05") == []
    assert told(text, gpu="H100 PCIe", driver="550.54.15") == []  # the compatibility library serves it


# --- syntax ---------------------------------------------------------------------------------------------


def test_continued_lines_comments_and_the_escape_directive():
    text = "# escape=`\nFROM x\nRUN a `\n  # no\n\n  b\nENV A=1\n"
    assert [(one.line, one.name) for one in parse(text)] == [(2, "FROM"), (3, "RUN"), (7, "ENV")]
    assert parse(text)[1].text.split() == ["a", "b"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no FROM"),
        ("hello world", "'hello' is not an instruction"),
        ("RUN x\nFROM y", "line 1"),
        ("FROM a b", "line 1"),
        ('{"a": 1}', "not an instruction"),
    ],
)
def test_what_is_no_dockerfile_is_told_in_one_line(text: str, said: str):
    with pytest.raises(RecipeError, match=said):
        image_of(text)


@given(st.data())
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_dockerfiles_never_crash(data: st.DataObject):
    texts = [*HEALTHY.values(), *(text for text, _, _ in FAULTY.values())]
    text = data.draw(st.sampled_from(texts))
    at = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 12))
    new = data.draw(
        st.one_of(st.text(max_size=8), st.sampled_from(["\\", "\n", "${", "<<EOF", "'", '"', "&&", "[", "--"]))
    )
    try:
        found = findings(text[:at] + new + text[at + cut :])
    except RecipeError as error:
        assert "\n" not in str(error)
        return
    assert all(one.slug != "check-crashed" for one in found)


# --- compose ----------------------------------------------------------------------------------------------

IMAGE = "image: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime"
RESERVED = "deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}"


def services_told(text: str) -> list[tuple[str, str]]:
    images = []
    for service in read_compose("compose.yaml", text):
        facts = matrix().images.base_image(service.image or "")
        image = Image("compose.yaml", "", service.image, service.line, facts, "linux-x86_64") if facts else None
        images.append(RecipeService(service, image))
    case = Recipe(matrix(), (), tuple(images))
    return [(one.slug, one.severity) for one in judge_recipe(case, image_checks()).findings if one.severity != "note"]


@pytest.mark.parametrize(
    "service",
    [
        f"{{{IMAGE}, {RESERVED}}}",
        f"{{{IMAGE}, gpus: all}}",
        f"{{{IMAGE}, runtime: nvidia}}",
        f"{{{IMAGE}, devices: ['nvidia.com/gpu=all']}}",
        f"{{{IMAGE}, deploy: {{replicas: 0}}}}",
        f"{{{IMAGE}, extends: other}}",
        f"{{{IMAGE}, privileged: true}}",
        "{image: 'rocm/pytorch:latest', devices: ['/dev/kfd', '/dev/dri']}",
        "{image: 'rocm/pytorch:latest', devices: ['/dev/kfd:/dev/kfd', '/dev/dri/renderD128:/dev/dri/renderD128']}",
        "{image: 'postgres:16'}",
        "{image: 'python:3.12-slim'}",
        f"{{{IMAGE}, environment: {{DEVICE: cpu}}}}",
        f"{{{IMAGE}, environment: ['CUDA_VISIBLE_DEVICES=']}}",
        f"{{{IMAGE}, {RESERVED}, environment: ['CUDA_VISIBLE_DEVICES=0,1', NVIDIA_VISIBLE_DEVICES=all]}}",
        f"{{{IMAGE}, {RESERVED}, environment: {{CUDA_VISIBLE_DEVICES: 'GPU-8932f937'}}}}",
        f"{{{IMAGE}, {RESERVED}, environment: {{CUDA_VISIBLE_DEVICES: '${{GPUS:-0}}'}}}}",
    ],
)
def test_services_that_have_what_they_need_are_silent(service: str):
    assert services_told(f"services:\n  a: {service}\n") == []


@pytest.mark.parametrize(
    "service, severity",
    [
        (f"{{{IMAGE}}}", "warning"),
        (f"{{{IMAGE}, deploy: {{resources: {{limits: {{memory: 8g}}}}}}}}", "warning"),
        ("{image: 'rocm/pytorch:latest'}", "warning"),
        ("{image: 'rocm/pytorch:latest', devices: ['/dev/dri']}", "error"),
    ],
)
def test_a_service_without_its_gpu_is_told(service: str, severity: str):
    assert services_told(f"services:\n  a: {service}\n") == [("compose-no-device", severity)]


@pytest.mark.parametrize(
    "variables, severity",
    [
        ("gpus: all, environment: {CUDA_VISIBLE_DEVICES: all}", "error"),
        ("gpus: all, environment: ['CUDA_VISIBLE_DEVICES=\"0\"']", "error"),
        ("gpus: all, environment: ['CUDA_VISIBLE_DEVICES=cuda:0']", "error"),
        ("environment: [CUDA_VISIBLE_DEVICES=all]", "warning"),
    ],
)
def test_a_value_that_hides_the_gpus_by_mistake_is_told(variables: str, severity: str):
    assert services_told(f"services:\n  a: {{image: 'example.com/a:1', {variables}}}\n") == [
        ("compose-hides-gpus", severity)
    ]


def test_a_render_node_without_its_letter_is_told():
    devices = "devices: ['/dev/kfd', '/dev/dri/render128:/dev/dri/render128']"
    text = f"services:\n  a: {{image: 'rocm/pytorch:latest', {devices}}}\n"
    assert services_told(text) == [("compose-device-misnamed", "error")]
    assert services_told(text.replace("render128", "renderD128")) == []


AMD_DEVICES = "devices: ['/dev/kfd', '/dev/dri']"


@pytest.mark.parametrize(
    "service",
    [
        f"{{image: 'vllm/vllm-openai:v0.11.0', {AMD_DEVICES}}}",
        f"{{{IMAGE}, {AMD_DEVICES}}}",
        f"{{image: 'rocm/pytorch:latest', {RESERVED}}}",
        "{image: 'rocm/pytorch:latest', runtime: nvidia}",
        f"{{image: 'ghcr.io/someone/app:1.2-rocm', {RESERVED}}}",
        f"{{image: 'someone/app:v3-cuda12.4', {AMD_DEVICES}}}",
    ],
)
def test_a_service_that_is_given_the_other_vendors_gpus_is_told(service: str):
    assert services_told(f"services:\n  a: {service}\n") == [("compose-other-vendor", "error")]


@pytest.mark.parametrize(
    "service",
    [
        f"{{image: 'vllm/vllm-openai-rocm:v0.11.0', {AMD_DEVICES}}}",
        f"{{image: 'ollama/ollama:rocm', {AMD_DEVICES}}}",
        f"{{{IMAGE}, {AMD_DEVICES}, {RESERVED}}}",
        f"{{{IMAGE}, {AMD_DEVICES}, environment: {{DEVICE: cpu}}}}",
        f"{{{IMAGE}, devices: ['/dev/dxg']}}",
        "{image: 'rocm/pytorch:latest', gpus: all}",
        f"{{image: 'example.com/a:1', {AMD_DEVICES}}}",
        f"{{{IMAGE}, {AMD_DEVICES}, privileged: true}}",
    ],
)
def test_a_service_with_devices_that_may_be_right_is_silent(service: str):
    assert services_told(f"services:\n  a: {service}\n") == []


def test_a_torch_for_the_other_vendor_in_a_service_is_told_once(tmp_path: Path):
    file = tmp_path / "compose.yaml"
    file.write_text(f"services:\n  a: {{build: ., shm_size: 8gb, {AMD_DEVICES}}}\n")
    for base, slug in (
        ("python:3.12", "compose-other-vendor"),
        ("rocm/dev-ubuntu-22.04:6.4", "image-torch-other-vendor"),
    ):
        (tmp_path / "Dockerfile").write_text(f"FROM {base}\nRUN pip install torch==2.9.1\n")
        found = json.loads(run(str(file), "--format", "json")[1])["findings"]
        assert [one["slug"] for one in found if one["severity"] != "note"] == [slug]


def test_a_service_without_its_gpu_is_an_error_where_a_gpu_is_described(tmp_path: Path):
    file = tmp_path / "compose.yaml"
    file.write_text(f"services:\n  a: {{{IMAGE}}}\n")
    assert [run(str(file), *words)[0] for words in ((), ("--gpu", "RTX 4090"))] == [0, 1]


def test_torch_of_the_package_index_alone_asks_for_no_gpu(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text("services:\n  a: {build: .}\n")
    for base, slugs in (("python:3.12-slim", []), ("nvidia/cuda:12.8.1-base-ubuntu22.04", ["compose-no-device"])):
        (tmp_path / "Dockerfile").write_text(f"FROM {base}\nRUN pip install torch==2.9.1\n")
        report = json.loads(run(str(tmp_path), "--format", "json")[1])
        assert [one["slug"] for one in report["findings"] if one["severity"] != "note"] == slugs


def test_a_helper_service_with_the_same_image_needs_no_gpu():
    assert services_told(f"services:\n  train: {{{IMAGE}, gpus: all}}\n  migrate: {{{IMAGE}}}\n") == []


def test_anchors_and_merges_are_followed():
    text = f"x-gpu: &gpu\n  {RESERVED}\nservices:\n  a:\n    <<: *gpu\n    {IMAGE}\n"
    assert services_told(text) == []


def test_a_rocm_service_as_an_ordinary_user_needs_the_groups():
    device = "devices: ['/dev/kfd', '/dev/dri']"
    text = "services:\n  a: {image: 'rocm/pytorch:latest', user: app, " + device
    assert services_told(text + "}\n") == [("compose-device-access", "warning")]
    assert services_told(text + ", group_add: [video, '109']}\n") == []


@pytest.mark.parametrize(
    "user, found",
    [("app", True), ("1000", True), ("1000:1000", True), ("1000:109", False), ("app:render", False), ("0:0", False)],
)
def test_a_users_own_group_counts_where_it_may_be_that_of_the_nodes(user: str, found: bool):
    text = f"services:\n  a: {{image: 'rocm/pytorch:latest', devices: ['/dev/kfd', '/dev/dri'], user: '{user}'}}"
    assert services_told(text) == [("compose-device-access", "warning")] * found


def test_aliases_cannot_blow_up():
    text = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    for bomb in (text + "services: {s: {volumes: *a11}}\n", "services: &s {a: {volumes: [*s]}}\n"):
        with pytest.raises(RecipeError, match="too large"):
            read_compose("compose.yaml", bomb)


def test_a_gpu_from_another_compose_file_of_the_folder_is_no_fault(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text(f"services:\n  a: {{{IMAGE}}}\n")
    strict = (str(tmp_path), "--fail-on", "warning")
    assert run(*strict)[0] == 1
    (tmp_path / "compose.gpu.yaml").write_text(f"services:\n  a: {{{RESERVED}}}\n")
    assert run(*strict)[0] == 0


@given(st.text(max_size=30), st.integers(0, 200))
@settings(max_examples=100)
def test_mutated_compose_files_never_crash(new: str, at: int):
    text = (
        f"services:\n  a: {{{IMAGE}, {RESERVED}}}\n  b:\n    build: {{context: ., args: [A=1]}}\n    shm_size: 8gb\n"
    )
    try:
        told = services_told(text[:at] + new + text[at:])
    except RecipeError:
        return
    assert "check-crashed" not in dict(told)


# --- the command ------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    result = invoked("dockerfile", *arguments)
    return result.return_value, result.stdout


@pytest.mark.parametrize(
    "given, driver",
    [((), ", assumed"), (("--driver", "570.133.07"), "NVIDIA 570.133.07 (open kernel module)")],
)
def test_a_person_sees_the_driver_and_gets_the_same_command_again(
    given: tuple[str, ...], driver: str, tmp_path: Path
):
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.12\nRUN pip install torch==2.6.0\n")
    asked = ["--build-arg", "A=1", "--gpu", "RTX 5090", *given]
    code, text = run(str(file), *asked)
    assert code == 1
    assert next(line for line in text.splitlines() if line.startswith("  driver ")).endswith(driver)
    last = text.splitlines()[-1]
    assert shlex.split(last.removeprefix("Next: "))[2:] == [str(file), *asked]


def test_a_folder_with_both_is_judged_as_one(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(FAULTY["stubs"][0])
    (tmp_path / "compose.yaml").write_text("services:\n  a: {build: .}\n")
    code, text = run(str(tmp_path), "--format", "json")
    report = json.loads(text)
    assert code == 0
    assert [one["slug"] for one in report["findings"]] == ["image-stub-libcuda", "compose-no-device"]
    assert report["findings"][0]["evidence"][0]["source"].endswith("Dockerfile:2")
    assert report["subject"] == {"kind": "whatif", "label": str(tmp_path)}


def test_several_recipes_are_judged_together_and_each_image_once(tmp_path: Path):
    own, other, composed = tmp_path / "Dockerfile", tmp_path / "other.Dockerfile", tmp_path / "compose.yaml"
    for file in (own, other):
        file.write_text(FAULTY["stubs"][0])
    composed.write_text("services:\n  a: {build: .}\n")
    code, text = run(str(own), str(other), str(composed), str(own), "--format", "json", "--fail-on", "warning")
    places = [finding["evidence"][0]["source"] for finding in json.loads(text)["findings"]]
    assert code == 1
    assert sorted(place.rpartition("/")[2] for place in places) == [
        "Dockerfile:2",
        "compose.yaml:2",
        "other.Dockerfile:2",
    ]
    assert f"gpudoctor dockerfile {own} {other}" in run(str(own), str(other))[1].replace("\n", " ")


def test_images_that_are_only_named_are_judged_for_a_described_gpu(tmp_path: Path):
    file = tmp_path / "compose.yaml"
    file.write_text(f"services:\n  a: {{{IMAGE}, gpus: all, shm_size: 8gb}}\n  db: {{image: 'postgres:16'}}\n")
    assert run(str(file), "--gpu", "RTX 4090")[0] == 0
    code, text = run(str(file), "--gpu", "RTX 5090", "--format", "json")
    assert (code, [one["slug"] for one in json.loads(text)["findings"]]) == (1, ["torch-no-arch-for-gpu"])
    file.write_text("services:\n  a: {image: 'registry.example/llm:1', gpus: all}\n  web: {image: 'nginx'}\n")
    assert run(str(file), "--gpu", "RTX 4090")[0] == 3
    assert run(str(file))[0] == 0


def test_a_dockerfile_below_the_working_directory_may_have_that_as_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "docker" / "Dockerfile"
    file.parent.mkdir()
    file.write_text("FROM python:3.12\nCOPY requirements.txt /\nRUN pip install -r /requirements.txt\n")
    (tmp_path / "requirements.txt").write_text("torch==2.6.0+cu124\n")
    assert run(str(file))[0] == 0
    monkeypatch.chdir(tmp_path)
    assert run("docker/Dockerfile")[0] == 1
    (file.parent / "requirements.txt").write_text("torch==2.6.0\n")
    assert run("docker/Dockerfile")[0] == 0
    monkeypatch.chdir(file.parent)
    (file.parent / "requirements.txt").unlink()
    assert run("Dockerfile")[0] == 0


def test_a_file_below_the_working_directory_is_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "Dockerfile"
    file.write_text(FAULTY["stubs"][0])
    monkeypatch.chdir(tmp_path)
    assert "file=sub/Dockerfile,line=2," in run(str(file), "--format", "github")[1]


def test_the_described_gpu_is_judged_with_the_images_torch(tmp_path: Path):
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:3.12-slim\nRUN pip install torch==2.6.0\n")
    code, text = run(str(file), "--gpu", "RTX 5090", "--driver", "580.95.05", "--format", "json")
    (finding,) = json.loads(text)["findings"]
    assert (code, finding["slug"]) == (1, "torch-no-arch-for-gpu")
    assert finding["evidence"][0]["source"].endswith("Dockerfile:2")
    assert "whl/cu128 torch==2.7.0+cu128" in finding["fixes"][0]["steps"][0]["text"]
    assert run(str(file), "--gpu", "RTX 4090", "--driver", "580.95.05")[0] == 0


def test_a_torch_of_the_other_vendor_is_told_once(tmp_path: Path):
    file = tmp_path / "Dockerfile"
    file.write_text(FAULTY["CUDA torch in a ROCm image"][0])
    _, text = run(str(file), "--gpu", "RX 7900 XTX", "--format", "json")
    assert [one["slug"] for one in json.loads(text)["findings"]] == ["cuda-torch-on-amd"]


def test_ignored_by_id_and_fail_on(tmp_path: Path):
    file = tmp_path / "Containerfile"
    file.write_text(FAULTY["override"][0])
    assert run(str(file))[0] == 0
    assert run(str(file), "--fail-on", "warning")[0] == 1
    code, text = run(str(file), "--fail-on", "warning", "--ignore", "image-bakes-gfx-override=one kind of GPU")
    assert code == 0
    assert "one kind of GPU" in text


@pytest.mark.parametrize("content", [b"\xff\xfe", b"hello", b"", b"FROM\n"])
def test_bad_input_is_one_line(tmp_path: Path, content: bytes):
    file = tmp_path / "Dockerfile"
    file.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_recipe(str(file), matrix(), {}, "")
    assert str(error.value).startswith(str(file))
    assert "\n" not in str(error.value)


def test_nothing_outside_the_build_context_is_read(tmp_path: Path):
    (tmp_path / "secret.txt").write_text("torch==2.6.0\n")
    context = tmp_path / "context"
    context.mkdir()
    (context / "link.txt").symlink_to(tmp_path / "secret.txt")
    (context / "Dockerfile").write_text(
        "FROM python:3.12-alpine\nCOPY . /a\nCOPY ../secret.txt /b/secret.txt\n"
        "RUN pip install -r /a/link.txt\nRUN pip install -r /b/secret.txt\n"
    )
    assert run(str(context))[0] == 0


WHEELS = "https://download.pytorch.org/whl"


@pytest.mark.parametrize(
    ("command", "machine", "line"),
    [
        ("torch==2.3.1", {}, "torch==2.5.0"),
        ("torch==2.3.1", {"gpu": "RTX 3060", "driver": "550.120"}, "torch==2.5.0"),
        (
            "torch==2.3.1",
            {"gpu": "RTX 5090", "driver": "580.65.06"},
            f"--index-url {WHEELS}/cu128 torch==2.7.0+cu128",
        ),
        ("torch==2.3.1", {"gpu": "MI300X"}, f"--index-url {WHEELS}/rocm6.2 torch==2.5.0+rocm6.2"),
        (f"torch==2.3.1 --index-url {WHEELS}/cpu", {}, f"torch==2.5.0+cpu --index-url {WHEELS}/cpu"),
        (f"torch==2.3.1 --index-url {WHEELS}/cu121", {}, f"torch==2.5.0+cu121 --index-url {WHEELS}/cu121"),
        (
            f"torch==2.9.1+rocm6.5 --index-url {WHEELS}/rocm6.5",
            {},
            f"torch==2.9.1+rocm6.4 --index-url {WHEELS}/rocm6.4",
        ),
        (f"torch==2.9.1 --index-url {WHEELS}/cu121", {}, f"torch==2.9.1+cu126 --index-url {WHEELS}/cu126"),
    ],
)
def test_a_wheel_that_does_not_exist_gives_way_to_one_of_its_kind(command: str, machine: dict[str, str], line: str):
    (one,) = findings(f"FROM python:3.13-slim\nRUN pip install {command}", **machine)
    assert one.slug == "image-no-torch-wheel"
    assert lines(one) == f"Dockerfile:2: RUN pip install {line}"


@pytest.mark.parametrize(
    ("base", "torch", "reported"),
    [
        ("python:latest", "torch==2.3.1", True),
        ("python", "torch==2.3.1+rocm6.0 --index-url https://download.pytorch.org/whl/rocm6.0", True),
        ("python:3-slim", "torch==2.4.1 --index-url https://download.pytorch.org/whl/cu121", True),
        ("python:latest", "torch==2.12.0", False),
        ("python:latest", "torch", False),
        ("python:3.12-slim", "torch==2.3.1", False),
        ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", "torch==2.3.1", False),
    ],
)
def test_a_tag_that_moves_has_no_python_for_an_old_torch(base: str, torch: str, reported: bool):
    found = [one for one in findings(f"FROM {base}\nRUN pip install {torch}") if one.slug == "image-no-torch-wheel"]
    assert bool(found) is reported
    if reported:
        assert [lines(found[0])] == ["Dockerfile:1: FROM a base with Python 3.12"]
        assert len(found[0].fixes) == 1
