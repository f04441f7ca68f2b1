"""JAX, TensorFlow, ONNX Runtime and others: what is read of them, and what is judged by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpudoctor.engine import judge
from gpudoctor.finding import ReplacePackage
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Distribution, FrameworkFiles, Frameworks, PythonEnvironment, known, unknown
from gpudoctor.matrix.load import load_matrix
from gpudoctor.planner.effects import effect
from gpudoctor.planner.plan import fixes_for
from gpudoctor.probes.frameworks import FrameworkRows
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.requirement import OTHER_FRAMEWORKS, RequirementError, parse
from gpudoctor.situation import Situation
from gpudoctor.step import EnvStep, RunStep
from gpudoctor.suites import machine_checks
from tests.support.check_cases import found, remedies
from tests.support.codeobject_files import elf
from tests.support.environments import write_distribution, write_venv
from tests.support.judging import judged
from tests.support.machines import (
    amd_machine,
    change,
    no_gpu_machine,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_torch,
)

JAX_CPU = {"jax": "0.12.0.1", "jaxlib": "0.12.0.1"}
JAX_13 = {**JAX_CPU, "jax-cuda13-plugin": "0.12.0.1", "jax-cuda13-pjrt": "0.12.0.1"}
JAX_12 = {**JAX_CPU, "jax-cuda12-plugin": "0.12.0.1", "jax-cuda12-pjrt": "0.12.0.1"}
ORT_GPU = {"onnxruntime-gpu": "1.31.1"}
TF_RECORD = "tensorflow/python/platform/build_info.py"
ORT_RECORD = "onnxruntime/capi/build_and_package_info.py"


def machine(packages, *gpus, **parts):
    """An NVIDIA machine whose environment has no torch."""
    return nvidia_machine(*gpus, torch=None, packages=packages, **parts)


def with_files(patient, *files: FrameworkFiles):
    """The machine with what was read of its frameworks' files."""
    environment = patient.environment.value
    return with_environment(patient, frameworks=change(environment.frameworks, others=files))


def without(name: str, version: str, build: str, library: str) -> FrameworkFiles:
    """A framework's GPU build that does not find one of its libraries."""
    return FrameworkFiles(name, version=version, build=build, not_found=known((library,), "/site"), source="/site")


def errors(patient) -> list[str]:
    return [one.slug for one in judged(patient).findings if one.severity == "error"]


# --- what is read ------------------------------------------------------------------------------------------


def probed(root: Path, *distributions: tuple[str, str, dict[str, str]], **parts: Any):
    """The frameworks of a recorded venv with these distributions and their files."""
    return probed_environment(root, *distributions, **parts).frameworks


def probed_environment(
    root: Path,
    *distributions: tuple[str, str, dict[str, str]],
    wheels: tuple[str, ...] = (),
    libraries: dict[str, bytes] | None = None,
    variables: dict[str, str] | None = None,
) -> PythonEnvironment:
    site = write_venv(root / "venv")
    for name, version, files in distributions:
        write_distribution(site, name, version, files=files)
    for library, content in {**dict.fromkeys(wheels, b"\x7fELF"), **(libraries or {})}.items():
        (site / library).parent.mkdir(parents=True, exist_ok=True)
        (site / library).write_bytes(content)
    (root / "etc").mkdir()
    (root / "etc" / "ld.so.cache").write_bytes(b"")
    tables = load_matrix().tables
    host = RecordedHost(root, {"VIRTUAL_ENV": "/venv"})
    rows = FrameworkRows(tables.frameworks, tables.framework_builds, tables.framework_flags)
    environment = probe_environment(host, None, variables or {}, frameworks=rows).value
    assert environment is not None
    return environment


def test_of_two_packages_of_one_folder_the_files_tell_which_one_is_imported(tmp_path):
    record = "package_name = 'onnxruntime'\n__version__ = '1.32.0'\n"
    both = probed(tmp_path, ("onnxruntime-gpu", "1.31.1", {}), ("onnxruntime", "1.32.0", {ORT_RECORD: record}))
    read = both.files_of("onnxruntime")
    assert (read.owner, read.version, read.build) == ("onnxruntime", "1.32.0", "")


def test_the_record_of_a_gpu_build_tells_its_cuda(tmp_path):
    record = "package_name = 'onnxruntime-gpu'\n__version__ = '1.31.1'\ncuda_version = '12.8'\n"
    read = probed(tmp_path, ("onnxruntime-gpu", "1.31.1", {ORT_RECORD: record})).files_of("onnxruntime")
    assert (read.build, read.cuda) == ("onnxruntime-gpu", "12.8")


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("build_info = OrderedDict([('cuda_version', '12.5.1'), ('is_cuda_build', True)])", "tensorflow"),
        ("build_info = OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])", ""),
    ],
)
def test_tensorflow_says_itself_whether_it_is_a_gpu_build(tmp_path, text, build):
    read = probed(tmp_path, ("tensorflow", "2.21.0", {TF_RECORD: text})).files_of("tensorflow")
    assert read.build == build


def test_libraries_that_a_framework_opens_are_looked_for_in_nvidias_wheels(tmp_path):
    names = ("cu13/lib/libcublas.so.13", "cudnn/lib/libcudnn.so.9", "cu13/lib/libcufft.so.12")
    names += ("cu13/lib/libcusolver.so.12", "cu13/lib/libcusparse.so.12")
    packages = tuple((name, version, {}) for name, version in JAX_13.items())
    whole = probed(tmp_path / "a", *packages, wheels=tuple(f"nvidia/{name}" for name in names))
    assert whole.files_of("jax").not_found.value == ()


def test_what_no_matrix_row_names_is_not_read(tmp_path):
    assert probed(tmp_path, ("numpy", "2.3.0", {})) == Frameworks(torch=probed(tmp_path / "b").torch)


# --- whose GPUs it is for ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packages", "text"),
    [
        (JAX_CPU, "JAX 0.12.0.1 (CPU build)"),
        (JAX_13, "JAX 0.12.0.1 (CUDA 13)"),
        ({**JAX_CPU, "jax-rocm7-plugin": "0.12.0"}, "JAX 0.12.0.1 (ROCm 7)"),
        ({"onnxruntime-gpu": "1.26.0"}, "ONNX Runtime 1.26.0 (CUDA 12)"),
        ({"tensorflow-cpu": "2.21.0"}, "TensorFlow 2.21.0 (CPU build)"),
        ({"cupy-cuda12x": "14.2.0"}, "CuPy 14.2.0 (CUDA 12)"),
    ],
)
def test_a_framework_is_known_by_its_packages(packages, text):
    assert [one.text for one in Situation(machine(packages), load_matrix()).others] == [text]


@pytest.mark.parametrize("packages", [JAX_CPU, JAX_12, JAX_13, ORT_GPU, {"tensorflow": "2.21.0"}])
def test_an_environment_of_another_framework_is_told_nothing_of_torch(packages):
    assert "torch-missing" not in [one.slug for one in judged(machine(packages)).findings]


def test_without_a_gpu_a_gpu_build_is_a_problem_and_one_for_both_is_none():
    assert errors(
        with_environment(no_gpu_machine(), distributions=machine(JAX_13).environment.value.distributions)
    ) == ["no-gpu"]
    for packages in (JAX_CPU, {"tensorflow": "2.21.0"}, {"onnxruntime": "1.32.0"}, {"ctranslate2": "4.8.5"}):
        there = machine(packages).environment.value.distributions
        assert errors(with_environment(no_gpu_machine(), distributions=there)) == []


def test_a_variable_that_hides_every_gpu_is_an_error_for_jax_too():
    assert errors(machine(JAX_12, variables={"CUDA_VISIBLE_DEVICES": "-1"})) == ["cuda-visible-devices"]


# --- CPU builds ----------------------------------------------------------------------------------------------


def test_a_cpu_build_of_jax_on_a_gpu_machine_gets_the_build_that_the_driver_runs():
    finding = found(machine(JAX_CPU), "framework-cpu-only")[0]
    assert (finding.severity, finding.framework) == ("warning", "jax")
    first = finding.fixes[0].remedies[0]
    assert (first.name, first.extra, first.specifier) == ("jax", "cuda13", "==0.12.0.1")
    older = found(machine(JAX_CPU, driver="550.54.15"), "framework-cpu-only")[0]
    assert [fix.remedies[0].extra for fix in older.fixes] == ["cuda12"]


def test_a_gpu_too_old_for_cuda_13_gets_cuda_12():
    pascal = machine(JAX_CPU, nvidia_gpu("NVIDIA GeForce GTX 1080", "sm_61"))
    (fix,) = found(pascal, "framework-cpu-only")[0].fixes
    assert fix.remedies[-1].extra == "cuda12"
    assert (fix.remedies[0].name, fix.remedies[0].specifier) == ("nvidia-cudnn-cu12", "<9.11")


@pytest.mark.parametrize(
    ("packages", "new"),
    [
        ({"jax": "0.4.14", "jaxlib": "0.4.14"}, ("jax", "==0.6.2", "cuda12")),
        ({"jax": "0.5.0", "jaxlib": "0.5.0"}, ("jax", "==0.5.0", "cuda12")),
        ({"tensorflow-cpu": "2.10.1"}, ("tensorflow", "==2.21.0", "and-cuda")),
    ],
)
def test_a_release_before_all_gpu_builds_makes_way_for_the_newest_of_this_python(packages, new):
    fix = found(machine(packages, python="3.10"), "framework-cpu-only")[0].fixes[0]
    last = fix.remedies[-1]
    assert (last.name, last.specifier, last.extra) == new


@pytest.mark.parametrize("version", ["2.3.0", "2.4.1", "2.10.1", "2.14.1", "2.21.0"])
def test_the_tensorflow_of_the_index_is_for_gpus_since_2_1(version):
    assert found(machine({"tensorflow": version}), "framework-cpu-only") == []
    assert len(found(machine({"tensorflow-cpu": version}), "framework-cpu-only")) == 1


def test_beside_a_torch_that_uses_the_gpu_a_cpu_build_is_a_note():
    beside = nvidia_machine(packages=JAX_CPU)
    assert [one.severity for one in found(beside, "framework-cpu-only")] == ["note"]


@pytest.mark.parametrize(("requested", "severity"), [(True, "warning"), (False, "note"), (None, "note")])
def test_onnx_runtime_that_another_package_brought_is_a_note(requested, severity):
    files = FrameworkFiles("onnxruntime", version="1.32.0", owner="onnxruntime", requested=requested, source="/site")
    finding = found(with_files(machine({"onnxruntime": "1.32.0"}), files), "framework-cpu-only")[0]
    assert finding.severity == severity
    assert remedies(finding) == ["RemovePackage", "ReplacePackage"]
    assert finding.fixes[0].remedies[1].specifier == "==1.31.1"  # the newest of the GPU package


def test_no_build_of_onnx_runtime_has_code_for_a_gb10():
    gb10 = machine({"onnxruntime": "1.32.0"}, nvidia_gpu("NVIDIA GB10", "sm_121"))
    finding = found(gb10, "framework-cpu-only")[0]
    assert finding.severity == "note"


# --- libraries -----------------------------------------------------------------------------------------------


def test_jax_without_its_libraries_gets_them_by_its_extra():
    lacking = without("jax", "0.12.0.1", "jax-cuda12-plugin", "libcudnn.so.9")
    finding = found(with_files(machine(JAX_12), lacking), "framework-libraries-not-found")[0]
    assert (finding.severity, finding.framework) == ("error", "jax")
    assert finding.fixes[0].remedies[0].extra == "cuda12"
    whole = change(lacking, not_found=known((), "/site"))
    assert found(with_files(machine(JAX_12), whole), "framework-libraries-not-found") == []
    assert found(with_files(amd_machine(torch=None, packages=JAX_12), lacking), "framework-libraries-not-found") == []


def test_a_library_that_a_release_of_another_number_replaced_is_not_installed_again():
    """Two frameworks need cuDNNs of different majors: installing the present one again brings no libcudnn.so.8."""
    requires = ("nvidia-cudnn-cu12==9.1.0.70",)
    torch_26 = torch("2.6.0+cu126", cuda="12.6")
    packages = (
        Distribution("torch", "2.6.0+cu126", "/site/torch-2.6.0.dist-info", installer="pip", requires=requires),
        Distribution("tensorflow", "2.15.1", "/site/tensorflow-2.15.1.dist-info", installer="pip"),
        Distribution("nvidia-cudnn-cu12", "9.1.0.70", "/site/nvidia_cudnn_cu12-9.1.0.70.dist-info", installer="pip"),
    )
    patient = with_environment(nvidia_machine(torch=torch_26), distributions=known(packages, "/site"))
    lacking = without("tensorflow", "2.15.1", "tensorflow", "libcudnn.so.8")
    newer, alone = found(with_files(patient, lacking), "framework-libraries-not-found")[0].fixes
    assert (newer.remedies[-1].name, newer.remedies[-1].specifier) == ("tensorflow", "==2.21.0")
    assert "torch here requires nvidia-cudnn-cu12 9.1.0.70" in alone.remedies[0].text
    older = with_torch(patient, version="2.6.0+cu124", cuda="12.4", build="cu124")  # pins a cuBLAS older than 12.5
    assert found(with_files(older, lacking), "framework-libraries-not-found")[0].fixes == (alone,)


def test_another_release_does_not_find_the_libraries_either_that_both_open():
    lacking = without("ctranslate2", "4.4.0", "ctranslate2", "libcublas.so.12")
    patient = with_files(machine({"ctranslate2": "4.4.0"}), lacking)
    after = effect(ReplacePackage("ctranslate2", ">=4.5"), Situation(patient, load_matrix())).machine
    assert [one.slug for one in judged(after).findings if one.severity != "note"] == ["framework-cuda-libs-missing"]


@pytest.mark.parametrize(
    ("build", "runtime", "offered"),
    [
        (
            "2.15.0+cu132",
            ("nvidia-cuda-runtime", "13.2.86"),
            ["CUDA 13.0", "An environment for ONNX Runtime alone"],
        ),
        ("2.9.1+cu128", ("nvidia-cuda-runtime-cu12", "12.8.90"), ["CUDA 12"]),
    ],
    ids=["of another CUDA", "of its own"],
)
def test_a_build_for_the_cuda_of_torch_comes_before_libraries_of_a_second_cuda(build, runtime, offered):
    """The cuDNN of CUDA 12 would overwrite that of torch."""
    lacking = without("onnxruntime", "1.22.0", "onnxruntime-gpu", "libcublas.so.12")
    there = nvidia_machine(torch=torch(build), packages=dict([("onnxruntime-gpu", "1.22.0"), runtime]))
    (problem,) = found(with_files(there, lacking), "framework-libraries-not-found")
    assert [fix.title.removeprefix("Install ONNX Runtime's build for ") for fix in problem.fixes] == offered


def test_libraries_of_a_second_cuda_are_not_brought_where_they_would_overwrite_torchs():
    """No TensorFlow is built for CUDA 13: its extra would put cuDNN of CUDA 12 over torch's."""
    lacking = without("tensorflow", "2.21.0", "tensorflow", "libcublas.so.12")
    extra = ('nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"',)
    listed = (
        Distribution("tensorflow", "2.21.0", requires=extra, installer="pip"),
        Distribution("torch", "2.15.0+cu132", installer="pip"),
        Distribution("nvidia-cudnn-cu13", "9.26.0.51", installer="pip"),
        Distribution("nvidia-cuda-runtime", "13.2.86", installer="pip"),
    )
    there = with_environment(nvidia_machine(torch=torch("2.15.0+cu132")), distributions=known(listed, "/s"))
    problems = [one for one in judged(with_files(there, lacking)).findings if one.severity == "warning"]
    assert problems[0].fixes[0].title == "An environment for TensorFlow alone"


@pytest.mark.parametrize(("wheels", "asked"), [("cu12", "<13"), ("", ">=13")])
def test_what_decides_the_cuda_of_a_framework_is_installed_for_the_wheels_that_are_there(wheels, asked):
    runtime = ("nvidia-cuda-runtime-cu12", "12.8.90") if wheels else ("nvidia-cuda-runtime", "13.0.96")
    numba = Distribution(
        "numba-cuda", "0.30.4", requires=("cuda-bindings<14.0.0,>=12.9.1",), installer="pip", path="/s/n.dist-info"
    )
    there = machine({})
    listed = (Distribution(*runtime, installer="pip"), numba)
    bare = with_environment(there, distributions=known(listed, "/s"), not_installed=("cuda-bindings",))
    (finding,) = found(bare, "requirements-incomplete")
    assert [one.specifier.rpartition(",")[2] for one in finding.fixes[0].remedies] == [asked]


@pytest.mark.parametrize(
    ("nvidia", "newer"),
    [
        ({"nvidia-nvjitlink-cu12": "12.8.93", "nvidia-cusolver-cu12": "11.7.3.90"}, ["nvidia-nvjitlink-cu12"]),
        ({"nvidia-nvjitlink-cu12": "12.9.86", "nvidia-cusolver-cu12": "11.7.5.82"}, []),
        (
            {
                "nvidia-nvjitlink-cu12": "12.8.93",
                "nvidia-cusolver-cu12": "11.7.3.90",
                "nvidia-cusparse-cu12": "12.5.8.93",
            },
            [],
        ),
    ],
    ids=["cuSPARSE will be newer", "is the newest", "nothing that it links is missing"],
)
def test_nvjitlink_follows_what_an_installer_will_take_in_its_newest_release(nvidia, newer):
    lacking = without("jax", "0.12.0.1", "jax-cuda12-plugin", "libcufft.so.11")
    (finding,) = found(with_files(machine({**JAX_12, **nvidia}), lacking), "framework-libraries-not-found")
    assert [one.name for one in finding.fixes[0].remedies] == [*newer, "jax"]


@pytest.mark.parametrize(
    ("packages", "files", "command"),
    [
        (
            JAX_12,
            without("jax", "0.12.0.1", "jax-cuda12-plugin", "libcudnn.so.9"),
            "jax[cuda12]==0.12.0.1",
        ),
        (JAX_CPU, FrameworkFiles("jax", version="0.12.0.1", source="/"), "jax[cuda13]==0.12.0.1"),
    ],
)
def test_the_plan_foresees_that_an_extra_helps(packages, files, command):
    """A fix that would not clear its problem is not offered."""
    situation = Situation(with_files(machine(packages), files), load_matrix())
    (finding,) = [one for one in judged(situation.machine).findings if one.severity != "note"]
    assert any(command in step.argv for step in fixes_for(finding, situation)[0].steps if isinstance(step, RunStep))


def test_a_wheel_whose_files_are_gone_is_installed_again():
    lacking = without("jax", "0.12.0.1", "jax-cuda12-plugin", "libcudnn.so.9")
    emptied = with_files(machine({**JAX_12, "nvidia-cudnn-cu12": "9.28.0.42"}), lacking)
    finding = found(emptied, "framework-libraries-not-found")[0]
    assert [(type(one).__name__, one.name) for one in finding.fixes[0].remedies] == [
        ("ReinstallPackage", "nvidia-cudnn-cu12")
    ]


def test_tensorflow_beside_a_torch_that_uses_the_gpu_only_warns():
    lacking = without("tensorflow", "2.21.0", "tensorflow", "libcudnn.so.9")
    alone = with_files(machine({"tensorflow": "2.21.0"}), lacking)
    beside = with_files(nvidia_machine(packages={"tensorflow": "2.21.0"}), lacking)
    assert [one.severity for one in found(alone, "framework-libraries-not-found")] == ["error"]
    assert [one.severity for one in found(beside, "framework-libraries-not-found")] == ["warning"]


@pytest.mark.parametrize(
    ("version", "slugs"), [("9.1.0.70", ["cudnn-mismatch"]), ("9.10.2.21", []), ("9.28.0.42", [])]
)
def test_a_cudnn_that_another_framework_pins_may_be_too_old_for_jax(version, slugs):
    requires = ('nvidia-cudnn-cu12<10.0,>=9.10.2.21; sys_platform == "linux" and extra == "with-cuda"',)
    installed = tuple(
        Distribution(name, number, requires=requires if name == "jax-cuda12-plugin" else ())
        for name, number in {**JAX_12, "nvidia-cudnn-cu12": version}.items()
    )
    patient = with_environment(machine(JAX_12), distributions=known(installed, "/site"))
    assert [one.slug for one in found(patient, "framework-library-too-old")] == slugs


# --- ROCm's wheels -------------------------------------------------------------------------------------------

JAX_ROCM = {"jax": "0.12.0", "jaxlib": "0.12.0", "jax-rocm7-plugin": "0.12.0", "rocm-sdk-libraries": "7.14.0"}
SDK = "_rocm_sdk_libraries"


@pytest.mark.parametrize(
    ("files", "targets"),
    [
        ((), None),
        (("lib/librocblas.so.5",), ()),
        (("lib/librocblas.so.5", "lib/rocblas/library/TensileLibrary_lazy_gfx942.dat"), ("gfx942",)),
        (("lib/librocblas.so.5", ".kpack/blas_lib_gfx1201.kpack", ".kpack/fft_lib_gfx942.kpack"), ("gfx1201",)),
        (("lib/librocblas.so.5", ".kpack/blas_lib_gfx115x.kpack"), None),
    ],
)
def test_the_kernels_of_rocms_wheels_are_read(tmp_path, files, targets):
    packages = tuple((name, version, {}) for name, version in JAX_ROCM.items())
    read = probed(tmp_path, *packages, wheels=tuple(f"{SDK}/{name}" for name in files)).files_of("jax")
    assert (read.build, read.blas_gfx) == ("jax-rocm7-plugin", targets)


@pytest.mark.parametrize(
    ("targets", "variables", "severities"),
    [
        (("gfx942",), {}, ["error"]),
        ((), {}, ["error"]),
        (("gfx942", "gfx1100"), {}, []),
        (None, {}, []),
        (("gfx1101",), {"HSA_OVERRIDE_GFX_VERSION": "11.0.1"}, []),
    ],
)
def test_jax_without_the_wheel_of_kernels_for_the_gpu(targets, variables, severities):
    patient = amd_machine(torch=None, packages=JAX_ROCM, variables=variables)
    read = FrameworkFiles("jax", version="0.12.0", build="jax-rocm7-plugin", blas_gfx=targets, source="/site")
    problems = found(with_files(patient, read), "framework-rocblas-no-arch")
    assert [one.severity for one in problems] == severities
    for one in problems:
        assert "rocm-sdk-device-gfx1100==7.14.0" in one.fixes[0].remedies[0].text


# --- driver, vendor, variables, shared files -----------------------------------------------------------------


def test_a_driver_too_old_for_jax_is_said_of_jax():
    finding = found(machine(JAX_13, driver="550.54.15"), "driver-too-old")[0]
    assert (finding.severity, finding.framework) == ("error", "jax")
    assert [type(fix.remedies[0]).__name__ for fix in finding.fixes] == ["InstallDriver", "RemovePackage"]
    assert finding.fixes[0].remedies[0].branch == "580"
    for packages, driver in ((JAX_13, "580.82.07"), (JAX_12, "550.54.15"), (JAX_CPU, "525.147.05")):
        assert found(machine(packages, driver=driver), "driver-too-old") == []


def test_what_torch_needs_as_well_is_said_once():
    both = nvidia_machine(torch=torch("2.9.1+cu130"), packages=JAX_13, driver="550.54.15")
    assert [one.framework for one in found(both, "driver-too-old")] == ["torch"]


def test_on_a_wheel_less_python_no_older_release_is_proposed():
    tensorflow = {"tensorflow": "2.21.0"}
    whole = FrameworkFiles(
        "tensorflow", version="2.21.0", build="tensorflow", not_found=known((), "/site"), source="/site"
    )
    old = with_files(machine(tensorflow, driver="470.82.01"), whole)
    kinds = [type(fix.remedies[-1]).__name__ for fix in found(old, "driver-too-old")[0].fixes]
    assert kinds == ["Reboot"]  # TensorFlow for CUDA 11 has no wheel for Python 3.12


def test_a_cuda_build_on_an_amd_machine_is_an_error_and_one_for_both_a_note():
    finding = found(amd_machine(torch=None, packages=ORT_GPU), "framework-other-vendor")[0]
    assert (finding.severity, remedies(finding)) == ("error", ["RemovePackage", "ReplacePackage"])
    assert finding.fixes[0].remedies[1].name == "onnxruntime-migraphx"
    both = found(amd_machine(torch=None, packages={"tensorflow": "2.21.0"}), "framework-other-vendor")
    assert [one.severity for one in both] == ["note"]
    assert found(machine(ORT_GPU), "framework-other-vendor") == []


@pytest.mark.parametrize(
    ("packages", "value", "severities"),
    [
        (JAX_12, "cpu", ["warning"]),
        (JAX_12, "cuda,cpu", []),
        (JAX_12, "cpu,cuda", ["warning"]),
        (JAX_CPU, "cpu,cuda", []),
        (JAX_12, "cuda", []),
        (JAX_12, "", []),
        (JAX_CPU, "cuda", ["error"]),
        (JAX_CPU, "cpu", []),
        ({"numpy": "2.3.0"}, "cpu", []),
    ],
)
def test_a_variable_that_keeps_jax_from_the_gpu(packages, value, severities):
    patient = machine(packages, variables={"JAX_PLATFORMS": value})
    assert [one.severity for one in found(patient, "framework-variable")] == severities


@pytest.mark.parametrize(
    ("packages", "name", "value", "fails"),
    [
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "JAX_PLATFORMS", "gpu,cpu", True),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "JAX_PLATFORMS", "cpu,gpu", True),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "JAX_PLATFORMS", "cpu", False),
        # Seen on an H100 with jax 0.11.2: gpu stands for cuda and rocm, and the missing one stops JAX.
        (JAX_12, "JAX_PLATFORMS", "gpu,cpu", True),
        (JAX_12, "JAX_PLATFORMS", "gpu", True),
        (JAX_12, "JAX_PLATFORMS", "tpu", True),
        ({**JAX_12, "libtpu": "0.0.30"}, "JAX_PLATFORMS", "tpu", False),
        (JAX_12, "JAX_PLATFORMS", "CUDA", True),
        (JAX_12, "JAX_PLATFORMS", "cuda,cpu", False),
        (JAX_12, "JAX_PLATFORMS", "METAL", False),
        (JAX_12, "XLA_PYTHON_CLIENT_MEM_FRACTION", "abc", True),
        (JAX_12, "XLA_PYTHON_CLIENT_MEM_FRACTION", "80%", True),
        (JAX_12, "XLA_PYTHON_CLIENT_MEM_FRACTION", ".85", False),
        (JAX_12, "XLA_PYTHON_CLIENT_MEM_FRACTION", "+8.5e-1", False),
        (JAX_12, "XLA_PYTHON_CLIENT_MEM_FRACTION", "1e+0", False),
        (JAX_12, "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_malloc_async", True),
        (JAX_12, "XLA_PYTHON_CLIENT_ALLOCATOR", "Platform", False),
        (JAX_12, "XLA_PYTHON_CLIENT_ALLOCATOR", "vmm", False),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_malloc_async", False),
        (JAX_12, "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "1GB", True),
        (JAX_12, "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB", "512", False),
        (JAX_12, "JAX_CUDA_VISIBLE_DEVICES", "GPU-0", True),
        (JAX_12, "JAX_CUDA_VISIBLE_DEVICES", "0,", True),
        (JAX_12, "JAX_CUDA_VISIBLE_DEVICES", "all", False),
        (JAX_12, "JAX_CUDA_VISIBLE_DEVICES", "0, 1", False),
        (JAX_12, "JAX_ROCM_VISIBLE_DEVICES", "x", False),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "JAX_CUDA_VISIBLE_DEVICES", "x", False),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "XLA_PYTHON_CLIENT_MEM_FRACTION", "abc", False),
        (JAX_12, "CUDA_FORCE_PTX_JIT", "1", True),
        (JAX_12, "CUDA_FORCE_PTX_JIT", "0", False),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "XLA_FLAGS", "--xla_gpu_enable_async_all_reduce=true", True),
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "XLA_FLAGS", "--a=1 --xla_gpu_enable_cuda_graphs --b", True),
        ({"jax": "0.4.20", "jaxlib": "0.4.20"}, "XLA_FLAGS", "--xla_gpu_autotune_level=none", True),
        ({"tensorflow": "2.19.0"}, "TF_XLA_FLAGS", "--tf_xla_autojit=2", False),  # nothing was read of it
        ({"jax": "0.6.2", "jaxlib": "0.6.2"}, "XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true", False),
        ({"jax": "0.4.20", "jaxlib": "0.4.20"}, "XLA_FLAGS", "--xla_gpu_enable_async_all_reduce=true", False),
        ({"tensorflow": "2.19.0"}, "TF_USE_LEGACY_KERAS", "1", True),
        ({"tensorflow": "2.19.0"}, "TF_USE_LEGACY_KERAS", "0", False),
        ({"tensorflow": "2.19.0", "tf-keras": "2.19.0"}, "TF_USE_LEGACY_KERAS", "1", False),
        ({"tensorflow": "2.15.0"}, "TF_USE_LEGACY_KERAS", "1", False),
        ({"tensorflow": "2.19.0", "protobuf": "5.29.6"}, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "cpp", True),
        ({"tensorflow": "2.19.0", "protobuf": "3.20.3"}, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "cpp", False),
        ({"tensorflow": "2.19.0", "protobuf": "5.29.6"}, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python", False),
    ],
)
def test_a_value_with_which_a_framework_does_not_start(packages, name, value, fails):
    patient = machine(packages, variables={name: value})
    slugs = [one.severity for one in found(patient, "framework-variable")]
    assert slugs == (["error"] if fails else [])


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("--xla_gpu_enable_new_thing=true", "unset XLA_FLAGS"),
        ("--xla_gpu_autotune_level=0 --xla_new --xla_dump_to=/x", "--xla_gpu_autotune_level=0 --xla_dump_to=/x"),
        ("-xla_gpu_autotune_level=0", "unset XLA_FLAGS"),  # two dashes
        ("--xla_gpu_autotune_level=high --xla_dump_to=/x", "--xla_dump_to=/x"),
        ("--xla_gpu_autotune_level=high --xla_new --xla_dump_to=/x", "--xla_dump_to=/x"),
        ("--xla_gpu_autotune_level", "unset XLA_FLAGS"),  # a number must follow
        ("--xla_gpu_autotune_level=4.0", "unset XLA_FLAGS"),
        ("--xla_gpu_autotune_level= 4", "unset XLA_FLAGS"),
        ("--xla_gpu_autotune_level='4'", None),
        ("--xla_gpu_autotune_level=-1 --xla_gpu_autotune_level=+1", None),
        ("--xla_gpu_enable_triton_gemm=yes", "unset XLA_FLAGS"),
        ("--xla_gpu_enable_triton_gemm=", "unset XLA_FLAGS"),
        ("--xla_gpu_enable_triton_gemm --xla_gpu_enable_triton_gemm=FALSE", None),
        ("--xla_gpu_enable_command_buffer= --xla_gpu_enable_command_buffer=FUSION,CUBLAS", None),
        ("--xla_gpu_autotune_level=0 --xla_dump_to=/tmp/x", None),
        ("--xla_dump_to='/tmp/my dump' --xla_gpu_autotune_level=0", None),
        ("--xla_gpu_autotune_level=0 # --xla_new", None),  # XLA stops reading there
        ("--xla_gpu_autotune", "unset XLA_FLAGS"),  # only a part of a name
        ("/etc/ld.so.cache", None),  # a file with flags
        ("/etc/xla_flags", "unset XLA_FLAGS"),  # that is not there
        ("xla_gpu_autotune_level=0", "unset XLA_FLAGS"),  # XLA takes it for a file, too
        (None, None),
    ],
)
def test_a_flag_that_the_library_of_jax_does_not_know_stops_it(tmp_path, value, fix):
    known_flags = (
        b"\0xla_gpu_autotune_level\0xla.DebugOptions.xla_dump_to\0"
        b"xla_gpu_enable_triton_gemm\0xla_gpu_enable_command_buffer\0"
    )
    libraries = {"jaxlib/libjax_common.so": elf([(".rodata", known_flags)])}
    variables = {"XLA_FLAGS": value} if value else {}
    jax = (("jax", "0.6.2", {}), ("jaxlib", "0.6.2", {}))
    read = probed(tmp_path, *jax, libraries=libraries, variables=variables)
    patient = machine({"jax": "0.6.2", "jaxlib": "0.6.2"}, variables=variables)
    patient = with_environment(patient, frameworks=change(read, torch=patient.environment.value.torch))
    one = next(iter(found(patient, "framework-variable")), None)
    step = fixes_for(one, Situation(patient, load_matrix()))[0].steps[0] if one else None
    told = (step.value if isinstance(step, EnvStep) else step.text.partition("\n")[0]) if step else None
    assert told == fix


@pytest.mark.parametrize(("value", "severities"), [("1", ["note"]), ("True", ["note"]), ("true", []), ("false", [])])
def test_a_value_that_tensorflow_ignores(value, severities):
    patient = machine({"tensorflow": "2.19.0"}, variables={"TF_FORCE_GPU_ALLOW_GROWTH": value})
    assert [one.severity for one in found(patient, "framework-variable")] == severities


@pytest.mark.parametrize(
    ("settings", "variables", "packages", "fails"),
    [
        ('{"backend": "jax", "floatx": "float32"}', {}, (), True),
        ('{"backend": "jax"}', {"KERAS_BACKEND": "tensorflow"}, (), False),  # the variable takes precedence
        ('{"backend": "jax"}', {"KERAS_BACKEND": ""}, (), True),  # Keras takes an empty one for none
        ('{"backend": "jax"}', {}, (("jax", "0.6.2", {}),), False),
        ('{"backend": "tensorflow"}', {}, (), False),
        ('{"floatx": "float32"}', {}, (), False),
        ("[1]", {}, (), False),
        ("{", {}, (), False),
    ],
)
def test_a_backend_in_the_settings_of_keras_that_is_not_installed(tmp_path, settings, variables, packages, fails):
    (tmp_path / "home/me/.keras").mkdir(parents=True)
    (tmp_path / "home/me/.keras/keras.json").write_text(settings)
    keras = (("tensorflow", "2.19.0", {}), ("keras", "3.15.1", {}), *packages)
    read = probed(tmp_path, *keras, variables={"HOME": "/home/me", **variables})
    patient = machine({name: version for name, version, _ in keras}, variables=variables)
    patient = with_environment(patient, frameworks=change(read, torch=patient.environment.value.torch))
    problems = found(patient, "framework-variable")
    assert [remedies(one) for one in problems] == ([["SetVariable"]] if fails else [])


def test_a_folder_that_is_left_of_a_framework_is_told(tmp_path):
    remains = {"tensorflow/python/__pycache__/a.pyc": b"", "jax/__init__.py": b""}  # a jax without a record is whole
    environment = probed_environment(tmp_path, ("numpy", "2.3.0", {}), libraries=remains)
    assert [(one.name, one.path.rpartition("/")[2]) for one in environment.interrupted] == [
        ("tensorflow", "tensorflow")
    ]
    patient = with_environment(machine({}), interrupted=environment.interrupted)
    (problem,) = found(patient, "package-install-interrupted")
    assert problem.severity == "warning"
    assert "recommend --framework tensorflow" in problem.fixes[0].remedies[0].text


@pytest.mark.parametrize("name", ["PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"])
@pytest.mark.parametrize(
    ("value", "fails"),
    [
        ("max_split_size_mb=512", True),
        ("max_split_size_mb:10", True),
        ("expandable_segments:True,max_split_size_mb:19", True),
        ("max_split_size_mb:abc", True),
        ("expandable_segments:true", True),
        ("expandable_segments:1", True),
        ("garbage_collection_threshold:1.5", True),
        ("garbage_collection_threshold:0", True),
        ("expandable_segments", True),  # these four ended `import torch` 2.9.1 with SIGABRT
        ("expandable_segments:True;max_split_size_mb:512", True),
        ("max_split_size_mb 128", True),
        ("True", True),
        ("max_split_size_mb:20", False),
        ("max_split_size_mb:128", False),
        (",max_split_size_mb:128,", False),
        ("max_split_size_mb: 512, expandable_segments: True", False),
        ("expandable_segments:False", False),
        ("garbage_collection_threshold:0.8,max_split_size_mb:512", False),
        ("roundup_power2_divisions:[256:1,512:2,>:8]", False),
        ("backend:cudaMallocAsync", False),
        ("", False),
    ],
)
def test_a_value_of_torchs_allocator_that_ends_torch(name, value, fails):
    for patient in (nvidia_machine(variables={name: value}), nvidia_machine(gpus=(), variables={name: value})):
        assert [one.severity for one in found(patient, "framework-variable")] == (["error"] if fails else [])


@pytest.mark.parametrize(
    ("packages", "slug", "kept"),
    [
        ({"onnxruntime": "1.32.0", "onnxruntime-gpu": "1.31.1"}, "ort-cpu-and-gpu-both", "onnxruntime-gpu"),
        ({"onnxruntime": "1.27.0", "onnxruntime-migraphx": "1.27.1"}, "ort-cpu-and-gpu-both", None),
        ({"tensorflow": "2.21.0", "tensorflow-cpu": "2.21.0"}, "packages-overwrite-each-other", "tensorflow"),
        ({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}, "packages-overwrite-each-other", "cupy-cuda13x"),
        ({**JAX_12, "nvidia-cudnn-cu12": "9", "nvidia-cudnn-cu13": "9"}, "packages-overwrite-each-other",
         "nvidia-cudnn-cu12"),
        ({"faiss-cpu": "1.15.1", "faiss-gpu-cu12": "1.14.1"}, "packages-overwrite-each-other", "faiss-gpu-cu12"),
        ({"faiss-gpu-cu11": "1.10", "faiss-gpu-cu12": "1.14.1"}, "packages-overwrite-each-other", None),
        ({"xgboost": "3.2.0", "xgboost-cpu": "3.2.0"}, "packages-overwrite-each-other", "xgboost"),
        ({"spconv": "2.3.8", "spconv-cu126": "2.3.8", "cumm-cu126": "0.8.2"}, "packages-overwrite-each-other",
         "spconv-cu126"),
    ],
)  # fmt: skip
def test_packages_that_own_the_same_files(packages, slug, kept):
    finding = found(machine(packages), slug)[0]
    again = [remedy.name for fix in finding.fixes for remedy in fix.remedies[-1:]]
    assert again == ([kept] if kept else [])


@pytest.mark.parametrize(
    ("packages", "slug", "kept"),
    [
        ({"paddlepaddle": "3.3.1", "paddlepaddle-gpu": "3.3.1"}, "packages-overwrite-each-other", "paddlepaddle-gpu"),
        ({"mmcv": "2.2.0", "mmcv-lite": "2.2.0"}, "packages-overwrite-each-other", "mmcv"),
        ({"mmcv": "1.7.2", "mmcv-full": "1.7.2"}, "packages-overwrite-each-other", "the one that you need"),
        ({"onnxruntime": "1.32.0", "ort-nightly-gpu": "1.33"}, "ort-cpu-and-gpu-both", "ort-nightly-gpu"),
    ],
)
def test_what_the_package_index_lacks_is_kept_by_hand(packages, slug, kept):
    (problem,) = found(machine(packages), slug)
    (remedy,) = problem.fixes[0].remedies
    assert f"pip uninstall -y {' '.join(packages)}\nThen install only {kept}, as https://" in remedy.text


def test_an_older_driver_keeps_the_cupy_that_it_runs():
    both = machine({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}, driver="550.54.15")
    assert found(both, "packages-overwrite-each-other")[0].fixes[0].remedies[-1].name == "cupy-cuda12x"


@pytest.mark.parametrize(
    ("runtime", "version", "kept"),
    [
        ("nvidia-cuda-runtime-cu12", "12.8.90", "cupy-cuda12x"),
        ("nvidia-cuda-runtime", "13.0.48", "cupy-cuda13x"),
        ("nvidia-cuda-nvrtc", "13.0.48", "cupy-cuda13x"),
    ],
)
def test_of_two_cupys_the_one_is_kept_whose_cuda_is_in_the_environment(runtime, version, kept):
    both = machine({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0", runtime: version})
    assert found(both, "packages-overwrite-each-other")[0].fixes[0].remedies[-1].name == kept


@pytest.mark.parametrize(
    "packages",
    [
        {"cupy-cuda12x": "14.2.0"},
        {"tensorflow": "2.21.0", "tensorboard": "2.20.0"},
        {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nccl-cu12": "2.27.5", "nvidia-cublas-cu12": "12.8.4.1"},
        {"nvidia-cudnn-cu12": "9.10.2.21", "nvidia-cudnn-cu11": "8.7.0.84"},
        {"cudf-cu12": "26.10.0", "rmm-cu12": "26.10.0", "libcudf-cu12": "26.10.0"},
        {"onnxruntime-gpu": "1.31.1", "onnxruntime-genai-cuda": "0.9.0"},
        {"faiss-gpu-cu12": "1.14.1", "xgboost": "3.2.0"},
    ],
)
def test_packages_that_share_nothing_are_silent(packages):
    for slug in ("ort-cpu-and-gpu-both", "packages-overwrite-each-other"):
        assert found(machine(packages), slug) == []


# --- requirements --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("packages", "text", "met"),
    [
        (JAX_13, "jax>=0.6", True),
        (JAX_13, "jax>=0.13", False),
        (JAX_13, "jax.cuda", True),
        (JAX_13, "jax.cuda>=12.4", True),
        (JAX_12, "jax.cuda>=12.4", None),
        (JAX_CPU, "jax.cuda", False),
        ({**JAX_CPU, "jax-rocm7-plugin": "0.12.0"}, "jax.rocm", True),
        (ORT_GPU, "onnxruntime.cuda", True),
        ({"onnxruntime": "1.32.0"}, "onnxruntime.cuda", False),
        ({"onnxruntime": "1.32.0"}, "jax", None),
        ({"numpy": "2.3.0"}, "tensorflow>=2.18", False),
    ],
)
def test_a_job_may_require_a_framework_and_its_gpu_build(packages, text, met):
    if text == "jax":
        with pytest.raises(RequirementError, match="needs a comparison"):
            parse(text)
        return
    judgement = judge(machine(packages), load_matrix(), machine_checks(), required=(parse(text),))
    unmet = [one.slug for one in judgement.findings if one.slug == "requirement-not-met"]
    unknown = [one.id for one in judgement.not_judged if one.id == "GPD910"]
    assert (unmet, unknown) == (["requirement-not-met"] * (met is False), ["GPD910"] * (met is None))


def test_every_framework_that_can_be_required_is_one_of_the_matrix():
    titles = {row.framework: row.title for row in load_matrix().tables.frameworks}
    assert OTHER_FRAMEWORKS.items() <= titles.items()


def test_torch_cuda_alone_requires_any_cuda_build():
    for version, met in (("2.9.1+cu128", True), ("2.9.1+cpu", False)):
        judgement = judge(
            nvidia_machine(torch=torch(version)), load_matrix(), machine_checks(), required=(parse("torch.cuda"),)
        )
        assert ("requirement-not-met" not in [one.slug for one in judgement.findings]) is met


# --- healthy environments --------------------------------------------------------------------------------------


def whole(name: str, version: str, build: str) -> FrameworkFiles:
    """A framework that has the libraries which it opens."""
    return FrameworkFiles(name, version=version, build=build, not_found=known((), "/site"), source="/site")


@pytest.mark.parametrize(
    ("build", "packages", "files"),
    [
        (None, JAX_12, (whole("jax", "0.12.0.1", "jax-cuda12-plugin"),)),
        (None, JAX_13, (whole("jax", "0.12.0.1", "jax-cuda13-plugin"),)),
        (None, {"tensorflow": "2.21.0"}, (whole("tensorflow", "2.21.0", "tensorflow"),)),
        (None, ORT_GPU, ()),
        (None, {"cupy-cuda12x": "14.2.0"}, (whole("cupy", "14.2.0", "cupy-cuda12x"),)),
        ("2.9.1+cu128", JAX_12, (whole("jax", "0.12.0.1", "jax-cuda12-plugin"),)),
        ("2.9.1+cu128", JAX_CPU, ()),
        ("2.9.1+cu128", {"onnxruntime": "1.32.0"}, ()),
        ("2.9.1+cu128", {"onnxruntime-gpu": "1.26.0", "tensorboard": "2.20.0"}, ()),
        ("2.9.1+cu128", {"tensorflow-cpu": "2.21.0"}, ()),
        ("2.9.1+cu128", {"numba-cuda": "0.30.4", "cuda-bindings": "12.9.4"}, ()),
    ],
)  # fmt: skip
def test_a_healthy_environment_is_silent(build, packages, files):
    patient = nvidia_machine(torch=torch(build) if build else None, packages=packages)
    assert [
        (one.slug, one.severity) for one in judged(with_files(patient, *files)).findings if one.severity != "note"
    ] == []


@pytest.mark.parametrize(
    "packages",
    [
        {"onnxruntime-migraphx": "1.27.1"},
        {"cupy-rocm-7-0": "14.2.0"},
        {**JAX_CPU, "jax-rocm7-plugin": "0.12.0", "jax-rocm7-pjrt": "0.12.0"},
    ],
)
def test_a_healthy_environment_of_amd_is_silent(packages):
    patient = amd_machine(torch=None, packages=packages)
    assert [one.slug for one in judged(patient).findings if one.severity != "note"] == []


@pytest.mark.parametrize(("packages", "fails"), [(JAX_12, True), (ORT_GPU, False), (JAX_CPU, False)])
def test_jax_needs_the_drivers_nvml_and_others_do_not(packages, fails):
    # On an H100 without libnvidia-ml: torch and CuPy compute, JAX 0.11.2 says "No visible GPU devices".
    whole = machine(packages)
    kept = tuple(one for one in whole.load_path.found if one.name != "libnvidia-ml.so.1")
    without = change(whole, load_path=change(whole.load_path, found=kept))
    assert not found(whole, "framework-libraries-not-found")
    assert [one.severity for one in found(without, "framework-libraries-not-found")] == (["error"] if fails else [])
    assert not found(
        change(without, load_path=change(without.load_path, complete=unknown("denied"))),
        "framework-libraries-not-found",
    )
