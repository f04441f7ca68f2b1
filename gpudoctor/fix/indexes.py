"""Whether the package indexes that steps ask can be reached, found out before anything is changed."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from gpudoctor.fix.errors import RepairError
from gpudoctor.frameworks.package_spec import PACKAGE_INDEX
from gpudoctor.step import RunStep

SECONDS = 5.0
_ADDRESS = r"https?://[^\s\"']+"
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "PIP_PROXY")
_PORTS = {"http": 80, "https": 443}


def check_indexes(steps: Iterable[RunStep], default: str = PACKAGE_INDEX) -> None:
    """RepairError for an index whose host cannot be connected to; `default` is that of steps which name none. Behind
    a proxy only the installer can tell."""
    if any(os.environ.get(name) or os.environ.get(name.lower()) for name in _PROXIES):
        return
    for host, port in dict.fromkeys(place for step in steps for place in _places(step.argv, default)):
        try:
            socket.create_connection((host, port), SECONDS).close()
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise RepairError(f"The index at {host} cannot be reached ({why}): nothing was changed.") from error


def _places(argv: tuple[str, ...], default: str) -> Iterable[tuple[str, int]]:
    """Host and port of the indexes that a command asks, or writes into a project's file."""
    installs = "pip" in argv and "install" in argv
    for found in re.findall(_ADDRESS, " ".join(argv)) or ([default] if installs else []):
        url = urlsplit(found)
        if url.hostname:
            yield url.hostname, url.port or _PORTS[url.scheme]
