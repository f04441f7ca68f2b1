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
    platform: str = ""
    """ "linux/arm64", "x86_64"."""
    container: str = ""
    """ "docker"; "none" for no container."""
    torch: str = ""
    """ "2.6.0+cu124"; without a local part the package index's own build."""
    python_version: str = ""
    packages: tuple[str, ...] = ()
    """ "numpy==2.1.0"."""
    kernel_log: str = ""
    """File with a kernel log; "-" is stdin."""
    errors: tuple[str, ...] = ()
    """Error messages that the person saw."""

    @property
    def label(self) -> str:
        """It in a few words."""
        return ", ".join(filter(None, (*self.gpus, self.driver, self.torch)))

    @property
    def empty(self) -> bool:
        return self == Description()
