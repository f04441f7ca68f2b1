"""The same command without and with sudo: what it prints tells whether the rights of the user are at fault."""

from __future__ import annotations

from typing import NamedTuple

from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.matrix.questions import Matrix

_COMMAND = late(
    r"\s{0,4}\$ (?P<sudo>sudo (?:-[A-Za-z]{1,3} (?:root )?){0,3})?(?:\S{0,80}/)?"
    r"(?P<command>(?:rocminfo|clinfo|rocm-smi|amd-smi|nvidia-smi|rocm_agent_enumerator|hipinfo)\b.{0,100})$"
)
"""A tool that lists GPUs, behind a prompt."""
_FAILED = late(
    r"(?i)\berror|fail|denied|not permitted|unable|cannot|can't|no (?:devices?|gpus?|platforms?)\b"
    r"|of (?:devices|platforms):? *0\b"
)
_MAY_PRINT_NOTHING = late(r"clinfo (?:-l|--list)\b|rocm_agent_enumerator|nvidia-smi -L\b")
"""Commands that print a line for each GPU; of another one without an answer, nobody pasted it."""
_MOST_LINES = 12
"""Of an answer; the first ones tell whether it failed."""
_SUDO = "sudo"


class _Run(NamedTuple):
    """One command with the first lines of its answer."""

    line: Line
    command: str
    as_root: bool
    answer: str

    @property
    def answered(self) -> bool:
        """Whether it listed something, or may have."""
        if not self.answer:
            return not _MAY_PRINT_NOTHING.match(self.command)
        return not _FAILED.search(self.answer)


def read_runs_as_root(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """That a command lists GPUs for root only: the circumstance of the matrix that people also tell in words."""
    runs = [_run(lines, place) for place, line in enumerate(lines) if "$ " in line.text and _COMMAND.match(line.text)]
    for root in runs:
        of_user = [run for run in runs if not run.as_root and run.command == root.command]
        if root.as_root and root.answer and root.answered and of_user and not any(run.answered for run in of_user):
            said = f"{root.line.text.strip()} {root.answer}"[:300]
            rows = (row for row in matrix.tables.told_circumstances if _SUDO in row.signs)
            facts.told.extend(Told(row.id, said, root.line.number, complains=True) for row in rows)
            return


def _run(lines: tuple[Line, ...], place: int) -> _Run:
    """The command of a line; its answer ends at an empty line or at the next prompt."""
    found = _COMMAND.match(lines[place].text)
    answer = []
    for line in lines[place + 1 : place + 1 + _MOST_LINES]:
        if not line.text.strip() or line.text.startswith("$ "):
            break
        answer.append(line.text.strip())
    command = " ".join(found["command"].split()) if found else ""
    return _Run(lines[place], command, bool(found and found["sudo"]), " ".join(answer))
