"""A repair that real pip and uv carry out, and what stops it before anything is changed."""

from __future__ import annotations

import io
import os
import shutil
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpudoctor.finding import Risk
from gpudoctor.fix import kept_files
from gpudoctor.fix.apply import ApplyResult, Event, Line, StepStarts, apply, resume
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import locked, runs, unfinished
from gpudoctor.fix.scope import Target
from gpudoctor.fix.undo import undo
from gpudoctor.render.lines import print_lines
from gpudoctor.render.plan import outcome_lines
from gpudoctor.step import RunStep
from tests.support.made_environments import (
    differences,
    make_venv,
    needs_uv,
    package,
    picture,
    pip_install,
    uv_install,
    write_wheel,
)
from tests.support.smoke_children import processes_with


class Place:
    """A venv with made-up packages, wheels of other versions, and a home for the journal."""

    def __init__(self, folder: Path, pristine: Path, name: str = "env") -> None:
        self.prefix, self.wheels, self.home = folder / name, pristine / "wheels", str(folder / "state" / "gpudoctor")
        shutil.copytree(pristine / "env", self.prefix, symlinks=True)
        self.python = self.prefix / "bin" / "python"
        self.heard: list[Event] = []

    def apply(
        self, *argvs: Sequence[str], files: Sequence[Path] = (), say: Callable[[Event], None] | None = None
    ) -> ApplyResult:
        steps = [RunStep(argv=tuple(argv), why="a test", env={"PIP_CONFIG_FILE": "/dev/null"}) for argv in argvs]
        target = Target(prefix=str(self.prefix), python=str(self.python), files=tuple(map(str, files)))
        return apply(steps, target, self.home, plan={"of": "a test"}, say=say or self.heard.append)

    def pip(self, *wanted: str) -> tuple[str, ...]:
        return pip_install(self.python, self.wheels, *wanted)

    def script(self, code: str) -> tuple[str, ...]:
        return (sys.executable, "-I", "-c", code)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every place is a copy of: pip takes most of the time."""
    folder = tmp_path_factory.mktemp("pristine")
    for version in ("1.0", "2.0"):
        write_wheel(folder / "wheels", "torchlike", version)
    write_wheel(folder / "wheels", "other", "1.0", package("other", "1.0", modules=2))
    make_venv(folder / "env", folder / "wheels", "torchlike==1.0")
    return folder


@pytest.fixture
def place(tmp_path: Path, pristine: Path) -> Place:
    return Place(tmp_path, pristine)


@pytest.fixture(params=["env", "an ünusual env", "-env", "real/env behind a link"])
def odd_place(tmp_path: Path, pristine: Path, request: pytest.FixtureRequest) -> Place:
    name = str(request.param)
    made = Place(tmp_path, pristine, name)
    if "link" in name:
        (tmp_path / "link").symlink_to(made.prefix)
        made.prefix = tmp_path / "link"
        made.python = made.prefix / "bin" / "python"
    return made


def said(place: Place, kind: type[Event]) -> list[Event]:
    return [event for event in place.heard if isinstance(event, kind)]


def test_a_repair_by_pip_is_taken_back_to_the_last_byte_mode_and_time(odd_place: Place) -> None:
    before = picture(odd_place.prefix)
    applied = odd_place.apply(odd_place.pip("torchlike==2.0"), odd_place.pip("other"))
    assert applied.ok and applied.run is not None and applied.run.state != "cut off"
    assert (odd_place.prefix / "bin" / "other-tool").exists()
    assert differences(before, picture(odd_place.prefix))
    undone = undo(applied.run, say=print)
    assert undone.ok and not (undone.aside or undone.stays or undone.lost)
    assert differences(before, picture(odd_place.prefix)) == {}
    assert runs(odd_place.home)[-1].state == "undone"
    assert not os.path.exists(applied.run.begun.kept)


@needs_uv
@pytest.mark.parametrize("mode", ["hardlink", "copy"])
def test_a_repair_by_uv_is_taken_back_and_its_cache_stays_whole(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_LINK_MODE", mode)
    assert place.apply(uv_install(place.python, place.wheels, "torchlike==2.0")).ok
    before, cache = picture(place.prefix), {k: v for k, v in picture(tmp_path / "cache").items() if v[0] == "file"}
    applied = place.apply(uv_install(place.python, place.wheels, "torchlike==1.0"))
    assert applied.ok and applied.run
    assert undo(applied.run, say=print).ok
    assert differences(before, picture(place.prefix)) == {}
    now = picture(tmp_path / "cache")
    assert {path: seen for path, seen in cache.items() if now.get(path) != seen} == {}


def test_only_what_was_replaced_is_kept(place: Place) -> None:
    applied = place.apply(place.pip("torchlike==2.0"))
    assert applied.run
    kept = sum(entry.stat().st_size for entry in Path(applied.run.begun.kept).iterdir())
    assert 200_000 < kept < 400_000, "the large library of the old version, and no more"


def test_the_packages_and_where_they_came_from_are_in_the_journal(place: Place) -> None:
    assert place.apply(place.pip(str(place.wheels / "other-1.0-py3-none-any.whl"))).ok
    assert place.apply(place.pip("torchlike==2.0")).ok
    run = runs(place.home)[-1]
    versions = {package.name: package.version for package in run.packages_before}
    assert versions["torchlike"] == "1.0"
    other = next(package for package in run.packages_before if package.name == "other")
    assert other.installer == "pip" and other.url.startswith("file://")
    assert {package.name: package.version for package in run.packages_after}["torchlike"] == "2.0"
    assert run.plan == {"of": "a test"}


def test_a_failing_step_ends_the_repair_and_can_be_taken_back(place: Place) -> None:
    before = picture(place.prefix)
    applied = place.apply(place.pip("torchlike==2.0"), place.pip("no-such-package"), place.pip("other"))
    assert not applied.ok and applied.failed == 1 and applied.rc == 1
    assert any("no-such-package" in line for line in applied.last_lines)
    assert [event.number for event in said(place, StepStarts) if isinstance(event, StepStarts)] == [0, 1]
    run = runs(place.home)[-1]
    assert run.state == "failed" and unfinished(place.home, str(place.prefix)) is None
    assert undo(run, say=print).ok
    assert differences(before, picture(place.prefix)) == {}


def test_a_step_that_fails_before_it_changes_anything_leaves_nothing_to_take_back(place: Place) -> None:
    before = picture(place.prefix)
    first = place.apply(place.pip("torchlike==2.0"))
    failed = place.apply(place.pip("no-such-package"))
    assert not failed.ok and failed.run and failed.run.has("unchanged")
    assert runs(place.home)[-1].is_over and not os.path.exists(failed.run.begun.kept)
    out = io.StringIO()
    print_lines(outcome_lines(failed, None, (), ()), out, color=False)
    assert "Nothing was changed." in out.getvalue() and "--undo" not in out.getvalue()
    assert first.run and undo(first.run, say=print).ok, "it stands in the way of no earlier undo"
    assert differences(before, picture(place.prefix)) == {}


def test_a_project_file_is_taken_back_and_a_new_one_goes(place: Place, tmp_path: Path) -> None:
    old, new = tmp_path / "pyproject.toml", tmp_path / "uv.lock"
    old.write_text("before\n")
    old.chmod(0o640)
    code = f"open({str(old)!r}, 'a').write('after'); open({str(new)!r}, 'w').write('lock')"
    applied = place.apply(place.script(code), files=[old, new])
    assert applied.ok and applied.run and new.exists()
    assert undo(applied.run, say=print).ok
    assert (old.read_text(), stat.S_IMODE(old.stat().st_mode), new.exists()) == ("before\n", 0o640, False)


@pytest.mark.parametrize("kind", ["node", "folder"])
def test_a_project_file_that_is_no_file_stops_before_anything_is_changed(
    place: Place, tmp_path: Path, kind: str
) -> None:
    """An undo would take what lies there for new: it must never cost a system its /dev/null."""
    (tmp_path / "pyproject.toml").symlink_to("/dev/null" if kind == "node" else tmp_path)
    with pytest.raises(RepairError, match="is no regular file, so nothing was changed"):
        place.apply(place.script("raise SystemExit"), files=[tmp_path / "pyproject.toml"])
    assert not runs(place.home)


@pytest.mark.parametrize("used", [False, True])
def test_a_new_venv_goes_only_if_nobody_works_in_it(
    place: Place, tmp_path: Path, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = (
        (sys.executable, "-m", "venv", "--without-pip", ".venv-gpu"),
        (".venv-gpu/bin/python", "-c", "print('made')"),
    )
    applied = place.apply(*steps)
    assert applied.ok and applied.run and (tmp_path / ".venv-gpu" / "pyvenv.cfg").exists()
    if used:
        (tmp_path / ".venv-gpu" / "lib" / "mine.py").write_text("mine")
    undone = undo(applied.run, say=print)
    assert undone.ok and (tmp_path / ".venv-gpu" / "bin").exists() == used
    assert undone.stays == ([str(tmp_path / ".venv-gpu")] if used else [])


def test_nothing_leads_a_step_away_from_the_environment(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_USER"):
        monkeypatch.setenv(name, "/elsewhere")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mine.example/simple")
    code = (
        "from os import environ; print([k for k in environ if 'elsewhere' in environ[k]], environ['PIP_INDEX_URL'])"
    )
    assert place.apply(place.script(code)).ok
    assert [event.text for event in place.heard if isinstance(event, Line)] == ["[] https://mine.example/simple"]


def test_passwords_are_neither_told_nor_readable_by_others(place: Place) -> None:
    url = "https://me:secret@index.example/simple"
    place.apply((*place.script("import sys; print(sys.argv)"), url))
    assert "secret" not in str(place.heard) and "https://***@index.example/simple" in str(place.heard)
    for path in Path(place.home).rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 or "/kept/" in str(path), path
    assert "secret" not in Path(runs(place.home)[-1].folder, "output.log").read_text()


# Its first parent ends at once, its second one while the next step runs.
DAEMON = "(sh -c 'sleep 0.4; setsid sleep 600 & exit' </dev/null >/dev/null 2>&1 &)"


@pytest.mark.parametrize(("risk", "stays"), [("replaces", False), ("root", True)])
def test_what_a_step_leaves_running_is_ended_but_not_a_services_process(
    place: Place, tmp_path: Path, risk: Risk, stays: bool
) -> None:
    mark = {"LEFT_BY": str(tmp_path)}
    steps = [
        RunStep(argv=("sh", "-c", DAEMON), env=mark, risk=risk),
        RunStep(argv=place.script("import time; time.sleep(1.2)")),
    ]
    applied = apply(steps, Target(prefix=str(place.prefix), python=""), place.home, plan=None, say=print)
    left = processes_with(f"LEFT_BY={tmp_path}")
    for number in left:
        os.kill(number, signal.SIGKILL)
    assert (applied.ok, len(left)) == (True, 1 if stays else 0)


def test_where_ends_of_children_are_ignored_a_step_that_fails_has_failed(place: Place) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        applied = place.apply(place.script("raise SystemExit(3)"))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert (applied.ok, applied.rc) == (False, 3)


# --- what stops it before anything is changed --------------------------------------------------------


def unchanged(place: Place, words: str, *argvs: Sequence[str]) -> None:
    before = picture(place.prefix)
    with pytest.raises(RepairError, match=words):
        place.apply(*(argvs or (place.pip("torchlike==2.0"),)))
    assert differences(before, picture(place.prefix)) == {}
    assert runs(place.home) == () and unfinished(place.home, str(place.prefix)) is None
    assert not (place.prefix.parent / ".gpudoctor-undo").exists()


def test_no_room_is_told_before_anything_is_changed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_files, "ROOM_LEFT", 1 << 60)
    unchanged(place, "free. Nothing was changed")


def test_a_disk_that_fills_up_while_saving_changes_nothing(place: Place) -> None:
    import resource

    (place.prefix / "lib" / "notes.txt").write_text("x" * 60_000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, before[1]))
    try:
        unchanged(place, "cannot be kept")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program"])
def test_a_missing_program_is_told_before_the_first_step(place: Place, program: str) -> None:
    unchanged(place, "no.such.program", place.pip("torchlike==2.0"), (program, "x"))


def test_a_second_repair_at_the_same_time_is_refused(place: Place) -> None:
    with locked(place.home, str(place.prefix)):
        unchanged(place, f"process {os.getpid()}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write and read everything")
def test_an_environment_that_cannot_be_written_or_read(place: Place) -> None:
    hidden = place.prefix / "lib" / "hidden"
    hidden.mkdir()
    hidden.chmod(0)
    unchanged(place, "hidden cannot be read")
    hidden.chmod(0o700)
    place.prefix.chmod(0o500)
    try:
        unchanged(place, "cannot be written")
    finally:
        place.prefix.chmod(0o700)


def test_a_journal_that_cannot_be_written(place: Place, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in its way")
    unchanged(place, "XDG_STATE_HOME")


def test_where_nothing_can_be_linked_everything_is_copied(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = picture(place.prefix)
    monkeypatch.setattr(os, "link", refuse)
    applied = place.apply(place.pip("torchlike==2.0"))
    assert applied.ok and applied.run
    assert undo(applied.run, say=print).ok
    assert differences(before, picture(place.prefix)) == {}


# --- interrupted -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_step_and_the_repair_can_be_continued(place: Place, tmp_path: Path, number: int) -> None:
    gate = tmp_path / "gate"
    code = f"import time, os; print('here', flush=True); time.sleep(0 if os.path.exists({str(gate)!r}) else 60)"

    def say(event: Event) -> None:
        if isinstance(event, Line) and event.text == "here" and not gate.exists():
            os.kill(os.getpid(), number)

    before = picture(place.prefix)
    begun = time.monotonic()
    applied = place.apply(place.pip("torchlike==2.0"), place.script(code), place.pip("other"), say=say)
    assert applied.interrupted == number and applied.failed == 1 and time.monotonic() - begun < 30
    run = unfinished(place.home, str(place.prefix))
    assert run and run.state == "cut off"
    with pytest.raises(RepairError, match="cut off"):
        place.apply(place.pip("other"))
    gate.touch()
    again = resume(run, say=print)
    assert again.ok and again.run and (place.prefix / "bin" / "other-tool").exists()
    assert undo(again.run, say=print).ok
    assert differences(before, picture(place.prefix)) == {}


PUTS_BACK = """
import sys, time
try:
    print("here", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("puts back", flush=True)
    time.sleep(1)
    open(sys.argv[1], "w").close()
"""


def test_a_second_ctrl_c_leaves_the_step_its_time_to_put_back_what_it_replaced(place: Place, tmp_path: Path) -> None:
    again = threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT))

    def say(event: Event) -> None:
        if isinstance(event, Line) and event.text == "here":
            again.start()
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        applied = place.apply((*place.script(PUTS_BACK), str(tmp_path / "put back")), say=say)
        back = (tmp_path / "put back").exists()
        again.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert applied.interrupted and back
    run = unfinished(place.home, str(place.prefix))
    assert run and run.marks[-1].mark == "interrupted"


def test_a_signal_that_is_ignored_interrupts_no_repair(place: Place) -> None:
    """nohup ignores SIGHUP, a shell's job in the background Ctrl-C."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        applied = place.apply(place.pip("other"), say=lambda _: os.kill(os.getpid(), signal.SIGHUP))
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert applied.ok


def test_it_also_works_where_signals_cannot_be_taken(place: Place) -> None:
    results: list[ApplyResult] = []
    thread = threading.Thread(target=lambda: results.append(place.apply(place.pip("torchlike==2.0"))))
    thread.start()
    thread.join()
    assert results[0].ok


def test_a_package_behind_a_link_is_not_changed(place: Place, tmp_path: Path) -> None:
    """What pip writes lands outside of what is recorded, and no undo would find it."""
    (site,) = place.prefix.glob("lib/python*/site-packages")
    elsewhere = tmp_path / "elsewhere"
    shutil.move(site / "torchlike", elsewhere)
    (site / "torchlike").symlink_to(elsewhere)
    before = picture(place.prefix, elsewhere)
    with pytest.raises(RepairError, match="is a link to a folder outside of the environment"):
        place.apply(place.pip("torchlike==2.0"))
    assert differences(before, picture(place.prefix, elsewhere)) == {}
