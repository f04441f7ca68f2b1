"""Any text that people paste, as a Machine."""

from __future__ import annotations

from gpudoctor.intake.text.as_root import read_runs_as_root
from gpudoctor.intake.text.buying import is_about_buying
from gpudoctor.intake.text.change_request import is_change_request
from gpudoctor.intake.text.circumstances import read_told
from gpudoctor.intake.text.compared import leave_out_compared
from gpudoctor.intake.text.dkms import read_dkms
from gpudoctor.intake.text.drivers import read_drivers
from gpudoctor.intake.text.errors import read_errors, read_messages, without_refuted
from gpudoctor.intake.text.facts import Facts
from gpudoctor.intake.text.floods import is_short, telling_lines, without_floods
from gpudoctor.intake.text.inventories import read_inventories
from gpudoctor.intake.text.kernel_log import read_kernel_log, read_xids
from gpudoctor.intake.text.key_values import read_key_values
from gpudoctor.intake.text.languages import in_english
from gpudoctor.intake.text.lines import Line, plain_lines
from gpudoctor.intake.text.machine import machine_of
from gpudoctor.intake.text.manual import is_manual
from gpudoctor.intake.text.packages import read_packages, read_said_versions
from gpudoctor.intake.text.program_errors import read_program_errors
from gpudoctor.intake.text.programs import read_programs, read_what_it_is_about
from gpudoctor.intake.text.properties import read_properties
from gpudoctor.intake.text.prose import read_asides, read_prose
from gpudoctor.intake.text.python_prompt import two_lines_say
from gpudoctor.intake.text.rows import read_rows
from gpudoctor.intake.text.several_machines import several
from gpudoctor.intake.text.shell import read_shell
from gpudoctor.intake.text.solved_reports import read_solved
from gpudoctor.intake.text.testimony import leave_out_hearsay
from gpudoctor.intake.text.torch_history import read_replaced
from gpudoctor.intake.text.vendor_tools import read_vendor_tools
from gpudoctor.machine import Machine
from gpudoctor.matrix.questions import Matrix

_MOST_GPUS = 256
"""GPUs that are kept of the beginning of a text, and of its end: it tells of machines, not of thousands."""


def read_text(content: bytes, matrix: Matrix) -> Machine:
    """The machine that a text tells of."""
    lines = plain_lines(content)
    if is_change_request(lines) or is_manual(lines) or is_about_buying(lines):
        return machine_of(Facts(), matrix, ())
    telling = telling_lines(lines)
    facts, read = _outline(lines, telling, matrix)
    part, machines = several(lines, facts, matrix)
    if machines:
        first, last = part[0].number, part[-1].number
        of_part = tuple(line for line in telling if first <= line.number <= last)
        facts, read = _outline(part, part if is_short(part) else of_part, matrix)
    _read_all(read, facts, matrix)
    return machine_of(facts, matrix, machines)


def _outline(whole: tuple[Line, ...], telling: tuple[Line, ...], matrix: Matrix) -> tuple[Facts, tuple[Line, ...]]:
    """What listings, reports and error lines say, which is enough to tell machines apart; and the lines to read."""
    facts = Facts()
    read_vendor_tools(whole, facts)
    lines = without_floods(telling)
    read_kernel_log(lines, facts)
    read_key_values(_not_logged(lines, facts), facts)
    _shorten(facts)
    read_errors(lines, facts, matrix)
    return facts, lines


def _read_all(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """All else that the text says, by the parsers of every kind."""
    from gpudoctor.probes.variables import NAMES

    rest = _not_logged(lines, facts)
    read_packages(rest, facts, matrix)
    read_said_versions(rest, facts, matrix)
    read_messages(lines, facts)
    read_shell(rest, facts, NAMES | matrix.variables)
    read_drivers(rest, facts)
    read_dkms(rest, facts)
    read_inventories(rest, facts)
    read_properties(rest, facts)
    read_rows(rest, facts)
    two_lines_say(rest, facts)
    read_programs(rest, facts)
    read_what_it_is_about(rest, facts, matrix)
    sentences = in_english(rest, matrix)
    leave_out_compared(sentences, facts)
    read_replaced(sentences, facts, matrix)
    read_asides(sentences, facts)
    read_xids(sentences, facts)
    read_told(rest, sentences, facts, matrix)
    read_runs_as_root(rest, facts, matrix)
    read_program_errors(rest, facts)
    without_refuted(facts)
    read_solved(sentences, facts, matrix)
    if all(gpu.vendor_only for gpu in facts.gpus):
        read_prose(rest, facts)
    leave_out_hearsay(lines, facts, matrix)
    _shorten(facts)


def _not_logged(lines: tuple[Line, ...], facts: Facts) -> tuple[Line, ...]:
    logged = {line.number for line in facts.log}
    return tuple(line for line in lines if line.number not in logged)


def _shorten(facts: Facts) -> None:
    facts.gpus[_MOST_GPUS:-_MOST_GPUS] = []
