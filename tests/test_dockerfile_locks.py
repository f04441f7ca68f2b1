"""`uv sync` in Dockerfiles: the torch of uv.lock, for the extras of the command."""

from __future__ import annotations

import pytest

from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.dockerfile.syntax import RecipeError
from gpudoctor.dockerfile.torch import torch_of
from tests.support.check_cases import matrix
from tests.test_dockerfile import findings, image_of, lines, told

INDEX = "https://download.pytorch.org/whl/"
EXTRA = "extra == 'extra-3-app-{}'"
C126 = EXTRA.format("cu126")
X86, ARM = "platform_machine == 'x86_64'", "platform_machine == 'aarch64'"
BOTH = "(extra == 'extra-3-app-cu126' and extra == 'extra-3-app-cu129')"


def package(name: str, version: str, source: str) -> str:
    return f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ {source} }}\n\n'


def entry(version: str, registry: str, marker: str = "") -> str:
    marked = f', marker = "{marker}"' if marker else ""
    return f'    {{ name = "torch", version = "{version}", source = {{ registry = "{registry}" }}{marked} }},\n'


ONE = (
    'version = 1\n\n[[package]]\nname = "app"\nversion = "0.1.0"\nsource = { virtual = "." }\n'
    'dependencies = [\n    { name = "torch" },\n]\n\n[package.metadata]\nrequires-dist = []\n\n'
    + package("torch", "2.7.0", 'registry = "https://pypi.org/simple"')
)
EXTRAS = (
    'version = 1\n\n[[package]]\nname = "app"\nversion = "0.1.0"\nsource = { editable = "." }\n'
    "dependencies = [\n"
    + entry("2.8.0+cu126", INDEX + "cu126", f"({X86} and {C126}) or {BOTH}")
    + entry("2.8.0+cu129", INDEX + "cu129", f"({ARM} and {C126}) or {EXTRA.format('cu129')} or {BOTH}")
    + "]\n\n[package.optional-dependencies]\n"
    "cpu = [\n"
    + entry("2.8.0", INDEX + "cpu", "sys_platform == 'darwin'")
    + entry("2.8.0+cpu", INDEX + "cpu", "sys_platform != 'darwin'")
    + "]\ncu126 = [\n"
    + entry("2.8.0+cu126", INDEX + "cu126", f"({X86} and {C126}) or {BOTH}")
    + entry("2.8.0+cu129", INDEX + "cu129", f"({ARM} and {C126}) or {BOTH}")
    + "]\ncu129 = [\n"
    + entry("2.8.0+cu129", INDEX + "cu129")
    + "]\n\n"
    + package("torch", "2.8.0+cu126", f'registry = "{INDEX}cu126"')
    + package("torch", "2.8.0+cu129", f'registry = "{INDEX}cu129"')
)
PROJECT = "FROM python:3.12-slim\nWORKDIR /app\nCOPY pyproject.toml uv.lock ./\n"


def torch_in(lock: str, command: str, **arguments: str) -> tuple[str, str] | None:
    held = torch_of(image_of(PROJECT + command, {"uv.lock": lock}, **arguments), matrix())
    return (held.version, held.build) if held is not None else None


@pytest.mark.parametrize(
    ("lock", "command", "torch"),
    [
        (ONE, "RUN uv sync --frozen", ("2.7.0", "cu126")),
        (ONE, "RUN --mount=type=cache,target=/c uv venv && uv sync --locked --no-dev", ("2.7.0", "cu126")),
        (EXTRAS, "RUN uv sync --extra cu126", ("2.8.0", "cu126")),
        (EXTRAS, "RUN uv sync --extra=cu129 --no-install-project", ("2.8.0", "cu129")),
        (EXTRAS, "RUN uv sync --extra cpu", ("2.8.0", "cpu")),
        (EXTRAS, "ARG KIND=cu126\nRUN uv sync --extra ${KIND}", ("2.8.0", "cu126")),
        (EXTRAS, "RUN uv sync", None),
        (EXTRAS, "RUN uv sync --all-extras", None),
        (EXTRAS, "RUN uv sync --extra cu126 --extra cu129", None),
        (EXTRAS, "RUN uv sync --extra ${UNKNOWN}", None),
        (ONE, "RUN uv sync --no-install-package torch", None),
        ("", "RUN uv sync", None),
        ('[[package]]\nname = "torch"\n', "RUN uv sync", None),
    ],
    ids=lambda value: (
        {ONE: "one torch", EXTRAS: "extras", "": "empty"}.get(value) if isinstance(value, str) else None
    ),
)
def test_the_torch_of_the_lock_file(lock: str, command: str, torch: tuple[str, str] | None):
    assert torch_in(lock, command) == torch


def test_an_extra_has_the_build_of_the_platform():
    text = (PROJECT + "RUN uv sync --extra cu126").replace("FROM ", "FROM --platform=linux/arm64 ")
    held = torch_of(image_of(text, {"uv.lock": EXTRAS}), matrix())
    assert held is not None and (held.version, held.build) == ("2.8.0", "cu129")


def test_a_torch_of_the_lock_file_is_not_installed_over_nvidias():
    text = PROJECT.replace("python:3.12-slim", "nvcr.io/nvidia/pytorch:25.10-py3") + "RUN uv sync"
    assert "image-torch-replaced" not in dict(told(text, {"uv.lock": ONE}))


def test_the_project_is_what_a_fix_changes():
    text = PROJECT.replace("python:3.12-slim", "rocm/dev-ubuntu-22.04:6.4") + "RUN uv sync"
    (one,) = [one for one in findings(text, {"uv.lock": ONE}) if one.slug == "image-torch-other-vendor"]
    assert "take torch 2.7.0 from https://download.pytorch.org/whl/rocm" in lines(one)
    assert "pyproject.toml" in lines(one) and "uv lock" in lines(one)
    assert "what it requires must admit torch==2.7.0+rocm" in lines(one)


def test_a_lock_file_is_read_once():
    read: list[str] = []

    def counted(path: str) -> str | None:
        read.append(path)
        return ONE if path == "uv.lock" else None

    text = PROJECT + "RUN uv sync --no-install-project\nCOPY . .\nRUN uv sync\n"
    read_dockerfile("Dockerfile", text, matrix(), counted)
    assert read.count("uv.lock") == 1


def test_a_lock_file_of_a_stranger_costs_little():
    marker = " or ".join(["(extra == 'extra-3-app-a' and python_full_version < '3.9')"] * 60)
    many = "".join(
        entry("2.8.0+cu126", INDEX + "cu126", f"{marker} or extra == 'b{number}'") for number in range(5000)
    )
    lock = ONE.replace('    { name = "torch" },\n', many) + package(
        "torch", "2.8.0", 'registry = "https://a.example"'
    )
    assert torch_in(lock, "RUN uv sync") is None
    assert torch_in(ONE + "#" * (5 << 20), "RUN uv sync") is not None
    with pytest.raises(RecipeError, match="commands that install torch"):
        torch_in(ONE, "RUN uv sync\n" * 300)
