"""The C library that a system's programs load: glibc and its version, or musl."""

from __future__ import annotations

from gpudoctor.host import Host
from gpudoctor.machine import Fact, known, unknown
from gpudoctor.probes.loader_cache import default_folders

GLIBC = "libc.so.6"
_MUSL_LOADER = "/lib/ld-musl-{arch}.so.1"


def read_c_library(host: Host, arch: str | None) -> Fact[str]:
    """ "glibc 2.31" or "musl". glibc comes first: distributions also have a package of musl. In a recording the
    symbol versions of its libc.so.6 tell."""
    answer = host.c_library()
    if answer.known:
        return answer
    from gpudoctor.frameworks.torch.probes.libraries import read_elf  # a running system has answered by now

    for folder in default_folders(arch):
        path = f"{folder}/{GLIBC}"
        heads = read_elf(host, path)
        if heads is not None and heads.defines_glibc:
            return known(f"glibc {heads.defines_glibc}", path)
    loader = _MUSL_LOADER.format(arch=arch or "x86_64")
    if host.exists(loader):
        return known("musl", loader)
    return unknown(f"neither the versions of a {GLIBC} nor musl's loader could be read", default_folders(arch)[0])
