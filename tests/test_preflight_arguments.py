"""The command line of `gpudoctor preflight`: what is read without click is what click would read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any
from unittest.mock import patch

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.cli.preflight import preflight as command
from gpudoctor.preflight.arguments import OPTIONS, read

_NAMES = [name for option in OPTIONS for name in option.names]
_VALUES = ["static", "driver", "full", "json", "never", "gpu>=1", "", "-1", "--", "/tmp/x", "ID=why", "a,b", "\udcff"]
_VALUE = st.one_of(
    st.sampled_from([*_VALUES, *_NAMES, "-", "-q", "-=", "--x=y", "=", "=a", " ", "-- "]),
    st.text(alphabet="-=qv a1", max_size=4),
)
_NAME = st.sampled_from([*_NAMES, "-qv", "-vq", "-x", "--help", "--lev", "--no-such"])
_PARTS = st.one_of(
    st.builds(
        lambda option, value: [*option.names[-1:], *([] if option.flag else [value])],
        st.sampled_from(OPTIONS),
        _VALUE,
    ),
    st.builds(lambda name, value: [f"{name}={value}"], _NAME, _VALUE),
    st.builds(lambda name, times: [name] * times, _NAME, st.integers(1, 3)),
    st.builds(lambda value: [value], _VALUE),
    st.just(["--"]),
)
_COMMAND_LINES = st.lists(_PARTS, max_size=6).map(lambda parts: [word for part in parts for word in part])
_VARIABLES = {option.variable for option in OPTIONS if option.variable}


def by_click(argv: list[str], environ: dict[str, str]) -> dict[str, Any] | None:
    """What click's command hands on; None where it refuses, or prints its help."""
    taken: list[dict[str, Any]] = []

    def take(given: dict[str, Any]) -> int:
        taken.append(given)
        return 0

    with patch("gpudoctor.cli.preflight.pass_or_refuse", take), patch("os.environ", environ):
        try:
            command.main(argv, prog_name="gpudoctor preflight", standalone_mode=False)
        except click.ClickException:
            return None
    return taken[0] if taken else None


@settings(max_examples=1000)
@given(
    argv=_COMMAND_LINES,
    environ=st.dictionaries(st.sampled_from(sorted(_VARIABLES)), st.sampled_from([*_VALUES, "1", "NO", "a;b"])),
)
def test_a_plain_command_line_is_read_as_click_reads_it(argv: list[str], environ: dict[str, str]):
    quick = read(argv, environ)
    if quick is not None:  # all else goes to click itself
        assert quick == by_click(argv, environ)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--level", "static", "-q", "--", "a", "--level", "x"], {"level": "static", "quiet": True}),
        (["--require=gpu>=1", "--require", "p2p", "a", "--level", "x"], {"require": ("gpu>=1", "p2p")}),
        (["--python=", "--wait", "5", "a", "--level", "x"], {"wait": "5"}),
    ],
)
def test_the_usual_command_lines_need_no_click(argv: list[str], expected: dict[str, Any]):
    assert read(argv, {}) == {**expected, "command": ("a", "--level", "x")}


def test_variables_stand_in_where_the_command_line_says_nothing():
    environ = {"GPUDOCTOR_LEVEL": "static", "GPUDOCTOR_IGNORE": "GPD303=old cluster, no-gpu", "GPUDOCTOR_QUIET": "no"}
    read_so = {"level": "static", "ignore": ("GPD303=old cluster", "no-gpu"), "quiet": False, "command": ()}
    assert read([], environ) == read_so
    assert read(["--level", "driver"], environ) == {**read_so, "level": "driver"}
    assert read([], {"GPUDOCTOR_LEVEL": "deep"}) is None


def test_a_pass_imports_no_library_that_only_people_need():
    code = (
        "import os, sys\n"
        "def became(*_):\n"
        "    print(sorted({'click', 'rich', 'distro', 'psutil', 'yaml', 'packaging'} & set(sys.modules)))\n"
        "    os._exit(0)\n"
        "os.execvpe = became\n"
        "sys.argv = ['gpudoctor', 'preflight', '--level', 'static', '--ignore', 'no-gpu', '--', 'true']\n"
        "from gpudoctor.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    matrix = {"yaml"} if "yaml" in done.stdout else set()  # a checkout whose matrix was edited reads the YAML
    assert done.stdout.strip() == str(sorted(matrix))
