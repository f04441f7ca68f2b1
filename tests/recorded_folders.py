"""Records every made host of the tests and compares what is found there: `python -m tests.recorded_folders`.

The first report is of the host itself, the second of what `snapshot --root HOST --files FOLDER` made of it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.hosts import Host
from tests.support.in_process import invoked
from tests.test_hosts_amd import FAULTY as AMD_FAULTY
from tests.test_hosts_amd import HEALTHY as AMD_HEALTHY
from tests.test_hosts_faulty import FAULTS
from tests.test_hosts_healthy import SETUPS
from tests.test_hosts_python import HEALTHY as PYTHON_HEALTHY

Setup = Callable[[Host], Host]

HOSTS: dict[str, Setup] = {
    **{f"faulty: {name}": row[-1] for name, row in FAULTS.items()},
    **{f"healthy: {name}": setup for name, setup in SETUPS.items()},
    **{f"amd, healthy: {name}": setup for name, setup in AMD_HEALTHY.items()},
    **{f"amd, faulty: {name}": row[-1] for name, row in AMD_FAULTY.items()},
    **{f"python: {name}": setup for name, setup in PYTHON_HEALTHY.items()},
}


def both_reports(name: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The reports of a host and of its recording, which lies in `folder / "recorded"`."""
    host = HOSTS[name](Host(folder / "host"))
    first = host.check()
    record(folder / "host", folder / "recorded")
    return first, report_of(folder / "recorded")


def record(root: Path, folder: Path) -> str:
    """What `snapshot --root --files` says."""
    words = ["snapshot", "--root", str(root), "--files", str(folder)]
    return invoked(*words).stdout


def report_of(root: Path) -> dict[str, Any]:
    words = ["check", "--root", str(root), "--format", "json"]
    result = invoked(*words)
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def told(report: dict[str, Any]) -> dict[str, Any]:
    """What a person is told: the problems with their fixes, and what could not be checked."""
    findings = [
        (one["id"], one["slug"], one["severity"], one["message"], [fix["title"] for fix in one["fixes"]])
        for one in report["findings"]
    ]
    questions = [(one["id"], one["matters"]) for one in report["not_judged"]]
    return {"verdict": report["verdict"], "findings": findings, "not_judged": questions}


def main() -> int:
    """Compare all; 1 if one differs."""
    different = 0
    for name in HOSTS:
        with tempfile.TemporaryDirectory() as folder:
            first, second = both_reports(name, Path(folder))
        if told(first) != told(second):
            different += 1
            print(f"{name}:\n  {told(first)}\n  {told(second)}")
    print(f"{len(HOSTS)} hosts, {different} of which differ from their recording")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
