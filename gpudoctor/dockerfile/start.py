"""What a container starts: ENTRYPOINT and CMD of its image, or what a service has in their place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from gpudoctor.dockerfile.commands import SHELLS
from gpudoctor.dockerfile.image import Start
from gpudoctor.dockerfile.preflights import is_preflight, started_by_preflight

_WRAPPERS = ("env", "exec", "nice", "nohup", "stdbuf", "timeout", "numactl", "tini", "dumb-init", "catatonit",
             "nvidia_entrypoint.sh", "xvfb-run")  # fmt: skip
"""Programs that become, or start, the program after their options."""
_CHANGING = (".", "source", "eval", "conda", "mamba", "micromamba", "set")
"""Commands after which another Python may be in front."""
_AS_AT_LOGIN = re.compile(r"-[a-z]*[li]|--(login|rcfile|init-file)")


def programs(entrypoint: Start | None, command: Start | None) -> tuple[tuple[str, ...], ...]:
    """The programs that a container surely starts, without those in front of them; none where that is unknown, or
    where a script may choose the environment first."""
    if any("PATH=" in word for one in (entrypoint, command) if one is not None for word in one.words):
        return ()
    if entrypoint is not None and entrypoint.shell:
        return _of_shell(entrypoint)
    head = entrypoint.words if entrypoint is not None else ()
    if command is not None and command.shell:
        inner = unwrapped((*head, "/bin/sh"))
        return _of_shell(command) if inner == ("/bin/sh",) else ()
    words = _of_one_command(unwrapped((*head, *(command.words if command is not None else ()))))
    return (words,) if words and posixpath.basename(words[0]) not in (*SHELLS, *_CHANGING) else ()


def _of_one_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """What `sh -c "python app.py"` starts; other words stay as they are."""
    shell = len(words) > 2 and posixpath.basename(words[0]) in SHELLS and re.fullmatch("-[aefux]*c", words[1])
    if not shell or re.search(r"[;&|()<>`$'\"\\\n]", words[2]):
        return words
    return unwrapped(words[2].split())


def _of_shell(start: Start) -> tuple[tuple[str, ...], ...]:
    if posixpath.basename(start.words[0]) not in SHELLS or any(map(_AS_AT_LOGIN.match, start.words[1:-1])):
        return ()  # SHELL chooses: `conda run`, or the profile of a login
    found = [unwrapped(step.command.argv) for step in start.steps if not step.command.maybe]
    if any(step.command.argv[0] in _CHANGING or step.command.script for step in start.steps):
        return ()
    return tuple(words for words in found if words)


def unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """The program behind `tini --`, `env A=b`, `gpudoctor preflight --` and their like."""
    rest = list(words)
    while rest:
        if is_preflight(rest):
            rest = started_by_preflight(rest)
        elif posixpath.basename(rest[0]) in _WRAPPERS:
            later = (at for at, word in enumerate(rest) if at and not re.match(r"-|\d|[A-Za-z_]\w*=", word))
            rest = rest[next(later, len(rest)) :]
        else:
            break
    return tuple(rest)
