"""Wheels that a command names by their path or address: pip refuses those of another Python or processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_dockerfile import findings, found_for

BASE = "FROM python:3.11-slim\nCOPY wheels /wheels\n"
TORCH = "torch-2.5.1+cu121-{}-linux_x86_64.whl"
ADDRESS = "https://github.com/Dao-AILab/flash-attention/releases/download/v2.7.4.post1/"
FLASH = "flash_attn-2.7.4.post1+cu12torch2.6cxx11abiFALSE-cp312-cp312-linux_x86_64.whl"


def refused(recipe: str) -> list[str]:
    return [one.message for one in findings(recipe) if "pip refuses it" in one.message]


@pytest.mark.parametrize(
    ("command", "made_for"),
    [
        (f"pip install /wheels/{TORCH.format('cp310-cp310')}", "Python 3.10"),
        (f"pip install torch==2.6.0 {ADDRESS}{FLASH}", "Python 3.12"),
        (f"uv pip install --system ./wheels/{TORCH.format('cp313-cp313t')}", "Python 3.13t"),
        ("pip install /wheels/torch-2.5.1-cp311-cp311-manylinux2014_aarch64.whl", "aarch64"),
        ("pip install /wheels/some_tool-1.0-cp311-cp311-win_amd64.whl", "Windows"),
    ],
)
def test_a_wheel_of_another_python_is_told(command: str, made_for: str) -> None:
    (message,) = refused(f"{BASE}RUN {command}")
    assert f"is a wheel for {made_for};" in message


@pytest.mark.parametrize(
    "recipe",
    [
        f"{BASE}RUN pip install /wheels/{TORCH.format('cp311-cp311')}",
        f"{BASE}RUN pip install /wheels/some_tool-1.0-py3-none-any.whl",
        f"{BASE}RUN pip install /wheels/some_tool-1.0-cp38-abi3-manylinux_2_28_x86_64.whl",
        f"{BASE}RUN pip install --target /opt/other /wheels/{TORCH.format('cp310-cp310')}",
        f"FROM ubuntu:22.04\nRUN uv venv --python 3.10 /v\nRUN uv pip install -p /v /w/{TORCH.format('cp310-cp310')}",
        f"FROM mine:1\nRUN pip install /wheels/{TORCH.format('cp310-cp310')}",  # of a Python that is not known
    ],
)
def test_a_wheel_that_pip_may_install_is_fine(recipe: str) -> None:
    assert refused(recipe) == []


def test_the_build_of_a_wheel_file_is_known() -> None:
    recipe = f"{BASE}RUN pip install /wheels/{TORCH.format('cp311-cp311')} torchvision==0.20.1+cu118"
    assert any("torchvision 0.20.1+cu118 is built for cu118" in one.message for one in findings(recipe))


@pytest.mark.parametrize(("torch", "told"), [("2.7.1-cuda12.8", True), ("2.6.0-cuda12.4", False)])
def test_the_torch_that_a_wheel_file_was_compiled_for_is_compared(tmp_path: Path, torch: str, told: bool) -> None:
    base = f"FROM pytorch/pytorch:{torch}-cudnn9-devel\n"
    found = found_for(tmp_path, "H100", f"{base}RUN pip install {ADDRESS}{FLASH.replace('cp312', 'cp311')}\n")
    assert [one["slug"] for one in found] == ["flash-attn-abi"] * told


@pytest.mark.parametrize(
    ("python", "package", "told"),
    [
        ("3.13", "tensorflow[and-cuda]==2.18.1", True),
        ("3.12", "tensorflow[and-cuda]==2.18.1", False),
        ("3.13", "tensorflow==2.20.0", False),
        ("3.13", "tensorflow", False),
        ("3.13", "onnxruntime-gpu==1.19.2", True),
        ("3.13", "cupy-cuda12x==13.3.0", True),
        ("3.13", "jax[cuda12]==0.4.33", True),
        ("3.13", "jax[cuda12]==0.7.2", False),
    ],
)
def test_a_framework_older_than_its_first_wheel_for_that_python(python: str, package: str, told: bool) -> None:
    found = findings(f"FROM python:{python}-slim\nRUN pip install '{package}'\n")
    assert any(f"has no wheel for Python {python}" in one.message for one in found) == told
