"""Rules that hold of every plan: it brings nothing, has nothing needless, and no step that undoes another."""

from __future__ import annotations

import pytest

from gpudoctor.machine import Machine
from gpudoctor.step import EnvStep, RunStep
from tests.support.fault_pairs import pairs
from tests.support.faulty_machines import MACHINES
from tests.support.judging import plan_of
from tests.support.plan_rules import outcome

SAMPLE = dict(pairs(every=60))


@pytest.mark.parametrize("slug", MACHINES)
def test_the_plan_for_one_fault_keeps_the_rules(slug: str) -> None:
    assert outcome(MACHINES[slug])[1] == []


@pytest.mark.parametrize("names", SAMPLE, ids=" + ".join)
def test_the_plan_for_two_faults_keeps_the_rules(names: tuple[str, str]) -> None:
    """`python -m tests.planned_pairs` tries them all."""
    assert outcome(SAMPLE[names])[1] == []


@pytest.mark.parametrize("names", SAMPLE, ids=" + ".join)
def test_what_is_foreseen_holds_after_the_last_step_that_a_person_does(names: tuple[str, str]) -> None:
    repair = plan_of(SAMPLE[names])
    number, _, what = repair.predicted.until.removeprefix("step ").partition(": ")
    if what in ("a person", "a reboot", "another container"):
        later = [planned.step for planned in repair.steps[int(number) :]]
        assert all(isinstance(step, RunStep | EnvStep) and step.risk != "reboot" for step in later)


def test_pairs_hold_both_faults() -> None:
    machine: Machine = next(
        machine for names, machine in pairs() if names == ("driver-too-old", "torchvision-mismatch")
    )
    assert machine.nvidia.module.value and machine.nvidia.module.value.version == "570.133.07"
    vision = machine.installed("torchvision")
    assert vision and vision.version == "0.21.0+cu124"
