"""`snapshot --files`: the folder gives the same answer, holds nothing private, and says no more than was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from gpudoctor.host import InputError, LiveHost
from gpudoctor.host.anonymous import Anonymous
from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.host.recorder import LOG, RecordingHost
from gpudoctor.host.written_root import new_folder, write_root
from tests.recorded_folders import HOSTS, both_reports, record, report_of, told
from tests.schemas import FOLDER
from tests.support.hosts import Host

SOME = list(HOSTS)[::9]
"""The others: `python -m tests.recorded_folders`."""


@pytest.mark.parametrize("name", SOME)
def test_a_recorded_folder_gives_the_same_answer(name: str, tmp_path: Path) -> None:
    first, second = both_reports(name, tmp_path)
    assert told(second) == told(first)


def test_a_recording_of_a_recording_gives_the_same_answer_again(tmp_path: Path) -> None:
    first, second = both_reports("faulty: rtx 5090 with cu124", tmp_path)
    record(tmp_path / "recorded", tmp_path / "again")
    assert told(report_of(tmp_path / "again")) == told(second) == told(first)


def test_this_machine_is_recorded_with_its_answer(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpudoctor", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    said = run("snapshot", "--files", str(tmp_path / "here"))
    assert said.returncode == 0, said.stderr
    assert "too large" not in said.stdout
    live = json.loads(run("check", "--level", "driver", "--format", "json").stdout)
    recorded = report_of(tmp_path / "here")
    assert [one["id"] for one in recorded["findings"]] == [one["id"] for one in live["findings"]]
    assert recorded["machine"]["system"]["container"]["state"] == live["machine"]["system"]["container"]["state"]
    assert recorded["machine"]["environment"]["value"]["python"] == live["machine"]["environment"]["value"]["python"]


# --- what is private --------------------------------------------------------------------------------

UUID = "GPU-4f1c9a2e-77b0-4c8d-9e13-5a60b2c7d8f1"
PRIVATE = {
    "marie",
    "oskar",
    UUID[4:],
    "1652922001234",
    "0x9bd3c0a1f2e47788",
    "52:54:00:ab:cd:ef",
    "10.20.30.40",
    "fileserver",
    "13f0c5d2-0000-4d0e-8c80-b2a4e1e8f001",
    "12345678901234567890",
    "s3cretpassword",
    "DATABASE_URL",
}


def private_host(root: Path) -> Host:
    """A machine of Marie's, full of what is nobody's business."""
    host = Host(root).ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.venv().torch("2.6.0+cu124")
    home = "/home/marie/venv"
    (root / "home/marie").mkdir(parents=True)
    (root / "opt/venv").rename(root / home.lstrip("/"))
    host.environ(VIRTUAL_ENV=home, HOME="/home/marie", PATH=f"{home}/bin:/usr/bin", CUDA_VISIBLE_DEVICES=UUID[:12])
    host.environ(PIP_INDEX_URL="https://marie:s3cretpassword@pypi.example/simple", DATABASE_URL="10.20.30.40")
    host.file("/etc/group", "root:x:0:\nvideo:x:44:marie,oskar\nrender:x:992:oskar\nmarie:x:1000:\n")
    host.file("/proc/1/environ", "container=\0DATABASE_URL=x\0HOME=/home/oskar\0")
    host.file(
        "/proc/cmdline", "BOOT_IMAGE=/vmlinuz root=UUID=13f0c5d2-0000-4d0e-8c80-b2a4e1e8f001 ip=10.20.30.40 ro\n"
    )
    host.file(
        "/proc/self/mountinfo",
        "22 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n30 22 0:9 / /home rw - nfs4 fileserver:/home/marie rw\n",
    )
    host.file(
        "/var/log/dmesg",
        "[    1.0] usb 1-1: SerialNumber: 1652922001234\n[    1.1] e1000 eth0: 52:54:00:ab:cd:ef\n"
        "[    5.0] NVRM: Xid (PCI:0000:01:00): 79, pid=4242, name=marie, GPU has fallen off the bus. (10.20.30.40)\n",
    )
    host.file("/sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0\nunique_id 12345678901234567890\n")
    smi = (
        "==============NVSMI LOG==============\nDriver Version : 570.133.07\nAttached GPUs : 1\n"
        "GPU 00000000:01:00.0\n"
        "    Product Name : NVIDIA GeForce RTX 5090\n    Serial Number : 1652922001234\n"
        f"    GPU UUID : {UUID}\n    GPU PDI : 0x9bd3c0a1f2e47788\n"
    )
    return host.command("nvidia-smi -q", smi)


def everything_in(folder: Path) -> str:
    """All names, link targets and contents."""
    parts = []
    for path in sorted(folder.rglob("*")):
        parts.append(str(path.relative_to(folder)))
        if path.is_symlink():
            parts.append(os.readlink(path))
        elif path.is_file():
            parts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(parts)


def test_nothing_private_is_recorded_and_the_answer_stays(tmp_path: Path) -> None:
    first = private_host(tmp_path / "host").check()
    record(tmp_path / "host", tmp_path / "recorded")
    written = everything_in(tmp_path / "recorded")
    assert {word for word in PRIVATE if word in written} == set()
    second = report_of(tmp_path / "recorded")
    assert [one["id"] for one in second["findings"]] == [one["id"] for one in first["findings"]]
    assert "NVRM: Xid (PCI:0000:01:00): 79" in written


def test_a_uuid_and_its_short_form_get_stand_ins_that_belong_together() -> None:
    anonymous = Anonymous("", "", [UUID[:12].encode(), f"UUID: {UUID}".encode()])
    short = anonymous.text(f"CUDA_VISIBLE_DEVICES={UUID[:12]}")
    whole = anonymous.text(f"UUID: {UUID}")
    assert UUID[4:12] not in whole + short
    assert short.partition("=")[2] in whole


def test_a_stand_in_has_the_length_of_the_name() -> None:
    anonymous = Anonymous("/home/marie", "", [b"/home/oskar-with-a-long-name/x"])
    for path in ("/home/marie/venv/pyvenv.cfg", "/home/oskar-with-a-long-name/x"):
        assert len(anonymous.path(path)) == len(path)
        assert anonymous.path(path) != path
    assert anonymous.path("/opt/venv/lib") == "/opt/venv/lib"


def test_a_package_named_like_the_user_stays_what_it_is() -> None:
    anonymous = Anonymous("/data/sunny", "", ())
    record = "/data/sunny/venv/lib/python3.12/site-packages/sunny/__init__.py"
    assert anonymous.path(record) == "/data/userx/venv/lib/python3.12/site-packages/sunny/__init__.py".replace(
        "userx", "user1"
    )


@pytest.mark.parametrize("version", ["12.8.93.1", "580.95.05", "9.10.2.21"])
def test_versions_are_no_addresses(version: str) -> None:
    site = "/venv/lib/python3.12/site-packages"
    name = f"{site}/nvidia_cudnn-{version}.dist-info/METADATA"
    assert Anonymous("", "", ()).content(name, f"Version: {version}\n".encode()) == f"Version: {version}\n".encode()


# --- what is written ---------------------------------------------------------------------------------


def test_the_host_file_meets_its_schema(tmp_path: Path) -> None:
    private_host(tmp_path / "host").check()
    record(tmp_path / "host", tmp_path / "recorded")
    schema = json.loads((FOLDER / "host.json").read_bytes())
    jsonschema.validate(json.loads((tmp_path / "recorded/gpudoctor-host.json").read_bytes()), schema)


def test_a_folder_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(InputError, match="not empty"):
        new_folder(str(tmp_path))
    with pytest.raises(InputError):
        new_folder(str(tmp_path / "mine"))
    assert (tmp_path / "mine").read_text() == "kept"


def test_links_never_lead_what_is_written_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "host"
    host = Host(root).ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.link("/etc/ld.so.conf.d/evil.conf", "../../../../../../../../etc/passwd").link("/opt/rocm", str(outside))
    host.link("/usr/lib/loop", "/usr/lib/loop/x").link("/etc/pip.conf", "/usr/lib/loop/pip.conf")
    host.environ(ROCM_PATH="/opt/rocm", LD_LIBRARY_PATH="/usr/lib/loop:/opt/rocm/lib").check()
    record(root, tmp_path / "recorded")
    assert not list(outside.iterdir())
    for path in (tmp_path / "recorded").rglob("*"):
        if path.is_symlink() and not (target := os.readlink(path)).startswith("/"):
            inside = os.path.normpath(os.path.join(path.parent, target))
            assert inside.startswith(str(tmp_path / "recorded")), (path, target)


def recorded(root: Path, folder: Path, ask: object) -> RecordedHost:
    """What a recording says after these questions."""
    host = RecordingHost(RecordedHost(str(root)), {})
    ask(host)  # type: ignore[operator]
    write_root(host, new_folder(str(folder)), Anonymous("", "", ()))
    return RecordedHost(str(folder))


def test_of_a_large_library_only_what_was_read_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "host/usr/lib"
    root.mkdir(parents=True)
    with open(root / "libbig.so", "wb") as file:
        file.write(b"\x7fELF head")
        file.seek(40 << 20)
        file.write(b"tail")

    def ask(host: RecordingHost) -> None:
        with host.open_binary("/usr/lib/libbig.so") as file:  # type: ignore[union-attr]
            assert file.pread(8, 0) == b"\x7fELF hea"
            assert file.pread(4, 40 << 20) == b"tail"

    host = recorded(tmp_path / "host", tmp_path / "recorded", ask)
    assert (tmp_path / "recorded/usr/lib/libbig.so").stat().st_size == 12
    assert host.stat("/usr/lib/libbig.so").value.size == (40 << 20) + 4  # type: ignore[union-attr]
    with host.open_binary("/usr/lib/libbig.so") as file:  # type: ignore[union-attr]
        assert file.size == (40 << 20) + 4
        assert file.pread(4, 1) == b"ELF "
        assert file.pread(10, 40 << 20) == b"tail"
        with pytest.raises(OSError, match="not recorded"):
            file.pread(1, 1 << 20)
    assert host.data("/usr/lib/libbig.so", 4).value == b"\x7fELF"
    assert host.data("/usr/lib/libbig.so", 4, 1 << 20).state == "unknown"


def test_what_was_not_asked_is_unknown_and_what_was_not_there_is_absent(tmp_path: Path) -> None:
    root = tmp_path / "host"
    for path in ("etc/os-release", "etc/secret", "sys/module/amdgpu/version", "proc/version", "usr/lib/x"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("text\n")

    def ask(host: RecordingHost) -> None:
        assert host.text("/etc/os-release").value == "text"
        assert host.text("/etc/nothing").absent
        assert host.text("/sys/module/nvidia/version").absent
        assert host.names("/usr/lib").value == ("x",)
        host.stat("/proc/version")

    host = recorded(root, tmp_path / "recorded", ask)
    assert host.text("/etc/os-release").value == "text"
    assert host.text("/etc/nothing").absent
    assert host.text("/sys/module/nvidia/parameters/x").absent
    assert host.names("/usr/lib").value == ("x",)
    assert host.stat("/usr/lib/y").absent
    assert host.stat("/proc/version").value.size == 5  # type: ignore[union-attr]
    for path in ("/etc/secret", "/sys/module/amdgpu/version", "/proc/version", "/usr/lib/x"):
        assert host.text(path).state == "unknown", path
    for path in ("/etc", "/sys/module"):
        assert host.names(path).state == "unknown", path
    assert not (tmp_path / "recorded/etc/secret").exists()


def test_names_that_json_cannot_hold_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "host/usr/lib"
    folder.mkdir(parents=True)
    for name in (b"good", b"bad\xff", b"new\nline"):
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(b"text")
    os.symlink(b"bad\xff", os.path.join(os.fsencode(folder), b"link"))

    def ask(host: RecordingHost) -> None:
        for name in host.names("/usr/lib").value or ():
            host.text(f"/usr/lib/{name}")

    host = recorded(tmp_path / "host", tmp_path / "recorded", ask)
    assert host.names("/usr/lib").value == ("good", "link", "new\nline")
    assert host.text("/usr/lib/good").value == "text"


def test_what_refuses_to_be_read_still_refuses(tmp_path: Path) -> None:
    root = tmp_path / "host"
    (root / "etc").mkdir(parents=True)
    (root / "etc/shadow").write_text("x")
    (root / "gpudoctor-host.json").write_text('{"nodes": {"/etc/shadow": {"open": "EACCES"}}}')
    host = recorded(root, tmp_path / "recorded", lambda host: host.text("/etc/shadow"))
    assert host.text("/etc/shadow").state == "denied"


def test_the_kernels_messages_become_a_log_with_the_lines_about_gpus(tmp_path: Path) -> None:
    class WithMessages(LiveHost):
        def kernel_messages(self):  # type: ignore[no-untyped-def]
            from gpudoctor.machine import known

            return known(b"6,1,1500000,-;NVRM: Xid (PCI:0000:01:00): 79\n6,2,2500000,-;usb 1-1: Product: key\n", "k")

    host = RecordingHost(WithMessages(), {})
    assert "Xid" in (host.text(LOG).value or "")
    write_root(host, new_folder(str(tmp_path / "r")), Anonymous("", "", ()))
    assert RecordedHost(str(tmp_path / "r")).text(LOG).value == "[    1.500000] NVRM: Xid (PCI:0000:01:00): 79"


SHELL_FILES = {
    "/home/marie/.bashrc": "export CUDA_VISIBLE_DEVICES='7'\nDB_PASS=hunter2\nalias db='mysql -phunter2'\n",
    "/home/marie/.config/fish/config.fish": "set -gx DB_PASS hunter2\nset -gx CUDA_VISIBLE_DEVICES 7\n",
    "/home/marie/app/.envrc": "# hunter2 CUDA_VISIBLE_DEVICES=7\nexport DB_PASS=hunter2 CUDA_VISIBLE_DEVICES=7\n",
    "/etc/environment": 'DB_PASS="hunter2"\nCUDA_VISIBLE_DEVICES=7\n',
    "/etc/profile.d/gpu.sh": "[ -n hunter2 ] && export CUDA_VISIBLE_DEVICES=7\n",
    "/opt/venv/bin/activate": "DB_PASS=hunter2\nexport CUDA_VISIBLE_DEVICES=$GPUS\n",
    "/opt/env/conda-meta/state": '{"env_vars":{"DB_PASS":"hunter2","CUDA_VISIBLE_DEVICES":"7"}}',
    "/opt/other/conda-meta/state": "hunter2",
}


@pytest.mark.parametrize("path", SHELL_FILES)
def test_of_a_file_that_a_shell_reads_only_the_known_variables_are_kept(path: str) -> None:
    anonymous = Anonymous("/home/marie", "", (), variables=["CUDA_VISIBLE_DEVICES", "PATH"])
    before = SHELL_FILES[path].encode()
    kept = anonymous.content(path, before)
    assert b"hunter2" not in kept
    if b"CUDA" in before:
        lines = [number for number, line in enumerate(before.splitlines()) if b"CUDA" in line and line[:1] != b"#"]
        assert [number for number, line in enumerate(kept.splitlines()) if b"CUDA" in line] == lines


def test_the_line_that_sets_a_variable_is_found_in_the_recording(tmp_path: Path) -> None:
    host = private_host(tmp_path / "host").environ(CUDA_VISIBLE_DEVICES="7")
    host.file("/home/marie/.bashrc", "DB_PASS=hunter2\nexport CUDA_VISIBLE_DEVICES='7'\n").check()
    record(tmp_path / "host", tmp_path / "recorded")
    assert "hunter2" not in everything_in(tmp_path / "recorded")
    (place,) = report_of(tmp_path / "recorded")["machine"]["variable_files"].values()
    assert place.endswith("/.bashrc, line 2")
