"""The load path: what loading a driver library would give, and what lies behind or beside it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.host import LiveHost
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import Library, LoadPath
from gpudoctor.probes.load_path import driver_libraries, search, userland_version
from gpudoctor.probes.loader_cache import cached_paths

X86, ARM, I386 = 62, 183, 3
LIB = "/usr/lib/x86_64-linux-gnu"
OVERLAY = "9 1 0:55 / / rw - overlay overlay rw,upperdir=/var/lib/docker/overlay2/9f3e/diff\n"


def elf(machine: int = X86, bits: int = 64) -> bytes:
    head = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]) + bytes(9) + struct.pack("<HH", 3, machine)
    return head.ljust(64, b"\0")


class Root:
    """A folder that is a machine."""

    def __init__(self, root: Path, machine: str = "x86_64") -> None:
        self.root = root
        self.variables: dict[str, str] = {}
        self.file("/gpudoctor-host.json", json.dumps({"uname": {"release": "6.8.0", "machine": machine}}).encode())

    def file(self, path: str, content: bytes = b"") -> Root:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        return self

    def folder(self, path: str) -> Root:
        (self.root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return self

    def link(self, path: str, target: str) -> Root:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return self

    def driver(self, version: str, folder: str = LIB, machine: int = X86, bits: int = 64) -> Root:
        for name in ("libcuda.so", "libnvidia-ml.so"):
            self.file(f"{folder}/{name}.{version}", elf(machine, bits))
            self.link(f"{folder}/{name}.1", f"{name}.{version}")
        return self

    @property
    def host(self) -> RecordedHost:
        return RecordedHost(self.root)

    def path(self, **variables: str) -> LoadPath:
        return driver_libraries(self.host, variables)

    def libcuda(self, **variables: str) -> Library:
        library = self.path(**variables).first("libcuda.so.1")
        assert library is not None
        return library

    def userland(self, **variables: str) -> str | None:
        return userland_version(self.host, self.path(**variables)).value


def cache(entries: Sequence[tuple[int, str, str]], old: bool = False) -> bytes:
    """An ld.so.cache as ldconfig writes it: (flags, name, path); `old`: behind the table of glibc before 2.2."""
    start = 48 + 24 * len(entries)
    table, strings = b"", b""
    for flags, name, path in entries:
        place = start + len(strings)
        strings += path.encode() + b"\0" + name.encode() + b"\0"
        table += struct.pack("<iIIIQ", flags, place + len(path) + 1, place, 0, 0)
    head = b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", len(entries), len(strings), 2, 0)
    before = (b"ld.so-1.7.0\0" + struct.pack("<I", 0)).ljust(16, b"\0") if old else b""
    return before + head + table + strings


# --- order -------------------------------------------------------------------------------------------


def test_the_driver_of_the_distribution(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03")
    found = root.libcuda()
    assert (found.path, found.version, found.kind) == (f"{LIB}/libcuda.so.1", "560.35.03", "driver")
    assert found.mounted is None
    assert root.userland() == "560.35.03"
    assert root.path().complete.value is True


def test_variables_come_before_the_cache_and_the_cache_before_the_defaults(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03").driver("550.54.15", "/opt/cached").driver("535.104.05", "/opt/first")
    root.driver("470.256.02", "/opt/preload")
    root.file("/etc/ld.so.cache", cache([(0x0303, "libcuda.so.1", "/opt/cached/libcuda.so.1")]))
    path = root.path(LD_LIBRARY_PATH="/opt/first:/opt/nothing", LD_PRELOAD="/opt/preload/libcuda.so.1 libfoo.so")
    versions = [(library.version, library.via) for library in path.found if library.name == "libcuda.so.1"]
    assert versions == [
        ("470.256.02", "LD_PRELOAD"),
        ("535.104.05", "LD_LIBRARY_PATH"),
        ("550.54.15", "ld.so.cache"),
        ("560.35.03", "default"),
    ]


def test_without_a_cache_the_configuration_is_read_with_its_includes(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB).driver("565.57.01", "/opt/odd/lib")
    root.file("/etc/ld.so.conf", b"include ld.so.conf.d/*.conf\n")
    root.file("/etc/ld.so.conf.d/a.conf", b"# a remark\nhwcap 0 nosegneg\n/opt/odd/lib/ # the odd one\n")
    root.file("/etc/ld.so.conf.d/ignored.txt", b"/opt/other\n")
    found = root.libcuda()
    assert (found.path, found.via) == ("/opt/odd/lib/libcuda.so.1", "ld.so.conf")
    assert "/opt/other" not in root.path().searched


def test_configuration_that_includes_itself_ends(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("565.57.01").file("/etc/ld.so.conf", b"include /etc/ld.so.conf\ninclude /etc/*\n")
    assert root.libcuda().version == "565.57.01"


def test_one_file_reached_by_two_ways_is_one_library(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03").link("/lib", "usr/lib")
    root.file("/etc/ld.so.cache", cache([(0x0303, "libcuda.so.1", "/lib/x86_64-linux-gnu/libcuda.so.1")]))
    assert len([x for x in root.path(LD_LIBRARY_PATH=LIB).found if x.name == "libcuda.so.1"]) == 1


def test_lib_stands_for_the_folder_of_the_architecture(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB).driver("550.54.15", "/opt/x/lib64")
    assert root.libcuda(LD_LIBRARY_PATH="/opt/x/$LIB").version == "550.54.15"


def test_a_library_of_32_bits_or_another_processor_is_passed_over(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03")
    root.driver("535.1.1", "/opt/lib32", machine=I386, bits=32).driver("535.2.2", "/opt/arm", machine=ARM)
    root.driver("535.3.3", "/opt/x32", machine=X86, bits=32)
    assert root.libcuda(LD_LIBRARY_PATH="/opt/lib32:/opt/arm:/opt/x32").version == "560.35.03"
    root.file("/etc/ld.so.cache", cache([(0x0003, "libcuda.so.1", "/opt/lib32/libcuda.so.1")]))
    assert root.libcuda().version == "560.35.03"


def test_a_folder_or_a_dangling_link_of_that_name_is_no_library(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03").folder("/opt/a/libcuda.so.1")
    root.folder("/opt/b").link("/opt/b/libcuda.so.1", "libcuda.so.1.gone")
    assert root.libcuda(LD_LIBRARY_PATH="/opt/a:/opt/b").version == "560.35.03"


def test_an_empty_or_relative_entry_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libgpudoctor-test.so.1").write_bytes(elf(X86))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpudoctor.probes.load_path.read_arch", lambda host: LiveArch)
    for value in (":/usr/lib", "/usr/lib:", ".", "/usr/lib::/lib"):
        found = search(LiveHost(), ["libgpudoctor-test.so.1"], {"LD_LIBRARY_PATH": value})
        assert [library.path for library in found.found] == [str(tmp_path / "libgpudoctor-test.so.1")], value
    assert not search(LiveHost(), ["libgpudoctor-test.so.1"], {"LD_LIBRARY_PATH": ""}).found


class LiveArch:
    value = "x86_64"


def test_the_current_folder_of_a_recording_is_not_known(tmp_path: Path) -> None:
    path = Root(tmp_path).folder(LIB).path(LD_LIBRARY_PATH="/usr/lib:")
    assert path.complete.state == "unknown"


# --- what it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/usr/local/cuda-12.4/compat", "compat"),
        ("/usr/local/cuda/compat/lib.real", "compat"),
        ("/opt/conda/cuda-compat", "compat"),
        ("/nix/store/abc-cuda_compat-12.2/compat", "compat"),
        ("/usr/local/cuda-12.4/targets/x86_64-linux/lib/stubs", "stub"),
        ("/usr/local/cuda/lib64/stubs", "stub"),
        ("/usr/lib/wsl/lib", "wsl"),
        ("/usr/lib/aarch64-linux-gnu/tegra", "jetson"),
        ("/usr/lib/aarch64-linux-gnu/nvidia", "jetson"),
        ("/usr/lib/x86_64-linux-gnu/nvidia/current", "driver"),
        ("/usr/local/nvidia/lib64", "driver"),
        ("/run/opengl-driver/lib", "driver"),
        ("/home/kubernetes/bin/nvidia/lib64", "driver"),
        ("/opt/nvidia/current/usr/lib", "driver"),
        ("/opt/nvidia/hpc_sdk/Linux_x86_64/25.3/cuda/lib64", "toolkit"),
        ("/opt/venv/lib/python3.12/site-packages/nvidia/x/lib", "wheel"),
        ("/usr/local/cuda-12.4/lib64", "toolkit"),
    ],
)
def test_kinds_of_libcuda(tmp_path: Path, folder: str, kind: str) -> None:
    root = Root(tmp_path).folder(LIB).driver("550.54.15", folder)
    assert root.libcuda(LD_LIBRARY_PATH=folder).kind == kind


def test_a_link_to_a_stub_is_a_stub(tmp_path: Path) -> None:
    root = Root(tmp_path).file("/usr/local/cuda/lib64/stubs/libcuda.so", elf())
    root.link(f"{LIB}/libcuda.so.1", "/usr/local/cuda/lib64/stubs/libcuda.so")
    assert root.libcuda().kind == "stub" and root.userland() is None


def test_compat_in_front_does_not_hide_the_drivers_own_version(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("535.183.01").driver("550.54.15", "/usr/local/cuda-12.4/compat")
    variables = {"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/compat"}
    assert root.libcuda(**variables).version == "550.54.15"
    assert root.userland(**variables) == "535.183.01"


def test_driver_files_that_no_link_names_still_tell_the_version(tmp_path: Path) -> None:
    root = Root(tmp_path).file(f"{LIB}/libcuda.so.560.35.03", elf()).file(f"{LIB}/libcuda.so.560.9", elf())
    root.driver("550.54.15", "/usr/local/cuda-12.4/compat")
    assert root.userland(LD_LIBRARY_PATH="/usr/local/cuda-12.4/compat") == "560.35.03"


def test_wsl_has_no_linux_driver_version(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB)
    root.file("/usr/lib/wsl/lib/libcuda.so.1", elf()).file("/usr/lib/wsl/lib/libdxcore.so", elf())
    found = root.libcuda()
    assert (found.kind, found.version) == ("wsl", None)
    assert root.path().first("libdxcore.so") is not None
    assert userland_version(root.host, root.path()).state == "unknown"


def test_a_linux_driver_inside_wsl_is_seen_beside_it(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("560.35.03").file("/usr/lib/wsl/lib/libcuda.so.1", elf())
    root.file("/etc/ld.so.conf", b"/usr/lib/x86_64-linux-gnu\n/usr/lib/wsl/lib\n")
    assert [library.kind for library in root.path().found if library.name == "libcuda.so.1"] == ["driver", "wsl"]


def test_nix_finds_its_driver_where_its_programs_look(tmp_path: Path) -> None:
    root = Root(tmp_path).folder("/nix/store").folder("/usr/lib")
    root.driver("560.35.03", "/nix/store/abc-nvidia-x11-560.35.03-6.6.54/lib")
    root.link("/run/opengl-driver/lib", "/nix/store/abc-nvidia-x11-560.35.03-6.6.54/lib")
    found = root.libcuda()
    assert (found.path, found.via, found.version) == ("/run/opengl-driver/lib/libcuda.so.1", "RPATH", "560.35.03")
    assert root.userland() == "560.35.03"


def test_rocm_libraries_carry_their_own_numbers(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB).file("/opt/rocm-6.4.1/lib/libhsa-runtime64.so.1.15.60401", elf())
    root.link("/opt/rocm-6.4.1/lib/libhsa-runtime64.so.1", "libhsa-runtime64.so.1.15.60401")
    root.link("/opt/rocm", "/opt/rocm-6.4.1")
    root.file("/etc/ld.so.conf", b"/opt/rocm/lib\n")
    found = root.path().first("libhsa-runtime64.so.1")
    assert found is not None and (found.version, found.kind) == ("1.15.60401", "toolkit")


# --- containers --------------------------------------------------------------------------------------


def in_container(root: Root, *mounts: str) -> Root:
    lines = "".join(
        f"{20 + n} 9 259:2 {source} {point} ro - ext4 /dev/nvme0n1p2 rw\n"
        for n, (source, _, point) in enumerate(mount.partition("=") for mount in mounts)
    )
    return root.file("/.dockerenv").file("/proc/1/mountinfo", (OVERLAY + lines).encode())


def test_what_the_toolkit_mounts_is_told_from_what_the_image_holds(tmp_path: Path) -> None:
    root = Root(tmp_path).driver("535.104.05").driver("560.35.03", "/usr/lib64")
    in_container(root, "/usr/lib/libnvidia-ml.so.560.35.03=/usr/lib64/libnvidia-ml.so.560.35.03")
    found = {library.path: library.mounted for library in root.path().found if "-ml" in library.name}
    assert found == {f"{LIB}/libnvidia-ml.so.1": False, "/usr/lib64/libnvidia-ml.so.1": True}
    assert root.libcuda().mounted is False
    assert root.userland() == "560.35.03"


def test_a_folder_mounted_from_the_host_counts_as_mounted(tmp_path: Path) -> None:
    root = in_container(
        Root(tmp_path).folder(LIB).driver("550.90.07", "/usr/local/nvidia/lib64"), "/home/nv=/usr/local/nvidia"
    )
    assert root.libcuda(LD_LIBRARY_PATH="/usr/local/nvidia/lib64").mounted is True


def test_a_mount_that_lost_the_version_in_its_name_has_it_at_its_origin(tmp_path: Path) -> None:
    """Apptainer binds each library under its short name."""
    root = Root(tmp_path).folder(LIB).file("/.singularity.d/libs/libcuda.so.1", elf())
    in_container(root, "/usr/lib64/libcuda.so.550.54.15=/.singularity.d/libs/libcuda.so.1")
    found = root.libcuda(LD_LIBRARY_PATH="/.singularity.d/libs")
    assert (found.version, found.mounted) == ("550.54.15", True)


# --- what is not known -------------------------------------------------------------------------------


def test_no_driver_is_absent_only_where_library_folders_are_recorded(tmp_path: Path) -> None:
    bare = Root(tmp_path / "bare").folder("/etc")
    assert bare.path().complete.state == "unknown" and not bare.path().searched
    assert userland_version(bare.host, bare.path()).state == "unknown"
    whole = Root(tmp_path / "whole").folder(LIB)
    assert whole.path().complete.value is True and whole.path().searched
    assert userland_version(whole.host, whole.path()).absent


def test_a_cache_that_names_what_is_not_recorded_leaves_the_question_open(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB)
    root.file("/etc/ld.so.cache", cache([(0x0303, "libcuda.so.1", f"{LIB}/libcuda.so.1")]))
    assert root.path().complete.state == "unknown"


def test_a_folder_that_may_not_be_searched_leaves_the_question_open(tmp_path: Path) -> None:
    root = Root(tmp_path).folder(LIB).driver("550.54.15", "/usr/secret")
    root.file("/gpudoctor-host.json", json.dumps({"nodes": {"/usr/secret": {"open": "EACCES"}}}).encode())
    assert root.path(LD_LIBRARY_PATH="/usr/secret").complete.state == "denied"
    assert root.path(LD_LIBRARY_PATH="/opt/unrecorded").complete.state == "unknown"
    assert root.path(LD_LIBRARY_PATH="/usr/local/nvidia/lib64").complete.value is True


def test_links_that_an_archive_turned_into_texts_are_followed(tmp_path: Path) -> None:
    root = Root(tmp_path).file(f"{LIB}/libcuda.so.1", b"libcuda.so.560.35.03").file(f"{LIB}/libcuda.so.560.35.03")
    assert root.libcuda().version == "560.35.03"


# --- the cache ---------------------------------------------------------------------------------------

ENTRIES = [
    (0x0303, "libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"),
    (0x0003, "libcuda.so.1", "/usr/lib/i386-linux-gnu/libcuda.so.1"),
    (0x0303, "libnotcuda.so.1", "/opt/libnotcuda.so.1"),
    (0x0303, "libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1"),
]


@pytest.mark.parametrize("old", [False, True])
def test_the_cache_gives_all_paths_of_a_name_in_its_order(old: bool) -> None:
    assert cached_paths(cache(ENTRIES, old), ["libcuda.so.1", "libhsa-runtime64.so.1"], "x86_64") == {
        "libcuda.so.1": ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/local/cuda/compat/libcuda.so.1")
    }


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"glibc-ld.so.cache1.1", cache(ENTRIES)[:120]])
def test_what_is_no_cache_is_none(content: bytes) -> None:
    assert cached_paths(content, ["libcuda.so.1"], "x86_64") is None


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_cache_raises_nothing(data: st.DataObject) -> None:
    content = bytearray(cache(ENTRIES))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(20, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = content[: data.draw(st.integers(0, len(content)))]
    for damaged in (bytes(content), bytes(cut)):
        found = cached_paths(damaged, ["libcuda.so.1"], "x86_64")
        assert found is None or all(path.startswith("/") for paths in found.values() for path in paths)


def test_the_running_systems_own_cache_is_read() -> None:
    found = search(LiveHost(), ["libc.so.6", "libgpudoctor-no-such.so.1"], {})
    assert found.first("libc.so.6") is not None
    assert found.first("libgpudoctor-no-such.so.1") is None
