"""`smoke --framework`: a framework beside torch computes in a child. CuPy stands for all: its stand-in here is pure
Python, so that it can compute right, wrong, elsewhere, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.frameworks.programs import run
from gpudoctor.host import InputError, LiveHost
from gpudoctor.machine import (
    FrameworkFiles,
    Frameworks,
    PythonEnvironment,
    Smoke,
    SmokeDevice,
    SmokeKernel,
    StartFault,
)
from gpudoctor.requirement import OTHER_FRAMEWORKS
from gpudoctor.smoke.other_frameworks import PROGRAMS, compute
from tests.support.check_cases import found
from tests.support.judging import judged
from tests.support.machines import change, no_gpu_machine, nvidia_machine, with_environment

STAND_IN = """
import os, sys
__version__ = "14.2.0"

class _Device:
    def __init__(self, number): self.id = number
    def __enter__(self): return self
    def __exit__(self, *_): pass

class _Array:
    def __init__(self, rows): self.rows, self.device = rows, _Device(DEVICE)
    def __matmul__(self, other):
        SAY
        product = [[sum(x * y for x, y in zip(row, column)) for column in zip(*other.rows)] for row in self.rows]
        product[3][4] += ERROR
        return _Array(product)
    def tolist(self): return self.rows

class runtime:
    @staticmethod
    def getDeviceCount(): return COUNT

class cuda:
    runtime, Device = runtime, _Device

def array(rows, dtype): return _Array(rows)
def asnumpy(array): return array
"""
RIGHT = {"DEVICE": "0", "SAY": "print('noise', flush=True)", "ERROR": "0.0", "COUNT": "1"}


def smoke(folder: Path, devices: tuple[str, ...] = (), **changed: str) -> Smoke:
    """What the stand-in of CuPy did in a child."""
    text = STAND_IN
    for name, value in {**RIGHT, **changed}.items():
        text = text.replace(name, value)
    (folder / "cupy.py").write_text(text)
    environment = PythonEnvironment(
        interpreter=sys.executable,
        frameworks=Frameworks(others=(FrameworkFiles("cupy", version="14.2.0", source="/site"),)),
    )
    host = LiveHost({"PYTHONPATH": str(folder)})
    return compute(host, environment, "cupy", devices)


def test_a_right_product_passes_on_the_device_that_computed_it(tmp_path):
    (kernel,) = smoke(tmp_path).kernels
    assert (kernel.name, kernel.device, kernel.status, kernel.tolerance) == ("matmul", "gpu:0", "pass", run.TOLERANCE)


@pytest.mark.parametrize(
    ("changed", "status", "device", "text"),
    [
        ({"ERROR": "0.5"}, "wrong", "gpu:0", "reference"),
        ({"ERROR": "float('nan')"}, "wrong", "gpu:0", "reference"),
        ({"DEVICE": "7"}, "error", "gpu:7", "asked for gpu:0"),
        ({"SAY": "raise RuntimeError('no kernel image is available')"}, "error", "gpu:0", "no kernel image"),
        ({"SAY": "os.abort()"}, "crash", "gpu:0", "signal 6"),
        ({"COUNT": "1 / 0"}, "error", "gpu:0", "ZeroDivisionError"),
    ],
)
def test_what_fails_is_told(tmp_path, changed, status, device, text):
    kernel = smoke(tmp_path, **changed).kernels[-1]
    assert (kernel.status, kernel.device) == (status, device)
    assert text in kernel.detail + kernel.message


@pytest.mark.parametrize(("devices", "alone"), [(("cpu",), True), ((), False), (("gpu:0", "cpu"), False)])
def test_the_cpu_alone_asks_for_no_gpu(tmp_path, devices, alone):
    assert smoke(tmp_path, devices).cpu_asked == alone


def test_an_unknown_device_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="gpu:0"):
        smoke(tmp_path, ("cuda:0",))


def test_every_framework_has_a_program():
    assert {f"{name}.py" for name in OTHER_FRAMEWORKS} <= {path.name for path in PROGRAMS.iterdir()}


# --- a convolution ------------------------------------------------------------------------------------------

PROGRAM = """
import os
def devices(): return ["gpu:0", "cpu"]
def product(a, b, device):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a], device
def convolution(image, kernels, device):
    SAY
    side = len(image[0]) - len(kernels[0][0]) + 1
    def at(kernel, y, x):
        return sum(kernel[c][dy][dx] * image[c][y + dy][x + dx]
                   for c in range(len(image)) for dy in range(len(kernel[c])) for dx in range(len(kernel[c][dy])))
    whole = [[[at(kernel, y, x) for x in range(side)] for y in range(side)] for kernel in kernels]
    whole[1][2][3] += ERROR
    return [whole], WHERE
"""


def convolved(folder: Path, monkeypatch: pytest.MonkeyPatch, devices: tuple[str, ...] = ("gpu:0",), **changed: str):
    """What a framework that has convolutions did in a child, by kernel."""
    text = PROGRAM
    for name, value in {"SAY": "pass", "ERROR": "0", "WHERE": "device", **changed}.items():
        text = text.replace(name, value)
    (folder / "run.py").write_text((PROGRAMS / "run.py").read_text())
    (folder / "made-up.py").write_text(text)
    monkeypatch.setattr("gpudoctor.smoke.other_frameworks.PROGRAMS", folder)
    frameworks = Frameworks(others=(FrameworkFiles("made-up", version="1", source="/site"),))
    environment = PythonEnvironment(interpreter=sys.executable, frameworks=frameworks)
    return compute(LiveHost(), environment, "made-up", devices).kernels


def test_a_convolution_is_computed_on_each_device(tmp_path, monkeypatch):
    kernels = convolved(tmp_path, monkeypatch, ())
    assert [(one.name, one.device, one.status) for one in kernels] == [
        ("matmul", "gpu:0", "pass"), ("convolution", "gpu:0", "pass"),
        ("matmul", "cpu", "pass"), ("convolution", "cpu", "pass"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "status", "text"),
    [
        ({"ERROR": "0.1"}, "wrong", "reference"),
        ({"WHERE": "'cpu'"}, "error", "computed on cpu"),
        ({"SAY": "raise RuntimeError('CUDNN_STATUS_NOT_INITIALIZED')"}, "error", "CUDNN_STATUS"),
        ({"SAY": "os.abort()"}, "crash", "signal 6"),
        ({"SAY": "return [[1.0]], device"}, "wrong", "reference"),
    ],
)
def test_a_convolution_that_fails_beside_a_right_product(tmp_path, monkeypatch, changed, status, text):
    """cuDNN and MIOpen can be broken where the product is right."""
    product, convolution = convolved(tmp_path, monkeypatch, **changed)
    assert (product.name, product.status) == ("matmul", "pass")
    assert (convolution.name, convolution.status) == ("convolution", status)
    assert text in convolution.detail + convolution.message


INTERPRETER = os.environ.get("GPUDOCTOR_TEST_FRAMEWORKS")
"""A Python with JAX, ONNX Runtime and TensorFlow, or some of them; CPU builds will do."""


PLANTED = {
    "jax": "import jax; real = jax.numpy.matmul; jax.numpy.matmul = lambda *a, **k: real(*a, **k) + 0.5",
    "onnxruntime": """
import onnxruntime
real = onnxruntime.InferenceSession.run
onnxruntime.InferenceSession.run = lambda *a, **k: [part + 0.5 for part in real(*a, **k)]
""",
    "tensorflow": "import tensorflow; real = tensorflow.matmul; tensorflow.matmul = lambda *a: real(*a) + 0.5",
}
"""What makes the real framework add a half to each element of a product."""


def real_smoke(name: str, devices: tuple[str, ...] = (), planted: Path | None = None) -> Smoke:
    """What a real framework did in a child, with the module `sitecustomize` of the folder `planted` loaded first."""
    if not INTERPRETER:
        pytest.skip("GPUDOCTOR_TEST_FRAMEWORKS names no Python with other frameworks")
    if subprocess.run([INTERPRETER, "-c", f"import {name}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{INTERPRETER} has no {name}")
    frameworks = Frameworks(others=(FrameworkFiles(name, source="/site"),))
    environment = PythonEnvironment(interpreter=INTERPRETER, frameworks=frameworks)
    return compute(LiveHost({"PYTHONPATH": str(planted or "")}), environment, name, devices)


@pytest.mark.parametrize("name", PLANTED)
def test_the_real_frameworks_compute_right_on_the_cpu(name):
    assert [(one.name, one.device, one.status) for one in real_smoke(name, ("cpu",)).kernels] == [
        ("matmul", "cpu", "pass"), ("convolution", "cpu", "pass"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_real_framework_that_computes_wrong_is_found(tmp_path, name):
    (tmp_path / "sitecustomize.py").write_text(PLANTED[name])
    first = real_smoke(name, ("cpu",), planted=tmp_path).kernels[0]
    assert (first.name, first.status) == ("matmul", "wrong")


@pytest.mark.parametrize("name", PLANTED)
def test_a_real_framework_on_the_cpu_beside_a_usable_gpu_fell_back(name):
    result = real_smoke(name)
    assert {kernel.device for kernel in result.kernels} == {"cpu"}
    machine = nvidia_machine(torch=None, packages={name: "1.0"})
    (finding,) = found(change(machine, smoke=result), "framework-fell-back")
    assert (finding.severity, finding.framework) == ("error", name)


# --- what is judged -------------------------------------------------------------------------------------------

JAX = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1", "jax-cuda12-plugin": "0.12.0.1", "jax-cuda12-pjrt": "0.12.0.1"}
ON_CPU = Smoke(
    level="quick",
    framework="jax",
    devices=(SmokeDevice("cpu"),),
    kernels=(SmokeKernel("matmul", "cpu", "float32"),),
    why="Unable to load cuDNN. Is it installed?",
)


def jax_machine(result: Smoke, packages=JAX):
    return change(nvidia_machine(torch=None, packages=packages), smoke=result)


def test_a_silent_fallback_to_the_cpu_is_an_error_where_a_gpu_is_usable():
    (finding,) = found(jax_machine(ON_CPU), "framework-fell-back")
    assert (finding.severity, finding.framework) == ("error", "jax")
    assert "Unable to load cuDNN" in finding.message
    whole = change(ON_CPU, devices=(SmokeDevice("gpu:0"), SmokeDevice("cpu")), why="")
    assert found(jax_machine(whole), "framework-fell-back") == []
    asked_for_the_cpu = change(ON_CPU, devices=())
    assert found(jax_machine(asked_for_the_cpu), "framework-fell-back") == []
    assert found(change(no_gpu_machine(), smoke=ON_CPU), "framework-fell-back") == []


def test_a_fallback_has_the_name_of_its_cause():
    cpu_build = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1"}
    (finding,) = [one for one in judged(jax_machine(ON_CPU, cpu_build)).findings if one.severity == "error"]
    assert finding.slug == "framework-cpu-only"


def test_a_python_that_does_not_start_is_the_cause_of_what_failed_in_it():
    said = "ModuleNotFoundError: No module named 'encodings'"
    failed = SmokeKernel("matmul", "gpu:0", "float32", status="error", message=said)
    machine = jax_machine(change(ON_CPU, kernels=(failed,), devices=(), why=""))
    fault = StartFault(kind="no-library", path="/opt/py", python="3.12")
    report = judged(with_environment(machine, start_faults=(fault,)))
    assert [one.slug for one in report.findings if one.severity == "error"] == ["environment-broken"]


def test_torch_is_not_missed_where_another_framework_was_asked_to_compute():
    right = Smoke(
        level="quick",
        framework="jax",
        devices=(SmokeDevice("gpu:0"),),
        kernels=(SmokeKernel("matmul", "gpu:0", "float32"),),
    )
    assert judged(jax_machine(right)).verdict == "ok"


def test_a_framework_that_is_not_there_cannot_compute():
    nothing = Smoke(level="quick", framework="jax", why="jax is not installed")
    problems = [one for one in judged(jax_machine(nothing, {})).findings if one.severity != "note"]
    assert [one.slug for one in problems] == ["framework-missing"]
