"""Machines that somebody describes: the first slug, the exit code, and that what is proposed would work there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.isa import cuda_runs, gfx_runs
from gpudoctor.matrix.load import load_matrix
from tests.support.environments import shared_library, write_torch, write_venv


def whatif(text: str) -> dict[str, Any]:
    arguments = [part.replace("~", " ") for part in text.split()]
    result = CliRunner().invoke(gpudoctor, ["whatif", "--format", "json", *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    report: dict[str, Any] = json.loads(result.stdout)
    return report


WSL = "--os ubuntu-24.04 --kernel 6.6.87.2-microsoft-standard-WSL2"

# In a description a tilde stands for a blank.
MACHINES = {
    # what fits
    "--gpu RTX~5090 --driver 570.133.07 --torch 2.9.1+cu128": (None, 0),
    "--gpu 4090 --driver 580.95.05 --torch 2.13.0": (None, 0),
    "--gpu NVIDIA~H100~80GB~HBM3 --driver 550.54.15 --torch 2.6.0+cu124": (None, 0),
    "--gpu Tesla~V100-SXM2-16GB --driver 580.95.05 --torch 2.9.1+cu128": (None, 0),
    "--gpu T4 --driver 535.183.01 --torch 2.5.1+cu121": (None, 0),
    "--gpu 10de:20b2 --driver 535.183.01 --torch 2.8.0+cu128": (None, 0),
    "--gpu GTX~1080~Ti --driver 580.95.05 --torch 2.14.1+cu126": (None, 0),
    "--gpu RTX~3090 --gpu RTX~4090 --driver 580.95.05 --torch 2.9.1+cu128": (None, 0),
    "--gpu DGX~Spark --driver 580.95.05 --torch 2.11.0+cu130": (None, 0),
    "--gpu GB10 --driver 580.95.05 --torch 2.13.0+cu130": (None, 0),
    "--gpu B200 --driver 570.133.20 --torch 2.9.1+cu128": (None, 0),
    "--gpu RX~6800 --torch 2.9.1+rocm6.4": (None, 0),
    "--gpu RX~7900~XTX --torch 2.6.0+rocm6.2.4": (None, 0),
    "--gpu MI300X --kernel 5.15.0-125-generic --os ubuntu-22.04 --driver 6.10.5 --torch 2.7.1+rocm6.3": (None, 0),
    "--gpu RX~7900~XTX --kernel 5.14.0-570.12.1.el9_6.x86_64 --os rhel-9.6 --torch 2.9.1+rocm6.4": (None, 0),
    "--gpu MI300X --torch 2.9.1+rocm6.4": (None, 0),
    "--gpu MI210 --torch 2.5.1+rocm6.2": (None, 0),
    "--gpu RX~9070~XT --torch 2.9.1+rocm6.4": (None, 0),
    "--gpu MI50 --torch 2.7.1+rocm6.3": (None, 0),
    # a wheel of vLLM needs the runtime of its own CUDA, which a torch for another one does not bring
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.14.0+cu126 --package vllm==0.33.0": ("vllm-torch-abi", 1),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.11.0+cu128 --package vllm==0.21.0": ("vllm-torch-abi", 1),
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.9.1+cu130 --package vllm==0.14.1": ("vllm-torch-abi", 1),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.11.0+cu129 --package vllm==0.21.0+cu129": (None, 0),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.10.0+cu128 --package vllm==0.19.1": (None, 0),
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.9.1+cu130 --package xformers==0.0.33.post2": (
        None,
        0,
    ),  # any index's
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.14.0+cu130 --package vllm==0.33.0": (None, 0),
    # the distribution of a container says nothing of the kernel
    "--gpu MI355X --os debian-12 --torch 2.14.1+rocm7.14": ("amd-kernel-or-runtime-too-old", 1),
    "--gpu MI355X --os debian-12 --container docker --torch 2.14.1+rocm7.14": (None, 0),
    # which library a release of bitsandbytes has is known of its wheel
    "--gpu A100 --torch 2.14.0+cu130 --package bitsandbytes==0.45.5": ("bitsandbytes-no-cuda-lib", 1),
    "--gpu A100 --torch 2.14.0+cu130 --package bitsandbytes==0.50.2": (None, 0),
    "--gpu A100 --torch 2.9.1+cu128 --package bitsandbytes==0.45.5": (None, 0),
    "--gpu MI300X --torch 2.9.1+rocm6.4 --package bitsandbytes==0.48.2": ("bitsandbytes-no-cuda-lib", 1),
    # AMD's own builds have the code of each GPU in a package, which an extra of torch chooses
    "--gpu RX~6700~XT --torch 2.13.0+rocm7.14.0": (None, 0),
    "--gpu RX~6700~XT --gpu RX~7900~XTX --torch 2.13.0+rocm7.14.0": (None, 0),
    "--gpu RX~480 --torch 2.13.0+rocm7.14.0": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu RX~6700~XT --torch 2.13.0+rocm7.14.0 --package amd-torch-device-gfx1100==2.13.0": (
        "torch-rocm-no-arch-for-gpu",
        1,
    ),
    "--gpu RTX~4090 --driver 580.95.05": (None, 0),
    # the C library of the distribution
    "--gpu RTX~4090 --os centos-7 --torch 2.9.1+cu128": ("torch-import-fails", 1),
    "--gpu RTX~4090 --os alpine-3.20 --torch 2.6.0+cu124": ("torch-import-fails", 1),
    "--gpu RX~7900~XTX --os ubuntu-18.04 --torch 2.9.1+rocm6.4": ("torch-import-fails", 1),
    "--gpu RTX~4090 --os centos-7 --torch 2.5.1+cu124": (None, 0),
    "--gpu RTX~4090 --os debian-10 --torch 2.9.1+cu128": (None, 0),
    # a task of a batch system that hides every GPU runs on the CPU
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.9.1 --env CUDA_VISIBLE_DEVICES= --env SLURM_JOB_ID=17": (None, 0),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.9.1 --env CUDA_VISIBLE_DEVICES= --env RAY_JOB_ID=1": (None, 0),
    "--gpu RX~7900~XTX --torch 2.9.1+rocm6.4 --env ROCR_VISIBLE_DEVICES= --env PBS_JOBID=3": (None, 0),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.9.1 --env CUDA_VISIBLE_DEVICES=": ("cuda-visible-devices", 1),
    "--gpu RTX~4090 --driver 570.133.07 --torch 2.9.1 --env CUDA_VISIBLE_DEVICES=3 --env SLURM_JOB_ID=17": (
        "cuda-visible-devices",
        1,
    ),
    # several GPUs, one of them without code
    "--gpu GTX~1080~Ti --gpu RTX~3090 --driver 570.133.07 --torch 2.9.1": ("torch-dropped-old-gpu", 1),
    "--gpu V100 --gpu V100 --gpu T4 --driver 580.95.05 --torch 2.11.0": ("torch-dropped-old-gpu", 1),
    "--gpu P100 --gpu H100 --driver 570.133.20 --torch 2.9.1": ("torch-dropped-old-gpu", 1),
    "--gpu RTX~3090 --gpu RTX~5090 --driver 580.95.05 --torch 2.6.0": ("torch-no-arch-for-gpu", 1),
    "--gpu 10de:1d01 --gpu RTX~3090 --driver 570.133.07 --torch 2.9.1": (None, 0),
    "--gpu Quadro~P400 --gpu RTX~3090 --driver 570.133.07 --torch 2.9.1": (None, 0),
    "--gpu Quadro~P400 --gpu RTX~3090 --driver 570.133.07 --torch 2.9.1 --env CUDA_DEVICE_ORDER=PCI_BUS_ID": (
        "torch-dropped-old-gpu",
        1,
    ),
    "--gpu GTX~1080~Ti --gpu RTX~3090 --driver 570.133.07 --torch 2.9.1 --env CUDA_DEVICE_ORDER=PCI_BUS_ID "
    "--env CUDA_VISIBLE_DEVICES=1": (None, 0),
    # no code for the GPU
    "--gpu RTX~5090 --driver 570.133.07 --torch 2.6.0+cu124": ("torch-no-arch-for-gpu", 1),
    "--gpu RTX~5070~Ti --driver 580.95.05 --torch 2.8.0+cu126": ("torch-no-arch-for-gpu", 1),
    "--gpu B200 --driver 580.95.05 --torch 2.6.0": ("torch-no-arch-for-gpu", 1),
    "--gpu sm_90 --driver 580.95.05 --torch 1.13.1": ("torch-no-arch-for-gpu", 1),
    "--gpu Jetson~AGX~Orin --driver 540.4.0 --torch 2.11.0": ("torch-no-arch-for-gpu", 1),
    "--gpu GTX~1080~Ti --driver 580.95.05 --torch 2.9.1": ("torch-dropped-old-gpu", 1),
    "--gpu GTX~970 --driver 580.95.05 --torch 2.8.0": ("torch-dropped-old-gpu", 1),
    "--gpu V100 --driver 580.95.05 --torch 2.11.0": ("torch-dropped-old-gpu", 1),
    "--gpu K80 --driver 470.239.06 --torch 2.1.2+cu121 --python-version 3.10": ("torch-dropped-old-gpu", 1),
    "--gpu rx~6700xt --torch 2.9.1+rocm6.4": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu gfx1032 --torch 2.4.1+rocm6.1": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu RX~5700~XT --torch 2.9.1+rocm6.4": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu gfx1151 --torch 2.9.1+rocm6.4": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu MI355X --torch 2.9.1+rocm6.4": ("torch-rocm-no-arch-for-gpu", 1),
    "--gpu MI50 --torch 2.9.1+rocm6.4": ("rocblas-no-arch", 1),
    # the driver
    "--gpu RTX~5090 --driver 570.133.07 --torch 2.13.0+cu130": ("driver-too-old", 1),
    "--gpu RTX~3090 --driver 470.256.02 --torch 2.6.0+cu124": ("driver-too-old", 1),
    "--gpu RTX~5090 --driver 550.163.01 --torch 2.9.1+cu128": ("driver-too-old", 1),
    "--gpu GTX~1080~Ti --driver 590.48.01 --torch 2.9.1+cu126": ("nvidia-driver-dropped-gpu", 1),
    # one that is too old for a GPU matters where that GPU is meant
    "--gpu RTX~5070 --gpu RX~6400 --driver 545.29.06 --torch 2.13.0+rocm7.14.0 "
    "--package amd-torch-device-gfx1034==2.13.0+rocm7.14.0": (None, 0),
    "--gpu RTX~5070 --gpu RX~6400 --driver 545.29.06 --torch 2.9.1": ("driver-too-old", 1),
    "--gpu RTX~5070 --gpu RTX~3090 --driver 545.29.06 --torch 2.9.1": ("driver-too-old", 1),
    # AMD's driver and a ROCm that is older than all that have a row
    "--gpu MI100 --driver 30.10.2 --torch 1.13.1+rocm5.1.1 --python-version 3.9": ("rocm-version-mismatch", 1),
    # inside WSL; from ROCm 7.13 on the runtime looks behind /dev/dxg unless it is told not to
    f"--gpu RX~7900~XTX {WSL} --torch 2.11.0+rocm7.2": ("rocm-wsl-dxg-env", 1),
    f"--gpu RX~7900~XTX {WSL} --torch 2.12.0+rocm7.14.0": (None, 0),
    f"--gpu RX~7900~XTX {WSL} --torch 2.12.0+rocm7.14.0 --env HSA_ENABLE_DXG_DETECTION=0": ("rocm-wsl-dxg-env", 1),
    # the wrong kind
    "--gpu RTX~4070 --driver 580.95.05 --torch 2.13.0+cpu": ("torch-cpu-only", 1),
    "--gpu RX~7900~XTX --torch 2.9.1+cpu": ("torch-cpu-only", 1),
    "--gpu RX~7900~XTX --torch 2.9.1+cu128": ("cuda-torch-on-amd", 1),
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.9.1+rocm6.4": ("torch-wrong-build-or-cpu", 1),
    # packages that need a newer GPU, and the releases that do not
    "--gpu RTX~2080~Ti --torch 2.5.1+cu124 --package flash-attn==2.7.4": ("ext-built-without-gpu-arch", 1),
    "--gpu RTX~2080~Ti --torch 2.5.1+cu124 --package flash-attn==1.0.9": (None, 0),
    "--gpu RTX~3090 --torch 2.5.1+cu124 --package flash-attn==2.7.4": (None, 0),
    "--gpu RTX~5080 --package tensorflow==2.20.0": ("known-issue", 1),
    "--gpu RTX~4090 --package tensorflow==2.20.0": (None, 0),
    # other frameworks, by what the matrix knows of their builds
    "--gpu V100 --package jax==0.12.0.1 --package jax-cuda13-plugin==0.12.0.1": ("ext-built-without-gpu-arch", 1),
    "--gpu V100 --package jax==0.12.0.1 --package jax-cuda12-plugin==0.12.0.1": (None, 0),
    "--gpu RTX~3060 --package jax==0.12.0.1 --package jax-cuda13-plugin==0.12.0.1": (None, 0),
    "--gpu RTX~3060 --gpu V100 --package jax==0.12.0.1 --package jax-cuda13-plugin==0.12.0.1": (None, 0),
    "--gpu Tesla~P4 --package onnxruntime-gpu==1.31.1": ("ext-built-without-gpu-arch", 1),
    "--gpu RTX~5090 --package onnxruntime-gpu==1.31.1": (None, 0),
    "--gpu RX~6600 --package cupy-rocm-7-0==14.2.0": ("ext-built-without-gpu-arch", 1),
    # what computes with torch has code of its own
    "--gpu T4 --torch 2.14.1 --package sglang==0.5.23": ("ext-built-without-gpu-arch", 1),
    "--gpu A100 --torch 2.14.1 --package sglang==0.5.23": (None, 0),
    "--gpu RX~6600 --package cupy-rocm-7-0==14.2.0 --env HSA_OVERRIDE_GFX_VERSION=10.3.0": (None, 0),
    "--gpu RX~6800 --package cupy-rocm-7-0==14.2.0": (None, 0),
    # builds with an issue of their own
    "--gpu RX~7900~XTX --kernel 6.6.87.2-microsoft-standard-WSL2 --env HSA_ENABLE_DXG_DETECTION=1 "
    "--torch 2.12.1+rocm7.2": ("known-issue", 1),
    "--gpu RX~7900~XTX --kernel 6.6.87.2-microsoft-standard-WSL2 --env HSA_ENABLE_DXG_DETECTION=1 "
    "--torch 2.11.0+rocm7.2": (None, 0),
    "--gpu RX~7900~XTX --kernel 6.14.0-30-generic --torch 2.12.1+rocm7.2": (None, 0),
    "--gpu Radeon~8060S --torch 2.13.0a0+rocm7.14.0a20260612": ("known-issue", 1),
    "--gpu Radeon~8060S --torch 2.13.0a0+rocm7.14.0a20260613": (None, 3),
    "--gpu Radeon~8060S --torch 2.12.0a0+rocm7.13.0a20260411": (None, 3),
    # variables
    "--gpu RTX~4090 --driver 580.95.05 --torch 2.9.1+cu128 --env CUDA_VISIBLE_DEVICES=3": ("cuda-visible-devices", 1),
    "--gpu RX~6700~XT --torch 2.9.1+rocm6.4 --env HSA_OVERRIDE_GFX_VERSION=11.0.0": ("hsa-override-wrong", 1),
    # mixed boxes
    "--gpu RTX~5090 --gpu RTX~3090 --driver 580.95.05 --torch 2.9.1+cu126": ("torch-no-arch-for-gpu", 1),
    "--gpu RTX~4090 --gpu GTX~1080~Ti --driver 580.95.05 --torch 2.9.1+cu128": ("torch-dropped-old-gpu", 1),
    "--gpu RTX~4090 --gpu GTX~1080~Ti --driver 580.95.05 --torch 2.9.1+cu126": (None, 0),
    # Blackwell needs the open modules, which refuse Pascal: one driver cannot serve both.
    "--gpu RTX~5090 --gpu GTX~1080~Ti --driver 580.95.05 --torch 2.9.1+cu126": ("open-module-unsupported-gpu", 1),
    "--gpu RTX~4090 --gpu RX~7900~XTX --driver 580.95.05 --torch 2.9.1+cu128": (None, 0),
}


@pytest.mark.parametrize("described", MACHINES)
def test_a_described_machine(described: str) -> None:
    slug, code = MACHINES[described]
    report = whatif(described)
    errors = [(f["slug"], f["message"]) for f in report["findings"] if f["severity"] == "error"]
    assert (errors[0][0] if errors else None) == slug, errors
    assert report["exit_code"] == code, report["not_judged"]
    assert report["subject"]["kind"] == "whatif"


@pytest.mark.parametrize(
    ("described", "problems"),
    [
        # Beside a torch that supports the GPU, bitsandbytes has no code for it.
        ("--gpu MI50 --torch 2.9.1+rocm6.3 --package bitsandbytes==0.50.2", ["ext-built-without-gpu-arch"]),
        (
            "--gpu GTX~980 --torch 2.9.1+cu126 --package bitsandbytes==0.50.2",
            ["ext-built-without-gpu-arch"],
        ),
        (
            "--gpu GTX~980 --torch 2.9.1+cu126 --package bitsandbytes==0.45.5",
            [],
        ),  # not known of it
        ("--gpu GH200 --platform linux/arm64 --torch 2.14.1 --package bitsandbytes==0.50.2", []),
        ("--gpu Jetson~Thor --torch 2.14.1 --package bitsandbytes==0.50.2", []),  # another wheel, not known
        # A driver that has dropped the GPU is the fault, not the maker of the framework's build.
        ("--gpu Tesla~K40m --driver 560.35.05 --package cupy-cuda11x==13.6.0", ["nvidia-driver-dropped-gpu"]),
    ],
)
def test_what_a_framework_is_told_of_a_gpu(described: str, problems: list[str]) -> None:
    found = whatif(described)["findings"]
    assert [one["slug"] for one in found if one["severity"] != "note"] == problems


def test_a_build_of_another_project_has_a_wheel_for_the_python() -> None:
    (found,) = whatif("--gpu RTX~5070 --python-version 3.10 --package onnxruntime-migraphx==1.27.1")["findings"]
    assert found["fixes"][0]["steps"][-1]["argv"][-1] == "onnxruntime-gpu[cuda,cudnn]==1.23.2"


@pytest.mark.parametrize("described", [text for text, (slug, _) in MACHINES.items() if slug and "torch" in slug])
def test_a_proposed_build_exists_and_carries_every_judged_gpu(described: str) -> None:
    report, matrix = whatif(described), load_matrix()
    step = report["findings"][0]["fixes"][0]["steps"][0]
    if step["kind"] != "run":
        pytest.skip(f"no build serves this machine: {step['text'][:60]}")
    spec = next(word for word in step["argv"] if word.startswith("torch"))
    version, _, build = spec.partition("==")[2].partition("+")
    rows = [
        row
        for row in matrix.torch.builds()
        if row.version == version and (row.build == build if build else row.origin == "pypi")
    ]
    assert rows, spec
    python = report["machine"]["environment"]["value"]["python"]["value"]
    assert python in rows[0].pythons
    archs = [gpu["arch"]["value"] for gpu in report["machine"]["gpus"]]
    for arch in archs:
        runs = (
            cuda_runs(arch, rows[0].archs or (), ())
            if arch.startswith("sm_")
            else gfx_runs(arch, rows[0].archs or ())
        )
        assert runs.runs == "yes", (spec, arch)


def test_a_kernel_older_than_the_gpu_takes_a_driver_package_or_is_said_to() -> None:
    described = "--gpu RX~9070~XT --torch 2.9.1+rocm6.4 --kernel"
    (finding,) = whatif(f"{described} 6.8.0-60-generic")["findings"]
    assert (finding["slug"], finding["severity"]) == ("amd-kernel-or-runtime-too-old", "error")
    assert "6.11" in finding["message"]
    for healthy in (
        "6.14.0-24-generic",
        "6.12.41+deb13-amd64",
        "6.4.0-150700.53.11-default",
        "6.8.0-60 --driver 6.12.12",
    ):
        assert whatif(f"{described} {healthy}")["findings"] == []


def test_what_was_not_described_is_assumed_and_said_so() -> None:
    assumed = whatif("--gpu RTX~4090 --torch 2.9.1+cu128")["machine"]["assumed"]
    assert any(text.startswith("NVIDIA driver") for text in assumed)
    assert "Python 3.12" in assumed


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ("--torch 2.9.1", "--gpu"),
        ("--gpu RTX~50900", "RTX 5090"),
        ("--gpu RTX~4090 --torch abc", "not a version"),
        ("--gpu RTX~4090 --torch 2.9.1+cuXYZ", "no build that is known"),
        ("--gpu RTX~4090 --torch 9.9.9", "newest known"),
        ("--gpu RX~7900~XTX --torch 2.12.0+rocm7.13.0", "ROCm 7.13.0 is not known"),
        ("--gpu RTX~4090 --driver -x", "not a version"),
        ("--gpu RTX~4090 --python-version three", "write it like 3.12"),
        ("--gpu RTX~4090 --os ../x", "ubuntu-22.04"),
        ("--gpu RTX~4090 --env NAME", "NAME=VALUE"),
    ],
)
def test_a_description_that_means_nothing_is_bad_input(described: str, told: str) -> None:
    with pytest.raises(Exception, match=told):
        whatif(described)


def test_described_gpus_stand_in_the_place_of_this_machines(tmp_path) -> None:
    from tests.support.hosts import Host, slugs

    host = Host(tmp_path).ubuntu().torch("2.6.0+cu124")
    assert slugs(host.check(), "error") == ["no-gpu"]
    described = host.check("--gpu", "RTX 5090", "--driver", "570.133.07")
    assert slugs(described, "error") == ["torch-no-arch-for-gpu"]
    assert slugs(host.check("--gpu", "H100", "--driver", "550.54.15"), "error") == []


@pytest.mark.parametrize("gpu", ["GH200", "NVIDIA~GB300", "GB10"])
def test_gpus_that_come_with_an_arm_processor(gpu: str) -> None:
    machine = whatif(f"--gpu {gpu} --driver 580.95.05 --torch 2.9.1+cu130")["machine"]
    assert machine["system"]["arch"]["value"] == "aarch64"


@pytest.mark.parametrize(
    ("gpu", "torch", "driver", "release", "slugs"),
    [
        ("H100", "2.4.0+cu121", "525", "525.147.05", []),
        ("H100", "2.4.0+cu121", "525.53", "525.53", ["driver-too-old"]),
        ("H100", "2.4.0+cu121", "520", "520.61.05", ["driver-too-old"]),
        ("RTX~5080", "2.7.0+cu128", "570", "570.211.01", []),
        ("H100", "2.4.0+cu121", "999", "999", []),
    ],
)
def test_a_driver_branch_stands_for_its_newest_release(
    gpu: str, torch: str, driver: str, release: str, slugs: list[str]
) -> None:
    report = whatif(f"--gpu {gpu} --driver {driver} --torch {torch}")
    assert [finding["slug"] for finding in report["findings"] if finding["severity"] != "note"] == slugs
    machine = report["machine"]
    assert machine["nvidia"]["module"]["value"]["version"] == release
    assert (f"NVIDIA driver {release} (branch {driver})" in machine["assumed"]) == (release != driver)


@pytest.mark.parametrize(("driver", "flavour"), [("470.256.02", "proprietary"), ("535.183.01", "open")])
def test_there_are_no_open_modules_before_515(driver: str, flavour: str) -> None:
    module = whatif(f"--gpu T4 --driver {driver} --torch 1.13.1+cu117")["machine"]["nvidia"]["module"]["value"]
    assert module["flavour"] == flavour


def test_a_torch_that_has_no_wheel_for_the_described_python() -> None:
    asked = "--gpu RTX~4090 --driver 580.95.05 --torch 2.8.0+cu128"
    report = whatif(f"{asked} --python-version 3.14")
    assert [finding["slug"] for finding in report["findings"]] == ["torch-wheel-missing"]
    assert "torch==2.9" in " ".join(report["findings"][0]["fixes"][0]["steps"][0]["argv"])
    assert whatif(asked)["findings"] == whatif(f"{asked} --python-version 3.13")["findings"] == []


# --- what a log or an error says of the driver ---


@pytest.mark.parametrize(
    ("gpu", "line", "slug"),
    [
        ("Tesla~P4", "NVRM: installed in this system is not supported by open", "open-module-unsupported-gpu"),
        (
            "RTX~5090",
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
            "blackwell-open-module",
        ),
        (
            "RTX~3060",
            "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
            "secure-boot-module-rejected",
        ),
        ("RTX~3060", "NVRM: GPU 0000:01:00.0 is already bound to NovaCore.", "nouveau-conflict"),
        (
            "Tesla~P40",
            "NVRM: installed in this system is not supported by the NVIDIA 535.104.05 driver release.",
            "vgpu-guest-driver",
        ),
    ],
)
def test_a_line_of_the_log_takes_the_place_of_what_was_assumed(
    gpu: str, line: str, slug: str, tmp_path: Path
) -> None:
    log = tmp_path / "kernel.log"
    log.write_text(f"[    3.5] {line}\n")
    report = whatif(f"--gpu {gpu} --kernel-log {log}")
    assert [finding["slug"] for finding in report["findings"] if finding["severity"] == "error"] == [slug]


def test_a_driver_older_than_the_gpu_refuses_no_vgpu(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    log.write_text("[    3.5] NVRM: installed in this system is not supported by the NVIDIA 535.104.05 driver\n")
    report = whatif(f"--gpu RTX~5090 --driver 535.104.05 --kernel-log {log}")
    (slug, *_) = [finding["slug"] for finding in report["findings"] if finding["severity"] == "error"]
    assert slug != "vgpu-guest-driver"


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ("--driver 590.48.01 --kernel 7.0.0-1011-gcp", True),
        ("--driver 580.119.02 --kernel 7.0.9-1-cachyos", True),
        ("--driver 580.173.02 --kernel 7.0.9-1-cachyos", False),
        ("--driver 595.45.04 --kernel 7.1.0-1-default", True),
        ("--driver 595.45.04 --kernel 7.0.0-28-generic", False),
        ("--driver 590.48.01 --kernel 6.17.0-14-generic", False),
        ("--driver 590.48.01", False),
        ("--kernel 7.0.0-1011-gcp", False),
        ("--driver 590.48.01 --kernel 7.0.0-microsoft-standard-WSL2", False),
    ],
)
def test_a_driver_that_does_not_build_on_the_kernel_is_a_warning(described: str, told: bool) -> None:
    report = whatif(f"--gpu RTX~3080 --torch 2.11.0+cu126 {described}")
    problems = [(f["slug"], f["severity"]) for f in report["findings"] if f["severity"] != "note"]
    assert problems == ([("nvidia-dkms-kernel-mismatch", "warning")] if told else [])
    assert report["exit_code"] == 0


def test_another_torch_is_the_fix_of_a_torch_that_cannot_start() -> None:
    wsl = "--kernel 6.6.87.2-microsoft-standard-WSL2 --env HSA_ENABLE_DXG_DETECTION=1"
    (step, *_) = whatif(f"--gpu RX~7900~XTX {wsl} --torch 2.12.1+rocm7.2")["findings"][0]["fixes"][0]["steps"]
    assert step["kind"] == "run"
    (named,) = [word for word in step["argv"] if word.startswith("torch")]
    version = named.partition("==")[2]
    assert version != "2.12.1+rocm7.2"
    left = whatif(f"--gpu RX~7900~XTX {wsl} --torch {version}")["findings"]
    assert [found["slug"] for found in left if found["severity"] != "note"] == []


def test_a_gpu_that_no_build_of_a_framework_supports_gets_no_other_build() -> None:
    (finding,) = whatif("--gpu RX~6600 --package cupy-rocm-7-0==14.2.0")["findings"]
    (step,) = finding["fixes"][0]["steps"]
    assert (step["kind"], "gfx1032" in step["text"]) == ("manual", True)


def test_a_framework_without_code_for_the_gpu_is_fixed_by_its_other_build() -> None:
    (finding,) = whatif("--gpu V100 --package jax==0.12.0.1 --package jax-cuda13-plugin==0.12.0.1")["findings"]
    assert [step["argv"][-1] for step in finding["fixes"][0]["steps"]] == [
        "jax-cuda13-plugin",
        "jax[cuda12]==0.12.0.1",
    ]


def test_an_error_of_the_program_is_no_fault_of_the_machine() -> None:
    report = whatif("--gpu RTX~4090 --torch 2.10.0+cu128 --error torch.OutOfMemoryError:~CUDA~out~of~memory.")
    assert (report["exit_code"], report["findings"][0]["severity"]) == (0, "note")


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch", "driver-lib-mismatch"),
        ("Failed to initialize NVML: Unknown Error", "container-cgroup-revoked"),
        ('could not select device driver "" with capabilities: [[gpu]]', "container-toolkit-missing"),
        ("cuda driver library init failure: 3", "cuda-init-hmm-kaslr"),
        ("flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105Error", "flash-attn-abi"),
        ("RuntimeError: operator torchvision::nms does not exist", "torchvision-mismatch"),
    ],
)
def test_the_messages_that_are_pasted_most_have_their_cause(text: str, slug: str) -> None:
    report = whatif(f"--gpu RTX~3060 --torch 2.9.1+cu128 --error {text.replace(' ', '~')}")
    assert (report["findings"][0]["slug"], report["exit_code"]) == (slug, 1)


def test_a_toolkit_older_than_the_gpu_compiled_nothing_for_it() -> None:
    report = whatif("--gpu Jetson~Thor --torch 2.8.0+cu128")
    assert report["findings"][0]["slug"] == "torch-no-arch-for-gpu"
    assert "CUDA 13.0 is the first that can" in report["findings"][0]["message"]


def test_amds_own_build_was_published_though_the_index_has_none_of_that_name() -> None:
    slugs = [finding["slug"] for finding in whatif("--gpu gfx1151 --torch 2.9.1+rocm7.1.0")["findings"]]
    assert "torch-wheel-missing" not in slugs


def test_a_driver_that_was_only_described_is_not_said_to_start(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "venv"), version="2.9.1+cu128", cuda="12.8", requires=())
    arguments = ["check", "--gpu", "RTX 4090", "--driver", "580.95.05", "--level", "driver", "--no-color"]
    arguments += ["--python", str(tmp_path / "venv")]
    shown = CliRunner().invoke(gpudoctor, arguments).stdout
    assert shown.startswith("No problem found in files")


def test_a_rocm_build_that_only_amd_may_have_published_is_missing_on_the_index() -> None:
    (finding, *_) = whatif("--gpu MI350X --torch 2.7.1+rocm6.4")["findings"]
    assert finding["slug"] == "torch-wheel-missing"
    assert "on PyTorch's index" in finding["message"]
    (cuda, *_) = whatif("--gpu H100 --torch 2.7.1+cu121")["findings"]
    assert "index" not in cuda["message"]


@pytest.mark.parametrize(("release", "python"), [("5.10.120-tegra", "3.8"), ("5.15.148-tegra", "3.10")])
def test_nvidias_wheels_for_a_jetson_are_named_with_their_python(release: str, python: str) -> None:
    report = whatif(f"--gpu Jetson~AGX~Orin --kernel {release} --torch 2.3.0 --python-version 3.10")
    text = report["findings"][0]["fixes"][0]["steps"][0]["text"]
    assert f"and Python {python}" in text


def test_another_framework_is_not_told_to_install_torch() -> None:
    arguments = ["whatif", "--gpu", "RTX 4090", "--package", "tensorflow==2.19.0"]
    screen = CliRunner().invoke(gpudoctor, arguments, standalone_mode=False).stdout
    assert screen.startswith("No problem found") and "tensorflow 2.19.0" in screen
    assert "pip install" not in screen and screen.rstrip().endswith("Next, on that machine: gpudoctor check")


# --- the kernel that nobody named -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("described", "kernel", "said"),
    [
        ("RTX~4090", "6.8.0", "kernel"),
        ("RX~7900~XTX", "6.8.0", "kernel"),
        ("8060S", "6.9.0", "kernel 6.9"),
        ("RX~9070~XT", "6.11.0", "kernel 6.11"),
        ("RTX~4090 --os debian-12", "6.1.0", "kernel 6.1 of debian-12"),
        ("RX~7900~XTX --os ubuntu-22.04", "6.8.0", "kernel 6.8 of linux-generic-hwe-22.04"),
        ("RX~9070~XT --os ubuntu-24.04", "7.0.0", "kernel 7.0 of linux-generic-hwe-24.04"),
        ("RX~9070~XT --os debian-12", "6.12.0", "kernel 6.12 of linux-image-amd64 of bookworm-backports"),
        ("RX~9070~XT --os rhel-9.4", None, "kernel of rhel-9.4"),
    ],
)
def test_the_assumed_kernel_is_one_that_the_distribution_has_and_that_supports_the_gpu(described, kernel, said):
    report = whatif(f"--gpu {described}")
    system = report["machine"]["system"]
    assert (system["kernel"].get("value"), report["exit_code"]) == (kernel, 0)
    assert report["machine"]["assumed"][0].startswith(said)
    assert [one["slug"] for one in report["findings"]] == ["torch-missing"]


def test_where_no_kernel_of_the_distribution_supports_the_gpu_that_is_the_problem():
    report = whatif("--gpu RX~9070~XT --os debian-11 --torch 2.14.1+rocm7.14")
    assert report["findings"][0]["slug"] == "amd-kernel-or-runtime-too-old"
    assert not any(one.startswith("kernel") for one in report["machine"]["assumed"])


def test_a_jetson_has_the_driver_of_its_own_linux():
    report = whatif("--gpu Jetson~AGX~Orin")
    assert "NVIDIA driver of Jetson Linux" in report["machine"]["assumed"]


def test_no_override_is_offered_beside_the_same_build_with_code_for_the_gpu():
    fixes = first_fixes("--gpu RX~7700~XT --torch 2.9.1+cpu")
    assert [fix for fix in fixes if "HSA_OVERRIDE" in fix] == []
    assert any(
        "HSA_OVERRIDE_GFX_VERSION=11.0.0" in fix for fix in first_fixes("--gpu RX~7700~XT --torch 2.6.0+rocm6.2.4")
    )


def test_an_override_leaves_the_gpus_beside_alone():
    (fix,) = (
        one for one in first_fixes("--gpu RX~7800~XT --gpu MI60 --torch 2.4.0+rocm6.0") if "HSA_OVERRIDE" in one
    )
    assert "HSA_OVERRIDE_GFX_VERSION_1=11.0.0" in fix


def first_fixes(text: str) -> list[str]:
    """The titles of the first problem's fixes."""
    return [fix["title"] for fix in whatif(text)["findings"][0]["fixes"]]


def test_a_driver_with_a_number_of_its_own_is_called_by_it():
    found = whatif("--gpu MI100 --driver 30.10.2 --torch 2.6.0+rocm6.1")["findings"][0]
    assert "the kernel driver is AMD's release 30.10.2" in found["message"]


@pytest.mark.parametrize("torch", ["2.9.1+cpu", "2.9.1+rocm6.4", "2.9.1"])
def test_a_known_issue_of_another_framework_is_told_whatever_torch_is_for(torch):
    found = whatif(f"--gpu RTX~5080 --torch {torch} --package tensorflow==2.20.0 --python-version 3.12")["findings"]
    assert ("error", "nv-tensorflow-sm120") in {(one["severity"], one["subject"]) for one in found}


def test_a_stub_in_the_load_path_of_the_environment_also_hides_the_driver_of_a_described_machine(
    tmp_path: Path,
) -> None:
    """LD_LIBRARY_PATH of an image comes before the driver that the container runtime brings."""
    stubs = tmp_path / "cuda/lib64/stubs"
    stubs.mkdir(parents=True)
    (stubs / "libcuda.so.1").write_bytes(shared_library(soname="libcuda.so.1"))
    write_torch(write_venv(tmp_path / "venv"))
    target = ("--level", "static", "--python", str(tmp_path / "venv"), "--gpu", "RTX 4090", "--driver", "580.65.06")
    for value, slugs in ((str(stubs), ["libcuda-stub"]), (str(tmp_path), [])):
        out = (
            CliRunner()
            .invoke(gpudoctor, ["check", *target, "--format", "json"], env={"LD_LIBRARY_PATH": value})
            .stdout
        )
        found = [one["slug"] for one in json.loads(out)["findings"] if one["severity"] == "error"]
        assert found[:1] == slugs


# --- a driver that does not list the GPU -------------------------------------------------------------

REFUSAL = """\
[    5.981400] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:{device})
               NVRM: installed in this system is not supported by the
               NVRM: NVIDIA {driver} driver release.
               NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'
[    5.982455] nvidia: probe of 0000:01:00.0 failed with error -1
"""


def severe(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["slug"], one["severity"]) for one in report["findings"] if one["severity"] != "note"]


@pytest.mark.parametrize(
    ("gpu", "driver", "first"),
    [
        ("RTX~5060~Ti", "570.133.07", "570.148.08"),
        ("RTX~5060~Ti", "570.144", "570.148.08"),
        ("RTX~5060~Ti", "575.51.03", "575.57.08"),
        ("RTX~5060~Ti", "570.148.08", None),
        ("RTX~5060~Ti", "575.57.08", None),
        ("RTX~5060~Ti", "580.65.06", None),
        ("RTX~5060", "570.144", "570.158.01"),
        ("10de:2d83", "570.181", "575.64.03"),
        ("10de:2d98", "570.172.08", None),
        ("RTX~5070", "570.124.06", "570.133.07"),
        ("GB200", "570.124.06", "570.133.07"),
        ("RTX~PRO~2000~Blackwell", "580.65.06", "580.76.05"),
        ("RTX~PRO~2000~Blackwell", "575.64.05", "580.76.05"),
        ("RTX~5090", "570.86.16", None),
    ],
)
def test_a_described_driver_that_does_not_list_the_gpu_is_a_warning(gpu: str, driver: str, first: str | None) -> None:
    report = whatif(f"--gpu {gpu} --driver {driver}")
    assert severe(report) == ([("driver-too-old", "warning")] if first else [])
    assert [one["want"] for one in report["findings"] if one["severity"] == "warning"] == (
        [f"{first} or newer"] if first else []
    )


@pytest.mark.parametrize("named", ["", "--driver 570.133.07"])
def test_a_driver_that_does_not_list_the_gpu_and_refuses_it_is_too_old(named: str, tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    log.write_text(REFUSAL.format(device="2d04", driver="570.133.07"))
    report = whatif(f"--gpu RTX~5060~Ti {named} --kernel-log {log}")
    assert severe(report) == [("driver-too-old", "error")]
    assert report["findings"][0]["saw"] == "570.133.07"


def test_only_a_part_of_a_data_centre_gpu_is_taken_for_a_vgpu_where_nothing_tells_of_a_guest(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    log.write_text(REFUSAL.format(device="25a0", driver="520.56.06"))
    report = whatif(f"--gpu 10de:25a0 --kernel-log {log}")
    assert severe(report) == [("no-driver", "error")]
    assert "off completely" in report["findings"][0]["fixes"][0]["title"]
    log.write_text(REFUSAL.format(device="20b5", driver="535.104.05"))
    assert severe(whatif(f"--gpu 10de:20b5 --kernel-log {log}")) == [("vgpu-guest-driver", "error")]


def test_a_version_that_was_assumed_is_in_no_problem(tmp_path: Path) -> None:
    log = tmp_path / "kernel.log"
    log.write_text("[    4.2] NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n")
    report = whatif(f"--gpu RTX~5090 --kernel-log {log}")
    (problem,) = (one for one in report["findings"] if one["severity"] == "error")
    assert problem["slug"] == "blackwell-open-module"
    assumed = next(one for one in report["machine"]["assumed"] if one.startswith("NVIDIA driver")).split()[-1]
    assert assumed not in json.dumps(problem)
    assert "of the installed driver" in problem["fixes"][0]["title"]
    known = whatif(f"--gpu RTX~5090 --driver 570.133.07 --kernel-log {log}")
    assert "of driver 570.133.07" in known["findings"][0]["message"]
