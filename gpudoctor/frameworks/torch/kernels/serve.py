"""The child's main loop: import torch or another module, count and list the devices, run the requested kernels.

Runs in the examined interpreter, started by gpudoctor.smoke.child. It announces every step that may not return. A
thread reports that the process still runs Python while a kernel computes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import os
import re
import signal
import sys
import threading
import time
from typing import Any, Iterator

from . import all_kernels
from .channel import GarbledError, Message, Reader, send
from .kernel import Outcome, Run, Skip
from .listing import list_devices
from .start_files import changed_variables

BEAT_SECONDS = 0.5
MESSAGE_LIMIT = 4000
FILES_LIMIT = 16
CHANNEL_GONE = 117
"""Exit status of a child that can no longer reach gpudoctor."""


class Channel:
    """Both pipes to gpudoctor; processes that a kernel starts inherit neither."""

    def __init__(self, commands: int, events: int) -> None:
        os.set_inheritable(commands, False)
        os.set_inheritable(events, False)
        self._commands, self._events = commands, events
        self._lock = threading.Lock()
        self._process = os.getpid()

    def tell(self, event: str, **content: Any) -> None:
        """Send one event. Ends the process if gpudoctor is gone, and a fork that returned from a kernel."""
        if os.getpid() != self._process:
            os._exit(CHANNEL_GONE)
        try:
            with self._lock:
                send(self._events, {"event": event, **content})
        except OSError:
            os._exit(CHANNEL_GONE)

    def commands(self) -> Iterator[Message]:
        """Commands until gpudoctor closes its end."""
        reader = Reader()
        while True:
            data = os.read(self._commands, 1 << 16)
            if not data:
                return
            yield from reader.feed(data)

    def beat(self) -> None:
        """Report for ever that this process still runs Python."""
        while True:
            time.sleep(BEAT_SECONDS)
            self.tell("beat")


def main(commands: int, events: int, trace: str, count: bool, module: str = "torch") -> None:
    """Import `module`, and serve until the commands end; another one than torch knows no kernels. `trace` is the file
    for the Python lines of a crash."""
    _prepare(trace)
    channel = Channel(commands, events)
    channel.tell("importing", variables=changed_variables())
    with contextlib.suppress(RuntimeError):  # a limit on processes: the import may need no thread
        threading.Thread(target=channel.beat, daemon=True).start()
    torch = _import(channel, module)
    if torch is not None:
        gc.freeze()  # what the import made stays: freeing after a kernel need not look through all of it
        if count:
            _count(torch, channel)
        # A garbled command does not come from gpudoctor.
        with contextlib.suppress(GarbledError):
            for command in channel.commands():
                _obey(command, torch, channel)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)  # what torch does at exit is no part of the trial


def _prepare(trace: str) -> None:
    """No core file; the kernel's first victim when memory runs out; a trace of a crash."""
    try:
        import resource

        # With 1, unlike 0, Linux passes no core to a program (systemd-coredump) either.
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        limit = 1 if hard else 0
        resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))
    except (ImportError, ValueError, OSError):
        pass
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    with contextlib.suppress(OSError, ValueError):
        # Never closed: it is written to when nothing else works any more.
        handle = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        faulthandler.enable(handle, all_threads=False)
        faulthandler.register(signal.SIGUSR1, handle, all_threads=True)


def _import(channel: Channel, name: str) -> Any:
    """The module, or None if the import raised; either is reported."""
    start = time.monotonic()
    asked: list[str] = []
    try:
        with _library_loads(channel, asked):
            found = importlib.import_module(name)
    except BaseException as error:  # SystemExit and KeyboardInterrupt are failures of an import, too
        seconds = time.monotonic() - start
        module = asked[-1] if asked else ""
        channel.tell("raised", error=_last_line(error), seconds=seconds, module=module, **_origin(error))
        return None
    file = getattr(found, "__file__", None)
    if _version(found) is None if name == "torch" else file is None:
        said = f"AttributeError: module '{name}' has no attribute '__version__' ({file})"
        if file is None:
            said = f"ImportError: Python imports an empty folder as {name}"
        where = {"files": [str(file)]} if file else {"empty": [name]}
        channel.tell("raised", error=said, seconds=time.monotonic() - start, **where)
        return None
    about = _describe(found) if name == "torch" else {"version": str(_version(found) or "")}
    channel.tell("imported", seconds=time.monotonic() - start, **about)
    return found


@contextlib.contextmanager
def _library_loads(channel: Channel, asked: list[str]) -> Iterator[None]:
    """Report each library before it is loaded: the one that ends the process cannot be reported afterwards. The last
    module that was asked for stays in `asked`: a file that cannot be compiled leaves no other trace."""
    watching = True

    def hear(event: str, arguments: Any) -> None:
        if watching and event == "ctypes.dlopen" and arguments[0]:
            channel.tell("loading", path=os.fsdecode(arguments[0]))
        elif watching and event == "import" and arguments[1]:
            channel.tell("loading", path=os.fsdecode(arguments[1]))
        elif watching and event == "import":
            asked[:] = [str(arguments[0])]

    sys.addaudithook(hear)
    try:
        yield
    finally:
        watching = False


def _origin(error: BaseException) -> dict[str, Any]:
    """Where an error comes from: the first error of its chain, and files."""
    chain = [error]
    while True:
        last = chain[-1]
        earlier = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if earlier is None or earlier in chain:
            break
        chain.append(earlier)
    first = chain[-1]
    named = [_parent_file(error)]
    named += [getattr(each, name, None) for each in reversed(chain) for name in ("path", "filename")]
    passed = [file for each in reversed(chain) for file in _traceback_files(each)]
    files = [str(file) for file in (*named, *passed) if file and not str(file).startswith("<frozen")]
    text = "\n".join(str(each) for each in chain)
    return {
        "named": [name for name, value in os.environ.items() if _is_named(text, name, value)][:3],
        "empty": [name for name, module in sorted(sys.modules.items()) if "." not in name and _is_folder(module)],
        "root": _last_line(first) if first is not error else "",
        "files": list(dict.fromkeys(files))[:FILES_LIMIT],
    }


def _parent_file(error: BaseException) -> Any:
    """Of a module that is not found in a package: the file that Python took for that package."""
    parent, dot, _ = str(getattr(error, "name", None) or "").rpartition(".")
    is_missing = isinstance(error, ModuleNotFoundError) and dot
    return getattr(sys.modules.get(parent), "__file__", None) if is_missing else None


def _is_named(text: str, name: str, value: str) -> bool:
    """Whether an error names a variable; in small letters, as frameworks call their own settings, with its value."""
    if "_" not in name or not name.isupper():
        return False
    whole = r"(?<![\w-])" + re.escape(name) + r"(?![\w-])"
    return re.search(whole, text) is not None or (
        len(value) > 1 and value in text and re.search(whole, text, re.IGNORECASE) is not None
    )


def _is_folder(module: Any) -> bool:
    """Whether it is only a folder: what is left of a package whose files are gone looks like that, too."""
    return getattr(module, "__file__", None) is None and hasattr(module, "__path__")


def _traceback_files(error: BaseException) -> list[str]:
    """Files that the error passed through, innermost first, without this one."""
    files = []
    trace = error.__traceback__
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return [file for file in reversed(files) if file != __file__]


def _version(torch: Any) -> Any:
    """torch's own, else that of its version.py; None for a module or a folder that only has torch's name."""
    return getattr(torch, "__version__", None) or getattr(getattr(torch, "version", None), "__version__", None)


def _describe(torch: Any) -> dict[str, Any]:
    """Versions and architectures that torch names without touching a GPU."""
    version = getattr(torch, "version", None)
    try:
        arch_list = [str(arch) for arch in (torch._C._cuda_getArchFlags() or "").split()]
    except Exception:
        arch_list = []
    return {
        "version": str(_version(torch)),
        "cuda": str(getattr(version, "cuda", None) or ""),
        "hip": str(getattr(version, "hip", None) or ""),
        "arch_list": arch_list,
    }


def _count(torch: Any, channel: Channel) -> None:
    """Report the number of GPUs; makes no context on any."""
    try:
        channel.tell("counted", device_count=int(torch.cuda.device_count()))
    except Exception as error:
        channel.tell("counted", device_error=_last_line(error)[:500])


def _obey(command: Message, torch: Any, channel: Channel) -> None:
    """Carry out one command: list the devices, import another module, or run one kernel."""
    if command["do"] == "import":
        channel.tell("importing")
        _import(channel, command["module"])
        return
    if command["do"] == "list":
        try:
            channel.tell("devices", devices=list_devices(torch, command["untouched"]))
        except Exception as error:
            channel.tell("devices", error=_last_line(error))
        return
    channel.tell("started", job=command["job"])
    start = time.monotonic()
    try:
        result = _run(command, torch)
    except BaseException as error:  # a SystemExit from a kernel's library must not end the process unnoticed
        result = {"status": "error", "message": _last_line(error), **_judge_error(error, command["device"], torch)}
    result.setdefault("ms", round((time.monotonic() - start) * 1000, 3))
    with contextlib.suppress(Exception):
        _free(torch)
    channel.tell("finished", job=command["job"], **result)


def _run(command: Message, torch: Any) -> dict[str, Any]:
    """Run a kernel and say whether its error is within its tolerance."""
    kernel = next(kernel for kernel in all_kernels() if kernel.name == command["kernel"])
    run = Run(
        torch, command["device"], command["dtype"], command["seed"], command["seconds"], minutes=command["minutes"]
    )
    torch_seed = getattr(torch, "manual_seed", None)
    if torch_seed is not None:
        torch_seed(command["seed"])
    if command["device"].startswith("cuda:"):
        torch.cuda.set_device(
            command["device"]
        )  # some functions run on the current device, wherever their inputs are
    start = time.monotonic()
    try:
        outcome = kernel.function(run)
        run.synchronize()
    except Skip as skip:
        return {"status": "skipped", "detail": str(skip)}
    return {"ms": round((time.monotonic() - start) * 1000, 3), **_judge(outcome)}


def _judge(outcome: Outcome) -> dict[str, Any]:
    error = None if outcome.error is None else float(outcome.error)
    tolerance = None if outcome.tolerance is None else float(outcome.tolerance)
    right = error is None or (tolerance is not None and error <= tolerance)  # never with a NaN
    return {
        "status": "pass" if right else "wrong",
        "error": error,
        "tolerance": tolerance,
        "detail": str(outcome.detail),
        "measures": {str(name): float(value) for name, value in outcome.measures.items()},
    }


def _judge_error(error: BaseException, device: str, torch: Any) -> dict[str, Any]:
    """Whether memory ran out, and whether the device answers after the error."""
    chain: BaseException | None = error
    while chain is not None:  # the frames hold the kernel's tensors
        chain.__traceback__ = None
        chain = chain.__cause__ or chain.__context__
    gc.collect()
    if _is_out_of_memory(error, torch):
        others = _held_by_others(device, torch)
        if others:
            return {"status": "skipped", "detail": "out of memory: " + others}
        return {"detail": "ran out of memory"}
    return {"sticky": device.startswith("cuda") and not _answers(device, torch)}


def _is_out_of_memory(error: BaseException, torch: Any) -> bool:
    kinds = (MemoryError, getattr(torch, "OutOfMemoryError", None), getattr(torch.cuda, "OutOfMemoryError", None))
    if any(isinstance(kind, type) and isinstance(error, kind) for kind in kinds):
        return True
    text = str(error)
    return "DefaultCPUAllocator" in text and "memory" in text


def _held_by_others(device: str, torch: Any) -> str:
    """How much of a GPU other processes hold, if that explains a kernel's lack of memory."""
    if not device.startswith("cuda"):
        return ""
    try:
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device if ":" in device else None)
        own = torch.cuda.memory_reserved(device if ":" in device else None)
    except Exception:
        return ""
    others = total - free - own - OWN_CONTEXT
    return f"other processes hold {others / 2**30:.1f} of {total / 2**30:.1f} GiB" if others > total / 5 else ""


OWN_CONTEXT = 1 << 30
"""At most this many bytes are the driver's, for this process's own context and code."""


def _answers(device: str, torch: Any) -> bool:
    """Whether the device still copies data to and from it; the first try may report an older error."""
    for _ in range(2):
        try:
            torch.cuda.synchronize(device if ":" in device else None)
            if float(torch.ones(1).to(device).cpu()[0]) == 1.0:
                return True
        except Exception:
            continue
    return False


def _free(torch: Any) -> None:
    """Free what a kernel left, so that the next one does not run out of memory because of it."""
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _last_line(error: BaseException) -> str:
    """The error as the last line of a traceback shows it."""
    text = " ".join(str(error).split())
    return (type(error).__name__ + (": " + text if text else ""))[:MESSAGE_LIMIT]
