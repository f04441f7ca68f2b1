"""gpudoctor: why a GPU does not work with PyTorch, and the exact repair."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__version__ = "0.1.0"


class _Checkout:
    """In a checkout `checks/` lies beside this package; in a wheel it lies inside it."""

    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """How Python finds `gpudoctor.checks` here; nothing else of the root is importable through this package."""
        if name != "gpudoctor.checks":
            return None
        from importlib.util import spec_from_file_location

        folder = os.path.join(cls.root, "checks")
        return spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


if os.path.isfile(os.path.join(_Checkout.root, "compat_matrix.yaml")):
    sys.meta_path.append(_Checkout)
