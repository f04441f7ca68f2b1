"""GPU architectures in packages that were compiled against torch: flash-attn, vllm, xformers ..."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from gpudoctor.codeobjects.library import Code, Sample, read_code
from gpudoctor.host import Host
from gpudoctor.machine import ExtensionCode, PythonEnvironment
from gpudoctor.matrix.rows import ExtensionLibrary

_SAMPLE = Sample(containers=2000, bundles=32)
"""All containers of these libraries: some split their kernels by GPU, so that a sample would mislead."""
_MOST_LIBRARIES = 4


def read_extensions(
    host: Host, environment: PythonEnvironment, rows: Iterable[ExtensionLibrary]
) -> tuple[ExtensionCode, ...]:
    """One for each library that a row names, that exists, can be read completely and has GPU code."""
    found = []
    for row in rows:
        distribution = environment.distribution(row.package)
        if distribution is None or not distribution.path:
            continue
        folder = posixpath.join(posixpath.dirname(distribution.path), row.folder)
        names = [name for name in host.names(folder).value or () if re.fullmatch(row.library, name)]
        for name in names[:_MOST_LIBRARIES]:
            path = posixpath.join(folder, name)
            code = _read(host, path)
            if code is not None:
                found.append(
                    ExtensionCode(row.package, distribution.version, path, sass=code.sass, ptx=code.ptx, gfx=code.gfx)
                )
    return tuple(found)


def _read(host: Host, path: str) -> Code | None:
    handle = host.open_binary(path)
    if handle is None:
        return None
    with handle:
        code = read_code(handle.fileno(), sample=_SAMPLE)
    return code if code.reason is None and (code.sass or code.ptx or code.gfx) else None
