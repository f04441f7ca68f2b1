"""The forms of a report for other programs: JUnit XML, GitHub annotations, Markdown; hostile texts in each."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudoctor.engine import Ignored, judge
from gpudoctor.finding import Evidence
from gpudoctor.machine import Distribution, Machine, known
from gpudoctor.render.formats import FORMATS, report_text
from gpudoctor.render.style import ReportStyle
from gpudoctor.report import Report, ReportedFinding, ReportedQuestion, Subject, make_report
from gpudoctor.step import EnvStep, ManualStep, PlannedFix, RunStep
from gpudoctor.suites import machine_checks
from tests.support.check_cases import matrix
from tests.support.machines import no_gpu_machine, nvidia_gpu, nvidia_machine, torch, with_environment

BLACKWELL = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")
MACHINE_FORMS = [style for style in FORMATS if style != "text"]

hostile = st.text(
    st.one_of(st.characters(), st.sampled_from("\x00\x1b\n\r\t`|<>&@#[]()*_~:%,\\'\"!\ud800\u202e")), max_size=40
)


def given_as(style: str, machine: Machine, *select: str, ignore: dict[str, str] | None = None, **look: bool) -> str:
    judgement = judge(machine, matrix(), machine_checks(), select=select, ignore=ignore)
    report = make_report(machine, matrix(), judgement, subject=Subject("machine", "this machine"))
    return report_text(report, style, ReportStyle(**look), judgement.checks)


def made_of(text: str) -> Report:
    """A report that holds this text wherever a machine's texts can come to stand."""
    base = nvidia_machine(nvidia_gpu(text, "sm_89"))
    fix = PlannedFix(text, (RunStep((text, text), why=text), EnvStep("A", text), ManualStep(text)))
    found = ReportedFinding(
        id="GPD402",
        slug="torch-no-arch-for-gpu",
        severity="error",
        confidence="certain",
        subject=text,
        device=None,
        devices=(),
        framework="torch",
        caused_by=(),
        message=text,
        saw=text,
        want=text,
        evidence=(Evidence(text, text, text),),
        fixes=(fix,),
        refs=(text,),
    )
    return Report(
        matrix="2026.11.1",
        subject=Subject("root", text),
        verdict="error",
        exit_code=1,
        machine=base,
        findings=(found, replace(found, severity="note", id="GPD403")),
        ignored=(Ignored("GPD303", text),),
        not_judged=(ReportedQuestion("GPD104", text, True), ReportedQuestion("GPD105", text, False)),
    )


# --- JUnit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "told"), [
    ("/home/u/.local/lib/python3.12/site-packages", "~/.local (pip install --user)"),
    ("/srv/more", "/srv/more (PYTHONPATH)"),
    ("/usr/lib/python3/dist-packages", "/usr/lib/python3/dist-packages,"),
    ("/venv/lib/python3.12/site-packages", ""),
])  # fmt: skip
def test_a_package_from_outside_of_the_environment_is_told_with_where_it_comes_from(folder: str, told: str):
    vision = Distribution("torchvision", "0.20.1", f"{folder}/torchvision-0.20.1.dist-info")
    machine = nvidia_machine(packages={"torchvision": "0.20.1"}, variables={"PYTHONPATH": "/srv/more"})
    listed = machine.environment.value.distributions  # type: ignore[union-attr]
    found = tuple(vision if one.name == "torchvision" else one for one in listed.value)  # type: ignore[union-attr]
    machine = with_environment(machine, prefix="/venv", distributions=known(found, listed.source))
    screen = given_as("text", machine, "GPD420")
    assert "torchvision-mismatch" in screen and ("comes from" in screen) is bool(told)
    assert not told or f"    from    torchvision 0.20.1 comes from {told}" in screen


def case(xml: str, id: str) -> ET.Element:
    (found,) = [case for case in ET.fromstring(xml).iter("testcase") if case.get("name", "").startswith(id)]
    return found


def test_junit_has_a_case_for_each_check_that_ran_and_a_failure_for_an_error():
    xml = given_as("junit", nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124")), "GPD4")
    suite = ET.fromstring(xml).find("testsuite")
    assert suite is not None
    cases = suite.findall("testcase")
    assert {case.get("name", "")[:4] for case in cases} == {"GPD4"}
    assert int(suite.get("tests", "")) == len(cases) > 10
    assert [case.get("name") for case in cases if case.find("failure") is not None] == [
        "GPD402 torch-no-arch-for-gpu"
    ]
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    failure = case(xml, "GPD402").find("failure")
    assert failure is not None
    assert "sm_120" in failure.get("message", "")
    assert "torch==2.7.0+cu128" in (failure.text or "")


def test_junit_tells_a_note_in_a_case_that_passes():
    older = nvidia_machine(driver="550.163.01", torch=torch("2.9.1+cu128"))
    (note,) = [finding for finding in judge(older, matrix(), machine_checks()).findings if finding.severity == "note"]
    told = case(given_as("junit", older), note.id)
    assert told.find("failure") is None
    assert "note" in (told.findtext("system-out") or "")


def test_junit_skips_what_is_ignored_and_says_why():
    broken = nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124"))
    skipped = case(given_as("junit", broken, "GPD4", ignore={"GPD402": "old cluster"}), "GPD402").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "ignored: old cluster"


def test_junit_has_an_error_where_a_question_that_matters_is_open():
    xml = report_text(replace(made_of("why"), findings=(), verdict="unknown", exit_code=3), "junit")
    error = case(xml, "GPD104").find("error")
    assert error is not None
    assert error.get("message") == "why"
    assert ET.fromstring(xml).get("errors") == "1"


# The parts of the xUnit plug-in's schema that bear on what is written here: (attributes, children).
SCHEMA = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": (
        {"name", "time", "classname"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set()),
    "error": ({"type", "message"}, set()),
    "skipped": ({"type", "message"}, set()),
    "system-out": (set(), set()),
}


@given(hostile)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_junit_is_well_formed_and_meets_the_schema_whatever_a_machine_says(text: str):
    root = ET.fromstring(report_text(made_of(text), "junit").encode("utf-8"))
    for element in root.iter():
        attributes, children = SCHEMA[element.tag]
        assert set(element.keys()) <= attributes
        assert {child.tag for child in element} <= children
    assert root.get("failures") == "1"


# --- GitHub annotations ------------------------------------------------------------------------------


def annotation(line: str) -> tuple[str, dict[str, str], str]:
    """An annotation as the runner reads it: level, properties, message."""
    head, message = line[2:].split("::", 1)
    level, _, rest = head.partition(" ")
    properties = dict(pair.split("=", 1) for pair in rest.split(","))
    return level, {name: unescaped(value) for name, value in properties.items()}, unescaped(message)


def unescaped(text: str) -> str:
    for code, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_github_marks_an_error_and_its_repair():
    (line,) = given_as(
        "github", nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124")), "GPD4"
    ).splitlines()
    level, properties, message = annotation(line)
    assert level == "error"
    assert properties == {"title": "torch-no-arch-for-gpu [GPD402] GPU 0 NVIDIA GeForce RTX 5090"}
    assert "torch==2.7.0+cu128" in message


def test_github_says_nothing_where_all_is_well():
    assert given_as("github", nvidia_machine()) == ""


def test_github_names_file_and_line_of_a_finding_in_the_project():
    report = made_of("text")
    finding = replace(report.findings[0], evidence=(Evidence("line", "RUN x", "docker/Dockerfile:12"),))
    line = report_text(replace(report, findings=(finding,)), "github").splitlines()[0]
    assert annotation(line)[1]["file"] == "docker/Dockerfile"
    assert annotation(line)[1]["line"] == "12"
    of_the_system = replace(finding, evidence=(Evidence("line", "x", "/etc/modprobe.d/x.conf:3"),))
    assert "file=" not in report_text(replace(report, findings=(of_the_system,)), "github")


@given(hostile)
@settings(max_examples=60)
def test_github_no_text_starts_a_line_or_a_command(text: str):
    lines = report_text(made_of(text), "github").split("\n")
    assert lines.pop() == ""
    assert [annotation(line)[0] for line in lines] == ["error", "notice", "error", "notice"]
    assert all(re.fullmatch(r"::(error|notice) [^:\r\n]*::[^\r\n]*", line) for line in lines)


# --- Markdown ------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def outside_of_code(text: str) -> str:
    """What a renderer of Markdown would interpret: fences, code spans and <code> elements are taken away. A fence
    ends with a line of at least as many backticks as it began with."""
    kept, fence = [], ""
    for line in text.split("\n"):
        ticks = re.match(r" {0,3}(`{3,})\s*(\w*)\s*$", line)
        if fence:
            if ticks and len(ticks[1]) >= len(fence) and not ticks[2]:
                fence = ""
        elif ticks:
            fence = ticks[1]
        else:
            kept.append(line)
    assert not fence
    plain = re.sub(r"<code>(?:[^\W_]| |&#\d+;)*</code>", "", "\n".join(kept))
    return re.sub(r"`[^`\n]+`", "", plain)


PLAIN = outside_of_code(report_text(made_of("plain"), "markdown"))


@example("x\n```\n@someone <b>\n````\n# heading")
@given(hostile.filter(lambda text: text.strip()))
@settings(max_examples=80)
def test_markdown_nothing_of_a_machine_is_interpreted(text: str):
    written = outside_of_code(report_text(made_of(text), "markdown"))
    parser = Tags()
    parser.feed(written)
    assert parser.tags <= {"details", "summary"}
    assert not set("@#[]*_`\\") & set(re.sub(r"^#+ .*$", "", written, flags=re.M)) - set("_")
    # Nothing but its code differs from the report of a plain text: the same headings, tables, lists.
    empty = re.sub(r" +", " ", written)
    assert empty == re.sub(r" +", " ", PLAIN)


@pytest.mark.parametrize("name", ["a | b", "`x`", "@someone", "<img src=x>", "[x](https://e.example)", "a\\", "```"])
def test_markdown_a_name_of_a_gpu_stays_in_its_cell(name: str):
    machine = nvidia_machine(nvidia_gpu(name, "sm_89"))
    row = next(line for line in given_as("markdown", machine).splitlines() if line.startswith("| GPU 0"))
    cells = re.split(r"(?<!\\)\|", row)
    assert len(cells) == 4
    assert re.fullmatch(r" (`[^`|]+`|<code>[^<>|`]+</code>) ", cells[2])


def test_markdown_has_verdict_finding_command_and_folded_evidence():
    text = given_as("markdown", nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124")))
    assert text.startswith("## gpudoctor: error\n")
    assert "### error: torch-no-arch-for-gpu [GPD402]" in text
    assert re.search(r"```sh\n.*torch==2\.7\.0\+cu128.*\n```", text)
    assert text.index("<details>") < text.index("gpu.arch = sm_120") < text.index("</details>")


@pytest.mark.parametrize(
    ("machine", "heading"),
    [
        (nvidia_machine(), "ok"),
        (no_gpu_machine(torch=None), "no usable GPU"),
        (nvidia_machine(torch=None), "no framework to check"),
    ],
    ids=["a GPU that works", "no GPU", "no framework"],
)
def test_markdown_calls_nothing_ok_that_could_not_be_used(machine: Machine, heading: str):
    assert given_as("markdown", machine).startswith(f"## gpudoctor: {heading}\n")


@pytest.mark.parametrize("style", MACHINE_FORMS)
def test_what_is_private_stays_out_unless_it_is_asked_for(style: str):
    broken = nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124"))
    environment = broken.environment.value
    assert environment is not None
    home = replace(environment, prefix="/home/marie/venv", interpreter="/home/marie/venv/bin/python")
    machine = replace(broken, environment=known(home, "/home/marie/venv/pyvenv.cfg"))
    assert "marie" not in given_as(style, machine)
    assert ("marie" in given_as(style, machine, private=True)) or style in ("github", "openmetrics")


@pytest.mark.parametrize("style", FORMATS)
@given(text=hostile)
@settings(max_examples=20)
def test_every_form_takes_every_text(style: str, text: str):
    assert report_text(made_of(text), style).encode("utf-8", "replace")


def test_openmetrics_has_one_verdict_and_each_problem():
    machine = nvidia_machine(BLACKWELL, driver="570.133.07", torch=torch("2.6.0+cu124"))
    lines = given_as("openmetrics", machine, "GPD4").splitlines()
    verdicts = [line for line in lines if line.startswith("gpudoctor_node_verdict{")]
    assert [line for line in verdicts if line.endswith(" 1")] == ['gpudoctor_node_verdict{verdict="error"} 1']
    labels = 'id="GPD402",slug="torch-no-arch-for-gpu",severity="error"'
    assert f"gpudoctor_node_problem{{{labels}}} 1" in lines and lines[-1] == "# EOF"


def test_openmetrics_has_no_type_that_node_exporter_refuses():
    text = given_as("openmetrics", nvidia_machine(BLACKWELL))
    assert set(re.findall(r"^# TYPE \S+ (\S+)$", text, re.MULTILINE)) <= {"gauge", "counter", "untyped"}
