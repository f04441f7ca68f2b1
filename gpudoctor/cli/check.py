"""`gpudoctor check` and `gpudoctor snapshot`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from gpudoctor.cli.options import given_variables, machine_options, matrix_option, report_options

if TYPE_CHECKING:
    from gpudoctor.doctor import Survey
    from gpudoctor.host import Host
    from gpudoctor.judge import FailOn
    from gpudoctor.machine import Level
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.report import Report, Subject


@click.command()
@machine_options
@click.option(
    "--from",
    "snapshot_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Judge the machine of a snapshot (or of a JSON report) instead of probing one.",
)
@matrix_option
@report_options
def check(
    level: str | None,
    python: str | None,
    root: Path | None,
    variables: tuple[str, ...],
    snapshot_file: Path | None,
    overlays: tuple[Path, ...],
    style: str,
    fail_on: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    report_file: Path | None,
    private: bool,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> int:
    """Say what is wrong with this machine and this Python environment, first cause first."""
    from gpudoctor.doctor import ignore_rules
    from gpudoctor.judge import judge
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.report import make_report

    matrix = load_matrix(overlays)
    survey, subject = _examined(level, python, root, variables, snapshot_file, matrix)
    judgement = judge(
        survey.machine, matrix, select=select, ignore=ignore_rules(ignore), open_questions=survey.open_questions
    )
    report = make_report(
        survey.machine,
        matrix,
        judgement,
        subject=subject,
        fail_on=cast("FailOn", fail_on),
        timings_ms=survey.timings_ms,
    )
    if style == "json":
        from gpudoctor.render.public import report_data, to_json

        text = to_json(report_data(report, private=private))
        sys.stdout.write(text)
        _write_report_file(report_file, text)
        return report.exit_code
    _print_text(report, report_file, verbose=verbose, quiet=quiet, color=not (no_color or os.environ.get("NO_COLOR")))
    return report.exit_code


@click.command()
@machine_options
@click.option("--private", is_flag=True, help="Keep home folders, user names, serial numbers and UUIDs.")
def snapshot(
    level: str | None, python: str | None, root: Path | None, variables: tuple[str, ...], private: bool
) -> int:
    """Print this machine as one JSON document; `check --from FILE` reads it back."""
    from gpudoctor.intake.snapshot import Snapshot
    from gpudoctor.matrix.load import load_matrix
    from gpudoctor.render.public import machine_data, to_json

    survey, _ = _examined(level, python, root, variables, None, load_matrix(()))
    head = Snapshot(machine=survey.machine)
    data = {
        "schema": head.schema,
        "gpudoctor": head.gpudoctor,
        "machine": machine_data(survey.machine, private=private),
    }
    sys.stdout.write(to_json(data))
    return 0


def _examined(
    level: str | None,
    python: str | None,
    root: Path | None,
    variables: tuple[str, ...],
    snapshot_file: Path | None,
    matrix: Matrix,
) -> tuple[Survey, Subject]:
    """Probe the machine, the root, or read the snapshot."""
    from gpudoctor.doctor import Survey, survey
    from gpudoctor.report import Subject

    environ = given_variables(variables)
    if snapshot_file is not None:
        from gpudoctor.intake.snapshot import read_snapshot

        if root is not None or python is not None or level is not None or environ:
            raise click.UsageError(
                "--from reads a machine as it was recorded; --root, --python, --level and --env do not go with it"
            )
        return Survey(read_snapshot(snapshot_file), (), {}), Subject(kind="snapshot", label=str(snapshot_file))
    host = _host(root, environ)
    found = survey(host, matrix, python=python, level=cast("Level | None", level))
    kind = Subject(kind="machine", label="this machine") if root is None else Subject(kind="root", label=str(root))
    return found, kind


def _host(root: Path | None, environ: dict[str, str]) -> Host:
    from gpudoctor.host import LiveHost, RecordedHost

    return LiveHost(environ) if root is None else RecordedHost(root, environ)


def _write_report_file(path: Path | None, text: str) -> None:
    from gpudoctor.host import InputError

    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"--report-file {path}: cannot be written: {(error.strerror or str(error)).lower()}"
        ) from None


def _print_text(report: Report, report_file: Path | None, *, verbose: bool, quiet: bool, color: bool) -> None:
    import io

    from gpudoctor.render.text import print_report

    print_report(report, sys.stdout, verbose=verbose, quiet=quiet, color=color)
    if report_file is not None:
        copy = io.StringIO()
        print_report(report, copy, verbose=verbose)
        _write_report_file(report_file, copy.getvalue())
