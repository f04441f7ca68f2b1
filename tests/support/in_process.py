"""The program in the process of the tests: its arguments, variables, streams and exit code, without its start.

What a process of its own is the point of (signals, closed streams, imports) starts one.
"""

from __future__ import annotations

import gc
import io
import os
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from gpudoctor.__main__ import main


def gpudoctor(*arguments: str, **variables: str) -> CompletedProcess[str]:
    """Run it as from a pipe, with no variables of its own but those given."""
    foreign = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    argv = ["gpudoctor", *arguments]
    with (
        patch("sys.argv", argv),
        patch.dict(os.environ, {**foreign, **variables}, clear=True),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
        finally:  # what main arranges for a process that ends
            gc.unfreeze()
            gc.enable()
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return CompletedProcess(argv, code, stdout, stderr)
