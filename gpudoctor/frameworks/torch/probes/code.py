"""Reads from torch's own libraries which GPU architectures they have code for; uses no table.

So a source build, a nightly, a conda or distribution build and a container's own build are judged by what they are.
`libtorch_cuda*.so` counts as built for an architecture that at least half of its containers have. This equals
torch.cuda.get_arch_list() for the releases measured. `libtorch_cuda_linalg.so` is recorded separately. On AMD the
BLAS beside torch must have kernels too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from gpudoctor.codeobjects import Code
from gpudoctor.codeobjects.library import Sample, read_code
from gpudoctor.codeobjects.nvidia import arch_order
from gpudoctor.host import Host
from gpudoctor.machine import CodeArchs, Fact, PythonEnvironment, known, unknown

BUILT_FOR = 0.5
"""A library counts as built for an architecture from this share of its containers on."""
_SAMPLE = Sample(containers=32, bundles=16)
"""Enough files to tell what a library is built for: nearly all are compiled with one list of targets."""

_ROLES = ("cuda", "cuda_cu", "cuda_cpp", "cuda_linalg", "hip")
_DEVICE_PACKAGES = ("amd-torch-device-gfx", "rocm-sdk-device-gfx")
_SYSTEM_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
_MOST_NAMES = 64


def read_torch_code(host: Host, environment: PythonEnvironment, torch_path: str) -> Fact[CodeArchs]:
    """The code of the torch in the folder `torch_path` (".../site-packages/torch"). Unknown, with a reason, if a
    library that decides is missing or cannot be read completely."""
    folder, libraries = _find_libraries(host, environment, torch_path)
    if not libraries:
        listing = host.names(folder)
        return unknown(listing.why if listing.undecided else "no libtorch_cuda or libtorch_hip was found", folder)
    codes: dict[str, list[Code]] = {}
    for path, role in libraries:
        code = _read(host, path)
        if code.reason is not None and role != "cuda_linalg":
            return unknown(f"{posixpath.basename(path)}: {code.reason}", path)
        codes.setdefault("cuda" if role.startswith("cuda_c") else role, []).append(code)
    cuda, hip = _Pool(codes.get("cuda", [])), _Pool(codes.get("hip", []))
    packages = _device_packages(environment)
    packed = any(code.kpack for code in codes.get("hip", ()))
    gfx = _packed_gfx(host, torch_path) if packed else hip.built_for("gfx")
    if packed and not gfx and not packages:
        why = "libtorch_hip keeps its device code in separate packages, and none of them was found"
        return unknown(why, libraries[0][0])
    amd = bool(codes.get("hip"))
    return known(
        CodeArchs(
            sass=cuda.built_for("sm_"),
            ptx=cuda.built_for("compute_"),
            partial=(*cuda.a_few(), *hip.a_few()),
            linalg=tuple(arch for code in codes.get("cuda_linalg", ()) for arch in code.sass),
            gfx=gfx,
            blas_gfx=_kernels(host, environment, torch_path) if amd else None,
            device_packages=packages if amd else (),
        ),
        ", ".join(path for path, _ in libraries),
    )


# --- libraries ---


def _find_libraries(host: Host, environment: PythonEnvironment, torch_path: str) -> tuple[str, list[tuple[str, str]]]:
    """The folder of torch's GPU libraries, and their paths with their roles, each file once. Wheels have them in
    torch/lib; conda and distributions in the prefix or among the system's libraries."""
    wheel = posixpath.join(torch_path, "lib")
    shared = [posixpath.join(environment.prefix, "lib")] if environment.prefix else []
    if torch_path.startswith("/usr/lib") or environment.prefix == "/usr":
        shared += _SYSTEM_FOLDERS
    for folder in (wheel, *shared):
        found: dict[str, tuple[str, str]] = {}
        for name in host.names(folder).value or ():
            stem, _, version = name.partition(".so")
            role = stem.removeprefix("libtorch_")
            if role in _ROLES and name.startswith("libtorch_") and not version.strip(".0123456789"):
                path = posixpath.join(folder, name)
                found.setdefault(host.resolve(path) or path, (path, role))
        if any(role != "cuda_linalg" for _, role in found.values()):
            return folder, list(found.values())[:_MOST_NAMES]
    return wheel, []


def _read(host: Host, path: str) -> Code:
    handle = host.open_binary(path)
    if handle is None:
        return Code(reason="cannot be opened")
    with handle:
        return read_code(handle, sample=_SAMPLE)


class _Pool:
    """Some libraries taken as one: the share of all their containers that has each architecture."""

    def __init__(self, codes: list[Code]) -> None:
        containers = sum(code.containers for code in codes)
        self._share: dict[str, float] = {}
        for code in codes:
            for arch, share in code.share.items():
                self._share[arch] = self._share.get(arch, 0.0) + share * code.containers / containers

    def built_for(self, kind: str) -> tuple[str, ...]:
        return self._sorted(a for a, share in self._share.items() if share >= BUILT_FOR and a.startswith(kind))

    def a_few(self) -> tuple[str, ...]:
        return self._sorted(arch for arch, share in self._share.items() if share < BUILT_FOR)

    def _sorted(self, archs: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(archs, key=_order))


def _order(arch: str) -> tuple[str, int, str]:
    return arch_order(arch) if "_" in arch else ("gfx", len(arch.partition(":")[0]), arch)


# --- kernels and device packages beside torch ---


def _packed_gfx(host: Host, torch_path: str) -> tuple[str, ...]:
    """Targets of the device code that ROCm's wheels keep beside their libraries."""
    from gpudoctor.probes.rocm_wheels import kpack_of

    return kpack_of(host, [torch_path], "torch")


def _kernels(host: Host, environment: PythonEnvironment, torch_path: str) -> tuple[str, ...] | None:
    """Targets that this torch's rocBLAS has kernels for; None if no rocBLAS was found. The wheel's own library comes
    first, then ROCm's wheels beside it, then the environment's and the system's ROCm."""
    from gpudoctor.codeobjects.kernel_files import tensile_targets
    from gpudoctor.probes.rocm_wheels import kpack_of, sdk_folders

    chosen = host.environ.get("ROCBLAS_TENSILE_LIBPATH")
    sdks = sdk_folders(host, posixpath.dirname(torch_path))
    owners = (torch_path, *sdks, *((environment.prefix,) if environment.prefix else ()))
    folders = [posixpath.join(owner, "lib/rocblas/library") for owner in owners]
    if not _bundled(host, torch_path):
        folders += _system_kernels(host)
    for folder in (chosen, *folders) if chosen else folders:
        targets = tensile_targets(host.names(folder).value or ())
        if targets:
            return targets
    return kpack_of(host, sdks, "blas") or None


def _bundled(host: Host, torch_path: str) -> bool:
    """Whether torch brings rocBLAS itself, so that the system's does not count."""
    names = host.names(posixpath.join(torch_path, "lib")).value or ()
    return any(name.startswith("librocblas") for name in names)


def _system_kernels(host: Host) -> list[str]:
    """Folders of the system's ROCm; Debian has one for each version of the library."""
    releases = [name for name in host.names("/opt").value or () if name.startswith("rocm")]
    places = [f"{lib}/rocblas" for lib in (*(f"/opt/{name}/lib" for name in releases), *_SYSTEM_FOLDERS)]
    versions = [f"{place}/{name}" for place in places for name in host.names(place).value or () if name[:1].isdigit()]
    return [f"{place}/library" for place in (*places, *versions)][:_MOST_NAMES]


def _device_packages(environment: PythonEnvironment) -> tuple[str, ...]:
    distributions = environment.packages
    return tuple(sorted({d.name for d in distributions if d.name.startswith(_DEVICE_PACKAGES)}))
