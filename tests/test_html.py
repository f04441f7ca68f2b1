"""A report, and a fleet, as one HTML file: what stands in it, and that no text gets out of its place."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from html.parser import HTMLParser

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudoctor.fleet.records import FleetNode, FleetProblem, FleetReport, NodeGroup, Odd, Undecided
from gpudoctor.machine import Machine, unknown
from gpudoctor.render.fleet.html import text_of as fleet_page
from gpudoctor.render.formats import report_text
from gpudoctor.render.smoke import rates_on_paper
from gpudoctor.render.style import ReportStyle
from gpudoctor.report import Report, Subject, make_report
from gpudoctor.step import ManualStep, PlannedFix, RunStep
from tests.support.check_cases import matrix
from tests.support.faulty_machines import MACHINES
from tests.support.judging import judged
from tests.support.machines import change, no_gpu_machine, nvidia_gpu, nvidia_machine
from tests.test_render_formats import made_of
from tests.test_render_smoke import kernel, smoke

_SIGNS = "\x00\x1b\n\r`|<>&@#[]()*_~:%,\\'\"!\ud800\u202e\u2066\u200f"
_ATTACKS = (
    "</style><script>alert(1)</script>", "</script>", '"><img src=x onerror=alert(1)>', "' onclick='x", "<!--",
    "javascript:alert(1)", "{{7*7}}", "&lt;b&gt;", "</pre></code><h1>", "\u202eevil\u2069", "`</code><b>`", "]]>",
)  # fmt: skip
hostile = st.text(st.one_of(st.characters(), st.sampled_from(_SIGNS)), max_size=40) | st.sampled_from(_ATTACKS)

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "script", "header", "section", "article", "details"),
    *(
        "summary",
        "h1",
        "h2",
        "h3",
        "p",
        "span",
        "strong",
        "a",
        "br",
        "wbr",
        "code",
        "pre",
        "button",
        "div",
        "dl",
        "dt",
    ),
    *("dd", "ul", "ol", "li", "table", "caption", "thead", "tbody", "tr", "th", "td", "svg", "path", "rect", "line"),
}
ATTRIBUTES = {
    *(
        "lang",
        "charset",
        "name",
        "content",
        "http-equiv",
        "class",
        "id",
        "href",
        "type",
        "hidden",
        "scope",
        "tabindex",
    ),
    *("role", "aria-label", "aria-hidden", "viewbox", "d", "width", "height", "x1", "x2", "y1", "y2"),
}


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, texts by the element that they stand in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "wbr"):
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def of_class(self, name: str) -> list[str]:
        return [tag for tag, given in self.elements if name in (given.get("class") or "").split()]


def page_of(machine: Machine, **look: object) -> str:
    judgement = judged(machine)
    report = make_report(machine, matrix(), judgement, subject=Subject("machine", "this machine"))
    rates = rates_on_paper(machine, matrix()) if machine.smoke else {}
    return report_text(report, "html", ReportStyle(rates=rates, **look), judgement.checks)  # type: ignore[arg-type]


def check_structure(text: str) -> Page:
    """One style, one script, both by their hash; nothing from elsewhere; nothing that no page of ours has."""
    page = Page(text)
    names = [tag for tag, _ in page.elements]
    assert set(names) <= TAGS
    assert not page.comments
    assert names.count("script") == names.count("style") == names.count("h1") == 1
    for tag, given_attributes in page.elements:
        assert set(given_attributes) <= ATTRIBUTES, (tag, given_attributes)
        assert (given_attributes.get("href") or "#problem-1").startswith("#")
    (policy,) = [a["content"] for _, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert "default-src 'none'" in policy
    for name in ("style", "script"):
        content = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
    assert all(c.isprintable() or c == "\n" for c in text)
    return page


# --- what stands in it -------------------------------------------------------------------------------


def test_problems_come_first_each_with_its_fix_to_copy() -> None:
    page = check_structure(page_of(MACHINES["torch-no-arch-for-gpu"]))
    assert page.texts["h1"] == ["1 problem"]
    assert page.texts["h2"][0] == "Problems"
    assert "torch-no-arch-for-gpu" in page.texts["article"][0]
    assert "pip install" in page.texts["code"][0]
    assert "torch==2.7.0+cu128" in page.texts["code"][0]
    assert page.of_class("copy")


def test_a_command_is_copied_as_it_is_typed() -> None:
    fix = PlannedFix("Do it", (RunStep(("echo", "a b", "<c>")), ManualStep('Then:\nname = "x" && y')))
    report = made_of("x")
    finding = replace(report.findings[0], fixes=(fix,))
    page = check_structure(report_text(replace(report, findings=(finding,)), "html"))
    assert page.texts["code"][:2] == ["echo 'a b' '<c>'", 'name = "x" && y']


def test_a_sentence_after_the_content_of_a_file_is_not_copied() -> None:
    page = check_structure(page_of(MACHINES["nouveau-conflict"]))
    (content,) = [code for code in page.texts["code"] if "blacklist" in code]
    assert content == "blacklist nouveau\noptions nouveau modeset=0"


def test_the_picture_shows_where_it_does_not_fit() -> None:
    def states(machine: Machine) -> dict[str, str]:
        text = page_of(machine)
        boxes = re.findall(r'<li class="part ([^"]*)">.*?</svg>([^<]*)<', text, re.DOTALL)
        return {name: state for state, name in boxes}

    broken = states(MACHINES["torch-no-arch-for-gpu"])
    assert broken["Framework"] == "error"
    assert broken["Driver"] == "neutral"
    behind = states(MACHINES["no-driver"])
    assert behind["Driver"] == "error"
    assert behind["Framework"] == "neutral waits"
    assert set(states(nvidia_machine()).values()) == {"ok"}
    assert "ok" not in states(no_gpu_machine()).values(), "never green where nothing can be used"


def test_a_problem_of_a_check_that_did_not_run_has_its_place_in_the_picture() -> None:
    error = (
        "NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation"
    )
    page = page_of(change(MACHINES["no-gpu"], errors=(error,)))
    assert '<li class="part error' in page
    assert page.count('href="#problem-1"') == 1


def test_what_is_unknown_is_not_said_to_be_missing() -> None:
    unread = change(nvidia_machine(), environment=unknown("no Python in this recording"))
    page = check_structure(page_of(unread))
    (box,) = [text for text in page.texts["li"] if text.startswith("Framework")]
    assert "unknown" in box
    assert "not there" not in box
    assert "none" not in box


def test_the_picture_leads_to_the_problem() -> None:
    page = check_structure(page_of(MACHINES["torch-no-arch-for-gpu"]))
    targets = [given["href"] for tag, given in page.elements if tag == "a"]
    ids = [f"#{given['id']}" for _, given in page.elements if given.get("id")]
    assert targets == ["#problem-1"]
    assert set(targets) <= set(ids)


def test_kernels_and_rates_are_plots_beside_their_figures() -> None:
    gpu = nvidia_gpu("NVIDIA GeForce RTX 4090", "sm_89")
    run = smoke(
        kernel(error=0.001, tolerance=0.01, ms=1.5),
        kernel("conv", status="wrong", error=0.5, tolerance=0.01, detail="3 elements differ"),
        kernel("memory-rate", "", measures={"gb_per_s": 912.0}),
        kernel("peer", "", status="skipped", detail="one GPU"),
    )
    text = page_of(change(nvidia_machine(gpu), smoke=run, level="quick"))
    page = check_structure(text)
    rows = [row for row in page.texts["tr"] if row]
    assert rows[1].startswith("conv"), "what failed comes first"
    assert "3 elements differ" in rows[1]
    assert any("912 GB/s" in row for row in rows)
    bars = re.findall(r'<rect class="(\w+)" width="([\d.]+)%"', text)
    assert bars[0] == ("wrong", "100.0")
    assert bars[1] == ("right", "60.0"), "a tenth of the tolerance"


def test_the_page_is_the_same_for_the_same_report() -> None:
    assert report_text(made_of("x"), "html", ReportStyle()) != report_text(made_of("y"), "html", ReportStyle())
    report = made_of("x")
    assert report_text(report, "html", ReportStyle()) == report_text(report, "html", ReportStyle())


def test_nothing_of_it_is_imported_for_another_format() -> None:
    program = (
        "import sys, gpudoctor.command_line.check, gpudoctor.render.text\n"
        "print([m for m in sys.modules if 'render.html' in m or m == 'html'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- hostile texts -----------------------------------------------------------------------------------


@given(hostile)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_machine_becomes_markup(text: str) -> None:
    report: Report = made_of(text)
    check_structure(report_text(report, "html", ReportStyle(again=(text,), note=text)))


@given(hostile)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_kernel_becomes_markup(text: str) -> None:
    run = smoke(
        kernel(text, text, error=0.1, tolerance=0.1, message=text, detail=text, measures={text: 1.0}), why=text
    )
    report = made_of("x")
    check_structure(report_text(replace(report, machine=change(report.machine, smoke=run)), "html"))


@given(hostile)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_text_of_a_node_becomes_markup(text: str) -> None:
    node = FleetNode(text, "error", 1, text, (text,), (Odd(text, text, text, "error"),), text)
    fix = PlannedFix(text, (RunStep((text,)), ManualStep(text)))
    group = NodeGroup(text, text, 1, (text,), (fix,), text, text, (FleetProblem(text, text, "error", text),))
    other = Undecided(text, {text: (text,)})
    check_structure(
        fleet_page(
            FleetReport(
                verdict="error", exit_code=1, nodes=(node,), groups=(group,), missing=(text,), undecided=(other,)
            )
        )
    )


# --- a fleet -----------------------------------------------------------------------------------------


def fleet(number: int) -> FleetReport:
    """Nodes of which the third and the fifth are odd, and the fourth is silent."""
    names = [f"gpu{place:03d}" for place in range(1, number + 1)]
    nodes = [FleetNode(name, "ok", 0, "g1") for name in names]
    nodes[2] = FleetNode(
        names[2], "error", 1, "g2", ("GPD402",), (Odd("torch", "2.6.0+cu124", "2.9.1+cu128", "error"),)
    )
    nodes[3] = FleetNode(names[3], "unknown", 3, "", why="no answer within 60 s")
    nodes[4] = FleetNode(names[4], "warning", 0, "g1", (), (Odd("kernel", "6.8.0-59", "6.8.0-60", "warning"),))
    fix = PlannedFix("Replace torch", (RunStep(("pip", "install", "torch==2.9.1")),))
    problem = FleetProblem("GPD402", "torch-no-arch-for-gpu", "error", "torch has no kernels for this GPU.")
    rest = tuple(name for name in names if name not in (names[2], names[3]))
    groups = (
        NodeGroup("g2", "H100", 8, (names[2],), (fix,), problems=(problem,)),
        NodeGroup("g1", "H100", 8, rest),
    )
    split = Undecided("clocksource", {"tsc": tuple(names[::2]), "hpet": tuple(names[1::2])})
    return FleetReport(
        verdict="error", exit_code=1, nodes=tuple(nodes), groups=groups, missing=(), undecided=(split,)
    )


def test_a_fleet_shows_odd_nodes_first_and_only_facts_that_differ() -> None:
    page = check_structure(fleet_page(fleet(8)))
    head, norm, *rows = [row for row in page.texts["tr"] if not row.startswith("g")][:2] + [
        row for row in page.texts["tr"] if row.startswith("gpu")
    ]
    assert "torch" in head.lower()
    assert "2.9.1+cu128" in norm
    assert [row[:6] for row in rows[:3]] == ["gpu003", "gpu004", "gpu005"]
    assert "2.6.0+cu124" in rows[0]
    assert "no answer within 60 s" in rows[1]
    assert rows[1].count("?") == 3, "its mark, and two facts of which nothing is known"
    assert "2.9.1+cu128" not in rows[3], "what is like most is left blank"
    assert len(rows) == 8
    assert "pip install torch==2.9.1" in page.texts["code"]


def test_nodes_of_a_large_fleet_that_are_alike_share_a_row() -> None:
    written = fleet_page(fleet(512))
    page = check_structure(written)
    assert "007,<wbr>009,<wbr>011" in written, "a long list of nodes is broken between numbers, not inside one"
    rows = [row for row in page.texts["tr"] if row.startswith("gpu")]
    assert len(rows) == 5, "three of their own, and one for each value of what is undecided"
    assert "254 nodes" in "".join(rows)
