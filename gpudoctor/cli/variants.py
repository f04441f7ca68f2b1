"""`gpudoctor variants`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpudoctor.cli.command import command
from gpudoctor.cli.options import option, sources_options
from gpudoctor.command_line.options import NO_COLOR, form
from gpudoctor.situation import Situation

if TYPE_CHECKING:
    from gpudoctor.command_line.machine_source import Sources


@command()
@sources_options()
@option(form(("text", "json", "shell")))
@option(NO_COLOR)
def variants(sources: Sources, style: str | None, no_color: bool) -> int:
    """Say what uv, conda and wheel variants choose a build by on this machine, and where they differ.

    The variables make an installer choose for this machine on another one, such as a CI runner without a GPU. Exit
    codes: 0, or 3 if something that an installer asks for is unknown.

    \b
    Examples:
      gpudoctor variants
      eval "$(gpudoctor variants --format shell)"
      gpudoctor variants --gpu "RTX 5090" --driver 570.133.07 --format json
    """
    from gpudoctor.cli.recommend import machine_to_serve
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.recommend.variants import variants as asked
    from gpudoctor.records import view_as
    from gpudoctor.render.documents import AskedOfMachine
    from gpudoctor.render.json import to_json
    from gpudoctor.render.lines import print_lines
    from gpudoctor.render.progress import progress_line
    from gpudoctor.render.variants import shell_lines, variants_lines

    matrix = load_matrix(sources.overlays)
    with progress_line(style or "text") as progress:
        machine = machine_to_serve(sources, matrix, progress.stage)
        answer = asked(Situation(machine, matrix))
    if style == "json":
        sys.stdout.write(to_json(view_as(AskedOfMachine, answer)))
    elif style == "shell":
        sys.stdout.write(shell_lines(answer))
    else:
        print_lines(variants_lines(answer), sys.stdout, color=not no_color)
    return 3 if any("ROCm of the system" not in what for what in answer.unknown) else 0
