"""Whole machines that differ by their Python environment: where torch came from, how little of it was recorded,
and what is broken in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.environments import shared_library, write_distribution, write_torch
from tests.support.hosts import Host, slugs

DEBIAN = "/usr/lib/python3/dist-packages"
SITE = "/opt/venv/lib/python3.12/site-packages"


def rtx(host: Host, gpu: str = "2684", **driver: str) -> Host:
    return host.ubuntu().nvidia_gpu(gpu).nvidia_driver("580.95.05", **driver)  # type: ignore[arg-type]


def pascal(host: Host) -> Host:
    return rtx(host, "1b06", flavour="proprietary")


def from_debian(host: Host, **runtime: str) -> Host:
    """What a small recording keeps of a distribution's torch: the interpreter's name and the packages."""
    host.environ(PATH="/usr/bin").file("/usr/bin/python3.13").link("/usr/bin/python3", "python3.13")
    write_torch(
        host.path(DEBIAN), "2.6.0+debian", runtime.get("cuda"), runtime.get("hip"), installer="debian", python="3.13"
    )
    return host


def without_interpreter(host: Host) -> Host:
    write_torch(rtx(host).path(DEBIAN), "2.6.0+debian", "12.4", installer="debian")
    return host


def hardly_recorded(host: Host) -> Host:
    rtx(host).file("/v/lib/python3.12/site-packages/torch/version.py", "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n")
    return host.file("/v/pyvenv.cfg", "home = /usr/bin\n").environ(VIRTUAL_ENV="/v")


def bare_prefix(host: Host) -> Host:
    write_torch(rtx(host).path("/v/lib/python3.12/site-packages"), "2.9.1+cu128", "12.8")
    return host.environ(VIRTUAL_ENV="/v")


def editable_by_uv(host: Host) -> Host:
    rtx(host).venv()
    assert host.site is not None
    write_torch(host.path("/src/pytorch"), "2.9.0a0+git145a3a7", "12.8", dist_info=False)
    host.file("/src/pytorch/setup.py").file(f"{SITE}/__editable__.torch.pth", "/src/pytorch\n")
    record = write_distribution(host.site, "torch", "2.9.0a0+git145a3a7", installer="uv")
    (record / "direct_url.json").write_text('{"url":"file:///src/pytorch","dir_info":{"editable":true}}')
    return host


HEALTHY: dict[str, Callable[[Host], Host]] = {
    "a source build": lambda host: rtx(host).torch("2.9.0a0+git145a3a7", cuda="12.8"),
    "a source build for Pascal": lambda host: pascal(host).torch("2.9.0a0+git145a3a7", cuda="12.9"),
    "a source build for AMD": lambda host: host.ubuntu().amd_gpu("73bf", 100300).torch("2.9.0a0+git14", hip="6.4.4"),
    "a distribution's CUDA build": lambda host: from_debian(rtx(host), cuda="12.4"),
    "a distribution's ROCm build": lambda host: from_debian(host.ubuntu().amd_gpu("73bf", 100300), hip="5.7.1"),
    "packages without their interpreter": without_interpreter,
    "an environment without its interpreter and mark": bare_prefix,
    "a torch of which only version.py was recorded": hardly_recorded,
    "an editable install by uv": editable_by_uv,
    "an NGC image": lambda host: rtx(host.docker(), "2330").torch("2.9.0a0+145a3a7bda.nv25.10", cuda="13.0"),
    "an NGC image without a list": lambda host: rtx(host, "20b2").torch("1.14.0a0+44.nv23.01", cuda="12.0"),
    "a nightly of a known release": lambda host: rtx(host).torch("2.10.0.dev20251101+cu130"),
    "a nightly of the release to come": lambda host: rtx(host).torch("2.16.0.dev20261120+cu130"),
    "a patch release that is not known": lambda host: rtx(host).torch("2.9.7+cu128"),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_environment_is_silent(name: str, tmp_path: Path) -> None:
    report = HEALTHY[name](Host(tmp_path)).check()
    assert [f["message"] for f in report["findings"] if f["severity"] != "note"] == []
    assert [q["why"] for q in report["not_judged"] if q["matters"]] == []
    assert report["machine"]["environment"]["value"]["frameworks"]["torch"]["value"]["version"]
    assert "torch-shadowed" not in slugs(report)
    assert (report["verdict"], report["exit_code"]) == ("ok", 0)


def without(path: str) -> Callable[[Host], Host]:
    def change(host: Host) -> Host:
        return rtx(host).torch("2.9.1+cu128").remove(f"{SITE}/torch/{path}")

    return change


@pytest.mark.parametrize(
    ("build", "slug"),
    [
        (without("__init__.py"), "torch-install-damaged"),
        (without("version.py"), "torch-install-damaged"),
        (
            lambda host: rtx(host).torch("2.9.1+cu128").file(f"{SITE}/torch/version.py", b"\0" * 80),
            "torch-install-damaged",
        ),
        (lambda host: without("version.py")(host).file(f"{SITE}/torch/version.py/x"), "torch-install-damaged"),
        (without("lib/libtorch_cuda.so"), "torch-install-damaged"),
        (lambda host: pascal(host).torch("2.9.0a0+git145a3a7", cuda="13.0"), "torch-dropped-old-gpu"),
        (lambda host: pascal(host).torch("2.16.0+cu134"), "torch-dropped-old-gpu"),
        (lambda host: rtx(host, "2b85").torch("2.6.0.dev20241101+cu124"), "torch-no-arch-for-gpu"),
    ],
)
def test_a_broken_environment_has_its_cause_first(build: Callable[[Host], Host], slug: str, tmp_path: Path) -> None:
    report = build(Host(tmp_path)).check()
    assert (slugs(report, "error"), report["exit_code"]) == ([slug], 1)


def test_a_source_build_is_built_again_with_a_cuda_that_knows_the_gpu(tmp_path: Path) -> None:
    report = pascal(Host(tmp_path)).torch("2.9.0a0+git145a3a7", cuda="13.0").check()
    (step,) = report["findings"][0]["fixes"][0]["steps"]
    assert 'TORCH_CUDA_ARCH_LIST="6.1" and CUDA 8.0 to 12.9' in step["text"]


def test_a_torch_that_may_not_be_looked_into_is_not_taken_for_none(tmp_path: Path) -> None:
    host = rtx(Host(tmp_path)).venv()
    assert host.site is not None
    write_torch(host.site, "2.9.1+cu128", "12.8", dist_info=False)
    host.json["nodes"][f"{SITE}/torch"] = {"open": "EACCES"}
    report = host.check()
    assert ("torch-missing" in slugs(report), report["verdict"]) == (False, "unknown")


@pytest.mark.parametrize(
    ("gpu", "version", "cuda"),
    [
        ("2b85", "2.9.0a0+git145a3a7", "12.4"),  # older than the GPU: only PTX would run, and nobody knows of any
        ("2684", "2.16.0+cu134", "13.4"),  # an index build that the matrix does not know
    ],
)
def test_what_nothing_tells_is_unknown(gpu: str, version: str, cuda: str, tmp_path: Path) -> None:
    report = rtx(Host(tmp_path), gpu).torch(version, cuda=cuda).check()
    assert (slugs(report, "error"), report["verdict"], report["exit_code"]) == ([], "unknown", 3)


CUBLAS = ("libcublas.so.12", "libcublasLt.so.12")
TOOLKIT = "/usr/local/cuda-12.8/lib64"


def without_cublas(host: Host, toolkit: tuple[str, ...]) -> Host:
    """A torch whose wheel of cuBLAS is empty, and a toolkit beside it."""
    of_torch = {
        "libtorch.so": shared_library(needed=("libtorch_cuda.so",)),
        "libtorch_cuda.so": shared_library(needed=("libc10.so", *CUBLAS), rpath="$ORIGIN/../../nvidia/cublas/lib"),
    }
    rtx(host).torch("2.9.1+cu128", requires=("nvidia-cublas-cu12==12.8.4.1",), libraries=of_torch)
    own = {f"nvidia/cublas/lib/{name}": shared_library() for name in (*CUBLAS, "libnvblas.so.12")}
    host.package("nvidia-cublas-cu12", "12.8.4.1", files=own).file(f"{host.lib}/libstdc++.so.6", shared_library())
    for path in own:
        host.remove(f"{SITE}/{path}")
    for name in toolkit:
        host.file(f"{TOOLKIT}/{name}", shared_library())
    return host


@pytest.mark.parametrize(
    ("toolkit", "verdict"),
    [(CUBLAS, "warning"), (CUBLAS[:1], "error"), (("libcublas.so.11", "libcublasLt.so.11"), "error"), ((), "error")],
    ids=["whole", "half", "of another release", "none"],
)
@pytest.mark.parametrize("by_variable", [True, False], ids=["a variable", "ld.so.conf"])
def test_an_emptied_wheel_whose_libraries_the_loader_finds_elsewhere(
    tmp_path: Path, toolkit: tuple[str, ...], verdict: str, by_variable: bool
) -> None:
    host = without_cublas(Host(tmp_path), toolkit)
    if by_variable:
        host.environ(LD_LIBRARY_PATH=TOOLKIT)
    else:
        host.file("/etc/ld.so.conf.d/cuda.conf", TOOLKIT + "\n")
    report = host.check()
    assert (report["verdict"], slugs(report)[0]) == (verdict, "requirements-incomplete")


@pytest.mark.parametrize(
    ("release", "verdict"), [("12.8.4.1", "warning"), ("12.9.1.4", "warning"), ("12.6.4.1", "error")]
)
def test_libraries_of_an_older_release_do_not_stand_in_for_a_wheels(
    tmp_path: Path, release: str, verdict: str
) -> None:
    host = without_cublas(Host(tmp_path), ()).environ(LD_LIBRARY_PATH=TOOLKIT)
    for name in CUBLAS:
        host.file(f"{TOOLKIT}/{name[:-2]}{release}", shared_library()).link(
            f"{TOOLKIT}/{name}", f"{name[:-2]}{release}"
        )
    assert host.check()["verdict"] == verdict


def test_a_wheels_library_of_no_length_is_still_the_one_that_is_loaded(tmp_path: Path) -> None:
    host = without_cublas(Host(tmp_path), CUBLAS).environ(LD_LIBRARY_PATH=TOOLKIT)
    host.file(f"{SITE}/nvidia/cublas/lib/libcublas.so.12")
    assert host.check()["verdict"] == "error"


def test_libraries_on_no_path_serve_nobody(tmp_path: Path) -> None:
    assert without_cublas(Host(tmp_path), CUBLAS).check()["verdict"] == "error"
