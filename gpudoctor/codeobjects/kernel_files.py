"""Which gfx targets the kernel files of AMD's libraries are for, from their names alone.

rocBLAS and hipBLASLt load kernels from folders beside them (`rocblas/library`, `hipblaslt/library`). MIOpen has
databases by target and number of compute units. Multi-arch builds have one kpack archive for each target.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.codeobjects.amd import gfx_order

_GFX = r"gfx[0-9]{3,4}[a-f]?(?![0-9A-Za-z])"
_INDEX = r"TensileLibrary\w*?_(gfx[0-9a-f]+(?:-[0-9-]*generic)?)\.(?:dat|yaml)"
_KERNELS = (".dat", ".co", ".hsaco", ".yaml")
_MIOPEN = r"gfx(1[0-9]{3}|[0-9]{2}[0-9a-f])[0-9a-f_]*\.\S*db\S*"


def tensile_targets(names: Iterable[str]) -> tuple[str, ...]:
    """Targets of a rocBLAS or hipBLASLt folder: "gfx1030" for TensileLibrary_lazy_gfx1030.dat.

    The index of a target decides, since the library opens it first. Folders of old releases have one index for all
    targets; there the kernel files decide. Helper kernels of hipBLASLt (extop) do not make a target supported.
    """
    names = tuple(names)
    indexed = {match.group(1) for name in names if (match := re.fullmatch(_INDEX, name))}
    if indexed:
        return _sorted(indexed)
    kernels = [name for name in names if name.endswith(_KERNELS) and not name.startswith("extop")]
    return _sorted({target for name in kernels for target in re.findall(_GFX, name)})


def kpack_targets(names: Iterable[str], component: str = "") -> tuple[str, ...]:
    """Targets of kpack archives: "gfx1201" for torch_gfx1201.kpack; `component` is a part of the archive's name."""
    archives = [name for name in names if name.endswith(".kpack") and component in name]
    return _sorted({target for name in archives for target in re.findall(_GFX, name)})


def miopen_targets(names: Iterable[str]) -> tuple[str, ...]:
    """Targets of MIOpen databases: "gfx90a" for gfx90a68.kdb (104 compute units) and "gfx1030" for gfx1030_36.db."""
    return _sorted({"gfx" + match.group(1) for name in names if (match := re.fullmatch(_MIOPEN, name))})


def _sorted(targets: set[str]) -> tuple[str, ...]:
    return tuple(sorted(targets, key=gfx_order))
