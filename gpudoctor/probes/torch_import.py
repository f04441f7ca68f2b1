"""`import torch`, tried in a child of the examined interpreter: the only proof that it works.

The child is not isolated: the person's variables apply, since they may be what breaks it. It starts in an
empty folder, and what it may write goes there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from gpudoctor.host import CommandResult, Host
from gpudoctor.machine import NOT_STARTED, Fact, ImportTrial, PythonEnvironment, known, unknown

_CACHES = (
    "XDG_CACHE_HOME", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR", "MPLCONFIGDIR", "NUMBA_CACHE_DIR", "TMPDIR",
)  # fmt: skip
_ERROR_LIMIT = 600


class _Frame(Struct):
    """What the child wrote last: `step` is import, raised, imported or counted."""

    step: str
    error: str = ""
    seconds: float = 0.0
    version: str = ""
    cuda: str = ""
    hip: str = ""
    arch_list: tuple[str, ...] = ()
    device_count: int | None = None
    device_error: str = ""


def try_import(
    host: Host, environment: PythonEnvironment, seconds: float = 60, variables: Mapping[str, str] | None = None
) -> Fact[ImportTrial]:
    """Import torch in the environment's interpreter. `variables` overlay the host's own.

    Unknown where the interpreter cannot be started or gives no answer in time; never run below a root.
    """
    if not host.live:
        return unknown("nothing is run below a root")
    if not environment.interpreter:
        return unknown("the environment has no interpreter")
    import tempfile

    try:
        with tempfile.TemporaryDirectory(prefix="gpudoctor-import-", ignore_cleanup_errors=True) as folder:
            return _try_in(Path(folder), environment.interpreter, {**host.environ, **(variables or {})}, seconds)
    except OSError as error:
        return unknown(f"no temporary folder: {error.strerror}")


def _try_in(folder: Path, interpreter: str, environ: dict[str, str], seconds: float) -> Fact[ImportTrial]:
    from gpudoctor.host.child import run_limited

    child = Path(__file__).parent / "children" / "import_torch.py"
    empty, caches, frame = folder / "cwd", folder / "caches", folder / "frame.json"
    empty.mkdir()
    caches.mkdir()
    answer = run_limited(
        [interpreter, "-c", child.read_text(encoding="utf-8"), str(frame)],
        seconds,
        environ={**environ, **dict.fromkeys(_CACHES, str(caches)), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=str(empty),
    )
    source = f"import torch in {interpreter}"
    read = _read_frame(frame)
    if answer.value is not None:
        return known(_trial(answer.value, read), source)
    if answer.absent:  # a venv outlives the Python that it was made with
        return known(ImportTrial(ok=False, error=f"{NOT_STARTED}: {interpreter} leads to no Python"), source)
    if read is not None and read.step == "imported":  # it hung in counting the GPUs: no fault of the import
        return known(_imported(read), source)
    why = answer.why if read is None else f"import torch gave no answer within {seconds:g} s"
    return Fact(state="unknown", source=source, why=why)


def _read_frame(path: Path) -> _Frame | None:
    try:
        with path.open("rb") as handle:
            return msgspec.json.decode(handle.read(1 << 20), type=_Frame)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _trial(result: CommandResult, frame: _Frame | None) -> ImportTrial:
    if frame is not None and frame.step in ("imported", "counted"):
        return _imported(frame)
    if frame is not None and frame.step == "raised":
        return ImportTrial(ok=False, error=frame.error[:_ERROR_LIMIT], seconds=frame.seconds)
    said = _last_said(result)
    signal = _signal_name(-result.rc) if result.rc < 0 else ""
    if frame is None:
        how = NOT_STARTED + ("" if signal else f" (status {result.rc})")
    elif signal:
        return ImportTrial(ok=False, error=said, signal=signal)
    else:
        how = f"the process ended with status {result.rc} during the import"
    return ImportTrial(ok=False, error=f"{how}: {said}" if said else how, signal=signal)


def _imported(frame: _Frame) -> ImportTrial:
    return ImportTrial(
        ok=True,
        version=frame.version,
        cuda=frame.cuda,
        hip=frame.hip,
        arch_list=frame.arch_list,
        device_count=frame.device_count,
        seconds=round(frame.seconds, 3),
        error=frame.device_error,
    )


def _last_said(result: CommandResult) -> str:
    """The last line that says something, of the error output and else of the other."""
    for text in (result.stderr, result.stdout):
        lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
        if lines:
            return lines[-1][:_ERROR_LIMIT]
    return ""


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
