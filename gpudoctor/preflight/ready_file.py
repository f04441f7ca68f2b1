"""The file that tells a probe (Kubernetes, systemd) that all is well."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from gpudoctor.host import InputError
from gpudoctor.host.input_file import reason_of
from gpudoctor.host.planted_links import refuse_planted


class ReadyFile:
    """A file that exists only if the last preflight passed. Every method raises InputError."""

    def __init__(self, path: str) -> None:
        self.path = path

    def withdraw(self) -> None:
        """Remove the plain file of an earlier start. A node, a pipe or a link belongs to somebody else."""
        try:
            refuse_planted(os.path.dirname(os.path.abspath(self.path)))
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(self.path).st_mode):
                    raise ValueError("something else than a plain file lies there")
                os.unlink(self.path)
        except (OSError, ValueError) as error:
            raise self._failure(error) from None

    def write(self) -> None:
        """Write the file as a whole: a probe never reads half of it."""
        made = f"{self.path}.{os.urandom(6).hex()}"
        try:
            # A new file: an existing file or link is neither written into nor followed.
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write("ready\n")
            os.replace(made, self.path)
        except (OSError, ValueError) as error:
            with suppress(OSError, ValueError):
                os.unlink(made)
            raise self._failure(error) from None

    def _failure(self, error: Exception) -> InputError:
        return InputError(f"--ready-file {self.path}: cannot be written: {reason_of(error)}")
