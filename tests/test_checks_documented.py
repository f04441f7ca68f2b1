"""Every check explains itself, and every finding's severity is the one that was agreed on."""

from __future__ import annotations

import pytest

from gpudoctor.suites import image_checks, machine_checks, pair_checks

SECTIONS = ("## Why it matters", "## How it is judged", "## Fix safety")


@pytest.mark.parametrize("check", [*machine_checks(), *image_checks(), *pair_checks()], ids=lambda check: check.id)
def test_a_check_states_its_fault_and_explains_itself(check):
    assert len(check.title) <= 72, check.title
    positions = [check.explanation.find(section) for section in SECTIONS]
    assert -1 not in positions
    assert positions == sorted(positions)


def test_ids_are_unique_and_go_by_layer():
    ids = [check.id for check in machine_checks()]
    assert len(set(ids)) == len(ids)
    assert all(id[:4] in ("GPD1", "GPD2", "GPD3", "GPD4", "GPD5", "GPD9") and len(id) == 6 for id in ids)


def test_slugs_state_faults_in_kebab_case():
    slugs = [check.slug for check in machine_checks()]
    assert len(set(slugs)) == len(slugs)
    assert all(slug == slug.lower() and " " not in slug and "_" not in slug for slug in slugs)


@pytest.mark.parametrize("check", [*machine_checks(), *image_checks(), *pair_checks()], ids=lambda check: check.id)
def test_a_check_lies_in_the_folder_of_its_layer(check):
    assert check.function.__module__.split(".")[:3] == ["gpudoctor", "checks", check.layer]
