"""A failed import is told with the file that fails and its owner; what gives no answer is never called healthy."""

from __future__ import annotations

from typing import Any

import pytest

from gpudoctor.machine import (
    NOT_STARTED,
    Distribution,
    ImportTrial,
    Machine,
    ProcessLimits,
    ShadowingModule,
    SuspectFile,
    denied,
    known,
    unknown,
)
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.step import ManualStep
from tests.support.judging import finding, judged, plan_of, questions, remedies, told
from tests.support.machines import nvidia_machine, torch, with_environment, with_torch

SITE = "/venv/lib/python3.12/site-packages"
SOURCE = "import torch in /venv/bin/python"
RAISED = "RuntimeError: a text that names nothing"


def failed(error: str = RAISED, *suspects: SuspectFile, **parts: Any) -> Machine:
    trial = ImportTrial(ok=False, error=error, suspects=suspects, **parts)
    return with_torch(nvidia_machine(), trial=known(trial, SOURCE))


def suspect(path: str, **parts: Any) -> SuspectFile:
    return SuspectFile(path=f"{SITE}/{path}", **parts)


def message(machine: Machine) -> str:
    return finding(machine, "torch-import-fails").message


OF_NUMPY = suspect("numpy/__init__.py", owner="numpy", version="2.1.0")
OF_TORCH = suspect("torch/_C.so", owner="torch", version="2.9.1+cu128")


@pytest.mark.parametrize(
    ("file", "fix"),
    [
        (suspect("numpy/a.py", owner="numpy", version="2.1.0", problem="missing"), "ReinstallPackage numpy2.1.0"),
        (suspect("sympy/a.py", owner="sympy", version="1.13", problem="changed"), "ReinstallPackage sympy1.13"),
        (suspect("torch/a.py", owner="torch", problem="changed"), "ReinstallPackage torch2.9.1+cu128"),
        (
            suspect("torch/a.so", owner="torch", problem="other-python", detail="Python 3.11"),
            "ReinstallPackage torch",
        ),
        (
            suspect("a.so", owner="x", version="1", problem="other-processor", detail="aarch64"),
            "ReinstallPackage x1",
        ),
        (SuspectFile("", owner="jinja2", problem="not-installed", detail=">=3"), "ReplacePackage jinja2>=3"),
        (suspect("torch/a.so", owner="torch", problem="unreadable"), "Manual"),
        (suspect("torch/a.so", owner="torch", problem="noexec"), "Manual"),
        (suspect("a.so", problem="other-python", detail="Python 3.11"), "Manual"),
    ],
)
def test_the_package_of_the_file_that_fails_is_repaired(file: SuspectFile, fix: str) -> None:
    machine = failed(RAISED, OF_TORCH, file)
    assert told(machine) == [("torch-import-fails", "error")]
    assert remedies(machine, "torch-import-fails")[0].startswith(fix)
    assert (file.path or file.owner) in message(machine)


@pytest.mark.parametrize(
    "machine",
    [
        failed(),
        failed(RAISED, OF_TORCH),
        failed(RAISED, OF_NUMPY, OF_TORCH),
        failed("", OF_TORCH, signal="SIGSEGV", loading=OF_TORCH.path),
        failed("", signal="SIGABRT"),
        failed("", signal="SIGKILL"),
        failed("ImportError: libfoo.so.1: cannot open shared object file: No such file or directory"),
        failed("ImportError: /x/libfoo.so: undefined symbol: foo"),
        failed("ModuleNotFoundError: No module named 'not_there'", suspect("zz.py")),
        failed("ModuleNotFoundError: No module named '_ctypes'"),
        failed("no answer within 90 s", OF_TORCH, hung=True),
    ],
)
def test_without_evidence_against_its_files_torch_is_not_installed_again(machine: Machine) -> None:
    assert told(machine) == [("torch-import-fails", "error")]
    assert remedies(machine, "torch-import-fails") == ["Manual"]


@pytest.mark.parametrize(
    ("error", "limits", "said"),
    [
        ("", ProcessLimits(memory=512 << 20, memory_kills=1), "memory of its control group (512 MiB) ran out"),
        ("", ProcessLimits(), "Something killed the process"),
        ("OSError: libtorch_cuda.so: failed to map segment", ProcessLimits(address_space=2 << 30), "2.0 GiB"),
        ("MemoryError", ProcessLimits(), "Memory ran out"),
        ("RuntimeError: can't start new thread", ProcessLimits(processes=4), "(4)"),
    ],
)
def test_a_limit_is_told_as_a_limit(error: str, limits: ProcessLimits, said: str) -> None:
    machine = failed(error, OF_TORCH, signal="" if error else "SIGKILL", limits=limits)
    assert said in message(machine)
    assert remedies(machine, "torch-import-fails") == ["Manual"]


def test_an_error_is_repeated_as_it_stands_and_not_at_any_length() -> None:
    path = "/venv/torch/lib/../../nvidia/x.so"
    assert f"failed: ImportError: {path}: no. " in message(failed(f"ImportError: {path}: no.", OF_TORCH))
    assert len(message(failed("ValueError: " + "word " * 500))) < 500


def test_a_wide_limit_of_the_address_space_explains_no_crash() -> None:
    crashed = failed("", signal="SIGSEGV", limits=ProcessLimits(address_space=256 << 30))
    assert "ulimit" not in message(crashed)


def test_a_python_that_is_led_astray_has_the_variable_unset() -> None:
    trial = ImportTrial(ok=False, error=f"{NOT_STARTED} (status 1): No module named 'encodings'")
    machine = with_torch(nvidia_machine(variables={"PYTHONHOME": "/opt/py"}), trial=known(trial, SOURCE))
    assert remedies(machine, "torch-import-fails") == ["unset PYTHONHOME"]


@pytest.mark.parametrize(
    ("said", "variable"),
    [
        ("config_init_hash_seed: PYTHONHASHSEED must be random or an integer", "PYTHONHASHSEED"),
        ("preconfig_init_utf8_mode: invalid PYTHONUTF8 environment variable value", "PYTHONUTF8"),
        ("init_stdio_encoding: failed to get the Python codec name of the stdio encoding", "PYTHONIOENCODING"),
    ],
)
def test_a_variable_that_python_refuses_is_unset(said: str, variable: str) -> None:
    trial = ImportTrial(ok=False, error=f"{NOT_STARTED} (status 1): {said}")
    machine = with_torch(nvidia_machine(), trial=known(trial, SOURCE))
    assert remedies(machine, "torch-import-fails") == [f"unset {variable}"]


@pytest.mark.parametrize(
    "said",
    [
        "/apps/PYTHON311/bin/python3: error while loading shared libraries: libpython3.11.so.1.0: cannot open",
        "Consider setting $PYTHONHOME to <prefix>[:<exec_prefix>]",
    ],
)
def test_a_folder_is_no_variable_that_python_refuses(said: str) -> None:
    machine = with_torch(nvidia_machine(), trial=known(ImportTrial(ok=False, error=f"{NOT_STARTED}: {said}"), SOURCE))
    assert not any(remedy.startswith("unset") for remedy in remedies(machine, "torch-import-fails"))


def test_packages_of_another_python_on_pythonpath_are_taken_off_it() -> None:
    foreign = SuspectFile("/py311/torch/_C.cpython-311.so", problem="other-python", detail="Python 3.11")
    trial = ImportTrial(ok=False, error="ModuleNotFoundError: No module named 'torch._C'", suspects=(foreign,))
    machine = with_torch(nvidia_machine(variables={"PYTHONPATH": "/py311"}), trial=known(trial, SOURCE))
    assert remedies(machine, "torch-import-fails") == ["unset PYTHONPATH"]


def test_an_older_package_in_the_users_site_folder_is_not_looked_for() -> None:
    """`pip install` finds the release that torch wants behind it, and changes nothing."""
    user, site = "/home/me/.local/lib/python3.11/site-packages", "/opt/conda/lib/python3.11/site-packages"
    old = Distribution("typing-extensions", "4.5.0", f"{user}/typing_extensions-4.5.0.dist-info")
    asks = Distribution("torch", "2.9.1", f"{site}/torch.dist-info", requires=("typing-extensions>=4.10.0",))
    machine = failed("ImportError: cannot import name 'TypeIs' from 'typing_extensions' (a.py)")
    parts = {"prefix": "/opt/conda", "kind": "conda", "site_packages": (user, site)}
    machine = with_environment(machine, distributions=known((asks, old), SITE), **parts)
    assert remedies(machine, "requirements-incomplete") == ["set PYTHONNOUSERSITE=1"]
    venv = with_environment(machine, prefix="/venv", site_packages=("/venv/lib/python3.11/site-packages", user))
    assert remedies(venv, "requirements-incomplete") == ["ReplacePackage typing-extensions>=4.10.0"]


def test_a_symbol_of_mkl_that_is_gone_names_the_mkl_that_has_it() -> None:
    library = suspect("torch/lib/libtorch_cpu.so", owner="torch", version="2.9.1")
    machine = failed(f"ImportError: {SITE}/torch/lib/libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent", library)
    assert "The MKL beside torch is newer than this torch can use." in message(machine)
    assert "mkl<2024.1" in finding(machine, "torch-import-fails").fixes[0].remedies[0].text


def test_a_release_that_torch_does_not_want_is_replaced() -> None:
    old = suspect("typing_extensions.py", owner="typing-extensions", version="4.4.0")
    machine = failed("ImportError: cannot import name 'TypeIs' from 'typing_extensions' (a.py)", old)
    installed = (
        Distribution("torch", "2.9.1", requires=("typing-extensions>=4.10.0", 'numpy>=9; extra == "x"')),
        Distribution("typing-extensions", "4.4.0"),
    )
    machine = with_environment(machine, distributions=known(installed, SITE))
    assert remedies(machine, "requirements-incomplete") == ["ReplacePackage typing-extensions>=4.10.0"]
    assert "torch-import-fails" not in [found.slug for found in judged(machine).findings]


# --- no answer -----------------------------------------------------------------------------------------


def test_an_import_without_an_answer_is_not_known_to_work() -> None:
    tried = with_torch(nvidia_machine(), trial=unknown("no temporary folder", SOURCE))
    assert judged(tried).verdict == "unknown"
    assert [question.why for question in questions(tried)] == ["no temporary folder"]
    assert judged(with_torch(nvidia_machine(), trial=unknown("not started at this level"))).verdict == "ok"


def test_an_import_that_hangs_is_an_error_and_says_where() -> None:
    machine = failed("no answer within 90 s, at wait in zz.py line 3", suspect("zz.py"), hung=True)
    assert message(machine).startswith("`import torch` gave no answer within 90 s, at wait in zz.py line 3.")


def test_an_environment_that_may_not_be_read_is_not_called_empty() -> None:
    machine = with_environment(nvidia_machine(), torch=denied(SITE))
    assert told(machine) == [("environment-unreadable", "error")]
    elsewhere = with_environment(nvidia_machine(), torch=denied("/root/.local/lib/python3.12/site-packages"))
    assert judged(elsewhere).verdict == "unknown"


def test_a_file_that_cannot_be_loaded_is_told_before_the_import_is_tried() -> None:
    other = suspect("torch/_C.cpython-311.so", owner="torch", problem="other-python", detail="Python 3.11")
    machine = with_torch(nvidia_machine(), unloadable=(other,))
    assert "is for Python 3.11, and this is Python 3.12" in message(machine)
    assert told(with_torch(machine, trial=known(ImportTrial(ok=True), SOURCE))) == []


# --- modules in the place of others ----------------------------------------------------------------------


def shadow(name: str, via: str = "PYTHONPATH", **parts: Any) -> ShadowingModule:
    return ShadowingModule(name=name, path=f"/own/{name}.py", via=via, hides=f"/lib/{name}.py", **parts)


QUEUE = shadow("queue", standard=True)
BLAMED = "ImportError: cannot import name 'Queue' from 'queue' (/own/queue.py)"


def shadowed(machine: Machine, *shadows: ShadowingModule) -> list[tuple[str, str]]:
    return told(with_environment(machine, shadows=shadows))


def test_a_module_in_the_place_of_another_weighs_what_the_import_says() -> None:
    works = with_torch(nvidia_machine(), trial=known(ImportTrial(ok=True), SOURCE))
    assert shadowed(nvidia_machine(), QUEUE) == [("module-shadowed", "warning")]
    assert shadowed(works, QUEUE) == []
    assert shadowed(works, shadow("sympy", at_import=False)) == [("module-shadowed", "warning")]
    assert shadowed(failed(BLAMED), QUEUE) == [("module-shadowed", "error")]
    assert shadowed(failed(RAISED), QUEUE) == [("torch-import-fails", "error"), ("module-shadowed", "warning")]


@pytest.mark.parametrize(
    ("error", "files"),
    [
        ("AttributeError: module 'queue' has no attribute 'Queue'", ()),
        ("ModuleNotFoundError: No module named 'queue.abc'; 'queue' is not a package", ()),
        ("NameError: name 'x' is not defined", ("/own/queue.py", f"{SITE}/torch/__init__.py")),
        (f"{NOT_STARTED} (status 1): ImportError: no", ("/own/queue.py",)),
    ],
)
def test_every_way_an_error_points_at_it(error: str, files: tuple[str, ...]) -> None:
    assert shadowed(failed(error, files=files), QUEUE) == [("module-shadowed", "error")]


@pytest.mark.parametrize(
    ("error", "standard", "blamed"),
    [
        ("AttributeError: type object 'IntEnum' has no attribute '_convert_'", True, True),
        ("AttributeError: type object 'IntEnum' has no attribute '_convert_'", False, False),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0", True, False),
        ("/venv/bin/python cannot be started (Permission denied)", True, False),
    ],
)
def test_a_python_that_fails_in_its_own_code_is_not_whole_where_a_module_of_it_is_another_one(
    error: str, standard: bool, blamed: bool
) -> None:
    machine = failed(f"{NOT_STARTED} (status 1): {error}")
    assert shadowed(machine, shadow("enum", standard=standard))[:1] == (
        [("module-shadowed", "error")] if blamed else [("torch-import-fails", "error")]
    )


def test_one_in_the_working_folder_is_a_warning_whatever_the_import_says() -> None:
    here = shadow("queue", "working folder", standard=True)
    works = with_torch(nvidia_machine(), trial=known(ImportTrial(ok=True), SOURCE))
    assert shadowed(works, here) == [("module-shadowed", "warning")]
    assert shadowed(failed(RAISED), here) == [("torch-import-fails", "error"), ("module-shadowed", "warning")]


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("_ctypes", "libffi-dev"),
        ("_lzma", "liblzma-dev"),
        ("_bz2", "bzip2-devel"),
        ("_sqlite3", "libsqlite3-dev"),
        ("_ssl", "libssl-dev"),
        ("readline", "libreadline-dev"),
        ("email.mime", "the distribution's whole Python"),
    ],
)
def test_a_python_without_a_module_of_its_own_is_told_and_no_package_step_clears_that(
    module: str, library: str
) -> None:
    trial = ImportTrial(ok=False, error=f"ModuleNotFoundError: No module named '{module}'", suspects=(OF_TORCH,))
    machine = nvidia_machine(torch=torch("2.9.1+cu128"), packages={"torchvision": "0.20.1"})
    machine = with_environment(with_torch(machine, trial=known(trial, SOURCE)), has_pip=True)
    assert {"torch-import-fails", "torchvision-mismatch"} <= dict(told(machine)).keys()
    assert "this Python is without it" in message(machine)
    plan = plan_of(machine, Permissions(packages=True))
    (step,) = plan.steps
    assert isinstance(step.step, ManualStep)
    assert library in step.step.text
    assert plan.predicted.left == ("GPD420",)


def test_a_module_that_python_no_longer_has_is_no_fault_of_this_python() -> None:
    machine = failed("ModuleNotFoundError: No module named 'distutils'")
    assert "Python 3.12 removed distutils" in message(machine)


@pytest.mark.parametrize(
    ("file", "commands"),
    [
        (suspect("sympy/a.py", owner="sympy", version="1.13", problem="changed"), ["sympy==1.13", "torchvision"]),
        (suspect("torch/a.py", owner="torch", problem="changed"), ["torch==2.9.1+cu128", "torchvision"]),
    ],
)
def test_a_step_for_another_problem_does_not_clear_a_failed_import(file: SuspectFile, commands: list[str]) -> None:
    trial = ImportTrial(ok=False, error=RAISED, suspects=(file,))
    machine = nvidia_machine(torch=torch("2.9.1+cu128"), packages={"torchvision": "0.20.1", "sympy": "1.13"})
    machine = with_environment(with_torch(machine, trial=known(trial, SOURCE)), has_pip=True)
    plan = plan_of(machine, Permissions(packages=True))
    named = [next(word for word in step.argv if "==" in word) for step in plan.to_run]
    assert [name.partition("=")[0] for name in named] == [name.partition("=")[0] for name in commands]
    assert [planned.because for planned in plan.steps] == [("GPD410",), ("GPD420",)]
