"""`import torch`, tried for real in children of the running interpreter, with small made-up torches."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from gpudoctor.host import LiveHost, RecordedHost
from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, PythonEnvironment
from gpudoctor.probes.torch_import import try_import
from tests.environments import write_venv

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
WORKING = """
class version:
    cuda, hip = "12.8", None
class _C:
    @staticmethod
    def _cuda_getArchFlags():
        return "sm_80 sm_90 compute_90"
class cuda:
    @staticmethod
    def device_count():
        return 2
__version__ = "2.9.1+cu128"
"""


def attempt(
    root: Path, program: str, seconds: float = 20, variables: dict[str, str] | None = None
) -> Fact[ImportTrial]:
    """Try a torch whose __init__.py is `program`."""
    home = str(Path(sys.base_prefix) / "bin")
    package = write_venv(root / "venv", PYTHON, home=home) / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(program)
    environment = PythonEnvironment(interpreter=str(root / "venv/bin/python"))
    return try_import(LiveHost(), environment, seconds, variables)


def trial(root: Path, program: str, **variables: str) -> ImportTrial:
    answer = attempt(root, program, variables=variables)
    assert answer.value is not None, answer
    return answer.value


def test_an_import_that_works(tmp_path: Path) -> None:
    found = trial(tmp_path, WORKING)
    assert (found.ok, found.version, found.cuda, found.hip) == (True, "2.9.1+cu128", "12.8", "")
    assert found.arch_list == ("sm_80", "sm_90", "compute_90")
    assert found.device_count == 2


def test_an_empty_folder_of_that_name_is_no_torch(tmp_path: Path) -> None:
    (write_venv(tmp_path / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin")) / "torch").mkdir()
    found = try_import(LiveHost(), PythonEnvironment(interpreter=str(tmp_path / "venv/bin/python")), 20).value
    assert found is not None
    assert (found.ok, found.error) == (False, "ImportError: what is imported as torch is an empty folder")


def test_stray_output_is_kept_apart(tmp_path: Path) -> None:
    noise = "import sys\nprint('{\"step\": \"raised\"}' * 100)\nsys.stderr.write('\\x1b[31mwarning\\n')\n"
    assert trial(tmp_path, noise + WORKING).version == "2.9.1+cu128"


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (
            "raise ImportError('libcudnn.so.9: cannot open shared object file: No such file or directory')",
            "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory",
        ),
        (
            "raise ImportError('/x/libtorch_cuda.so: undefined symbol:\\n ncclCommShrink')",
            "ImportError: /x/libtorch_cuda.so: undefined symbol: ncclCommShrink",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
    ],
)
def test_an_import_that_raises_is_named_by_its_last_line(tmp_path: Path, program: str, error: str) -> None:
    found = trial(tmp_path, program)
    assert (found.ok, found.error, found.signal) == (False, error, "")


@pytest.mark.parametrize("name", ["SIGABRT", "SIGILL", "SIGSEGV", "SIGKILL"])
def test_a_signal_is_named_with_what_was_said_last(tmp_path: Path, name: str) -> None:
    said = "terminate called after throwing an instance of 'c10::Error'"
    speaks = f"import os, signal, sys\nsys.stderr.write({said!r})\nsys.stderr.flush()\n"
    found = trial(tmp_path, speaks + f"os.kill(os.getpid(), signal.{name})\n")
    assert (found.ok, found.signal, found.error) == (False, name, said)


def test_a_process_that_ends_within_the_import(tmp_path: Path) -> None:
    found = trial(tmp_path, "import os\nos._exit(7)\n")
    assert not found.ok
    assert "status 7 during the import" in found.error


def test_an_interpreter_that_does_not_start_is_told_from_a_torch_that_does_not(tmp_path: Path) -> None:
    found = trial(tmp_path, WORKING, PYTHONHOME=str(tmp_path))
    assert not found.ok
    assert found.error.startswith("the interpreter itself did not start")


def test_an_import_that_hangs_is_unknown_and_said_so(tmp_path: Path) -> None:
    answer = attempt(tmp_path, "import time\ntime.sleep(60)\n", seconds=1)
    assert answer.state == "unknown"
    assert "import torch gave no answer within 1 s" in answer.why


def test_counting_that_hangs_is_no_fault_of_the_import(tmp_path: Path) -> None:
    hanging = WORKING.replace("return 2", "import time; time.sleep(60)")
    answer = attempt(tmp_path, hanging, seconds=2)
    assert answer.value is not None
    assert (answer.value.ok, answer.value.device_count) == (True, None)


def test_the_persons_variables_apply(tmp_path: Path) -> None:
    program = "import os\nraise ImportError(os.environ['GPUDOCTOR_TEST'])\n"
    assert trial(tmp_path, program, GPUDOCTOR_TEST="seen").error == "ImportError: seen"


def test_a_torch_in_the_current_folder_is_not_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert trial(tmp_path, WORKING).ok


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    writes = "import os\nopen('here', 'w').close()\nopen(os.environ['TRITON_CACHE_DIR'] + '/x', 'w').close()\n"
    assert trial(tmp_path, writes + WORKING).ok
    assert os.listdir(tmp_path / "tmp") == []
    assert not list((tmp_path / "venv").rglob("__pycache__"))


def test_an_environment_outlives_the_python_it_was_made_with(tmp_path: Path) -> None:
    found = try_import(LiveHost(), PythonEnvironment(interpreter=str(tmp_path / "gone"))).value
    assert found is not None
    assert (found.ok, found.error.startswith(NOT_STARTED)) == (False, True)


def test_below_a_root_nothing_is_started(tmp_path: Path) -> None:
    answer = try_import(RecordedHost(tmp_path), PythonEnvironment(interpreter=sys.executable))
    assert answer.state == "unknown"
