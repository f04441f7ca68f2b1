"""Which library the loader takes, and whether it has what others need of it: the probe says what the loader does."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.codeobjects.elf import NotReadable, open_elf
from gpudoctor.codeobjects.symbols import provided_symbols, symbols_needed_of
from gpudoctor.host import LiveHost
from gpudoctor.machine import MissingSymbols, PythonEnvironment
from gpudoctor.probes.late_libraries import late_libraries, other_wheels
from gpudoctor.probes.python_environment import probe_environment
from tests.support.check_cases import matrix
from tests.support.environments import shared_library, write_distribution, write_torch, write_venv

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the libraries with")

SUBLIBRARIES = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled")
PINS = ("nvidia-cudnn-cu12==9.10.2.21", "nvidia-nvjitlink-cu12==12.8.93", "nvidia-cusparse-cu12==12.5.8.93")
DISPATCHER = """
#include <dlfcn.h>
static int call(const char *name) {
    void *graph = dlopen("libcudnn_graph.so.9", RTLD_NOW);
    int (*function)(void) = graph ? (int (*)(void))dlsym(graph, name) : 0;
    return function ? function() : -1;
}
int cudnnCreate(void) { return call("cudnnCreate"); }
int cudnnPopulate(void) { return call("cudnnPopulate"); }
"""
PRELOADING = """
def _load_global_deps() -> None:
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        _preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")
    except OSError as err:
        cuda_libs = {"cudnn": "libcudnn.so.*[0-9]"}
"""


def build(path: Path, code: str, *flags: str) -> Path:
    """A library with symbols versioned by its own name, as NVIDIA's are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source, versions = path.with_name(f"{path.name}.c"), path.with_name(f"{path.name}.map")
    source.write_text(code)
    versions.write_text(f"{path.name} {{ global: *; }};\n")
    own = [f"-Wl,-soname,{path.name}", f"-Wl,--version-script={versions}"]
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-w", "-o", str(path), str(source), *own, "-Wl,--no-as-needed", *flags],
        check=True,
    )
    source.unlink()
    versions.unlink()
    return path


def nvjitlink(folder: Path, *releases: str) -> Path:
    functions = "".join(f"int __nvJitLinkCreate_{release}(void) {{ return 0; }}\n" for release in releases)
    return build(folder / "libnvJitLink.so.12", functions)


def cudnn_parts(folder: Path, *functions: str) -> None:
    for part in SUBLIBRARIES:
        names = functions if part == "graph" else (f"in_{part}",)
        build(folder / f"libcudnn_{part}.so.9", "".join(f"int {name}(void) {{ return 9; }}\n" for name in names))


def venv(tmp_path: Path, *, rpath: str = "runpath", preloads: bool = False) -> Path:
    """A torch whose cuSPARSE needs nvJitLink at its start, and whose cuDNN opens libcudnn_graph when it needs it."""
    site = write_venv(tmp_path / "venv")
    folder = site / "nvidia"
    linker = nvjitlink(folder / "nvjitlink/lib", "12_4", "12_8")
    tags = "--enable-new-dtags" if rpath == "runpath" else "--disable-new-dtags"
    sparse = build(
        folder / "cusparse/lib/libcusparse.so.12",
        "int __nvJitLinkCreate_12_8(void); int cusparseCreate(void) { return __nvJitLinkCreate_12_8(); }",
        str(linker), f"-Wl,{tags}", "-Wl,-rpath,$ORIGIN/../../nvjitlink/lib",
    )  # fmt: skip
    cudnn_parts(folder / "cudnn/lib", "cudnnCreate", "cudnnPopulate")
    cudnn = build(
        folder / "cudnn/lib/libcudnn.so.9", DISPATCHER, "-ldl", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN"
    )
    package = write_torch(site, "2.9.1", requires=PINS)
    build(
        package / "lib/libtorch_cuda.so", "int torch(void) { return 0; }", str(sparse), str(cudnn),
        "-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN/../../nvidia/cusparse/lib:$ORIGIN/../../nvidia/cudnn/lib",
    )  # fmt: skip
    (package / "lib/libtorch_python.so").write_bytes(shared_library(needed=("libtorch_cuda.so",), runpath="$ORIGIN"))
    next(package.glob("_C.*.so")).write_bytes(shared_library(needed=("libtorch_python.so",), runpath="$ORIGIN/lib"))
    (package / "__init__.py").write_text(PRELOADING if preloads else "")
    for pin in PINS:
        write_distribution(site, *pin.split("=="))
    return site


def probe(site: Path, **variables: str) -> PythonEnvironment:
    environment = probe_environment(LiveHost(), str(site.parents[2]), variables, late=matrix().tables.late_libraries)
    assert environment.value is not None
    return environment.value


def loader_says(site: Path, preloads: bool = False, **variables: str) -> tuple[bool, bool]:
    """Whether the real loader loads torch's library, and whether cuDNN's functions then find theirs."""
    program = f"""
import ctypes, os
if {preloads}:
    ctypes.CDLL({str(site / "nvidia/nvjitlink/lib/libnvJitLink.so.12")!r})
try:
    ctypes.CDLL({str(site / "torch/lib/libtorch_cuda.so")!r}, mode=os.RTLD_NOW)
except OSError:
    print(False, ctypes.CDLL({str(site / "nvidia/cudnn/lib/libcudnn.so.9")!r}).cudnnPopulate() == 9)
else:
    print(True, ctypes.CDLL("libcudnn.so.9").cudnnPopulate() == 9)
"""
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True)
    loads, computes = done.stdout.split()
    return loads == "True", computes == "True"


def probe_says(environment: PythonEnvironment) -> tuple[bool, bool]:
    missing = environment.missing_symbols
    return not any(not one.late for one in missing), not any("cudnn" in one.library for one in missing)


@pytest.mark.parametrize(
    ("there", "rpath", "preloads", "expected"),
    [
        ("nothing", "runpath", False, (True, True)),
        ("older nvJitLink", "runpath", False, (False, True)),
        ("older nvJitLink", "rpath", False, (True, True)),
        ("older nvJitLink", "runpath", True, (True, True)),
        ("newer nvJitLink", "runpath", False, (True, True)),
        ("older cuDNN", "runpath", False, (True, False)),
        ("newer cuDNN", "runpath", False, (True, True)),
        ("the wheel's own", "runpath", False, (True, True)),
    ],
)
def test_the_probe_says_what_the_loader_does(tmp_path, there, rpath, preloads, expected):
    site = venv(tmp_path, rpath=rpath, preloads=preloads)
    folder = tmp_path / "other"
    folder.mkdir()
    if there == "older nvJitLink":
        nvjitlink(folder, "12_4")
    elif there == "newer nvJitLink":
        nvjitlink(folder, "12_4", "12_8", "12_9")
    elif there == "older cuDNN":
        cudnn_parts(folder, "cudnnCreate")
    elif there == "newer cuDNN":
        cudnn_parts(folder, "cudnnCreate", "cudnnPopulate", "cudnnNewest")
    elif there == "the wheel's own":
        folder = site / "nvidia/cudnn/lib"
    variables = {"LD_LIBRARY_PATH": str(folder)}
    assert loader_says(site, preloads, **variables) == expected
    environment = probe(site, **variables)
    assert probe_says(environment) == expected
    if there in ("nothing", "the wheel's own"):
        assert environment.libraries.found == ()
    assert probe(site).missing_symbols == ()


def test_a_wheel_in_another_version_than_torch_pins_is_held_against_what_needs_it(tmp_path):
    site = venv(tmp_path)
    nvjitlink(site / "nvidia/nvjitlink/lib", "12_4")
    (site / "nvidia_nvjitlink_cu12-12.8.93.dist-info").rename(site / "nvidia_nvjitlink_cu12-12.4.127.dist-info")
    metadata = site / "nvidia_nvjitlink_cu12-12.4.127.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("12.8.93", "12.4.127"))
    assert loader_says(site) == probe_says(probe(site)) == (False, True)
    (missing,) = probe(site).missing_symbols
    assert missing == MissingSymbols(
        library="libnvJitLink.so.12",
        path=str(site / "nvidia/nvjitlink/lib/libnvJitLink.so.12"),
        needed_by=str(site / "nvidia/cusparse/lib/libcusparse.so.12"),
        symbols=("__nvJitLinkCreate_12_8",),
    )


def test_a_library_from_another_environment_has_the_version_of_its_wheel(tmp_path):
    site = venv(tmp_path)
    other = tmp_path / "other/lib/python3.11/site-packages"
    cudnn_parts(other / "nvidia/cudnn/lib", "cudnnCreate")
    write_distribution(other, "nvidia-cudnn-cu12", "9.1.0.70")
    found = probe(site, LD_LIBRARY_PATH=str(other / "nvidia/cudnn/lib")).libraries.found
    assert {one.name for one in found} == {f"libcudnn_{part}.so.9" for part in SUBLIBRARIES}
    assert {(one.version, one.wins) for one in found} == {("9.1.0.70", True)}
    write_distribution(other, "nvidia-cudnn-cu11", "9.4.0.58")
    assert probe(site, LD_LIBRARY_PATH=str(other / "nvidia/cudnn/lib")).libraries.found[0].version is None


def test_what_only_a_system_has_is_opened_there_if_it_can_be_loaded(tmp_path):
    """The wheel of cuDNN 9.20.0.48 lacks an engine that it opens; a system's one may need what the wheel has not."""
    site = venv(tmp_path)
    pin = site / "nvidia_cudnn_cu12-9.10.2.21.dist-info"
    newer = pin.rename(site / "nvidia_cudnn_cu12-9.20.0.48.dist-info") / "METADATA"
    newer.write_text(newer.read_text().replace("9.10.2.21", "9.20.0.48"))
    folder = tmp_path / "system"
    name = "libcudnn_engines_tensor_ir.so.9"
    build(folder / name, "int engine(void) { return 0; }")
    (found,) = probe(site, LD_LIBRARY_PATH=str(folder)).libraries.found
    assert (found.name, found.wins) == (name, True)
    giver = build(tmp_path / "newer/libcudnn_graph.so.9", "int fusion(void) { return 0; }")
    build(folder / name, "int fusion(void); int engine(void) { return fusion(); }", str(giver))
    environment = probe(site, LD_LIBRARY_PATH=str(folder))
    assert (environment.libraries.found, environment.missing_symbols) == ((), ())


def test_symbols_of_a_library_by_the_one_that_they_are_needed_of(tmp_path):
    site = venv(tmp_path)
    with (site / "nvidia/cusparse/lib/libcusparse.so.12").open("rb") as handle:
        sparse = open_elf(handle)
        assert symbols_needed_of(sparse, "libnvJitLink.so.12") == {"__nvJitLinkCreate_12_8"}
        assert symbols_needed_of(sparse, "libcudnn.so.9") == frozenset()
        assert "cusparseCreate" in provided_symbols(sparse)
    whole = (site / "nvidia/cusparse/lib/libcusparse.so.12").read_bytes()
    for length in range(0, len(whole), 97):
        try:
            cut = open_elf(whole[:length])
            symbols_needed_of(cut, "libnvJitLink.so.12")
            provided_symbols(cut)
        except NotReadable:
            pass


def test_a_release_of_another_major_opens_other_libraries():
    rows = matrix().tables.late_libraries
    by_version = {
        version: late_libraries(rows, listed(nvidia_cudnn_cu12=version)).opened["libcudnn"]
        for version in ("8.9.2.26", "9.10.2.21", "9.20.0.48")
    }
    assert "libcudnn_ops_infer" in by_version["8.9.2.26"]
    assert "libcudnn_engines_tensor_ir" not in by_version["9.10.2.21"]
    assert "libcudnn_engines_tensor_ir" in by_version["9.20.0.48"]


def test_pins_of_torch_and_of_the_toolkit_package():
    toolkit = ("nvidia-nvjitlink==13.0.88.*; extra == 'nvjitlink'",)
    assert other_wheels(listed(cuda_toolkit=("13.0.2", toolkit), nvidia_nvjitlink="13.0.88")) == frozenset()
    assert other_wheels(listed(cuda_toolkit=("13.0.2", toolkit), nvidia_nvjitlink="12.9.86")) == {"nvidia-nvjitlink"}
    for_both = ("nvidia-nccl-cu12==2.27.5; platform_machine == 'x86_64'", "nvidia-nccl-cu12 (==2.27.3)")
    assert other_wheels(listed(torch=("2.9.1", for_both), nvidia_nccl_cu12="2.27.3")) == frozenset()
    assert other_wheels(listed(torch=("2.9.1", for_both))) == frozenset()


def listed(**versions):
    from gpudoctor.machine import Distribution

    pairs = {name: value if isinstance(value, tuple) else (value, ()) for name, value in versions.items()}
    return [
        Distribution(name=name.replace("_", "-"), version=version, requires=requires)
        for name, (version, requires) in pairs.items()
    ]
