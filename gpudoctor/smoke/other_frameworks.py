"""A matrix product and a convolution with a framework beside torch, in a child of the examined interpreter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpudoctor.frameworks.programs.run import MARK, TOLERANCE
from gpudoctor.host import Host, InputError
from gpudoctor.host.child import run_limited
from gpudoctor.host.temporary import temporary_folder
from gpudoctor.machine import PythonEnvironment, Smoke, SmokeDevice, SmokeKernel, SmokeStatus

PROGRAMS = Path(__file__).parents[1] / "frameworks" / "programs"
SECONDS = 180.0
"""TensorFlow and JAX load gigabytes of libraries, and compile for a GPU that is new to them."""

_FIRST = "matmul"
"""The kernel that is blamed where none was begun."""
# No folder of ours gets onto sys.path: its files have the names of frameworks.
_START = "import sys; del sys.argv[0]; exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))"
_CACHES = ("XDG_CACHE_HOME", "CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "TMPDIR")
_OWN = {"PYTHONDONTWRITEBYTECODE": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_CPP_MIN_LOG_LEVEL": "1"}
_COLORS = r"\x1b\[[\d;]*m"
_TELLING = r"(?i)error|fail|unable|cannot|not found|not installed|dlopen"
_LAST_LINES, _LONGEST = 8, 2000


def compute(host: Host, environment: PythonEnvironment, name: str, devices: tuple[str, ...] = ()) -> Smoke:
    """Where the framework computed, and whether it computed right; its devices, unless only the CPU was asked for.
    Raises InputError for an unknown device."""
    for device in devices:
        if not re.fullmatch(r"cpu|gpu(:\d+)?", device):
            raise InputError(f"{device!r} is no device of {name}. Devices are gpu:0, gpu:1 ..., cpu")
    gpu_asked, cpu_asked = any(one.startswith("gpu") for one in devices), set(devices) == {"cpu"}
    nothing = Smoke(level="quick", asked=True, gpu_asked=gpu_asked, cpu_asked=cpu_asked, framework=name)
    if not environment.interpreter:
        return replace(nothing, why="there is no Python environment to run it in")
    if not environment.frameworks.files_of(name).source:
        return replace(nothing, why=f"{name} is not installed")
    wanted = [f"{one}:0" if one == "gpu" else one for one in devices]
    with temporary_folder("smoke") as folder:
        program = (str(PROGRAMS / "run.py"), str(PROGRAMS / f"{name}.py"))
        argv = (environment.interpreter, "-c", _START, *program, *wanted)
        environ = {**host.environ, **dict.fromkeys(_CACHES, str(folder)), **_OWN}
        ran = run_limited(argv, SECONDS, environ=environ, cwd=str(folder))
    if ran.value is None:
        status: SmokeStatus = "timeout" if "no answer" in ran.why else "error"
        return replace(nothing, kernels=(SmokeKernel(_FIRST, "gpu:0", "float32", status, message=ran.why),))
    events = tuple(_events(ran.value.stdout))
    words = _last_words(ran.value.stderr)
    kernels = tuple(_kernels(events, words, ran.value.rc))
    listed = next((event["devices"] for event in events if event.get("event") == "devices"), ())
    return replace(
        nothing,
        devices=tuple(SmokeDevice(name=str(one)) for one in listed) if not cpu_asked else (),
        kernels=kernels,
        why=words if not any(kernel.device != "cpu" for kernel in kernels) else "",
    )


def _events(output: str) -> Iterator[dict[str, Any]]:
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                event = json.loads(line.removeprefix(MARK))
            except ValueError:
                continue
            if isinstance(event, dict):
                yield event


def _last_words(errors: str) -> str:
    """The last lines that say something; frameworks print why they use no GPU there."""
    plain = re.sub(_COLORS, "", errors)
    lines = [line.strip() for line in plain.splitlines() if re.search(r"\w", line)]
    telling = [line for line in lines if re.search(_TELLING, line)]
    return " | ".join((telling or lines)[-_LAST_LINES:])[-_LONGEST:]


def _kernels(events: tuple[dict[str, Any], ...], words: str, status: int) -> Iterator[SmokeKernel]:
    """One for each kernel and device that was begun; one without a device if the framework could not be started."""
    begun = ("", "")
    for event in events:
        name, device = str(event.get("kernel", _FIRST)), str(event.get("device", ""))
        if event.get("event") == "begins":
            begun = (name, device)
        elif event.get("event") == "failed":
            begun = ("", "")
            yield SmokeKernel(name, device, "float32", "error", message=str(event.get("message", "")))
        elif event.get("event") == "computed":
            begun = ("", "")
            yield _kernel_result(event, name, device, words)
    if any(begun) or status or not events:
        signal = f"signal {-status}" if status < 0 else ""
        yield SmokeKernel(
            begun[0] or _FIRST,
            begun[1] or "gpu:0",
            "float32",
            "crash" if status < 0 else "error",
            message=words or f"the process ended with {signal or f'status {status}'}",
            signal=signal,
        )


def _kernel_result(event: dict[str, Any], name: str, device: str, words: str) -> SmokeKernel:
    error, where, ms = event.get("error"), str(event.get("where", "")), event.get("ms")
    deviation = float(error) if isinstance(error, int | float) else math.inf
    took = float(ms) if isinstance(ms, int | float) else None
    if where != device:
        detail = f"asked for {device}, computed on {where}"
        return SmokeKernel(name, where or "cpu", "float32", "error", ms=took, detail=detail, message=words)
    right = deviation <= TOLERANCE
    return SmokeKernel(
        name,
        device,
        "float32",
        "pass" if right else "wrong",
        ms=took,
        error=deviation if math.isfinite(deviation) else None,
        tolerance=TOLERANCE,
        detail="" if right else "the result differs from the reference",
    )
