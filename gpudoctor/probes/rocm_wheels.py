"""ROCm's own wheels in an environment (_rocm_sdk_core, _rocm_sdk_libraries), and the kernels that they have."""

from __future__ import annotations

import posixpath

from gpudoctor.host import Host

_MOST_FOLDERS = 64


def sdk_folders(host: Host, site: str) -> list[str]:
    """_rocm_sdk_core, _rocm_sdk_libraries, _rocm_sdk_libraries_gfx110X_all ... in a folder of packages."""
    names = host.names(site).value or ()
    return [posixpath.join(site, name) for name in names if name.startswith("_rocm_sdk_")][:_MOST_FOLDERS]


def kpack_of(host: Host, folders: list[str], component: str) -> tuple[str, ...]:
    """Targets of the kpack archives in `.kpack` below some folders."""
    names = _archives(host, folders)
    if not names:
        return ()
    from gpudoctor.codeobjects.kernel_files import kpack_targets

    return kpack_targets(names, component)


def rocblas_of_wheels(host: Host, site: str) -> tuple[str, ...] | None:
    """Targets that the rocBLAS of these wheels has kernels for; None: they have no rocBLAS, or the archive of a whole
    family of GPUs does not tell."""
    folders = sdk_folders(host, site)
    there = (name for folder in folders for name in host.names(posixpath.join(folder, "lib")).value or ())
    if not any(name.startswith("librocblas.so") for name in there):
        return None
    from gpudoctor.codeobjects.kernel_files import tensile_targets

    kernels = (host.names(posixpath.join(folder, "lib", "rocblas", "library")).value or () for folder in folders)
    targets = {target for names in kernels for target in tensile_targets(names)}
    targets.update(packed := kpack_of(host, folders, "blas"))
    if len(packed) < len({name for name in _archives(host, folders) if "blas" in name}):
        return None
    return tuple(sorted(targets))


def _archives(host: Host, folders: list[str]) -> list[str]:
    found = (host.names(posixpath.join(folder, ".kpack")).value or () for folder in folders)
    return [name for names in found for name in names if name.endswith(".kpack")]
