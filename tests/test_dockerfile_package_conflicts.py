"""Dockerfiles whose packages torch is too old for, and builds of torch that the named indexes do not have."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from tests.test_dockerfile import findings, lines, told

SLIM = "FROM python:3.11-slim\n"
BASE_TORCH = "FROM pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime\n"
CONFLICT, OTHER_TORCH = "image-package-conflict", "image-package-requires-other-torch"


@pytest.mark.parametrize(
    ("recipe", "severity"),
    [
        (SLIM + "RUN pip install torch==2.1.0 numpy==2.1.0", "error"),
        (SLIM + "RUN pip install torch==2.1.0\nRUN pip install 'numpy>=2,<3'", "error"),
        (SLIM + "RUN pip install torch==2.1.0\nRUN uv pip install --system 'numpy~=2.0'", "error"),
        (BASE_TORCH + "RUN pip install numpy==2.0.1", "error"),
        (SLIM + "RUN pip install torch==2.1.0 torchvision==0.16.0 numpy", "warning"),
        (SLIM + "RUN pip install torch==2.1.0\nRUN pip install -U numpy", "warning"),
        (SLIM + "RUN pip install torch==2.1.0 torchvision==0.16.0", "warning"),  # which requires NumPy
        (SLIM + "RUN python -m venv /v\nRUN /v/bin/pip install torch==2.1.0 numpy==2.1.0", "error"),
        (SLIM + "RUN python -m venv /v && /v/bin/pip install numpy==2.1.0\nRUN pip install torch==2.1.0", ""),
        (SLIM + "RUN pip install torch==2.1.0\nRUN pip install --no-deps torchvision==0.16.0", ""),
        (SLIM + "RUN pip install torch==2.1.0 torchvision==0.16.0 transformers", ""),  # which may hold it back
        (SLIM + "RUN pip install torch==2.1.0 torchvision==0.16.0\nRUN pip install -r more.txt", ""),
        (SLIM + "RUN pip install 'numpy<2'\nRUN pip install torch==2.1.0 torchvision==0.16.0", ""),
        ("FROM python:3.8-slim\nRUN pip install torch==2.1.0 torchvision==0.16.0", ""),
        (
            "FROM condaforge/miniforge3\nRUN conda install pytorch==2.1.2 pytorch-cuda=12.1 'numpy>=2' -c pytorch",
            "error",
        ),
        ("FROM condaforge/miniforge3\nRUN conda install pytorch==2.1.2 pytorch-cuda=12.1 numpy=1.26 -c pytorch", ""),
        (SLIM + "RUN pip install torch==2.3.0 numpy==2.1.0", ""),
        (SLIM + "RUN pip install torch==2.1.0 'numpy<2'", ""),
        (SLIM + "RUN pip install torch==2.1.0 numpy==1.26.4", ""),
        (SLIM + "RUN pip install torch==2.1.0 'numpy>=1.24'", ""),
        (SLIM + "RUN pip install numpy==2.1.0\nRUN pip install torch==2.1.0 'numpy<2'", ""),
        (SLIM + "RUN pip install 'numpy<2'\nRUN pip install torch==2.1.0 numpy", ""),
        (SLIM + "RUN pip install torch==2.1.0 numpy scipy==1.10.1", ""),  # which holds NumPy back
        (SLIM + "RUN pip install -c limits.txt torch==2.1.0 numpy", ""),
        (BASE_TORCH + "RUN pip install numpy", ""),  # there already
        (SLIM + "RUN pip install torch numpy==2.1.0", ""),
        (SLIM + "RUN pip install numpy==2.1.0", ""),
    ],
)
def test_a_numpy_that_torch_was_not_built_for(recipe: str, severity: str) -> None:
    found = [one for one in told(recipe) if one[0] == CONFLICT]
    assert found == ([(CONFLICT, severity)] if severity else [])


@pytest.mark.parametrize(
    ("recipe", "severity"),
    [
        (SLIM + "RUN pip install torch==2.6.0\nRUN pip install nvidia-cudnn-cu12==8.9.7.29", "error"),
        (SLIM + "RUN pip install torch==2.6.0 nvidia-cudnn-cu12==8.9.7.29", "error"),
        (BASE_TORCH + "RUN pip install nvidia-cudnn-cu12==9.1.0.70", "error"),
        (SLIM + "RUN pip install torch==2.6.0\nRUN pip install triton==2.1.0", "warning"),
        (SLIM + "RUN pip install torch==2.6.0 triton==2.1.0", "error"),
        (SLIM + "RUN pip install torch==2.6.0 nvidia-cudnn-cu12==9.3.0.75", "error"),
        (SLIM + "RUN pip install torch==2.6.0\nRUN pip install nvidia-cudnn-cu12==9.5.1.17", ""),
        (SLIM + "RUN pip install torch==2.6.0\nRUN pip install triton==3.2.0 nvidia-cudnn-cu12", ""),
        (
            SLIM + "RUN pip install nvidia-cudnn-cu12==8.9.7.29\nRUN pip install torch==2.6.0",
            "",
        ),  # replaced by torch's
        (SLIM + "RUN pip install torch==2.6.0\nRUN pip install nvidia-cudnn-cu11==8.9.6.50", ""),  # of another CUDA
        (SLIM + "RUN pip install nvidia-cudnn-cu12==8.9.7.29", ""),
    ],
)
def test_what_torch_requires_by_its_release(recipe: str, severity: str) -> None:
    found = [one for one in told(recipe) if one[0] == CONFLICT]
    assert found == ([(CONFLICT, severity)] if severity else [])


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("--index-url {}cu128", "image-torch-without-index"),
        ("--extra-index-url {}cu128", "image-torch-without-index"),
        ("--extra-index-url {}cu128 --extra-index-url {}cpu", "image-torch-without-index"),
        ("--index-url {}cu126", ""),
        ("--extra-index-url {}cu126", ""),
        ("--extra-index-url {}cu128 --extra-index-url {}cu126", ""),
        ("--extra-index-url {}cu128 --extra-index-url https://mirror.example/simple", ""),
    ],
)
def test_a_build_is_looked_for_on_the_index_that_is_named(options: str, slug: str) -> None:
    urls = options.format(*["https://download.pytorch.org/whl/"] * 2)
    assert told(f"{SLIM}RUN pip install torch==2.7.0+cu126 {urls}") == ([(slug, "error")] if slug else [])


def test_a_build_that_no_index_has_is_told_with_an_extra_index_too() -> None:
    line = "RUN pip install torch==2.7.0+cu121 --extra-index-url https://download.pytorch.org/whl/cu121"
    assert told(SLIM + line) == [("image-no-torch-wheel", "error")]


def test_a_release_of_two_numbers_is_that_of_three() -> None:
    assert told(SLIM + "RUN pip install torch==2.6 torchvision==0.20") == [(OTHER_TORCH, "error")]
    assert told(SLIM + "RUN pip install torch==2.6 torchvision==0.21") == []


def test_two_commands_of_one_line_are_two_commands() -> None:
    line = "RUN pip install torch==2.4.0 && pip install {}"
    assert told(SLIM + line.format("xformers==0.0.30")) == [(OTHER_TORCH, "warning")]
    assert told(SLIM + line.format("torch==2.4.0 xformers==0.0.30")) == [(OTHER_TORCH, "error")]
    assert told(SLIM + line.format("xformers==0.0.27.post2")) == []


def test_a_package_that_fits_the_proposed_torch_stays() -> None:
    index = "--index-url https://download.pytorch.org/whl/cu128"
    (found,) = findings(SLIM + f"RUN pip install torch==2.8.0+cu126 {index}\nRUN pip install vllm==0.11.0")
    assert "vllm" not in lines(found)


def test_in_a_list_of_packages_the_line_of_the_package_is_changed(tmp_path: Path) -> None:
    listed = tmp_path / "requirements.txt"
    listed.write_text("torch==2.3.1\nvllm==0.5.0\n")
    result = CliRunner().invoke(dockerfile, [str(listed)])
    assert "requirements.txt:1: torch==2.3.0" in result.output
    assert "pip install -r" not in result.output.partition("Fix:")[2]
