"""Temporary folders: a run that was killed leaves one, which a later run removes; nothing else is touched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudoctor.host.temporary import temporary_folder

HOLDER = """
import time
from gpudoctor.host.temporary import temporary_folder
with temporary_folder("test") as folder:
    (folder / "caches").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def held(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with its folder, which looks as if it were hours old."""
    environ = {**os.environ, "TMPDIR": str(place)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=Path(__file__).parents[1], env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            folder = Path(process.stdout.readline().strip())
            assert folder.parent == place
            grow_old(folder)
            yield process, folder
        finally:
            process.kill()


def grow_old(path: Path) -> None:
    hours_ago = time.time() - 7200
    os.utime(path, (hours_ago, hours_ago), follow_symlinks=False)


def test_a_folder_is_removed_with_what_is_in_it(place: Path) -> None:
    with temporary_folder("test") as folder:
        (folder / "caches/deep").mkdir(parents=True)
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert os.listdir(place) == []


def test_what_a_killed_run_left_is_removed_by_the_next_one_and_a_living_ones_is_not(place: Path) -> None:
    with held(place) as (process, folder):
        with temporary_folder("test"):
            assert (folder / "caches").is_dir()
        process.kill()
        process.wait()
        assert folder.is_dir()
        with temporary_folder("test") as mine:
            assert os.listdir(place) == [mine.name]


@pytest.mark.parametrize("what", ["young", "open to others", "a link", "a file", "another boot", "another name"])
def test_what_is_not_surely_its_own_stays(place: Path, what: str) -> None:
    with temporary_folder("test") as folder:
        name = folder.name
    kept = place / "precious"
    kept.mkdir(mode=0o700)
    (kept / "work").write_text("x")
    boot = name.split("-")[2]
    path = place / (name.replace(boot, "0" * 10) if what == "another boot" else name)
    path = place / f"{name}.bak" if what == "another name" else path
    if what == "a link":
        path.symlink_to(kept)
    elif what == "a file":
        path.write_text("x")
    else:
        path.mkdir(mode=0o755 if what == "open to others" else 0o700)
        (path / "work").write_text("x")
    if what != "young":
        grow_old(path)
        grow_old(kept)
    with temporary_folder("test"):
        pass
    assert path.exists()
    assert (kept / "work").read_text() == "x"


def test_a_folder_is_made_where_no_file_may_grow_and_the_first_place_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    monkeypatch.setenv("TEMP", str(tmp_path))
    program = HOLDER.partition("    (folder")[0] + "    print(folder)\n"
    limited = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n" + program
    done = subprocess.run(
        [sys.executable, "-c", limited], check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]
    )
    assert Path(done.stdout.strip()).parent == tmp_path
    assert os.listdir(tmp_path) == []
