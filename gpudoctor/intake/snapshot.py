"""A machine as one JSON document, and back; leaving out what is private.

Private are host name, user names, home folders, serial numbers and UUIDs. UUIDs are replaced by numbered
stand-ins, so that a visibility variable still names the same card and no finding changes.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from gpudoctor import __version__
from gpudoctor.host import InputError
from gpudoctor.machine import Machine

SNAPSHOT_LIMIT = 64 << 20
SCHEMA = 1

_HOME = re.compile(r"/(?:home|Users|export/home|var/home)/([^/\s:\"',;]+)")
_NOT_A_USER = frozenset({
    "amdgpu", "bin", "compat", "conda", "cuda", "data", "debian", "home", "lib", "lib64", "linuxbrew", "local",
    "nvidia", "opt", "python", "rocm", "root", "share", "shared", "src", "tmp", "torch", "ubuntu", "usr", "var",
    "venv", "work",
})  # fmt: skip
"""Names of home folders that are also common names of other folders."""
_CARD = r"\b(?:MIG-)?(?:GPU|MIG)-[0-9a-f]{4,}(?:-[0-9a-f]+)*"
_PUBLIC_GROUPS = ("audio", "docker", "kvm", "render", "root", "sudo", "video", "wheel")


class Snapshot(Struct, frozen=True, kw_only=True):
    """What `gpudoctor snapshot` prints."""

    schema: int = SCHEMA
    gpudoctor: str = __version__
    machine: Machine


def read_snapshot(path: str) -> Machine:
    """The machine of a snapshot or of a JSON report. Raises InputError with file and place."""
    try:
        # A pipe is welcome; one that nobody writes to is empty, and not waited for.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            os.set_blocking(file.fileno(), True)
            content = file.read(SNAPSHOT_LIMIT + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    if len(content) > SNAPSHOT_LIMIT:
        raise InputError(f"{path}: larger than {SNAPSHOT_LIMIT >> 20} MiB; this is no snapshot")
    try:
        snapshot = msgspec.json.decode(content, type=Snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not a snapshot of gpudoctor: {error}") from None
    if re.search(rb"\d{19}", content) and _has_a_vast_number(msgspec.to_builtins(snapshot.machine)):
        raise InputError(f"{path}: not a snapshot of gpudoctor: a number of more than 64 bits")
    if snapshot.schema != SCHEMA:
        raise InputError(
            f"{path}: schema {snapshot.schema} is not known to gpudoctor {__version__}; it reads {SCHEMA}"
        )
    return snapshot.machine


def _has_a_vast_number(data: Any) -> bool:
    if isinstance(data, dict):
        return any(map(_has_a_vast_number, data.values()))
    if isinstance(data, (list, tuple)):
        return any(map(_has_a_vast_number, data))
    return isinstance(data, int) and data.bit_length() > 64


def without_private(machine: Machine, home: str = "") -> Machine:
    """The machine without what is private; `home` is the home folder of whoever runs gpudoctor."""
    public = machine_public(msgspec.to_builtins(machine), _Pseudonyms(machine), home)
    return msgspec.convert(public, type=Machine)


def machine_public(data: dict[str, Any], stand_in: Callable[[str], str], home: str) -> dict[str, Any]:
    """Built-in data of a Machine with every text made public."""
    user = data.get("system", {}).get("user", {})
    if "groups" in user:
        user["groups"] = [group for group in user["groups"] if group in _PUBLIC_GROUPS]
    for node in data.get("amd", {}).get("topology", {}).get("value") or ():
        node.pop("unique_id", None)
    result = _walk(data, public_text(home, stand_in, users_in(data, home)))
    assert isinstance(result, dict)
    return result


def users_in(data: Any, home: str) -> frozenset[str]:
    """Names of the users whose home folders are met in built-in data, and of whoever runs gpudoctor."""
    names = {posixpath.basename(home)}

    def look(text: str) -> str:
        names.update(_HOME.findall(text))
        return text

    _walk(data, look)
    return frozenset(name for name in names if len(name) > 2 and name not in _NOT_A_USER)


def public_text(
    home: str = "", stand_in: Callable[[str], str] = lambda text: text, users: Iterable[str] = ()
) -> Callable[[str], str]:
    """A function that takes home folders, folders named for `users`, and card UUIDs (by `stand_in`) out of a text."""
    names = "|".join(re.escape(user) for user in sorted(users))
    named = re.compile(rf"(?<=/)(?:{names})(?=[/\s:\"',;]|$)") if names else None

    def clean(text: str) -> str:
        if home and home not in ("/", "/root"):
            text = text.replace(home, "~")
        text = _HOME.sub("~", text)
        if named is not None and "http" not in text:
            text = named.sub("user", text)
        return stand_in(text)

    return clean


def map_texts(data: Any, change: Callable[[str], str]) -> Any:
    """Built-in data with every text value changed."""
    return _walk(data, change)


def pseudonyms(machine: Machine) -> Callable[[str], str]:
    """Stand-ins for the UUIDs of this machine's cards, the same for the same card everywhere."""
    return _Pseudonyms(machine)


def _walk(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, dict):
        return {key: _walk(value, change) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_walk(item, change) for item in data]
    return data


class _Pseudonyms:
    """UUID → numbered stand-in. A shortened UUID of a known card gets that card's stand-in, whatever it is said to
    be: torch calls a slice GPU."""

    def __init__(self, machine: Machine) -> None:
        self._names: dict[str, str] = {}
        for gpu in machine.gpus:
            uuids = [
                gpu.uuid,
                gpu.nvml.uuid if gpu.nvml else "",
                *(m.uuid for m in (gpu.nvml.mig_devices if gpu.nvml else ())),
            ]
            for uuid in filter(None, uuids):
                self._name(uuid)

    def _name(self, uuid: str) -> str:
        kind, _, digits = uuid.partition("-")
        kind = kind.upper()
        for full, name in self._names.items():
            if full.startswith(digits):
                return f"{kind}-{name}"
        self._names[digits] = f"{len(self._names) + 1:08x}"
        return f"{kind}-{self._names[digits]}"

    def __call__(self, text: str) -> str:
        return re.sub(_CARD, lambda match: self._name(match[0]), text, flags=re.IGNORECASE)
