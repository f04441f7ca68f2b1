"""What gpudoctor prints on made-up machines: the same everywhere, as none reads the machine that runs it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec

from gpudoctor.intake.snapshot import Snapshot
from gpudoctor.testing import with_torch
from tests.support.environments import shared_library, write_torch, write_venv
from tests.support.fleets import FOR_NVIDIA, KINDS, with_package
from tests.support.hosts import Host

WIDTH = 88
"""Columns of a screen: what a page shows without a scroll bar."""


def workstation(folder: Path) -> dict[str, str]:
    """An RTX 5090, and a torch from before it."""
    host = Host(folder / "workstation").ubuntu().nvidia_gpu("2b85")
    return _root(host.nvidia_driver("570.133.07").torch("2.6.0+cu124"))


def gaming_pc(folder: Path) -> dict[str, str]:
    """An RX 6700 XT, and a torch for ROCm that has no code for it."""
    host = Host(folder / "gaming-pc").ubuntu()
    return _root(host.amd_gpu("73df", 100301).torch("2.9.1+rocm6.4"))


def snapshot(folder: Path) -> dict[str, str]:
    """No machine but machine.json, the snapshot of a laptop whose driver was updated, and which was not rebooted."""
    host = Host(folder / "laptop").ubuntu().nvidia_gpu("28a0")
    root = _root(host.nvidia_driver("570.133.07", libraries="575.57.08").torch("2.9.1+cu128"))
    (folder / "machine.json").write_text(_run(folder, "gpudoctor snapshot", root))
    return {}


def image(folder: Path) -> dict[str, str]:
    """A container whose torch is old. Only what is required of it is judged: the rest of the machine is real."""
    write_torch(write_venv(folder / ".venv"), version="2.4.1+cu124", cuda="12.4", python="3.12")
    return {"GPUDOCTOR_LEVEL": "static", "GPUDOCTOR_SELECT": "requirement-not-met"}


def project(folder: Path) -> dict[str, str]:
    """A folder with a Dockerfile that installs an old torch; the machine below it has no GPU."""
    (folder / "Dockerfile").write_text(
        "FROM ubuntu:22.04\n"
        "RUN apt-get update && apt-get install -y python3-pip\n"
        "RUN pip install torch==2.6.0\n"
        'CMD ["python3", "train.py"]\n'
    )
    return _root(Host(folder / "project").ubuntu())


def container(folder: Path) -> dict[str, str]:
    """A container that was started without its GPU."""
    host = Host(folder / "container").ubuntu().docker()
    host.pci("0000:01:00.0", "10de", "2684", driver="nvidia").torch("2.9.1+cu128")
    return _root(host.file("/sys/module/nvidia/version", "580.95.05\n"))


def jax(folder: Path) -> dict[str, str]:
    """JAX without its GPU plugin beside an RTX 4090."""
    host = Host(folder / "jax").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05")
    return _root(host.package("jax", "0.7.2").package("jaxlib", "0.7.2"))


def wsl(folder: Path) -> dict[str, str]:
    """WSL with the driver of Windows, and a Linux driver that was installed over it."""
    host = Host(folder / "wsl").ubuntu(kernel="5.15.167.4-microsoft-standard-WSL2").node("/dev/dxg")
    host.file("/proc/version", "Linux version 5.15 microsoft\n")
    host.file("/etc/ld.so.conf.d/ld.wsl.conf", "/usr/lib/wsl/lib\n")
    for name in ("libcuda.so.1.1", "libnvidia-ml.so.1", "libdxcore.so"):
        host.file(f"/usr/lib/wsl/lib/{name}", shared_library())
    host.link("/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so.1.1").nvidia_libraries("535.183.01")
    host.environ(LD_LIBRARY_PATH=host.lib)
    host.command(
        "nvidia-smi",
        "| NVIDIA-SMI 580.65.05              Driver Version: 580.88         CUDA Version: 13.0     |\n"
        "|   0  NVIDIA GeForce RTX 4070        On  |   00000000:01:00.0  On |                  N/A |\n",
    )
    return _root(host.torch("2.9.1+cu128"))


def anywhere(folder: Path) -> dict[str, str]:
    """The running machine, with the files and the environment that commands without a screen name."""
    snapshot(folder)
    for name in ("issue.md", "comfyui.log", "ollama.log", "log.txt"):
        (folder / name).write_text(
            "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
        )
    project(folder)
    write_torch(write_venv(folder / "ComfyUI" / "venv"), version="2.6.0+cu124", cuda="12.4", python="3.12")
    return {"VIRTUAL_ENV": str(folder / "ComfyUI" / "venv")}


def fleet(folder: Path) -> dict[str, str]:
    """The folder results/ with snapshots of eight nodes, of which two have another NCCL and one an old torch."""
    nodes = {f"gpu{number:02d}": KINDS["h100"] for number in range(1, 9)}
    nodes["gpu03"] = nodes["gpu07"] = FOR_NVIDIA["package.nvidia-nccl-cu12"](KINDS["h100"])
    old = with_torch(KINDS["h100"], version="1.10.2+cu102", build="cu102", cuda="10.2")
    nodes["gpu05"] = with_package(old, "torch", "1.10.2+cu102")
    (folder / "results").mkdir()
    for name, machine in nodes.items():
        (folder / "results" / f"{name}.json").write_bytes(msgspec.json.encode(Snapshot(machine=machine)))
    return {}


_MACHINES: dict[str, Callable[[Path], dict[str, str]]] = {
    "workstation": workstation,
    "gaming-pc": gaming_pc,
    "snapshot": snapshot,
    "image": image,
    "project": project,
    "container": container,
    "jax": jax,
    "wsl": wsl,
    "anywhere": anywhere,
    "fleet": fleet,
}


@cache
def screen(machine: str, command: str) -> str:
    """What a command line prints on a made-up machine. Raises KeyError for a machine that is not there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return _run(folder, command, _MACHINES[machine](folder)).strip("\n")


def _root(host: Host) -> dict[str, str]:
    """Writes the host, and gives the variable by which every command reads it."""
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    return {"GPUDOCTOR_ROOT": host.root.name}


def _run(folder: Path, command: str, variables: dict[str, str]) -> str:
    program = folder / "bin" / "gpudoctor"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpudoctor "$@"\n')
    program.chmod(0o755)
    environment = {
        "PATH": f"{program.parent}:{os.defpath}",
        "HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "COLUMNS": str(WIDTH),
        **variables,
    }
    ended = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    if ended.returncode in (2, 70, 126, 127):
        raise RuntimeError(f"`{command}` ended with {ended.returncode}: {ended.stdout}")
    return "\n".join(line.rstrip() for line in ended.stdout.splitlines())
