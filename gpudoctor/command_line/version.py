"""`gpudoctor --version`: of the program and of its compatibility matrix."""

from __future__ import annotations

from gpudoctor import __version__
from gpudoctor.matrix.load import matrix_version


def print_version() -> int:
    """Print both versions; the exit code."""
    print(f"gpudoctor {__version__}, compatibility matrix {matrix_version()}")
    return 0
