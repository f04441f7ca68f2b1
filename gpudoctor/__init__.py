"""gpudoctor: why a GPU does not work with PyTorch, and the exact repair."""

import os
import sys

TYPE_CHECKING = False  # not from typing: a typing.py on PYTHONPATH would be imported here, before it is put behind
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

    from gpudoctor.api import diagnose
    from gpudoctor.host import InputError
    from gpudoctor.report import Report

__version__ = "0.1.0"
__all__ = ["InputError", "Report", "__version__", "diagnose"]

_PLACES = {"InputError": "gpudoctor.host", "Report": "gpudoctor.report", "diagnose": "gpudoctor.api"}


def __getattr__(name: str) -> object:
    """The documented names are imported when they are used: whoever only starts gpudoctor does not wait for them."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


class _Checkout:
    """In a checkout `checks/` lies beside this package; in a wheel it lies inside it."""

    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> "ModuleSpec | None":
        """How Python finds `gpudoctor.checks` here; nothing else of the root is importable through this package."""
        if name != "gpudoctor.checks":
            return None
        from importlib.util import spec_from_file_location

        folder = os.path.join(cls.root, "checks")
        return spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


if os.path.isfile(os.path.join(_Checkout.root, "compat_matrix.yaml")):
    sys.meta_path.append(_Checkout)
