"""Which Python the programs `pip` and `pip3` of an environment start: their first line names it."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gpudoctor.host import Host
from gpudoctor.probes.python_layout import Layout

_SHEBANG = r"""#!\s*(/\S+/python[\w.]*)|#!/bin/sh\n'''exec' "?(/[^"\n]+/python[\w.]*)"""
"""The line that names the interpreter; the second form is for long paths, and those with spaces."""


def pips_of_others(host: Host, layout: Layout) -> Iterator[tuple[str, str]]:
    """(program, Python that it starts) where that is in another folder, there or not. Programs that can be moved
    name no folder, and a link to the environment is no other one."""
    for name in ("pip", "pip3"):
        program = posixpath.join(layout.prefix, "bin", name)
        named = re.match(_SHEBANG, host.text(program, 1 << 10).value or "")
        if named is not None:
            python = named[1] or named[2]
            prefix = posixpath.dirname(posixpath.dirname(python))
            if (host.resolve(prefix) or prefix) != (host.resolve(layout.prefix) or layout.prefix):
                yield program, python
