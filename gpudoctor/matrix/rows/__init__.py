"""One record per kind of row in `compat_matrix.yaml`.

Every row has `source` and `checked`; a table's head may give them once for all its rows. Versions are texts. A field
that is None or empty means "unknown" unless its comment says otherwise. Annotations are no strings in these modules:
the decoder would compile each of these three hundred at every start.

All kinds can be imported from here, which imports all of them; a table that is read needs its own kind only.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.matrix.rows.tables import *  # noqa: F403


def __getattr__(name: str) -> object:
    from importlib import import_module

    return getattr(import_module("gpudoctor.matrix.rows.tables"), name)
