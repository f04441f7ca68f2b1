"""Loads the matrix: the stored form of an installed gpudoctor, the YAML of a checkout, overlays of a site.

The stored form is made from the YAML and validated when the wheel is built (hatch_build.py).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from gpudoctor.matrix.files import PACKAGE, STORED, yaml_path
from gpudoctor.matrix.stored import Stored, opened, stored_form

if TYPE_CHECKING:
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Tables


def load_matrix(overlays: Sequence[str] = ()) -> Matrix:
    """The matrix of this installation. Rows of the overlay files are added, or replace rows with the same key. Raises
    MatrixError."""
    if not overlays:
        return _own_matrix()
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.source import overlaid, read_source

    tables = _own_tables()
    for path in overlays:
        tables = overlaid(tables, read_source(path))
    return Matrix(tables)


def matrix_version() -> str:
    """The version of the matrix of this installation."""
    return _needed_tables().version


def validate_matrix(files: Sequence[str] = ()) -> Tables:
    """Check every row of the YAML and then of the given files: overlays, or whole matrices (with a `version`).
    Returns the resulting tables. Raises MatrixError for the first wrong row, and says how many more there are."""
    from gpudoctor.matrix.source import load_yaml, overlaid, read_source

    tables = load_yaml(yaml_path())
    for path in files:
        source = read_source(path)
        tables = load_yaml(path) if "version" in source.tables else overlaid(tables, source)
    return tables


def to_stored(path: str) -> bytes:
    """The stored form of a YAML matrix, for a wheel."""
    from gpudoctor.matrix.source import load_yaml

    return stored_form(load_yaml(path), _hash(_content(path)))


@cache
def _own_matrix() -> Matrix:
    """One for all who ask: it keeps the indexes of its tables."""
    from gpudoctor.matrix.questions import Matrix

    return Matrix(_needed_tables())


@cache
def _needed_tables() -> Tables:
    """A wheel's tables one by one on first use; all tables if the YAML may have been edited."""
    stored = _stored() if os.path.dirname(yaml_path()) == PACKAGE else None
    return _own_tables() if stored is None else opened(stored, _own_tables)


@cache
def _own_tables() -> Tables:
    path, stored = yaml_path(), _stored()
    # In a checkout the YAML may have been edited since the stored form was made.
    if stored is not None and (os.path.dirname(path) == PACKAGE or stored.sha256 == _hash(_content(path))):
        with suppress(ValueError):
            return stored.tables()
    from gpudoctor.matrix.source import load_yaml

    return load_yaml(path)


def _stored() -> Stored | None:
    try:
        return Stored(STORED)
    except (OSError, ValueError):
        return None


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _hash(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()
