"""The files that a run is asked to write: never waited for, never by way of somebody else's link."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpudoctor.host import InputError
from gpudoctor.preflight.ready import ReadyFile
from gpudoctor.render import report_file
from gpudoctor.render.report_file import write_report_file

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")


def gpudoctor(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpudoctor", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "words", [("check", "--level", "static"), ("preflight", "--level", "static"), ("whatif", "--gpu", "H100")]
)
def test_a_report_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(tmp_path / "report")
    done = gpudoctor(*words, "--report-file", str(tmp_path / "report"))
    assert done.returncode == 2
    assert "nobody reads this pipe" in done.stderr


def test_a_report_goes_whole_into_a_pipe_that_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report")
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append((tmp_path / "report").read_text()), daemon=True)
    reader.start()
    text = "line\n" * 100_000  # more than a pipe holds
    while True:
        try:
            write_report_file(str(tmp_path / "report"), text)
            break
        except InputError:  # the reader has not opened it yet
            assert reader.is_alive()
    reader.join(10)
    assert seen == [text]


def test_a_report_pipe_whose_reader_sleeps_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_file, "PATIENCE", 0.1)
    os.mkfifo(tmp_path / "report")
    reader = os.open(tmp_path / "report", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(InputError, match=r"nobody read it for 0\.1 s"):
            write_report_file(str(tmp_path / "report"), "x" * 1_000_000)
    finally:
        os.close(reader)


def test_a_report_replaces_what_the_file_held(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a longer text of an earlier run")
    (tmp_path / "link").symlink_to(tmp_path / "report")
    write_report_file(str(tmp_path / "link"), "short")
    assert (tmp_path / "report").read_text() == "short"


@AS_ROOT
def test_a_report_is_not_written_by_way_of_another_users_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    os.chown(tmp_path / "link", 1234, 1234, follow_symlinks=False)
    with pytest.raises(InputError, match="a link of another user"):
        write_report_file(str(tmp_path / "link"), "report")
    assert (tmp_path / "precious").read_text() == "kept"


def test_the_ready_file_is_written_into_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "ready").symlink_to(tmp_path / "precious")
    for name in (f"ready.{os.getpid()}", "ready.new", "ready.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    ReadyFile(str(tmp_path / "ready")).write()
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "ready").is_symlink()
    assert (tmp_path / "ready").read_text() == "ready\n"
