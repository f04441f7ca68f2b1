"""What a container starts: ENTRYPOINT and CMD of its image, or what a service has in their place."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from gpudoctor.dockerfile.commands import SHELLS, Command, behind_wrapper
from gpudoctor.dockerfile.image import Start
from gpudoctor.dockerfile.preflights import is_preflight, started_by_preflight

_CHANGING = (".", "source", "eval", "conda", "mamba", "micromamba", "set")
"""Commands after which another Python may be in front."""
OF_OTHER_NAME = {
    "gpudoctor": "gpudoctor-cli",
    "torchrun": "torch",
    "jupyter-lab": "jupyterlab",
    "accelerate-launch": "accelerate",
}
"""Commands that have another name than their package."""
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


def script_program(entrypoint: Start | None, command: Start | None) -> tuple[tuple[str, ...], str] | None:
    """The program that a start script runs at last, in no environment, and its place in the script; None where the
    script may choose another Python. `"$@"` is what comes after the script."""
    starts = [one for one in (entrypoint, command) if one is not None]
    start = next((one for one in starts if any(step.command.script for step in one.steps)), None)
    if start is None or {"PYTHONHOME", "PYTHONPATH"} & start.exports.keys():
        return None
    inside = [step.command for step in start.steps if step.command.script]
    if any(_may_choose(one) for one in inside):
        return None
    last = next((step for step in reversed(start.steps) if step.command.script and not step.command.maybe), None)
    if last is None or last.environment != "":
        return None
    words = unwrapped(last.command.argv)
    if words == ("$@",):
        words = command.words if command is not None and command is not start and not command.shell else ()
    return (words, last.command.script) if words else None


def _may_choose(command: Command) -> bool:
    """Whether a command of a script may put another Python in front, or holds a text that is no command."""
    activates = command.argv[0] in (".", "source") and command.argv[-1].endswith("/bin/activate")
    return (command.argv[0] in _CHANGING and not activates) or "<<" in command.written


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
    rest = behind_wrapper(words)
    while is_preflight(rest):
        rest = behind_wrapper(started_by_preflight(rest))
    return rest
