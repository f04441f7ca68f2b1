"""Which GPUs the torch in an environment carries code for, read from made-up libraries in real folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.frameworks.torch.probes.code import read_torch_code
from gpudoctor.host import Host, LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import CodeArchs, Distribution, Fact, PythonEnvironment, known
from tests.support.codeobject_files import bundle, container, cuda_library, elf, hip_library, packed, wrappers

SITE = "venv/lib/python3.12/site-packages"


class Place:
    """An environment below a folder, with or without a root of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.torch = root / SITE / "torch"
        self.write("torch/lib/libtorch_cpu.so", elf([(".text", b"x")]))

    def write(self, path: str, content: bytes = b"") -> None:
        place = self.root / SITE / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)

    def read(self, host: Host | None = None, packages: tuple[str, ...] = (), prefix: str = "venv") -> Fact[CodeArchs]:
        above = "" if isinstance(host, RecordedHost) else str(self.root)
        environment = PythonEnvironment(
            prefix=f"{above}/{prefix}",
            distributions=known(tuple(Distribution(name=name, version="1") for name in packages), "site-packages"),
        )
        return read_torch_code(host or LiveHost(), environment, f"{above}/{SITE}/torch")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def units(count: int, *archs: str) -> list[bytes]:
    return [container(*archs) for _ in range(count)]


def test_half_of_the_containers_decide(place: Place) -> None:
    content = cuda_library(
        *units(5, "sm_80", "sm_90", "compute_90"), *units(5, "sm_80", "sm_90a"), *units(1, "sm_80")
    )
    place.write("torch/lib/libtorch_cuda.so", content)
    archs = place.read().value
    assert archs is not None
    assert archs.sass == ("sm_80",)
    assert archs.ptx == ()
    assert archs.partial == ("compute_90", "sm_90", "sm_90a")
    place.write("torch/lib/libtorch_cuda.so", cuda_library(*units(5, "sm_80", "compute_90"), *units(5, "sm_80")))
    archs = place.read().value
    assert archs is not None
    assert (archs.sass, archs.ptx, archs.partial) == (("sm_80",), ("compute_90",), ())


def test_split_libraries_count_together_and_linalg_apart(place: Place) -> None:
    place.write("torch/lib/libtorch_cuda_cu.so", cuda_library(*units(8, "sm_70", "sm_80")))
    place.write("torch/lib/libtorch_cuda_cpp.so", cuda_library(*units(4, "sm_35", "sm_70", "sm_80")))
    place.write("torch/lib/libtorch_cuda_linalg.so", cuda_library(*units(3, "sm_80", "sm_90", "compute_90")))
    archs = place.read().value
    assert archs is not None
    assert (archs.sass, archs.partial) == (("sm_70", "sm_80"), ("sm_35",))
    assert archs.linalg == ("sm_80", "sm_90")
    assert archs.blas_gfx is None


def test_conda_has_its_libraries_in_the_prefix(place: Place) -> None:
    library = place.root / "venv/lib/libtorch_cuda.so"
    library.write_bytes(cuda_library(*units(2, "sm_89", "compute_120")))
    found = place.read()
    assert found.value is not None
    assert (found.value.sass, found.value.ptx) == (("sm_89",), ("compute_120",))
    assert str(library) in found.source


def test_links_of_one_file_count_once(place: Place) -> None:
    library = place.root / "venv/lib/libtorch_cuda.so.2.9"
    library.write_bytes(cuda_library(*units(2, "sm_89")))
    for name in ("libtorch_cuda.so", "libtorch_cuda.so.2"):
        (place.torch / "lib" / name).symlink_to("../../../../../lib/libtorch_cuda.so.2.9")
    found = place.read()
    assert found.value is not None
    assert found.value.sass == ("sm_89",)
    assert found.source.count("libtorch_cuda") == 1


def test_a_recorded_root_is_read_within_itself(place: Place) -> None:
    place.write("torch/lib/libtorch_cuda.so", cuda_library(*units(1, "sm_90")))
    found = place.read(RecordedHost(place.root))
    assert found.value is not None
    assert found.value.sass == ("sm_90",)
    assert found.source == f"/{SITE}/torch/lib/libtorch_cuda.so"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "an empty file"),
        (b"made up for a test", "not an ELF file"),
        (cuda_library(*units(9, "sm_80"))[:900], "truncated"),
        (cuda_library(container("sm_80"), b"\xff" * 64), "malformed"),
        (elf([(".text", b"x"), (".nvFatBinSegment", wrappers(9))]), "outside .nv_fatbin"),
    ],
    ids=["empty", "text", "cut", "damaged", "emptied"],
)
def test_a_library_that_cannot_be_read_to_its_end_is_unknown(place: Place, content: bytes, why: str) -> None:
    place.write("torch/lib/libtorch_cuda.so", content)
    found = place.read()
    assert found.state == "unknown"
    assert "libtorch_cuda.so: " in found.why
    assert why in found.why


def test_no_gpu_library_is_unknown(place: Place) -> None:
    assert place.read().state == "unknown"
    assert "no libtorch_cuda or libtorch_hip" in place.read().why


def test_a_damaged_linalg_costs_only_itself(place: Place) -> None:
    place.write("torch/lib/libtorch_cuda.so", cuda_library(*units(1, "sm_90")))
    place.write("torch/lib/libtorch_cuda_linalg.so", b"nothing")
    found = place.read()
    assert found.value is not None
    assert (found.value.sass, found.value.linalg) == (("sm_90",), ())


# --- AMD ---


def test_rocm_wheel_with_its_blas(place: Place) -> None:
    bundles = [packed(bundle("gfx90a", "gfx942", "gfx1030", "gfx1100")) for _ in range(30)]
    place.write("torch/lib/libtorch_hip.so", hip_library(*bundles, packed(bundle("gfx942"))))
    place.write("torch/lib/librocblas.so", b"")
    for target in ("gfx90a", "gfx1030"):
        place.write(f"torch/lib/rocblas/library/TensileLibrary_lazy_{target}.dat")
    archs = place.read().value
    assert archs is not None
    assert archs.gfx == ("gfx90a", "gfx942", "gfx1030", "gfx1100")
    assert archs.blas_gfx == ("gfx90a", "gfx1030")
    assert (archs.sass, archs.device_packages) == ((), ())


def test_a_gfx_that_few_bundles_carry_is_partial(place: Place) -> None:
    bundles = [bundle("gfx1030") for _ in range(3)] + [bundle("gfx1030", "gfx950")]
    place.write("torch/lib/libtorch_hip.so", hip_library(*bundles))
    archs = place.read().value
    assert archs is not None
    assert (archs.gfx, archs.partial) == (("gfx1030",), ("gfx950",))


def test_blas_of_rocm_wheels_beside_torch(place: Place) -> None:
    place.write("torch/lib/libtorch_hip.so", hip_library(bundle("gfx1201")))
    place.write("_rocm_sdk_libraries_gfx120X_all/lib/rocblas/library/TensileLibrary_lazy_gfx1201.dat")
    archs = place.read().value
    assert archs is not None
    assert archs.blas_gfx == ("gfx1201",)


@pytest.mark.parametrize(
    "folder", ["opt/rocm-6.4.1/lib/rocblas/library", "usr/lib/x86_64-linux-gnu/rocblas/4.2.1/library"]
)
def test_a_source_build_uses_the_blas_of_the_system(place: Place, folder: str) -> None:
    place.write("torch/lib/libtorch_hip.so", hip_library(bundle("gfx1031")))
    (place.root / folder).mkdir(parents=True)
    (place.root / folder / "TensileLibrary_lazy_gfx1031.dat").touch()
    archs = place.read(RecordedHost(place.root)).value
    assert archs is not None
    assert archs.blas_gfx == ("gfx1031",)
    place.write("torch/lib/librocblas.so")
    archs = place.read(RecordedHost(place.root)).value
    assert archs is not None
    assert archs.blas_gfx is None


def test_blas_that_a_variable_points_to(place: Place) -> None:
    place.write("torch/lib/libtorch_hip.so", hip_library(bundle("gfx1103")))
    place.write("torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat")
    place.write("../mine/TensileLibrary_lazy_gfx1103.dat")
    folder = f"/{SITE}/../mine"
    archs = place.read(RecordedHost(place.root, {"ROCBLAS_TENSILE_LIBPATH": folder})).value
    assert archs is not None
    assert archs.blas_gfx == ("gfx1103",)


def test_multi_arch_host_wheel_with_device_wheels(place: Place) -> None:
    place.write("torch/lib/libtorch_hip.so", elf([(".rocm_kpack_ref", b"\x82")]))
    place.write("torch/.kpack/torch_gfx1201.kpack")
    place.write("_rocm_sdk_libraries/.kpack/blas_lib_gfx1201.kpack")
    packages = ("torch", "amd-torch-device-gfx1201", "rocm-sdk-device-gfx1201", "amd-torchvision-device-gfx1201")
    archs = place.read(packages=packages).value
    assert archs is not None
    assert archs.gfx == ("gfx1201",)
    assert archs.blas_gfx == ("gfx1201",)
    assert archs.device_packages == ("amd-torch-device-gfx1201", "rocm-sdk-device-gfx1201")


def test_multi_arch_host_wheel_alone_is_unknown_not_empty(place: Place) -> None:
    place.write("torch/lib/libtorch_hip.so", elf([(".rocm_kpack_ref", b"\x82")]))
    found = place.read()
    assert found.state == "unknown"
    assert "separate packages" in found.why
