"""What torch's own files say: version, build, origin, copies, damage, and what its libraries ask for."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.frameworks.torch.probes.files import parse_version_file
from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import PythonEnvironment, Torch, known
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.survey import survey
from tests.support.check_cases import matrix
from tests.support.environments import (
    CUDA_REQUIRES,
    shared_library,
    version_file,
    write_conda,
    write_conda_record,
    write_distribution,
    write_torch,
    write_venv,
)
from tests.support.judging import finding


def probe(prefix: Path, **variables: str) -> PythonEnvironment:
    """The venv or conda prefix `prefix` of the running system."""
    environment = probe_environment(LiveHost(), str(prefix), variables).value
    assert environment is not None
    return environment


def torch_in(prefix: Path, **variables: str) -> Torch:
    torch = probe(prefix, **variables).torch.value
    assert torch is not None
    return torch


def copies(torch: Torch) -> list[tuple[str | None, str]]:
    return [(copy.version, copy.via) for copy in torch.copies]


# --- version and build ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "cuda", "hip", "build", "rocm"),
    [
        ("2.9.1+cu128", "12.8", None, "cu128", None),
        ("1.13.1+cu117", "11.7", None, "cu117", None),
        ("2.0.1+cu118.with.pypi.cudnn", "11.8", None, "cu118", None),
        ("2.9.1", "12.8", None, "cu128", None),
        ("2.13.0", "13.0", None, "cu130", None),
        ("2.9.1+rocm6.4", None, "6.4.43482-0f2d60242", "rocm6.4", "6.4"),
        ("2.7.0+rocm6.2.4", None, "6.2.41134-65d174c3e", "rocm6.2.4", "6.2.4"),
        ("2.8.0+rocm7.0.0.lw.git64359f59", None, "7.0.51831-a3e329ad8", "rocm7.0.0", "7.0.0"),
        ("2.9.0a0+gitf5a1c0e", None, "6.4.43484-123eb5128", "rocm6.4", "6.4"),
        ("2.9.0a0+50eac811a6.nv25.09", "13.0", None, "cu130", None),
        ("2.13.0+cpu", None, None, "cpu", None),
        ("2.5.1", None, None, "cpu", None),
        ("2.8.0+xpu", None, None, "xpu", None),
    ],
)
def test_version_and_build(
    tmp_path: Path, version: str, cuda: str | None, hip: str | None, build: str, rocm: str | None
) -> None:
    write_torch(write_venv(tmp_path / "venv"), version, cuda, hip)
    torch = torch_in(tmp_path / "venv")
    assert (torch.version, torch.build, torch.cuda, torch.hip, torch.rocm) == (version, build, cuda, hip, rocm)
    assert torch.has_cuda_libraries is (cuda is not None or hip is not None)


def test_the_version_file_is_read_and_never_run(tmp_path: Path) -> None:
    package = write_torch(write_venv(tmp_path / "venv"))
    proof = tmp_path / "ran"
    program = f"import pathlib\npathlib.Path({str(proof)!r}).touch()\ncuda = open('/etc/passwd').read()\n"
    (package / "version.py").write_text(program + version_file("2.9.1+cu128", "12.8"))
    assert torch_in(tmp_path / "venv").version == "2.9.1+cu128"
    assert not proof.exists()


@pytest.mark.parametrize(
    "content", ["", "\0" * 100, "__version__ = 3\n", "__version__ = '../../x'\n", "__version__ ="]
)
def test_a_version_file_that_names_no_version_is_damage_where_there_is_a_record(tmp_path: Path, content: str) -> None:
    package = write_torch(write_venv(tmp_path / "venv"))
    (package / "version.py").write_text(content)
    torch = torch_in(tmp_path / "venv")
    assert (torch.version, torch.build) == ("2.9.1+cu128", "cu128")
    assert [Path(file.path).name for file in torch.damaged] == ["version.py"]


def test_a_torch_of_which_nothing_names_a_version_is_unknown_and_not_absent(tmp_path: Path) -> None:
    package = write_torch(write_venv(tmp_path / "venv"), dist_info=False)
    (package / "version.py").write_text("")
    assert probe(tmp_path / "venv").torch.state == "unknown"


@given(st.text())
def test_any_text_may_stand_in_the_version_file(text: str) -> None:
    file = parse_version_file(text)
    assert file is None or file.version[0].isdigit()


@given(
    st.from_regex(r"2\.[0-9]{1,2}\.[0-9](\+(cu1[123][0-9]|cpu|rocm6\.[0-9]))?", fullmatch=True),
    st.none() | st.from_regex(r"1[1-3]\.[0-9]", fullmatch=True),
    st.none() | st.from_regex(r"[5-7]\.[0-9]\.[0-9]{5}-[0-9a-f]{9}", fullmatch=True),
)
def test_what_a_build_writes_is_read_back(version: str, cuda: str | None, hip: str | None) -> None:
    file = parse_version_file(version_file(version, cuda, hip))
    assert file is not None
    assert (file.version, file.cuda, file.hip) == (version, cuda, hip)


# --- origin --------------------------------------------------------------------------------------

ROCM_REQUIRES = ("filelock", "pytorch-triton-rocm==3.5.1")


@pytest.mark.parametrize(
    ("version", "cuda", "hip", "options", "origin"),
    [
        ("2.6.0+cu124", "12.4", None, {"dist_version": "2.6.0"}, "pypi"),
        ("2.9.1", "12.8", None, {}, "pypi"),
        ("2.9.1", "12.8", None, {"installer": "uv"}, "pypi"),
        ("2.9.1", "12.8", None, {"requires": ("cuda-toolkit[cublas,cudart]==13.0.2",)}, "pypi"),
        ("2.9.1+cpu", None, None, {"dist_version": "2.9.1"}, "pypi"),
        ("2.9.1+cu128", "12.8", None, {}, "download.pytorch.org"),
        ("2.9.1+cpu", None, None, {}, "download.pytorch.org"),
        ("2.9.1+rocm6.4", None, "6.4.4", {"requires": ROCM_REQUIRES}, "download.pytorch.org"),
        ("2.7.0+rocm6.2.4", None, "6.2.4", {"requires": ROCM_REQUIRES}, "download.pytorch.org"),
        ("2.14.0+rocm7.14", None, "7.14.1", {"requires": ROCM_REQUIRES}, "download.pytorch.org"),
        ("2.12.0+rocm7.14.0", None, "7.14.1", {"requires": ("rocm[libraries]==7.14.0",)}, "amd"),
        ("2.8.0+rocm7.0.0.lw.git64359f59", None, "7.0.5", {"requires": ROCM_REQUIRES}, "amd"),
        ("2.6.0+rocm6.4.1.git1ded221d", None, "6.4.4", {"requires": ROCM_REQUIRES}, "amd"),
        ("2.14.0a0+rocm7.15", None, "7.15.1", {"requires": ROCM_REQUIRES}, "amd"),
        ("2.10.0+rocm7.13.0a20260508", None, "7.13.1", {"requires": ROCM_REQUIRES}, "amd"),
        ("1.6.0a0+93432cf", "10.2", None, {"requires": (), "installer": ""}, "source"),
        ("2.10.0a0+rocm7.11.0a20260121", None, "7.11.5", {"requires": ROCM_REQUIRES}, "amd"),
        ("2.13.0.dev20260401+cu130", "13.0", None, {}, "nightly"),
        ("2.13.0.dev20260401+rocm7.2", None, "7.2.5", {"requires": ROCM_REQUIRES}, "nightly"),
        ("2.9.0a0+50eac811a6.nv25.09", "13.0", None, {"requires": ()}, "ngc"),
        ("2.9.0a0+gitf5a1c0e", "12.8", None, {"requires": (), "installer": ""}, "source"),
        ("2.9.0a0+gitf5a1c0e", None, "6.4.4", {"requires": ()}, "source"),
        ("2.9.1+cu128", "12.8", None, {"dist_info": False}, "unknown"),
    ],
)
def test_who_built_it(
    tmp_path: Path, version: str, cuda: str | None, hip: str | None, options: dict[str, object], origin: str
) -> None:
    write_torch(write_venv(tmp_path / "venv"), version, cuda, hip, **options)  # type: ignore[arg-type]
    assert torch_in(tmp_path / "venv").origin == origin


@pytest.mark.parametrize(("channel", "origin"), [("conda-forge", "conda-forge"), ("pytorch", "conda")])
def test_conda_builds_are_told_by_their_channel(tmp_path: Path, channel: str, origin: str) -> None:
    write_torch(write_conda(tmp_path / "env"), "2.5.1", "12.6", requires=(), installer="conda")
    write_conda_record(tmp_path / "env", "pytorch", "2.5.1", "cuda126_py312_h1_303", channel)
    torch = torch_in(tmp_path / "env")
    assert (torch.origin, torch.build) == (origin, "cu126")
    assert copies(torch) == [("2.5.1", "site")]


def test_libtorch_of_conda_lies_in_the_prefix(tmp_path: Path) -> None:
    package = write_torch(write_conda(tmp_path / "env"), "2.5.1", None, requires=(), installer="conda")
    write_conda_record(tmp_path / "env", "pytorch", "2.5.1", "cpu_generic_py312_h1_0")
    for library in (package / "lib").iterdir():
        library.rename(tmp_path / "env/lib" / library.name)
    assert torch_in(tmp_path / "env").has_cuda_libraries is False
    (tmp_path / "env/lib/libtorch_cuda.so").write_bytes(shared_library())
    assert torch_in(tmp_path / "env").has_cuda_libraries is True


def recorded(root: Path, **variables: str) -> Torch:
    environment = probe_environment(RecordedHost(root, variables), None, {}).value
    assert environment is not None
    assert environment.torch.value is not None
    return environment.torch.value


def write_debian(root: Path) -> Path:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/python3.12").touch()
    (root / "usr/bin/python3").symlink_to("python3.12")
    (root / "usr/lib/python3.12").mkdir(parents=True)
    packages = root / "usr/lib/python3/dist-packages"
    packages.mkdir(parents=True)
    return packages


def test_a_distributions_own_torch(tmp_path: Path) -> None:
    write_torch(write_debian(tmp_path), "2.5.1", None, requires=(), installer="debian", dist_version="2.5.1+dfsg")
    assert recorded(tmp_path).origin == "distribution"


def test_nix_keeps_its_torch_in_the_store(tmp_path: Path) -> None:
    store = tmp_path / "nix/store/abc-python3.12-torch-2.9.1/lib/python3.12/site-packages"
    write_torch(store, "2.9.1", "12.8", requires=(), installer="pip")
    environment = tmp_path / "nix/store/xyz-python3-3.12.8-env"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python3.12").write_bytes(shared_library())
    site = environment / "lib/python3.12/site-packages"
    site.mkdir(parents=True)
    for entry in store.iterdir():
        (site / entry.name).symlink_to("/" + str(entry.relative_to(tmp_path)))
    (environment / "bin/python3").symlink_to("python3.12")
    torch = recorded(tmp_path, PATH="/nix/store/xyz-python3-3.12.8-env/bin")
    assert (torch.origin, torch.damaged) == ("distribution", ())


def test_pip_into_debians_python_is_no_distribution_torch(tmp_path: Path) -> None:
    write_debian(tmp_path)
    write_torch(tmp_path / "usr/local/lib/python3.12/dist-packages", "2.9.1+cu128", "12.8")
    assert recorded(tmp_path).origin == "download.pytorch.org"


def test_ngc_and_jetson_share_a_tag_and_differ_by_the_board(tmp_path: Path) -> None:
    write_debian(tmp_path)
    site = tmp_path / "usr/local/lib/python3.12/dist-packages"
    write_torch(site, "2.5.0a0+872d972e41.nv24.08", "12.6", requires=())
    assert recorded(tmp_path).origin == "ngc"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").write_text("# R36 (release), REVISION: 4.3\n")
    assert recorded(tmp_path).origin == "jetson"
    assert recorded(tmp_path, NVIDIA_PYTORCH_VERSION="24.08").origin == "ngc"


def test_a_jetson_wheel_without_a_tag_pins_no_nvidia_wheels(tmp_path: Path) -> None:
    write_debian(tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nv_tegra_release").touch()
    site = tmp_path / "usr/local/lib/python3.12/dist-packages"
    write_torch(site, "2.8.0", "12.6", requires=("filelock",))
    assert recorded(tmp_path).origin == "jetson"


@pytest.mark.parametrize("version", ["2.10.0a0+git1234567", "2.10.0"])
def test_an_editable_checkout_is_a_source_build(tmp_path: Path, version: str) -> None:
    site = write_venv(tmp_path / "venv")
    package = write_torch(tmp_path / "pytorch", version, "12.8", dist_info=False)
    (site / "__editable___torch_2_10_0_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'functorch': '/x', 'torch': {str(package)!r}}}\n"
    )
    (write_distribution(site, "torch", version) / "direct_url.json").write_text(
        '{"dir_info": {"editable": true}, "url": "file:///src/pytorch"}'
    )
    torch = torch_in(tmp_path / "venv")
    assert (torch.origin, torch.path, torch.damaged) == ("source", str(package), ())
    assert copies(torch) == [(version, "editable")]


def test_a_checkout_on_a_pth_line_is_a_source_build(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(tmp_path / "pytorch", "2.10.0", "12.8", dist_info=False)
    (tmp_path / "pytorch/setup.py").touch()
    (site / "easy-install.pth").write_text(f"{tmp_path}/pytorch\n")
    torch = torch_in(tmp_path / "venv")
    assert (torch.origin, copies(torch)) == ("source", [("2.10.0", ".pth")])


# --- copies --------------------------------------------------------------------------------------


def test_one_clean_install_is_one_copy(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "venv"), "2.6.0+cu124", "12.4", dist_version="2.6.0")
    assert copies(torch_in(tmp_path / "venv")) == [("2.6.0+cu124", "site")]


def test_copies_come_in_the_order_of_sys_path(tmp_path: Path) -> None:
    site = write_conda(tmp_path / "env")
    write_torch(site, "2.5.1", "12.4")
    write_torch(tmp_path / "home/.local/lib/python3.12/site-packages", "2.2.0+cu121", "12.1")
    write_torch(tmp_path / "extra", "2.9.1+cu128", "12.8", dist_info=False)
    write_torch(tmp_path / "linked", "2.7.0+cu126", "12.6")
    (site / "linked.pth").write_text(f"{tmp_path}/linked\n")
    torch = torch_in(tmp_path / "env", HOME=str(tmp_path / "home"), PYTHONPATH=str(tmp_path / "extra"))
    assert copies(torch) == [
        ("2.9.1+cu128", "PYTHONPATH"),
        ("2.2.0+cu121", "user site"),
        ("2.5.1", "site"),
        ("2.7.0+cu126", ".pth"),
    ]
    assert torch.version == "2.9.1+cu128"
    assert torch.origin == "unknown"


def test_condas_record_is_about_the_torch_in_its_own_folder(tmp_path: Path) -> None:
    write_torch(write_conda(tmp_path / "env"), "2.8.0", "12.9", installer="conda")
    write_conda_record(tmp_path / "env", "pytorch", "2.8.0", "cuda129_generic_py312_h1_200")
    write_torch(tmp_path / "home/.local/lib/python3.12/site-packages", "2.6.0+cpu", None)
    torch = torch_in(tmp_path / "env", HOME=str(tmp_path / "home"))
    assert copies(torch) == [("2.6.0+cpu", "user site"), ("2.8.0", "site")]


def test_a_module_named_torch_on_pythonpath_is_what_would_be_imported(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "venv"))
    (tmp_path / "work").mkdir()
    (tmp_path / "work/torch.py").write_text("print('mine')\n")
    torch = torch_in(tmp_path / "venv", PYTHONPATH=str(tmp_path / "work"))
    assert copies(torch) == [(None, "PYTHONPATH"), ("2.9.1+cu128", "site")]
    assert torch.copies[0].path.endswith("/work/torch.py")
    assert torch.version == "2.9.1+cu128"


def test_left_overs_are_traces_after_the_copy(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_torch(site, "2.9.1+cu128", "12.8")
    write_distribution(site, "torch", "2.4.0+cu121")
    (site / "~orch").mkdir()
    (site / "~orch-2.3.0.dist-info").mkdir()
    torch = torch_in(tmp_path / "venv")
    assert copies(torch)[0] == ("2.9.1+cu128", "site")
    assert sorted(via for _, via in copies(torch)[1:]) == [
        "interrupted uninstall",
        "interrupted uninstall",
        "left-over dist-info",
    ]
    assert torch.origin == "download.pytorch.org"
    assert torch.damaged == ()


def test_files_of_an_interrupted_uninstall_tell_their_version(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    (site / "~orch").mkdir()
    (site / "~orch/version.py").write_text(version_file("2.9.1+cu128", "12.8"))
    environment = probe_environment(LiveHost({}), str(tmp_path / "venv"), {}).value
    assert environment is not None
    assert [(one.version, one.via) for one in environment.torch_remains] == [("2.9.1+cu128", "interrupted uninstall")]


def test_files_of_another_version_than_their_record(tmp_path: Path) -> None:
    write_torch(write_venv(tmp_path / "venv"), "2.9.1+cu128", "12.8", dist_version="2.4.0")
    torch = torch_in(tmp_path / "venv")
    assert copies(torch) == [("2.9.1+cu128", "site"), ("2.4.0", "left-over dist-info")]
    assert (torch.version, torch.origin) == ("2.9.1+cu128", "unknown")


@pytest.mark.parametrize(
    ("version", "recorded_as"),
    [
        ("2.9.0a0+50eac811a6.nv25.09", "2.9.0a0+50eac811a6.nv25.9"),
        ("2.5.1", "2.5.1+dfsg"),
        ("2.14.0+rocm7.14", "2.14.0+ROCm7.14"),
        ("2.9.1+cu128", "2.9.1"),
    ],
)
def test_records_of_the_same_version_written_differently_are_no_left_over(
    tmp_path: Path, version: str, recorded_as: str
) -> None:
    write_torch(write_venv(tmp_path / "venv"), version, "13.0", requires=(), dist_version=recorded_as)
    assert copies(torch_in(tmp_path / "venv")) == [(version, "site")]


def test_a_record_without_files_is_no_torch(tmp_path: Path) -> None:
    write_distribution(write_venv(tmp_path / "venv"), "torch", "2.9.1")
    torch = probe(tmp_path / "venv").torch
    assert torch.absent
    assert "dist-info without files" in torch.why


@pytest.mark.parametrize("record", ["", "torch/__init__.py,sha256=A,100\n"])
@pytest.mark.parametrize(
    ("version", "requires", "build", "origin"),
    [
        ("2.9.1+rocm6.4", (), "rocm6.4", "download.pytorch.org"),
        ("2.9.1+cpu", (), "cpu", "download.pytorch.org"),
        ("2.11.0+rocm7.14.0", (), "rocm7.14.0", "amd"),
        ("2.9.1", ("nvidia-cuda-runtime-cu12==12.8.90; platform_system == 'Linux'",), "cu128", "pypi"),
        ("1.13.1", ("nvidia-cuda-runtime-cu11 (==11.7.99) ; platform_system == 'Linux'",), "cu117", "pypi"),
        ("2.15.0", ("cuda-toolkit[cublas,cudart]==13.2.2; platform_system == 'Linux'",), "cu132", "pypi"),
        ("2.9.1", (), None, "pypi"),
    ],
)
def test_of_a_recording_the_record_alone_stands_for_the_torch(
    tmp_path: Path, version: str, requires: tuple[str, ...], build: str | None, origin: str, record: str
) -> None:
    site = write_venv(tmp_path / "venv")
    write_distribution(site, "torch", version, requires=requires)
    (site / f"torch-{version}.dist-info/RECORD").write_text(record)
    torch = recorded(tmp_path, VIRTUAL_ENV="/venv")
    assert (torch.version, torch.build, torch.origin, torch.damaged) == (version, build, origin, ())
    assert "the recording holds nothing else" in torch.source


def test_files_that_an_uninstall_left_are_no_torch(tmp_path: Path) -> None:
    (write_venv(tmp_path / "venv") / "torch/utils/__pycache__").mkdir(parents=True)
    torch = probe(tmp_path / "venv").torch
    assert torch.absent
    assert "left-over files" in torch.why


def test_conda_and_pip_both_installed_a_torch(tmp_path: Path) -> None:
    write_torch(write_conda(tmp_path / "env"), "2.9.1+cu128", "12.8", installer="pip")
    write_conda_record(tmp_path / "env", "pytorch", "2.5.1", "cuda126_py312_h1_303")
    torch = torch_in(tmp_path / "env")
    assert copies(torch) == [("2.9.1+cu128", "site"), ("2.5.1", "conda record")]
    assert torch.origin == "download.pytorch.org"


# --- damage --------------------------------------------------------------------------------------


def damage(prefix: Path) -> list[tuple[str, str]]:
    return sorted((Path(file.path).name, file.problem) for file in torch_in(prefix).damaged)


def test_missing_and_truncated_files(tmp_path: Path) -> None:
    package = write_torch(write_venv(tmp_path / "venv"))
    assert damage(tmp_path / "venv") == []
    (package / "lib/libtorch_cuda.so").unlink()
    whole = (package / "lib/libtorch_cpu.so").read_bytes()
    (package / "lib/libtorch_cpu.so").write_bytes(whole[:200])
    (package / "__init__.py").write_bytes(b"")
    assert damage(tmp_path / "venv") == [
        ("__init__.py", "truncated"),
        ("libtorch_cpu.so", "truncated"),
        ("libtorch_cuda.so", "missing"),
    ]


def test_what_people_leave_out_or_change_on_purpose_is_no_damage(tmp_path: Path) -> None:
    package = write_torch(write_venv(tmp_path / "venv"))
    record = next(package.parent.glob("torch-*.dist-info")) / "RECORD"
    with record.open("a") as handle:
        handle.write("torch/include/torch/all.h,sha256=A,100\ntorch/test/a.py,sha256=A,5\n")
        handle.write("torch/__pycache__/__init__.cpython-312.pyc,,\ntorch/py.typed,sha256=A,0\n")
        handle.write("torch/lib/libprotobuf.a,sha256=A,77\n../../../bin/torchrun,sha256=A,9\n")
    (package / "__init__.py").rename(package / "__init__.pyc")
    library = package / "lib/libtorch_cpu.so"
    library.write_bytes(shared_library())  # whole, and smaller than it was: stripped
    assert damage(tmp_path / "venv") == [("libtorch_cpu.so", "changed")]


def test_without_a_record_a_cut_library_is_still_seen(tmp_path: Path) -> None:
    package = write_torch(write_venv(tmp_path / "venv"), dist_info=False)
    assert damage(tmp_path / "venv") == []
    library = package / "lib/libtorch_python.so"
    library.write_bytes(library.read_bytes()[:100])
    assert damage(tmp_path / "venv") == [("libtorch_python.so", "truncated")]


# --- what its libraries ask for ------------------------------------------------------------------


def write_linked_torch(site: Path, needed: tuple[str, ...], **paths: str) -> Path:
    """A torch whose libtorch_cuda.so asks for `needed`, with the wheel's own search path."""
    cuda = shared_library(needed=("libc10.so", *needed), **paths)  # type: ignore[arg-type]
    python = shared_library(needed=("libtorch_cuda.so", "libc10.so"), runpath="$ORIGIN")
    package = write_torch(
        site, requires=CUDA_REQUIRES, libraries={"libtorch_cuda.so": cuda, "libtorch_python.so": python}
    )
    extension = next(package.glob("_C.*.so"))
    extension.write_bytes(shared_library(needed=("libtorch_python.so",), runpath="$ORIGIN/lib"))
    return package


def write_library(path: Path, **parts: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(shared_library(**parts))  # type: ignore[arg-type]


def test_a_library_that_is_nowhere_is_named(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    write_linked_torch(
        site, ("libmadeup_a.so.12", "libmadeup_b.so.9", "libcuda.so.1"), runpath="$ORIGIN/../../other/lib"
    )
    write_library(site / "nvidia/madeup/lib/libmadeup_a.so.12", needed=("libmadeup_c.so.12",))
    assert torch_in(tmp_path / "venv").needs_libraries == ("libmadeup_b.so.9", "libmadeup_c.so.12")
    write_library(site / "other/lib/libmadeup_b.so.9")
    write_library(site / "nvidia/cu13/lib/libmadeup_c.so.12")
    assert torch_in(tmp_path / "venv").needs_libraries == ()


def test_a_folder_that_is_met_later_serves_what_was_asked_earlier(tmp_path: Path) -> None:
    """A name that some library loaded serves all: torch loads its CUDA libraries before those that need them."""
    site = write_venv(tmp_path / "venv")
    package = write_linked_torch(site, ("libmadeup_a.so.12",))
    write_library(package / "lib/libc10.so", runpath="$ORIGIN/../../deep/lib", needed=("libmadeup_b.so.1",))
    write_library(site / "deep/lib/libmadeup_b.so.1", runpath="$ORIGIN")
    write_library(site / "deep/lib/libmadeup_a.so.12", needed=("libmadeup_c.so.1",))
    assert torch_in(tmp_path / "venv").needs_libraries == ("libmadeup_c.so.1",)


def test_a_folder_of_ld_library_path_serves_what_the_wheel_lacks(tmp_path: Path) -> None:
    write_linked_torch(write_venv(tmp_path / "venv"), ("libmadeup_a.so.12",))
    write_library(tmp_path / "hpc/lib/libmadeup_a.so.12")
    assert torch_in(tmp_path / "venv", LD_LIBRARY_PATH=str(tmp_path / "hpc/lib")).needs_libraries == ()


def test_nothing_is_called_missing_where_the_load_path_is_not_recorded(tmp_path: Path) -> None:
    write_linked_torch(write_venv(tmp_path / "srv/venv"), ("libmadeup_a.so.12",))
    assert recorded(tmp_path, VIRTUAL_ENV="/srv/venv").needs_libraries == ()


def test_a_library_that_cannot_be_read_accuses_no_one(tmp_path: Path) -> None:
    package = write_linked_torch(write_venv(tmp_path / "venv"), ("libmadeup_a.so.12",))
    (package / "lib/libc10.so").write_bytes(b"\x7fELF" + b"\xff" * 60)
    torch = torch_in(tmp_path / "venv")
    assert torch.needs_libraries == ()


def test_the_newest_symbols_of_the_c_and_cxx_libraries_that_torch_asks_for(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    package = write_linked_torch(site, ())
    needs = {"libstdc++.so.6": ["GLIBCXX_3.4.9", "GLIBCXX_3.4.29"], "libc.so.6": ["GLIBC_2.34"]}
    write_library(package / "lib/libc10.so", needed=("libstdc++.so.6",), needs=needs)
    found = torch_in(tmp_path / "venv")
    assert (found.needs_glibcxx.value, found.needs_glibc.value) == ("3.4.29", "2.34")


def test_triton_is_loaded_with_the_same_libstdcxx(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    package = write_linked_torch(site, ())
    for path, version in ((package / "lib/libc10.so", "3.4.21"), (site / "triton/_C/libtriton.so", "3.4.30")):
        needs = {"libstdc++.so.6": [f"GLIBCXX_{version}"]}
        missing = ("libnowhere.so",) if "triton" in path.parts else ()
        write_library(path, needed=("libstdc++.so.6", *missing), needs=needs)
    found = torch_in(tmp_path / "venv")
    assert found.needs_glibcxx == known("3.4.30", str(site / "triton/_C/libtriton.so"))
    assert found.needs_libraries == ()


def cxx(environment: PythonEnvironment) -> tuple[str | None, str]:
    return environment.libstdcxx.value, environment.libstdcxx_path


def test_whose_libstdcxx_is_loaded(tmp_path: Path) -> None:
    """RPATH goes before LD_LIBRARY_PATH, RUNPATH after it; a RUNPATH switches the interpreter's RPATH off."""
    site = write_conda(tmp_path / "env")
    conda_lib = tmp_path / "env/lib"
    interpreter = tmp_path / "env/bin/python3.12"
    interpreter.write_bytes(shared_library(rpath="$ORIGIN/../lib"))
    write_library(tmp_path / "old/libstdc++.so.6", defines=("GLIBCXX_3.4", "GLIBCXX_3.4.20"))
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "old")}
    ours = ("3.4.32", str(conda_lib / "libstdc++.so.6"))
    old = ("3.4.20", str(tmp_path / "old/libstdc++.so.6"))
    package = write_linked_torch(site, ())
    assert cxx(probe(tmp_path / "env", **variables)) == ours
    asks = {"needed": ("libstdc++.so.6",)}
    (package / "lib/libtorch_python.so").write_bytes(shared_library(needed=("libc10.so",)))
    next(package.glob("_C.*.so")).write_bytes(shared_library(needed=("libtorch_python.so",), rpath="$ORIGIN/lib"))
    write_library(package / "lib/libc10.so", **asks)
    assert cxx(probe(tmp_path / "env", **variables)) == ours
    write_library(package / "lib/libc10.so", **asks, runpath="$ORIGIN")
    assert cxx(probe(tmp_path / "env", **variables)) == old
    write_library(package / "lib/libc10.so", **asks, runpath="$ORIGIN/../../../..")
    assert cxx(probe(tmp_path / "env", **variables)) == old
    assert cxx(probe(tmp_path / "env")) == ours


@pytest.mark.parametrize(("paths", "wins"), [({"rpath": "$ORIGIN/../../nvidia/cudnn/lib"}, False), ({}, True)])
def test_ld_library_path_wins_unless_an_rpath_goes_before_it(
    tmp_path: Path, paths: dict[str, str], wins: bool
) -> None:
    site = write_venv(tmp_path / "venv")
    write_linked_torch(site, ("libcudnn.so.9",), **(paths or {"runpath": "$ORIGIN/../../nvidia/cudnn/lib"}))
    write_library(site / "nvidia/cudnn/lib/libcudnn.so.9")
    write_library(tmp_path / "cuda/lib/libcudnn.so.9.1.0")
    (tmp_path / "cuda/lib/libcudnn.so.9").symlink_to("libcudnn.so.9.1.0")
    write_library(tmp_path / "cuda/lib/libcudnn.so.8")
    assert probe(tmp_path / "venv").libraries.found == ()
    environment = probe(tmp_path / "venv", LD_LIBRARY_PATH=str(tmp_path / "cuda/lib"))
    (library,) = environment.libraries.found
    assert (library.name, library.version, library.wins) == ("libcudnn.so.9", "9.1.0", wins)
    assert library.via == "LD_LIBRARY_PATH"


def test_ld_preload_goes_before_everything(tmp_path: Path) -> None:
    write_linked_torch(write_conda(tmp_path / "env"), ())
    (tmp_path / "env/bin/python3.12").write_bytes(shared_library(rpath="$ORIGIN/../lib"))
    write_library(tmp_path / "old/libstdc++.so.6", defines=("GLIBCXX_3.4", "GLIBCXX_3.4.20"))
    preloaded = str(tmp_path / "old/libstdc++.so.6")
    assert cxx(probe(tmp_path / "env", LD_PRELOAD=preloaded)) == ("3.4.20", preloaded)


def test_an_editable_install_whose_sources_are_gone_leaves_a_remainder(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    record = write_distribution(site, "torch", "2.9.1")
    (record / "direct_url.json").write_text('{"dir_info": {"editable": true}, "url": "file:///src/pytorch"}')
    (site / "__editable__.torch-2.9.1.pth").write_text(f"{tmp_path}/src\n")
    assert [one.via for one in probe(tmp_path / "venv").torch_remains] == ["editable without its folder"]
    (tmp_path / "src/torch").mkdir(parents=True)
    (tmp_path / "src/torch/__init__.py").write_text("")
    assert probe(tmp_path / "venv").torch_remains == ()


def test_a_torch_where_python_does_not_look_is_named(tmp_path: Path) -> None:
    write_venv(tmp_path / "venv")
    other = tmp_path / "venv/lib/python3.9/site-packages/torch"
    other.mkdir(parents=True)
    assert probe(tmp_path / "venv").torch.why == "no torch there"
    (other / "__init__.py").write_text("")
    assert probe(tmp_path / "venv").torch.why == (
        f"no torch there; {other} is not imported: it is for Python 3.9, and this is Python 3.12"
    )


@pytest.mark.parametrize("shebang", ["#!{python}\n", '#!/bin/sh\n\'\'\'exec\' "{python}" "$0" "$@"\n'])
def test_a_copied_environment_whose_pip_installs_into_the_old_one_says_so(tmp_path: Path, shebang: str) -> None:
    write_venv(tmp_path / "copy")
    write_venv(tmp_path / "old")
    pip, python = tmp_path / "copy/bin/pip", tmp_path / "old/bin/python"
    pip.write_text(shebang.format(python=python))
    assert probe(tmp_path / "copy").torch.why == "no torch there"
    torch = tmp_path / "old/lib/python3.12/site-packages/torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("")
    assert probe(tmp_path / "copy").torch.why == (
        f"no torch there; {torch} is not imported: {pip} starts {python}, and installs there"
    )
    pip.write_text(shebang.format(python=tmp_path / "copy/bin/python"))
    assert probe(tmp_path / "copy").torch.why == "no torch there"


def test_a_user_site_that_a_variable_hides_is_named(tmp_path: Path) -> None:
    write_conda(tmp_path / "conda")
    torch = tmp_path / "user/lib/python3.12/site-packages/torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").write_text("")
    variables = {"PYTHONUSERBASE": str(tmp_path / "user"), "PYTHONNOUSERSITE": "1"}
    found = probe_environment(LiveHost({}), str(tmp_path / "conda"), variables).value
    assert found is not None
    assert f"{torch} is not imported: PYTHONNOUSERSITE is set" in found.torch.why
    found = probe_environment(LiveHost({}), str(tmp_path / "conda"), {**variables, "PYTHONNOUSERSITE": ""}).value
    assert found is not None and not found.torch.absent


def test_what_pip_renamed_and_did_not_replace_is_read(tmp_path: Path) -> None:
    site = write_venv(tmp_path / "venv")
    (site / "~orchvision-0.24.1.dist-info").mkdir()
    (site / "~orch-2.9.1.dist-info").mkdir()
    (site / "~ome_thing-1.0.dist-info").mkdir()
    assert [(one.name, one.version) for one in probe(tmp_path / "venv").interrupted] == [("torchvision", "0.24.1")]
    write_distribution(site, "torchvision", "0.24.1")
    assert probe(tmp_path / "venv").interrupted == ()


def test_another_framework_where_python_does_not_look_is_named_too(tmp_path: Path) -> None:
    prefix = tmp_path / "conda"
    write_conda(prefix)
    jax = prefix / "lib/python3.9/site-packages/jax"
    jax.mkdir(parents=True)
    (jax / "__init__.py").write_text("")
    machine = survey(LiveHost({}), matrix(), python=str(prefix), level="static").machine
    assert f"({jax} is not imported: it is for Python 3.9" in finding(machine, "torch-missing").message
