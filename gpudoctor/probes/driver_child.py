"""Running the programs of `children/`: bare, timed, with an answer channel of their own (in memory).

Driver libraries print what they like, hang and crash; each line that got through before counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.host.bound_child import bound
from gpudoctor.host.child import run_limited

_ANSWERS_LIMIT = 4 << 20
# As an import would load it: compiled already, where an installer did that.
_PROGRAM = """
from importlib.machinery import SourceFileLoader
del sys.argv[0]
exec(SourceFileLoader("__main__", sys.argv[0]).get_code("__main__"))
"""


class ChildRun(Struct, frozen=True):
    """The lines a child wrote, and how it ended if not well: "crashed (SIGSEGV)", "gave no answer within 20 s"."""

    lines: tuple[bytes, ...] = ()
    failure: str = ""


def run_child(name: str, arguments: tuple[str, ...], seconds: float, environ: Mapping[str, str]) -> ChildRun:
    """Run `children/<name>.py` with a bare interpreter, in the examined process's variables.

    It writes nothing and needs no folder to write to: containers may have none.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children", f"{name}.py")
    try:
        channel = os.memfd_create("gpudoctor-answers")
    except OSError as error:
        return ChildRun(failure=f"could not be asked: {error}")
    try:
        result = run_limited(
            (sys.executable, "-I", "-S", "-B", *bound(_PROGRAM, script, str(channel), *arguments)),
            seconds,
            environ={**environ, "CUDA_CACHE_DISABLE": "1"},
            cwd="/",
            pass_fds=(channel,),
        )
        lines = tuple(os.pread(channel, _ANSWERS_LIMIT, 0).splitlines())
    finally:
        os.close(channel)
    if result.value is None:
        return ChildRun(lines, "gave " + result.why if result.why.startswith("no answer") else result.why)
    return ChildRun(lines, _ending(result.value.rc, result.value.stderr))


def _ending(code: int, errors: str) -> str:
    if code == 0:
        return ""
    if code < 0:
        import signal

        try:
            return f"crashed ({signal.Signals(-code).name})"
        except ValueError:
            return f"crashed (signal {-code})"
    last = errors.strip().splitlines()[-1:] or [f"status {code}"]
    return f"failed: {last[0][:200]}"
