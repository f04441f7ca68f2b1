"""What a recorded folder says in the place of private details: names of users and of the host, UUIDs, serial numbers
and addresses.

A stand-in is the same wherever its original was, so that what fitted together still does. In files of an environment
it has the original's length: sizes and places in a file stay what they were.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Sequence

from gpudoctor.host.shell_files import settings_alone
from gpudoctor.privacy import NOT_A_USER, public_text, without_secrets

_OF_THE_MACHINE = ("/proc/", "/sys/", "/dev/", "/etc/", "/var/", "/run/")
_HOMES = rb"(/(?:home|Users|export/home|var/home)/)([^/\s:\"',;\0\\]+)"
_END = rb"(?=[/\s:\"',;\0]|$)"
_ID = (
    rb"(?i)(?<![0-9a-z])((?:MIG-)?(?:GPU|MIG)-)?"
    rb"(?(1)([0-9a-f]{2,32}(?:-[0-9a-f]+)*)|([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}))(?![0-9a-z])"
)
"""A UUID; after GPU- or MIG- a shortened one, too."""
_UNIQUE_ID = rb"(?m)^(unique_id )([1-9][0-9]*)$"
_NUMBER = rb"(?i)((?:serial(?:[ _]?n(?:umber|o))?|pdi|guid)\s*[:=>]\s*)((?:0x)?(?=[^<\s]*[0-9])[0-9a-z:-]{5,})"
_MAC = rb"(?i)(?<![0-9a-f:])([0-9a-f]{2}(?::[0-9a-f]{2}){5})(?![0-9a-f:])"
_GUID = rb"(?i)(?<![0-9a-f:.])([0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-f:.])"
_GID = rb"(?i)(?<![0-9a-f:])((?:[0-9a-f]{4}:){4})([0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-f:])"
_ADDRESS = rb"(?<![\w.-])(?!127\.|0\.|255\.)((?:\d{1,3}\.){3}\d{1,3})(?![\w.-])"
_SERVER = rb"(?<= )(?://)?[\w.-]+(?=:/|/\S+ cifs)"
_OF_INIT = (b"container",)
"""Variables of another process that are kept."""
_GROUPS_BELOW = 1000
_LOG_WORDS = re.compile(
    rb"(?i)nvrm|nvidia|amdgpu|\bkfd\b|\bdrm\b|nouveau|radeon|linux version|suspend (?:entry|exit)"
)
_COMMON_NAMES = frozenset((
    "gpu", "nvidia", "amd", "linux", "kernel", "localhost", "host", "debian", "ubuntu", "none",
))  # fmt: skip
"""Names of hosts that are also common words in what is recorded."""


class Anonymous:
    """Replaces the private details of one machine."""

    def __init__(
        self,
        home: str,
        host_name: str,
        texts: Iterable[bytes],
        needles: Sequence[str] = (),
        variables: Collection[str] = (),
    ) -> None:
        """`texts`: where names of users and UUIDs stand; `needles`: what the lines of a log hold that are kept;
        `variables`: what is kept of a file that a shell reads."""
        self._variables = variables
        found: set[bytes] = set()
        ids: set[bytes] = set()
        for text in texts:
            found.update(name for _, name in re.findall(_HOMES, text))
            if b"\0" not in text:
                ids.update(short or whole for _, short, whole in re.findall(_ID, text))
        own = posixpath.basename(home).encode()
        users = sorted(name for name in found | {own} if name and name.decode("utf-8", "replace") not in NOT_A_USER)
        self._users = {name: _stand_in(name, number) for number, name in enumerate(users, 1)}
        self._own = own if own in self._users and len(own) > 2 else b""
        plain = host_name.partition(".")[0]
        self._host = host_name.encode() if len(plain) > 2 and plain.lower() not in _COMMON_NAMES else b""
        self._needles = tuple(needle.encode() for needle in needles)
        self._known: dict[bytes, bytes] = {}
        for written in sorted(ids, key=lambda one: (-len(one), one)):  # before those that are its beginning
            self._hex(written)

    def path(self, path: str) -> str:
        """A path without the names of users."""
        return self._without_users(path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def text(self, text: str) -> str:
        """What a command or a variable says."""
        return self._of_machine(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")

    def content(self, path: str, content: bytes) -> bytes:
        """What a file holds."""
        if path.startswith("/var/log/"):
            content = self._gpu_lines(content)
        content = settings_alone(path, content, self._variables)
        if path == "/etc/group":
            content = _without_members(content)
        if re.fullmatch(r"/proc/[^/]+/environ", path):
            kept = (entry for entry in content.split(b"\0") if entry.partition(b"=")[0] in _OF_INIT)
            content = b"\0".join(kept)
        if path.endswith(("/mountinfo", "/mounts")):
            content = re.sub(_SERVER, b"server", content)
        if not path.startswith(_OF_THE_MACHINE) or b"\0" in content:
            return self._without_secrets(self._without_users(content))
        content = self._of_machine(content)
        if path.startswith("/var/log/"):
            content = public_text()(content.decode("utf-8", "replace")).encode()
        if path.startswith(("/var/log/", "/proc/")):
            content = re.sub(_ADDRESS, lambda match: self._pseudonym(b"ip", match[1], b"192.0.2.%d"), content)
        return content

    def _without_users(self, content: bytes) -> bytes:
        if b"/home/" in content or b"/Users/" in content:
            users = self._users
            content = re.sub(_HOMES, lambda match: match[1] + users.get(match[2], match[2]), content)
        if self._own and self._own in content:
            name = re.compile(rb"(?<=/)" + re.escape(self._own) + _END)
            content = name.sub(self._own_folder, content)
        return content

    def _own_folder(self, match: re.Match[bytes]) -> bytes:
        """The user's name as a folder; below site-packages it is a package's."""
        before = re.split(rb"[\s\0\"']", match.string[max(0, match.start() - 400) : match.start()])[-1]
        return match[0] if b"-packages/" in before else self._users[self._own]

    def _of_machine(self, content: bytes) -> bytes:
        content = self._without_users(content)
        content = re.sub(_ID, lambda match: (match[1] or b"") + self._hex(match[2] or match[3]), content)
        content = re.sub(_UNIQUE_ID, lambda match: match[1] + self._decimal(match[2]), content)
        content = re.sub(_NUMBER, lambda match: match[1] + b"0" * len(match[2]), content)
        content = re.sub(_GID, lambda match: match[1] + self._hex(match[2]), content)
        content = re.sub(_GUID, lambda match: self._hex(match[1]), content)
        content = re.sub(_MAC, lambda match: self._pseudonym(b"mac", match[1], b"02:00:00:00:00:%02x"), content)
        if self._host:
            content = re.sub(rb"(?<![\w.-])" + re.escape(self._host) + rb"(?![\w-])", b"host", content)
        return self._without_secrets(content)

    @staticmethod
    def _without_secrets(content: bytes) -> bytes:
        if b"\0" in content:
            return content
        try:
            return without_secrets(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def _gpu_lines(self, content: bytes) -> bytes:
        """The lines of a log that a check may look at."""
        lines = content.split(b"\n")
        return b"\n".join(
            line for line in lines if _LOG_WORDS.search(line) or any(needle in line for needle in self._needles)
        )

    # --- numbers ---------------------------------------------------------------------------------------

    def _hex(self, written: bytes) -> bytes:
        """Other digits in the same form. A shortened one gets the beginning of what the whole one gets."""
        digits = re.sub(rb"[^0-9a-f]", b"", written.lower())
        if not digits.strip(b"0"):
            return written
        whole = next((full for full in self._known if full.startswith(digits)), None)
        if whole is None:
            number = len(self._known) + 0x11
            self._known[digits] = b"%x" % number * 32
            whole = digits
        stand_in = iter(self._known[whole].decode())
        return "".join(next(stand_in) if c in "0123456789abcdefABCDEF" else c for c in written.decode()).encode()

    def _decimal(self, written: bytes) -> bytes:
        return b"%d" % int(self._hex(b"%016x" % int(written)), 16)

    def _pseudonym(self, kind: bytes, original: bytes, form: bytes) -> bytes:
        key = kind + original
        if key not in self._known:
            same = sum(known.startswith(kind) for known in self._known)
            self._known[key] = form % (same % 250 + 1)
        return self._known[key]


def _stand_in(name: bytes, number: int) -> bytes:
    """A name of the same length."""
    digits = b"%d" % number
    return (b"user" + b"x" * len(name))[: max(0, len(name) - len(digits))] + digits[-len(name) :]


def _without_members(content: bytes) -> bytes:
    """Groups with their numbers; a person's own group is named like the person."""
    lines = []
    for line in content.split(b"\n"):
        name, *rest = line.split(b":")
        if len(rest) < 2 or not rest[1].isdigit():
            continue
        personal = int(rest[1]) >= _GROUPS_BELOW and name not in (b"render", b"video")
        lines.append(b":".join((b"g" + rest[1] if personal else name, b"x", rest[1], b"\n")))
    return b"".join(lines)
