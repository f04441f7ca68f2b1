"""Which torch build: what is carried, what is chosen, what is offered as a way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from gpudoctor.finding import Fix, InstallDriver, Manual, ReplaceTorch, SetVariable, UnsetVariable
from gpudoctor.frameworks.torch import builds
from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.isa import cuda_runs, gfx_runs
from gpudoctor.machine import (
    CodeArchs,
    Jetson,
    Library,
    LoadPath,
    Machine,
    NvidiaApi,
    NvidiaStack,
    Os,
    absent,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_choice import flavours_serving
from gpudoctor.situation.nvidia_driver import driver_verdict, refusal
from tests.support.machines import (
    amd_gpu,
    amd_machine,
    change,
    environment,
    nvidia_gpu,
    nvidia_machine,
    system,
    torch,
)

MATRIX = load_matrix()
X86 = "linux-x86_64"


def fixes(machine: Machine) -> tuple[Fix, ...]:
    gpus = builds.gpus_to_serve(Situation(machine, MATRIX), machine.gpus)
    return builds.replacements(Situation(machine, MATRIX), gpus, keep=machine.torch)


def replaced(fix: Fix) -> str:
    """ "2.9.1+cu128 <index>" of the torch that a way installs."""
    remedy = next(remedy for remedy in fix.remedies if isinstance(remedy, ReplaceTorch))
    return f"{remedy.version}+{remedy.build} {remedy.index_url}".strip()


def texts(fix: Fix) -> str:
    return " ".join(remedy.text for remedy in fix.remedies if isinstance(remedy, Manual))


def first(machine: Machine) -> str:
    return replaced(fixes(machine)[0])


PYTORCH = "https://download.pytorch.org/whl"


# --- the scenarios ---------------------------------------------------------------------------------


def test_a_gpu_newer_than_the_build_gets_the_nearest_newer_release_that_its_driver_serves() -> None:
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), driver="570.133.07", torch=torch("2.6.0+cu124")
    )
    assert first(machine) == f"2.7.0+cu128 {PYTORCH}/cu128"


def test_a_driver_below_the_floor_is_answered_by_the_newest_older_build_for_that_gpu() -> None:
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), driver="570.133.07", torch=torch("2.13.0+cu130")
    )
    assert first(machine) == f"2.11.0+cu128 {PYTORCH}/cu128"


def test_rx_6700_xt_gets_native_code_then_the_override_then_the_cpu() -> None:
    machine = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"))
    native, override, cpu = fixes(machine)
    assert replaced(native) == "2.11.0+rocm7.14.0 https://repo.amd.com/rocm/whl-multi-arch"
    assert native.remedies[0].extra == "device-gfx1031"  # type: ignore[union-attr]
    assert [(r.name, r.value) for r in override.remedies if isinstance(r, SetVariable)] == [
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    ]
    assert len(override.remedies) == 1, "the present torch carries gfx1030: only the variable is missing"
    assert replaced(cpu) == f"2.9.1+cpu {PYTORCH}/cpu"


def test_without_a_native_wheel_for_this_python_the_override_comes_first() -> None:
    machine = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"), python="3.10")
    assert isinstance(fixes(machine)[0].remedies[0], Manual)  # a newer Python has native wheels
    assert isinstance(fixes(machine)[1].remedies[0], SetVariable)


def test_pascal_leaves_a_release_that_dropped_it() -> None:
    machine = nvidia_machine(nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61"), torch=torch("2.15.0+cu132"))
    assert first(machine) == f"2.14.1+cu126 {PYTORCH}/cu126"


def test_kepler_goes_back_to_the_last_release_whose_cudnn_has_code_for_it() -> None:
    """torch 2.4 to 2.7 +cu118 list sm_37, and come with cuDNN 9.1, which starts at Maxwell."""
    machine = nvidia_machine(
        nvidia_gpu("Tesla K80", "sm_37"), driver="470.239.06", flavour="proprietary", torch=torch("2.6.0+cu124")
    )
    assert first(machine) == f"2.3.1+cu118 {PYTORCH}/cu118"


def test_mi50_keeps_its_version_in_the_last_rocm_whose_blas_knows_it() -> None:
    machine = amd_machine(amd_gpu("AMD Instinct MI50", "gfx906"), torch=torch("2.9.1+rocm6.4"))
    assert first(machine) == f"2.9.1+rocm6.3 {PYTORCH}/rocm6.3"
    carried = carries(Situation(machine, MATRIX), machine.gpus[0])
    assert (carried.runs, carried.blas) == ("yes", "no")


def test_another_build_of_the_same_version_is_named_by_its_index() -> None:
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 4070", "sm_89"), driver="580.95.05", torch=torch("2.13.0+cpu")
    )
    assert first(machine) == f"2.13.0+cu130 {PYTORCH}/cu130"


# --- rules -----------------------------------------------------------------------------------------


def test_the_package_indexs_own_build_is_preferred_where_the_version_changes() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_90"), driver="580.95.05", torch=None)
    choices, _ = builds.candidates(Situation(machine, MATRIX), machine.gpus)
    of_213 = [c for c in choices if c.version == "2.13.0"]
    assert (of_213[0].build, of_213[0].index_url, of_213[0].driver) == ("cu130", "", "serves")
    assert "CUDA 13.2" in fixes(machine)[0].title


def test_a_served_cuda_comes_before_minor_version_compatibility() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_86"), driver="570.133.07", torch=torch("2.9.1+cpu"))
    assert first(machine) == f"2.9.1+cu128 {PYTORCH}/cu128"  # not cu129, which 570 runs only by compatibility


def test_unknown_architecture_lists_are_never_proposed() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_120"), driver="575.57.08", torch=torch("2.13.0+cpu"))
    _, rejected = builds.candidates(Situation(machine, MATRIX), machine.gpus)
    reasons = {(r.torch, r.build): r.because for r in rejected}
    assert reasons["2.13.0", "cu129"] == "unknown"
    assert reasons["2.13.0", "cu130"] == "driver"
    assert reasons["2.13.0", "cu126"] == "code"
    assert first(machine).startswith("2.11.0+cu129")


def test_turing_is_given_a_build_whose_linalg_knows_it() -> None:
    machine = nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 2080", "sm_75"), torch=torch("2.13.0+cpu"))
    assert first(machine) == f"2.13.0+cu126 {PYTORCH}/cu126"


def test_a_python_without_wheels_is_answered_by_another_python() -> None:
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61"), torch=torch("2.15.0+cu132"), python="3.15"
    )
    fix = fixes(machine)[0]
    assert isinstance(fix.remedies[0], Manual)
    assert "Python 3.14 " in fix.remedies[0].text


def with_libc(machine: Machine, libc: str) -> Machine:
    return change(machine, system=change(machine.system, libc=known(libc, "confstr")))


def test_no_wheel_is_offered_that_the_c_library_cannot_load() -> None:
    machine = nvidia_machine(driver="580.95.05", torch=torch("2.9.1+cu128"))
    choices, rejected = builds.candidates(Situation(with_libc(machine, "glibc 2.17"), MATRIX), machine.gpus)
    assert {(choice.version, choice.build) for choice in choices} >= {("2.6.0", "cu124"), ("2.5.1", "cu121")}
    assert ("2.6.0", "cu126") not in {(choice.version, choice.build) for choice in choices}
    assert max(Version(choice.version) for choice in choices) == Version("2.6.0")
    why = next(row.why for row in rejected if (row.torch, row.build) == ("2.9.1", "cu128"))
    assert why == "needs glibc 2.28, and this system has glibc 2.17"
    assert first(with_libc(machine, "glibc 2.27")).startswith("2.6.0+cu124")
    assert first(with_libc(machine, "glibc 2.28")).startswith("2.9.1+")


def test_a_rocm_build_is_chosen_for_the_c_library_too() -> None:
    machine = with_libc(amd_machine(torch=torch("2.6.0+cpu")), "glibc 2.27")
    assert first(machine).startswith("2.6.0+rocm6.1")


def test_where_only_the_c_library_is_in_the_way_another_system_is_the_way_out() -> None:
    blackwell = nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120"), torch=torch("2.6.0+cu124"))
    fix = fixes(with_libc(blackwell, "glibc 2.17"))[0]
    assert "needs glibc 2.28, and this system has glibc 2.17" in texts(fix)
    musl = fixes(with_libc(blackwell, "musl"))
    assert "no torch wheel for musl" in texts(musl[0])
    assert not any(isinstance(remedy, ReplaceTorch) for fix in musl for remedy in fix.remedies)


def test_another_system_is_the_way_out_where_the_python_is_in_the_way_too() -> None:
    here = environment(torch("2.6.0+cu124"), python="3.6")
    machine = nvidia_machine(environment=known(here, here.source))
    assert "musl" in texts(fixes(with_libc(machine, "musl"))[0])


@pytest.mark.parametrize(
    ("os", "newest"),
    [
        (("centos", "7"), "2.6.0"),
        (("rhel", "7.9"), "2.6.0"),
        (("amzn", "2"), "2.6.0"),
        (("ubuntu", "18.04"), "2.6.0"),
        (("debian", "10"), "2.14.1"),
        (("rocky", "8.10"), "2.14.1"),
        (("amzn", "2023"), "2.14.1"),
        (("arch", ""), "2.14.1"),
        (("alpine", "3.20.3"), None),
    ],
)
def test_a_c_library_that_was_not_read_is_that_of_the_distribution(os: tuple[str, str], newest: str | None) -> None:
    here = system(os=known(Os(id=os[0], version=os[1]), "/etc/os-release"))
    choices, _ = builds.candidates(Situation(change(nvidia_machine(python="3.10"), system=here), MATRIX), ())
    found = max((Version(choice.version) for choice in choices), default=None)
    assert found == (Version(newest) if newest else None)


def test_an_own_row_without_its_glibc_is_not_refused(tmp_path: Path) -> None:
    overlay = tmp_path / "own.yaml"
    overlay.write_text(
        "torch_builds:\n  - version: 2.99.0\n    pythons: ['3.12']\n    rows:\n"
        "      - {build: cpu, origin: download.pytorch.org, platform: linux-x86_64, archs: []}\n"
    )
    own = load_matrix((str(overlay),))
    choices, _ = builds.candidates(Situation(with_libc(nvidia_machine(), "glibc 2.17"), own), ())
    assert "2.99.0" in {choice.version for choice in choices}


def test_where_only_the_driver_is_in_the_way_it_is_part_of_the_way_out() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_80"), driver="470.239.06", torch=torch("2.13.0+cpu"), python="3.14")
    driver, torch_ = fixes(machine)[0].remedies[:2]
    assert isinstance(driver, InstallDriver)
    assert int(driver.branch) >= 525
    assert isinstance(torch_, ReplaceTorch)


def test_a_driver_that_does_not_know_the_gpu_is_not_what_builds_are_chosen_for() -> None:
    gpu = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202")
    machine = nvidia_machine(gpu, driver="535.183.01", torch=torch("2.9.1+cpu"))
    assert first(machine) == f"2.9.1+cu130 {PYTORCH}/cu130"


def test_companions_pair_and_only_where_they_are_installed() -> None:
    gpu = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120")
    bare = nvidia_machine(gpu, driver="570.133.07", torch=torch("2.6.0+cu124"))
    both = nvidia_machine(
        gpu,
        driver="570.133.07",
        torch=torch("2.6.0+cu124"),
        packages={"torchvision": "0.21.0+cu124", "torchaudio": "2.6.0+cu124"},
    )
    assert fixes(bare)[0].remedies[0].companions == ()  # type: ignore[union-attr]
    assert fixes(both)[0].remedies[0].companions == (("torchvision", "0.22.0"), ("torchaudio", "2.7.0"))  # type: ignore[union-attr]


def test_an_installed_torchaudio_that_serves_later_torch_is_left_alone_where_the_index_has_none() -> None:
    packages = {"torchaudio": "2.11.0"}
    machine = nvidia_machine(
        nvidia_gpu(arch="sm_86"), driver="595.71.05", torch=torch("2.13.0+cpu"), packages=packages
    )
    remedy = fixes(machine)[0].remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert (remedy.build, remedy.companions) == ("cu132", ())


def test_with_an_unknown_driver_the_last_branch_of_the_gpu_is_the_limit() -> None:
    gpu = nvidia_gpu("Tesla K80", "sm_37")
    nothing = NvidiaStack(module=absent("x"))
    machine = nvidia_machine(gpu, torch=torch("2.1.2+cu121"), nvidia=nothing, load_path=LoadPath(), python="3.11")
    assert first(machine) == f"2.1.2+cu118 {PYTORCH}/cu118"
    _, rejected = builds.candidates(Situation(machine, MATRIX), (gpu,))
    assert {r.because for r in rejected if (r.torch, r.build) == ("2.1.2", "cu121")} == {"branch"}


def test_an_override_that_is_known_to_fail_on_a_rocm_is_offered_on_an_older_one() -> None:
    machine = amd_machine(amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.13.0+rocm7.2"), python="3.10")
    override = next(fix for fix in fixes(machine) if any(isinstance(r, SetVariable) for r in fix.remedies))
    assert replaced(override) == f"2.9.1+rocm6.4 {PYTORCH}/rocm6.4"


# --- several GPUs ---------------------------------------------------------------------------------


def test_a_mixed_box_gets_one_build_for_all_its_gpus() -> None:
    machine = nvidia_machine(
        nvidia_gpu("NVIDIA GeForce RTX 3090", "sm_86"),
        nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1),
        driver="570.133.07",
        torch=torch("2.6.0+cu124"),
    )
    assert first(machine) == f"2.7.0+cu128 {PYTORCH}/cu128"


def test_torch_is_chosen_for_the_gpus_of_the_driver_that_stays() -> None:
    pascal = nvidia_gpu("NVIDIA GeForce GTX 1080 Ti", "sm_61")
    blackwell = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1)
    kept = torch("2.9.1+cpu")
    newer = nvidia_machine(pascal, blackwell, driver="595.71.05", flavour="open", torch=kept)
    older = nvidia_machine(pascal, blackwell, driver="580.95.05", flavour="proprietary", torch=kept)
    assert builds.gpus_to_serve(Situation(newer, MATRIX), newer.gpus) == (blackwell,)
    assert builds.gpus_to_serve(Situation(older, MATRIX), older.gpus) == (pascal,)


def test_both_vendors_in_one_box_need_two_environments() -> None:
    machine = change(
        nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 4090"), torch=torch("2.13.0+cpu")),
        gpus=(nvidia_gpu("NVIDIA GeForce RTX 4090"), amd_gpu("AMD Radeon RX 7900 XTX")),
    )
    told = fixes(machine)[0].remedies[0]
    assert isinstance(told, Manual)
    assert "cu130" in told.text
    assert "rocm7.2" in told.text


def test_integrated_and_display_gpus_do_not_drag_the_choice_down() -> None:
    integrated = amd_gpu("AMD Radeon Graphics", "gfx1036", index=1, integrated=True)
    display = nvidia_gpu("NVIDIA GeForce GT 1030", "sm_61", boot_vga=True)
    hopeless = nvidia_gpu("NVIDIA GeForce GT 710", "sm_35")
    gpu = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", index=1)
    radeon = amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100")
    box = nvidia_machine(gpu)
    assert builds.gpus_to_serve(Situation(box, MATRIX), (radeon, integrated)) == (radeon,)
    assert builds.gpus_to_serve(Situation(box, MATRIX), (integrated,)) == (integrated,)
    assert builds.gpus_to_serve(Situation(box, MATRIX), (display, gpu)) == (gpu,)
    assert builds.gpus_to_serve(Situation(box, MATRIX), (hopeless, gpu)) == (gpu,)


def test_gpus_of_two_generations_get_overrides_by_node() -> None:
    machine = amd_machine(
        amd_gpu("AMD Radeon RX 7900 XTX", "gfx1100"),
        amd_gpu("AMD Radeon RX 6700 XT", "gfx1031", index=1),
        torch=torch("2.9.1+rocm6.4"),
        python="3.10",
    )
    variables = [r for fix in fixes(machine) for r in fix.remedies if isinstance(r, SetVariable)]
    assert [(v.name, v.value) for v in variables] == [("HSA_OVERRIDE_GFX_VERSION_2", "10.3.0")]


# --- other places ----------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["ngc", "jetson"])
def test_no_wheel_is_put_where_wheels_are_wrong(origin: str) -> None:
    patient = change(torch("2.9.0a0+145a3a7bda.nv25.10"), origin=origin, build=None, cuda="13.0")
    machine = nvidia_machine(nvidia_gpu(arch="sm_61"), torch=patient)
    assert all(isinstance(r, Manual) for fix in fixes(machine)[:1] for r in fix.remedies)
    if origin == "ngc":
        assert not any(isinstance(r, ReplaceTorch) for fix in fixes(machine) for r in fix.remedies)


def test_jetson_is_sent_to_nvidias_own_wheels() -> None:
    board = system(
        arch=known("aarch64", "uname"), jetson=known(Jetson(model="Orin NX", l4t="36.4.3"), "/proc/device-tree")
    )
    gpu = nvidia_gpu("Orin", "sm_87", integrated=True)
    machine = nvidia_machine(gpu, torch=torch("2.9.1+cpu"), system=board)
    assert [type(r) for fix in fixes(machine) for r in fix.remedies] == [Manual]
    assert "36.4.3" in fixes(machine)[0].remedies[0].text  # type: ignore[union-attr]


def test_a_thor_takes_the_wheel_of_the_index_whose_triton_knows_it() -> None:
    board = system(
        arch=known("aarch64", "uname"), jetson=known(Jetson(model="AGX Thor", l4t="38.2"), "/proc/device-tree")
    )
    machine = nvidia_machine(nvidia_gpu("Thor", "sm_110"), torch=torch("2.10.0+cpu"), system=board)
    (fix,) = fixes(machine)
    assert fix.title.startswith("Replace torch 2.10.0+cpu with torch 2.12.0")
    assert "not 2.10.0+cu130: known issue pytorch/pytorch#170117" in fix.title


def test_conda_stays_conda_and_names_the_cuda_that_gpu_and_driver_take() -> None:
    patient = change(torch("2.9.1"), origin="conda-forge", build="cpu")
    machine = nvidia_machine(nvidia_gpu(arch="sm_120"), driver="570.133.07", torch=patient)
    remedy = fixes(machine)[0].remedies[0]
    assert isinstance(remedy, ReplaceTorch)
    assert (remedy.origin, remedy.version, remedy.build) == ("conda-forge", "2.9.1", "cuda-version>=12.8,<13")


def test_nix_is_configured_not_installed_into() -> None:
    machine = nvidia_machine(nvidia_gpu(), torch=torch("2.9.1+cpu"))
    nix = change(
        environment(torch("2.9.1+cpu")), interpreter="/nix/store/abc-python3/bin/python3", prefix="/nix/store/abc"
    )
    machine = change(machine, environment=known(nix, "x"), system=system(os=known(Os(id="nixos"), "x")))
    assert [type(r) for fix in fixes(machine) for r in fix.remedies] == [Manual]


# --- what is carried -------------------------------------------------------------------------------


def test_files_are_believed_before_the_matrix() -> None:
    read = change(
        torch("2.9.1+cu128"), archs=known(CodeArchs(sass=("sm_80",), partial=("sm_90a",)), "libtorch_cuda.so")
    )
    machine = nvidia_machine(nvidia_gpu(arch="sm_120"), torch=read)
    carried = carries(Situation(machine, MATRIX), machine.gpus[0])
    assert (carried.runs, carried.source, carried.code) == ("no", "libtorch_cuda.so", ("sm_80",))
    assert "2.9.1+cu128" not in first(machine), "the installed build is no way out of its own fault"


def test_without_files_the_matrix_is_asked_and_says_so() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_120"), torch=torch("2.9.1+cu128"))
    carried = carries(Situation(machine, MATRIX), machine.gpus[0])
    assert carried.runs == "yes"
    assert carried.source.startswith("compat_matrix: torch 2.9.1 cu128")


def test_an_unknown_build_is_unknown_not_broken() -> None:
    source = change(torch("2.9.0a0+git1234567"), build=None, cuda="12.8", origin="source")
    machine = nvidia_machine(nvidia_gpu(arch="sm_61"), torch=source)
    assert carries(Situation(machine, MATRIX), machine.gpus[0]).runs == "unknown"


@pytest.mark.parametrize(("driver", "runs"), [("580.95.05", "yes"), ("575.57.08", "no")])
def test_ptx_counts_only_for_a_driver_that_can_compile_it(driver: str, runs: str) -> None:
    ptx = change(torch("2.9.1+cu130"), archs=known(CodeArchs(ptx=("compute_80",)), "libtorch_cuda.so"))
    machine = nvidia_machine(nvidia_gpu(arch="sm_89"), driver=driver, torch=ptx)
    assert carries(Situation(machine, MATRIX), machine.gpus[0]).runs == runs


@pytest.mark.parametrize(
    ("variables", "runs", "via"),
    [
        ({}, "no", None),
        ({"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, "yes", "10.3.0"),
        ({"HSA_OVERRIDE_GFX_VERSION_1": "10.3.0"}, "yes", "10.3.0"),
        ({"HSA_OVERRIDE_GFX_VERSION_0": "10.3.0"}, "no", None),  # node 0 is the CPU
        ({"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}, "no", "11.0.0"),  # carried, but of another generation
        ({"HSA_OVERRIDE_GFX_VERSION": ""}, "no", None),
    ],
)
def test_overrides_are_taken_into_account(variables: dict[str, str], runs: str, via: str | None) -> None:
    machine = amd_machine(
        amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"), torch=torch("2.9.1+rocm6.4"), variables=variables
    )
    carried = carries(Situation(machine, MATRIX), machine.gpus[0])
    assert (carried.runs, carried.via_override) == (runs, via)


def test_a_multi_arch_host_wheel_is_known_by_its_device_wheels() -> None:
    patient = change(torch("2.12.0+rocm7.14.0"), origin="amd", archs=known(CodeArchs(), "libtorch_hip.so"))
    gpu = amd_gpu("AMD Radeon RX 6700 XT", "gfx1031")
    bare = amd_machine(gpu, torch=patient)
    device = {"amd-torch-device-gfx1031": "2.12.0+rocm7.14.0"}
    assert carries(Situation(bare, MATRIX), gpu).runs == "unknown"
    assert carries(Situation(amd_machine(gpu, torch=patient, packages=device), MATRIX), gpu).runs == "yes"


def test_a_native_build_takes_the_override_away() -> None:
    machine = amd_machine(
        amd_gpu("AMD Radeon RX 6700 XT", "gfx1031"),
        torch=torch("2.9.1+rocm6.4"),
        variables={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
    )
    assert [r.name for r in fixes(machine)[0].remedies if isinstance(r, UnsetVariable)] == [
        "HSA_OVERRIDE_GFX_VERSION"
    ]
    assert not any("+cpu" in fix.title for fix in fixes(machine)), "what works is not moved to the CPU"


# --- drivers ---------------------------------------------------------------------------------------


def test_cuda_compat_counts_where_the_gpu_is_eligible() -> None:
    compat = Library(
        name="libcuda.so.1", path="/usr/local/cuda/compat/libcuda.so.1", version="580.65.06", kind="compat"
    )
    load_path = LoadPath(found=(compat,), searched=("/usr/local/cuda/compat",))
    data_centre = nvidia_machine(
        nvidia_gpu("NVIDIA H100", "sm_90", datacenter=True), driver="550.54.15", load_path=load_path
    )
    desktop = nvidia_machine(nvidia_gpu(), driver="550.54.15", load_path=load_path)
    assert driver_verdict(Situation(data_centre, MATRIX), "13.0") == "serves"
    assert driver_verdict(Situation(desktop, MATRIX), "13.0") == "too-old"


def test_under_wsl_the_cuda_that_the_driver_names_counts_not_the_number_of_windows() -> None:
    api = NvidiaApi(status=0, driver_version="572.61", cuda_version="12.8", devices=())
    machine = nvidia_machine(
        nvidia_gpu(), nvidia=NvidiaStack(nvml=known(api, "nvml")), system=system(wsl=known("5.15", "uname"))
    )
    verdicts = [driver_verdict(Situation(machine, MATRIX), cuda) for cuda in ("12.6", "12.8", "12.9", "13.0")]
    assert verdicts == ["serves", "serves", "minor-version", "too-old"]


def test_no_driver_known_is_unknown() -> None:
    machine = nvidia_machine(nvidia_gpu(), nvidia=NvidiaStack(module=absent("x")), load_path=LoadPath())
    assert driver_verdict(Situation(machine, MATRIX), "12.8") == "unknown"


# --- for any GPU, driver and Python ---------------------------------------------------------------

CAPABILITIES = sorted(
    {f"sm_{row.capability.replace('.', '')}" for row in MATRIX.tables.capabilities if not row.tegra}
)
TARGETS = sorted(row.gfx for row in MATRIX.tables.gfx_targets)
DRIVERS = ["450.80.02", "470.239.06", "525.60.13", "535.183.01", "550.54.15", "560.35.03", "570.133.07", "575.57.08"]
DRIVERS += ["580.65.06", "580.95.05", "590.48.01", "595.71.05", "610.43.02"]
PYTHONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.13t", "3.14", "3.15"]
KEPT = ["1.13.1+cu117", "2.1.2+cu121", "2.6.0+cu124", "2.9.1+cu128", "2.13.0+cpu", "2.13.0+cu130", "2.15.0+cu132"]
KEPT_ROCM = ["2.0.1+rocm5.4.2", "2.6.0+rocm6.2.4", "2.9.1+rocm6.4", "2.13.0+rocm7.2", "2.14.1+rocm7.14", "2.13.0+cpu"]


def row_of(remedy: ReplaceTorch):  # type: ignore[no-untyped-def]
    rows = [
        row
        for row in MATRIX.torch.builds(X86)
        if (row.version, row.build, row.origin) == (remedy.version, remedy.build, remedy.origin)
    ]
    assert len(rows) == 1, f"no such build: {remedy}"
    return rows[0]


@settings(max_examples=80)
@given(
    st.lists(st.sampled_from(CAPABILITIES), min_size=1, max_size=2, unique=True),
    st.sampled_from(DRIVERS),
    st.sampled_from(PYTHONS),
    st.sampled_from(KEPT),
)
def test_each_cuda_build_that_is_proposed_runs_here(sms: list[str], driver: str, python: str, kept: str) -> None:
    gpus = tuple(nvidia_gpu(f"GPU {sm}", sm, index=i) for i, sm in enumerate(sms))
    flavour = next(iter(flavours_serving(MATRIX, gpus)), "open")
    machine = nvidia_machine(*gpus, driver=driver, flavour=flavour, torch=torch(kept), python=python)
    found = builds.replacements(Situation(machine, MATRIX), gpus, keep=machine.torch)
    assert found
    assert all(fix.remedies and fix.title for fix in found)
    for fix in found:
        remedy = next((r for r in fix.remedies if isinstance(r, ReplaceTorch)), None)
        if remedy is None or remedy.build == "cpu":
            continue
        row = row_of(remedy)
        assert python in row.pythons
        assert all(cuda_runs(sm, row.archs, row.ptx or ()).runs == "yes" for sm in sms)
        new = next((r for r in fix.remedies if isinstance(r, InstallDriver)), None)
        if new is None and not any(refusal(Situation(machine, MATRIX), gpu) for gpu in gpus):
            assert MATRIX.nvidia.driver_for_cuda(driver, row.cuda) in ("serves", "minor-version")
        for sm in sms:
            last = MATRIX.nvidia.last_branch(sm)
            assert last is None or MATRIX.nvidia.driver_for_cuda(f"{last}.999", row.cuda) != "too-old"


@settings(max_examples=80)
@given(st.sampled_from(TARGETS), st.sampled_from(PYTHONS), st.sampled_from(KEPT_ROCM))
def test_each_rocm_build_that_is_proposed_runs_here(gfx: str, python: str, kept: str) -> None:
    gpu = amd_gpu(f"GPU {gfx}", gfx)
    machine = amd_machine(gpu, torch=torch(kept), python=python)
    for fix in builds.replacements(Situation(machine, MATRIX), (gpu,), keep=machine.torch):
        remedy = next((r for r in fix.remedies if isinstance(r, ReplaceTorch)), None)
        override = next((r for r in fix.remedies if isinstance(r, SetVariable)), None)
        seen = gfx
        if override is not None:
            policy = MATRIX.amd.override(gfx)
            assert policy is not None and policy.safety in ("safe-class", "risky")
            assert override.value == policy.value
            seen = MATRIX.amd.gfx_of_override(override.value) or ""
            assert seen[:-1] == gfx[:-1], "never across generations"
        if remedy is None or remedy.build == "cpu":
            continue
        row = row_of(remedy)
        assert python in row.pythons
        if remedy.extra:
            target = MATRIX.gpus.target(gfx)
            assert target is not None and target.device_extra
            assert remedy.extra == f"device-{gfx}"
        else:
            target = MATRIX.gpus.target(seen)
            assert gfx_runs(seen, row.archs, target.generic if target else ()).runs == "yes"
            assert seen in MATRIX.amd.blas(row.rocm).rocblas


@settings(max_examples=40)
@given(st.sampled_from(CAPABILITIES), st.sampled_from(DRIVERS), st.sampled_from(PYTHONS), st.sampled_from(KEPT))
def test_the_version_is_kept_where_a_build_of_it_serves(sm: str, driver: str, python: str, kept: str) -> None:
    gpu = nvidia_gpu(f"GPU {sm}", sm)
    machine = nvidia_machine(gpu, driver=driver, torch=torch(kept), python=python)
    choices, _ = builds.candidates(Situation(machine, MATRIX), (gpu,))
    public = Version(kept).public
    offered = next(
        (
            r
            for r in builds.replacements(Situation(machine, MATRIX), (gpu,), keep=machine.torch)[0].remedies
            if isinstance(r, ReplaceTorch)
        ),
        None,
    )
    if not choices:
        return
    assert offered is not None
    sound = [c for c in choices if not c.fault] or choices
    versions = sorted({Version(c.version) for c in sound})
    installed = Version(public)
    if installed in versions:
        usable = [c for c in sound if c.version == public]
        assert Version(offered.version) == installed or all(c.build == machine.torch.build for c in usable)  # type: ignore[union-attr]
    elif any(v > installed for v in versions):
        assert Version(offered.version) == min(v for v in versions if v > installed)
    else:
        assert Version(offered.version) == versions[-1]


STRIX_HALO = amd_gpu("AMD Radeon 8060S", "gfx1151", integrated=True)


def test_a_build_with_a_known_fault_on_the_gpu_is_passed_over_and_that_is_said() -> None:
    machine = amd_machine(STRIX_HALO, torch=torch("2.7.1+rocm6.3"))
    assert first(machine) == f"2.11.0+rocm7.2 {PYTORCH}/rocm7.2"
    title = builds.replacements(Situation(machine, MATRIX), machine.gpus, keep=machine.torch)[0].title
    assert "not 2.10.0+rocm7.1" in title and "ROCm/TheRock#2991" in title
    # On another GPU of that generation nothing speaks against it.
    point = change(machine, gpus=(amd_gpu("AMD Radeon 890M", "gfx1150", integrated=True),))
    assert first(point) == f"2.10.0+rocm7.1 {PYTORCH}/rocm7.1"


def test_a_known_fault_of_a_cuda_build_counts_as_one_of_a_rocm_build_does() -> None:
    """torch 2.9 brings Triton 3.5, whose ptxas does not know a B300."""
    machine = nvidia_machine(nvidia_gpu("NVIDIA B300", "sm_103"), torch=torch("2.9.1+cpu"))
    assert first(machine).startswith("2.10.0+cu130")
    with_ptxas = change(machine, variables={"TRITON_PTXAS_PATH": "/usr/local/cuda-13.0/bin/ptxas"})
    assert first(with_ptxas).startswith("2.9.1+cu130")


def test_where_every_build_has_a_known_fault_the_nearest_is_still_offered() -> None:
    machine = amd_machine(STRIX_HALO, torch=torch("2.7.1+rocm6.3"))
    row = next(row for row in MATRIX.tables.known_issues if row.id == "amd-gfx1151-vgpr-count")
    always = change(row, when=change(row.when, rocm=">=6"))
    matrix = Matrix(change(MATRIX.tables, known_issues=(always,)))
    fix = builds.replacements(Situation(machine, matrix), machine.gpus, keep=machine.torch)[0]
    assert fix.title.startswith(
        "Replace torch 2.7.1+rocm6.3 with torch 2.10.0+rocm7.1 (gfx1151; known issue: the runtime"
    )


def test_a_fault_that_only_the_new_kind_of_build_has_is_not_bought_with_the_kept_release() -> None:
    """torch 2.4.0 computes some attention wrongly with every ROCm. Its CPU build does not: who comes from there gets
    the next release, and no plan that says afterwards to use another one."""
    kept = amd_machine(torch=torch("2.4.0+cpu"))
    assert first(kept).startswith("2.4.1+rocm6.1")
    title = builds.replacements(Situation(kept, MATRIX), kept.gpus, keep=kept.torch)[0].title
    assert "2.4.0+rocm6.1" in title and "pytorch/pytorch#132004" in title
    # Whoever must change the release anyway gets one without such a fault: 2.2 to 2.4.0 have one.
    assert first(amd_machine(torch=torch("1.13.1+cpu"), python="3.12")).startswith("2.4.1+rocm6.1")


def test_keeping_takes_a_torch_and_nothing_else_from_the_wrong_build() -> None:
    gpu = nvidia_gpu(arch="sm_86")
    from_cpu, from_rocm = (
        nvidia_machine(gpu, driver="570.133.07", torch=torch(v)) for v in ("2.9.1+cpu", "2.9.1+rocm6.4")
    )
    assert first(from_cpu) == first(from_rocm)


def test_replacements_without_a_torch_give_the_newest_that_serves() -> None:
    machine = nvidia_machine(nvidia_gpu(arch="sm_60"), driver="550.54.15", torch=None)
    assert first(machine) == f"2.14.1+cu126 {PYTORCH}/cu126"
