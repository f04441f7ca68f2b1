"""The account that gpudoctor runs as, its name and its home folder."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress


def account(uid: int) -> str:
    """The name of an account, for a person."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def me() -> str:
    """The name of this account."""
    return account(os.geteuid())


def account_home() -> str:
    """The home folder of this account; "" where it has none.

    That is HOME, unless HOME was left over from somebody else (sudo -E) and the password database knows better.
    """
    named = os.environ.get("HOME", "")
    recorded = ""
    with suppress(KeyError):
        recorded = pwd.getpwuid(os.geteuid()).pw_dir
    if not os.path.isabs(named):
        return recorded if os.path.isabs(recorded) else ""
    return recorded if belongs_to_another(named) and _is_mine(recorded) else named


def belongs_to_another(path: str) -> bool:
    """Whether another account owns the folder at `path`, or the one in which it would be made."""
    while path:
        try:
            return os.stat(path).st_uid != os.geteuid()
        except FileNotFoundError:
            path = os.path.dirname(path.rstrip("/"))
        except OSError:
            return True
    return False


def _is_mine(folder: str) -> bool:
    return os.path.isdir(folder) and not belongs_to_another(folder)
