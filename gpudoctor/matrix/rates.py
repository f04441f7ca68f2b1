"""How fast a card is by its vendor's documents."""

from __future__ import annotations

from functools import cached_property

from gpudoctor.machine import Gpu
from gpudoctor.matrix.gpu_models import Cards
from gpudoctor.matrix.rows import CardRates

_WHOLE = 0.85
"""Share of its memory that a whole card shows at least: ECC takes up to an eighth."""


class RateQuestions(Cards):
    """What the table of rates answers."""

    def rates_of(self, gpu: Gpu) -> CardRates | None:
        """The rates of a card's product; None where no row has it, and for parts of cards (MIG, vGPU ...)."""
        pci_id = gpu.pci_id or (gpu.nvml.pci_id if gpu.nvml else None)
        if pci_id is None or (gpu.nvml is not None and gpu.nvml.mig):
            return None
        revision = (gpu.revision or "").lower().removeprefix("0x").zfill(2)
        row = self._rates.get(f"{pci_id.lower()}:{revision}") or self._rates.get(pci_id.lower())
        memory = gpu.memory.value or (gpu.nvml.memory if gpu.nvml else None)
        if row is None or memory is None or memory < _WHOLE * row.memory_gib * 2**30:
            return None
        return row

    @cached_property
    def _rates(self) -> dict[str, CardRates]:
        return {card: row for row in self.tables.card_rates for card in row.cards}
