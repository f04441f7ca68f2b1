"""Links that another user may have put on the path of a file that gpudoctor writes."""

from __future__ import annotations

import errno
import os
import stat

_MOST = 40
"""Linux's limit of links on one path."""


def refuse_planted(path: str) -> None:
    """Raise PermissionError if the path contains a link that neither this user nor root has made."""
    todo = [part for part in os.path.abspath(path).split("/") if part]
    done, links = "/", 0
    while todo:
        done = os.path.join(done, todo.pop(0))
        try:
            status = os.lstat(done)
        except OSError:
            return  # opening it will say what is wrong
        if not stat.S_ISLNK(status.st_mode):
            continue
        links += 1
        if status.st_uid and status.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, f"{done} is a link of another user")
        if links > _MOST:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.path.join(os.path.dirname(done), os.readlink(done))
        todo = [part for part in os.path.normpath(target).split("/") if part] + todo
        done = "/"
