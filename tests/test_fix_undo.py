"""Taking a repair back when the environment did not stand still since."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.fix.apply import apply
from gpudoctor.fix.errors import RepairError
from gpudoctor.fix.journal import note, runs
from gpudoctor.fix.run import Run
from gpudoctor.fix.scope import Target
from gpudoctor.fix.undo import Undone, forget, undo
from gpudoctor.step import RunStep
from tests.support.made_environments import Picture, differences, picture


class Place:
    """A folder that looks like a venv, changed by small programs: what undo does is the same for all tools."""

    def __init__(self, folder: Path) -> None:
        self.prefix, self.home, self.project = folder / "env", str(folder / "state"), folder / "pyproject.toml"
        self.site = self.prefix / "lib" / "python3.12" / "site-packages"
        self.project.write_text("torch\n")
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
        self.write("torch/__init__.py", "old")
        self.write("torch/gone.py", "old")
        self.write("torch/big.so", "\0" + "o" * 100_000)
        self.write("torch-1.dist-info/METADATA", "old")
        self.write("plain/__init__.py", "plain")
        (self.site / "torch" / "link").symlink_to("big.so")
        self.before = picture(self.prefix)

    def write(self, path: str, content: str) -> Path:
        file = self.site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def run(self, code: str, *, risk: str = "replaces", undo_argv: Sequence[Sequence[str]] = ()) -> Run:
        step = RunStep(
            argv=(sys.executable, "-I", "-c", code),
            cwd=str(self.site),
            risk="root" if risk == "root" else "replaces",
            undo=tuple(tuple(argv) for argv in undo_argv),
        )
        target = Target(prefix=str(self.prefix), python="", files=(str(self.project),))
        applied = apply([step], target, self.home, plan=None, say=print)
        assert applied.ok and applied.run
        return applied.run

    def replace_torch(self) -> Run:
        return self.run(REPLACE)

    def undo(self, run: Run) -> Undone:
        return undo(run, say=print)

    def changes(self) -> Picture:
        return differences(self.before, picture(self.prefix))


REPLACE = """
import os, shutil
from pathlib import Path
shutil.rmtree("torch"); shutil.rmtree("torch-1.dist-info")
for path, text in {"torch/__init__.py": "new", "torch/more/added.py": "new", "torch/big.so": "n" * 100_000,
                   "torch-2.dist-info/METADATA": "new"}.items():
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
Path("../../../../pyproject.toml").write_text("torch from there")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_undo_twice_does_nothing_the_second_time(place: Place) -> None:
    run = place.replace_torch()
    assert place.undo(run).restored > 3
    assert place.changes() == {} and place.project.read_text() == "torch\n"
    kept = place.write("torch/mine.py", "mine")
    assert place.undo(run) == Undone(ok=True)
    assert kept.read_text() == "mine"


def test_what_somebody_changed_since_is_moved_aside_and_told(place: Place) -> None:
    run = place.replace_torch()
    place.write("torch/__init__.py", "edited by hand")
    place.write("torch/more/mine.py", "new by hand")
    undone = place.undo(run)
    assert place.changes() == {}
    aside = {os.path.relpath(path, place.site): Path(where).read_text() for path, where in undone.aside}
    assert aside == {"torch/__init__.py": "edited by hand", "torch/more/mine.py": "new by hand"}


def test_what_somebody_added_stays(place: Place) -> None:
    run = place.replace_torch()
    place.write("requests/__init__.py", "new")
    place.write("requests-1.dist-info/METADATA", "new")
    place.write("plain/mine.py", "new")
    place.write("plain/__init__.py", "edited")
    place.write("torch/mine.py", "new")
    undone = place.undo(run)
    changed = {os.path.relpath(path, place.site) for path in place.changes()}
    files = {"requests/__init__.py", "requests-1.dist-info/METADATA", "plain/mine.py", "plain/__init__.py"}
    assert undone.ok and not undone.aside
    assert changed == files | {"torch/mine.py", "requests", "requests-1.dist-info", "plain"}


def test_a_project_file_that_somebody_edited_stays_with_the_earlier_one_beside(place: Place) -> None:
    run = place.replace_torch()
    place.project.write_text("my work")
    undone = place.undo(run)
    assert place.project.read_text() == "my work" and undone.stays == [str(place.project)]
    assert Path(undone.earlier[0][1]).read_text() == "torch\n"


def test_bytecode_that_python_wrote_since_is_nobodys_work(place: Place) -> None:
    run = place.replace_torch()
    place.write("torch/__pycache__/__init__.cpython-312.pyc", "made")
    place.write("torch/more/__pycache__/added.cpython-312.pyc", "made")
    undone = place.undo(run)
    assert undone.ok and not undone.aside
    assert {path for path in place.changes() if "more" in path or path.endswith(".pyc")} == set()


def test_the_target_of_a_link_that_somebody_made_is_left_alone(place: Place, tmp_path: Path) -> None:
    run = place.replace_torch()
    own = tmp_path / "my-torch"
    (place.site / "torch").rename(own)
    (place.site / "torch").symlink_to(own)
    mine = picture(own)
    undone = place.undo(run)
    assert differences(mine, picture(own)) == {}
    assert undone.ok and [path for path, _ in undone.aside] == [str(place.site / "torch")]
    assert place.changes() == {}


def test_a_package_that_was_installed_again_since_is_not_mixed_with_the_old_one(place: Place) -> None:
    run = place.replace_torch()
    (place.site / "torch-2.dist-info").rename(place.site / "torch-3.dist-info")
    after = picture(place.prefix)
    with pytest.raises(RepairError, match="Installed again since the fix: torch"):
        place.undo(run)
    assert differences(after, picture(place.prefix)) == {}
    assert runs(place.home)[-1].state == "done"


def test_a_library_comes_back_as_the_same_file_with_its_other_links_unharmed(place: Place, tmp_path: Path) -> None:
    cached = tmp_path / "cached.so"
    os.link(place.site / "torch" / "big.so", cached)
    run = place.replace_torch()
    assert place.undo(run).ok and place.changes() == {}
    assert cached.read_text() == "\0" + "o" * 100_000
    assert os.path.samefile(cached, place.site / "torch" / "big.so")


def test_a_large_text_that_a_tool_appends_to_comes_back(place: Place) -> None:
    history = place.write("history", "line\n" * 50_000)
    run = place.run("open('history', 'a').write('more')")
    assert place.undo(run).ok and history.read_text() == "line\n" * 50_000


def test_a_library_that_was_written_in_place_is_told_as_lost(place: Place) -> None:
    library = place.site / "torch" / "big.so"
    before = library.read_bytes()
    run = place.run("open('torch/big.so', 'ab').write(b'more')")
    undone = place.undo(run)
    cloned = library.read_bytes() == before
    assert undone.lost == ([] if cloned else [str(library)])


def test_later_repairs_are_undone_first(place: Place) -> None:
    first = place.replace_torch()
    second = place.run("open('second.py', 'w').write('x')")
    with pytest.raises(RepairError, match=second.id):
        place.undo(first)
    assert place.undo(second).ok and place.undo(first).ok
    assert place.changes() == {}


def test_kept_files_that_are_gone_stop_the_undo_before_it_begins(place: Place) -> None:
    run = place.replace_torch()
    after = picture(place.prefix)
    for path in Path(run.begun.kept).iterdir():
        path.unlink()
    with pytest.raises(RepairError, match="gone"):
        place.undo(run)
    assert differences(after, picture(place.prefix)) == {}


def test_a_forgotten_repair_takes_no_room_and_cannot_be_undone(place: Place) -> None:
    run = place.replace_torch()
    assert run.kept_bytes > 100_000
    kept = run.kept_bytes
    assert forget(run) == kept
    assert runs(place.home) == () and not os.path.exists(run.begun.kept)
    with pytest.raises(RepairError, match="gone"):
        place.undo(run)


def test_what_only_the_kept_files_can_mend_is_not_forgotten_by_mistake(place: Place) -> None:
    run = place.replace_torch()
    journal = Path(run.folder, "journal.jsonl")
    journal.write_text("".join(line for line in journal.open() if '"mark":"done"' not in line.replace(" ", "")))
    note(run, "interrupted", step=0)
    with pytest.raises(RepairError, match="half changed"):
        forget(run)
    assert runs(place.home)[-1].state == "cut off" and os.path.exists(run.begun.kept)
    assert place.undo(runs(place.home)[-1]).ok and differences(place.before, picture(place.prefix)) == {}


def test_what_was_cut_off_in_an_environment_that_is_gone_can_be_forgotten(place: Place) -> None:
    run = note(place.replace_torch(), "interrupted", step=0)
    shutil.rmtree(place.prefix)
    forget(run)
    assert runs(place.home) == ()


def test_undo_commands_of_system_steps_are_run_and_a_failing_one_can_be_tried_again(
    place: Place, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    code = f"import os, sys; sys.exit(0 if os.path.exists({str(gate)!r}) else 3)"
    run = place.run("open('a', 'w')", risk="root", undo_argv=[(sys.executable, "-c", code)])
    undone = place.undo(run)
    assert not undone.ok and "(3)" in undone.problem and place.changes() == {}
    assert runs(place.home)[-1].state == "undoing"
    gate.touch()
    assert place.undo(run).ok and runs(place.home)[-1].state == "undone"


def test_of_a_run_that_was_cut_off_later_changes_are_told_apart_by_their_time(place: Place) -> None:
    run = place.replace_torch()
    journal = Path(run.folder, "journal.jsonl")
    lines = journal.read_text().splitlines()
    ended = next(number for number, line in enumerate(lines) if '"ended"' in line)
    journal.write_text("\n".join(lines[:ended]) + '\n{"mark": "ended", "torn')
    Path(run.folder, "after").unlink()
    long_ago = time.time() - 60
    os.utime(Path(run.folder, "alive"), (long_ago, long_ago))
    text = journal.read_text()
    for line in lines:
        at = line.partition('"at":')[2].split(",")[0].rstrip("}")
        text = text.replace(f'"at":{at}', f'"at":{long_ago}')
    journal.write_text(text)
    found = runs(place.home)[-1]
    # Its owner is this very process; it is taken for ended.
    owner = replace(found.begun.owner, start=1)
    import msgspec

    first, _, rest = text.partition("\n")
    assert first
    journal.write_bytes(msgspec.json.encode(replace(found.begun, owner=owner)) + b"\n" + rest.encode())
    found = runs(place.home)[-1]
    assert found.state == "cut off"
    undone = place.undo(found)
    # All of it seems to be changed long after the run died: nothing of it is thrown away.
    assert (place.site / "torch" / "__init__.py").read_text() == "old"
    kept = {os.path.relpath(path, place.site): Path(where).read_text() for path, where in undone.aside}
    assert kept["torch/__init__.py"] == "new"


def test_what_setuptools_brings_for_itself_is_no_package_of_the_environment(tmp_path):
    from gpudoctor.fix.recorded_packages import packages
    from gpudoctor.fix.recorded_tree import scan
    from tests.support.environments import write_distribution, write_venv

    site = write_venv(tmp_path / "venv", pip=False)
    write_distribution(site, "setuptools", "84.2.1")
    write_distribution(site / "setuptools/_vendor", "zipp", "3.19.2")
    found = packages(scan([bytes(tmp_path / "venv")]))
    assert [package.name for package in found] == ["setuptools"]
