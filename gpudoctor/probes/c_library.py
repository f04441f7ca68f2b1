"""The C library that programs of a system load: glibc and its version, or musl."""

from __future__ import annotations

from gpudoctor.host import Host
from gpudoctor.machine import Fact, known, unknown
from gpudoctor.probes.loader_cache import default_folders

GLIBC = "libc.so.6"
_MUSL_LOADER = "/lib/ld-musl-{arch}.so.1"


def read_c_library(host: Host, arch: str | None) -> Fact[str]:
    """ "glibc 2.31" or "musl". glibc comes first: distributions have a package of musl beside it.

    A recording tells it by the symbol versions that its libc.so.6 has.
    """
    said = host.c_library()
    if said.known:
        return said
    from gpudoctor.frameworks.torch.probes.libraries import read_elf  # a running system has answered

    for folder in default_folders(arch):
        path = f"{folder}/{GLIBC}"
        heads = read_elf(host, path)
        if heads is not None and heads.defines_glibc:
            return known(f"glibc {heads.defines_glibc}", path)
    loader = _MUSL_LOADER.format(arch=arch or "x86_64")
    if host.exists(loader):
        return known("musl", loader)
    return unknown(f"neither the versions of a {GLIBC} nor musl's loader could be read", default_folders(arch)[0])
