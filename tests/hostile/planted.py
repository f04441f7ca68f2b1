"""Secrets and names of people and hosts, planted wherever gpudoctor looks: nothing that it writes may hold one."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from gpudoctor.render.formats import FORMATS
from tests.hostile.inputs import DOCKERFILE
from tests.support.environments import write_distribution
from tests.support.hosts import VENV, Host

DESCRIBED = ("--gpu", "RTX 5090", "--driver", "580.95.05")


class Plant(NamedTuple):
    """What was planted, and the runs that could tell it."""

    kind: str
    secret: str
    runs: tuple[tuple[str, ...], ...]
    folder: Path
    variables: dict[str, str]


class Ground:
    """A recorded machine, a working folder and variables, before anything is planted."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.variables = folder, {"GPUDOCTOR_LEVEL": "static"}
        self.secret = "".join(chance.choice(string.ascii_lowercase) for _ in range(18))
        self.extra: tuple[str, ...] = ()
        self.host = Host(folder / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
        self.host.torch("2.6.0+cu124", companions={"torchvision": "0.21.0+cu124"})
        self.host.environ(VIRTUAL_ENV=VENV, PWD="/work")
        self.dockerfile = DOCKERFILE

    @property
    def url(self) -> str:
        return f"https://alice:{self.secret}@mirror.example/simple"

    def overlay(self, text: str) -> None:
        (self.folder / "overlay.yaml").write_text(text)
        self.extra = (*self.extra, "--matrix", "overlay.yaml")


def variable(ground: Ground, chance: random.Random) -> None:
    name = chance.choice(("PIP_CONSTRAINT", "UV_CONSTRAINT", "PYTHONPATH", "LD_LIBRARY_PATH", "TORCH_CUDA_ARCH_LIST"))
    ground.host.environ(**{name: ground.url})
    ground.variables[name] = ground.url


def unknown_variable(ground: Ground, chance: random.Random) -> None:
    """What is not known to matter: tokens, host names, addresses."""
    names = (
        "TORCH_HOME", "TORCH_HUB_TOKEN", "NCCL_HOSTID", "NCCL_COMM_ID", "NCCL_SOCKET_IFNAME", "CUDA_REGISTRY_LOGIN",
        "NVIDIA_API", "HF_TOKEN", "HIP_MASTER", "ROCM_SITE", "XLA_COORDINATOR", "GPU_OWNER",
    )  # fmt: skip
    name = chance.choice(names)
    ground.host.environ(**{name: ground.secret})
    ground.variables[name] = ground.secret


def requirement(ground: Ground, chance: random.Random) -> None:
    """A project's line; long ones are cut, also in the middle of the secret."""
    padding = "x" * chance.choice((0, 150, 165, 175))
    line = chance.choice((
        f"torch @ https://alice:{padding}{ground.secret}@git.example/torch.whl",
        f"torch @ git+https://{padding}{ground.secret}@git.example/torch.git",
        f"torch==2.6.0 --index-url {ground.url}",
    ))  # fmt: skip
    for folder in (ground.folder, ground.host.path(VENV).parent):
        if chance.random() < 0.5:
            (folder / "requirements.txt").write_text(line + "\n")
        else:
            (folder / "pyproject.toml").write_text(f"[project]\nname = 'a'\ndependencies = [{json.dumps(line)}]\n")


def mirror(ground: Ground, chance: random.Random) -> None:
    ground.overlay(f"wheel_index: {{base: {json.dumps(ground.url)}}}\n")


def direct_url(ground: Ground, chance: random.Random) -> None:
    """Where a package was installed from (PEP 610)."""
    assert ground.host.site is not None
    for info in ground.host.site.glob("torch*.dist-info"):
        (info / "direct_url.json").write_text(json.dumps({"url": ground.url, "vcs_info": {"vcs": "git"}}))


def metadata(ground: Ground, chance: random.Random) -> None:
    assert ground.host.site is not None
    write_distribution(ground.host.site, "xformers", "0.0.28", requires=(f"torch @ {ground.url}", "torch==2.5.0"))


def kernel_log(ground: Ground, chance: random.Random) -> None:
    """Names of people's programs."""
    line = chance.choice((
        f"NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name={ground.secret}, Ch 00000008, intr 00000000",
        f"NVRM: Xid (PCI:0000:01:00): 13, pid=4711, name={ground.secret} main, Graphics Exception",
        f"amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault, for process {ground.secret} pid 9 thread x pid 9",
    ))  # fmt: skip
    ground.host.file("/var/log/dmesg", f"[   12.345678] {line}\n")


def home_folder(ground: Ground, chance: random.Random) -> None:
    ground.host.environ(LD_LIBRARY_PATH=f"/home/{ground.secret}/lib", HOME=f"/home/{ground.secret}")
    ground.host.file(f"/home/{ground.secret}/lib/libcudnn.so.9", b"\x7fELF")


def recipe(ground: Ground, chance: random.Random) -> None:
    index = f"https://alice:{ground.secret}@mirror.example/whl/cu118"
    install = f"RUN pip install torch==2.6.0 --index-url {index}"
    ground.dockerfile = f"FROM python:3.12\nENV HF_TOKEN={ground.secret}\n{install}\n"


def argument(ground: Ground, chance: random.Random) -> None:
    """What a person types, and a message repeats."""
    wrong = chance.choice((
        ("--require", f"gpu>={ground.url}"), ("--select", ground.url), ("--ignore", f"GPD4=see {ground.url}"),
        ("--matrix", ground.url), ("--python", ground.url), ("--os", ground.url), ("--env", f"A={ground.url}"),
    ))  # fmt: skip
    ground.extra = (*ground.extra, *wrong)


PLANTS: tuple[Callable[[Ground, random.Random], None], ...] = (
    variable, unknown_variable, requirement, mirror, direct_url, metadata, kernel_log, home_folder, recipe, argument,
)  # fmt: skip

NAMES = (kernel_log, home_folder)
"""No secrets: who asks for what is private gets them."""


def planted(folder: Path, chance: random.Random) -> Iterator[Plant]:
    """One after the other, each in a folder of its own."""
    number = 0
    while True:
        for plant in PLANTS:
            number += 1
            place = folder / str(number)
            place.mkdir()
            ground = Ground(place, chance)
            plant(ground, chance)
            (place / "Dockerfile").write_text(ground.dockerfile)
            ground.host.file("/gpudoctor-host.json", json.dumps(ground.host.json))
            runs = tuple(words for words in _runs(ground) if plant not in NAMES or "--private" not in words)
            yield Plant(plant.__name__, ground.secret, runs, place, ground.variables)


def _runs(ground: Ground) -> Iterator[tuple[str, ...]]:
    """Every command that could tell it, in every form."""
    extra = ground.extra
    root = ("--root", "root")
    for style in FORMATS:
        form = ("--format", style)
        yield ("check", *root, "-v", *form, "--report-file", f"report.{style}", *extra)
        yield ("check", *DESCRIBED, *form, *extra)
        yield ("preflight", *form, *extra)
        yield ("dockerfile", "Dockerfile", *form, *DESCRIBED, *extra)
    for style in ("text", "json"):
        form = ("--format", style)
        for where in (root, DESCRIBED):
            yield ("fix", "--dry-run", *where, *form, *extra)
            yield ("recommend", *where, *form, *extra)
        yield ("fix", "--history", *form)
    yield ("check", *root, "--format", "json", "--private", *extra)
    yield ("preflight", "-v", *extra, "--", "true")
    yield ("fix", "--shell", *root, *extra)
    yield ("fix", "--shell", *DESCRIBED, *extra)
    yield ("snapshot", *root)
    yield ("snapshot",)
    yield ("env", *root, *extra)
    yield ("matrix", "show", "torch_builds", *extra)
    yield ("scan", "root/opt/venv")
    yield ("check", "--from", "snapshot.json", "-v", *extra)
