"""The door that `gpudoctor` and `python -m gpudoctor` come in by."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line; the exit codes are those of design §3."""
    if not sys.platform.startswith("linux"):
        print("gpudoctor runs on Linux only (x86-64, aarch64, WSL2).", file=sys.stderr)
        sys.exit(2)
    # A run lasts a tenth of a second and makes few cycles: looking for them costs more than it frees,
    # at the exit too, where Python would go through everything that is frozen here.
    gc.disable()
    from gpudoctor.cli import run

    code = run(sys.argv[1:])
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
