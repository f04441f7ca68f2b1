"""Images of AMD, and variables in them, on described GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.check_cases import matrix
from tests.test_dockerfile import dockerfile_report, found_for

IMAGE = "FROM rocm/pytorch:rocm{}_ubuntu22.04_py3.10_pytorch_release_{}\n"
OLLAMA = """services:
  ollama:
    image: ollama/ollama:{}
    devices: [/dev/kfd, /dev/dri]
    environment:
      - {}
"""


def first_fix(found: list[dict[str, object]]) -> str:
    return found[0]["fixes"][0]["steps"][0]["text"]  # type: ignore[index, no-any-return]


@pytest.mark.parametrize("gpu", ["RX 7900 XTX", "MI300X", "RX 6800"])
def test_gpus_of_the_rocm_of_an_image_are_silent(tmp_path: Path, gpu: str):
    assert found_for(tmp_path, gpu, IMAGE.format("7.1", "2.8.0")) == []


def test_an_image_without_code_for_the_gpu_gets_the_override_of_its_generation(tmp_path: Path):
    text = IMAGE.format("7.1", "2.8.0")
    found = found_for(tmp_path, "RX 6600", text)
    assert [one["slug"] for one in found] == ["torch-rocm-no-arch-for-gpu"]
    assert "Dockerfile:1: below it: ENV HSA_OVERRIDE_GFX_VERSION=10.3.0" in first_fix(found)
    repaired = found_for(tmp_path, "RX 6600", text + "ENV HSA_OVERRIDE_GFX_VERSION=10.3.0\n")
    assert [one["severity"] for one in repaired] in ([], ["warning"])  # AMD does not support the override


def test_an_image_that_is_older_than_the_gpu_is_an_error(tmp_path: Path):
    first, *_ = found_for(tmp_path, "RX 9070", IMAGE.format("6.1", "2.1.2"))
    assert first["severity"] == "error"
    (one,) = found_for(tmp_path, "MI300X", "FROM rocm/tensorflow:rocm5.4-tf2.11-dev\n")
    assert one["slug"] == "image-for-other-cards"


def test_a_target_that_is_new_in_that_rocm_is_unsure():
    sure, unsure = matrix().amd.image_targets("6.3.1")
    assert "gfx1201" in unsure
    assert "gfx942" in sure
    assert matrix().amd.image_targets("7.14") == ((), ())


def verdict(tmp_path: Path, gpu: str, base: str) -> str:
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\n")
    return str(dockerfile_report(tmp_path, "--gpu", gpu)["verdict"])


@pytest.mark.parametrize(
    ("base", "gpu", "expected"),
    [
        ("rocm/pytorch:latest", "MI300X", "ok"),
        ("rocm/pytorch:latest", "RX 7900 XTX", "ok"),
        ("rocm/pytorch:latest", "RX 6600", "unknown"),
        ("rocm/vllm:latest", "MI300X", "ok"),
        ("rocm/vllm:latest", "RX 6800", "unknown"),
        ("rocm/pytorch:rocm6.3.1_ubuntu22.04_py3.10_pytorch", "MI300X", "ok"),
        ("rocm/pytorch:rocm6.3.1_ubuntu22.04_py3.10_pytorch", "RX 6600", "error"),
        ("rocm/llama.cpp:llama.cpp-b5997_rocm6.4.0_ubuntu24.04_server", "MI300X", "ok"),
        ("ollama/ollama:rocm", "RX 7900 XTX", "ok"),
        ("ollama/ollama:rocm", "RX 6600", "unknown"),
        ("ollama/ollama:0.5.13", "RX 6800", "error"),
    ],
)
def test_images_of_which_no_torch_is_known(tmp_path: Path, base: str, gpu: str, expected: str):
    assert verdict(tmp_path, gpu, base) == expected


@pytest.mark.parametrize("name", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_all_shows_no_gpu(tmp_path: Path, name: str):
    (tmp_path / "compose.yaml").write_text(OLLAMA.format("rocm", f"{name}=all"))
    (one,) = dockerfile_report(tmp_path)["findings"]
    assert (one["slug"], one["severity"]) == ("compose-hides-gpus", "error")
    assert f"leave out {name}" in first_fix([one])
    (tmp_path / "compose.yaml").unlink()
    assert [one["slug"] for one in found_for(tmp_path, "RX 6800", f"FROM ubuntu:24.04\nENV {name}=all\n")] == [
        "image-hides-gpus"
    ]


def test_an_override_is_judged_without_a_torch(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text(OLLAMA.format("rocm", "HSA_OVERRIDE_GFX_VERSION=11.0.0"))
    (one,) = dockerfile_report(tmp_path, "--gpu", "RX 6600")["findings"]
    assert (one["slug"], one["severity"]) == ("hsa-override-wrong", "error")
    assert first_fix([one]).endswith("compose.yaml:6: - HSA_OVERRIDE_GFX_VERSION=10.3.0 in the environment of ollama")
    assert dockerfile_report(tmp_path, "--gpu", "RX 7900 XTX")["verdict"] == "ok"


def test_an_unneeded_override_of_the_same_value_is_silent_on_the_described_gpu(tmp_path: Path):
    text = "FROM ubuntu:24.04\nENV HSA_OVERRIDE_GFX_VERSION=11.0.0\n"
    assert found_for(tmp_path, "RX 7900 XTX", text) == []
    found = found_for(tmp_path, "RX 6600", text)
    assert first_fix(found).endswith("Dockerfile:2: ENV HSA_OVERRIDE_GFX_VERSION=10.3.0")


def test_ollama_for_nvidia_needs_no_gpu(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text("services:\n  ollama:\n    image: ollama/ollama:0.5.13\n")
    assert dockerfile_report(tmp_path)["findings"] == []


@pytest.mark.parametrize(
    ("gpu", "index", "expected"),
    [
        ("RX 9070", "nightly/rocm6.2", ["torch-rocm-no-arch-for-gpu"]),
        ("RX 9070", "nightly/rocm7.2", []),
        ("GTX 1080", "test/cu128", ["torch-dropped-old-gpu"]),
        ("RTX 5090", "test/cu128", []),
    ],
)
def test_an_index_of_nightly_builds_names_its_build(tmp_path: Path, gpu: str, index: str, expected: list[str]):
    version = "==2.7.0" if "cu" in index else ""
    wheels = f"https://download.pytorch.org/whl/{index}"
    text = f"FROM python:3.12-slim\nRUN pip install --pre torch{version} --index-url {wheels}\n"
    assert [one["slug"] for one in found_for(tmp_path, gpu, text)] == expected
