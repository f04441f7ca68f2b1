"""Texts of strangers: nothing of them runs, nothing of them reaches a terminal, a CI or a page as more than text."""

from __future__ import annotations

import ast
import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpudoctor
from gpudoctor.intake.text.reading import read_text
from gpudoctor.plain_text import without_workflow_commands
from gpudoctor.render.formats import FORMATS
from gpudoctor.render.json import to_json
from tests.hostile.answers import answer, wrong_with_answer
from tests.hostile.pasted import PLANTS, hostile_text
from tests.hostile.pumps import pumped
from tests.support.check_cases import matrix

SOURCE = Path(gpudoctor.__file__).parent
READERS = sorted(
    path
    for pattern in ("intake/*.py", "intake/text/*.py", "probes/nvidia_smi*.py", "probes/amd_*.py", "probes/log_*.py")
    for path in SOURCE.glob(pattern)
)
LENGTH = 700
"""Of a pumped line: long enough that a pattern of cubic time takes seconds."""
SECONDS = 0.1


def test_nothing_that_is_planted_in_a_text_is_taken_for_more_than_text() -> None:
    """In an error message, the name of a GPU, a version, a variable and a path: what reports repeat."""
    for plants in (PLANTS[start : start + 6] for start in range(0, len(PLANTS), 6)):
        text = "[pip3] torch==2.5.1+cu124\nGPU 0: NVIDIA {0} RTX\nHSA_OVERRIDE_GFX_VERSION={1}\n" + (
            "RuntimeError: CUDA error: no kernel image is available {2}\n"
            "ImportError: /opt/{3}/flash_attn_2_cuda.so: undefined symbol: x {4}\n"
            "NVRM: Xid (PCI:0000:01:00): 79, {5}\n"
        )
        for number, plant in enumerate(plants):
            text = text.replace(f"{{{number}}}", plant)
        given = answer(text.encode("utf-8", "surrogatepass"))
        assert not list(wrong_with_answer(given)), text


def test_mutated_and_spliced_texts_are_answered() -> None:
    chance = random.Random(20261123)
    for number in range(20):
        content = hostile_text(chance)
        given = answer(
            content, ("text", "markdown", "github", FORMATS[number % len(FORMATS)]), planned=number % 5 == 0
        )
        assert not list(wrong_with_answer(given)), content


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::add-mask::x", ":\\x3aadd-mask::x"),
        ("read ::set-output name=a::b", "read :\\x3aset-output name=a::b"),
        ("x##[add-mask]y", "x#\\x23[add-mask]y"),
        ("##vso[task.setvariable variable=a]b", "#\\x23vso[task.setvariable variable=a]b"),
        ("operator torchvision::nms does not exist", "operator torchvision::nms does not exist"),
        ("## Environment", "## Environment"),
    ],
)
def test_what_a_ci_would_run_is_shown_with_a_number(text: str, shown: str) -> None:
    assert without_workflow_commands(text) == shown
    assert json.loads(to_json({"a": text})) == {"a": text}
    assert not re.search(r"##\w*\[", to_json({"a": text}))


# --- patterns --------------------------------------------------------------------------------------


def patterns_of(path: Path) -> Iterator[tuple[str, bool, int]]:
    """The regular expressions that a module writes down, whether each is tried at every place, and their flags."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
            continue
        if ast.unparse(node.func.value) == "re" and isinstance(node.args[0], ast.Constant):
            pattern, written = node.args[0].value, ast.unparse(node)
            name = ast.unparse(node.func).rpartition(".")[2]
            if isinstance(pattern, str) and name != "escape":
                yield pattern, name not in ("match", "fullmatch", "compile"), re.M if "re.M" in written else 0


def slowest(pattern: str, flags: int, *, everywhere: bool) -> float:
    """Seconds of the processor for the line that takes longest."""
    compiled = re.compile(pattern, flags)
    seconds = 0.0
    for line in pumped(pattern, LENGTH):
        for text in (line, line.replace(" ", "\n")):
            started = time.process_time()
            (compiled.search if everywhere else compiled.match)(text)
            seconds = max(seconds, time.process_time() - started)
            if seconds > SECONDS:
                return seconds
    return seconds


def test_no_pattern_of_a_reader_takes_long_over_a_line_that_nearly_matches() -> None:
    slow = [
        (path.name, pattern)
        for path in READERS
        for pattern, everywhere, flags in patterns_of(path)
        if slowest(pattern, flags, everywhere=everywhere) > SECONDS
    ]
    assert not slow


def test_no_pattern_of_the_matrix_takes_long_over_a_line_that_nearly_matches() -> None:
    tables = matrix().tables
    rows = [(row.id, row.pattern) for row in tables.error_patterns]
    rows += [(row.id, row.pattern) for row in tables.log_patterns]
    assert not [name for name, pattern in rows if slowest(pattern, 0, everywhere=True) > SECONDS]


def test_a_pattern_that_goes_back_and_forth_is_found() -> None:
    assert slowest(r"^\|\s*(\d+)\s+(\S.*?)\s+(?:On|Off)?\s*\|\s*x", 0, everywhere=True) > SECONDS


@pytest.mark.parametrize("words", ["nvidia driver 535 ", "Xid 79 and xid 13 ", "upgraded to Fedora 43 "])
def test_a_line_that_says_one_thing_again_and_again_is_weighed_once(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed: list[str] = []
    for module in ("kernel_log", "prose"):
        place = f"gpudoctor.intake.text.{module}.is_hypothetical"
        monkeypatch.setattr(place, lambda text: weighed.append(text) or False)
    read_text((words * 300)[:3900].encode(), matrix())
    assert len(weighed) <= 4 and all(len(text) <= 600 for text in weighed)
