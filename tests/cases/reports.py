"""Real fault reports as hosts: a report's facts become a machine, GPUs by name, the rest healthy.

REPORTS["pytorch-149845"]            the row of `reports.yaml`
host_of("pytorch-149845", folder)    its machine, laid out below the folder
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from tests.cases.shown import SHOWN, WSL
from tests.support.codeobject_files import container, cuda_library
from tests.support.environments import shared_library
from tests.support.hosts import Host

Facts = dict[str, Any]


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What comes out, where it is not an error with the slug of the diagnosis."""

    slug: str = ""
    """Of the first finding; empty: that of the diagnosis."""
    severity: Literal["error", "warning", "note", "none"] = "error"
    """The worst that is found."""
    fix: str = ""
    """What the best fix holds."""
    why: str = ""
    """Why another slug than the diagnosis is right."""


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report, as `README.md` describes it."""

    report: str
    diagnosis: str
    confirmed: Literal["maintainer", "reporter", "participant", "inferred"]
    solved: str = ""
    facts: Facts = {}
    assumed: Facts = {}
    expected: Expected = Expected()
    not_judged: str = ""


def _read() -> dict[str, Report]:
    text = Path(__file__).with_name("reports.yaml").read_text()
    return msgspec.convert(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), dict[str, Report])


REPORTS = _read()
JUDGED = [name for name, report in REPORTS.items() if not report.not_judged]


@cache
def matrix() -> Matrix:
    return load_matrix()


def host_of(name: str, root: Path) -> Host:
    """The machine of a report."""
    report = REPORTS[name]
    facts = {**report.facts, **report.assumed}
    arm = "aarch64" in f"{facts.get('os')} {facts.get('plat')}"
    host = build(Host(root, arch="aarch64" if arm else "x86_64"), facts)
    if name in SHOWN:
        SHOWN[name](host)
    return host


SYSTEMS = {
    "ubuntu": ("ubuntu", "debian"),
    "debian": ("debian", ""),
    "pop!_os": ("pop", "ubuntu debian"),
    "centos": ("centos", "rhel fedora"),
    "oracle": ("ol", "fedora"),
    "opensuse": ("opensuse-leap", "suse opensuse"),
    "arch": ("arch", ""),
    "gentoo": ("gentoo", ""),
    "solus": ("solus", ""),
}
SERVES_CUDA = {"9.1": "390.157", "11.0": "450.80.02", "11.3": "465.31", "11.6": "510.108.03", "12.8": "570.153.02"}
"""A driver of the branch that prints this CUDA version in nvidia-smi."""


def build(host: Host, facts: Facts) -> Host:
    """The machine that the facts describe; everything else is healthy."""
    _system(host, facts)
    names = facts.get("gpu") or []
    for number, name in enumerate([names] if isinstance(names, str) else names):
        _gpu(host, number, name, facts)
    if str(facts.get("container", "")).startswith(("docker", "podman")):
        host.docker()
    _environment(host, facts)
    host.environ(**facts.get("env", {}))
    if re.fullmatch(r"\d[\d.]*", rocm := str(facts.get("rocm", ""))):
        host.file("/opt/rocm/.info/version", f"{rocm}-1\n")
    return host


def _system(host: Host, facts: Facts) -> None:
    text, platform = str(facts.get("os", "Ubuntu 24.04")), str(facts.get("plat", ""))
    wsl = "WSL" in text + platform
    kernel = re.search(r"Linux-(\S+?)-(?:x86_64|aarch64)", platform)
    release = facts.get("kernel") or (kernel[1] if kernel else None)
    release = release or ("5.15.167.4-microsoft-standard-WSL2" if wsl else "6.8.0-60-generic")
    number = (re.search(r"\d+(\.\d+)?", text.partition("WSL")[0]) or ["24.04"])[0]
    host.ubuntu(number, kernel=release)
    named = (row for key, row in SYSTEMS.items() if re.match(key, text.lower()))
    id, like = next(named, SYSTEMS["ubuntu"] if "WSL" in text else ("other", ""))
    host.file("/etc/os-release", f'ID={id}\nID_LIKE="{like}"\nVERSION_ID="{number}"\nPRETTY_NAME="{text}"\n')
    if wsl:
        host.node("/dev/dxg").file("/etc/ld.so.conf.d/ld.wsl.conf", f"{WSL}\n").file(f"{WSL}/libdxcore.so")


def _gpu(host: Host, number: int, name: str, facts: Facts) -> None:
    spoken = re.sub(r"\s*[(\[].*", "", name)
    target = re.search(r"gfx[0-9a-f]+", name) or re.match(r"gfx[0-9a-f]+", facts.get("gfx", ""))
    known = matrix().gpus.gpus_by_name(spoken) or (matrix().gpus.gpus_by_name(target[0]) if target else ())
    assert known, name
    gpu = known[0]
    pci = gpu.pci_id or _pci_of(gpu)
    bdf = f"0000:{number + 1:02x}:00.0"
    if "microsoft" in host.json["uname"]["release"]:
        _gpu_of_windows(host, number, name, gpu.vendor, facts)
    elif gpu.vendor == "amd":
        figures = re.fullmatch(r"gfx(\d+)([0-9a-f])([0-9a-f])", gpu.arch)
        assert figures
        target_version = int(figures[1]) * 10000 + int(figures[2], 16) * 100 + int(figures[3], 16)
        host.amd_gpu(pci[5:], target_version, bdf, node=number + 1, render=128 + number)
    elif facts.get("driver", "") is None:
        host.nvidia_gpu(pci[5:], bdf, driver=None)
    else:
        host.nvidia_gpu(pci[5:], bdf, minor=number, pci_class="0x030200" if gpu.datacenter else "0x030000")
        if number == 0:
            version, flavour = _driver(gpu.arch, facts)
            host.nvidia_driver(version, flavour=flavour)


def _pci_of(gpu: Identity) -> str:
    """A PCI id with that chip or target, for GPUs that are named by these."""
    if gpu.vendor == "nvidia":
        named = [row for row in matrix().tables.nvidia_gpus if row.chip == gpu.chip]
        return f"10de:{next((row for row in named if str(gpu.chip) in row.name), named[0]).pci}"
    return next(f"1002:{row.pci}" for row in matrix().tables.amd_gpus if row.gfx == gpu.arch)


def _driver(arch: str, facts: Facts) -> tuple[str, str]:
    """Version and flavour of the kernel module: as stated, else one that serves the GPU."""
    capability = int(arch.removeprefix("sm_"))
    stated = re.match(r"[\d.]+", facts.get("driver") or "")
    version = stated[0] if stated else SERVES_CUDA.get(facts.get("driver_cuda", "")[:4].strip(), "580.95.05")
    if capability < 50 and not stated:
        version = "470.256.02"
    closed = "proprietary" in facts.get("driver", "") or capability < 75 or int(version.split(".")[0]) < 515
    return version, "proprietary" if closed else "open"


def _gpu_of_windows(host: Host, number: int, name: str, vendor: str, facts: Facts) -> None:
    if vendor == "nvidia" and number == 0:
        host.file(f"{WSL}/libcuda.so.1.1", shared_library(soname="libcuda.so.1"))
        host.link(f"{WSL}/libcuda.so.1", "libcuda.so.1.1").file(f"{WSL}/libnvidia-ml.so.1", shared_library())
        driver = facts.get("driver", "566.36")
        host.command(
            "nvidia-smi",
            f"| NVIDIA-SMI 560.35.02              Driver Version: {driver}         CUDA Version: 12.6     |\n"
            f"|   0  {name}        On  |   00000000:01:00.0  On |                  N/A |\n",
        )
    elif vendor == "amd":
        host.file("/opt/rocm/lib/libhsa-runtime64.so.1", shared_library(soname="libhsa-runtime64.so.1"))


def _environment(host: Host, facts: Facts) -> None:
    libs = [re.fullmatch(r"([\w-]+)==(\S+)", entry) for entry in facts.get("libs", ())]
    packages = {found[1]: found[2] for found in libs if found} | facts.get("packages", {})
    version = facts.get("torch") or packages.get("torch")
    found = re.match(r"3\.(\d+)", facts.get("py", "3.12"))
    python = f"3.{found[1]}" if found else "3.12"
    if version:
        local = version.partition("+")[2]
        cuda = re.match(r"\d+\.\d+", facts.get("cuda", ""))
        hip = re.match(r"rocm(\d+\.\d+)", local)
        archs = facts.get("arch_list", "").split()
        host.torch(
            version,
            cuda=cuda[0] if cuda and not local.startswith("rocm") else None,
            hip=f"{hip[1]}.43482" if hip else None,
            python=python,
            libraries={"libtorch_cuda.so": cuda_library(container(*archs), container(*archs))} if archs else None,
            **({"requires": facts["requires"]["torch"]} if "torch" in facts.get("requires", {}) else {}),
        )
    else:
        host.venv(python)
    for name, number in packages.items():
        requires = facts.get("requires", {}).get(name, ())
        if name != "torch":
            host.package(name, number, requires=requires)
