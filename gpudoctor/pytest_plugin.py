"""`pytest --gpudoctor`: stop with the cause before the first test, where the GPUs cannot be used.

Off unless it is asked for. The check runs in a process of its own, so that nothing of it comes into the tests; this
module is loaded by every pytest beside which gpudoctor is installed, and imports nothing for that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest

_LEVELS = ("static", "driver", "quick", "standard", "full")
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0", "")

# A module of the folder where pytest was started must not take the place of one that gpudoctor imports.
_PROGRAM = "import sys; sys.path[:] = filter(None, sys.path); from gpudoctor.__main__ import program; program()"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --gpudoctor, --gpudoctor=LEVEL and the ini option."""
    group = parser.getgroup("gpudoctor")
    # Each is a flag: an option with a value that may be left out would take `tests/` for its value.
    for name, value, help in (
        ("--gpudoctor", "on", "Check GPUs, driver and torch first; stop with the cause if they cannot be used."),
        *((f"--gpudoctor={level}", level, f"The same, with `gpudoctor check --level {level}`.") for level in _LEVELS),
        ("--gpudoctor=off", "off", "Do not check, although the ini option says so."),
    ):
        group.addoption(name, dest="gpudoctor", action="store_const", const=value, default=None, help=help)
    parser.addini("gpudoctor", "check GPUs, driver and torch before the tests: true, or a level", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Check once: not in each worker of xdist, nor where no test runs."""
    asked = str(config.getoption("gpudoctor") or config.getini("gpudoctor")).strip().lower()
    if asked in _OFF or hasattr(config, "workerinput") or config.getoption("collectonly", False):
        return
    if asked not in (*_ON, *_LEVELS):
        import pytest

        raise pytest.UsageError(f"gpudoctor = {asked}: write true or a level: {', '.join(_LEVELS)}")
    config.pluginmanager.register(_Check("" if asked in _ON else asked), "gpudoctor check")


class _Check:
    """The check of this session."""

    def __init__(self, level: str) -> None:
        self.arguments = ["--level", level] if level else []
        self.warnings: list[str] = []

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Run the check; end the session if it refuses."""
        import os
        import subprocess
        import sys

        import pytest

        from gpudoctor.exit_codes import REFUSALS  # those of preflight differ from the exit codes of pytest

        # The tests' own environment, unless another machine or environment is named.
        elsewhere = os.environ.get("GPUDOCTOR_PYTHON") or os.environ.get("GPUDOCTOR_FROM")
        examined = [] if elsewhere else ["--python", sys.executable]
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, "check", "--format", "text", "--quiet", *examined, *self.arguments],
            cwd=session.config.rootpath,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        self.warnings = done.stdout.splitlines()
        if done.returncode:
            session.config.get_terminal_writer().line(done.stdout.strip())
            pytest.exit(
                f"gpudoctor: no test was run (exit code {done.returncode} of the check)",
                returncode=REFUSALS.get(done.returncode, done.returncode),
            )

    def pytest_report_header(self) -> list[str]:
        """Say that the machine passed, and with what warning."""
        return ["gpudoctor: the check passed", *self.warnings]
