"""Starts one gpudoctor on every node: a launcher for each engine, none of them knows what a report says."""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from gpudoctor.fleet.engines.order import Answer, Order

ENGINES = ("slurm", "ray", "torchrun", "mpi", "ssh", "kubernetes", "stdin")


class Engine(Protocol):
    """What the module of an engine defines. All raise InputError for what a person has to change."""

    OWN_PYTHON: bool
    """Whether the nodes are expected to have this gpudoctor at the same path."""

    def preview(self, order: Order) -> str:
        """What `run` would start, as a person would type it."""

    def run(self, order: Order) -> tuple[Answer, ...] | None:
        """Start it, and wait for the answers until `order.deadline`. None: another process prints the report."""


def engine_of(name: str) -> Engine:
    """The engine of that name."""
    return cast("Engine", importlib.import_module(f"gpudoctor.fleet.engines.{name}"))
