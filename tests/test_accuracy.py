"""The accuracy benchmark: which cases are kept apart, how answers are scored and counted, what is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.answers import Answer, by_explain, by_report
from benchmarks.accuracy.cases import HEALTHY, Case, read
from benchmarks.accuracy.figures import Scored, confusion, figures, interval, score
from benchmarks.accuracy.libraries import architectures
from benchmarks.accuracy.page import page, with_section
from benchmarks.accuracy.split import half
from benchmarks.accuracy.wheels import code_of
from tests.cases.reports import REPORTS
from tests.support.codeobject_files import container, cuda_library

CASES = Path(__file__).with_name("cases")


def case(cause: str, *accept: str, text: str = "") -> Case:
    return Case("one", "texts", "a/b#1", cause, "reporter", accept, text)


def test_the_split_is_by_the_name_and_never_changes():
    assert [half(name) for name in ("pytorch-49081", "vllm-5222", "pytorch-149845", "ai-toolkit-530")] == [
        "worked on",
        "worked on",
        "kept",
        "kept",
    ]


@pytest.mark.parametrize(
    ("true", "answer", "expected"),
    [
        (case("a"), Answer(("a", "b"), True), "first"),
        (case("a", "b"), Answer(("b",), True), "first"),
        (case("c"), Answer(("a", "b", "c"), True), "among three"),
        (case("d"), Answer(("a", "b", "c", "d"), True), "later"),
        (case("x"), Answer(("a",), True), "wrong"),
        (case("x"), Answer(("a",), False), "not known"),
        (case("x"), Answer(), "not known"),
        (case(HEALTHY), Answer(("a",), False), "silent"),
        (case(HEALTHY), Answer(("a",), True), "false alarm"),
    ],
)
def test_how_right_an_answer_is(true, answer, expected):
    assert score(true, answer) == expected


def test_intervals_are_wilsons():
    assert interval(44, 68) == pytest.approx((0.529, 0.750), abs=0.001)
    assert interval(0, 10) == pytest.approx((0.0, 0.278), abs=0.001)
    assert interval(0, 0) == (0.0, 1.0)


def test_figures_count_healthy_reports_apart():
    scored = [
        Scored(case("a"), Answer(("a",), True), "first"),
        Scored(case("a"), Answer(("b", "a"), True), "among three"),
        Scored(case("a"), Answer(), "not known"),
        Scored(case(HEALTHY), Answer(("b",), True), "false alarm"),
    ]
    found = figures(scored)
    assert found["cause first"].startswith("1 of 3, 33 %")
    assert found["cause among the first three"].startswith("2 of 3, 67 %")
    assert found["not known"].startswith("1 of 3")
    assert found["false alarms"].startswith("1 of 1, 100 %")
    assert confusion(scored) == {("a", "b"): 1, ("a", "nothing"): 1, (HEALTHY, "b"): 1}


def test_a_text_is_put_to_the_report_and_to_explain():
    given = case("torchvision-mismatch", text="RuntimeError: operator torchvision::nms does not exist")
    for tool in (by_report, by_explain):
        answer = tool(given)
        assert answer is not None
        assert score(given, answer) == "first"


def test_a_text_that_looks_like_an_option_is_a_text():
    assert by_explain(case("a", text="--group-add 39 --group-add 105")) == Answer()


def test_the_texts_are_new_and_say_who_confirmed_them():
    texts = [one for one in read(CASES) if one.group == "texts"]
    assert len(texts) >= 30
    assert sum(one.cause == HEALTHY for one in texts) >= len(texts) // 5
    assert {one.confirmed for one in texts} <= {"maintainer", "reporter", "participant", "inferred"}
    assert not {one.ref for one in texts} & {report.report for report in REPORTS.values()}


def test_no_row_of_the_matrix_comes_from_a_text_that_measures_it():
    matrix = Path("compat_matrix.yaml").read_text().partition("error_patterns:")[2].partition("\nxids:")[0]
    measured = {one.ref for one in read(CASES) if one.group == "texts"}
    cited = {ref for ref in measured if f'"{ref}' in matrix or f"; {ref}" in matrix}
    assert not cited


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two cases, one of each half."""
    rows = [
        {"id": name, "ref": f"x/{name}#1", "diagnosis": "no-such-cause", "confirmed_by": "reporter", "input": "x"}
        for name in ("pytorch-49081", "pytorch-149845")
    ]
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_of_kept_cases_only_totals_are_printed(folder: Path, monkeypatch, capsys):
    page = folder / "page.md"
    arguments = [str(folder), "--half", "both", "--tool", "explain", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", ["accuracy", *arguments])
    main()
    for told in (capsys.readouterr().out, page.read_text()):
        assert "kept" in told and "0 of 1" in told
        assert "pytorch-49081" in told and "pytorch-149845" not in told


def test_without_being_asked_no_kept_case_is_run(folder: Path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["accuracy", str(folder), "--tool", "explain"])
    main()
    assert "kept" not in capsys.readouterr().out


# --- libraries and GPUs --------------------------------------------------------------------------------

OBJECTS = (
    ("elf", "sm_80"),
    ("elf", "sm_80"),
    ("elf", "sm_90a"),
    ("elf", "sm_75"),
    ("elf", "sm_80"),
    ("ptx", "sm_80"),
)
LISTING = "\n".join(
    f"Fatbin {kind} code:\n================\narch = {arch}\ncode version = [1,8]\n" for kind, arch in OBJECTS
)


@pytest.mark.parametrize(
    ("capability", "some", "most"),
    [
        (70, False, False),
        (75, True, False),
        (80, True, True),
        (86, True, True),
        (90, True, False),
        (120, True, False),
    ],
)
def test_what_a_library_runs_on_follows_from_what_cuobjdump_lists(capability: int, some: bool, most: bool):
    code = code_of(architectures(LISTING))
    assert code.runs_on(capability, most=False) is some
    assert code.runs_on(capability, most=True) is most


def test_code_for_one_gpu_alone_runs_on_no_later_one():
    assert code_of(["sm_90a"]).runs_on(90, most=False)
    assert not code_of(["sm_100a"]).runs_on(103, most=False)


def test_a_library_and_a_gpu_are_a_case(tmp_path: Path):
    library = cuda_library(container("sm_80"))
    (tmp_path / "lib.so").write_bytes(library)
    rows = {
        gpu: {"library": str(tmp_path / "lib.so"), "gpu": gpu, "cause": cause}
        for gpu, cause in (("A100", HEALTHY), ("V100", "no-code"))
    }
    (tmp_path / "wheels.yaml").write_text(json.dumps(rows))
    cases = read(tmp_path)
    assert [score(one, by_report(one) or Answer()) for one in cases] == ["silent", "first"]


def test_the_page_keeps_what_was_measured_of_other_tools() -> None:
    first = page({})
    with_tools = with_section(first, "| tool | 3 of 4 |")
    assert with_tools.index("## Other tools\n\n| tool | 3 of 4 |\n") < with_tools.index("## Misses")
    assert page({}, with_tools) == with_tools
    again = with_section(with_tools, "| tool | 4 of 4 |")
    assert "3 of 4" not in again
    assert again.count("## Other tools") == 1
