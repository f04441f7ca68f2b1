"""The libraries that frameworks beside torch open, and files of their own: what is read, what is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.finding import Manual, ReplacePackage, UnsetVariable
from gpudoctor.host import LiveHost
from gpudoctor.machine import (
    DamagedFile,
    Distribution,
    Extension,
    FrameworkFiles,
    Library,
    MissingLibrary,
    MissingSymbols,
    known,
)
from gpudoctor.matrix.load import load_matrix
from gpudoctor.probes.frameworks import FrameworkRows
from gpudoctor.probes.python_environment import probe_environment
from tests.support.check_cases import found
from tests.support.environments import shared_library, write_distribution, write_venv
from tests.support.judging import severity
from tests.support.machines import change, nvidia_gpu, nvidia_machine, torch, with_environment

CT2 = ("ctranslate2", "4.8.5")
TENSORFLOW = ("tensorflow", "2.21.0")
CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"


def read(venv: Path, package: tuple[str, str], libraries: dict[str, bytes], variables: dict[str, str] | None = None):
    """What is read of a framework in a venv with these files."""
    return read_again(venv, write_venv(venv), package, libraries, variables or {})


def test_a_framework_that_does_not_look_into_the_wheels_finds_libraries_on_the_loaders_path_only(tmp_path):
    library = {"nvidia/cublas/lib/libcublas.so.12": shared_library()}
    folder = str(tmp_path / "a/lib/python3.12/site-packages/nvidia/cublas/lib")
    alone = read(tmp_path / "a", CT2, library)
    assert (alone.not_found.value, alone.beside) == (("libcublas.so.12",), (folder,))
    named = read(tmp_path / "b", CT2, library, {"LD_LIBRARY_PATH": folder})
    assert named.not_found.value == ()
    with_torch = read(tmp_path / "c", CT2, {**library, "torch/lib/libtorch_cuda.so": b""})
    assert with_torch.not_found.value == ()


def test_a_library_that_is_cut_short_does_not_count(tmp_path):
    whole = shared_library(needed=("libc.so.6",))
    assert "libcudnn.so.9" not in (read(tmp_path / "a", TENSORFLOW, {CUDNN: whole}).not_found.value or ())
    cut = {CUDNN: whole, "nvidia/cudnn/lib/libcudnn_ops.so.9": whole[: len(whole) // 4]}
    assert "libcudnn_ops.so.9" in (read(tmp_path / "b", TENSORFLOW, cut).not_found.value or ())


@pytest.mark.parametrize(
    ("lost", "missed"), [(".alt", ()), ("", ("libnvrtc-builtins.so.12.8",))], ids=["another edition", "its part"]
)
def test_a_part_that_its_wheel_lists_and_that_is_gone_is_missed(tmp_path, lost, missed):
    site = write_venv(tmp_path)
    parts = ("libnvrtc.so.12", "libnvrtc-builtins.so.12.8", "libnvrtc-builtins.alt.so.12.8")
    files = {f"nvidia/cuda_nvrtc/lib/{part}": shared_library() for part in parts}
    write_distribution(site, "nvidia_cuda_nvrtc_cu12", "12.8.93", files=files)
    write_distribution(site, "numba_cuda", "0.30.4")
    (site / f"nvidia/cuda_nvrtc/lib/libnvrtc-builtins{lost}.so.12.8").unlink()
    assert read_again(tmp_path, site, ("cuda_bindings", "12.9.4"), {}, {}).not_found.value == missed


@pytest.mark.parametrize(
    ("release", "cut", "missed"),
    [("9.10.2.21", False, False), ("9.10.2.21", True, False), ("9.1.0.70", False, True), ("", False, True)],
)
def test_a_part_that_the_load_path_has_in_the_same_release_is_not_missed(tmp_path, release, cut, missed):
    part, whole = "libcudnn_ops.so.9", shared_library(needed=("libc.so.6",))
    site, other = write_venv(tmp_path / "venv"), write_venv(tmp_path / "other")
    files = {f"nvidia/cudnn/lib/{name}": whole for name in ("libcudnn.so.9", part)}
    write_distribution(site, "nvidia_cudnn_cu12", "9.10.2.21", files=files)
    if release:
        write_distribution(other, "nvidia_cudnn_cu12", release, files=files)
    gone = site / "nvidia/cudnn/lib" / part
    gone.write_bytes(whole[: len(whole) // 4]) if cut else gone.unlink()
    variables = {"LD_LIBRARY_PATH": str(other / "nvidia/cudnn/lib")}
    lacking = read_again(tmp_path / "venv", site, TENSORFLOW, {}, variables).not_found.value
    assert (part in lacking) is missed


@pytest.mark.parametrize(("package", "overrules"), [(TENSORFLOW, True), (("jax", "0.12.0.1"), False)])
def test_a_variable_comes_before_the_wheels_of_tensorflow_and_not_of_jax(tmp_path, package, overrules):
    other = tmp_path / "other/lib/python3.12/site-packages"
    write_distribution(other, "nvidia-cudnn-cu12", "9.1.0.70")
    (other / CUDNN).parent.mkdir(parents=True)
    (other / CUDNN).write_bytes(shared_library())
    variables = {"LD_LIBRARY_PATH": str((other / CUDNN).parent)}
    names = {CUDNN: shared_library()}
    site = write_venv(tmp_path / "venv")
    write_distribution(site, "jax-cuda12-plugin", "0.12.0.1")
    files = read_again(tmp_path / "venv", site, package, names, variables)
    assert [one.version for one in files.overruled] == (["9.1.0.70"] if overrules else [])


def read_again(venv, site, package, libraries, variables):
    """The same in a venv that is there."""
    write_distribution(site, *package)
    for name, content in libraries.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(content)
    tables = load_matrix().tables
    rows = FrameworkRows(tables.frameworks, tables.framework_builds)
    environment = probe_environment(LiveHost(), str(venv), variables, frameworks=rows).value
    assert environment is not None
    return environment.frameworks.others[0]


# --- what is judged ------------------------------------------------------------------------------------------


def patient(files: FrameworkFiles, packages: dict[str, str], requires: dict[str, tuple[str, ...]] | None = None):
    machine = nvidia_machine(torch=None, packages=packages)
    environment = machine.environment.value
    listed = tuple(
        change(one, requires=(requires or {}).get(one.name, ())) for one in environment.distributions.value
    )
    frameworks = change(environment.frameworks, others=(files,))
    return with_environment(machine, frameworks=frameworks, distributions=known(listed, "/site"))


TF_FILES = FrameworkFiles("tensorflow", version="2.21.0", build="tensorflow", not_found=known((), "/s"), source="/s")
TF_PACKAGES = {"tensorflow": "2.21.0", "nvidia-cudnn-cu12": "9.10.2.21", "nvidia-nvjitlink-cu12": "12.1.105"}
TF_EXTRA = {"tensorflow": ("nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == 'and-cuda'",)}


def test_libraries_beside_the_path_are_named_in_a_variable():
    files = FrameworkFiles("ctranslate2", version="4.8.5", build="ctranslate2", source="/s")
    files = change(files, not_found=known(("libcublas.so.12",), "/s"), beside=("/s/nvidia/cublas/lib",))
    finding = found(patient(files, {"ctranslate2": "4.8.5"}), "framework-libraries-not-found")[0]
    step = finding.fixes[0].remedies[0]
    assert isinstance(step, Manual)
    assert 'export LD_LIBRARY_PATH="/s/nvidia/cublas/lib:$LD_LIBRARY_PATH"' in step.text


@pytest.mark.parametrize(
    ("cuda", "wheel", "again"),
    [("12", "nvidia-cublas-cu12", True), ("12", "nvidia-cublas", False), ("13", "nvidia-cublas", True)],
)
def test_a_wheel_of_another_cuda_is_not_installed_again(cuda, wheel, again):
    release = {"12": "1.22.0", "13": "1.31.1"}[cuda]
    files = FrameworkFiles("onnxruntime", version=release, build="onnxruntime-gpu", source="/s")
    files = change(files, not_found=known((f"libcublas.so.{cuda}",), "/s"))
    machine = patient(files, {"onnxruntime-gpu": release, wheel: f"{'12' if wheel.endswith('12') else '13'}.1.0"})
    remedies = found(machine, "framework-libraries-not-found")[0].fixes[0].remedies
    assert ([wheel] == [getattr(remedy, "name", "") for remedy in remedies]) is again


@pytest.mark.parametrize(("version", "slugs"), [("9.1.0", ["ld-library-path-shadow"]), ("9.12.0", []), (None, [])])
def test_an_older_library_of_the_variable_is_an_error_and_a_newer_one_is_not(version, slugs):
    library = Library("libcudnn.so.9", "/opt/cudnn/libcudnn.so.9", version, via="LD_LIBRARY_PATH")
    machine = patient(change(TF_FILES, overruled=(library,)), TF_PACKAGES, TF_EXTRA)
    findings = found(change(machine, variables={"LD_LIBRARY_PATH": "/opt/cudnn"}), "framework-library-too-old")
    assert [one.slug for one in findings if one.severity == "error"] == slugs
    assert all(isinstance(one.fixes[0].remedies[0], UnsetVariable) for one in findings)


def test_a_library_without_the_symbols_that_another_needs_is_replaced_by_that_release():
    misfit = MissingSymbols(
        "libnvJitLink.so.12", "/s/libnvJitLink.so.12", "/s/libcusparse.so.12", ("__nvJitLinkCreate_12_8",)
    )
    machine = patient(change(TF_FILES, misfits=(misfit,)), TF_PACKAGES)
    finding = found(machine, "framework-library-too-old")[0]
    remedy = finding.fixes[0].remedies[0]
    assert isinstance(remedy, ReplacePackage)
    assert (finding.severity, remedy.name, remedy.specifier) == ("error", "nvidia-nvjitlink-cu12", ">=12.8")


@pytest.mark.parametrize(
    ("file", "packages", "told"),
    [
        ("onnxruntime/__init__.py", {}, True),
        ("onnxruntime/capi/libonnxruntime_providers_cuda.so", {}, True),
        ("onnxruntime/capi/libonnxruntime_providers_tensorrt.so", {}, False),  # deleted to save room
        ("onnxruntime/__init__.py", {"onnxruntime": "1.31.1"}, False),  # told as what it is: two packages
    ],
)
def test_a_framework_whose_own_files_are_gone_is_installed_again(file, packages, told):
    machine = nvidia_machine(torch=None, packages=packages)
    environment = machine.environment.value
    damaged = Distribution(
        "onnxruntime-gpu", "1.31.1", installer="pip", damaged=(DamagedFile(f"/site/{file}", "missing"),)
    )
    listed = (*environment.distributions.value, damaged)
    findings = found(with_environment(machine, distributions=known(listed, "/site")), "framework-install-damaged")
    assert [one.fixes[0].remedies[0].name for one in findings] == (["onnxruntime-gpu"] if told else [])


BNB = "bitsandbytes/libbitsandbytes_cuda128.so"


@pytest.mark.parametrize(
    ("package", "file", "problem", "told"),
    [
        ("xformers", "xformers/_C.so", "missing", True),
        ("flash-attn", "flash_attn_2_cuda.so", "truncated", True),
        ("bitsandbytes", BNB, "truncated", True),  # it is still the one that is chosen
        ("bitsandbytes", BNB, "missing", False),  # its neighbour is
        ("torchvision", "torchvision/_C.so", "missing", True),
        ("torchvision", "torchvision/image.so", "missing", False),  # only torchvision.io
        ("pandas", "pandas/_libs/lib.so", "missing", False),
    ],
)
def test_a_package_for_torch_whose_own_files_are_gone_is_installed_again(package, file, problem, told):
    machine = nvidia_machine(torch=torch("2.9.1+cu128"))
    environment = machine.environment.value
    damaged = Distribution(package, "1.0", installer="pip", damaged=(DamagedFile(f"/site/{file}", problem),))
    listed = (*environment.distributions.value, damaged)
    findings = found(with_environment(machine, distributions=known(listed, "/site")), "framework-install-damaged")
    assert [one.fixes[0].remedies[0].name for one in findings] == ([package] if told else [])


def test_another_build_of_the_framework_has_code_for_the_gpu():
    packages = {
        "jax": "0.12.0.1",
        "jaxlib": "0.12.0.1",
        "jax-cuda13-plugin": "0.12.0.1",
        "jax-cuda13-pjrt": "0.12.0.1",
    }
    machine = nvidia_machine(nvidia_gpu("Tesla V100", "sm_70"), torch=None, packages=packages)
    environment = machine.environment.value
    listed = tuple(
        change(one, requires=("jax-cuda13-pjrt==0.12.0.1",)) if one.name == "jax-cuda13-plugin" else one
        for one in environment.distributions.value
    )
    code = Extension("jax-cuda13-pjrt", "0.12.0.1", "/site/xla_cuda_plugin.so", sass=("sm_75", "sm_80"))
    machine = with_environment(machine, distributions=known(listed, "/site"), extensions=(code,))
    fix = found(machine, "ext-built-without-gpu-arch")[0].fixes[0]
    assert [remedy.name for remedy in fix.remedies] == [
        "jax-cuda13-plugin",
        "jax-cuda13-pjrt",
        "nvidia-cudnn-cu12",
        "jax",
    ]
    assert fix.remedies[-1].extra == "cuda12"


@pytest.mark.parametrize(("release", "twice"), [("2.6.0", False), ("2.9.0", True)])
def test_libraries_of_a_package_for_another_torch_are_told_once(release, twice):
    """For another patch release it is a warning only: then what is missing counts."""
    machine = nvidia_machine(torch=torch("2.9.1+cu128"), packages={"xformers": "0.0.33"})
    environment = machine.environment.value
    listed = tuple(
        change(one, requires=(f"torch=={release}",)) if one.name == "xformers" else one
        for one in environment.distributions.value
    )
    lacking = (MissingLibrary("libcudart.so.13"),)
    code = Extension("xformers", "0.0.33", "/site/xformers/_C.so", sass=("sm_89",), of_torch=True, missing=lacking)
    code = change(code, needs=("libcudart.so.13",))
    machine = with_environment(machine, distributions=known(listed, "/site"), extensions=(code,))
    assert found(machine, "xformers-mismatch") != []
    assert (found(machine, "framework-cuda-libs-missing") != []) is twice


@pytest.mark.parametrize(("missing", "severity"), [((), "warning"), ((MissingLibrary("libcufft.so.12"),), "error")])
def test_of_two_cupys_one_is_kept_whichever_files_lie_there(missing, severity):
    """What the files need is no problem of the package that lost its own."""
    machine = nvidia_machine(torch=None, packages={"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"})
    code = Extension("cupy-cuda12x", "14.2.0", "/site/cupy/cufft.so", needs=("libcufft.so.12",), missing=missing)
    machine = with_environment(machine, extensions=(code,))
    assert [one.severity for one in found(machine, "packages-overwrite-each-other")] == [severity]
    assert found(machine, "framework-cuda-libs-missing") == []


def test_a_build_that_lost_its_files_to_another_is_installed_again_and_its_requirements_stay():
    packages = {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0", "cuda-pathfinder": "1.9.0"}
    machine = nvidia_machine(torch=None, packages=packages, driver="550.54.15")
    environment = machine.environment.value
    listed = tuple(
        change(one, requires=("cuda-pathfinder==1.*", "cuda-toolkit==12.*; extra == 'ctk'"))
        for one in environment.distributions.value
    )
    machine = with_environment(machine, distributions=known(listed, "/site"))
    remedies = [remedy for fix in found(machine, "driver-too-old")[0].fixes for remedy in fix.remedies]
    kinds = [(type(remedy).__name__, getattr(remedy, "name", "")) for remedy in remedies]
    assert ("ReinstallPackage", "cupy-cuda12x") in kinds
    assert ("RemovePackage", "cuda-pathfinder") not in kinds


def test_an_extra_that_the_installed_release_does_not_have_is_not_offered():
    lacking = Extension(
        "cupy-cuda12x",
        "12.3.0",
        "/site/cupy/cuda.so",
        sass=("sm_89",),
        missing=(MissingLibrary("libcublas.so.12"),),
    )
    machine = nvidia_machine(torch=None, packages={"cupy-cuda12x": "12.3.0"})
    listed = tuple(change(one, requires=("numpy<1.29",)) for one in machine.environment.value.distributions.value)
    machine = with_environment(machine, distributions=known(listed, "/site"), extensions=(lacking,))
    fixes = [fix for one in found(machine, "framework-cuda-libs-missing") for fix in one.fixes]
    assert fixes
    assert not any("ctk" in getattr(remedy, "extra", "") for fix in fixes for remedy in fix.remedies)


def test_a_library_that_only_a_part_of_a_package_needs_and_torch_brought_is_silent():
    cudnn = MissingLibrary("libcudnn.so.8", "/site/nvidia/cudnn/lib/libcudnn.so.9")
    path = "/site/cupy_backends/cuda/libs/cudnn.cpython-311-x86_64-linux-gnu.so"
    part = Extension("cupy-cuda12x", "12.3.0", path, needs=("libcudart.so.12",), missing=(cudnn,))
    whole = Extension("cupy-cuda12x", "12.3.0", "/site/cupy/core.so", sass=("sm_89",), needs=("libcudart.so.12",))
    machine = nvidia_machine(packages={"cupy-cuda12x": "12.3.0", "nvidia-cudnn-cu12": "9.10.2.21"})
    assert severity(with_environment(machine, extensions=(whole, part)), "framework-cuda-libs-missing") == "warning"
    pins = ("nvidia-cudnn-cu12==9.10.2.21",)
    there = machine.environment.value.distributions.value
    listed = tuple(change(one, requires=pins) if one.name == "torch" else one for one in there)
    machine = with_environment(machine, distributions=known(listed, "/site"), extensions=(whole, part))
    assert severity(machine, "framework-cuda-libs-missing") is None


@pytest.mark.parametrize(("version", "first"), [("3.24.0", "ctranslate2==4.8.5"), ("4.8.5", "nvidia-cublas-cu12")])
def test_a_release_for_a_cuda_that_has_ended_is_replaced_by_the_newest_one_with_its_libraries(version, first):
    lacking = "libcublas.so.11" if version < "4" else "libcublas.so.12"
    files = FrameworkFiles("ctranslate2", version=version, build="ctranslate2", source="/s")
    files = change(files, not_found=known((lacking,), "/s"))
    machine = patient(files, {"ctranslate2": version})
    steps = found(machine, "framework-libraries-not-found")[0].fixes[0].remedies
    wanted = [f"{one.name}{one.specifier}" for one in steps if isinstance(one, ReplacePackage)]
    assert wanted[0] == first and wanted[-1] == "nvidia-cublas-cu12"


def needing(package: str, version: str, requires: tuple[str, ...]):
    """A package beside torch for CUDA 13 that was compiled for another CUDA, and asks for these packages."""
    machine = nvidia_machine(torch=torch("2.13.0+cu130"), packages={package: version, "librmm-cu12": "26.10.0"})
    listed = tuple(
        change(one, requires=requires) if one.name == package else one
        for one in machine.environment.value.distributions.value
    )
    lacking = (MissingLibrary("libcudart.so.12"),)
    code = Extension(package, version, f"/site/{package}/_C.so", sass=("sm_89",), of_torch=True, missing=lacking)
    code = change(code, needs=("libcudart.so.12",))
    machine = with_environment(machine, distributions=known(listed, "/site"), extensions=(code,))
    return found(machine, "framework-cuda-libs-missing")[0].fixes[0].remedies[0].text


def test_a_package_named_for_another_cuda_gives_way_to_the_one_for_the_cuda_of_torch():
    text = needing("solver-cu12", "26.10.0", ("libsolver-cu12==26.10.*", "numpy"))
    assert "pip uninstall -y solver-cu12 libsolver-cu12`, then `pip install solver-cu13`" in text
    assert "cu13" not in needing("spconv-cu120", "2.3.6", ())


@pytest.mark.parametrize(
    ("version", "asked", "alike"),
    [
        ("2.8.0", ("torch<2.9.0,>=2.8.0",), True),
        ("2.8.1", ("torch==2.8.*",), True),
        ("2.8.0", ("torch<2.9.0,>=2.8.0; sys_platform == 'linux'", "torch<2.9,>=2.8; sys_platform == 'win32'"), True),
        ("2.8.0", ("torch>=2.8",), False),
        ("0.18.0", ("torch>=2.3.0",), False),
        ("2.8.0", (), False),
    ],
)
def test_a_package_with_the_number_of_the_torch_that_it_takes_is_installed_with_that_of_torch(version, asked, alike):
    assert ("pip install 'torch-tensorrt==2.13.*'" in needing("torch-tensorrt", version, asked)) is alike
