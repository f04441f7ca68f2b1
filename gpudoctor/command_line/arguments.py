"""The options of `gpudoctor check`, and the records that options shared with other commands are gathered in."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from gpudoctor.command_line import options
from gpudoctor.command_line.option_parser import CommandLine, Given
from gpudoctor.command_line.project_settings import Settings, fail_on

if TYPE_CHECKING:
    from gpudoctor.requirement import Requirement

LINE = CommandLine((
    *options.MACHINE,
    options.ENV,
    options.snapshot_file("Judge the machine that a snapshot, a report or any pasted text tells of; - reads stdin."),
    *options.DESCRIPTION,
    options.REQUIRE,
    options.MATRIX,
    *options.report(),
))  # fmt: skip

R = TypeVar("R", bound=Struct)


class ExaminationOptions(Struct, frozen=True):
    """Which machine and which environment is examined, and how deeply."""

    level: str | None = None
    python: str | None = None
    root: str | None = None


class ReportOptions(Struct, frozen=True):
    """Which checks count, and how the report is given."""

    style: str = "text"
    fail_on: str = "error"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    project_select: tuple[str, ...] = ()
    project_ignore: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    report_file: str | None = None
    private: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False


def as_record(record: type[R], given: Given) -> R:
    """What was given as a record, which has a default for all else."""
    return record(**{name: given[name] for name in record.__struct_fields__ if name in given})


def shown(given: Given, project: Settings, required: tuple[Requirement, ...] = ()) -> ReportOptions:
    """How a report is given: as the project's files say, unless the command line says otherwise. `level`, `require`
    and `wait` of those files hold for the running machine alone."""
    wanted = {
        "project_select": () if given.get("select") else project.selected,
        "project_ignore": () if given.get("ignore") else project.rules,
    }
    decided = {
        "fail_on": fail_on(project, given.get("fail_on"), required),
        "plugins": project.with_plugins(given.get("plugins", ())),
    }
    return as_record(ReportOptions, {**wanted, **given, **decided})
