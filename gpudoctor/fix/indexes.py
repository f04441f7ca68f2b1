"""Whether the package indexes that steps name can be reached, asked before anything is changed."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from itertools import pairwise
from urllib.parse import urlsplit

from gpudoctor.fix.errors import RepairError
from gpudoctor.step import RunStep

SECONDS = 5.0
_OPTIONS = ("--index-url", "--default-index", "--index", "--extra-index-url")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "PIP_PROXY")
_PORTS = {"http": 80, "https": 443}


def check_indexes(steps: Iterable[RunStep]) -> None:
    """RepairError for an index whose host cannot be connected to. Behind a proxy only the installer can tell."""
    if any(os.environ.get(name) or os.environ.get(name.lower()) for name in _PROXIES):
        return
    for host, port in dict.fromkeys(place for step in steps for place in _places(step.argv)):
        try:
            socket.create_connection((host, port), SECONDS).close()
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise RepairError(f"The index at {host} cannot be reached ({why}): nothing was changed.") from error


def _places(argv: tuple[str, ...]) -> Iterable[tuple[str, int]]:
    """Host and port of the indexes that a command names."""
    for option, value in pairwise(argv):
        if option not in _OPTIONS:
            continue
        url = urlsplit(value.rpartition("=")[2] if "=http" in value else value)
        if url.hostname and url.scheme in _PORTS:
            yield url.hostname, url.port or _PORTS[url.scheme]
