"""Records that say the same in another form: those of a contract beside those that gpudoctor works with."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Struct)


def view_as(kind: type[S], record: object, **others: Any) -> S:
    """A record of that kind: what `record` has under the same names, and the others."""
    same = (name for name in kind.__struct_fields__ if name not in others and hasattr(record, name))
    return kind(**{name: getattr(record, name) for name in same}, **others)
