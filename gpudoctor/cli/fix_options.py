"""What `fix` is asked to do: its own options, and which of them go together."""

from __future__ import annotations

import click
from msgspec import Struct

from gpudoctor.cli.completion import checks
from gpudoctor.cli.options import option_group


class FixRequest(Struct, frozen=True):
    """What `fix` is to do, and of what."""

    dry_run: bool = False
    yes: bool = False
    only: tuple[str, ...] = ()
    alternative: int = 1
    system: bool = False
    script: bool = False
    undo: bool = False
    resume: bool = False
    history: bool = False
    forget: str | None = None
    install: str | None = None
    force: bool = False

    @property
    def of_the_plan(self) -> tuple[str, ...]:
        """The options that make it this plan, as a command line says them."""
        only = tuple(word for name in self.only for word in ("--only", name))
        number = ("--alternative", str(self.alternative)) if self.alternative != 1 else ()
        return (
            *(("--install", self.install) if self.install else ()),
            *only,
            *number,
            *(("--system",) if self.system else ()),
        )


fix_options = option_group(
    "request",
    FixRequest,
    click.option("--dry-run", is_flag=True, help="Show the plan and change nothing."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask. Without it and without a terminal nothing changes."),
    click.option(
        "--only", multiple=True, metavar="ID|SLUG", shell_complete=checks, help="Fix only this problem; a note, too."
    ),
    click.option(
        "--alternative",
        type=click.IntRange(1),
        default=1,
        metavar="N",
        help="Take the Nth fix: of the first problem, or of those that --only names.",
    ),
    click.option("--install", type=click.Choice(("torch",)), help="Install PyTorch for the GPUs of this machine."),
    click.option("--system", is_flag=True, help="Also run steps for root; gpudoctor must be root."),
    click.option("--shell", "script", is_flag=True, help="Print the plan as a shell script and change nothing."),
    click.option("--undo", is_flag=True, help="Undo the last fix of this environment."),
    click.option("--continue", "resume", is_flag=True, help="Continue a fix that was cut off."),
    click.option("--history", is_flag=True, help="List the fixes that were applied."),
    click.option("--forget", metavar="RUN", help="Delete what is kept to undo a fix (an id of --history)."),
    click.option("--force", is_flag=True, help="With --forget: also where that leaves an environment half changed."),
)


def check_modes(request: FixRequest) -> None:
    """Refuse what does not go together. Raises click.UsageError."""
    modes = {
        "--undo": request.undo,
        "--continue": request.resume,
        "--history": request.history,
        "--forget": request.forget is not None,
        "--shell": request.script,
    }
    given = [name for name, wanted in modes.items() if wanted]
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} do not go together")
    if given and (request.only or request.alternative != 1) and not request.script:
        raise click.UsageError(f"--only and --alternative choose a fix; {given[0]} makes none")
    if request.install and (request.only or given) and not request.script:
        raise click.UsageError(f"--install does not go with {given[0] if given else '--only'}")
    if request.yes and (request.dry_run or request.script):
        raise click.UsageError(f"--yes does not go with {'--dry-run' if request.dry_run else '--shell'}")
    if request.force and request.forget is None:
        raise click.UsageError("--force goes with --forget only")
