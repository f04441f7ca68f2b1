"""torch of one index, torchvision or torchaudio of another: pip keeps both, and the import fails."""

from __future__ import annotations

import pytest

from tests.test_dockerfile import findings, lines

INDEX = "--index-url https://download.pytorch.org/whl/"
SLIM = "FROM python:3.11-slim\n"
CPU = f"{SLIM}RUN pip install torch==2.9.1 {INDEX}cpu\n"

FAULTY = {
    "CPU torch, the newest of the package index": CPU + "RUN pip install torchvision==0.24.1",
    "in a later requirements file": CPU + "RUN pip install numpy torchvision==0.24.1",
    "another major of CUDA": f"{SLIM}RUN pip install torch==2.12.1 {INDEX}cu126\nRUN pip install torchvision==0.27.1",
    "ROCm": f"{SLIM}RUN pip install torch==2.9.1 {INDEX}rocm6.4\nRUN pip install torchvision==0.24.1",
    "uv": f"{SLIM}RUN uv pip install --system torch==2.9.1 {INDEX}cpu\n"
    "RUN uv pip install --system torchvision==0.24.1",
}
FINE = {
    "the same index": CPU + f"RUN pip install torchvision==0.24.1 {INDEX}cpu",
    "one command": f"{SLIM}RUN pip install torch==2.9.1 torchvision==0.24.1 {INDEX}cpu",
    "the same major of CUDA": f"{SLIM}RUN pip install torch==2.9.1 {INDEX}cu126\nRUN pip install torchvision==0.24.1",
    "both of the package index": SLIM + "RUN pip install torch==2.9.1\nRUN pip install torchvision==0.24.1",
    "an extra index, which comes first": CPU + f"RUN pip install torchvision==0.24.1 --extra-{INDEX[2:]}cpu",
    "ENV names the index": f"{SLIM}ENV PIP_INDEX_URL=https://download.pytorch.org/whl/cpu\n"
    "RUN pip install torch==2.9.1\nRUN pip install torchvision==0.24.1",
    "torchvision has its own torch": CPU + "RUN pip install torch==2.9.1 torchvision==0.24.1 --force-reinstall",
}


EXTRA = "--extra-index-url https://download.pytorch.org/whl/"
NAMED = {
    "torchvision of another major": ("torchvision==0.21.0+cu118", "2.6.0", "cu126", "torchvision"),
    "torchaudio of another minor": ("torchaudio==2.6.0+cu124", "2.6.0", "cu126", "torchaudio"),
    "torchaudio for CPUs": ("torchaudio==2.6.0+cpu", "2.6.0", "cu126", "torchaudio"),
}
NAMED_AND_FINE = {
    "torchvision of another minor": ("torchvision==0.21.0+cu124", "2.6.0", "cu126"),
    "the same build": ("torchaudio==2.6.0+cu126", "2.6.0", "cu126"),
    "no build": ("torchaudio==2.6.0", "2.6.0", "cu126"),
}


def _named(companion: str, torch: str, build: str) -> str:
    other = companion.partition("+")[2] or build
    return f"{SLIM}RUN pip install torch=={torch}+{build} {companion} {EXTRA}{build} {EXTRA}{other}"


@pytest.mark.parametrize("name", NAMED)
def test_a_companion_of_another_build_is_told_in_the_command_of_torch(name: str) -> None:
    *recipe, package = NAMED[name]
    (finding,) = (one for one in findings(_named(*recipe)) if one.severity == "error")
    assert f"{recipe[0].replace('==', ' ')} is built for" in finding.message
    assert f"`import {package}` fails" in finding.message
    assert f"{recipe[0].partition('+')[0]}+cu126" in lines(finding) and recipe[0] not in lines(finding)


@pytest.mark.parametrize("name", NAMED_AND_FINE)
def test_a_companion_that_works_beside_that_build_is_fine(name: str) -> None:
    assert [one for one in findings(_named(*NAMED_AND_FINE[name])) if one.severity == "error"] == []


def errors(text: str) -> list[str]:
    found = findings(text)
    return [one.message for one in found if one.severity == "error" and "import torchvision" in one.message]


@pytest.mark.parametrize("name", FAULTY)
def test_a_torchvision_of_another_build_is_told(name: str) -> None:
    assert len(errors(FAULTY[name])) == 1


@pytest.mark.parametrize("name", FINE)
def test_a_torchvision_of_the_same_build_is_fine(name: str) -> None:
    assert errors(FINE[name]) == []


def test_the_index_of_torch_is_proposed() -> None:
    (finding,) = findings(CPU + "RUN pip install torchvision==0.24.1")
    assert lines(finding) == f"Dockerfile:3: RUN pip install {INDEX}cpu torchvision==0.24.1"


def test_one_line_takes_both_from_the_index_of_torch() -> None:
    both = "RUN pip install torchvision==0.22.1 torchaudio==2.7.1"
    found = findings(f"{SLIM}RUN pip install torch==2.7.1 {INDEX}cu118\n{both}")
    proposed = {lines(one) for one in found if one.severity == "error"}
    assert proposed == {f"Dockerfile:3: RUN pip install {INDEX}cu118 torchvision==0.22.1 torchaudio==2.7.1"}


FIRST = f"{SLIM}RUN pip install torch==2.5.1 torchvision==0.20.1 {INDEX}cu124\n"


@pytest.mark.parametrize(
    ("later", "told"),
    [
        (f"pip install torch==2.7.1 {INDEX}cu128", True),
        (f"uv pip install --system torch==2.7.1 {INDEX}cu128", True),
        (f"pip install torch==2.7.1 torchvision==0.22.1 {INDEX}cu128", False),
        ("pip install torch==2.5.1", False),
        (f"python -m venv /v && /v/bin/pip install torch==2.7.1 {INDEX}cu128", False),
        ("pip install -r unknown.txt torch==2.7.1", False),
        (f"pip uninstall -y torch torchvision && pip install torch==2.7.1 {INDEX}cu128", False),
    ],
)
def test_a_torchvision_that_is_left_behind_is_told(later: str, told: bool) -> None:
    found = [one for one in findings(f"{FIRST}RUN {later}") if "stays when this command" in one.message]
    assert [lines(one) for one in found] == [f"Dockerfile:3: RUN {later} torchvision==0.22.1"] * told
