"""How fast a GPU is, by its vendor's documents."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.machine import Gpu

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import GpuRates, Interconnect, Tables

_WHOLE = 0.85
"""A whole GPU shows at least this share of its memory: ECC takes up to an eighth."""


class RateQuestions:
    """The questions that the tables of rates answer."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def rates_of(self, gpu: Gpu) -> GpuRates | None:
        """The rates of a GPU's product; None if no row has it, and for parts of GPUs (MIG, vGPU ...)."""
        pci_id = gpu.pci_id or gpu.asked.pci_id
        if pci_id is None or gpu.asked.mig:
            return None
        revision = (gpu.revision or "").lower().removeprefix("0x").zfill(2)
        row = self._rates.get(f"{pci_id.lower()}:{revision}") or self._rates.get(pci_id.lower())
        memory = gpu.memory.value or gpu.asked.memory
        if row is None or memory is None or memory < _WHOLE * row.memory_gib * 2**30:
            return None
        return row

    def interconnect_of(self, gpu: str) -> Interconnect | None:
        """How a GPU of this name is linked to the others of its machine; None if no row has it."""
        return next((row for row in self.tables.interconnects if re.fullmatch(row.gpu, gpu)), None)

    @cached_property
    def _rates(self) -> dict[str, GpuRates]:
        return {gpu: row for row in self.tables.gpu_rates for gpu in row.gpus}
