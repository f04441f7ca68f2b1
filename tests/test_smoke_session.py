"""A smoke session with made-up torches: the import as it went, devices, limits, and what is skipped."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.host import InputError, LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, PythonEnvironment, SmokeKernel
from gpudoctor.smoke.session import Limits, Request, SessionResult, Starting, perform
from tests.support.environments import write_venv
from tests.support.smoke_children import (
    GOOD,
    GPUS,
    PYTHON,
    TORCH,
    faulty,
    results,
    session,
    write_kernels,
    write_torch,
)

# --- the import ----------------------------------------------------------------------------------------


def attempt(root: Path, program: str, seconds: float = 20, **variables: str) -> Fact[ImportTrial]:
    """Import a torch whose __init__.py is `program`, and count its devices."""
    performed = perform(
        LiveHost(variables),
        PythonEnvironment(interpreter=write_torch(root, program)),
        Request(level=None),
        limits=Limits(importing=seconds, counting=0.5),
    )
    assert performed.smoke is None
    return performed.trial


def trial(root: Path, program: str, **variables: str) -> ImportTrial:
    answer = attempt(root, program, **variables)
    assert answer.value is not None, answer
    return answer.value


def test_an_import_that_works(tmp_path: Path) -> None:
    found = trial(tmp_path, GPUS)
    assert (found.ok, found.version, found.cuda, found.hip) == (True, "2.9.1+cu128", "12.8", "")
    assert found.arch_list == ("sm_80", "sm_90", "compute_90")
    assert found.device_count == 2


def test_an_empty_folder_of_that_name_is_no_torch(tmp_path: Path) -> None:
    (write_venv(tmp_path / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin")) / "torch").mkdir()
    environment = PythonEnvironment(interpreter=str(tmp_path / "venv/bin/python"))
    found = perform(LiveHost(), environment, Request(level=None)).trial.value
    assert found is not None
    assert (found.ok, found.error) == (False, "ImportError: Python imports an empty folder as torch")


def test_stray_output_is_kept_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    noise = "import sys\nprint('{\"event\": \"raised\"}' * 100)\nsys.stderr.write('\\x1b[31mwarning\\n')\n"
    assert trial(tmp_path, noise + GPUS).version == "2.9.1+cu128"
    assert capfd.readouterr() == ("", "")


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


def test_a_signal_without_a_word_is_named_with_its_place(tmp_path: Path) -> None:
    found = trial(tmp_path, "import ctypes\nctypes.string_at(1)\n")
    assert found.signal == "SIGSEGV"
    assert "string_at in __init__.py line" in found.error


def test_a_process_that_ends_within_the_import(tmp_path: Path) -> None:
    found = trial(tmp_path, "import os\nos._exit(7)\n")
    assert not found.ok
    assert "status 7 during the import" in found.error


def test_an_interpreter_that_does_not_start_is_told_from_a_torch_that_does_not(tmp_path: Path) -> None:
    found = trial(tmp_path, GPUS, PYTHONHOME=str(tmp_path))
    assert not found.ok
    assert found.error.startswith(NOT_STARTED)


def test_an_import_that_hangs_fails_with_its_place(tmp_path: Path) -> None:
    found = attempt(tmp_path, "import time\ntime.sleep(60)\n", seconds=0.5).value
    assert found is not None
    assert (found.ok, found.hung) == (False, True)
    assert found.error == "no answer within 0.5 s, at <module> in __init__.py line 2"
    assert found.files[0].endswith("/torch/__init__.py")


def test_an_import_that_still_loads_libraries_at_its_limit_is_slow_and_not_judged(tmp_path: Path) -> None:
    slow = "import ctypes, time\nfor _ in range(600):\n    ctypes.CDLL('libc.so.6')\n    time.sleep(0.02)\n"
    answer = attempt(tmp_path, slow, seconds=1.0)
    assert answer.state == "unknown"
    assert "still loaded libraries after 1 s, the last one libc.so.6" in answer.why


def test_a_failed_import_names_the_files_of_its_first_error(tmp_path: Path) -> None:
    hidden = "try:\n    import torch.first\nexcept ImportError as error:\n    raise RuntimeError('on') from error\n"
    interpreter = write_torch(tmp_path, hidden)
    first = next((tmp_path / "venv").glob("lib/*/site-packages/torch")) / "first.py"
    first.write_text("raise ImportError('early')\n")
    found = perform(LiveHost(), PythonEnvironment(interpreter=interpreter), Request(level=None)).trial.value
    assert found is not None
    assert (found.error, found.root) == ("RuntimeError: on", "ImportError: early")
    assert found.files[0] == str(first)


def test_the_library_that_ends_the_process_is_named(tmp_path: Path) -> None:
    """The process is lost while the library is loaded: it cannot say so afterwards."""
    deadly = "import ctypes, os\nctypes.CDLL('libc.so.6')\nos.kill(os.getpid(), 11)\n"
    assert trial(tmp_path, deadly).loading == "libc.so.6"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.symlink_to("/nowhere/python3"), "leads to no Python"),
        (lambda path: path.write_bytes(b"\x7fELF" + bytes(12) + b"\x02\x00\xb7\x00"), "cannot be started"),
        (lambda path: (path.write_text("#!/bin/sh\n"), path.chmod(0o644)), "cannot be started (Permission denied)"),
    ],
)
def test_an_interpreter_that_cannot_be_started_is_known_to_fail(tmp_path: Path, make: Any, said: str) -> None:
    python = tmp_path / "python"
    make(python)
    if "Permission" not in said and not python.is_symlink():
        python.chmod(0o755)
    found = perform(LiveHost(), PythonEnvironment(interpreter=str(python)), Request(level=None)).trial.value
    assert found is not None
    assert found.error.startswith(NOT_STARTED) and said in found.error


def test_what_ended_python_at_its_start_is_repeated(tmp_path: Path) -> None:
    """Its last line, "<no Python frame>", would tell nothing."""
    host = LiveHost({**os.environ, "PYTHONUTF8": "yes"})
    found = perform(host, PythonEnvironment(interpreter=sys.executable), Request(level=None)).trial.value
    assert found is not None
    assert found.error.startswith(NOT_STARTED) and "invalid PYTHONUTF8" in found.error


def test_counting_that_hangs_is_no_fault_of_the_import(tmp_path: Path) -> None:
    hanging = GPUS.replace("return 2", "import time; time.sleep(60)")
    found = attempt(tmp_path, hanging).value
    assert found is not None
    assert (found.ok, found.device_count) == (True, None)
    assert "no answer within 0.5 s" in found.error


def test_counting_that_ends_the_process_is_no_fault_of_the_import(tmp_path: Path) -> None:
    found = trial(tmp_path, GPUS.replace("return 2", "import os; os.abort()"))
    assert (found.ok, found.device_count) == (True, None)
    assert "SIGABRT" in found.error


def test_no_context_is_made_where_no_level_is_asked_for(tmp_path: Path) -> None:
    """Properties of devices, and their memory, initialise CUDA."""
    refusing = GPUS.replace("return types", "os._exit(9)").replace("return 70", "os._exit(9)")
    assert trial(tmp_path, "import os\n" + refusing).device_count == 2


def test_the_persons_variables_apply(tmp_path: Path) -> None:
    program = "import os\nraise ImportError(os.environ['GPUDOCTOR_TEST'])\n"
    assert trial(tmp_path, program, GPUDOCTOR_TEST="seen").error == "ImportError: seen"


def test_a_torch_in_the_current_folder_is_not_met(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('the wrong one')\n")
    monkeypatch.chdir(tmp_path)
    assert trial(tmp_path, GPUS).ok


def test_no_folder_of_ours_is_on_the_childs_path(tmp_path: Path) -> None:
    program = "import sys\nraise ImportError(repr(sys.path))"
    error = trial(tmp_path, program).error
    assert "gpudoctor" not in error.replace(str(tmp_path), "")
    assert "['" in error
    assert "''" not in error


def test_nothing_is_left_behind_by_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    writes = "import os\nopen('here', 'w').close()\nopen(os.environ['TRITON_CACHE_DIR'] + '/x', 'w').close()\n"
    assert trial(tmp_path, writes + GPUS).ok
    assert os.listdir(tmp_path / "tmp") == []
    assert not list((tmp_path / "venv").rglob("__pycache__"))


def test_an_environment_outlives_the_python_it_was_made_with(tmp_path: Path) -> None:
    performed = perform(LiveHost(), PythonEnvironment(interpreter=str(tmp_path / "gone")), Request(level="quick"))
    found = performed.trial.value
    assert found is not None
    assert (found.ok, found.error.startswith(NOT_STARTED)) == (False, True)
    assert performed.smoke is not None
    assert NOT_STARTED in performed.smoke.why


def test_below_a_root_nothing_is_started(tmp_path: Path) -> None:
    answer = perform(RecordedHost(tmp_path), PythonEnvironment(interpreter=sys.executable), Request(level=None))
    assert answer.trial.state == "unknown"


def test_a_temporary_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert "no temporary folder" in attempt(tmp_path, GPUS).why


# --- devices -------------------------------------------------------------------------------------------


def ran(performed: SessionResult) -> list[tuple[str, str, str]]:
    assert performed.smoke is not None
    return [(kernel.name, kernel.device, kernel.status) for kernel in performed.smoke.kernels]


def test_every_gpu_that_torch_sees_is_the_default(tmp_path: Path) -> None:
    performed = session(write_torch(tmp_path, GPUS), write_kernels(tmp_path / "kernels", GOOD))
    assert performed.smoke is not None
    first, second = performed.smoke.devices
    assert (first.name, first.product, first.arch) == ("cuda:0", "NVIDIA H100", "sm_90")
    assert (second.bdf, second.uuid) == ("0000:02:00.0", "GPU-0000-1")
    assert (second.memory, second.free) == (80 << 30, 70 << 30)
    wanted = [(name, device) for device in ("cuda:0", "cuda:1") for name in ("good", "good too")]
    assert [(name, device) for name, device, _ in ran(performed)] == wanted


def test_the_cpu_is_the_default_where_torch_is_built_for_nothing_else(tmp_path: Path) -> None:
    performed = session(write_torch(tmp_path), write_kernels(tmp_path / "kernels", GOOD))
    assert ran(performed) == [("good", "cpu", "pass"), ("good too", "cpu", "pass")]


def test_a_cuda_build_without_a_gpu_is_not_proved_by_the_cpu(tmp_path: Path) -> None:
    performed = session(
        write_torch(tmp_path, GPUS.replace("return 2", "return 0")), write_kernels(tmp_path / "k", GOOD)
    )
    assert ran(performed) == []
    assert performed.smoke is not None
    assert performed.smoke.why == "torch sees no GPU"


@pytest.mark.parametrize(("count", "device"), [(0, "cpu"), (2, "cuda:1")])
def test_the_cpu_stands_in_only_where_torch_sees_no_gpu(tmp_path: Path, count: int, device: str) -> None:
    """What gpudoctor itself could not list may be a GPU all the same."""
    request = Request(level="quick", cpu_instead=True)
    torch = write_torch(tmp_path, GPUS.replace("return 2", f"return {count}"))
    performed = session(torch, write_kernels(tmp_path / "k", GOOD), request=request)
    assert ran(performed)[-1][1] == device


def test_a_gpu_by_name_where_torch_sees_none_is_told_as_what_it_is(tmp_path: Path) -> None:
    request = Request(level="quick", devices=("cuda:0", "cpu"))
    performed = session(write_torch(tmp_path), write_kernels(tmp_path / "k", GOOD), request=request)
    assert {device for _, device, _ in ran(performed)} == {"cpu"}
    assert performed.smoke is not None
    assert (performed.smoke.why, performed.smoke.gpu_asked) == ("torch sees no GPU", True)


@pytest.mark.parametrize(
    ("devices", "named", "expected"),
    [(("cpu",), True, True), (("cpu",), False, False), ((), True, False), (("cuda:0", "cpu"), True, False)],
)
def test_the_cpu_alone_is_told_from_the_cpu_instead(
    tmp_path: Path, devices: tuple[str, ...], named: bool, expected: bool
) -> None:
    request = Request(level="quick", devices=devices, named=named, cpu_instead=True)
    performed = session(write_torch(tmp_path), write_kernels(tmp_path / "k", GOOD), request=request)
    assert {device for _, device, _ in ran(performed)} == {"cpu"}
    assert performed.smoke is not None and performed.smoke.cpu_asked == expected


@pytest.mark.parametrize(
    ("devices", "wanted"),
    [
        (("cuda:1",), ["cuda:1"]),
        (("cuda",), ["cuda:0", "cuda:1"]),
        (("cpu",), ["cpu"]),
        (("all",), ["cuda:0", "cuda:1", "cpu"]),
        (("cpu", "cuda:1"), ["cuda:1", "cpu"]),
    ],
)
def test_devices_are_chosen_by_name(tmp_path: Path, devices: tuple[str, ...], wanted: list[str]) -> None:
    request = Request(level="quick", devices=devices, kernels=("good",))
    performed = session(write_torch(tmp_path, GPUS), write_kernels(tmp_path / "k", GOOD), request=request)
    assert [device for _, device, _ in ran(performed)] == wanted


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(level="quick", devices=("cuda:2",)), "cuda:1 (NVIDIA H100)"),
        (Request(level="quick", devices=("hip:0",)), "named cuda"),
        (Request(level="quick", kernels=("god",)), "did you mean good"),
        (Request(level="quick", kernels=("xyz",)), "`gpudoctor smoke --list` names all"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(tmp_path: Path, request_: Request, said: str) -> None:
    with pytest.raises(InputError) as refusal:
        session(write_torch(tmp_path, GPUS), write_kernels(tmp_path / "k", GOOD), request=request_)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["0000:02:00.0", "GPU-0000-1"])
def test_a_blocked_gpu_is_left_alone(tmp_path: Path, key: str) -> None:
    touching = "if index == 1: raise SystemExit\n        return 70"
    torch = GPUS.replace("return 70", touching)
    request = Request(level="quick", kernels=("good",), blocked={key: "the GPU is full"})
    performed = session(write_torch(tmp_path, torch), write_kernels(tmp_path / "k", GOOD), request=request)
    assert ran(performed) == [("good", "cuda:0", "pass"), ("good", "cuda:1", "skipped")]
    assert performed.smoke is not None
    assert performed.smoke.kernels[1].detail == "the GPU is full"


@pytest.mark.parametrize(
    ("fault", "status", "signal", "said"),
    [
        ("time.sleep(60)", "timeout", "", "no answer within 0.5 s"),
        ("os.abort()", "crash", "SIGABRT", ""),
        ("raise RuntimeError('CUDA unknown error')", "error", "", "RuntimeError: CUDA unknown error"),
    ],
)
def test_devices_that_cannot_be_listed_are_a_result(
    tmp_path: Path, fault: str, status: str, signal: str, said: str
) -> None:
    torch = "import os, time\n" + GPUS.replace("return types", fault + "\n        return types")
    performed = session(
        write_torch(tmp_path, torch),
        write_kernels(tmp_path / "k", GOOD),
        request=Request(level="quick", devices=("all",)),
        limits=Limits(listing=0.5),
    )
    listing, *kernels = ran(performed)
    assert listing == ("devices", "cuda", status)
    found = results(performed)["devices"]
    assert found.signal == signal
    assert said in found.detail + found.message
    assert kernels == [("good", "cpu", "pass"), ("good too", "cpu", "pass")]


def test_counting_that_hangs_does_not_keep_the_cpu_from_being_tried(tmp_path: Path) -> None:
    torch = GPUS.replace("return 2", "import time; time.sleep(60)")
    request = Request(level="quick", devices=("cpu",), kernels=("good",))
    performed = session(
        write_torch(tmp_path, torch),
        write_kernels(tmp_path / "k", GOOD),
        request=request,
        limits=Limits(counting=0.5),
    )
    assert ran(performed) == [("good", "cpu", "pass")]


# --- limits, replacements ------------------------------------------------------------------------------

COPYING = """
broken = False
def ones(n):
    return types.SimpleNamespace(to=copy)
def copy(device):
    if broken:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    return types.SimpleNamespace(cpu=lambda: [1.0])
"""


@pytest.mark.parametrize("broken", [True, False])
def test_a_device_that_answers_no_more_gets_a_new_process_and_no_other(tmp_path: Path, broken: bool) -> None:
    error = "CUDA error: an illegal memory access was encountered" if broken else "CUDA error: no kernel image"
    kernels = write_kernels(tmp_path / "k", faulty(f"run.torch.broken = {broken}\nraise RuntimeError({error!r})"))
    request = Request(level="quick", devices=("cuda:0",))
    found = results(session(write_torch(tmp_path, GPUS + COPYING), kernels, request=request))
    assert (found["faulty"].status, found["faulty"].message) == ("error", "RuntimeError: " + error)
    assert found["good too"].status == "pass"
    assert (found["good"].measures != found["good too"].measures) == broken


def test_what_is_not_begun_in_time_is_skipped_and_said_so(tmp_path: Path) -> None:
    performed = session(
        write_torch(tmp_path),
        write_kernels(tmp_path / "k", faulty("time.sleep(60)")),
        request=Request(level="quick", seconds=0.3),
        limits=Limits(quick=0.1),
    )
    statuses = [status for _, _, status in ran(performed)]
    assert statuses == ["pass", "timeout", "pass"]  # a person's limit per kernel stretches the whole
    performed = session(
        str(tmp_path / "venv/bin/python"), tmp_path / "k", request=Request(level="quick"), limits=Limits(quick=0)
    )
    assert [status for _, _, status in ran(performed)] == ["skipped"] * 3
    assert performed.smoke is not None
    assert "not started within" in performed.smoke.why


def test_a_device_on_which_every_kernel_dies_is_given_up_and_the_next_is_tried(tmp_path: Path) -> None:
    dying = "\n".join(
        f'@kernel("k{n}", "quick")\ndef k{n}(run):\n    "Dies on one GPU."\n'
        "    if run.device == 'cuda:0': os.abort()\n    return Outcome()\n"
        for n in range(6)
    )
    performed = session(write_torch(tmp_path, GPUS), write_kernels(tmp_path / "k", dying))
    statuses = [status for _, _, status in ran(performed)]
    assert statuses == ["crash"] * 4 + ["skipped"] * 2 + ["pass"] * 6
    assert performed.smoke is not None
    assert "given up" in performed.smoke.why


def test_a_torch_that_cannot_be_imported_again(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    torch = f"import os\nif os.path.exists({str(flag)!r}): raise ImportError('gone meanwhile')\n" + TORCH
    performed = session(
        write_torch(tmp_path, torch), write_kernels(tmp_path / "k", faulty(f"open({str(flag)!r}, 'w')\nos.abort()"))
    )
    assert [status for _, _, status in ran(performed)] == ["pass", "crash", "skipped"]
    assert performed.smoke is not None
    assert "ImportError: gone meanwhile" in performed.smoke.why


def test_a_process_that_dies_between_kernels_is_not_the_next_ones_fault(tmp_path: Path) -> None:
    body = "threading.Timer(0.3, os.abort).start()"
    slow = GOOD.replace("good too", "slow")
    kernels = faulty(body) + "\n" + slow.split("\n\n")[1]
    delayed: list[str] = []

    def progress(told: SmokeKernel | Starting) -> None:
        if isinstance(told, SmokeKernel) and told.name == "faulty":
            import time

            time.sleep(0.6)
        delayed.append(told.name)

    performed = session(write_torch(tmp_path), write_kernels(tmp_path / "k", kernels), progress=progress)
    assert {status for _, _, status in ran(performed)} == {"pass"}


def test_progress_tells_each_kernel_before_and_after(tmp_path: Path) -> None:
    told: list[tuple[type, str]] = []
    session(
        write_torch(tmp_path),
        write_kernels(tmp_path / "k", GOOD),
        progress=lambda what: told.append((type(what), what.name)),
    )
    assert told == [(Starting, "good"), (SmokeKernel, "good"), (Starting, "good too"), (SmokeKernel, "good too")]


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("Outcome(0.5, 1.0)", "pass"),
        ("Outcome(1.0, 1.0)", "pass"),
        ("Outcome(1.1, 1.0)", "wrong"),
        ("Outcome(float('nan'), 1.0)", "wrong"),
        ("Outcome(0.1)", "wrong"),
        ("Outcome()", "pass"),
        ("run.skip('not here')", "skipped"),
        ("None", "error"),
    ],
)
def test_a_deviation_is_judged_by_its_tolerance(tmp_path: Path, outcome: str, status: str) -> None:
    found = results(session(write_torch(tmp_path), write_kernels(tmp_path / "k", faulty("return " + outcome))))
    assert found["faulty"].status == status
    assert found["good too"].status == "pass"


OUT_OF_MEMORY = """
class OutOfMemoryError(RuntimeError):
    pass
cuda.OutOfMemoryError = OutOfMemoryError
cuda.memory_reserved = staticmethod(lambda device: 0)
"""


@pytest.mark.parametrize(("free", "status"), [(78, "error"), (5, "skipped")])
def test_a_gpu_that_others_fill_is_not_judged(tmp_path: Path, free: int, status: str) -> None:
    torch = GPUS.replace("return 70 << 30", f"return {free} << 30") + OUT_OF_MEMORY
    kernels = write_kernels(tmp_path / "k", faulty("raise run.torch.cuda.OutOfMemoryError('CUDA out of memory')"))
    request = Request(level="quick", devices=("cuda:0",))
    found = results(session(write_torch(tmp_path, torch), kernels, request=request))
    assert found["faulty"].status == status
    assert "memory" in found["faulty"].detail
    assert found["faulty"].message == "OutOfMemoryError: CUDA out of memory"


def test_of_a_c_plus_plus_exception_its_words_are_told_and_not_its_stack(tmp_path: Path) -> None:
    said = [
        "terminate called after throwing an instance of 'c10::Error'",
        "  what():  Index out of bounds in ConfigTokenizer",
        "Exception raised from checkIndex at /pytorch/c10/core/AllocatorConfig.h:124 (most recent call first):",
        *(f"frame #{n}: PyObject_Call + 0x5c (0x54a9ac in /opt/torch/bin/python)" for n in range(40)),
    ]
    text = "\n".join(said)
    found = trial(tmp_path, f"import os, sys\nsys.stderr.write({text!r})\nsys.stderr.flush()\nos.abort()\n")
    assert (found.signal, found.error) == ("SIGABRT", "what():  Index out of bounds in ConfigTokenizer")


def test_a_module_that_is_not_torch_is_named_with_its_file(tmp_path: Path) -> None:
    found = trial(tmp_path, "x = 1\n")
    assert not found.ok
    assert "module 'torch' has no attribute '__version__'" in found.error
    assert found.error.count("/torch/__init__.py") == 1
