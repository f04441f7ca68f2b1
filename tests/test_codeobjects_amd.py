"""Which gfx targets a library, a bundle or a code object carries, and which ones kernel files are for."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.codeobjects.kernel_files import kpack_targets, miopen_targets, tensile_targets
from gpudoctor.codeobjects.library import Sample, read_code
from tests.support.codeobject_files import AMDGPU, NOBITS, bundle, elf, hip_library, packed, wrappers, zstd_frame

ZSTD_TARGETS = (
    *("gfx906:sramecc+:xnack-", "gfx90a:sramecc+:xnack-", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1201"),
    "gfx11-generic",
)
ZSTD_CONTENT = bundle(*ZSTD_TARGETS, code=300)


def test_plain_bundles() -> None:
    code = read_code(hip_library(bundle("gfx1030", "gfx90a:xnack-", "gfx90a:xnack+"), bundle("gfx1030")))
    assert code.gfx == ("gfx90a:xnack+", "gfx90a:xnack-", "gfx1030")
    assert code.share == {"gfx1030": 1.0, "gfx90a:xnack-": 0.5, "gfx90a:xnack+": 0.5}
    assert (code.containers, code.reason) == (2, None)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_bundles_packed_with_zlib(version: int) -> None:
    first = packed(bundle("gfx1100", "gfx11-generic"), version=version)
    second = packed(bundle("gfx1100"), version=version)
    code = read_code(hip_library(first, second))
    assert code.gfx == ("gfx11-generic", "gfx1100")
    assert code.share["gfx11-generic"] == 0.5
    assert code.reason is None


@pytest.mark.parametrize("level", [3, 19])
@pytest.mark.parametrize("version", [2, 3])
def test_bundles_packed_with_zstd(level: int, version: int) -> None:
    code = read_code(hip_library(packed(ZSTD_CONTENT, version=version, frame=zstd_frame(ZSTD_CONTENT, level))))
    assert set(code.gfx) == set(ZSTD_TARGETS)
    assert code.reason is None


def test_a_sample_of_packed_bundles_tells_what_a_library_is_built_for() -> None:
    rare = {1: ("gfx1100",)}
    library = hip_library(*(packed(bundle("gfx1030", "gfx942", *rare.get(n, ()))) for n in range(40)))
    whole, some = read_code(library), read_code(library, sample=Sample(containers=8, bundles=8))
    assert (whole.gfx, some.gfx) == (("gfx942", "gfx1030", "gfx1100"), ("gfx942", "gfx1030"))
    assert some.containers == whole.containers == 40


def test_an_entry_without_code_is_not_carried() -> None:
    assert read_code(hip_library(bundle("gfx1030", code=0))).gfx == ()


def test_older_ids_and_portable_code() -> None:
    content = bytearray(bundle("gfx906", host=False))
    name = b"hip-amdgcn-amd-amdhsa-gfx906"
    struct.pack_into("<Q", content, 32 + 16, len(name))
    content[56 : 56 + len(name)] = name
    assert read_code(bytes(content)).gfx == ("gfx906",)
    name = b"hip-spirv64-amd-amdhsa--amdgcnspirv"
    struct.pack_into("<Q", content, 32 + 16, len(name))
    content[56 : 56 + len(name)] = name
    assert read_code(bytes(content)).gfx == ("amdgcnspirv",)


def test_files_that_are_bundles_themselves() -> None:
    assert read_code(bundle("gfx1201")).gfx == ("gfx1201",)
    assert read_code(packed(bundle("gfx950"))).gfx == ("gfx950",)
    assert read_code(packed(bundle("gfx950"), frame=zstd_frame(bundle("gfx950")))).gfx == ("gfx950",)


@pytest.mark.parametrize(
    ("flags", "abi", "target"),
    [
        (0x36, 2, "gfx1030"),
        (0x53F, 2, "gfx90a"),  # both features left open
        (0x53F & ~0x300 | 0x200, 3, "gfx90a:xnack-"),
        (0xF3F & ~0x300 | 0x300, 3, "gfx90a:sramecc+:xnack+"),
        (0x54C, 3, "gfx942"),
        (0x1000054, 4, "gfx11-generic"),
        (0x1000251, 4, "gfx9-generic:xnack-"),
        (0x130, 1, "gfx908:xnack+"),
        (0x230, 1, "gfx908:sramecc+"),
        (0x4F, 3, "gfx950"),
        (0x55, 3, "gfx1152"),
    ],
)
def test_code_objects_tell_their_target_in_their_flags(flags: int, abi: int, target: str) -> None:
    assert read_code(elf([(".text", b"code")], machine=AMDGPU, flags=flags, abi_version=abi)).gfx == (target,)


def test_an_unknown_processor_is_a_reason() -> None:
    code = read_code(elf(machine=AMDGPU, flags=0xFE))
    assert code.gfx == ()
    assert "unknown AMD processor (0xfe)" in (code.reason or "")


def test_multi_arch_host_libraries_are_recognised() -> None:
    marked = elf([(".text", b"x"), (".hip_fatbin", bytes(8192)), (".rocm_kpack_ref", b"\x82")])
    assert read_code(marked).kpack
    assert read_code(marked).reason is None
    rewritten = elf([(".hip_fatbin", bytes(4096), NOBITS), (".hipFatBinSegment", wrappers(3, 0x4B504948))])
    assert read_code(rewritten).kpack
    assert not read_code(hip_library(bundle("gfx1030"))).kpack


def test_an_emptied_section_is_not_read_as_carrying_nothing() -> None:
    stripped = elf([(".hip_fatbin", bytes(4096), NOBITS), (".hipFatBinSegment", wrappers(3, 0x48495046))])
    assert read_code(stripped).reason == "its code lies outside .hip_fatbin"
    zeroed = elf([(".hip_fatbin", bytes(2 << 20)), (".hipFatBinSegment", wrappers(3, 0x48495046))])
    assert read_code(zeroed).reason is not None


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (0, "<Q", 0, "no offload bundle"),
        (24, "<Q", 0, "a bundle of 0 code objects"),
        (24, "<Q", 1 << 60, "absurd size"),
        (24, "<Q", 500, "absurd size"),
        (32 + 16, "<Q", 1 << 63, "absurd size"),
        (32 + 8, "<Q", 1 << 62, "larger than its section"),
        (56 + 25, "<I", 0x1B1B1B1B, "a target named"),
    ],
)
def test_damage_gives_a_reason(at: int, layout: str, value: int, reason: str) -> None:
    content = bytearray(bundle("gfx1030", host=False))
    struct.pack_into(layout, content, at, value)
    code = read_code(hip_library(bundle("gfx1100"), bytes(content)))
    assert reason in (code.reason or "")
    assert set(code.gfx) <= {"gfx1100"}


@pytest.mark.parametrize(
    ("at", "layout", "value", "reason"),
    [
        (4, "<H", 77, "unknown version (77)"),
        (6, "<H", 9, "unknown way (9)"),
        (8, "<Q", 1 << 50, "larger than its section"),
        (8, "<Q", 3, "larger than its section"),
        (32, "<I", 0xFFFFFFFF, "zlib"),
    ],
)
def test_damage_of_packed_bundles_gives_a_reason(at: int, layout: str, value: int, reason: str) -> None:
    content = bytearray(packed(bundle("gfx1030")))
    struct.pack_into(layout, content, at, value)
    code = read_code(hip_library(bytes(content)))
    assert reason in (code.reason or "")
    assert code.gfx == ()


def test_a_target_that_is_no_target_is_not_repeated() -> None:
    content = bundle("gfx1030").replace(b"gfx1030", b"gfx\x1b[1mx")
    assert "\x1b" not in (read_code(content).reason or "")


TARGETS = st.sampled_from(["gfx906:sramecc-:xnack+", "gfx90a", "gfx942", "gfx1030", "gfx1201", "gfx12-generic"])


@given(
    st.lists(
        st.tuples(st.sets(TARGETS, min_size=1), st.sampled_from([None, 1, 2, 3, "zstd"])), min_size=1, max_size=6
    )
)
def test_any_bundles_are_read_back(made: list[tuple[set[str], int | str | None]]) -> None:
    bundles = []
    for targets, form in made:
        content = bundle(*sorted(targets))
        if form == "zstd":
            content = packed(content, frame=zstd_frame(content))
        elif form is not None:
            content = packed(content, version=int(form))
        bundles.append(content)
    code = read_code(hip_library(*bundles))
    assert set(code.gfx) == set().union(*(targets for targets, _ in made))
    for target in code.gfx:
        assert code.share[target] == sum(target in targets for targets, _ in made) / len(made)
    assert code.reason is None


# --- kernel files ---


def test_the_index_of_a_target_decides() -> None:
    rocblas = [
        "Kernels.so-000-gfx1010.hsaco",
        "Kernels.so-000-gfx90a-xnack+.hsaco",
        "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_gfx942.co",
        "TensileLibrary_Type_HH_Contraction_l_Ailk_Bjlk_Cijk_Dijk_fallback_gfx1030.hsaco",
        "TensileLibrary_lazy_gfx1030.dat",
        "TensileLibrary_lazy_gfx90a.dat",
        "TensileManifest.txt",
    ]
    assert tensile_targets(rocblas) == ("gfx90a", "gfx1030")


def test_old_folders_have_one_index_for_all() -> None:
    rocblas = [
        "TensileLibrary.dat",
        "TensileLibrary_gfx900.co",
        "Kernels.so-000-gfx803.hsaco",
        "TensileLibrary_gfx906.co",
    ]
    assert tensile_targets(rocblas) == ("gfx803", "gfx900", "gfx906")


def test_helper_kernels_of_hipblaslt_do_not_make_a_target_served() -> None:
    assert tensile_targets(["extop_gfx1030.co", "TensileLibrary_lazy_gfx942.dat", "hipblasltTransform.hsaco"]) == (
        "gfx942",
    )
    assert tensile_targets(["extop_gfx1030.co", "hipblasltTransform.hsaco"]) == ()


def test_names_of_families_are_no_targets() -> None:
    assert kpack_targets(["torch_gfx1201.kpack", "torch_gfx94X-dcgpu.kpack", "blas_lib_gfx1151.kpack"], "torch") == (
        "gfx1201",
    )


def test_miopen_databases() -> None:
    names = [
        "gfx90a68.kdb",
        "gfx1030_36.HIP.fdb.txt",
        "gfx90878.db",
        "gfx942130.db.txt",
        "gfx906_60.kdb",
        "miopen.db",
    ]
    assert miopen_targets(names) == ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030")
