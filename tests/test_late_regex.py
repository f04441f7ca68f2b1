"""Patterns that are compiled when they are first used: each is a regular expression, and acts like a compiled one."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import pytest

import gpudoctor.intake
import gpudoctor.late_regex
from gpudoctor.late_regex import late
from gpudoctor.literals import literal_parts
from gpudoctor.matrix.load import load_matrix


def test_every_pattern_can_be_compiled() -> None:
    for module in pkgutil.walk_packages(gpudoctor.intake.__path__, "gpudoctor.intake."):
        importlib.import_module(module.name)
    patterns = [one for one in gc.get_objects() if type(one).__name__ == "_Late"]
    assert len(patterns) > 200
    for one in patterns:
        re.compile(one.pattern, one._flags)


def test_a_pattern_is_compiled_at_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile
    monkeypatch.setattr(
        gpudoctor.late_regex.re, "compile", lambda text, flags=0: compiled.append(text) or compile_(text, flags)
    )
    pattern = late(r"(?P<vendor>nvidia|amd)\b", re.IGNORECASE)
    assert compiled == []
    assert [found["vendor"] for found in pattern.finditer("AMD, nvidia")] == ["AMD", "nvidia"]
    assert pattern.sub("x", "amd amdgpu") == "x amdgpu"
    assert pattern.fullmatch("Nvidia")
    assert pattern.pattern == r"(?P<vendor>nvidia|amd)\b"
    assert compiled == [pattern.pattern]


def test_a_pattern_is_not_compiled_for_a_text_without_any_of_its_literal_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpudoctor.late_regex.re, "compile", lambda *_: pytest.fail("compiled"))
    pattern = late(r"(\d+) (?:wombats?|Badgers)\b", re.IGNORECASE)
    text = "Of 5 badge rs, no GPU"
    assert pattern.search(text) is pattern.match(text) is pattern.fullmatch(text) is None
    assert pattern.findall(text) == list(pattern.finditer(text)) == []
    assert (pattern.split(text), pattern.sub(r"\1", text), pattern.subn("", text)) == ([text], text, (text, 0))


@pytest.mark.parametrize(
    "text", ["\u0130nsert", "\u0131nsert", "in\u017fert", "INSERT", "insert", "in\u017fert" * 500]
)
def test_no_match_in_whatever_letters_is_lost(text: str) -> None:
    assert late(r"insert", re.IGNORECASE).match(text)


def test_letters_that_no_small_letter_tells_of_are_the_known_ones() -> None:
    alike = re.findall(r"[a-z]", "".join(map(chr, range(0x11000))), re.IGNORECASE)
    assert {letter for letter in alike if not letter.lower().isascii()} | {"\u0130"} == set(
        gpudoctor.late_regex._LIKE_OTHERS
    )


def test_every_match_of_a_pattern_of_ours_holds_one_of_its_literal_parts() -> None:
    tables = load_matrix().tables
    told = [row.pattern for row in (*tables.told_circumstances, *tables.told_concepts, *tables.error_patterns)]
    late_ones = [one for one in gc.get_objects() if type(one).__name__ == "_Late"]
    texts = [row.example for row in (*tables.told_circumstances[::9], *tables.error_patterns[::9])]
    spared = 0
    for pattern in {*told, *(one.pattern for one in late_ones if not one._flags & re.VERBOSE)}:
        parts = literal_parts(pattern, folded=True)
        for text in texts:
            if not any(part in text.lower() for part in parts):
                spared += 1
                assert not re.search(pattern, text, re.IGNORECASE), pattern
    assert spared > 50_000
