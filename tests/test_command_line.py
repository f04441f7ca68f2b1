"""Command lines: what is read without click is what click would read."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any
from unittest.mock import patch

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.command_line.arguments import LINE as CHECK
from gpudoctor.command_line.option_parser import CommandLine, read
from gpudoctor.host import InputError
from gpudoctor.preflight.arguments import LINE as PREFLIGHT

_LINES = {"check": (CHECK, "judge_and_tell"), "preflight": (PREFLIGHT, "pass_or_refuse")}
"""The options of a command, and the function of its module that takes what was given."""

_VALUES = ["static", "driver", "full", "json", "never", "gpu>=1", "", "-1", "--", "/tmp/x", "ID=why", "a,b", "\udcff"]
_VALUE = st.one_of(
    st.sampled_from([*_VALUES, "--level", "-v", "-", "-q", "-=", "--x=y", "=", "=a", " ", "-- "]),
    st.text(alphabet="-=qv a1", max_size=4),
)


def command_lines(line: CommandLine) -> st.SearchStrategy[list[str]]:
    """Words that are options, nearly options, and values."""
    names = [name for option in line.options for name in option.names]
    name = st.sampled_from([*names, "-qv", "-vq", "-x", "--help", "--lev", "--no-such"])
    value = _VALUE | st.sampled_from(names)
    parts = st.one_of(
        st.builds(
            lambda option, value: [*option.names[-1:], *([] if option.flag else [value])],
            st.sampled_from(line.options),
            value,
        ),
        st.builds(lambda name, value: [f"{name}={value}"], name, value),
        st.builds(lambda name, times: [name] * times, name, st.integers(1, 3)),
        st.builds(lambda value: [value], value),
        st.just(["--"]),
    )
    return st.lists(parts, max_size=6).map(lambda parts: [word for part in parts for word in part])


def variables(line: CommandLine) -> st.SearchStrategy[dict[str, str]]:
    names = sorted({option.variable for option in line.options if option.variable})
    return st.dictionaries(st.sampled_from(names), st.sampled_from([*_VALUES, "1", "NO", "a;b"]))


def by_click(name: str, argv: list[str], environ: dict[str, str]) -> dict[str, Any] | None:
    """What click's command hands on; None where it refuses, or prints its help."""
    module, taker = importlib.import_module(f"gpudoctor.cli.{name}"), _LINES[name][1]
    command: click.Command = getattr(module, name)
    taken: list[dict[str, Any]] = []

    def take(given: dict[str, Any]) -> int:
        taken.append(given)
        return 0

    with patch.object(module, taker, take), patch("os.environ", environ):
        try:
            command.main(argv, prog_name=f"gpudoctor {name}", standalone_mode=False)
        except (click.ClickException, InputError):
            return None
    return taken[0] if taken else None


@pytest.mark.parametrize("name", _LINES)
@settings(max_examples=300)
@given(data=st.data())
def test_a_plain_command_line_is_read_as_click_reads_it(name: str, data: st.DataObject):
    line, _ = _LINES[name]
    argv, environ = data.draw(command_lines(line)), data.draw(variables(line))
    quick = read(line, argv, environ)
    if quick is not None:  # all else goes to click itself
        assert quick == by_click(name, argv, environ)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--level", "static", "-q", "--", "a", "--level", "x"], {"level": "static", "quiet": True}),
        (["--require=gpu>=1", "--require", "p2p", "a", "--level", "x"], {"require": ("gpu>=1", "p2p")}),
        (["--python=", "--wait", "5", "a", "--level", "x"], {"wait": "5"}),
    ],
)
def test_the_usual_entrypoints_need_no_click(argv: list[str], expected: dict[str, Any]):
    assert read(PREFLIGHT, argv, {}) == {**expected, "command": ("a", "--level", "x")}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], {}),
        (["--level", "static", "--format=json", "-v"], {"level": "static", "style": "json", "verbose": True}),
        (["--gpu", "H100", "--gpu", "H200", "--driver", "550"], {"gpus": ("H100", "H200"), "driver": "550"}),
        (["--env", "A=1", "--env=B=2", "--root", "/host"], {"variables": ("A=1", "B=2"), "root": "/host"}),
        (["--root="], {"root": ""}),
    ],
)
def test_the_usual_checks_need_no_click(argv: list[str], expected: dict[str, Any]):
    assert read(CHECK, argv, {}) == expected


def test_variables_stand_in_where_the_command_line_says_nothing():
    environ = {"GPUDOCTOR_LEVEL": "static", "GPUDOCTOR_IGNORE": "GPD303=old cluster, no-gpu", "GPUDOCTOR_QUIET": "no"}
    read_so = {"level": "static", "ignore": ("GPD303=old cluster", "no-gpu")}
    assert read(CHECK, [], environ) == read_so
    assert read(CHECK, ["--level", "driver", "-q"], environ) == {**read_so, "level": "driver", "quiet": True}
    assert read(CHECK, [], {"GPUDOCTOR_LEVEL": "deep"}) is None


_IMPORTED = """
import atexit, os, sys
def tell(*_):
    print("imported:", *sorted({"click", "rich", "distro", "psutil", "yaml", "packaging"} & set(sys.modules)))
    sys.stdout.flush()
    os._exit(0)
os.execve = tell
atexit.register(tell)
from gpudoctor.__main__ import main
main()
"""


@pytest.mark.parametrize(
    "argv",
    [
        ["preflight", "--level", "static", "--ignore", "no-gpu", "--", "true"],
        ["check", "--level", "static"],
        ["check", "--level=static", "--format", "json"],
    ],
)
def test_a_plain_run_imports_no_library_that_only_people_need(argv: list[str]):
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTED, *argv], capture_output=True, text=True, check=False, timeout=60
    )
    imported = done.stdout.splitlines()[-1].split()
    assert imported[0] == "imported:", done.stderr
    assert set(imported[1:]) <= {"yaml"}  # a checkout whose matrix was edited reads the YAML
