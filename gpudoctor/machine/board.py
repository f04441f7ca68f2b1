"""The board of a GPU: its firmware, its links, its power."""

from __future__ import annotations

from gpudoctor.machine.facts import Record


class Board(Record, frozen=True):
    """What a GPU's board runs and how it is connected, as the driver states it; "" and None: it does not."""

    vbios: str = ""
    inforom: str = ""
    gsp_firmware: str = ""
    pcie_generation: int | None = None
    """Of the link now: an idle GPU lowers it."""
    pcie_generation_max: int | None = None
    """What the GPU and the slot can do together."""
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    power_limit: int | None = None
    """The one in force, in watts."""
    power_limit_default: int | None = None
    throttled: tuple[str, ...] | None = None
    """Why it runs slower than it could at this moment: power-cap, thermal, hardware-thermal, power-brake ...; None
    where that is not known."""
    persistence: bool | None = None
    """Whether the driver stays initialised while no program uses the GPU."""
    links: int | None = None
    """How many NVLink or xGMI links it has."""
    links_up: int | None = None
