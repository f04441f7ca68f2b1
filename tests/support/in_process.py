"""The program in the process of the tests: its arguments, variables, streams and exit code, without its start.

What a process of its own is the point of (signals, closed streams, imports) starts one.
"""

from __future__ import annotations

import gc
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess
from typing import NoReturn
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from gpudoctor.__main__ import main
from gpudoctor.cli import gpudoctor as command


def gpudoctor(
    *arguments: str, cwd: Path | None = None, environ: Mapping[str, str] | None = None, **variables: str
) -> CompletedProcess[str]:
    """Run it as from a pipe: in that folder, in `environ` or else with no variables of its own but those given."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    argv = ["gpudoctor", *arguments]
    with (
        patch("sys.argv", argv),
        patch("os.execve", _not_here),
        patch.dict(os.environ, {**(kept if environ is None else environ), **variables}, clear=True),
        chdir(cwd or os.getcwd()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        finally:  # what main arranges for a process that ends
            gc.enable()
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return CompletedProcess(argv, code, stdout, stderr)


def invoked(*arguments: str, given: str | None = None) -> Result:
    """The click command alone: what it raises is raised, and `given` stands on stdin."""
    result = CliRunner().invoke(command, arguments, standalone_mode=False, input=given)
    if result.exception is not None:
        raise result.exception
    return result


def _not_here(*_: object) -> NoReturn:
    pytest.fail("this run becomes another program: it needs a process of its own")


@contextmanager
def chdir(folder: Path | str) -> Iterator[None]:
    """Be in a folder for a while (contextlib's own comes with Python 3.11)."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
