"""Releases that came after the matrix: what is not known of them is not said, and nothing replaces them."""

from __future__ import annotations

import pytest

from gpudoctor.matrix.load import load_matrix
from gpudoctor.situation import Situation
from gpudoctor.suites import machine_checks
from tests.support.check_cases import found
from tests.support.machines import amd_gpu, amd_machine, nvidia_gpu, nvidia_machine, torch
from tests.test_described_machines import whatif
from tests.test_dockerfile_frameworks import findings

MATRIX = load_matrix()


def problems(text: str) -> list[str]:
    return [one["slug"] for one in whatif(text)["findings"] if one["severity"] != "note"]


@pytest.mark.parametrize(
    ("gpu", "packages"),
    [
        ("RTX~4090", "jax==0.99.0 jax-cuda14-plugin==0.99.0"),
        ("RX~9070~XT", "jax==0.99.0 jax-rocm11-plugin==0.99.0"),
        ("RTX~4090", "jax==0.4.25 jax-cuda12-plugin==0.4.25"),  # before all that the matrix knows
        ("RTX~4090", "jax==0.4.20 jaxlib==0.4.20+cuda12.cudnn89"),
    ],
)
def test_a_gpu_build_of_jax_without_a_row_is_no_cpu_build(gpu: str, packages: str) -> None:
    assert problems(f"--gpu {gpu} " + " ".join(f"--package {one}" for one in packages.split())) == []


def test_jax_without_any_plugin_is_a_cpu_build_in_every_release() -> None:
    text = "--gpu RTX~4090 --package jax==0.99.0 --package jaxlib==0.99.0"
    assert problems(text) == ["framework-cpu-only"]


@pytest.mark.parametrize(
    "command",
    [
        'pip install "jax[cuda14]==0.99.0"',
        "pip install jax==0.99.0 jax-cuda14-plugin==0.99.0",
    ],
)
def test_an_image_with_a_gpu_build_of_jax_without_a_row_is_silent(command: str) -> None:
    assert findings(f"FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu22.04\nRUN {command}") == []


@pytest.mark.parametrize(
    ("gpu", "package", "slugs"),
    [
        ("B200", "onnxruntime-gpu==1.31.1", ["ext-built-without-gpu-arch"]),
        ("B200", "onnxruntime-gpu==1.99.0", []),
        ("gfx1250", "cupy-rocm-7-0==14.2.0", ["ext-built-without-gpu-arch"]),
        ("gfx1250", "cupy-rocm-7-0==99.0.0", []),
        # What was dropped does not come back.
        ("GTX~1080", "onnxruntime-gpu==1.99.0", ["ext-built-without-gpu-arch"]),
        ("GTX~1080", "cupy-cuda13x==99.0.0", ["ext-built-without-gpu-arch"]),
    ],
)
def test_the_code_of_a_newer_release_is_not_that_of_the_last_known_one(
    gpu: str, package: str, slugs: list[str]
) -> None:
    assert problems(f"--gpu {gpu} --package {package}") == slugs


@pytest.mark.parametrize(
    ("driver", "cuda", "verdict"),
    [
        ("620.70.06", "13.5", "serves"),
        ("615.71.09", "13.4", "serves"),
        ("610.57.04", "13.4", "minor-version"),
        ("580.159.03", "13.9", "minor-version"),
        ("990.10", "13.9", "unknown"),
        ("990.10", "13.5", "serves"),
        ("550.54.15", "13.9", "too-old"),
        ("990.10", "14.0", "unknown"),
    ],
)
def test_whether_a_driver_runs_a_cuda(driver: str, cuda: str, verdict: str) -> None:
    assert MATRIX.nvidia.driver_for_cuda(driver, cuda) == verdict


@pytest.mark.parametrize("version", ["2.99.0+cu139", "2.99.0+cu140"])
def test_a_new_torch_on_a_new_driver_is_only_noted(version: str) -> None:
    machine = nvidia_machine(driver="990.10", torch=torch(version))
    said = [(one.severity, check.slug) for check in machine_checks() for one in check.run(_situation(machine))[0]]
    assert said == [("note", "matrix-older-than-torch")]


def _situation(machine: object) -> Situation:
    return Situation(machine, MATRIX)  # type: ignore[arg-type]


def test_no_older_torch_is_proposed_for_a_gpu_that_came_after_all_cudas() -> None:
    gpu = nvidia_gpu("NVIDIA GeForce RTX 9990", "sm_130")
    (one,) = found(nvidia_machine(gpu, driver="990.10", torch=torch("2.15.0+cu132")), "torch-no-arch-for-gpu")
    assert one.fixes[0].title == "Build torch from source, or use another GPU"
    machine = amd_machine(amd_gpu("AMD Radeon", "gfx1300"), torch=torch("2.14.0+rocm7.14"))
    (one,) = found(machine, "torch-rocm-no-arch-for-gpu")
    assert one.fixes[0].title == "Build torch from source, or use another GPU"


def test_another_python_is_named_in_a_whole_sentence() -> None:
    report = whatif("--gpu RTX~4090 --driver 595.71.05 --torch 2.15.0 --python-version 3.16")
    assert "supports the GPUs here (sm_89 runs its sm_86 code), but has no wheel for Python 3.16" in str(report)


@pytest.mark.parametrize(
    ("torch_here", "package"),
    [
        ("2.9.1+cu128", "vllm==0.17.0"),
        ("2.9.1+cu128", "vllm==0.5.3"),
        ("2.5.1+cu124", "vllm==0.6.2"),
        ("2.9.1+cu128", "xformers==0.0.28.post3"),
        ("2.11.0", "sglang==0.5.10"),
        ("2.12.1", "torchcodec==0.11.1"),
    ],
)
def test_every_release_that_pins_a_torch_is_known(torch_here: str, package: str) -> None:
    (slug, *_) = problems(f"--gpu RTX~4090 --driver 595.71.05 --torch {torch_here} --package {package}")
    assert slug in ("vllm-torch-abi", "xformers-mismatch", "sglang-torch-mismatch", "torchcodec-mismatch")


@pytest.mark.parametrize(
    ("torch_here", "package"),
    [("2.9.1", "vllm==0.14.0"), ("2.13.0", "torchcodec==0.12.0"), ("2.11.0", "sglang==0.5.17")],
)
def test_the_torch_that_a_release_pins_is_right(torch_here: str, package: str) -> None:
    assert problems(f"--gpu RTX~4090 --driver 595.71.05 --torch {torch_here} --package {package}") == []
