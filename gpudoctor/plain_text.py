"""Texts that were read from a machine, before a person or a shell gets them: what is left out, and how they end."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

_WORKFLOW_COMMAND = r"(?<!\S)::(?=[a-z])|##(?=\w{0,40}\[)"
"""How a line of a log starts a command of the CI that shows it: "::add-mask::x" of GitHub Actions at the beginning of
the line, "##[add-mask]x" and Azure's "##vso[...]" anywhere."""
_PROGRAMS = frozenset((
    "CMD", "COPY", "ENTRYPOINT", "ENV", "RUN", "[", "apt-get", "cat", "conda", "df", "dkms", "dmesg", "docker",
    "dpkg", "echo", "env", "grep", "id", "ip", "kubectl", "ldconfig", "ldd", "ls", "lsb_release", "lsmod",
    "lspci", "mamba", "modinfo", "mokutil", "nvcc", "nvidia-ctk", "nvidia-smi", "ollama", "pixi", "podman",
    "poetry", "prime-select", "ps", "rm", "rocminfo", "show_gids", "sudo", "systemctl", "tail", "ulimit", "uname",
    "unset", "uv", "vulkaninfo", "wsl",
))  # fmt: skip
"""First words of commands in fixes and in the matrix's questions, and of lines in a Dockerfile."""
_PYTHON = r"(?:~?/\S*/)?(?:python|pip)[\d.]*"
_QUOTED = r"\"[^\"]*\"|'[^']*'|\$\((?:[^()]|\([^()]*\))*\)"
_OUTSIDE_QUOTES = r"(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)"
_SAID = r"[,:?](?: |$)|[\w)]\.$| \(| (?:and|as|in|of|on|or|outside|right|the|which|with) "
"""What only sentences have, and no command."""


def utc(seconds: float) -> str:
    """A moment as ISO 8601 has it, in UTC: "2026-11-22T10:00:00Z"."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def sentence(text: str) -> str:
    """The text with a full stop, where it does not end as a sentence does."""
    return text if text.endswith((".", "?")) else f"{text}."


def capital(text: str) -> str:
    """The text with a capital letter, unless it begins with the name of a program."""
    first = text.partition(" ")[0].removesuffix("'s")
    return text if _is_program(first) or not first.islower() else text[:1].upper() + text[1:]


def for_vendor(text: str, vendor: str | None) -> str:
    """The text without what is for the GPUs of the other vendor: that begins with "NVIDIA:" or "AMD:" at the start of
    a sentence, and ends at the next of them. All of it if the vendor is unknown."""
    if vendor is None:
        return text
    parts = re.split(r"(?:^|(?<=\. ))(NVIDIA|AMD): ", text)
    own = (capital(part) for label, part in zip(parts[1::2], parts[2::2], strict=True) if label.lower() == vendor)
    return f"{parts[0]}{' '.join(own)}".rstrip()


def is_command(text: str) -> bool:
    """Whether a line is a command and nothing else: "sudo dmesg | grep -i xid"."""
    first = text.partition(" ")[0]
    if "=" not in first and not _is_program(first):  # most lines
        return False
    quoted = re.sub(r"\[QUOTED(, QUOTED)*\]", "QUOTED", re.sub(_QUOTED, "QUOTED", text))
    words = re.sub(r"^(?:[A-Z_]+=\S+ )+", "", quoted)
    return _is_program(words.partition(" ")[0]) and not re.search(_SAID, words)


def _is_program(word: str) -> bool:
    return word in _PROGRAMS or re.fullmatch(_PYTHON, word) is not None


def questions(text: str) -> list[str]:
    """What decides, as the matrix has it in one text: the commands and the questions in it."""
    return re.split(rf"(?:; |(?<=\?) ){_OUTSIDE_QUOTES}", text)


def with_code(text: str) -> str:
    """The same with the commands between backquotes."""
    parts = re.split(rf"(; |(?<=\?) ){_OUTSIDE_QUOTES}", text)
    return "".join(f"`{part}`" if is_command(part) else part for part in parts)


NO_USABLE_GPU = "no usable GPU"
"""What is found where nothing tells why: the CPU, or another machine, is left."""

TO_BE_SURE = "To be sure:"
"""Stands before the commands and questions that decide."""


def enumeration(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: "a, b and 3 more"."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def number_of(number: int, noun: str) -> str:
    """ "1 node", "2 nodes"."""
    return f"{number} {noun}{'s' * (number != 1)}"


def size(number: int) -> str:
    """Bytes: "64 MiB", "8 KiB"."""
    return f"{number >> 20} MiB" if number >= 1 << 20 else f"{number >> 10} KiB"


def without_controls(text: str, instead: str = "?") -> str:
    """One line: no control characters, escapes, line breaks, direction overrides or invisible characters."""
    return text if text.isprintable() else "".join(char if char.isprintable() else instead for char in text)


def without_workflow_commands(text: str, number: str = "\\x") -> str:
    """The text, with one character of what a CI would take for a command written as its number."""
    if "::" not in text and "##" not in text:
        return text
    return re.sub(_WORKFLOW_COMMAND, lambda found: f"{found[0][0]}{number}{ord(found[0][0]):02x}", text)


def lines_without_controls(text: str) -> str:
    """The same for a text of several lines."""
    return "\n".join(without_controls(line) for line in text.split("\n"))
