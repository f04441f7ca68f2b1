"""Files that a .dockerignore leaves out of the build context."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.dockerfile.dockerignore import without_ignored
from tests.test_dockerfile import dockerfile_report

RULES = [
    ("*.lock", "uv.lock", True),
    ("*.lock", "app/uv.lock", False),
    ("**/*.lock", "app/uv.lock", True),
    ("**/*.lock", "uv.lock", True),
    ("requirements", "requirements/gpu.txt", True),
    ("requirements", "requirements.txt", False),
    ("/uv.lock", "uv.lock", True),
    ("./app/", "app/a.txt", True),
    ("*\n!uv.lock", "uv.lock", False),
    ("*\n!app", "app/uv.lock", False),
    ("*\n!uv.lock", "pyproject.toml", True),
    ("!uv.lock\n*", "uv.lock", True),
    ("# uv.lock", "uv.lock", False),
    ("\n", "uv.lock", False),
    ("app/*/a.txt", "app/x/a.txt", True),
    ("app/*/a.txt", "app/x/y/a.txt", False),
    ("app/**/a.txt", "app/x/y/a.txt", True),
    ("uv.loc?", "uv.lock", True),
    ("a" * 5000, "a" * 5000, False),
    ("*" * 500, "uv.lock", False),
    ("\ufeffuv.lock\r\n", "uv.lock", True),
]


@pytest.mark.parametrize(("text", "path", "ignored"), RULES)
def test_the_patterns_of_a_dockerignore(text: str, path: str, ignored: bool):
    read = without_ignored(lambda _: "text", text)
    assert (read(path) is None) is ignored
    assert (read(f"./{path}") is None) is ignored


TORCH = "FROM python:3.12-slim\nCOPY . .\nRUN pip install -r requirements.txt\n"


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (".dockerignore", ".git\n", True),
        (".dockerignore", "*.txt\n", False),
        ("Dockerfile.dockerignore", "*.txt\n", False),
        (".dockerignore", "*\n!requirements.txt\n", True),
    ],
)
def test_nothing_rests_on_a_file_that_is_left_out(tmp_path: Path, name: str, text: str, told: bool):
    (tmp_path / "Dockerfile").write_text(TORCH)
    (tmp_path / "requirements.txt").write_text("torch==2.6.0+cu124\n")
    (tmp_path / name).write_text(text)
    found = dockerfile_report(tmp_path / "Dockerfile")["findings"]
    assert [one["slug"] for one in found] == ["image-torch-without-index"] * told


@pytest.mark.parametrize("own", [".git\n", ""])
def test_the_file_of_the_dockerfile_counts_before_that_of_the_context(tmp_path: Path, own: str):
    (tmp_path / "Dockerfile").write_text(TORCH)
    (tmp_path / "requirements.txt").write_text("torch==2.6.0+cu124\n")
    (tmp_path / ".dockerignore").write_text("*.txt\n")
    (tmp_path / "Dockerfile.dockerignore").write_text(own)
    assert dockerfile_report(tmp_path / "Dockerfile")["findings"]
