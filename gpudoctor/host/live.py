"""The running system."""

from __future__ import annotations

import errno
import os
import stat as stat_bits
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from gpudoctor.host.base import CommandResult, Host, Uname
from gpudoctor.machine import READ_ONLY, DeviceNode, Fact, Opening, User, absent, known, unknown

KERNEL_LOG_LIMIT = 1 << 23
KMSG_DEVICE = (1, 11)
NODE_SECONDS = 2.0
_EFFECTIVE = os.access in os.supports_effective_ids


class LiveHost(Host):
    """The system that gpudoctor runs on."""

    live = True

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        """`variables` override those of this process (`--env`)."""
        self._environ: Mapping[str, str] = {**os.environ, **variables} if variables else os.environ
        self._messages: Fact[bytes] | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def uname(self) -> Fact[Uname]:
        found = os.uname()
        return known(Uname(release=found.release, machine=found.machine), "uname")

    def user(self) -> User:
        gids = tuple(sorted({os.getegid(), *os.getgroups()}))
        return User(uid=os.geteuid(), gids=gids, source="the running process")

    def working_folder(self) -> str | None:
        try:
            return os.getcwd()
        except OSError:  # it was removed
            return None

    def place(self, path: str) -> str | None:
        return path

    def resolve(self, path: str) -> str | None:
        try:
            return _of_the_kernel(path) or os.path.realpath(path, strict=True)
        except (OSError, ValueError):
            return None

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def missing(self, path: str) -> Fact[Any]:
        return absent(path, "no such file or directory")

    def capacity(self, path: str) -> Fact[int]:
        try:
            found = os.statvfs(path)
        except (OSError, ValueError) as error:
            return self._failure(path, error)
        return known(found.f_blocks * found.f_frsize, f"statvfs {path}")

    def may_write(self, path: str) -> Fact[bool]:
        try:
            if not os.path.exists(path):
                return absent(path, "no such file or directory")
            may = os.access(path, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE)
            why = READ_ONLY if not may and os.statvfs(path).f_flag & os.ST_RDONLY else ""
            return Fact(value=may, state="known", source=path, why=why)
        except (OSError, ValueError) as error:
            return self._failure(path, error)

    def refuses_execution(self, path: str) -> bool:
        try:
            return bool(os.statvfs(path).f_flag & os.ST_NOEXEC)
        except (OSError, ValueError):
            return False

    def c_library(self) -> Fact[str]:
        try:
            found = os.confstr("CS_GNU_LIBC_VERSION")
        except (OSError, ValueError):  # a name that musl does not know
            found = None
        return known(found, "confstr") if found else unknown("not glibc", "confstr")

    def kernel_messages(self) -> Fact[bytes]:
        """Read once: thousands of records, one system call each."""
        if self._messages is None:
            self._messages = self._read_messages()
        return self._messages

    def _read_messages(self) -> Fact[bytes]:
        try:
            descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            return self._failure("/dev/kmsg", error)
        try:
            # Some containers put their console there, which must not be read.
            if os.fstat(descriptor).st_rdev != os.makedev(*KMSG_DEVICE):
                return unknown("not the kernel's message buffer", "/dev/kmsg")
            return known(_read_records(descriptor), "/dev/kmsg")
        except OSError as error:
            return self._failure("/dev/kmsg", error)
        finally:
            os.close(descriptor)

    def open_node(self, path: str) -> DeviceNode:
        try:
            found = os.stat(path)
        except OSError as error:
            return DeviceNode(path=path, opened=_opening(error))
        except ValueError:
            return DeviceNode(path=path, opened="ENOENT")
        opened = _within_time(lambda: _try_open(path))
        return DeviceNode(
            path=path, opened=opened, mode=stat_bits.S_IMODE(found.st_mode), uid=found.st_uid, gid=found.st_gid
        )

    def run(self, argv: Sequence[str], seconds: float) -> Fact[CommandResult]:
        from gpudoctor.host.child import run_limited

        return run_limited(argv, seconds)


_OPENINGS: dict[int, Opening] = {getattr(errno, name): name for name in get_args(Opening) if name.startswith("E")}


def _opening(error: OSError) -> Opening:
    return _OPENINGS.get(error.errno or 0, "other")


def _of_the_kernel(path: str) -> str | None:
    """What the kernel calls a path, in a third of the time that a look at each of its folders takes; None where it
    does not tell."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
        return found if os.path.samestat(os.fstat(descriptor), os.stat(found)) else None
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_records(descriptor: int) -> bytes:
    """Every record of /dev/kmsg up to KERNEL_LOG_LIMIT; each read gives one."""
    records: list[bytes] = []
    size = 0
    while size < KERNEL_LOG_LIMIT:
        try:
            record = os.read(descriptor, 1 << 14)
        except BlockingIOError:
            break
        except BrokenPipeError:  # overwritten during the read: the next read continues after the gap
            continue
        if not record:
            break
        records.append(record)
        size += len(record)
    return b"".join(records)


def _try_open(path: str) -> Opening:
    # access(2) checks the mode bits, ACLs and the device cgroup. Unlike opening /dev/nvidia0 or a render node, it
    # does not wake a sleeping GPU. Only the control nodes are really opened.
    gpu = path.startswith("/dev/dri/") or path.rstrip("0123456789") == "/dev/nvidia"
    if gpu and os.access(path, os.R_OK | os.W_OK, effective_ids=_EFFECTIVE):
        return "ok"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as error:
        return _opening(error)
    return "ok"


def _within_time(attempt: Callable[[], Opening]) -> Opening:
    """Run `attempt` in a thread that may be left behind: a driver can hang in open()."""
    import threading

    answer: list[Opening] = []
    thread = threading.Thread(target=lambda: answer.append(attempt()), daemon=True)
    try:
        thread.start()
    except RuntimeError:  # this user may have no more threads (RLIMIT_NPROC)
        return attempt()
    thread.join(NODE_SECONDS)
    return answer[0] if answer else "other"
