"""`gpudoctor check`: say what is wrong with a machine and its environment, first cause first."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gpudoctor.command_line.arguments import ExaminationOptions, as_record, shown
from gpudoctor.command_line.interrupted_fixes import tell_if_cut_off
from gpudoctor.command_line.machine_source import Sources, examine, with_description, with_questions_of_fixes
from gpudoctor.command_line.option_parser import Given, words
from gpudoctor.command_line.options import REQUIRE, WHERE, named_values
from gpudoctor.command_line.project_settings import Settings, project_settings, requirements
from gpudoctor.command_line.reporting import judgement_of, present
from gpudoctor.intake.description import Description
from gpudoctor.matrix.load import load_matrix
from gpudoctor.survey import Survey


def check(given: Given, environ: Mapping[str, str] = os.environ) -> int:
    """Judge the machine that was asked for and print the report; its exit code. Raises InputError."""
    sources = Sources(
        as_record(ExaminationOptions, given),
        named_values(given.get("variables", ())),
        given.get("snapshot_file"),
        as_record(Description, given),
        given.get("overlays", ()),
        given.get("require", ()),
    )
    project = project_settings()
    needs = requirements(project if sources.is_this_machine else Settings(), sources.require, environ)
    how = shown(given, project, needs)
    matrix = load_matrix(sources.overlays)
    survey, subject = examine(sources, matrix, how)
    survey = with_description(
        survey, sources.description, matrix, lambda machine: judgement_of(machine, matrix, how, needs, foresee=False)
    )

    def complete(survey: Survey) -> Survey:
        return with_questions_of_fixes(survey, sources, matrix)

    if sources.snapshot is None and (sources.examined.root is None or sources.examined.python is not None):
        tell_if_cut_off(survey.machine)
    again, require = words(WHERE, given), words((REQUIRE,), given)
    return present(survey, subject, matrix, how, required=needs, again=again, require=require, complete=complete)
