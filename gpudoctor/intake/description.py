"""What a person says of a machine on the command line."""

from __future__ import annotations

from msgspec import Struct


class Description(Struct, frozen=True):
    """What a person gives on the command line; "" and () are left open."""

    gpus: tuple[str, ...] = ()
    driver: str = ""
    kernel: str = ""
    os: str = ""
    """ "ubuntu-22.04"."""
    torch: str = ""
    """ "2.6.0+cu124"; without a local part the package index's own build."""
    python_version: str = ""

    @property
    def empty(self) -> bool:
        return self == Description()
