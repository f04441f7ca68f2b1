"""Does torch have code for the GPUs: the six scenarios, mixed machines, wrong kinds of build, the RX 6000 story."""

from __future__ import annotations

import pytest

from gpudoctor.machine import CodeArchs, Distribution, ImportTrial, absent, known, unknown
from tests.support.judging import finding, fixes, judged, questions, remedies, severity, told
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    environment,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_system,
    with_torch,
)

RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202")
RX_6700_XT = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
IGPU = {"name": "AMD Radeon Graphics", "gfx": "gfx1036", "integrated": True}

# --- the six scenarios -------------------------------------------------------------------------------


def test_scenario_rtx_5090_with_cu124_needs_another_build_that_runs_on_this_driver():
    machine = nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.6.0+cu124"))
    assert told(machine) == [("torch-no-arch-for-gpu", "error")]
    found = finding(machine, "torch-no-arch-for-gpu")
    assert found.message == (
        "torch 2.6.0+cu124 has no kernels for NVIDIA GeForce RTX 5090 (sm_120); it was built for "
        "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90."
    )
    assert (found.saw, found.want) == ("sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90", "sm_120")
    assert {item.fact for item in found.evidence} >= {"gpu.arch", "torch.archs", "torch.version"}
    assert remedies(machine, "torch-no-arch-for-gpu") == ["torch 2.7.0+cu128"]


def test_scenario_rtx_5090_with_cu130_needs_a_newer_driver_or_another_build():
    machine = nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.13.0+cu130"))
    assert told(machine) == [("driver-too-old", "error")]
    assert [fix[0] for fix in fixes(machine, "driver-too-old")] == ["torch 2.11.0+cu128", "InstallDriver 580"]


def test_scenario_rtx_5090_with_cu128_is_well():
    machine = nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.9.1+cu128"))
    assert (told(machine), judged(machine).verdict) == ([], "ok")


def test_ptx_of_a_cuda_that_is_older_than_the_gpu_is_a_warning():
    old = torch("2.4.0a0+3bcc3cddb5.nv24.07", origin="ngc", cuda="12.5")
    assert told(nvidia_machine(RTX_5090, driver="580.95.05", torch=old)) == [("torch-no-arch-for-gpu", "warning")]
    assert told(nvidia_machine(driver="580.95.05", torch=old)) == []


def test_scenario_rx_6700_xt_has_its_three_ways_out_in_their_order():
    machine = amd_machine(RX_6700_XT)
    assert told(machine) == [("torch-rocm-no-arch-for-gpu", "error")]
    native, override, cpu = fixes(machine, "torch-rocm-no-arch-for-gpu")
    assert "device-gfx1031" in native[0]
    assert override == ["set HSA_OVERRIDE_GFX_VERSION=10.3.0"]
    assert cpu == ["torch 2.9.1+cpu"]


@pytest.mark.parametrize("name", ["HSA_OVERRIDE_GFX_VERSION", "HSA_OVERRIDE_GFX_VERSION_1"])
def test_scenario_rx_6700_xt_with_its_override_is_a_warning(name):
    machine = amd_machine(RX_6700_XT, variables={name: "10.3.0"})
    assert told(machine) == [("torch-rocm-no-arch-for-gpu", "warning")]
    found = finding(machine, "torch-rocm-no-arch-for-gpu")
    assert f"{name}=10.3.0" in found.message
    assert "ROCm/MIOpen#3540" in found.message
    assert fixes(machine, "torch-rocm-no-arch-for-gpu") == [
        [fixes(amd_machine(RX_6700_XT), "torch-rocm-no-arch-for-gpu")[0][0], f"unset {name}"]
    ]


def test_scenario_a_torch_that_aborts():
    trial = known(ImportTrial(ok=False, signal="SIGABRT", error="terminate called"), "child")
    machine = with_torch(nvidia_machine(), trial=trial)
    assert told(machine) == [("torch-import-fails", "error")]
    assert "SIGABRT" in finding(machine, "torch-import-fails").message


# --- NVIDIA ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "build", "slug"),
    [
        ("sm_61", "2.9.1+cu128", "torch-dropped-old-gpu"),
        ("sm_61", "2.9.1+cu126", None),
        ("sm_70", "2.13.0+cu130", "torch-dropped-old-gpu"),
        ("sm_70", "2.9.1+cu128", None),
        ("sm_89", "2.9.1+cu128", None),
        ("sm_120", "2.9.1+cu126", "torch-no-arch-for-gpu"),
        ("sm_90", "1.13.1+cu116", "torch-no-arch-for-gpu"),
        ("sm_121", "2.11.0+cu130", None),
    ],
)
def test_which_build_has_code_for_which_gpu(arch, build, slug):
    machine = nvidia_machine(nvidia_gpu("A GPU", arch), flavour="proprietary" if arch < "sm_7" else "open")
    machine = with_environment(machine, torch=known(torch(build), "version.py"))
    told_here = [s for s, weight in told(machine, "GPD402", "GPD403") if weight == "error"]
    assert told_here == ([slug] if slug else [])


@pytest.mark.parametrize(
    ("arch", "carried", "slug"),
    [
        ("sm_61", ("sm_50", "sm_70", "sm_80", "sm_86"), "torch-dropped-old-gpu"),  # a gap in the list
        ("sm_110", ("sm_80", "sm_90", "sm_100", "sm_120"), "torch-no-arch-for-gpu"),  # newer than sm_120
    ],
)
def test_a_gpu_in_a_gap_of_the_list_is_older_or_newer_by_its_age(arch, carried, slug):
    patient = torch("2.9.1+cu128", archs=known(CodeArchs(sass=carried), "libtorch_cuda.so"))
    assert severity(nvidia_machine(nvidia_gpu("A GPU", arch), torch=patient), slug) == "error"


def test_a_gpu_without_code_beside_a_working_one_is_an_error_unless_it_is_for_the_screen():
    def beside(*gpus, build="2.9.1+cu128", **variables):
        flavour = "open" if RTX_5090 in gpus else "proprietary"
        return nvidia_machine(*gpus, torch=torch(build), flavour=flavour, variables=variables)

    older = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61", chip="GP104", index=1)
    assert severity(beside(nvidia_gpu(), older), "torch-dropped-old-gpu") == "error"
    ampere = nvidia_gpu("NVIDIA GeForce RTX 3090", "sm_86", chip="GA102", index=1)
    assert severity(beside(RTX_5090, ampere, build="2.9.1+cu126"), "torch-no-arch-for-gpu") == "error"
    small = nvidia_gpu("NVIDIA GeForce GT 1030", "sm_61", chip="GP108", index=1)
    assert severity(beside(nvidia_gpu(), small), "torch-dropped-old-gpu") == "note"
    assert severity(beside(small), "torch-dropped-old-gpu") == "error"
    without_build = nvidia_gpu("NVIDIA GeForce GT 710", "sm_35", chip="GK208", index=1)
    assert severity(beside(nvidia_gpu(), without_build), "torch-dropped-old-gpu") == "note"
    first = (change(small, index=0), nvidia_gpu(index=1))
    assert severity(beside(*first), "torch-dropped-old-gpu") == "note"
    assert severity(beside(*first, CUDA_DEVICE_ORDER="PCI_BUS_ID"), "torch-dropped-old-gpu") == "error"


def test_a_gpu_without_code_beside_a_working_one_gets_a_build_for_both_or_is_hidden():
    older = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61", chip="GP104", index=1)
    machine = nvidia_machine(nvidia_gpu(), older, torch=torch("2.9.1+cu128"), flavour="proprietary")
    (finding,) = judged(machine, "GPD403").findings
    assert [remedy.build for remedy in finding.fixes[0].remedies] == ["cu126"]
    hidden = {remedy.name: remedy.value for remedy in finding.fixes[-1].remedies}
    assert hidden == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0"}
    assert told(change(machine, variables=hidden), "GPD403") == []


def test_eight_equal_gpus_are_one_finding():
    gpus = tuple(nvidia_gpu("NVIDIA B200", "sm_100", index=n, datacenter=True) for n in range(8))
    machine = nvidia_machine(*gpus, torch=torch("2.6.0+cu124"))
    assert [f.subject for f in judged(machine, "GPD402").findings] == ["NVIDIA B200 (8 GPUs)"]


def test_a_gpu_that_is_not_usable_is_not_judged():
    reserved = change(RTX_5090, driver=known("vfio-pci", "driver"))
    assert told(nvidia_machine(reserved, nvidia_gpu(index=1), torch=torch("2.6.0+cu124")), "GPD402") == []


def test_what_was_read_from_the_libraries_beats_the_matrix():
    read = known(CodeArchs(sass=("sm_50", "sm_90", "sm_120")), "libtorch_cuda.so")
    machine = with_torch(nvidia_machine(RTX_5090, torch=torch("2.6.0+cu124")), archs=read)
    assert severity(machine, "torch-no-arch-for-gpu") is None


def test_a_few_kernels_are_not_support_and_are_named():
    read = known(CodeArchs(sass=("sm_80", "sm_90"), partial=("sm_120",)), "libtorch_cuda.so")
    machine = with_torch(nvidia_machine(RTX_5090), archs=read)
    assert "only a few kernels" in finding(machine, "torch-no-arch-for-gpu").message


@pytest.mark.parametrize(
    ("version", "origin"),
    [("2.9.0a0+gitdeadbee", "source"), ("2.7.1+debian", "distribution"), ("2.9.0", "conda")],
)
def test_builds_made_for_their_place_are_trusted_where_nothing_lists_their_code(version, origin):
    machine = nvidia_machine(torch=torch(version, origin=origin, cuda="13.0", build="cu130"))
    assert (told(machine), judged(machine).verdict) == ([], "ok")
    assert [question.matters for question in judged(machine).not_judged if question.id == "GPD402"] == [False]


def test_other_builds_without_a_list_are_neither_well_nor_broken():
    own = torch("2.9.1.custom", origin="unknown", cuda="13.0", build="cu130")
    machine = nvidia_machine(torch=own)
    assert told(machine) == []
    assert [question.id for question in questions(machine)] == ["GPD402"]
    read = known(CodeArchs(sass=("sm_80", "sm_86", "sm_90")), "libtorch_cuda.so")
    assert judged(with_torch(machine, archs=read)).verdict == "ok"


def test_a_torch_whose_files_do_not_tell_what_it_is_built_for_is_not_judged():
    own = torch("2.9.1", build=None, has_cuda_libraries=None, origin="unknown")
    machine = nvidia_machine(torch=own)
    assert [question.id for question in questions(machine)] == ["GPD402"]


def test_turing_with_a_linear_algebra_library_without_it_is_a_warning():
    turing = nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75")
    assert told(nvidia_machine(turing, torch=torch("2.13.0", cuda="13.0", build="cu130"))) == [
        ("torch-linalg-no-arch", "warning")
    ]
    assert severity(nvidia_machine(turing, torch=torch("2.9.1+cu128")), "torch-linalg-no-arch") is None
    assert severity(nvidia_machine(torch=torch("2.13.0", cuda="13.0", build="cu130")), "torch-linalg-no-arch") is None


def test_a_torch_newer_than_the_matrix_is_a_note_and_its_code_unknown():
    machine = nvidia_machine(torch=torch("2.99.0", cuda="13.2", build="cu132"))
    assert severity(machine, "matrix-older-than-torch") == "note"
    assert judged(machine).verdict == "unknown"
    read = known(CodeArchs(sass=("sm_80", "sm_86")), "libtorch_cuda.so")
    assert judged(with_torch(machine, archs=read)).verdict == "ok"


# --- AMD ---------------------------------------------------------------------------------------------


def test_gfx1030_is_native():
    assert told(amd_machine(amd_gpu("AMD Radeon RX 6800 XT", "gfx1030"))) == []


@pytest.mark.parametrize("gfx", ["gfx1010", "gfx1031", "gfx1032", "gfx1034", "gfx1035", "gfx1150"])
def test_targets_that_the_wheel_lacks(gfx):
    assert severity(amd_machine(amd_gpu("A GPU", gfx)), "torch-rocm-no-arch-for-gpu") == "error"


def test_a_device_wheel_carries_its_target():
    machine = amd_machine(
        RX_6700_XT, torch=torch("2.11.0+rocm7.14.0", origin="amd"), packages={"amd-torch-device-gfx1031": "2.11.0"}
    )
    assert severity(machine, "torch-rocm-no-arch-for-gpu") is None


def test_a_target_without_rocblas_kernels_is_the_blas_fault():
    machine = amd_machine(amd_gpu("AMD Instinct MI50", "gfx906"))
    assert told(machine) == [("rocblas-no-arch", "error")]
    assert remedies(machine, "rocblas-no-arch") == ["torch 2.9.1+rocm6.3"]
    older = amd_machine(amd_gpu("AMD Instinct MI50", "gfx906"), torch=torch("2.9.1+rocm6.3"))
    assert told(older) == []


def test_the_tensile_files_beside_torch_beat_the_matrix():
    read = known(CodeArchs(gfx=("gfx906", "gfx1100"), blas_gfx=("gfx906", "gfx1100")), "libtorch_hip.so")
    machine = with_torch(amd_machine(amd_gpu("AMD Instinct MI50", "gfx906")), archs=read)
    assert severity(machine, "rocblas-no-arch") is None
    lacking = known(CodeArchs(gfx=("gfx1100",), blas_gfx=("gfx90a",)), "libtorch_hip.so")
    assert severity(with_torch(amd_machine(), archs=lacking), "rocblas-no-arch") == "error"


def test_asking_for_hipblaslt_where_torch_does_not_use_it_is_a_note():
    wanted = {"TORCH_BLAS_PREFER_HIPBLASLT": "1"}
    strix = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)
    other = amd_machine(amd_gpu("AMD Radeon RX 6800", "gfx1030"), variables=wanted)
    assert severity(other, "hipblaslt-unsupported-arch") == "note"
    assert severity(amd_machine(amd_gpu("MI300X", "gfx942"), variables=wanted), "hipblaslt-unsupported-arch") is None
    assert severity(amd_machine(strix), "hipblaslt-unsupported-arch") is None


def ryzen_beside_nvidia(gfx, build):
    """An NVIDIA GPU, and integrated AMD graphics that KFD lists and that can be opened."""
    graphics = amd_gpu("AMD Radeon Graphics", gfx, integrated=True)
    return change(nvidia_machine(nvidia_gpu(), graphics, torch=torch(build)), amd=amd_machine(graphics).amd)


# --- the wrong kind of build -------------------------------------------------------------------------


def test_a_cpu_build_beside_a_gpu_is_an_error_with_a_gpu_build_of_its_version():
    machine = nvidia_machine(torch=torch("2.13.0+cpu"))
    assert told(machine) == [("torch-cpu-only", "error")]
    assert remedies(machine, "torch-cpu-only") == ["torch 2.13.0+cu130"]
    assert severity(amd_machine(torch=torch("2.9.1+cpu")), "torch-cpu-only") == "error"
    assert severity(amd_machine(RX_6700_XT, torch=torch("2.9.1+cpu")), "torch-cpu-only") == "error"


def test_a_cpu_build_beside_integrated_graphics_alone_or_a_gpu_nobody_serves_is_a_note():
    assert severity(amd_machine(amd_gpu(**IGPU), torch=torch("2.9.1+cpu")), "torch-cpu-only") == "note"
    fermi = nvidia_gpu("NVIDIA GeForce GT 430", "sm_21")
    old = nvidia_machine(fermi, driver="390.157", flavour="proprietary", torch=torch("2.9.1+cpu"))
    assert severity(old, "torch-cpu-only") == "note"


def test_a_cpu_build_without_a_usable_gpu_is_silent():
    reserved = nvidia_gpu(driver=known("vfio-pci", "driver"))
    assert severity(nvidia_machine(reserved, torch=torch("2.9.1+cpu")), "torch-cpu-only") is None


def test_the_cpu_build_of_the_package_index_for_aarch64_is_explained():
    gh200 = nvidia_gpu("NVIDIA GH200 480GB", "sm_90", datacenter=True)
    own = torch("2.9.1", build="cpu", has_cuda_libraries=False)
    machine = with_system(nvidia_machine(gh200, torch=own), arch=known("aarch64", "uname"))
    assert "aarch64" in finding(machine, "torch-cpu-only").message


def test_a_cuda_build_where_all_gpus_are_amds():
    machine = amd_machine(torch=torch("2.9.1+cu128"))
    assert told(machine) == [("cuda-torch-on-amd", "error")]
    assert remedies(machine, "cuda-torch-on-amd") == ["torch 2.9.1+rocm6.4"]


def test_a_cuda_build_where_an_nvidia_gpu_only_lacks_its_driver_is_not_the_wrong_build():
    undriven = nvidia_gpu(driver=absent("driver"))
    machine = change(amd_machine(torch=torch("2.9.1+cu128")), gpus=(amd_gpu(**IGPU), undriven))
    assert severity(machine, "cuda-torch-on-amd") is None


def test_a_rocm_build_where_the_gpus_are_nvidias_even_beside_ryzen_graphics():
    assert told(nvidia_machine(torch=torch("2.9.1+rocm6.4"))) == [("torch-wrong-build-or-cpu", "error")]
    assert told(ryzen_beside_nvidia("gfx1036", "2.9.1+rocm6.4")) == [("torch-wrong-build-or-cpu", "error")]


def test_a_rocm_build_that_serves_the_ryzen_graphics_is_no_wrong_build():
    assert told(ryzen_beside_nvidia("gfx1151", "2.11.0+rocm7.2"), "GPD3", "GPD40") == []


def test_a_label_that_the_files_do_not_bear_out():
    own = torch("2.0.1+rocm5.4.2", hip=None, rocm=None, cuda=None)
    assert severity(amd_machine(torch=own), "torch-wrong-build-or-cpu") == "error"


def test_an_xpu_build_beside_a_gpu():
    own = torch("2.9.1+xpu", build="xpu", has_cuda_libraries=False)
    assert told(nvidia_machine(torch=own)) == [("torch-wrong-build-or-cpu", "error")]


def test_ryzen_graphics_beside_an_nvidia_gpu_do_not_matter_to_a_cuda_build():
    assert told(ryzen_beside_nvidia("gfx1036", "2.9.1+cu128")) == []


def test_a_torch_that_was_imported_and_sees_no_gpu_is_never_well():
    blind = known(ImportTrial(ok=True, device_count=0, error="CUDA unknown error"), "child")
    for machine in (nvidia_machine(), amd_machine()):
        assert told(with_torch(machine, trial=blind)) == [("torch-wrong-build-or-cpu", "error")]
    hidden = with_torch(nvidia_machine(variables={"CUDA_VISIBLE_DEVICES": ""}), trial=blind)
    assert severity(hidden, "torch-wrong-build-or-cpu") is None
    sees = known(ImportTrial(ok=True, device_count=1), "child")
    assert told(with_torch(nvidia_machine(), trial=sees)) == []


# --- no torch ----------------------------------------------------------------------------------------


def test_without_torch_a_note_says_what_to_install():
    machine = nvidia_machine(torch=None)
    assert told(machine) == [("torch-missing", "note")]
    assert remedies(machine, "torch-missing")[0].startswith("torch ")
    assert judged(machine).verdict == "ok"


@pytest.mark.parametrize(
    ("package", "requires", "weight"),
    [
        ("torchvision", ("torch>=2.14.0",), "error"),
        ("xformers", ("torch>=2.10",), "error"),
        ("transformers", ('torch>=2.2; extra == "torch"',), "note"),
        ("accelerate", ("torch>=2.0",), "note"),
    ],
)
def test_without_torch_what_was_compiled_for_it_cannot_work(package, requires, weight):
    left = Distribution(package, "1.0", f"/site/{package}-1.0.dist-info", installer="pip", requires=requires)
    machine = with_environment(nvidia_machine(torch=None), distributions=known((left,), "/site"))
    assert told(machine) == [("torch-missing", weight)]
    bare = with_environment(no_gpu_machine(torch=None), distributions=known((left,), "/site"))
    assert dict(told(bare))["torch-missing"] == "note", "nothing here needs a GPU"


def test_what_could_not_be_read_of_the_environment_matters_where_a_gpu_is():
    unread = with_environment(nvidia_machine(), torch=unknown("not readable"))
    assert [question.id for question in questions(unread)] == ["GPD401"]
    none = change(nvidia_machine(), environment=unknown("no interpreter"))
    assert [question.id for question in questions(none)] == ["GPD401"]
    assert environment(None).torch.absent
