"""What every row of the matrix has."""

from typing import Literal

from msgspec import Struct

Standing = Literal["supported", "tested", "built", "none"]
"""How far a vendor supports something: documented as supported, tested, merely built."""


Basis = Literal["measured", "documented", "derived", "unknown"]
"""Where an architecture list comes from; measured (read from the wheel) is better than documented."""


class Row(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of every row."""

    source: str = ""
    checked: str = ""
    note: str = ""

    @property
    def refs(self) -> tuple[str, ...]:
        """Its sources, each by itself."""
        return tuple(ref.strip() for ref in self.source.split(";") if ref.strip())
