"""The lines that `gpudoctor dockerfile` proposes: they replace those of the file, and lose no word."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from gpudoctor.dockerfile.rewriting import TorchIndex, rewritten
from gpudoctor.dockerfile.stages import read_dockerfile
from tests.support.check_cases import matrix

ROCM = "FROM rocm/dev-ubuntu-22.04:6.4\n"
NOBLE = "FROM rocm/dev-ubuntu-24.04:6.4\nENV PIP_BREAK_SYSTEM_PACKAGES=1\n"
SLIM = "FROM python:3.12-slim\n"
URL = "https://download.pytorch.org/whl/rocm6.3"
BOTH = f"--extra-index-url {URL}"
TORCH = "torch==2.7.0+rocm6.3"

LINES = {
    "a command inside a continued one": (
        ROCM + "RUN apt-get update && \\\n    pip install --no-cache-dir torch==2.7.0 transformers accelerate==1.2.0 "
        "&& \\\n    rm -rf /root/.cache",
        f"Dockerfile:3: write:\n    pip install --no-cache-dir {BOTH} {TORCH} transformers accelerate==1.2.0 && \\",
    ),
    "a command that begins as another one": (
        ROCM + "RUN pip install torch==2.7.0 numpy && pip install torch==2.7.0",
        f"Dockerfile:2: RUN pip install torch==2.7.0 numpy && pip install --index-url {URL} {TORCH}",
    ),
    "a package that brings torch": (
        NOBLE + "RUN uv pip install -U accelerate peft && true",
        "Dockerfile:3: RUN uv pip install -U accelerate peft --extra-index-url "
        "https://download.pytorch.org/whl/rocm6.4 --index-strategy unsafe-best-match torch==2.9.1+rocm6.4 && true",
    ),
    "a torchvision that brings torch": (
        NOBLE + "RUN pip install -q torchvision",
        "Dockerfile:3: RUN pip install -q --index-url https://download.pytorch.org/whl/rocm6.4 "
        "torchvision==0.24.1+rocm6.4 torch==2.9.1+rocm6.4",
    ),
    "the index in a variable, an extra of torch": (
        ROCM + "ARG I=https://download.pytorch.org/whl/cu126\n"
        "RUN pip install 'torch[opt-einsum]==2.7.0' -i $I",
        f"Dockerfile:2: ARG I={URL}",
    ),
    "version and index in variables, one of them before FROM": (
        "ARG V=2.7.0\nARG BASE=6.4\nFROM rocm/dev-ubuntu-22.04:${BASE}\nARG V\nENV CUDA=cu126 \\\n    B=1\n"
        "RUN pip install -q torch==${V}+$CUDA --index-url=https://download.pytorch.org/whl/${CUDA}",
        "Dockerfile:5: write:\nENV CUDA=rocm6.3 \\",
    ),
    "an ARG of the stage, over the one before FROM": (
        "ARG I=nothing\n" + ROCM + "ARG I=https://download.pytorch.org/whl/cu126\n"
        "RUN pip install torch==2.7.0 -i ${I}",
        f"Dockerfile:3: ARG I={URL}",
    ),
    "a variable that names the base image, too": (
        "ARG R=6.4\nFROM rocm/dev-ubuntu-22.04:${R:-6.3}\nARG R\n"
        "RUN pip install torch==2.7.0 --index-url https://download.pytorch.org/whl/rocm$R",
        f"Dockerfile:4: RUN pip install torch==2.7.0 --index-url {URL}",
    ),
    "a later command that asks for torch again": (
        ROCM + "RUN pip install --dry-run torch==2.7.0\nRUN pip install torch==2.7.0\n"
        "RUN pip install torch==2.7.0 numpy",
        f"Dockerfile:3: RUN pip install --index-url {URL} {TORCH}\n"
        f"Dockerfile:4: RUN pip install {BOTH} {TORCH} numpy",
    ),
    "the backend of uv in a variable": (
        NOBLE + "ARG B=cu126\nARG V=2.7.0\nRUN UV_TORCH_BACKEND=$B uv pip install torch==${V} numpy",
        "Dockerfile:3: ARG B=rocm6.3",
    ),
    "a comment of the shell": (
        ROCM + "RUN pip install torch==2.7.0 # the torch",
        f"Dockerfile:2: RUN pip install --index-url {URL} {TORCH} # the torch",
    ),
    "a sign at the beginning of the line": (
        ROCM + "RUN apt-get update \\\n && pip3 install -q torch==2.7.0 \\\n && true",
        f"Dockerfile:3: write:\n && pip3 install -q --index-url {URL} {TORCH} \\",
    ),
    "words on several lines, with a comment": (
        ROCM + 'ARG V=2.7.0\nRUN pip install \\\n    "torch==${V}" \\\n    # and more\n    numpy',
        f"Dockerfile:3-6: write:\nRUN pip install {BOTH} \\\n"
        '    "torch==${V}+rocm6.3" \\\n    # and more\n    numpy',
    ),
    "a variable that holds the requirement": (
        ROCM + 'ENV T="torch==2.7.0"\nRUN pip install $T "numpy<3"',
        f'Dockerfile:2: ENV T="{TORCH}"\nDockerfile:3: RUN pip install {BOTH} $T "numpy<3"',
    ),
    "uv takes a package from the first index that has it": (
        ROCM + "RUN uv pip install --system torch==2.7.0 numpy",
        f"Dockerfile:2: RUN uv pip install --system {BOTH} --index-strategy unsafe-best-match {TORCH} numpy",
    ),
    "uv with torch alone": (
        ROCM + "RUN uv pip install --system torch==2.7.0",
        f"Dockerfile:2: RUN uv pip install --system --index-url {URL} {TORCH}",
    ),
    "uv with a backend of the environment": (
        ROCM + "ENV UV_TORCH_BACKEND=cu126\nRUN uv pip install torch==2.7.0 numpy",
        f"Dockerfile:3: RUN uv pip install --torch-backend=rocm6.3 {TORCH} numpy",
    ),
    "another index of torch makes way, a mirror stays": (
        ROCM + "RUN pip install --index-url https://download.pytorch.org/whl/cu126 --extra-index-url "
        "https://mirror.example/simple torch==2.7.0 > /log 2>&1",
        f"Dockerfile:2: RUN pip install --index-url {URL} --extra-index-url https://mirror.example/simple {TORCH} "
        "> /log 2>&1",
    ),
    "the exec form": (
        ROCM + 'RUN ["pip", "install", "--no-cache-dir", "torch==2.7.0"]',
        f"Dockerfile:2: RUN pip install --no-cache-dir --index-url {URL} {TORCH}",
    ),
    "a here-document": (
        ROCM + "RUN <<EOF\nset -e\npip install -U torch==2.7.0 numpy\nEOF",
        f"Dockerfile:4: write:\npip install -U {BOTH} {TORCH} numpy",
    ),
    "a text for a shell": (
        ROCM + 'RUN bash -lc "source /v/bin/activate && pip install torch==2.7.0 numpy"',
        f'Dockerfile:2: RUN bash -lc "source /v/bin/activate && pip install {BOTH} {TORCH} numpy"',
    ),
    "companions where they stand": (
        ROCM + "RUN pip install torch==2.7.0 torchvision numpy\nRUN pip install --no-cache-dir torchaudio",
        f"Dockerfile:2: RUN pip install {BOTH} {TORCH} torchvision==0.22.0+rocm6.3 numpy\n"
        f"Dockerfile:3: RUN pip install --no-cache-dir --index-url {URL} torchaudio==2.7.0+rocm6.3",
    ),
    "another framework": (
        "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu24.04\nRUN apt-get update \\\n"
        " && pip3 install --break-system-packages -q onnxruntime-gpu numpy==1.26.4 && true",
        "Dockerfile:3: write:\n"
        " && pip3 install --break-system-packages -q onnxruntime-gpu==1.26.0 numpy==1.26.4 && true",
    ),
    "a package that is gone": (
        SLIM + "RUN apt-get update && pip install -q tensorflow-gpu==2.12.0 keras",
        "Dockerfile:2: RUN apt-get update && pip install -q 'tensorflow[and-cuda]==2.21.0' keras",
    ),
    "a package that is built against torch": (
        "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel\n"
        "RUN uv pip install --system flash-attn==2.8.0 einops && true",
        "Dockerfile:2: RUN uv pip install --system einops && uv pip install --system --no-build-isolation "
        "flash-attn==2.8.0 && true",
    ),
    "the torch of the base image is kept": (
        "FROM pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime\nRUN pip install --no-cache-dir xformers && true",
        "Dockerfile:2: RUN pip install --no-cache-dir xformers torch==2.5.1 && true",
    ),
    "a release for the torch that is there": (
        SLIM + "RUN pip install torch==2.7.0\nRUN pip install --no-cache-dir xformers && true",
        "Dockerfile:3: RUN pip install --no-cache-dir xformers==0.0.30 && true",
    ),
}  # fmt: skip


def report(folder: Path, text: str, *options: str) -> dict[str, object]:
    (folder / "Dockerfile").write_text(text + "\n")
    result = CliRunner().invoke(dockerfile, [str(folder / "Dockerfile"), "--format", "json", *options])
    found: dict[str, object] = json.loads(result.stdout)
    return found


def fixes(folder: Path, text: str, *options: str) -> list[str]:
    found = report(folder, text, *options)["findings"]
    steps = [one["fixes"][0]["steps"] for one in found if one["severity"] != "note"]  # type: ignore[attr-defined]
    return [step["text"].replace(f"{folder}/", "") for one in steps for step in one]


@pytest.mark.parametrize("case", LINES)
def test_a_proposed_line_keeps_the_instruction_and_its_other_words(tmp_path: Path, case: str):
    text, wanted = LINES[case]
    assert fixes(tmp_path, text) == [wanted]


@pytest.mark.parametrize("case", [case for case in LINES if LINES[case][0].startswith(ROCM)])
def test_the_file_with_the_proposed_lines_is_in_order(tmp_path: Path, case: str):
    text, proposed = LINES[case]
    assert fixes(tmp_path, with_the_lines(text, proposed)) == []


def with_the_lines(text: str, proposed: str) -> str:
    """A file with the lines that a fix proposes."""
    lines: list[str | None] = list(text.splitlines())
    for part in re.split(r"^(?=Dockerfile:\d)", proposed, flags=re.MULTILINE):
        place = re.match(r"Dockerfile:(\d+)(?:-(\d+))?: (?:write:\n)?", part)
        if place is not None:
            first, last = int(place[1]), int(place[2] or place[1])
            lines[first - 1 : last] = [part[place.end() :].removesuffix("\n"), *[None] * (last - first)]
    return "\n".join(line for line in lines if line is not None)


def test_a_package_that_requires_its_torch_gets_the_release_for_the_new_one(tmp_path: Path):
    text = SLIM + "RUN pip install xformers==0.0.29.post1 \\\n      torch==2.5.1 \\\n      numpy # all"
    (fix,) = fixes(tmp_path, text, "--gpu", "RTX 5090")
    assert fix == (
        "Dockerfile:2-4: write:\nRUN pip install --index-url https://download.pytorch.org/whl/cu128 xformers==0.0.30 "
        "\\\n      torch==2.7.0+cu128 && pip install \\\n      numpy # all"
    )
    assert not fixes(tmp_path, with_the_lines(text, fix), "--gpu", "RTX 5090")


@pytest.mark.parametrize("listed", [True, False])
def test_such_a_package_beside_a_requirements_file(tmp_path: Path, listed: bool):
    more = "xformers==0.0.29.post1\n" if listed else ""
    (tmp_path / "requirements.txt").write_text(f"torch==2.5.1\n{more}")
    text = SLIM + "COPY requirements.txt .\nRUN pip install -r requirements.txt"
    text += "" if listed else "\nRUN pip install --no-deps xformers==0.0.29.post1"
    found = fixes(tmp_path, text, "--gpu", "RTX 5090")[0]
    wanted = (
        "requirements.txt:2: xformers==0.0.30" if listed else "Dockerfile:4: RUN pip install --no-deps xformers=="
    )
    assert "requirements.txt:1: torch==2.7.0+cu128" in found and wanted in found


def test_the_variables_of_a_copied_stage_are_its_own(tmp_path: Path):
    text = (
        "FROM python:3.12-slim AS base\nARG V=2.6.0\nFROM python:3.12-slim AS build\nARG V=2.5.1\n"
        "RUN python -m venv /opt/venv && /opt/venv/bin/pip install torch==${V}\n"
        'FROM base\nCOPY --from=build /opt/venv /opt/venv\nCMD ["/opt/venv/bin/python", "a.py"]'
    )
    found = fixes(tmp_path, text, "--gpu", "RTX 5090")[0]
    assert found.startswith("Dockerfile:4: ARG V=2.7.0\nDockerfile:5: RUN") and "torch==${V}" in found


def test_an_argument_of_the_build_is_changed_where_it_is_given(tmp_path: Path):
    text = SLIM + (
        "ARG TORCH=2.7.1\nARG CUDA=cu128\n"
        "RUN pip install torch==${TORCH} --index-url https://download.pytorch.org/whl/${CUDA}"
    )
    compose = tmp_path / "compose.yaml"
    compose.write_text(
        "services:\n  app:\n    build:\n      context: .\n      args:\n        TORCH: ${TORCH:-2.6.0}\n"
        '        CUDA: "cu126"\n    gpus: all\n    shm_size: 1g\n'
    )
    (on_the_command_line,) = fixes(tmp_path, text, "--gpu", "RTX 5090", "--build-arg", "CUDA=cu126")
    assert on_the_command_line == "build it with --build-arg CUDA=cu128"
    result = CliRunner().invoke(dockerfile, [str(compose), "--format", "json", "--gpu", "RTX 5090"])
    (found,) = json.loads(result.stdout)["findings"]
    assert found["fixes"][0]["steps"][0]["text"].replace(f"{tmp_path}/", "") == (
        'compose.yaml:6: TORCH: "2.7.0"\ncompose.yaml:7: CUDA: "cu128"'
    )
    assert not fixes(tmp_path, text, "--gpu", "RTX 5090")


def test_without_a_build_in_its_version_torch_gets_a_command_of_its_own():
    text = SLIM + "RUN pip install -q torch==2.6.0 torchvision numpy"
    (step,) = read_dockerfile("Dockerfile", text, matrix(), {}.get).steps
    url = "https://download.pytorch.org/whl/cpu"
    wanted = {"torch": "torch==2.7.0", "torchvision": "torchvision==0.22.0"}
    assert rewritten(step, wanted, TorchIndex(url, "cpu")) == (
        f"pip install -q --index-url {url} torch==2.7.0 torchvision==0.22.0 && pip install -q numpy"
    )


def test_a_copied_command_is_not_broken_on_the_screen(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(LINES["a command inside a continued one"][0] + "\n")
    (tmp_path / "Alone").write_text(ROCM + "RUN pip install --no-cache-dir torch==2.7.0 transformers accelerate\n")
    screens = [_screen(tmp_path, name) for name in ("Dockerfile", "Alone")]
    assert LINES["a command inside a continued one"][1].partition("\n")[2] in screens[0]
    start = screens[1].index("RUN pip install")
    shown = screens[1][start : screens[1].index("found  ", start)]
    assert (
        re.sub(r" \\\n\s+", " ", shown).split("\n")[0]
        == f"RUN pip install --no-cache-dir {BOTH} {TORCH} transformers accelerate"
    )


def _screen(folder: Path, file: str) -> str:
    """What a terminal of 80 columns shows."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "gpudoctor", "dockerfile", file]
    done = subprocess.Popen(command, cwd=folder, env=environment, stdout=child, stderr=child, stdin=child)
    os.close(child)
    parts: list[bytes] = []
    try:
        while part := os.read(parent, 65536):
            parts.append(part)
    except OSError:  # the child has closed its end
        pass
    done.wait(60)
    os.close(parent)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_one_line_has_one_fix_for_gpu_driver_and_python(tmp_path: Path):
    text = (
        "FROM nvidia/cuda:11.8.0-base-ubuntu20.04\n"
        "RUN apt update && apt install -y python3 python3-pip\n"
        "RUN pip3 install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu130"
    )
    found = report(tmp_path, text, "--gpu", "H100", "--driver", "550.54.15")["findings"]
    problems = [one for one in found if one["severity"] != "note"]  # type: ignore[attr-defined]
    assert [one["slug"] for one in problems] == ["driver-too-old", "torch-wheel-missing"]
    (fix,) = set(fixes(tmp_path, text, "--gpu", "H100", "--driver", "550.54.15"))
    assert fix.endswith("RUN pip3 install torch==2.4.1+cu124 --index-url https://download.pytorch.org/whl/cu124")
    last = text.rpartition("\n")[0] + "\n" + fix.partition(": ")[2]
    assert report(tmp_path, last, "--gpu", "H100", "--driver", "550.54.15")["verdict"] == "ok"
    (undescribed,) = set(fixes(tmp_path, text))
    assert undescribed.endswith(
        "RUN pip3 install torch==2.4.1+cu118 --index-url https://download.pytorch.org/whl/cu118"
    )


def test_a_wheel_with_the_base_images_cuda_has_code_for_the_described_gpu(tmp_path: Path):
    text = "FROM nvidia/cuda:11.8.0-base-ubuntu22.04\nRUN pip3 install torch"
    (one,) = [one for one in report(tmp_path, text, "--gpu", "B200")["findings"] if one["severity"] != "note"]  # type: ignore[attr-defined]
    assert one["slug"] == "image-cuda-older-than-wheel"
    assert "cu118" not in str(one["fixes"])


ROCM_TORCH = "FROM rocm/pytorch:rocm6.4.4_ubuntu24.04_py3.12_pytorch_release_2.7.1\nRUN pip install "


@pytest.mark.parametrize(
    ("command", "slugs"),
    [
        ("torchvision xformers", ["image-torch-other-vendor"]),
        ("vllm", ["image-torch-other-vendor"]),
        ("numpy && pip install vllm", ["image-torch-other-vendor"]),
        ("-U 'xformers>=0.0.32'", ["image-torch-other-vendor"]),
        ("--no-deps xformers", []),
        ("xformers --no-dependencies", []),
        ("xformers -c constraints.txt", []),
        ("xformers==0.0.31", []),
        ("'xformers<0.0.32'", []),
        ("xformers torch==2.7.1", []),
        ("torchvision accelerate ultralytics", []),
        ("-U accelerate", []),
    ],
)
def test_a_package_whose_newest_release_needs_another_torch_replaces_that_of_the_base(
    tmp_path: Path, command: str, slugs: list[str]
):
    found = report(tmp_path, ROCM_TORCH + command)["findings"]
    assert [one["slug"] for one in found] == slugs  # type: ignore[attr-defined]
    for one in found:  # type: ignore[attr-defined]
        assert one["severity"] == "error" and "brings" in one["message"]
        assert "leave out" in one["fixes"][0]["steps"][0]["text"]


@pytest.mark.parametrize("package", ["vllm", "vllm==0.11.0", "xformers==0.0.33"])
def test_a_package_for_cuda_gives_way_to_its_rocm_build_on_amd(tmp_path: Path, package: str):
    text = f"FROM rocm/dev-ubuntu-22.04:6.4-complete\nRUN pip install {package}\n"
    first = fixes(tmp_path, text, "--gpu", "MI300X")[0]
    name = package.partition("=")[0]
    assert first.startswith(f"Dockerfile:2: leave out {name}, or install its ROCm build, for torch==")
