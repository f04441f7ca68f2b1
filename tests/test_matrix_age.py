"""`python -m benchmarks.matrix_age`: which rows are behind the package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import matrix_age


def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Put a pip in place of the real one that answers from a list."""
    pip = tmp_path / "python"
    pip.write_text(f"#!/bin/sh\nfor name; do :; done\n{body}\n")
    pip.chmod(0o755)
    monkeypatch.setattr(matrix_age.sys, "executable", str(pip))


def test_a_newer_release_on_the_index_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    index(monkeypatch, tmp_path, 'echo "$name (999.1)"')
    assert matrix_age.main(["torch"]) == 1
    assert "| 999.1 | behind |" in capsys.readouterr().out


def test_an_older_or_equal_release_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    index(monkeypatch, tmp_path, 'echo "$name (0.1)"')
    assert matrix_age.main(["torch", "jax"]) == 0


def test_an_index_that_does_not_answer_is_not_taken_for_up_to_date(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    index(monkeypatch, tmp_path, "exit 1")
    assert matrix_age.main(["jax"]) == 2
