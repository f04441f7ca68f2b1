"""Errors of a program in Python that are no fault of a GPU: a missing module, shapes that do not fit."""

from __future__ import annotations

from gpudoctor.intake.text.errors import about_gpus, is_of_torch
from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.lines import Line
from gpudoctor.late_regex import late
from gpudoctor.machine import Told
from gpudoctor.machine.pasted_text import PROGRAM_ERROR

_OF_PYTHON = late(
    r"\s{0,8}(?:[\w.]{1,80}\.)?(?:ModuleNotFound|Index|Key|Type|Value|Attribute|Name|UnboundLocal|Syntax|Indentation"
    r"|ZeroDivision|FileNotFound|Recursion|UnicodeDecode|JSONDecode)Error\b:?"
)
_OF_TENSORS = late(
    r"mat1 and mat2 shapes cannot be multiplied|Expected all tensors to be on the same device"
    r"|Input type \(.{1,60}\) and weight type \(.{1,60}\) should be the same|is invalid for input of size \d"
    r"|The size of tensor a \(\d+\) must match the size of tensor b|Error\(s\) in loading state_dict"
    r"|(?:User|Future|Deprecation)Warning: .{0,200}\bis deprecated\b"
)
"""What torch says of a program that uses it wrongly, or as older releases wanted it."""
_OF_A_TRACEBACK = late(r"Traceback \(most recent|\s{1,12}\S|\s{0,8}[\^~]+$")


def read_program_errors(lines: tuple[Line, ...], facts: Facts) -> None:
    """The last such error, where nothing else of the text is about a GPU."""
    facts.unexplained = [line for line in facts.unexplained if not _OF_TENSORS.search(line.text)]
    if facts.errors or facts.unexplained or facts.told or facts.log:
        return
    found = [line for line in lines if _is_of_the_program(line.text)]
    if not found:
        return
    numbers = {line.number for line in found}
    rest = (line.text for line in lines if line.number not in numbers and not _OF_A_TRACEBACK.match(line.text))
    healthy = facts.smi is not None and not facts.smi[0].status and _OF_TENSORS.search(found[-1].text)
    if healthy or not any(map(about_gpus, rest)):
        facts.told.append(Told(PROGRAM_ERROR, found[-1].text.strip()[:300], found[-1].number))


def _is_of_the_program(text: str) -> bool:
    if "Error" not in text and "Warning" not in text:
        return False
    if _OF_TENSORS.search(text):
        return True
    return _OF_PYTHON.match(text) is not None and not about_gpus(text) and not is_of_torch(text)
