"""gpudoctor as on another system: `python other_system.py win32 check --from FILE`. Without a command it runs those
of stdin (JSON), one after the other, and prints what each said: (code, stdout, stderr).

What that system's Python lacks is taken away before gpudoctor is imported. Libraries are imported before that: they
know the system that they really run on, and go on working.
"""

import importlib
import io
import json
import os
import select
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout

LIBRARIES = (
    "concurrent.futures", "ctypes", "getpass", "importlib.metadata", "inspect", "locale", "logging",
    "multiprocessing", "platform", "shutil", "socket", "subprocess", "tempfile", "click", "msgspec", "packaging.tags",
    "psutil", "rich.console",
)  # fmt: skip

UNIX = """
uname getuid geteuid getgid getegid getgroups getresuid getresgid setuid setgid statvfs fstatvfs ST_NOEXEC pread
pwrite preadv set_blocking get_blocking fork forkpty killpg getpgid getpgrp setpgid setsid getsid sysconf confstr
pathconf sched_getaffinity sched_setaffinity sched_yield waitid wait wait3 wait4 WNOHANG WNOWAIT WEXITED WSTOPPED
P_ALL P_PID P_PGID mkfifo mknod chown fchown lchown fchmod fchdir chroot major minor makedev getpriority setpriority
PRIO_PROCESS nice openpty ttyname tcgetpgrp getloadavg pipe2 posix_spawn register_at_fork getxattr O_NONBLOCK O_NDELAY
O_NOCTTY O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_PATH O_SYNC O_DSYNC O_NOATIME
"""
LINUX = """
sched_getaffinity sched_setaffinity memfd_create pidfd_open eventfd getxattr listxattr setxattr P_PIDFD ST_NOEXEC
O_PATH O_NOATIME O_TMPFILE getresuid getresgid posix_fadvise splice copy_file_range getrandom
"""
WITHOUT = {"win32": UNIX, "darwin": LINUX}
"""Names of `os` that are documented for Unix, or for Linux, alone."""
MODULES = {
    "win32": ("fcntl", "pwd", "grp", "resource", "termios", "tty", "pty", "posix", "curses", "readline", "syslog"),
    "darwin": ("ossaudiodev", "spwd"),
}
SIGNALS = ("SIGINT", "SIGTERM", "SIGABRT", "SIGFPE", "SIGILL", "SIGSEGV", "SIG_DFL", "SIG_IGN")


def become(system: str) -> None:
    """Take away what this system has not."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for name in WITHOUT[system].split():
        if hasattr(os, name):
            delattr(os, name)
    for name in MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in ("epoll", "poll") if system == "win32" else ("epoll",):
        delattr(select, name)
    if system == "win32":
        for name in [name for name in vars(signal) if name.startswith("SIG") and name not in SIGNALS]:
            delattr(signal, name)
    sys.platform = system


def said(arguments: list[str]) -> tuple[int, str, str]:
    from gpudoctor.__main__ import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.argv[1:], code = arguments, 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
    stdout, stderr = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    return code, stdout, stderr


if __name__ == "__main__":
    become(sys.argv.pop(1))
    if len(sys.argv) == 1:
        json.dump(list(map(said, json.load(sys.stdin))), sys.stdout)
    else:
        from gpudoctor.__main__ import main

        main()
