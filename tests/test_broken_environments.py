"""A few of `python -m tests.broken_environments`: a broken CPU build of torch or of ONNX Runtime, and healthy ones.

GPUDOCTOR_TEST_PYTHON names the interpreter of a venv with such a torch; its copies share its files.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.broken_environments import ENTRIES, Measurement, line
from tests.support.broken_environments.bases import made
from tests.support.broken_environments.entries import Entry
from tests.support.broken_environments.environment import Environment

PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
BASE = Path(PYTHON).parent.parent
NAMED = {entry.name: entry for entry in ENTRIES}

BROKEN = (
    "libtorch_cpu.so cut short",
    "libtorch_python.so empty",
    "a library of torch deleted",
    "a module of torch cut in the middle",
    "torch.py in the working folder",
)
ODD = (
    ("LD_PRELOAD names nothing", "stubs of one's own", "a path with spaces"),
    ("a .pth file with a folder of one's own", "no bytecode", "the venv is a symbolic link"),
    (
        "packages of the system are visible",
        "headers and tests of torch removed from a CPU build",
        "scripts that are listed and not there",
    ),
    (
        "PYTHONPATH with modules of one's own",
        "a working folder full of a project's modules",
        "a user site that a venv does not use",
    ),
)
"""Three in one environment: importing its torch takes longer than all else. `python -m tests.broken_environments` has
each of them alone."""


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where copies lie."""
    folder = tmp_path_factory.mktemp("copies")
    if not PYTHON:
        pytest.skip("GPUDOCTOR_TEST_PYTHON names no interpreter with torch")
    if not any(BASE.glob("lib/python3*/site-packages/torch-*+cpu.dist-info")):
        pytest.skip(f"{BASE} is no venv with a CPU build of torch")
    if BASE.stat().st_dev != folder.stat().st_dev:
        pytest.skip(f"{BASE} lies on another file system than {folder}: it cannot be copied by hard links")
    return folder


@pytest.fixture(scope="module")
def static(copies: Path) -> Measurement:
    """One for all: what is said of the untouched base is asked once."""
    return Measurement({"cpu": BASE}, copies, level="static", repair=False)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_environment_is_called_broken_with_its_cause(name: str, copies: Path) -> None:
    row = Measurement({"cpu": BASE}, copies, level="quick", repair=False).row(NAMED[name])
    assert (row["outcome"], row["expected"]) == ("right", True), line(row)


@pytest.mark.parametrize("names", ODD, ids=", ".join)
def test_a_healthy_environment_that_looks_odd_raises_no_alarm(names: tuple[str, ...], static: Measurement) -> None:
    def breaks(environment: Environment) -> None:
        for name in names:
            NAMED[name].breaks(environment)

    row = static.row(Entry(", ".join(names), "control", "cpu", breaks))
    assert (row["outcome"], row["expected"]) == ("silent", True), line(row)


# --- a framework beside torch: a wheel of 20 MB --------------------------------------------------------------


@pytest.fixture(scope="module")
def onnxruntime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("frameworks")
    try:
        made("onnxruntime", work)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"onnxruntime cannot be installed here: {error}")
    return work


@pytest.mark.parametrize(
    ("name", "outcome", "repair"),
    [
        ("a CPU build of ONNX Runtime without NumPy", "right", ("repaired", "exact")),
        ("a CPU build of ONNX Runtime cut short", "right", None),
        ("a CPU build of ONNX Runtime without a GPU", "silent", None),
    ],
)
def test_a_real_framework_is_judged_repaired_and_brought_back(
    name: str, outcome: str, repair: tuple[str, str] | None, onnxruntime: Path
) -> None:
    row = Measurement({}, onnxruntime, level="", repair=repair is not None).row(NAMED[name])
    assert (row["outcome"], row["expected"]) == (outcome, True), line(row)
    assert repair is None or (row["repair"], row["undo"]) == repair, line(row)
