"""The reports that no rule was written from: they are read, they are new, and none is a false alarm."""

from __future__ import annotations

import pytest

from tests.cases.fresh import read, scored
from tests.cases.reports import REPORTS

CASES = read()


def test_they_are_confirmed_and_new() -> None:
    refs = [case.ref for case in CASES.values()]
    assert len(refs) == len(set(refs)) >= 60
    assert not {report.report for report in REPORTS.values()} & set(refs)
    assert all(case.whatif or case.host or case.missing for case in CASES.values())
    assert all(case.fix or case.cause == "healthy" for case in CASES.values())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.cause == "healthy"])
def test_sound_machines_get_no_error(name: str) -> None:
    assert scored(name, CASES[name], fuller=False).score == "right"
