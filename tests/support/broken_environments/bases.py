"""The healthy environments that are broken: real wheels from the configured package index."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Base:
    python: str
    requirements: tuple[str, ...]
    machine: tuple[str, ...]
    """The GPU that is described to gpudoctor; empty for CPU builds, which would be called wrong on any."""


NVIDIA = ("--gpu", "RTX 4090", "--driver", "580.82.07")

BASES = {
    "cpu": Base("3.11", ("torch==2.13.0+cpu", "numpy"), ()),
    "cuda-new": Base("3.12", ("torch==2.9.1", "torchvision==0.24.1", "numpy"), NVIDIA),
    "cuda-old": Base("3.11", ("torch==2.5.1", "torchvision==0.20.1", "numpy<2.3", "xformers==0.0.28.post3"), NVIDIA),
    "rocm": Base("3.12", ("jax", "jax-rocm7-plugin", "jax-rocm7-pjrt"), ("--gpu", "RX 7900 XTX")),
}


def made(kind: str, work: Path) -> Path:
    """The base of that kind below `work`, made once and kept."""
    base, place = BASES[kind], work / "bases" / kind
    if not place.exists():
        unfinished = place.with_name(kind + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        subprocess.run([interpreter(base.python), "-m", "venv", unfinished], check=True)
        pip = [unfinished / "bin" / "python", "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *base.requirements], check=True)
        unfinished.rename(place)
    return place


def interpreter(version: str) -> str:
    """Python of that version on PATH, else pyenv's."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = shutil.which(f"python{version}") or (str(kept[-1]) if kept else None)
    if found is None:
        raise SystemExit(f"No python{version} on PATH: give the environment with --base.")
    return found
