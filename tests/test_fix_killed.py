"""A repair or an undo that is killed anywhere loses nothing. `python -m tests.killed_repairs` does it many times."""

from __future__ import annotations

import pytest

from tests.killed_repairs import Killing


@pytest.fixture(scope="module")
def killing(tmp_path_factory: pytest.TempPathFactory) -> Killing:
    return Killing(tmp_path_factory.mktemp("killed"), modules=40)


@pytest.mark.parametrize("part", [0.15, 0.5, 0.85])
def test_a_killed_repair_is_undone_or_continued(killing: Killing, part: float) -> None:
    for fix in ("undo", "resume"):
        found, lost = killing.one("apply", part, fix)
        assert lost == "", (found, fix)


@pytest.mark.parametrize("part", [0.5, 0.8])
def test_a_killed_undo_is_undone_again(killing: Killing, part: float) -> None:
    found, lost = killing.one("undo", part, "undo")
    assert lost == "", found
