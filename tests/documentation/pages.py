"""What the pages say of the program: command lines, options, variables, exit codes, links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.documentation.program import commands

_FENCED = re.compile(r"^```(?P<language>\w*)\n(?P<lines>(?:.*\n)*?)```$", re.MULTILINE)
_SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_CODES = re.compile(r"exit(?:s|ed)?(?: with)?(?: codes?)? (\d+(?:(?:, | or | and )\d+)*)|^\| (\d+) \|", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PROGRAM = ("gpudoctor", "gpudoctor-cli")


def spans(page: Path) -> list[str]:
    """What stands between backquotes in running text and tables."""
    text = _FENCED.sub("", page.read_text())
    return [re.sub(r"\s+", " ", span.replace("\\|", "|")) for span in _SPAN.findall(text)]


def command_lines(page: Path) -> Iterator[list[str]]:
    """The words of every gpudoctor command line, without the program's name."""
    for text in (*spans(page), *_typed_lines(page)):
        bare = re.sub(r"^(ENTRYPOINT|CMD) \[(.*)\]$", lambda found: found[2].replace(",", ""), text)
        bare = re.sub(r'"\$\((.*)\)"', r"\1", bare)  # eval "$(gpudoctor env)"
        try:
            words = shlex.split(bare)
        except ValueError:  # half of a sentence in quotes
            continue
        starts = [number for number, word in enumerate(words) if word in _PROGRAM]
        for start in starts[:1]:
            if words[0] in (*_PROGRAM, "eval", "sudo", "uvx", "pipx"):
                yield _until_the_end(words[start + 1 :])


def command_of(words: list[str]) -> str:
    """The command that a command line names; "" where it names none."""
    if not words or words[0].startswith("-"):
        return ""
    return " ".join(words[:2]) if " ".join(words[:2]) in commands() else words[0]


def exit_codes(page: Path) -> set[int]:
    """Exit codes that a sentence or the first column of a table names."""
    named = " ".join(text for pair in _CODES.findall(page.read_text()) for text in pair)
    return set(map(int, re.findall(r"\d+", named)))


def variables(page: Path) -> set[str]:
    """Variables of gpudoctor; those of its tests are their own."""
    return set(re.findall(r"(?<!_)GPUDOCTOR_(?!TEST)[A-Z_]*[A-Z]", page.read_text()))


def links(page: Path) -> list[Path]:
    """The files that a page links to."""
    targets = (target.partition("#")[0] for target in _LINK.findall(page.read_text()))
    return [page.parent / target for target in targets if target and "://" not in target]


def typed_without_screen(page: Path) -> list[str]:
    """What a person types in console blocks that show no answer."""
    blocks = re.findall(r"^```console\n((?:\$ .*\n)+)```$", page.read_text(), re.MULTILINE)
    return [line[2:] for block in blocks for line in block.splitlines()]


def _typed_lines(page: Path) -> Iterator[str]:
    """What a person types or writes into a file; what the program answers is left out."""
    for block in _FENCED.finditer(page.read_text()):
        for line in block["lines"].splitlines():
            if block["language"] != "console":
                yield line
            elif line.startswith("$ "):
                yield line[2:]


def _until_the_end(words: list[str]) -> list[str]:
    ends = [number for number, word in enumerate(words) if word in ("--", "|", "&&", ">", ";", "#")]
    return words[: ends[0]] if ends else words
