"""Overrides, integrated graphics and second GPUs, the allocator's variables."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.machine import User
from gpudoctor.probes.system import probe_system
from tests.support.check_cases import found, matrix
from tests.support.judging import finding, fixes, remedies, severity, told
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_system,
)

OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
RX_6700_XT = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
RX_6800_XT = amd_gpu("AMD Radeon RX 6800 XT", "gfx1030")


def igpu(index=0):
    return amd_gpu("AMD Radeon Graphics", "gfx1036", index=index, integrated=True)


# --- overrides -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "value", "weight"),
    [
        (RX_6700_XT, "11.0.0", "error"),
        (RX_6700_XT, "", "error"),
        (RX_6700_XT, "gfx1030", "error"),
        (RX_6700_XT, "10.3", "error"),
        (RX_6700_XT, "99.9.9", "error"),
        (RX_6700_XT, "10.3.0", None),
        (RX_6800_XT, "10.3.0", "note"),
        (RX_6800_XT, "10.3.1", "error"),  # no wheel of the index carries gfx1031: nothing would run
        (amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100"), "11.0.1", "warning"),
        (amd_gpu("AMD Radeon RX 7800 XT", "gfx1101"), "11.0.0", "warning"),
        (amd_gpu("AMD Radeon RX 5700 XT", "gfx1010"), "10.3.0", "error"),
        (amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True), "11.0.0", "error"),
        (amd_gpu("AMD Instinct MI210", "gfx90a"), "10.3.0", "error"),
        (amd_gpu("AMD Radeon 780M", "gfx1103", integrated=True), "11.0.0", None),
        (amd_gpu("AMD Radeon Vega", "gfx90c", integrated=True), "9.0.0", None),
    ],
)
def test_an_override_by_gpu_and_value(gpu, value, weight):
    assert severity(amd_machine(gpu, variables={OVERRIDE: value}), "hsa-override-wrong") == weight


def test_an_override_fault_comes_first_and_its_repair_is_whole():
    for value in ("11.0.0", ""):
        machine = amd_machine(RX_6700_XT, variables={OVERRIDE: value})
        assert told(machine) == [("hsa-override-wrong", "error")]
        native, override, cpu = fixes(machine, "hsa-override-wrong")
        assert native[1:] == [f"unset {OVERRIDE}"]
        assert override == [f"set {OVERRIDE}=10.3.0"]
        assert cpu == ["torch 2.9.1+cpu", f"unset {OVERRIDE}"]


def test_where_the_build_carries_the_gpu_the_override_is_only_unset():
    machine = amd_machine(variables={OVERRIDE: "10.3.0"})
    assert fixes(machine, "hsa-override-wrong") == [[f"unset {OVERRIDE}"]]


def test_the_numbered_form_counts_kfd_nodes_processors_included():
    first = amd_machine(RX_6700_XT, variables={f"{OVERRIDE}_1": "10.3.0"})
    assert told(first) == [("torch-rocm-no-arch-for-gpu", "warning")]
    processor = amd_machine(RX_6700_XT, variables={f"{OVERRIDE}_0": "10.3.0"})
    assert told(processor) == [("torch-rocm-no-arch-for-gpu", "error")]
    wrong = amd_machine(RX_6800_XT, variables={f"{OVERRIDE}_1": "11.0.0"})
    assert remedies(wrong, "hsa-override-wrong") == [f"unset {OVERRIDE}_1"]


def test_the_numbered_form_goes_before_the_general_one():
    both = {OVERRIDE: "11.0.0", f"{OVERRIDE}_1": "10.3.0"}
    assert told(amd_machine(RX_6700_XT, variables=both)) == [("torch-rocm-no-arch-for-gpu", "warning")]


def test_an_override_for_one_gpu_that_hurts_the_other():
    machine = amd_machine(RX_6700_XT, amd_gpu(index=1), variables={OVERRIDE: "10.3.0"})
    assert severity(machine, "hsa-override-wrong") == "error"
    assert "RX 7900 XTX" in finding(machine, "hsa-override-wrong").message


def test_the_variable_means_nothing_to_a_cuda_build():
    assert told(nvidia_machine(variables={OVERRIDE: "10.3.0"})) == []


# --- integrated graphics and second GPUs ----------------------------------------------------------------


def test_integrated_graphics_behind_the_gpu_are_a_note():
    machine = amd_machine(amd_gpu(), igpu(1))
    assert told(machine) == [("amd-igpu-interferes", "note")]


def test_integrated_graphics_that_come_first_are_an_error_and_are_hidden():
    machine = amd_machine(igpu(), amd_gpu(index=1))
    assert told(machine) == [("amd-igpu-interferes", "error")]
    assert remedies(machine, "amd-igpu-interferes") == ["set HIP_VISIBLE_DEVICES=1"]


@pytest.mark.parametrize(
    ("variables", "weight"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, None),
        ({"ROCR_VISIBLE_DEVICES": "1"}, None),
        ({"CUDA_VISIBLE_DEVICES": "1"}, None),
        ({"HIP_VISIBLE_DEVICES": "1,0"}, "note"),
        ({"HIP_VISIBLE_DEVICES": "0,1"}, "error"),
    ],
)
def test_a_visibility_variable_decides_which_gpu_comes_first(variables, weight):
    machine = amd_machine(igpu(), amd_gpu(index=1), variables=variables)
    assert severity(machine, "amd-igpu-interferes") == weight


def test_integrated_graphics_that_the_build_carries_or_that_stand_alone_do_not_interfere():
    strix = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)
    native = torch("2.10.0+rocm7.1")
    assert severity(amd_machine(strix, amd_gpu(index=1), torch=native), "amd-igpu-interferes") is None
    assert told(amd_machine(igpu())) == [("torch-rocm-no-arch-for-gpu", "error")]


def test_a_second_gpu_without_code_is_a_warning_and_a_first_one_an_error():
    second = amd_machine(amd_gpu(), change(RX_6700_XT, index=1, kfd_node=2, bdf="0000:04:00.0"))
    assert told(second) == [("amd-unsupported-second-gpu", "warning")]
    assert remedies(second, "amd-unsupported-second-gpu") == ["set HIP_VISIBLE_DEVICES=0"]
    assert told(amd_machine(RX_6700_XT, amd_gpu(index=1))) == [("torch-rocm-no-arch-for-gpu", "error")]


# --- allocator -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"])
def test_expandable_segments_on_rocm(name):
    machine = amd_machine(variables={name: "max_split_size_mb:512,expandable_segments:True"})
    assert told(machine) == [("alloc-conf-expandable-segments-rocm", "warning")]
    assert remedies(machine, "alloc-conf-expandable-segments-rocm") == [f"set {name}=max_split_size_mb:512"]


def test_expandable_segments_elsewhere_are_fine():
    assert told(nvidia_machine(nvidia_gpu(), variables={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})) == []
    assert told(amd_machine(variables={"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:False"})) == []
    assert told(amd_machine(variables={"PYTORCH_HIP_ALLOC_CONF": "max_split_size_mb:512"})) == []


@pytest.mark.parametrize(("value", "expected"), [("auto", "warning"), ("", "warning"), ("8", None), (" 8 ", None)])
def test_torch_compile_wants_a_number_of_threads(value: str, expected: str | None) -> None:
    machine = nvidia_machine(nvidia_gpu(), variables={"TORCHINDUCTOR_COMPILE_THREADS": value})
    assert dict(told(machine)).get("framework-variable") == expected
    without = nvidia_machine(
        torch=None, packages={"jax": "0.6.2"}, variables={"TORCHINDUCTOR_COMPILE_THREADS": value}
    )
    assert "framework-variable" not in dict(told(without))


CONDAS = "x86_64-conda-linux-gnu-cc"


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_a_compiler_that_is_not_there_is_named(variable: str) -> None:
    machine = nvidia_machine(nvidia_gpu(), variables={variable: CONDAS})
    assert severity(machine, "framework-variable") is None
    gone = with_system(machine, missing_compilers=(CONDAS,))
    arguments = with_system(nvidia_machine(variables={variable: "ccache gcc"}), missing_compilers=("ccache gcc",))
    assert severity(arguments, "framework-variable") == "warning"
    assert severity(gone, "framework-variable") == "warning"
    assert remedies(gone, "framework-variable") == [f"unset {variable}"]


@pytest.mark.parametrize(
    ("nameless", "version", "told"),
    [(True, "2.9.1+cu128", ["set USER=user"]), (False, "2.9.1+cu128", None), (True, "2.13.0+cu130", None)],
)
def test_a_user_without_a_name_gets_one(nameless: bool, version: str, told: list[str] | None) -> None:
    user = User(uid=4321, gids=(4321,), nameless=nameless)
    machine = with_system(nvidia_machine(torch=torch(version)), user=user)
    assert severity(machine, "framework-variable") == (told and "warning")
    if told:
        assert remedies(machine, "framework-variable") == told


def test_a_name_comes_from_a_variable_or_an_account() -> None:
    account, nobody = pwd.getpwuid(os.getuid()), next(uid for uid in range(40000, 60000) if not _account(uid))

    def nameless(uid: int, **environ: str) -> bool:
        host = LiveHost(environ)
        host.user = lambda: User(uid=uid)  # type: ignore[method-assign]
        return probe_system(host).user.nameless

    bare = dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "")
    assert not nameless(account.pw_uid, **bare)
    assert nameless(nobody, **bare)
    assert not nameless(nobody, **bare | {"USER": "me"})


def _account(uid: int) -> bool:
    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


@pytest.mark.parametrize(("value", "told"), [("1", ["warning"]), ("true", ["warning"]), ("0", []), ("", [])])
def test_triton_left_in_its_interpreter(value: str, told: list[str]) -> None:
    machine = nvidia_machine(variables={"TRITON_INTERPRET": value})
    assert [one.severity for one in found(machine, "framework-variable")] == told
    assert (
        found(nvidia_machine(torch=torch("2.9.1+cpu"), variables={"TRITON_INTERPRET": "1"}), "framework-variable")
        == []
    )


@pytest.mark.parametrize("variable", ["TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"])
def test_a_folder_for_kernels_that_cannot_be_made_is_named(variable: str) -> None:
    machine = nvidia_machine(nvidia_gpu(), variables={variable: "/proc/nope"})
    assert severity(machine, "framework-variable") is None
    closed = with_system(machine, closed_folders=("/proc/nope",))
    assert severity(closed, "framework-variable") == "warning"
    assert remedies(closed, "framework-variable") == [f"unset {variable}"]


def test_folders_for_kernels_are_tried_without_making_them(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    def closed(path: str) -> tuple[str, ...]:
        return probe_system(LiveHost({"TRITON_CACHE_DIR": path})).closed_folders

    assert closed(f"{tmp_path}/a/b") == closed(str(tmp_path)) == closed("") == closed("relative") == ()
    assert closed("/proc/nope") == ("/proc/nope",)
    assert closed(f"{tmp_path}/file/below") == (f"{tmp_path}/file/below",)
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("version", "value", "weight"),
    [
        ("0.15.0", "/gone/libcuda.so", "error"),
        ("0.15.0", "/usr/lib/libcuda.so.1", None),
        ("0.30.4", "/gone/libcuda.so", None),  # it no longer reads the variable
    ],
)
def test_a_library_of_the_driver_that_a_variable_names_must_be_there(
    version: str, value: str, weight: str | None
) -> None:
    packages = {"numba-cuda": version, "cuda-bindings": "12.9.0"}
    machine = nvidia_machine(packages=packages, variables={"NUMBA_CUDA_DRIVER": value})
    missing = with_system(machine, missing_files=("/gone/libcuda.so",))
    assert severity(missing, "framework-variable") == weight


def test_files_that_variables_name_are_looked_for(tmp_path: Path) -> None:
    there, gone = tmp_path / "libcuda.so.1", tmp_path / "gone.so"
    there.write_bytes(b"")
    found = [probe_system(LiveHost({"NUMBA_CUDA_DRIVER": str(path)})).missing_files for path in (there, gone)]
    assert found == [(), (str(gone),)]


def test_compilers_that_variables_name_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "my-cc").write_text("")
    (tmp_path / "my-cc").chmod(0o755)

    def lost(**names: str) -> tuple[str, ...]:
        return probe_system(LiveHost({"PATH": str(tmp_path), **names})).missing_compilers

    assert lost(CC="my-cc", CXX=f"{tmp_path}/my-cc") == ()
    assert lost(CC=CONDAS, CXX=f"{tmp_path}/c++") == (CONDAS, f"{tmp_path}/c++")
    assert lost(CC="ccache gcc", CXX="ccache /usr/bin/g++") == ("ccache gcc", "ccache /usr/bin/g++")
    assert lost(CC="./my-cc", CXX="tools/c++") == lost() == ()


@pytest.mark.parametrize("name", ["TORCHINDUCTOR_MIN_NUM_SPLIT", "AOTINDUCTOR_REPRO_LEVEL", "TORCH_AUTOTUNE_REP"])
def test_torch_compile_wants_other_numbers(name: str) -> None:
    for value, version, errors in (("auto", "2.9.1+cu128", 1), ("4", "2.9.1+cu128", 0), ("auto", "2.4.1+cu121", 0)):
        machine = nvidia_machine(nvidia_gpu(), torch=torch(version), variables={name: value})
        assert [one.severity for one in found(machine, "framework-variable")] == ["warning"] * errors


@pytest.mark.parametrize(
    ("value", "version", "told"),
    [
        ("max_split_size:128", "2.9.1+cu128", True),
        ("expandable_segments:True, garbage_collect:0.8", "2.5.1+cu124", True),
        ("expandable_segments:True,max_split_size_mb:128,", "2.9.1+cu128", False),
        ("roundup_power2_divisions:[256:1,512:2,>:4],backend:cudaMallocAsync", "2.9.1+cu128", False),
        ("bogus:1", "2.11.0+cu130", True),  # seen on an H100, as are the next two
        ("backend:none", "2.11.0+cu130", True),
        ("max_split_size_mb:20", "2.8.0+cu128", True),  # the least was 21 before torch 2.9
        ("expandable_segments:True, max_split_size_mb: 20, roundup_power2_divisions:8", "2.5.1+cu124", True),
        ("max_split_size_mb:20", "2.9.1+cu128", False),
        ("max_split_size_mb:21,max_split_size_mb:200", "2.8.0+cu128", False),
        ("backend: none", "2.11.0+cu130", True),
        ("backend: native", "2.9.1+cu128", False),  # torch skips spaces
        (" backend : cudaMallocAsync , max_split_size_mb:128", "2.9.1+cu128", False),
        ('"expandable_segments:True"', "2.11.0+cu130", True),
        ("per_process_memory_fraction:0.5", "2.11.0+cu130", False),
        ("per_process_memory_fraction:0.5", "2.13.0+cu130", False),  # newer releases know more names
    ],
)
def test_a_setting_that_torchs_allocator_does_not_know_is_an_error(value: str, version: str, told: bool) -> None:
    machine = nvidia_machine(torch=torch(version), variables={"PYTORCH_CUDA_ALLOC_CONF": value})
    errors = [one.severity for one in found(machine, "framework-variable")]
    assert errors == ["error"] * told


@pytest.mark.parametrize(
    ("gpu", "version", "driver", "severity"),
    [
        ("RTX 4090", "2.9.1+cu130", "580.95.05", "error"),  # its PTX is for newer GPUs
        ("RTX 5090", "2.9.1+cu128", "580.95.05", "error"),  # no PTX
        ("RTX 5090", "2.9.1+cu130", "580.95.05", "warning"),
        ("RTX 5090", "2.9.1+cu129", "570.133.07", "error"),  # the driver compiles no PTX of a newer CUDA
    ],
)
def test_forced_ptx_is_only_slow_where_torch_has_some(gpu: str, version: str, driver: str, severity: str) -> None:
    about = Description(gpus=(gpu,), driver=driver, torch=version)
    machine = imagined_machine(about, {"CUDA_FORCE_PTX_JIT": "1"}, matrix())
    assert [one.severity for one in found(machine, "framework-variable")] == [severity]
