"""The door that `gpudoctor` and `python -m gpudoctor` come in by."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; the exit codes are those of design §3."""
    if not sys.platform.startswith("linux"):
        print("gpudoctor runs on Linux only (x86-64, aarch64, WSL2).", file=sys.stderr)
        sys.exit(2)
    # A run lasts a tenth of a second and makes few cycles: looking for them costs more than it frees,
    # at the exit too, where Python would go through everything that is frozen here.
    gc.disable()
    code = _preflight(sys.argv[2:]) if sys.argv[1:2] == ["preflight"] else _run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    from gpudoctor.cli import run

    return run(arguments)


def _preflight(arguments: list[str]) -> int:
    """A container waits for this one: a plain command line is not read by click, which takes longer than all else."""
    from gpudoctor.preflight.arguments import read
    from gpudoctor.preflight.command import USAGE, preflight, status

    given = read(arguments, os.environ)
    if given is not None:
        return preflight(given)
    command = arguments[arguments.index("--") + 1 :] if "--" in arguments else ()
    try:
        code = _run(["preflight", *arguments])
    except OSError:  # nobody can be told what is wrong with them
        code = USAGE
    return status(code, tuple(command))


if __name__ == "__main__":
    main()
