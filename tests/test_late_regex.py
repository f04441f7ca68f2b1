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
