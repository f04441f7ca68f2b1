"""The healthy environments that are broken: real wheels from the configured package index."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.support.made_environments import make_venv_with_pip


@dataclass(frozen=True)
class Base:
    python: str
    """Its release; empty: that of this interpreter."""
    requirements: tuple[str, ...]
    machine: tuple[str, ...]
    """The GPU that is described to gpudoctor; empty for CPU builds, which would be called wrong on any."""
    on: str = ""
    """The base that it begins as a copy of, by hard links: several frameworks then share NVIDIA's libraries."""


NVIDIA = ("--gpu", "RTX 4090", "--driver", "580.82.07")

CUDA_12 = (
    "nvidia-cublas-cu12==12.8.4.1",
    "nvidia-cuda-cupti-cu12==12.8.90",
    "nvidia-cuda-nvrtc-cu12==12.8.93",
    "nvidia-cuda-runtime-cu12==12.8.90",
    "nvidia-cudnn-cu12==9.10.2.21",
    "nvidia-cufft-cu12==11.3.3.83",
    "nvidia-curand-cu12==10.3.9.90",
    "nvidia-cusolver-cu12==11.7.3.90",
    "nvidia-cusparse-cu12==12.5.8.93",
    "nvidia-nccl-cu12==2.27.5",
    "nvidia-nvjitlink-cu12==12.8.93",
    "nvidia-nvshmem-cu12==3.3.20",
)
CUDA_13 = (
    "nvidia-cublas==13.*",
    "nvidia-cuda-cupti==13.*",
    "nvidia-cuda-nvcc==13.*",
    "nvidia-cuda-nvrtc==13.*",
    "nvidia-cuda-runtime==13.*",
    "nvidia-cudnn-cu13==9.*",
    "nvidia-cufft==12.*",
    "nvidia-curand==10.*",
    "nvidia-cusolver==12.*",
    "nvidia-cusparse==12.*",
    "nvidia-nccl-cu13==2.*",
    "nvidia-nvjitlink==13.*",
    "nvidia-nvshmem-cu13==3.*",
)

BASES = {
    "cpu": Base("3.11", ("torch==2.13.0+cpu", "numpy"), ()),
    "cuda-new": Base("3.12", ("torch==2.9.1", "torchvision==0.24.1", "numpy"), NVIDIA),
    "cuda-old": Base("3.11", ("torch==2.5.1", "torchvision==0.20.1", "numpy<2.3", "xformers==0.0.28.post3"), NVIDIA),
    "rocm": Base("3.12", ("jax", "jax-rocm7-plugin", "jax-rocm7-pjrt"), ("--gpu", "RX 7900 XTX")),
    "onnxruntime": Base("", ("onnxruntime", "numpy"), NVIDIA),
    "nvidia-12": Base("3.12", CUDA_12, NVIDIA),
    "nvidia-13": Base("3.12", CUDA_13, NVIDIA),
    "jax-12": Base("3.12", ("jax[cuda12]",), NVIDIA, on="nvidia-12"),
    "jax-13": Base("3.12", ("jax[cuda13]",), NVIDIA, on="nvidia-13"),
    "onnxruntime-12": Base("3.12", ("onnxruntime-gpu==1.22.0", "numpy"), NVIDIA, on="nvidia-12"),
    "onnxruntime-13": Base("3.12", ("onnxruntime-gpu==1.31.1", "numpy"), NVIDIA, on="nvidia-13"),
    "tensorflow": Base("3.12", ("tensorflow[and-cuda]==2.21.0",), NVIDIA, on="nvidia-12"),
    "cupy-12": Base("3.12", ("cupy-cuda12x==14.2.0",), NVIDIA, on="nvidia-12"),
    "cupy-13": Base("3.12", ("cupy-cuda13x==14.2.0",), NVIDIA, on="nvidia-13"),
    "numba-12": Base("3.12", ("numba-cuda[cu12]", "numpy<2.5"), NVIDIA, on="nvidia-12"),
    "numba-13": Base("3.12", ("numba-cuda[cu13]", "numpy<2.5"), NVIDIA, on="nvidia-13"),
    "ctranslate2": Base("3.12", ("ctranslate2==4.8.5",), NVIDIA, on="nvidia-12"),
    "bitsandbytes": Base("3.12", ("bitsandbytes",), NVIDIA, on="cuda-new"),
}


def made(kind: str, work: Path, given: Mapping[str, Path] = MappingProxyType({})) -> Path:
    """The base of that kind: a given one, or one below `work`, made once and kept."""
    if kind in given:
        return given[kind]
    base, place = BASES[kind], work / "bases" / kind
    if not place.exists():
        unfinished = place.with_name(kind + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        if base.on:
            subprocess.run(["cp", "-al", made(base.on, work, given), unfinished], check=True)
        elif base.python:
            subprocess.run([interpreter(base.python), "-m", "venv", unfinished], check=True)
        else:
            make_venv_with_pip(unfinished)
        pip = [unfinished / "bin" / "python", "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *base.requirements], check=True)
        unfinished.rename(place)
    return place


def interpreter(version: str) -> str:
    """pyenv's Python of that version, else the one on PATH; pyenv's own shims there may start none."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = str(kept[-1]) if kept else shutil.which(f"python{version}")
    if found is None:
        raise SystemExit(f"No python{version} on PATH: give the environment with --base.")
    return found
