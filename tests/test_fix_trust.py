"""What the journal says is believed only where nobody else can have written it, and done nowhere else.

`python -m tests.tampered_journals` does it many times, by the command line, as root and as a user.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.command_line.interrupted_fixes import journal_home
from gpudoctor.fix import restore
from gpudoctor.fix.account import account_home
from gpudoctor.fix.apply import apply
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import read_all
from gpudoctor.fix.open_folders import OpenFolders
from gpudoctor.fix.recorded_tree import Tree, scan
from gpudoctor.fix.scope import Target
from gpudoctor.fix.step_process import environment
from gpudoctor.fix.undo import undo
from gpudoctor.step import RunStep
from tests.support.journal_tampering import KINDS, NEEDS_ROOT, SUBFOLDERS, USER, WHOLE, Place
from tests.tampered_journals import picture, tried
from tests.test_fix_command import failed

REPAIR = ("fix", "--gpu", "RTX 4070", "--driver", "580.95.05", "--level", "static")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another account")


@pytest.fixture(autouse=True)
def nothing_waits() -> Iterator[None]:
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Where the repairs were made, and a copy of how they left it: a journal holds only for its own folder."""
    folder = tmp_path_factory.mktemp("trust") / "place"
    Place(folder).make()
    return folder, shutil.copytree(folder, folder.with_name("pristine"), symlinks=True)


@pytest.fixture
def place(made: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Place:
    folder, pristine = made
    shutil.rmtree(folder)
    shutil.copytree(pristine, folder, symlinks=True)
    fresh = Place(folder)
    monkeypatch.setenv("HOME", str(fresh.home))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return fresh


def _named(name: str) -> object:
    return pytest.param(name, marks=as_root) if name in NEEDS_ROOT else name


@pytest.mark.parametrize("kind", [_named(name) for name in KINDS if name != "swapped while undo runs"])
def test_a_tampered_journal_changes_nothing_elsewhere_and_hides_no_other(place: Place, kind: str) -> None:
    assert place.run
    KINDS[kind](place)
    before = picture(place.canary)
    if kind in WHOLE:
        with pytest.raises(RepairError):
            read_all(str(place.state))
    else:
        found = read_all(str(place.state))
        assert str(place.other) in [run.prefix for run in found.runs]
        for run in (run for run in found.runs if run.prefix == str(place.prefix)):
            try:
                undo(run, say=print)
            except (RepairError, OSError) as error:
                assert str(error)
    assert picture(place.canary) == before
    assert not place.ran.exists()
    assert not any(path.lstat().st_mode & 0o6000 for path in place.prefix.rglob("*.py"))


@pytest.mark.parametrize("kind", ["FIFO as journal.jsonl", "time 1e300", "root with ..", "garbage as journal"])
def test_a_bad_journal_is_one_line_and_the_others_go_on(place: Place, kind: str) -> None:
    run = place.run
    KINDS[kind](place)
    code, out, err = failed("fix", "--history", "--format", "json")
    assert code == 0 and [run["prefix"] for run in json.loads(out)["runs"]] == [str(place.other)]
    assert err.count("\n") == 1 and str(run) in err and "Move that folder away" in err
    code, out, err = failed("fix", "--undo", "--yes", "--python", str(place.other))
    assert code == 0 and "undone" in out
    code, out, err = failed("fix", "--forget", run.name, "--yes")
    assert code == 2 and run.exists()


@pytest.mark.parametrize("kind", ["FIFO as journal.jsonl", "root with .."])
def test_undo_says_that_a_bad_journal_may_be_of_this_environment(place: Place, kind: str) -> None:
    KINDS[kind](place)
    _, _, err = failed("fix", "--undo", "--yes", "--python", str(place.prefix))
    assert "may be a fix of this environment" in err
    _, _, err = failed("fix", "--undo", "--yes", "--python", str(place.other))
    assert ("may be a fix of this environment" in err) == (kind == "FIFO as journal.jsonl")


def test_a_folder_that_is_swapped_for_a_link_in_the_middle_is_not_followed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = read_all(str(place.state)).runs[-1]
    before, swapped = picture(place.canary), place.site / "mine"

    def scan_then_swap(*scope: tuple[bytes, ...]) -> Tree:
        tree = scan(*scope)
        swapped.rename(place.folder / "real")
        swapped.symlink_to(place.canary / "lib" / "mine")
        return tree

    monkeypatch.setattr(restore, "scan", scan_then_swap)
    told = undo(run, say=print)
    assert not told.ok and str(swapped) in told.problem and "no longer a folder" in told.problem
    assert picture(place.canary) == before
    monkeypatch.undo()
    swapped.unlink()
    (place.folder / "real").rename(swapped)
    assert undo(run, say=print).ok and len(list(swapped.glob("sub*/a.py"))) == SUBFOLDERS


def test_no_part_of_a_path_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    with OpenFolders() as folders:
        assert os.listdir(f"/proc/self/fd/{folders.at(os.fsencode(tmp_path / 'real'))}") == ["a"]
        with pytest.raises(NotADirectoryError, match="behind a link"):
            folders.at(os.fsencode(tmp_path / "link" / "a"))


def test_a_deep_folder_takes_few_descriptors(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    opened = len(os.listdir("/proc/self/fd"))
    assert len(scan([os.fsencode(tmp_path)])) == 1501
    assert len(os.listdir("/proc/self/fd")) == opened
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_setuid_file_comes_back_as_itself_and_no_record_makes_one(place: Place) -> None:
    tool = place.site / "tool"
    tool.write_text("as it was")
    tool.chmod(0o4755)
    step = RunStep(argv=(sys.executable, "-c", "import os; os.unlink('tool')"), cwd=str(place.site), risk="replaces")
    applied = apply([step], Target(str(place.prefix), ""), str(place.state), plan=None, say=print)
    assert applied.run and undo(applied.run, say=print).ok
    assert (tool.read_text(), tool.stat().st_mode & 0o7777) == ("as it was", 0o4755)


# --- root and others ------------------------------------------------------------------------------------


@as_root
def test_root_does_not_take_another_accounts_home_for_its_own(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    mine = pwd.getpwuid(0).pw_dir
    os.chown(place.home, USER, USER)
    for name in ("UV_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(place.home / "cache"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))
    assert account_home() == mine and journal_home().startswith(mine)
    variables = environment({})
    assert variables["HOME"] == mine and variables["PIP_CACHE_DIR"] == str(tmp_path / "cache")
    assert not {"UV_CACHE_DIR", "XDG_CACHE_HOME"} & variables.keys()


@as_root
@pytest.mark.parametrize(
    "arguments",
    [("--history",), ("--undo", "--yes"), ("--forget", "x", "--yes"), ("--continue", "--level", "static")],
)
def test_a_state_of_another_account_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place.state.parent))
    os.chown(place.state, USER, USER)
    where = () if "--forget" in arguments or "--history" in arguments else ("--python", str(place.prefix))
    code, _, err = failed("fix", *arguments, *where)
    assert code == 2 and f"{place.state} belongs to uid {USER}" in err and "XDG_STATE_HOME" in err


def this_python_starts(place: Place) -> None:
    """The environment is of the Python that runs the tests: a plan for one that does not start is by hand."""
    python = place.prefix / "bin" / "python"
    python.unlink()
    python.symlink_to(sys.executable)
    settings = place.prefix / "pyvenv.cfg"
    home = Path(sys.executable).resolve().parent
    settings.write_text(settings.read_text().replace("home = /usr/bin", f"home = {home}"))
    place.site.parent.rename(place.prefix / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}")


@as_root
def test_with_a_state_of_another_account_a_plan_is_shown_and_nothing_is_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(place.state.parent))
    os.chown(place.state, USER, USER)
    this_python_starts(place)
    before = picture(place.folder)
    arguments = (*REPAIR, "--python", str(place.prefix))
    code, out, err = failed(*arguments, "--dry-run")
    assert code == 1 and "pip install" in out and f"{place.state} belongs to uid {USER}" in err
    code, out, err = failed(*arguments, "--yes")
    assert code == 1 and "belongs to uid" in " ".join(out.split()) and picture(place.folder) == before


@as_root
def test_root_is_shown_the_plan_for_an_environment_of_another_account(place: Place) -> None:
    this_python_starts(place)
    os.chown(place.prefix, USER, USER)
    before = picture(place.folder)
    arguments = (*REPAIR, "--python", str(place.prefix))
    code, out, _ = failed(*arguments, "--yes")
    assert code == 1 and f"belongs to uid {USER}: start gpudoctor as uid {USER}" in " ".join(out.split())
    assert picture(place.folder) == before


@as_root
def test_nothing_is_made_below_another_accounts_folder(place: Place) -> None:
    os.chown(place.home, USER, USER)
    step = RunStep(argv=("true",), cwd="/")
    with pytest.raises(RepairError, match=f"{place.home} belongs to uid {USER}"):
        apply([step], Target("", ""), str(place.home / "new" / "gpudoctor"), plan=None, say=print)
    assert not (place.home / "new").exists()


@as_root
@pytest.mark.parametrize("whose", ["prefix", "site"])
def test_root_changes_no_environment_of_another_account(place: Place, whose: str) -> None:
    run = read_all(str(place.state)).runs[-1]
    if whose == "site":  # packages behind a link
        moved = shutil.move(place.site, place.folder / "elsewhere")
        (place.prefix / "lib" / "python3.12" / "site-packages").symlink_to(moved)
    os.chown(place.prefix if whose == "prefix" else moved, USER, USER)
    before = picture(place.folder)
    step = RunStep(argv=("touch", str(place.ran)), risk="replaces")
    with pytest.raises(RepairError, match=f"belongs to uid {USER}: start gpudoctor as"):
        apply([step], Target(str(place.prefix), ""), str(place.state), plan=None, say=print)
    if whose == "prefix":
        with pytest.raises(RepairError, match=f"belongs to uid {USER}: start gpudoctor as"):
            undo(run, say=print)
        before |= {path: seen for path, seen in picture(place.state).items() if "/locks" in path}
    assert picture(place.folder) == before


@as_root
@pytest.mark.parametrize("account", [0, USER])
@pytest.mark.parametrize("kind", ["root elsewhere", "home of another account", "swapped while undo runs"])
def test_by_the_command_line_as_root_and_as_a_user(account: int, kind: str) -> None:
    import tempfile

    reachable = (
        subprocess.run([sys.executable, "-c", ""], user=USER, check=False, capture_output=True)
        if (_may_run(sys.executable))
        else None
    )
    if account and (reachable is None or reachable.returncode):
        pytest.skip(f"{sys.executable} cannot be run by another account")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        assert tried(Path(folder, "trial"), kind, account=account, seed=3).wrong == []


def _may_run(program: str) -> bool:
    folders = Path(os.path.realpath(program)).parents
    return all(folder.stat().st_mode & 0o001 for folder in folders)
