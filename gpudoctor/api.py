"""`gpudoctor.diagnose`: what `gpudoctor check` finds, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, get_args

if TYPE_CHECKING:
    from gpudoctor.command_line.arguments import ReportOptions
    from gpudoctor.command_line.machine_source import Sources
    from gpudoctor.engine import Judgement
    from gpudoctor.exit_codes import FailOn
    from gpudoctor.machine import Level, Machine
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.report import Report
    from gpudoctor.requirement import Requirement

Path = str | PathLike[str]


def diagnose(
    *,
    level: Level | None = None,
    python: Path | None = None,
    root: Path | None = None,
    env: Mapping[str, str] | None = None,
    snapshot: Path | None = None,
    gpu: str | Iterable[str] = (),
    driver: str = "",
    kernel: str = "",
    os: str = "",
    platform: str = "",
    container: str = "",
    torch: str = "",
    python_version: str = "",
    package: str | Iterable[str] = (),
    kernel_log: Path = "",
    error: str | Iterable[str] = (),
    require: str | Iterable[str] = (),
    select: str | Iterable[str] = (),
    ignore: str | Iterable[str] | Mapping[str, str] = (),
    matrix: Path | Iterable[Path] = (),
    plugin: str | Iterable[str] = (),
    fail_on: FailOn = "error",
) -> Report:
    """Say what is wrong with a machine and its Python environment, as `gpudoctor check` does.

    The arguments are the options of `check` (`snapshot` is `--from`); `ignore` may map ids and slugs to reasons.
    No variable GPUDOCTOR_* and no file of a project is read. Nothing is printed. Raises gpudoctor.InputError for what
    cannot be used.
    """
    from gpudoctor.command_line.arguments import ExaminationOptions, ReportOptions
    from gpudoctor.command_line.machine_source import Sources
    from gpudoctor.exit_codes import FailOn
    from gpudoctor.intake.description import Description
    from gpudoctor.machine import Level
    from gpudoctor.matrix.load import load_matrix

    _choose("level", level, (None, *get_args(Level)))
    _choose("fail_on", fail_on, get_args(FailOn))
    examined = ExaminationOptions(level, _path(python), _path(root))
    description = Description(
        gpus=_several(gpu),
        driver=driver,
        kernel=kernel,
        os=os,
        platform=platform,
        container=container,
        torch=torch,
        python_version=python_version,
        packages=_several(package),
        kernel_log=fspath(kernel_log),
        errors=_several(error),
    )
    sources = Sources(examined, dict(env or {}), None if snapshot is None else fspath(snapshot), description)
    rules = [f"{name}={why}" for name, why in ignore.items()] if isinstance(ignore, Mapping) else _several(ignore)
    shown = ReportOptions(
        style="json", fail_on=fail_on, select=_several(select), ignore=tuple(rules), plugins=_several(plugin)
    )
    return _report(sources, shown, _requirements(_several(require)), load_matrix(_several(matrix)))


def _report(sources: Sources, shown: ReportOptions, required: tuple[Requirement, ...], rows: Matrix) -> Report:
    from gpudoctor.command_line.machine_source import examine_quietly, with_description, with_questions_of_fixes
    from gpudoctor.command_line.reporting import judgement_of, report_of

    def judge(machine: Machine) -> Judgement:
        return judgement_of(machine, rows, shown, required, foresee=False)

    survey, subject = examine_quietly(sources, rows)
    survey = with_description(survey, sources.description, rows, judge)
    report, _ = report_of(
        survey, subject, rows, shown, required, lambda survey: with_questions_of_fixes(survey, sources, rows)
    )
    return report


def _several(value: Path | Iterable[Path]) -> tuple[str, ...]:
    """One or several; a text is one."""
    paths = (value,) if isinstance(value, (str, PathLike)) else tuple(value)
    return tuple(fspath(path) for path in paths)


def _path(path: Path | None) -> str | None:
    return None if path is None else fspath(path)


def _choose(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    from gpudoctor.host import InputError

    if value not in choices:
        raise InputError(f"{name}={value!r}: choose from {', '.join(filter(None, choices))}")


def _requirements(texts: tuple[str, ...]) -> tuple[Requirement, ...]:
    from gpudoctor.command_line.project_settings import Settings, requirements

    return requirements(Settings(), texts, {})
