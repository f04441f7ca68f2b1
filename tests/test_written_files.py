"""The files that a run is asked to write: never waited for, never by way of somebody else's link."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gpudoctor.host import InputError
from gpudoctor.preflight.ready_file import ReadyFile
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
    for name in (f"ready.{os.getpid()}", "ready.new", "ready.tmp"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
    ReadyFile(str(tmp_path / "ready")).write()
    assert (tmp_path / "precious").read_text() == "kept"
    assert not (tmp_path / "ready").is_symlink()
    assert (tmp_path / "ready").read_text() == "ready\n"


@pytest.mark.parametrize("kind", ["pipe", "folder", "node", "link"])
def test_a_ready_file_that_is_no_plain_file_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    """A container runs as root: --ready-file /dev/null must not cost it /dev/null."""
    place = tmp_path / "ready"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to("/dev/null")
    elif os.geteuid() == 0:
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    else:
        pytest.skip("only root makes nodes")
    before = os.lstat(place)
    for required in ((), ("--require", "shm>=9000TiB")):
        done = gpudoctor("preflight", "--level", "static", *required, "--ready-file", str(place), "--", "true")
        assert done.returncode == 122
    assert os.lstat(place) == before


@AS_ROOT
@pytest.mark.parametrize("option", ["--report-file", "--ready-file"])
def test_no_folder_is_reached_by_way_of_another_users_link(tmp_path: Path, option: str) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "planted").symlink_to(tmp_path / "own")
    os.chown(tmp_path / "planted", 1234, 1234, follow_symlinks=False)
    done = gpudoctor("preflight", "--level", "static", option, str(tmp_path / "planted" / "file"), "--", "true")
    assert done.returncode == 122
    assert "is a link of another user" in done.stderr
    assert os.listdir(tmp_path / "own") == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("preflight", "--level", "static", "--report-file", "REPORT", "--", "true"), 0),
        (("preflight", "--level", "static", "--", "no-such-command"), 127),
        (("check", "--level", "static"), 2),
    ],
)
def test_a_file_that_may_not_grow_refuses_no_healthy_node(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    command = " ".join((sys.executable, "-m", "gpudoctor", *words)).replace("REPORT", str(tmp_path / "report"))
    script = f"ulimit -f 0; exec {command} >{tmp_path}/out 2>/dev/null"
    assert subprocess.run(["sh", "-c", script], timeout=60, check=False).returncode == code


@pytest.mark.skipif(not os.access("/proc/kmsg", os.R_OK), reason="only root reads the kernel's log as it comes")
@pytest.mark.parametrize(
    "words", [("check", "--from"), ("check", "--matrix"), ("matrix", "validate"), ("dockerfile",), ("scan",)]
)
def test_a_file_that_would_have_to_be_waited_for_is_one_line(words: tuple[str, ...]) -> None:
    done = gpudoctor(*words, "/proc/kmsg")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_modules_of_the_command_take_no_place_of_our_own(tmp_path: Path) -> None:
    """PYTHONPATH is set for the program behind the pre-flight, which may be of another Python."""
    for name in ("msgspec", "click", "json", "packaging"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)")
    command = [sys.executable, "-m", "gpudoctor", "preflight", "--level", "static", "--", "printenv", "PYTHONPATH"]
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))
