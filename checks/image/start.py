"""`gpudoctor preflight` as the start of a container."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence

from gpudoctor.check import Verdicts, check
from gpudoctor.dockerfile.commands import Command, text_for_shell
from gpudoctor.dockerfile.compose import Service
from gpudoctor.dockerfile.image import Image, Start
from gpudoctor.dockerfile.preflights import is_preflight, runs_preflight, started_by_preflight, words_before
from gpudoctor.dockerfile.recipe import Recipe, change, line_of
from gpudoctor.finding import Evidence, Finding, Fix


@check("GPD629", "image-preflight-without-command", "image")
def preflight_without_command(recipe: Recipe) -> Verdicts:
    """The preflight of an image gets no command, or not all of it.

    ## Why it matters
    Docker passes CMD, and what is written after the image's name, only to an ENTRYPOINT in exec form. In shell form
    (`ENTRYPOINT gpudoctor preflight --`) both are dropped: the preflight passes, says that no command is given, and
    the container ends with exit code 127. A service's `entrypoint` drops the image's CMD, too.

    ## How it is judged
    By ENTRYPOINT and CMD of the stage that is built, and by `entrypoint` and `command` of a service. A container that
    only checks (`gpudoctor preflight` without `--` and without a CMD) is not reported.

    ## Fix safety
    The exec form starts no shell: variables in its words are not expanded.
    """
    for image in recipe.images:
        found = (_dropped(image, *one) for one in recipe.starts(image))
        yield from {one.subject: one for one in found if one is not None}.values()


def _dropped(
    image: Image, service: Service | None, entrypoint: Start | None, command: Start | None
) -> Finding | None:
    if entrypoint is None:
        return None
    if entrypoint.shell:
        called = [step.command.argv for step in entrypoint.steps if is_preflight(step.command.argv)]
        passed_on = '"$@"' in entrypoint.words[-1] or "$*" in entrypoint.words[-1]
        if command is None or not called or passed_on or _of_file(entrypoint):
            return None
        inner = started_by_preflight(called[0])
        message = "ENTRYPOINT in shell form drops CMD: the preflight gets no command (exit code 127)."
        if inner:
            message = f"ENTRYPOINT in shell form drops CMD: {inner[0]} starts without these words."
        elif called[0][-1] != "--":
            message = "ENTRYPOINT in shell form drops CMD: the container ends after the check."
        return _finding(image, service, entrypoint, message, _exec_form(called[0]), bool(inner))
    if not is_preflight(entrypoint.words) or command is not None or started_by_preflight(entrypoint.words):
        return None
    if service is None or service.entrypoint is None or image.command is None:
        return None
    message = f"The entrypoint of {service.title[0].lower()}{service.title[1:]} drops the image's CMD: the preflight "
    return _finding(image, service, entrypoint, f"{message}gets no command.", image.command.words, False)


def _of_file(start: Start) -> bool:
    """Whether the preflight stands in a script, whose own arguments are unknown."""
    return any(step.command.script and is_preflight(step.command.argv) for step in start.steps)


def _exec_form(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(words) if "--" in words else (*words, "--")


def _finding(
    image: Image, service: Service | None, start: Start, message: str, words: Sequence[str], starts_something: bool
) -> Finding:
    written = _listed(words)
    in_service = service is not None and service.entrypoint is not None
    key = ("args" if service.cluster else "command") if service is not None and in_service else ""
    place = service.place if service is not None and in_service else image.place(start.line)
    line = f"{service.below}\n    {key}: {written}" if service is not None and in_service else ""
    return Finding(
        severity="warning" if starts_something else "error",
        confidence="certain",
        message=message,
        saw="the shell form" if start.shell else "no command",
        want="the exec form" if start.shell else "a command",
        subject=place,
        evidence=(Evidence("instruction", " ".join(start.words), place),),
        fixes=(
            change(
                "Write ENTRYPOINT in exec form" if start.shell else "Name the command",
                line or f"{place}: ENTRYPOINT {written}",
            ),
        ),
        refs=("Dockerfile reference: Understand how CMD and ENTRYPOINT interact",),
    )


@check("GPD633", "image-preflight-ignored", "image")
def ignored(recipe: Recipe) -> Verdicts:
    """A start script goes on after its preflight refused.

    ## Why it matters
    A shell runs the next command whatever became of the one before, unless it was told `set -e`. The status of a pipe
    (`gpudoctor preflight | tee log`) is that of its last command, unless it was told `set -o pipefail`. The preflight
    says why the node is bad, and the program starts all the same.

    ## How it is judged
    ENTRYPOINT or CMD runs a script in which a preflight without a command stands on a line of its own, or a text for
    `sh -c` in which `;` comes after it, and another command follows; or the preflight stands in a pipe or in the
    background. A shell that is told `set -e` (of a pipe: `pipefail`), a trap, or a look at `$?` is not reported.

    ## Fix safety
    The preflight becomes the program: the same process, with its own signals and exit status.
    """
    for image in (*recipe.images, None):
        found: dict[str, Finding] = {}
        for service, *starts in recipe.starts(image):
            entrypoint = starts[0]
            for name, start in zip(("entrypoint", "command"), starts, strict=True):
                if start is None:
                    continue
                before = words_before(entrypoint, start.words) if name == "command" and not start.shell else ()
                of_image = image is not None and (start is image.entrypoint or start is image.command)
                giver = image if of_image else service
                problems = (*_ignored(start), *_ignored_in_text(giver, start, name, before))
                found.update((one.subject, one) for one in problems)
        yield from found.values()


_STOPS = re.compile(r"^\s*set\s.*(-[a-z]*e|errexit)|^#!.*\s-[a-z]*e|\btrap\b|\$\?", re.MULTILINE)
"""What makes a script stop, or lets it look at a status."""
_STOPPING_SHELL = re.compile(r"(^|[/ ])(ba|da|a|z)?sh (-\S+ )*-[a-z]*e")
_STOPS_PIPES = re.compile(r"pipefail|PIPESTATUS|pipestatus|\btrap\b")
"""What makes the status of a pipe that of all its commands: otherwise only the last one counts, to `set -e`, too."""
_LOG = "what it says goes to stderr; --report-file keeps the report in a file"
_WAITS = re.compile(r"\bwait\b")
_PART = r"""(?:[^|&;"'\\\n>]|>(?!&)|>&|&>|"[^"\n]{0,300}"|'[^'\n]{0,300}'){0,300}"""
_NEVER = r"(?!.*--fail-on[ =]never)"
_ALONE = re.compile(rf"\s*\S*gpudoctor\S* preflight{_NEVER}{_PART}(?P<pipe>\|&?{_PART})?(?P<sign>&?)[;\s]*")
"""A preflight on a line of its own, in a pipe, or in the background."""
_THEN_ANOTHER = re.compile(
    r"(?:^|[;&|({\n])[ \t]{0,50}(?P<check>(?:[\w./-]{1,100} -m )?[\w./-]{0,100}gpudoctor[\w.-]{0,8} preflight\b"
    rf"{_PART})(?P<pipe>\|&?{_PART})?(?P<sign>&&|[;&\n])\s{{0,50}}(?=[^\s;}})&|])"
)
"""A preflight in a text for a shell, after which another command may start."""
_PROGRAM = re.compile(r"\s*(?P<exec>exec )?(?!\w+=)(?:[^|;&\n]|(?<=>)&)*\s*")
"""A line that starts one program; whatever comes before it, `exec` makes it the last."""
_OF_SHELL = re.compile(
    r"(exec )?([.\[{(]|(source|cd|eval|if|for|while|until|case|export|set|test|trap|umask|wait)\b)"
)
"""What the shell itself does."""
_REDIRECTION = re.compile(r"\s*(?<![\w\"'])(?:\d|&)?>{1,2}&?\s*[\w./-]+(?=\s|$)")
"""Where the output of a preflight goes, which its program would inherit."""


def _goes_on_after(found: re.Match[str], text: str, words: Sequence[str]) -> bool:
    """Whether a shell starts the next command whatever a preflight said."""
    shell = " ".join(words)
    if found["pipe"]:
        return not (_STOPS_PIPES.search(text) or "pipefail" in shell)
    if found["sign"] == "&":
        return not _WAITS.search(text)
    return found["sign"] != "&&" and not _STOPS.search(text) and not _STOPPING_SHELL.search(shell)


def _before_a_program(check_: str) -> str:
    """The words of a preflight that is to become a program."""
    return _REDIRECTION.sub("", check_).rstrip().removesuffix(" --")


def _ignored(start: Start) -> Iterator[Finding]:
    """A preflight on a line of the script that a start runs."""
    if not start.text:
        return
    lines = start.text.split("\n")
    inside = [step.command for step in start.steps if step.command.script]
    path = inside[0].script.rpartition(":")[0]
    sure = [one for one in inside if not one.maybe and one.script.rpartition(":")[0] == path]
    for number, command in enumerate(sure[:-1]):
        line = _line_of(command, lines)
        alone = _ALONE.fullmatch(line)
        after = [one for one in sure[number + 1 :] if one.script != command.script]
        if not is_preflight(command.argv) or started_by_preflight(command.argv) or alone is None or not after:
            continue
        if not _goes_on_after(alone, start.text, start.words):
            return
        program, fixes = after[-1], [_stopping(command, alone, start.text)]
        its_line = _line_of(program, lines).rstrip("\\")
        found = _PROGRAM.fullmatch(its_line)
        if found is not None and (found["exec"] or after[0] is program):
            words = _before_a_program(command.written)
            become = change(
                "Let the preflight become the program",
                f"{command.script}: leave it out",
                f"{program.script}: exec {words} -- {program.written.removeprefix('exec ')}",
                why=_LOG * bool(alone["pipe"]),
            )
            fixes.insert(0, become)
        yield _goes_on("script", line.strip(), command.script, fixes, _why(alone))
        return


def _stopping(command: Command, alone: re.Match[str], script: str) -> Fix:
    """The fix that keeps a preflight where it stands."""
    if alone["pipe"] and re.match(r"#!\S*(/|env )bash", script):
        return change("Let the pipe fail with it", f"{command.script}: above it: set -eo pipefail")
    if alone["pipe"] or alone["sign"]:
        return change("Stop if it refuses", f"{command.script}: {command.written} || exit")
    return change("Stop at what fails", f"{command.script}: above it: set -e")


def _why(found: re.Match[str]) -> str:
    if found["pipe"]:
        return "no `set -o pipefail`"
    return "a preflight in the background" if found["sign"] == "&" else "no `set -e`"


def _ignored_in_text(
    giver: Image | Service | None, start: Start, name: str, before: Sequence[str] = ()
) -> Iterator[Finding]:
    """A preflight in the text of `sh -c`, or of the shell form. `giver`: the image or service that has it; `before`:
    the words that come before its own."""
    shell = (*before, *start.words)
    text = text_for_shell(shell) or ""
    found = _THEN_ANOTHER.search(text)
    if found is None or not _goes_on_after(found, text, shell):
        return
    run = [one.command.argv for one in start.steps if is_preflight(one.command.argv)]
    if (start.steps and not run) or any(map(started_by_preflight, run)):
        return  # it stands between quotes, or becomes the program
    check_ = found["check"].rstrip()
    try:
        given = shlex.split(_REDIRECTION.sub("", check_))
        if started_by_preflight(given) or "--fail-on never" in " ".join(given).replace("=", " "):
            return
    except ValueError:
        return
    rest = text[found.end() :]
    several = re.search(r"[;\n]", rest.strip())
    fixed, title = f"{check_} {'|| exit;' if several else '&&'} {rest}", "Start the program only if it passed"
    if _PROGRAM.fullmatch(rest) and not _OF_SHELL.match(rest):
        title = "Let the preflight become the program"
        fixed = f"exec {_before_a_program(check_)} -- {rest.removeprefix('exec ')}"
    whole = text[: found.start("check")] + fixed
    words = [whole if word == text else word for word in start.words]
    if isinstance(giver, Service):
        key = _KEYS[name] if giver.cluster else name
        place, line = giver.place_of(key), f"{key}: {_listed(words)}"
    else:
        assert giver is not None
        key = _INSTRUCTIONS[name]
        lines = range(start.line, len(giver.source) + 1)
        place = giver.place(next((at for at in lines if check_ in giver.source[at - 1]), start.line))
        line = f"{key} {whole if start.shell else _listed(words)}"
        if giver.form == "definition":
            key = "%runscript"
    if "\n" in text:
        line = "\n    ".join((f"in {key}, in place of `{check_}` and what follows:", *fixed.strip().split("\n")))
    yield _goes_on(
        "shell", check_, place, [change(title, f"{place}: {line}", why=_LOG * bool(found["pipe"]))], _why(found)
    )


_KEYS = {"entrypoint": "command", "command": "args"}
"""What a container of a cluster calls the keys of compose."""
_INSTRUCTIONS = {"entrypoint": "ENTRYPOINT", "command": "CMD"}


def _listed(words: Sequence[str]) -> str:
    """Words as a list of JSON, which is one of YAML, too."""
    return json.dumps(list(words), ensure_ascii=False)


def _goes_on(what: str, written: str, place: str, fixes: Sequence[Fix], saw: str) -> Finding:
    return Finding(
        severity="warning",
        confidence="likely",
        message=f"The {what} goes on after this preflight refused: the program is started all the same.",
        saw=saw,
        want="the preflight in front of the program",
        subject=place,
        evidence=(Evidence("instruction", written, place),),
        fixes=tuple(fixes),
    )


def _line_of(command: Command, lines: Sequence[str]) -> str:
    """The line of a script at which a command begins."""
    return lines[int(command.script.rpartition(":")[2]) - 1]


@check("GPD630", "compose-drops-preflight", "image")
def drops_preflight(recipe: Recipe) -> Verdicts:
    """A service replaces the ENTRYPOINT that checks the machine.

    ## Why it matters
    The image starts with `gpudoctor preflight`, alone or in a script of it. `entrypoint` of a service, and `command`
    of a Kubernetes container, take its place: the program then starts on a faulty node, too, and without what the
    script prepares.

    ## How it is judged
    The image's Dockerfile names the ENTRYPOINT, the service another one without a preflight. A service that is given
    no GPU is not reported: it may migrate a database.

    ## Fix safety
    `command` keeps the image's ENTRYPOINT and replaces its CMD alone.
    """
    for started in recipe.services:
        service, image = started.service, started.image
        if image is None or service.entrypoint is None or not runs_preflight(image.entrypoint):
            continue
        replaced, command = next(own[1:] for own in recipe.starts(image) if own[0] is service)
        if runs_preflight(replaced) or runs_preflight(command) or not (service.given_gpus or service.privileged):
            continue
        assert image.entrypoint is not None
        replacing, kept = ("command", "args") if service.cluster else ("entrypoint", "command")
        line = f"{kept}: {_listed((*service.entrypoint, *(service.command or ())))}"
        lines = (f"{service.place_of(replacing)}: in place of {replacing}:", f"    {line}")
        if kept in service.keys:
            lines = (f"{service.place_of(replacing)}: leave out {replacing}", f"{service.place_of(kept)}: {line}")
        yield Finding(
            severity="warning",
            confidence="certain",
            message=f"{service.title} replaces the image's ENTRYPOINT, which runs `gpudoctor preflight`: nothing is "
            "checked before it starts.",
            saw=" ".join(service.entrypoint),
            want="the image's ENTRYPOINT",
            subject=service.subject,
            evidence=(
                Evidence(service.kind, service.name, service.place),
                line_of(image, image.entrypoint.line, " ".join(image.entrypoint.words)),
            ),
            fixes=(change("Replace CMD alone", *lines),),
        )
