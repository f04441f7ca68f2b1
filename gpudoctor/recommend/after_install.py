"""The machine after a build is installed, and what is known of that build there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from gpudoctor.finding import AnyRemedy
from gpudoctor.frameworks.torch.builds import Choice
from gpudoctor.frameworks.torch.coverage import without_overrides
from gpudoctor.frameworks.torch.nearest_build import replace_torch
from gpudoctor.planner.effects import effect
from gpudoctor.situation import Situation
from gpudoctor.situation.issue_findings import remarks_on_torch

_MOST = 12
"""Builds that are looked at for one without a known issue."""


def once_installed(situation: Situation, remedies: tuple[AnyRemedy, ...]) -> Situation:
    """The situation once a build is installed."""
    for remedy in remedies:
        situation = situation.on(effect(remedy, situation).machine)
    return situation


def without_its_issues(situation: Situation, best: Choice, others: Iterable[Choice]) -> Iterator[Choice]:
    """The newest build of the same kind that has fewer known issues than the best one: one with a CUDA or ROCm that
    their texts name, else any other."""
    known = _issues(situation, best)
    if not known:
        return
    newest: dict[str | None, Choice] = {}
    for one in others:
        if one.origin == best.origin and one.level == best.level and one.build != best.build:
            newest.setdefault(one.build, one)
    texts = " ".join(known.values())
    ordered = sorted(newest.values(), key=lambda one: not re.search(rf"\b{one.rocm or one.cuda}(?![.\d]*\d)", texts))
    spared = (one for one in ordered[:_MOST] if len(_issues(situation, one)) < len(known))
    yield from islice(spared, 1)


def _issues(situation: Situation, choice: Choice) -> dict[str, str]:
    """The known issues that a build has here, with their texts."""
    before = without_overrides(situation) if choice.rocm else situation
    changed = once_installed(before, replace_torch(situation, choice, ()))
    return {found.subject: found.message for found in remarks_on_torch(changed)}
