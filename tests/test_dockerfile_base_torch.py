"""The torch of a base image: what a file leaves out so that the image keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_dockerfile import dockerfile_report

REQUIREMENTS = "torch==2.7.1\ntorchvision==0.22.1\ndiffusers==0.35.1\n"
ROCM = "rocm/pytorch:rocm6.4.1_ubuntu24.04_py3.12_pytorch_release_2.6.0"


@pytest.mark.parametrize("base", [ROCM, "rocm/pytorch:latest"])
def test_all_that_brings_another_torch_is_left_out_of_the_file(tmp_path: Path, base: str) -> None:
    """Without torch alone, torchvision would bring the CUDA build back."""
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    lines = (
        f"FROM {base}\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\nRUN pip install vllm==0.8.5\n"
    )
    (tmp_path / "Dockerfile").write_text(lines)
    (finding,) = [one for one in dockerfile_report(tmp_path)["findings"] if one["id"] == "GPD604"]
    (fix,) = finding["fixes"]
    written = fix["steps"][0]["text"]
    assert "requirements.txt:1: leave out torch; the base image has one." in written
    assert "requirements.txt:2: leave out torchvision, which" in written
    assert "Dockerfile:4: leave out vllm, which brings torch 2.6.0" in written


@pytest.mark.parametrize(
    ("base", "gpu", "keeps"),
    [
        (ROCM, "RX 7900 XTX", True),
        (ROCM, "RX 6600", False),
        ("rocm/pytorch:latest", "RX 7900 XTX", True),
        ("rocm/pytorch:latest", "RX 580", False),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "RX 7900 XTX", False),
    ],
)
def test_the_base_images_own_torch_comes_first_where_it_has_code_for_the_gpu(
    tmp_path: Path, base: str, gpu: str, keeps: bool
) -> None:
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    lines = f"FROM {base}\nCOPY requirements.txt .\nRUN pip install -r requirements.txt\n"
    (tmp_path / "Dockerfile").write_text(lines)
    finding = dockerfile_report(tmp_path, "--gpu", gpu)["findings"][0]
    titles = [fix["title"] for fix in finding["fixes"]]
    assert (titles[0] == "Keep the base image's torch") is keeps, titles
    assert len(titles) > 1


@pytest.mark.parametrize(
    ("torch", "keeps"), [("torch>=2.7", False), ("torch>=2.5,!=2.6.0", False), ("torch>=2.5", None)]
)
def test_the_base_images_torch_is_not_kept_where_the_file_requires_a_newer_one(
    tmp_path: Path, torch: str, keeps: bool | None
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {ROCM}\nRUN pip install '{torch}' transformers\n")
    found = [one for one in dockerfile_report(tmp_path)["findings"] if one["id"] == "GPD604"]
    assert [one["fixes"][0]["title"] for one in found] == ["Install the ROCm build"] * (keeps is False)
