"""Whether the amdsmi package fits the libamd_smi.so that it opens; torch for ROCm imports it if it is installed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from gpudoctor.codeobjects.symbols import provided_symbols
from gpudoctor.host import Host
from gpudoctor.machine import MissingSymbols
from gpudoctor.probes.elf_files import ask_elf
from gpudoctor.probes.import_path import ImportPath
from gpudoctor.probes.load_path import search

LIBRARY = "libamd_smi.so"
_MOST_SOURCE = 4 << 20
_MOST_NAMED = 3


def amdsmi_misfit(host: Host, path: ImportPath, torch: str, environ: Mapping[str, str]) -> tuple[MissingSymbols, ...]:
    """The functions that amdsmi looks up when it is imported and that its library does not have. torch catches an
    ImportError there, and this is an AttributeError."""
    folder = next((folder.path for folder in path.folders if "amdsmi" in folder.names), None)
    wrapper = posixpath.join(folder, "amdsmi/amdsmi_wrapper.py") if folder else ""
    source = host.text(wrapper, _MOST_SOURCE).value if wrapper else None
    cuda = host.text(posixpath.join(torch, "cuda/__init__.py"), _MOST_SOURCE).value or "" if source else ""
    if source is None or "import amdsmi" not in cuda:
        return ()
    library = next(_candidates(host, posixpath.dirname(wrapper), torch, environ), None)
    symbols = ask_elf(host, library, provided_symbols) if library else None
    if library is None or not symbols:
        return ()
    lacking = set(re.findall(r"(?m)^\w+ = _libraries\['libamd_smi\.so'\]\.(amdsmi_\w+)", source)) - symbols
    if not lacking:
        return ()
    named = tuple(sorted(lacking)[:_MOST_NAMED])
    return (MissingSymbols(library=LIBRARY, path=library, needed_by=wrapper, symbols=named),)


def _candidates(host: Host, package: str, torch: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Where the library is looked for, in this order (amdsmi_wrapper.py, and the hook of torch/cuda/__init__.py): one
    that is loaded already comes before the loader's own search."""
    rocm = environ.get("ROCM_HOME", environ.get("ROCM_PATH"))
    places = [posixpath.join(rocm, "lib", LIBRARY)] if rocm else []
    places.append(posixpath.join(torch, "lib", LIBRARY))
    yield from (place for place in places if host.exists(place))
    yield from (library.path for library in search(host, (LIBRARY,), environ, shadowed=False).found)
    places = [posixpath.join(package, LIBRARY), posixpath.join(environ.get("ROCM_PATH", "/opt/rocm"), "lib", LIBRARY)]
    yield from (place for place in places if host.exists(place))
