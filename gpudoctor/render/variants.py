"""What installers ask of a machine, for a person and for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.plain_text import enumeration
from gpudoctor.render.lines import Line, printable

if TYPE_CHECKING:
    from gpudoctor.recommend.variants import Variants

_SHOWN = 4


def shell_lines(answer: Variants) -> str:
    """One `export` for each variable, and what is not known as comments."""
    lines = (
        f"export {name}={shlex.quote(value)}\n" for one in answer.installers for name, value in one.variables.items()
    )
    return "".join((*(f"# Not known: {printable(what)}.\n" for what in answer.unknown), *lines))


def variants_lines(answer: Variants) -> Iterator[Line]:
    """What a person reads of it."""
    if not answer.installers:
        yield [("Installers find no GPU here: they choose builds for the CPU.", "bold")]
    for one in answer.installers:
        yield [(one.name, "bold")]
        for name, value in one.variables.items():
            yield [(f"    export {name}={shlex.quote(value)}", "command")]
        for name, value in one.present.items():
            if value != one.variables.get(name, ""):
                yield [(f"    {name}={shlex.quote(value)} is set here, and is taken for the machine", "yellow")]
    if answer.properties:
        yield []
        yield [("Properties of wheel variants", "bold")]
    for one_property in answer.properties:
        values = enumeration(one_property.values, _SHOWN)
        yield [(f"    {one_property.namespace} :: {one_property.feature} :: {values}", "")]
    if answer.disagreements:
        yield []
        yield [("Where installers differ", "bold")]
    for sentence in answer.disagreements:
        yield [("  · ", "cyan"), (sentence, "")]
    for what in answer.unknown:
        yield [("  · ", "cyan"), (f"Not known: {what}.", "")]
