"""A Python that belongs to the distribution: pip refuses to install into it, and the build of the image stops."""

from __future__ import annotations

import pytest

from tests.test_dockerfile import findings, lines

APT = "RUN apt-get update && apt-get install -y python3-pip\n"
UBUNTU = "FROM ubuntu:24.04\n" + APT

REFUSED = {
    "Debian 12": "FROM debian:bookworm-slim\n" + APT + "RUN pip3 install torch",
    "Debian 13, python3 -m pip": "FROM debian:trixie\n" + APT + "RUN python3 -m pip install numpy",
    "an image for CUDA": "FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu24.04\n" + APT + "RUN pip install torch==2.9.1",
    "an image for ROCm": "FROM rocm/dev-ubuntu-24.04:6.4\nRUN pip install torch==2.7.0 --index-url "
    "https://download.pytorch.org/whl/rocm6.3",
    "the Python by its version": UBUNTU
    + "RUN apt-get install -y python3.12-dev\nRUN python3.12 -m pip install torch",
    "of the user": UBUNTU + "RUN pip3 install --user torch",
    "uv for the system": UBUNTU + "RUN uv pip install --system torch",
    "uv by a variable": UBUNTU + "ENV UV_SYSTEM_PYTHON=1\nRUN uv pip install torch",
    "pip itself": UBUNTU + "RUN pip3 install --upgrade pip",
    "a requirements file": UBUNTU + "COPY requirements.txt .\nRUN pip install -r requirements.txt",
    "activated in another RUN": UBUNTU + "RUN python3 -m venv /v\nRUN . /v/bin/activate\nRUN pip3 install torch",
    "an ARG of another stage": UBUNTU.replace("\n", " AS a\nARG PIP_BREAK_SYSTEM_PACKAGES=1\n", 1)
    + UBUNTU.replace("\n", "\nCOPY --from=a /a /a\n", 1)
    + "RUN pip3 install torch",
    "another stage": UBUNTU.replace("\n", " AS build\n", 1) + "RUN pip install torch\nFROM python:3.12-slim\n"
    "COPY --from=build /app /app",
}
FINE = {
    "a virtual environment on PATH": UBUNTU + "RUN python3 -m venv /v\nENV PATH=/v/bin:$PATH\nRUN pip install torch",
    "the pip of an environment": UBUNTU + "RUN python3 -m venv /v && /v/bin/pip install torch",
    "a folder in front on PATH": UBUNTU + "ENV PATH=/opt/tools/bin:$PATH\nRUN pip install torch",
    "activated": UBUNTU + "RUN python3 -m venv /v && . /v/bin/activate && pip install torch",
    "the option": UBUNTU + "RUN pip3 install --break-system-packages torch",
    "ENV": UBUNTU + "ENV PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip3 install torch",
    "an ARG": UBUNTU + "ARG PIP_BREAK_SYSTEM_PACKAGES=1\nRUN pip3 install torch",
    "an ARG of the stage that it is built from": "ARG PIP_BREAK_SYSTEM_PACKAGES=1\n"
    + UBUNTU.replace("\n", " AS base\nARG PIP_BREAK_SYSTEM_PACKAGES\n", 1)
    + "FROM base\nRUN pip3 install torch",
    "a variable of the command": UBUNTU + "RUN PIP_BREAK_SYSTEM_PACKAGES=true pip3 install torch",
    "configured": UBUNTU + "RUN pip config set global.break-system-packages true\nRUN pip3 install torch",
    "the mark removed": UBUNTU + "RUN rm /usr/lib/python3*/EXTERNALLY-MANAGED && pip3 install torch",
    "a pip.conf": UBUNTU + "COPY pip.conf /etc/pip.conf\nRUN pip3 install torch",
    "into a folder": UBUNTU + "RUN pip3 install --target /opt/lib torch",
    "another Python": UBUNTU + "RUN apt-get install -y python3.11\nRUN python3.11 -m pip install torch",
    "may fail": UBUNTU + "RUN pip3 install torch || true",
    "conda": UBUNTU + "RUN bash miniforge.sh -b -p /opt/conda\nENV PATH=/opt/conda/bin:$PATH\nRUN pip install torch",
    "an environment of conda": UBUNTU + "COPY --from=build /opt/conda /opt/conda\nRUN /opt/conda/bin/conda run -n a "
    "pip install torch",
    "the environment of another stage": "FROM condaforge/miniforge3 AS build\nRUN conda create -n a python=3.12 && "
    "conda run -n a pip install torch\nFROM debian:bookworm-slim\n"
    "COPY --from=build /opt/conda/envs/a /opt/conda/envs/a",
    "uv in its own environment": UBUNTU + "RUN uv pip install torch",
    "an older Ubuntu": "FROM ubuntu:22.04\n" + APT + "RUN pip3 install torch",
    "Docker's own Python on Debian 12": "FROM python:3.12-slim-bookworm\nRUN pip install torch",
    "a torch of AMD": "FROM rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0\nRUN pip install numpy",
}


def refusals(text: str) -> list[str]:
    return [one.subject for one in findings(text) if one.slug == "image-pip-refused" and one.severity == "error"]


@pytest.mark.parametrize("name", REFUSED)
def test_pip_refuses_the_python_of_the_distribution(name: str) -> None:
    assert len(refusals(REFUSED[name])) == 1


@pytest.mark.parametrize("name", FINE)
def test_another_environment_or_a_permission_is_no_fault(name: str) -> None:
    assert refusals(FINE[name]) == []


def test_a_virtual_environment_is_proposed_with_its_package() -> None:
    finding = next(one for one in findings(UBUNTU + "RUN pip3 install torch") if one.slug == "image-pip-refused")
    assert lines(finding) == (
        "Dockerfile:3: before it\n"
        "RUN apt-get update && apt-get install -y python3-venv && python3 -m venv /opt/venv\n"
        "ENV PATH=/opt/venv/bin:$PATH"
    )
    forced = finding.fixes[1].remedies[0]
    assert forced.text == "Dockerfile:3: RUN pip3 install --break-system-packages torch"  # type: ignore[union-attr]
