"""Running the programs of `children/`: bare, timed, their standard output kept for their answers.

Driver libraries print what they like, hang and crash; each line that got through before counts.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from gpudoctor.host.child import run_bound

# As an import would load it: compiled already, where an installer did that.
_PROGRAM = """
from importlib.machinery import SourceFileLoader
del sys.argv[0]
exec(SourceFileLoader("__main__", sys.argv[0]).get_code("__main__"))
"""


class ChildRun(Struct, frozen=True):
    """The lines a child wrote, and how it ended if not well: "crashed (SIGSEGV)", "gave no answer within 20 s"."""

    lines: tuple[str, ...] = ()
    failure: str = ""
    gone: bool = True
    """Whether nothing of it is left. Else it waits in the driver, and whatever asks there will wait, too."""


def run_child(name: str, arguments: tuple[str, ...], seconds: float, environ: Mapping[str, str]) -> ChildRun:
    """Run `children/<name>.py` with a bare interpreter, in the examined process's variables.

    It writes nothing and needs no folder to write to: containers may have none, and no file may grow there. What one
    said that cannot be ended does not count: it would live on beside the command.
    """
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children", f"{name}.py")
    variables = {**environ, "CUDA_CACHE_DISABLE": "1"}
    run = run_bound(_PROGRAM, (script, *arguments), seconds, environ=variables, cwd="/")
    lines = tuple(run.output.stdout.splitlines()) if run.gone else ()
    if run.failure:
        return ChildRun(
            lines, "gave " + run.failure if run.failure.startswith("no answer") else run.failure, run.gone
        )
    return ChildRun(lines, _ending(run.output.rc, run.output.stderr))


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
