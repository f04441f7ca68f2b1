"""Build hook: puts the stored form of the matrix beside the YAML, so that an installed gpudoctor starts quickly.

A matrix that is not valid fails the build, with file, line and row.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MatrixHook(BuildHookInterface[Any]):
    """Writes gpudoctor/compat_matrix.msgpack into wheels, and into the checkout for editable installs."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before a wheel ("standard" or "editable") is put together."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        try:
            from gpudoctor.matrix.load import to_stored
        finally:
            sys.path.remove(str(root))
        made = root / "gpudoctor" / "compat_matrix.msgpack"
        made.write_bytes(to_stored(str(root / "compat_matrix.yaml")))
        if version != "editable":
            build_data["force_include"][str(made)] = "gpudoctor/compat_matrix.msgpack"
