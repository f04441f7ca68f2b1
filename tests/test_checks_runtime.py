"""Driver and CUDA, the libcuda that is loaded, libraries in the way, ROCm and its kernel driver."""

from __future__ import annotations

import shlex

import pytest

from gpudoctor.finding import UnsetVariable
from gpudoctor.machine import (
    NO_GLIBCXX,
    DamagedFile,
    ImportTrial,
    Jetson,
    Library,
    LoadPath,
    MissingSymbols,
    NvidiaApi,
    NvmlDevice,
    Smoke,
    SmokeKernel,
    absent,
    known,
    unknown,
)
from gpudoctor.planner.effects import effect
from gpudoctor.render.plan import Around, plan_lines
from gpudoctor.situation import Situation
from tests.support.check_cases import found, matrix
from tests.support.judging import finding, fixes, judged, plan_of, questions, remedies, severity, told
from tests.support.machines import (
    LIB,
    amd_gpu,
    amd_machine,
    change,
    environment,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_stack,
    with_system,
    with_torch,
)

RTX_5090 = nvidia_gpu("NVIDIA GeForce RTX 5090", "sm_120", chip="GB202")
H100 = nvidia_gpu("NVIDIA H100 80GB HBM3", "sm_90", datacenter=True)
GTX_1080 = nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61")
OWN = known(
    environment(torch(), packages={"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nvjitlink-cu12": "12.8.93"}), "/venv"
)


def loads(machine, path, *, kind="driver", version=None, via="LD_LIBRARY_PATH"):
    """The machine with another libcuda before the driver's own."""
    library = Library(name="libcuda.so.1", path=path, version=version, kind=kind, via=via)
    found = (library, *machine.load_path.found)
    variables = {**machine.variables, via: path.rpartition("/")[0]} if via == "LD_LIBRARY_PATH" else machine.variables
    return change(machine, load_path=change(machine.load_path, found=found), variables=variables)


# --- driver and CUDA ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "driver", "build", "weight"),
    [
        (RTX_5090, "570.133.07", "2.13.0+cu130", "error"),
        (RTX_5090, "570.133.07", "2.9.1+cu128", None),
        (RTX_5090, "580.95.05", "2.13.0+cu130", None),
        (nvidia_gpu(), "470.256.02", "2.6.0+cu124", "error"),
        (nvidia_gpu(), "525.60.13", "2.6.0+cu124", "note"),
        (nvidia_gpu(), "525.53", "2.6.0+cu124", "error"),
        (nvidia_gpu(), "535.183.01", "2.6.0+cu124", "note"),
        (nvidia_gpu(), "550.54.14", "2.6.0+cu124", None),
        (nvidia_gpu(), "570.133.07", "2.9.1+cu128", None),
    ],
)
def test_the_driver_is_held_against_the_cuda_of_torch(gpu, driver, build, weight):
    assert severity(nvidia_machine(gpu, driver=driver, torch=torch(build)), "driver-too-old") == weight


def test_a_build_that_the_present_driver_runs_comes_before_another_driver():
    bare = nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.13.0+cu130"))
    inside = change(bare, system=with_system(bare, container=known("docker", "/.dockerenv")).system)
    assert [fix[0].split()[0] for fix in fixes(bare, "driver-too-old")] == ["torch", "InstallDriver"]
    assert remedies(bare, "driver-too-old", 1)[0] == "InstallDriver 580"
    assert [fix[0].split()[0] for fix in fixes(inside, "driver-too-old")] == ["torch", "Manual"]
    assert "host" in finding(inside, "driver-too-old").fixes[1].title


def test_the_build_of_the_way_out_runs_on_the_present_driver():
    bare = nvidia_machine(RTX_5090, driver="570.133.07", torch=torch("2.13.0+cu130"))
    assert remedies(bare, "driver-too-old") == ["torch 2.11.0+cu128"]


def test_no_driver_is_offered_beyond_the_last_branch_of_the_gpu():
    kepler = nvidia_gpu("Tesla K80", "sm_37", datacenter=True)
    old = nvidia_machine(kepler, driver="450.51.05", flavour="proprietary", torch=torch("2.1.2+cu118"), python="3.10")
    offered = [step for fix in fixes(old, "driver-too-old") for step in fix]
    assert "InstallDriver 470" in offered
    assert not [step for step in offered if step.startswith("InstallDriver 5")]


def test_a_build_without_code_for_the_gpu_is_the_fault_and_not_the_driver():
    pascal = nvidia_machine(GTX_1080, driver="535.183.01", flavour="proprietary", torch=torch("2.13.0+cu130"))
    assert told(pascal) == [("torch-dropped-old-gpu", "error")]
    assert remedies(pascal, "torch-dropped-old-gpu") == ["torch 2.13.0+cu126"]


def test_a_driver_older_than_the_gpu_is_an_error_whatever_torch_needs():
    early = nvidia_machine(RTX_5090, driver="550.163.01", torch=torch("2.9.1+cu128"))
    assert severity(early, "driver-too-old") == "error"
    answered = change(RTX_5090, nvml=NvmlDevice(index=0, capability="12.0"))
    assert severity(nvidia_machine(answered, driver="550.163.01"), "driver-too-old") != "error"


def test_a_gpu_that_an_older_driver_leaves_alone():
    unbound = change(RTX_5090, driver=absent("driver"))
    machine = nvidia_machine(unbound, driver="550.163.01", torch=torch("2.9.1+cu128"))
    assert told(machine)[0] == ("driver-too-old", "error")
    assert severity(nvidia_machine(unbound, driver="580.95.05"), "driver-too-old") is None


def test_cuda_compat_raises_the_driver_of_a_data_centre_gpu():
    old = nvidia_machine(H100, driver="550.163.01", torch=torch("2.14.1+cu130"))
    assert severity(old, "driver-too-old") == "error"
    raised = loads(old, "/usr/local/cuda/compat/libcuda.so.1", kind="compat", version="580.82.07")
    assert told(raised) == []


def test_an_unknown_driver_is_not_judged_and_matters():
    hidden = with_stack(nvidia_machine(), module=unknown("not recorded"), userland=unknown("not recorded"))
    assert severity(hidden, "driver-too-old") is None
    assert [question.id for question in questions(hidden)] == ["GPD301"]


def wsl(cuda: str, driver: str = "560.94"):
    answer = known(NvidiaApi(status=0, driver_version=driver, cuda_version=cuda, devices=()), "nvidia-smi")
    machine = nvidia_machine(torch=torch("2.9.1+cu126"))
    machine = with_stack(
        machine, module=absent("/proc"), userland=unknown("Windows"), smi=answer, nodes=known((), "/dev")
    )
    return with_system(machine, wsl=known("5.15.167.4-microsoft-standard-WSL2", "uname"))


def test_under_wsl_the_cuda_release_of_the_driver_counts_not_its_number():
    assert severity(wsl("12.6"), "driver-too-old") is None
    assert severity(wsl("12.2"), "driver-too-old") == "note"
    assert severity(wsl("11.8", "522.06"), "driver-too-old") == "error"
    # Another build of torch needs no reboot of Windows: it comes before Windows' driver.
    titles = [fix.title for fix in finding(wsl("11.8", "522.06"), "driver-too-old").fixes]
    assert "cu118" in titles[0]
    assert any("Windows" in title for title in titles)


def test_drivers_of_jetson_are_not_compared():
    orin = nvidia_gpu("NVIDIA Orin", "sm_87", integrated=True)
    machine = with_system(
        nvidia_machine(orin, driver="540.4.0", torch=torch("2.9.0+cu130", origin="jetson")),
        jetson=known(Jetson(model="Orin", l4t="36.4"), "/proc/device-tree"),
        arch=known("aarch64", "uname"),
    )
    assert severity(machine, "driver-too-old") is None
    assert not [question for question in questions(machine) if question.id == "GPD301"]


# --- libcuda -----------------------------------------------------------------------------------------


def test_cuda_compat_on_a_geforce_is_an_error_with_the_folder_taken_out():
    machine = loads(nvidia_machine(driver="550.163.01"), "/usr/local/cuda/compat/libcuda.so.1", kind="compat")
    machine = change(machine, variables={"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/opt/lib"})
    assert severity(machine, "cuda-compat-on-geforce") == "error"
    assert remedies(machine, "cuda-compat-on-geforce") == ["set LD_LIBRARY_PATH=/opt/lib"]


def test_the_driver_of_a_vgpu_comes_from_who_runs_the_hypervisor():
    """What serves the guest's own driver comes first; no package of a distribution drives a vGPU."""
    for name, lent in (("NVIDIA A10-24Q", True), ("GRID A100D-1-10C", True), ("NVIDIA A100-SXM4-80GB", False)):
        gpu = nvidia_gpu(name, "sm_86", datacenter=True)
        guest = nvidia_machine(gpu, driver="550.144.03", torch=torch("2.9.1+cu130"))
        fixes = finding(guest, "driver-too-old").fixes
        kinds = [type(fix.remedies[0]).__name__ for fix in fixes]
        assert kinds == ["ReplaceTorch", "Manual" if lent else "InstallDriver"]


def test_a_driver_that_is_too_old_without_cuda_compat_is_mended_together_with_it():
    """An NGC image for CUDA 13 on a GeForce with 550: without cuda-compat its own libcuda is too old."""
    machine = loads(
        nvidia_machine(driver="550.163.01", torch=torch("2.9.1+cu130")),
        "/usr/local/cuda/compat/libcuda.so.1",
        kind="compat",
    )
    machine = change(machine, variables={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"})
    inside = with_system(machine, container=known("docker", "/.dockerenv"))
    for there in (machine, inside):
        (fix, *_) = finding(there, "cuda-compat-on-geforce").fixes
        assert [type(remedy).__name__ for remedy in fix.remedies][:2] == ["UnsetVariable", "ReplaceTorch"]


def test_cuda_compat_that_is_not_first_or_that_works_is_silent():
    machine = nvidia_machine(driver="550.163.01")
    compat = Library(name="libcuda.so.1", path="/usr/local/cuda/compat/libcuda.so.1", kind="compat")
    behind = change(machine, load_path=change(machine.load_path, found=(*machine.load_path.found, compat)))
    assert severity(behind, "cuda-compat-on-geforce") is None
    works = known(NvidiaApi(status=0, cuda_version="12.8", devices=()), "libcuda")
    first = loads(machine, "/usr/local/cuda/compat/libcuda.so.1", kind="compat")
    assert severity(with_stack(first, cuda=works), "cuda-compat-on-geforce") is None


def test_whether_a_workstation_gpu_may_use_compat_is_left_open_until_the_driver_says():
    a6000 = nvidia_gpu("NVIDIA RTX A6000", "sm_86")
    machine = loads(nvidia_machine(a6000), "/usr/local/cuda/compat/libcuda.so.1", kind="compat")
    assert severity(machine, "cuda-compat-on-geforce") is None
    assert [question.id for question in questions(machine)] == ["GPD302"]
    refused = with_stack(machine, cuda=known(NvidiaApi(status=804, devices=()), "libcuda"))
    assert severity(refused, "cuda-compat-on-geforce") == "error"


def test_a_stub_before_the_driver_is_an_error_where_a_gpu_could_be_used():
    stub = "/usr/local/cuda/lib64/stubs/libcuda.so.1"
    assert remedies(loads(nvidia_machine(), stub, kind="stub"), "libcuda-stub") == ["unset LD_LIBRARY_PATH"]
    assert severity(loads(amd_machine(), stub, kind="stub"), "libcuda-stub") is None


@pytest.mark.parametrize(
    ("kind", "status", "slug"),
    [
        ("compat", 804, "cuda-compat-on-geforce"),
        ("compat", 803, "cuda-compat-on-geforce"),
        ("stub", 34, "libcuda-stub"),
    ],
)
def test_what_the_wrong_libcuda_answered_does_not_speak_against_taking_it_away(kind, status, slug):
    loaded = loads(nvidia_machine(), f"/usr/local/cuda/{kind}/libcuda.so.1", kind=kind)
    machine = with_stack(loaded, cuda=known(NvidiaApi(status=status), "libcuda"))
    assert remedies(machine, slug) == ["unset LD_LIBRARY_PATH"]


def test_what_cuda_answered_stays_where_the_same_libcuda_is_loaded_without_the_variable():
    answer = known(NvidiaApi(status=802), "libcuda")
    machine = with_stack(nvidia_machine(variables={"LD_LIBRARY_PATH": "/opt/lib"}), cuda=answer)
    assert effect(UnsetVariable("LD_LIBRARY_PATH"), Situation(machine, matrix())).machine.nvidia.cuda == answer


@pytest.mark.parametrize(("status", "slug"), [(804, "cuda-compat-on-geforce"), (34, "libcuda-stub")])
def test_cuda_names_the_library_that_the_load_path_did_not_show(status, slug):
    machine = with_stack(nvidia_machine(), cuda=known(NvidiaApi(status=status), "libcuda"))
    assert [(name, weight) for name, weight in told(machine) if weight == "error"] == [(slug, "error")]
    assert "load path" in finding(machine, slug).fixes[0].remedies[0].text


def test_a_library_of_the_loaders_cache_is_taken_out_of_its_configuration():
    machine = loads(nvidia_machine(), "/usr/local/cuda/compat/libcuda.so.1", kind="compat", via="ld.so.cache")
    assert "/etc/ld.so.conf.d" in finding(machine, "cuda-compat-on-geforce").fixes[0].remedies[0].text


# --- libraries in the way ------------------------------------------------------------------------------


def with_library(name, version, *, via="LD_LIBRARY_PATH", wins=None, build="2.9.1+cu128", packages=None):
    own = {
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-nvjitlink-cu12": "12.8.93",
        "nvidia-cublas-cu12": "12.8.4.1",
        "nvidia-nccl-cu12": "2.27.5",
    }
    folder = "/usr/local/cuda-12.4/lib64"
    library = Library(name=name, path=f"{folder}/{name}", version=version, kind="toolkit", via=via, wins=wins)
    machine = nvidia_machine(torch=torch(build), packages={**own, **(packages or {})}, variables={via: folder})
    return with_environment(machine, libraries=LoadPath(found=(library,), searched=(folder,)))


def test_an_older_nvjitlink_on_the_path_wins_over_the_wheels():
    old = with_library(
        "libnvJitLink.so.12", "12.4.127", build="2.5.1+cu124", packages={"nvidia-nvjitlink-cu12": "12.8.93"}
    )
    assert severity(old, "ld-library-path-shadow") == "error"
    assert remedies(old, "ld-library-path-shadow") == ["unset LD_LIBRARY_PATH"]
    preloaded = with_library("libnvJitLink.so.12", "12.4.127")
    assert severity(preloaded, "ld-library-path-shadow") == "warning"


@pytest.mark.parametrize(
    ("name", "version", "wins"),
    [
        ("libcublas.so.12", "12.1.3.1", None),
        ("libcublas.so.12", "12.1.3.1", False),
        ("libnvJitLink.so.12", "12.4.127", False),
        ("libnvJitLink.so.12", "12.8.61", True),
        ("libnvJitLink.so.12", "12.9.86", True),
        ("libcudnn.so.9", "9.1.0", False),
        ("libnccl.so.2", "2.19.3", False),
    ],
)
def test_a_toolkit_on_the_path_that_does_not_win_or_is_not_older_is_silent(name, version, wins):
    assert judged(with_library(name, version, wins=wins)).verdict == "ok"


def test_a_library_that_ld_preload_forces_in_wins():
    assert (
        severity(with_library("libcublas.so.12", "12.1.3.1", via="LD_PRELOAD"), "ld-library-path-shadow") == "error"
    )


def test_what_was_imported_and_works_is_not_called_shadowed():
    works = with_torch(
        with_library("libnvJitLink.so.12", "12.4.127", build="2.5.1+cu124"),
        trial=known(ImportTrial(ok=True), "child"),
    )
    assert severity(works, "ld-library-path-shadow") is None


NVJITLINK, CUSPARSE = "/old/libnvJitLink.so.12", "/venv/nvidia/cusparse/lib/libcusparse.so.12"
SUBLIBRARIES = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled")


def lacking(machine, library, path, needed_by, symbol, *, late=False):
    missing = MissingSymbols(library=library, path=path, needed_by=needed_by, symbols=(symbol,), late=late)
    return with_environment(machine, missing_symbols=(missing,))


def on_the_path(*names, version, folder="/old", packages=None):
    own = {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nvjitlink-cu12": "12.8.93", **(packages or {})}
    found = tuple(
        Library(name=name, path=f"{folder}/{name}", version=version, via="LD_LIBRARY_PATH", wins=True)
        for name in names
    )
    machine = nvidia_machine(packages=own, variables={"LD_LIBRARY_PATH": folder})
    return with_environment(machine, libraries=LoadPath(found=found, searched=(folder,)))


def test_a_library_that_lacks_what_another_needs_is_an_error_whatever_its_version():
    base = on_the_path("libnvJitLink.so.12", version=None)
    machine = lacking(base, "libnvJitLink.so.12", NVJITLINK, CUSPARSE, "__nvJitLinkCreate_12_8")
    problem = finding(machine, "ld-library-path-shadow")
    assert (problem.severity, problem.confidence) == ("error", "certain")
    assert "__nvJitLinkCreate_12_8: `import torch` fails" in problem.message
    assert remedies(machine, "ld-library-path-shadow") == ["unset LD_LIBRARY_PATH"]
    works = with_torch(machine, trial=known(ImportTrial(ok=True), "child"))
    assert severity(works, "ld-library-path-shadow") is None


def test_an_import_that_works_says_nothing_of_what_is_loaded_later():
    pins = ["nvidia-cusolver-cu12==11.7.3.90"]
    linalg = "/venv/torch/lib/libtorch_cuda_linalg.so"
    own = "/venv/nvidia/cusolver/lib/libcusolver.so.11"
    machine = pinned(pins, {"nvidia-cusolver-cu12": "11.4.5.107"})
    machine = lacking(machine, "libcusolver.so.11", own, linalg, "cusolverDnXsyevBatched", late=True)
    machine = with_torch(machine, trial=known(ImportTrial(ok=True), "child"))
    assert severity(machine, "ld-library-path-shadow") == "error"
    assert remedies(machine, "ld-library-path-shadow") == ["ReplacePackage nvidia-cusolver-cu12==11.7.3.90"]


def test_the_toolkit_package_pins_what_newer_releases_of_torch_need():
    machine = pinned([], {"nvidia-nvjitlink": "12.9.86", "cuda-toolkit": "13.0.2"})
    listed = machine.environment.value.distributions
    pins = ("nvidia-nvjitlink==13.0.88.*; extra == 'nvjitlink'",)
    own = tuple(change(d, requires=pins) if d.name == "cuda-toolkit" else d for d in listed.value)
    machine = with_environment(machine, distributions=known(own, listed.source))
    own_path = "/venv/nvidia/cu13/lib/libnvJitLink.so.13"
    machine = lacking(machine, "libnvJitLink.so.13", own_path, CUSPARSE, "__nvJitLinkCreate_13_0")
    assert remedies(machine, "ld-library-path-shadow") == ["ReplacePackage nvidia-nvjitlink==13.0.88.*"]


def sublibraries(*parts):
    return [f"libcudnn_{part}.so.9" for part in parts]


@pytest.mark.parametrize(
    ("parts", "version", "weight"),
    [
        (SUBLIBRARIES, "9.1.0", "error"),
        (SUBLIBRARIES, "9.10.2", None),
        (SUBLIBRARIES, "9.10.1.4", None),
        (SUBLIBRARIES, "9.23.2", None),
        (SUBLIBRARIES, None, None),
        (SUBLIBRARIES[:3], "9.23.2", "error"),
        (SUBLIBRARIES[:3], "9.10.2.21", None),
    ],
)
def test_sublibraries_of_another_cudnn_must_be_of_one_release_and_not_older(parts, version, weight):
    machine = on_the_path(*sublibraries(*parts), version=version)
    assert severity(machine, "cudnn-mismatch") == weight
    if weight:
        assert remedies(machine, "cudnn-mismatch") == ["unset LD_LIBRARY_PATH"]


def test_a_cudnn_of_unknown_version_that_lacks_functions_is_an_error():
    machine = lacking(
        on_the_path(*sublibraries(*SUBLIBRARIES), version=None),
        "libcudnn_graph.so.9", "/old/libcudnn_graph.so.9", "/venv/nvidia/cudnn/lib/libcudnn.so.9",
        "cudnnGetLibConfig", late=True,
    )  # fmt: skip
    assert "cudnnGetLibConfig is missing in it" in finding(machine, "cudnn-mismatch").message
    assert severity(machine, "ld-library-path-shadow") is None


def test_an_engine_that_only_a_systems_cudnn_has_is_a_mixture():
    machine = on_the_path(
        "libcudnn_engines_tensor_ir.so.9", version="9.23.2", packages={"nvidia-cudnn-cu12": "9.20.0.48"}
    )
    (library,) = machine.environment.value.libraries.found
    cached = change(library, via="ld.so.cache", path="/usr/lib/x86_64-linux-gnu/libcudnn_engines_tensor_ir.so.9")
    machine = with_environment(machine, libraries=LoadPath(found=(cached,)))
    assert severity(machine, "cudnn-mismatch") == "error"
    assert "package that /usr/lib/x86_64" in finding(machine, "cudnn-mismatch").fixes[0].remedies[0].text


def test_a_library_in_the_place_of_a_lost_file_is_no_mixture():
    cudnn = "nvidia-cudnn-cu12"
    machine = on_the_path("libcudnn_ops.so.9", version="9.14.0", packages={cudnn: "9.19.0.56"})
    assert severity(machine, "cudnn-mismatch") == "error"
    listed = machine.environment.value.distributions
    gone = (DamagedFile("/venv/nvidia/cudnn/lib/libcudnn_ops.so.9", "missing"),)
    cut = tuple(change(d, damaged=gone) if d.name == cudnn else d for d in listed.value)
    assert severity(with_environment(machine, distributions=known(cut, listed.source)), "cudnn-mismatch") is None


def test_a_mixture_that_computes_right_is_a_warning():
    machine = on_the_path("libcudnn_ops.so.9", version="9.14.0", packages={"nvidia-cudnn-cu12": "9.19.0.56"})
    right = Smoke("quick", kernels=(SmokeKernel("convolution", "cuda:0", "float16"),))
    assert severity(change(machine, smoke=right), "cudnn-mismatch") == "warning"
    failed = change(right, kernels=(*right.kernels, SmokeKernel("convolution", "cuda:0", "float32", status="error")))
    assert severity(change(machine, smoke=failed), "cudnn-mismatch") == "error"


def test_sublibraries_without_kernels_for_the_gpu_are_taken_off_the_path():
    machine = on_the_path(*sublibraries(*SUBLIBRARIES), version="9.15.1")
    volta = change(machine, gpus=(nvidia_gpu("Tesla V100", "sm_70"),))
    assert severity(volta, "cudnn-mismatch") == "error"
    assert remedies(volta, "cudnn-mismatch") == ["unset LD_LIBRARY_PATH"]


def test_an_older_library_that_has_all_that_is_needed_of_it_is_a_warning():
    machine = with_library("libcublas.so.12", "12.1.3.1", via="LD_PRELOAD", wins=True)
    assert severity(machine, "ld-library-path-shadow") == "warning"
    linker = with_library("libnvJitLink.so.12", "12.1.105", via="LD_PRELOAD", wins=True)
    assert severity(linker, "ld-library-path-shadow") == "error"


def pinned(requires, packages):
    machine = nvidia_machine(torch=torch("2.9.1", cuda="12.8", build="cu128"), packages=packages)
    listed = machine.environment.value.distributions
    own = tuple(change(d, requires=tuple(requires)) if d.name == "torch" else d for d in listed.value)
    return with_environment(machine, distributions=known(own, listed.source))


CUDNN_PIN = 'nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux"'
NCCL_PIN = 'nvidia-nccl-cu12==2.27.5; platform_system == "Linux"'


@pytest.mark.parametrize(
    ("version", "weight"),
    [("9.1.0.70", "error"), ("8.9.2.26", "error"), ("9.10.2.21", None), ("9.19.0.56", None), ("9.10.1.4", None)],
)
def test_cudnn_wheels_by_major_and_minor(version, weight):
    machine = pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": version})
    assert severity(machine, "cudnn-mismatch") == weight
    if weight:
        assert remedies(machine, "cudnn-mismatch") == ["ReplacePackage nvidia-cudnn-cu12==9.10.2.21"]


def test_the_cudnn_of_another_cuda_in_one_folder_is_removed_and_the_pinned_one_written_once_again():
    both = pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.28.1.4"})
    lines = [shlex.join(one.step.argv).partition(" pip ")[2] for one in plan_of(both).steps]
    assert lines == [
        "uninstall -y nvidia-cudnn-cu13",
        "install --force-reinstall --no-deps nvidia-cudnn-cu12==9.10.2.21",
    ]


def test_a_cudnn_on_the_path_that_really_wins():
    assert severity(with_library("libcudnn.so.9", "9.1.0", wins=True), "cudnn-mismatch") == "error"
    assert severity(with_library("libcudnn.so.9", "9.12.0", wins=True), "cudnn-mismatch") is None


def test_the_package_index_tells_the_cudnn_where_requirements_do_not():
    machine = nvidia_machine(
        torch=torch("2.0.1", cuda="11.7", build="cu117"), packages={"nvidia-cudnn-cu11": "8.2.4.15"}
    )
    assert severity(machine, "cudnn-mismatch") == "error"


@pytest.mark.parametrize(
    ("gpu", "cudnn", "weight"),
    [
        (("Tesla V100", "sm_70"), "9.11.0.98", "error"),
        (("Tesla V100", "sm_70"), "9.10.2.21", None),
        (("NVIDIA T4", "sm_75"), "9.26.0.51", None),
        (("NVIDIA B300", "sm_103"), "9.26.0.51", None),
    ],
)
def test_an_installed_cudnn_without_kernels_for_the_gpu_gives_way_to_the_pinned_one(gpu, cudnn, weight):
    """Someone takes a newer cuDNN for a bug fix: it no longer has code for a GPU that torch still serves."""
    machine = change(pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": cudnn}), gpus=(nvidia_gpu(*gpu),))
    assert severity(machine, "cudnn-mismatch") == weight
    if weight:
        assert remedies(machine, "cudnn-mismatch") == ["ReplacePackage nvidia-cudnn-cu12==9.10.2.21"]


@pytest.mark.parametrize(
    ("build", "pin"),
    [
        ("2.6.0+cu126", "9.5.1.17"),
        ("2.8.0+cu126", "9.10.2.21"),
        ("2.9.0+cu126", "9.10.2.21"),
        ("2.9.1+cu126", "9.10.2.21"),
    ],
)
def test_the_matrix_tells_the_cudnn_of_a_build_that_is_not_the_package_indexs_own(build, pin):
    volta = nvidia_machine(
        nvidia_gpu("Tesla V100", "sm_70"),
        flavour="proprietary",
        torch=torch(build),
        packages={"nvidia-cudnn-cu12": "9.16.0.29"},
    )
    assert remedies(volta, "cudnn-mismatch") == [f"ReplacePackage nvidia-cudnn-cu12=={pin}"]


@pytest.mark.parametrize(
    "packages",
    [{"jax-cuda12-plugin": "0.8.0"}, {"tensorflow": "2.19.0"}, {"onnxruntime-gpu": "1.22.0"}],
)
@pytest.mark.parametrize(
    ("gpu", "cudnn", "weight"),
    [
        (("Tesla V100", "sm_70"), "9.16.0.29", "error"),
        (("Tesla V100", "sm_70"), "9.10.2.21", None),
        (("NVIDIA T4", "sm_75"), "9.16.0.29", None),
    ],
)
def test_the_cudnn_of_another_framework_must_have_kernels_for_the_gpu(packages, gpu, cudnn, weight):
    machine = nvidia_machine(
        nvidia_gpu(*gpu), flavour="proprietary", torch=None, packages={**packages, "nvidia-cudnn-cu12": cudnn}
    )
    assert severity(machine, "cudnn-mismatch") == weight
    if weight:
        assert remedies(machine, "cudnn-mismatch") == ["ReplacePackage nvidia-cudnn-cu12<9.11"]


def test_a_cudnn_for_another_cuda_in_the_same_folder_is_a_warning_however_new_it_is():
    """Both put libcudnn.so.9 into nvidia/cudnn/lib; that of CUDA 13 then looks for libcublasLt.so.13."""
    both = pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.13.0.50"})
    both = with_torch(both, trial=known(ImportTrial(ok=True), "child"))
    assert next(slug for slug, weight in told(both) if weight == "warning") == "cudnn-mismatch"
    assert remedies(both, "cudnn-mismatch") == [
        "RemovePackage nvidia-cudnn-cu13",
        "ReinstallPackage nvidia-cudnn-cu129.10.2.21",
    ]
    apart = pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu11": "8.7.0.84"})
    assert not [slug for slug, weight in told(apart) if weight != "note"]


def test_a_cudnn_on_the_path_without_kernels_for_the_gpu_is_taken_off_it():
    volta = change(with_library("libcudnn.so.9", "9.15.1", wins=True), gpus=(nvidia_gpu("Tesla V100", "sm_70"),))
    assert severity(volta, "cudnn-mismatch") == "error"
    assert remedies(volta, "cudnn-mismatch") == ["unset LD_LIBRARY_PATH"]


def test_a_torch_whose_own_cudnn_dropped_the_gpu_is_replaced_by_the_last_that_had_it():
    kepler = nvidia_machine(
        nvidia_gpu("Tesla K80", "sm_37"), driver="470.239.06", flavour="proprietary", torch=torch("2.7.1+cu118")
    )
    assert severity(kepler, "cudnn-mismatch") == "error"
    (fix, *_) = finding(kepler, "cudnn-mismatch").fixes
    assert (fix.remedies[0].version, fix.remedies[0].build) == ("2.3.1", "cu118")
    assert severity(with_torch(kepler, version="2.3.1+cu118"), "cudnn-mismatch") is None


def test_a_pin_for_another_cuda_is_not_what_torch_loads():
    """A requirement for CUDA 12 beside a torch for CUDA 11: the cuDNN of its own release counts."""
    old = with_torch(pinned([CUDNN_PIN], {}), version="1.13.1+cu117", cuda="11.7", build="cu117")
    machine = change(old, gpus=(nvidia_gpu("Tesla K80", "sm_37"),))
    assert severity(machine, "cudnn-mismatch") is None


def test_the_cudnn_of_conda_is_held_below_the_one_that_dropped_the_gpu():
    volta = nvidia_machine(
        nvidia_gpu("Tesla V100", "sm_70"),
        flavour="proprietary",
        torch=torch("2.8.0", origin="conda-forge", build=None, cuda="12.9"),
        packages={"cudnn": "9.13.1.26"},
    )
    assert severity(volta, "cudnn-mismatch") == "error"
    assert "'cudnn<9.11'" in finding(volta, "cudnn-mismatch").fixes[0].remedies[0].text


def test_an_older_nccl_or_one_of_another_cuda_is_a_warning():
    older = pinned([NCCL_PIN], {"nvidia-nccl-cu12": "2.19.3"})
    assert severity(older, "nccl-shadowed") == "warning"
    mixed = pinned([NCCL_PIN], {"nvidia-nccl-cu12": "2.27.5", "nvidia-nccl-cu11": "2.14.3"})
    assert severity(mixed, "nccl-shadowed") == "warning"
    assert remedies(mixed, "nccl-shadowed") == [
        "RemovePackage nvidia-nccl-cu11",
        "ReinstallPackage nvidia-nccl-cu122.27.5",
    ]
    assert severity(pinned([NCCL_PIN], {"nvidia-nccl-cu12": "2.30.7"}), "nccl-shadowed") is None


def test_an_nvjitlink_wheel_older_than_torch_pins_is_an_error():
    pin = ["nvidia-nvjitlink-cu12==12.8.93"]
    assert severity(pinned(pin, {"nvidia-nvjitlink-cu12": "12.4.127"}), "ld-library-path-shadow") == "error"
    assert severity(pinned(pin, {"nvidia-nvjitlink-cu12": "12.9.86"}), "ld-library-path-shadow") is None
    cublas = pinned(["nvidia-cublas-cu12==12.8.4.1"], {"nvidia-cublas-cu12": "12.4.5.8"})
    assert severity(cublas, "ld-library-path-shadow") == "warning"


def test_images_and_own_builds_bring_their_own_libraries():
    for origin in ("ngc", "source", "conda-forge", "jetson"):
        machine = with_torch(with_library("libcudnn.so.9", "8.2.4", wins=True), origin=origin)
        assert severity(machine, "cudnn-mismatch") is None


def test_a_libstdcxx_that_lacks_what_torch_asks_for():
    def machine(there, **parts):
        return with_environment(
            with_torch(nvidia_machine(), needs_glibcxx=known("3.4.30", "libtorch_cpu.so")),
            libstdcxx=known(there, "/opt/conda/lib/libstdc++.so.6"),
            libstdcxx_path="/opt/conda/lib/libstdc++.so.6",
            **parts,
        )

    assert severity(machine("3.4.29"), "libstdcxx-too-old") == "error"
    assert severity(machine("3.4.9"), "libstdcxx-too-old") == "error"
    assert severity(machine("3.4.30"), "libstdcxx-too-old") is None
    assert "conda" in finding(machine("3.4.29", kind="conda"), "libstdcxx-too-old").fixes[0].title
    assert "no GLIBCXX" in finding(machine(NO_GLIBCXX), "libstdcxx-too-old").message
    for variable, value in (
        ("LD_LIBRARY_PATH", "/usr/lib/x:/opt/conda/lib"),
        ("LD_PRELOAD", "/usr/lib/libjemalloc.so.2 /opt/conda/lib/libstdc++.so.6"),
    ):
        led = change(machine("3.4.29", kind="conda"), variables={variable: value})
        assert variable in remedies(led, "libstdcxx-too-old")[0]


def test_an_older_libstdcxx_leaves_with_the_variable_that_brings_it():
    """A fix that would not help is not offered: the plan must know what unsetting the variable does."""
    machine = with_environment(
        with_torch(
            nvidia_machine(variables={"LD_LIBRARY_PATH": "/old"}), needs_glibcxx=known("3.4.30", "libtorch_cpu.so")
        ),
        libstdcxx=known("3.4.19", "/old/libstdc++.so.6"),
        libstdcxx_path="/old/libstdc++.so.6",
    )
    (problem,) = [one for one in judged(machine).findings if one.severity == "error"]
    assert [fix.remedies[0].name for fix in problem.fixes] == ["LD_LIBRARY_PATH"]


# --- ROCm and its kernel driver ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "build", "weight"),
    [
        ("in-tree", "2.9.1+rocm6.4", None),
        ("6.12.12", "2.9.1+rocm6.4", None),
        ("6.12.12", "2.9.1+rocm6.3", None),
        ("30.10", "2.10.0+rocm7.0", None),
        ("30.10", "2.6.0+rocm6.1", "error"),
        ("6.12.12", "2.4.1+rocm6.0", "error"),
        ("9.99.99", "2.9.1+rocm6.4", None),
    ],
)
def test_rocm_against_the_kernel_driver(module, build, weight):
    machine = with_stack(amd_machine(torch=torch(build)), module=known(module, "/sys/module/amdgpu/version"))
    assert severity(machine, "rocm-version-mismatch") == weight


@pytest.mark.parametrize(
    ("module", "build", "said"),
    [
        ("6.3.6", "2.14.1+rocm7.14", "that of ROCm 6.0.0"),
        ("5.18.13", "2.14.1+rocm7.14", "older than that of ROCm 6.0.0"),
        ("6.7.0", "2.14.1+rocm7.14", "that of ROCm 6.1.0"),
        ("6.7.8", "2.14.1+rocm7.14", "older than that of ROCm 6.2.0"),
        ("6.3.6", "2.4.1+rocm6.0", ""),
        ("6.7.0", "2.9.1+rocm6.3", ""),
        ("5.18.13", "2.1.0+rocm5.6", ""),
        ("6.16.6", "2.14.1+rocm7.14", ""),
    ],
)
def test_a_kernel_driver_whose_number_no_row_has_is_older_than_the_next_one(module, build, said):
    machine = with_stack(amd_machine(torch=torch(build)), module=known(module, "/sys/module/amdgpu/version"))
    problems = found(machine, "rocm-version-mismatch")
    assert [said in problem.message for problem in problems] == ([True] if said else [])
    for problem in problems if said.startswith("older") else ():
        assert [type(one).__name__ for one in problem.fixes[0].remedies] == ["InstallRocmDriver", "Reboot"]


def test_another_rocm_in_opt_is_normal_and_one_forced_by_ld_preload_is_not():
    def machine(via, wins):
        library = Library(name="libamdhip64.so.5", path="/opt/rocm/lib/libamdhip64.so.5", via=via, wins=wins)
        return with_environment(amd_machine(variables={via: "/opt/rocm/lib"}), libraries=LoadPath(found=(library,)))

    assert told(machine("LD_LIBRARY_PATH", False)) == []
    assert severity(machine("LD_PRELOAD", True), "rocm-version-mismatch") == "warning"


def test_a_machine_as_it_should_be_is_silent():
    for machine in (nvidia_machine(), amd_machine(), nvidia_machine(H100), amd_machine(amd_gpu("MI300X", "gfx942"))):
        assert (told(machine), questions(machine), judged(machine).verdict) == ([], [], "ok")
    assert LIB.startswith("/usr/lib")


def test_before_cuda_11_the_toolkits_own_driver_is_the_oldest():
    patient = torch("1.3.0", cuda="10.1", build="cu101")
    machine = nvidia_machine(nvidia_gpu("Tesla T4", "sm_75"), driver="410.104", flavour="proprietary", torch=patient)
    assert "CUDA 10.1 needs driver 418.39 or newer" in finding(machine, "driver-too-old").message


def test_a_risk_is_told_once_in_a_plan():
    both = pinned([CUDNN_PIN], {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu13": "9.28.1.4"})
    plan = plan_of(both)
    lines = ["".join(text for text, _ in line) for line in plan_lines(plan, (), Around("here", here=True))]
    assert len(plan.steps) == 2
    assert [line.split() for line in lines].count(
        ["risk", "packages", "of", "this", "environment", "are", "replaced"]
    ) == 1
