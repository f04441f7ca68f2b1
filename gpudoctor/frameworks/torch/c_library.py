"""Compares a machine's C library with the one that torch's wheels need."""

from __future__ import annotations

from gpudoctor.machine import Torch
from gpudoctor.situation import Situation
from gpudoctor.situation.c_library import c_library, too_old_for


def asked_glibc(situation: Situation, torch: Torch) -> str | None:
    """The glibc that a torch needs, read from its libraries, else known of its build; None: none, or unknown."""
    if not torch.needs_glibc.undecided:
        return torch.needs_glibc.value
    row = situation.build_of(torch)
    return situation.matrix.torch.glibc_of(row) if row else None


def cannot_load(situation: Situation, torch: Torch) -> bool:
    """Whether a torch needs a newer glibc than the system has. Nix brings its own."""
    asked = asked_glibc(situation, torch)
    if asked is None or not too_old_for(c_library(situation), asked):
        return False
    from gpudoctor.frameworks.torch.other_origins import place_of  # a healthy machine does not ask

    return place_of(situation.machine, torch) != "nix"
