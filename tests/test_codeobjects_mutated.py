"""Damaged and hostile files never crash, hang or eat memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_thousands_of_damaged_files() -> None:
    argv = [sys.executable, "-m", "tests.support.codeobject_mutations", "2400", "1"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    print(result["stages"])
    assert result["crashes"] == []
    assert result["files"] >= 2000
    assert result["deep"] >= result["files"] / 2
    assert result["slowest_ms"] < 100
    for stage in ("architecture of an entry", "target of a bundle", "zstd frame", "dynamic section"):
        assert result["stages"].get(stage, 0) > 50, stage
