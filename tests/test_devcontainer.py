"""devcontainer.json: the image, the GPUs that its container is given, and what is installed when it is created."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from gpudoctor.dockerfile.bounds import Bounds
from gpudoctor.dockerfile.devcontainer import read_devcontainer
from gpudoctor.dockerfile.syntax import RecipeError

CUDA = "nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04"


def found(
    folder: Path, content: str, *options: str, name: str = ".devcontainer/devcontainer.json"
) -> list[dict[str, str]]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    result = CliRunner().invoke(dockerfile, [str(file), *options, "--format", "json"])
    findings: list[dict[str, str]] = json.loads(result.stdout)["findings"]
    return [one for one in findings if one["severity"] != "note"]


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("", [("compose-no-device", "warning")]),
        ('"runArgs": ["--gpus", "all"],', []),
        ('"runArgs": ["--ipc=host", "--gpus=all"],', []),
        ('"runArgs": ["--runtime=nvidia"],', []),
        ('"hostRequirements": {"gpu": "optional"},', []),
        ('"hostRequirements": {"gpu": {"cores": 1000}},', []),
        ('"hostRequirements": {"gpu": false},', [("compose-no-device", "warning")]),
        ('// "runArgs": ["--gpus", "all"],\n', [("compose-no-device", "warning")]),
        ('"runArgs": ["--device=/dev/kfd", "--device", "/dev/dri"],', [("compose-other-vendor", "error")]),
        (
            '"runArgs": ["--gpus=all"], "containerEnv": {"CUDA_VISIBLE_DEVICES": "all"},',
            [("compose-hides-gpus", "error")],
        ),
    ],
)
def test_the_gpus_of_the_container(tmp_path: Path, extra: str, told: list[tuple[str, str]]):
    rest = '"customizations": {"a": ["b//c",],},\n}'
    content = f'// a comment\n{{\n\t"image": "{CUDA}", /* another, */\n\t{extra}\n\t{rest}'
    assert [(one["slug"], one["severity"]) for one in found(tmp_path, content)] == told


def test_the_line_to_add_is_one_of_devcontainer_json(tmp_path: Path):
    (one,) = found(tmp_path, f'{{\n  "name": "x",\n  "image": "{CUDA}"\n}}')
    assert one["message"] == "The development container runs an image for CUDA but is not given a GPU."
    step = one["fixes"][0]["steps"][0]["text"]  # type: ignore[index]
    assert step.endswith('devcontainer.json:3: beside it:\n"runArgs": ["--gpus", "all"]')


def test_what_run_args_say_already_stays(tmp_path: Path):
    (one,) = found(tmp_path, f'{{\n  "image": "{CUDA}",\n  "runArgs": ["--ipc=host"]\n}}')
    step = one["fixes"][0]["steps"][0]["text"]  # type: ignore[index]
    assert step.endswith('devcontainer.json:3: in place of its runArgs:\n"runArgs": ["--ipc=host", "--gpus", "all"]')
    amd = '{"image": "rocm/pytorch:latest",\n"runArgs": ["--device", "/dev/kfd"]}'
    (one,) = found(tmp_path, amd)
    step = one["fixes"][0]["steps"][0]["text"]  # type: ignore[index]
    assert step.endswith('"runArgs": ["--device", "/dev/kfd", "--device=/dev/dri"]')


def test_the_dockerfile_lies_beside_and_its_context_elsewhere(tmp_path: Path):
    (tmp_path / "req.txt").write_text("torch==2.6.0\n")
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer/Dockerfile").write_text(
        "FROM python:3.12\nCOPY req.txt /\nRUN pip install -r /req.txt\n"
    )
    content = '{"build": {"dockerfile": "Dockerfile", "context": ".."}, "runArgs": ["--gpus", "all"]}'
    assert found(tmp_path, content) == []
    (one,) = found(tmp_path, content, "--gpu", "RTX 5090")
    assert one["slug"] == "torch-no-arch-for-gpu"
    by_folder = CliRunner().invoke(dockerfile, [str(tmp_path), "--gpu", "RTX 5090"])
    assert "torch-no-arch-for-gpu" in by_folder.stdout


@pytest.mark.parametrize(
    "command",
    [
        '"pip install -r req.txt"',
        '["pip", "install", "-r", "req.txt"]',
        '{"a": "true", "b": "pip install -r req.txt"}',
    ],
)
@pytest.mark.parametrize("image", ['"image": "python:3.12"', '"build": {"dockerfile": "Dockerfile"}'])
def test_what_is_installed_at_creation_counts(tmp_path: Path, command: str, image: str):
    (tmp_path / "req.txt").write_text("numpy\ntorch==2.6.0\n")
    (tmp_path / ".devcontainer").mkdir()
    (tmp_path / ".devcontainer/Dockerfile").write_text("FROM python:3.12\n")
    content = f'{{{image},\n"postCreateCommand": {command}}}'
    (one,) = found(tmp_path, content, "--gpu", "RTX 5090")
    assert one["slug"] == "torch-no-arch-for-gpu"
    assert "req.txt:2: torch==2.7.0+cu128" in one["fixes"][0]["steps"][0]["text"]  # type: ignore[index]


def test_a_service_of_a_compose_file(tmp_path: Path):
    compose = f"services:\n  dev:\n    image: {CUDA}\n  other:\n    image: rocm/pytorch:latest\n"
    (tmp_path / "compose.yaml").write_text(compose)
    for path in ("../compose.yaml", "${localWorkspaceFolder}/compose.yaml"):
        (one,) = found(tmp_path, f'{{"dockerComposeFile": ["{path}"], "service": "dev"}}')
        assert one["message"] == "Service dev runs an image for CUDA but is not given a GPU."


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"image": ',
        '"' + '\\"' * 200_000,
        "/*" * 200_000,
        "[" * 100_000,
        '{"image": "a"' + "," * 200_000,
    ],
)
def test_another_text_is_refused_in_one_line(text: str):
    with pytest.raises(RecipeError) as caught:
        read_devcontainer("devcontainer.json", text, Bounds())
    assert "\n" not in str(caught.value)
