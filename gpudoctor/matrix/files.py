"""Where the matrix lies: the YAML that people edit, beside the schemas, and the stored form that a wheel has."""

from __future__ import annotations

import os

PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
STORED = os.path.join(PACKAGE, "compat_matrix.msgpack")


def yaml_path() -> str:
    """The matrix that people edit: beside the package in a checkout, inside the package in a wheel."""
    checkout = os.path.join(os.path.dirname(PACKAGE), "compat_matrix.yaml")
    return checkout if os.path.isfile(checkout) else os.path.join(PACKAGE, "compat_matrix.yaml")
