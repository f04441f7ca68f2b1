"""The host: what is there, what is absent, what may not be read, and what no one can know; children."""

from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.host import InputError, LiveHost, process_tree
from gpudoctor.host.bound_child import bound
from gpudoctor.host.child import run_limited
from gpudoctor.host.own_limits import kept_as_they_are
from gpudoctor.host.recorded_host import RecordedHost

LIVE = LiveHost()


def write(root: Path, path: str, content: str | bytes = "") -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


def recorded(root: Path, **host_file: Any) -> RecordedHost:
    if host_file:
        write(root, "/gpudoctor-host.json", json.dumps(host_file))
    return RecordedHost(root)


# --- reading -----------------------------------------------------------------------------------------


def test_a_file_is_read_with_its_source_and_a_missing_one_is_absent(tmp_path: Path) -> None:
    (tmp_path / "release").write_bytes(b"6.8.0\0\n")
    found = LIVE.text(str(tmp_path / "release"))
    assert (found.value, found.source) == ("6.8.0", str(tmp_path / "release"))
    assert LIVE.text(str(tmp_path / "nothing")).absent
    assert LIVE.text(str(tmp_path / "release" / "below-a-file")).absent


def test_reading_is_bounded_even_where_a_file_claims_gigabytes(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
        file.seek((10 << 30) - 4)
        file.write(b"tail")
    assert len(LIVE.data(str(tmp_path / "sparse")).value or b"") == 1 << 20
    assert LIVE.data(str(tmp_path / "sparse"), limit=4, offset=(10 << 30) - 4).value == b"tail"


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "node"])
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        import socket

        socket.socket(socket.AF_UNIX).bind(str(place))
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero")
    found = LIVE.text(str(place))
    assert (found.state, found.why) == ("unknown", "not a regular file")


@pytest.mark.parametrize("path", ["/a\0b", "/" + "x" * 5000, "/etc/\udcff\ud800"])
@pytest.mark.parametrize("make", [LiveHost, lambda: RecordedHost(Path("/etc"))])
def test_paths_that_cannot_exist_raise_nothing(path: str, make: Callable[[], LiveHost]) -> None:
    host = make()
    for found in (host.text(path), host.names(path), host.stat(path)):
        assert not found.known
    assert host.open_binary(path) is None
    assert host.open_node(path).opened != "ok"
    assert not host.exists(path)


def test_names_that_are_no_utf_8_are_listed(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_text("x")
    assert LIVE.names(str(tmp_path)).value == ("\udcff",)


@pytest.mark.skipif(os.geteuid() != 0, reason="changing to another user needs root")
def test_an_unreadable_file_or_folder_is_denied_not_absent(tmp_path: Path) -> None:
    """Asked by another user than root, who may read everything."""
    for folder in (tmp_path, *list(tmp_path.parents)[:-1]):
        if folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    write(tmp_path, "/sys/kernel/closed/file", "secret")
    write(tmp_path, "/sys/kernel/file", "secret")
    (tmp_path / "sys/kernel/file").chmod(0)
    (tmp_path / "sys/kernel/closed").chmod(0)
    answers = as_another_user(
        lambda: [
            found.state
            for host, prefix in ((LIVE, str(tmp_path)), (RecordedHost(tmp_path), ""))
            for found in (
                host.text(prefix + "/sys/kernel/file"),
                host.text(prefix + "/sys/kernel/closed/file"),
                host.names(prefix + "/sys/kernel/closed"),
            )
        ]
    )
    assert answers == ["denied"] * 6


def as_another_user(question: Callable[[], list[str]]) -> list[str]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = ["the child failed"]
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            answer = question()
        finally:
            os.write(writer, json.dumps(answer).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answer = json.loads(file.read())
    os.waitpid(child, 0)
    return list(answer)


# --- nodes and the kernel's buffer -------------------------------------------------------------------


def test_a_node_is_opened_for_reading_and_writing() -> None:
    node = LIVE.open_node("/dev/null")
    assert (node.opened, node.mode) == ("ok", 0o666)
    assert LIVE.open_node("/dev/no-such-node").opened == "ENOENT"
    assert LIVE.stat("/dev/null").value is not None and LIVE.stat("/dev/null").value.device == (1, 3)  # type: ignore[union-attr]


def test_the_kernels_messages_are_records_or_a_reason() -> None:
    found = LIVE.kernel_messages()
    if found.value is None:
        assert found.state in ("denied", "absent", "unknown") and found.why
    else:
        assert all(line.startswith(b" ") or line.split(b",")[0].isdigit() for line in found.value.splitlines())


# --- a folder that is a machine ----------------------------------------------------------------------


def test_links_stay_below_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write(root, "/etc/hostname", "inside")
    write(tmp_path, "/outside", "secret")
    for name, target in (
        ("absolute", "/etc/hostname"),
        ("upwards", "../../../../../../../../etc/hostname"),
        ("out", str(tmp_path / "outside")),
        ("beside", "../outside"),
    ):
        (root / name).symlink_to(target)
    (root / "loop").symlink_to("loop")
    host = RecordedHost(root)
    assert host.text("/absolute").value == "inside"
    assert host.text("/upwards").value == "inside"
    assert host.text("/../../etc/hostname").value == "inside"
    assert not host.text("/out").known and not host.text("/beside").known and not host.text("/loop").known
    assert host.resolve("/absolute") == "/etc/hostname"


PARTS = st.sampled_from(["a", "b", "d", "..", "."])


@settings(max_examples=60)
@given(
    links=st.dictionaries(
        st.sampled_from(["a", "b", "d/a", "d/b"]),
        st.tuples(st.booleans(), st.lists(PARTS, max_size=6)),
        max_size=5,
    ),
    path=st.lists(PARTS, max_size=6),
)
def test_no_chain_of_links_leaves_the_root(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, Any], path: list[str]
) -> None:
    outer = tmp_path_factory.mktemp("links")
    root = outer / "root"
    (root / "d").mkdir(parents=True)
    for name in "abd":
        (outer / name).write_text("outside")
    for name, (absolute, parts) in links.items():
        (root / name).symlink_to(("/" if absolute else "") + "/".join(parts) or ".")
    host = RecordedHost(root)
    asked = "/" + "/".join(path)
    found = host.place(asked)
    assert found is None or Path(found).resolve().is_relative_to(root)
    assert host.text(asked).value != "outside"
    live = f"{root}{asked}"
    if os.path.exists(live):
        assert LiveHost().resolve(live) == os.path.realpath(live)
    else:
        assert LiveHost().resolve(f"{root}/a/{asked}/missing") is None


def test_what_a_recording_lacks_is_unknown_and_what_a_recorded_tree_lacks_is_absent(tmp_path: Path) -> None:
    write(tmp_path, "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de")
    write(tmp_path, "/etc/os-release", "ID=debian")
    (tmp_path / "proc").mkdir()
    host = RecordedHost(tmp_path)
    assert host.text("/etc/nv_tegra_release").absent
    assert host.text("/sys/bus/pci/devices/0000:02:00.0/vendor").absent
    assert host.names("/sys/class/kfd/kfd/topology/nodes").state == "unknown"
    assert host.text("/dev/kfd").state == "unknown"
    # An empty folder is a mount point of an image that is not running.
    assert host.text("/proc/driver/nvidia/version").state == "unknown"


def test_a_mounted_sys_is_whole_and_so_is_a_distributions_root(tmp_path: Path) -> None:
    for name in ("bus", "class", "devices", "kernel", "module"):
        (tmp_path / "sys" / name).mkdir(parents=True)
    assert RecordedHost(tmp_path).names("/sys/class/kfd/kfd/topology/nodes").absent
    for name in ("bin", "etc", "lib", "sbin", "tmp", "usr", "var"):
        (tmp_path / name).mkdir()
    host = RecordedHost(tmp_path)
    assert host.text("/.dockerenv").absent and host.names("/var/lib/dkms").absent
    assert host.text("/dev/kfd").state == "unknown" and host.text("/run/x").state == "unknown"


@pytest.mark.parametrize("path", ["//etc/x", "//", "/", "", ".", "etc/x", "/../etc//x", "///dev/kfd"])
def test_any_spelling_of_a_path_is_answered(path: str, tmp_path: Path) -> None:
    write(tmp_path, "/etc/x", "here")
    host = recorded(tmp_path, nodes={"//dev/kfd": {"open": "EPERM"}})
    host.stat(path), host.names(path), host.text(path), host.open_node(path)
    assert host.open_node("/dev/kfd").opened == "EPERM"


def test_recorded_nodes_answer_as_they_did(tmp_path: Path) -> None:
    write(tmp_path, "/dev/nvidia0")
    host = recorded(
        tmp_path,
        nodes={
            "/dev/kfd": {"mode": "0660", "uid": 0, "gid": 109, "open": "EACCES"},
            "/dev/dri/renderD128": {"open": "ok"},
            "/dev/nvidiactl": {"open": "ENOENT"},
        },
    )
    kfd = host.open_node("/dev/kfd")
    assert (kfd.opened, kfd.mode, kfd.gid) == ("EACCES", 0o660, 109)
    assert host.open_node("/dev/nvidia0").opened == "ok"
    assert host.open_node("/dev/nvidia-uvm").opened == "ENOENT"
    assert host.names("/dev").value == ("dri", "kfd", "nvidia0")
    assert host.names("/dev/dri").value == ("renderD128",)
    assert host.stat("/dev/kfd").value is not None and host.stat("/dev/nvidiactl").absent
    assert host.exists("/dev/dri")


@pytest.mark.parametrize(
    ("user", "mode", "answer"),
    [
        ({"uid": 1000, "gids": [1000]}, "0660", "EACCES"),
        ({"uid": 1000, "gids": [1000]}, "0664", "EACCES"),
        ({"uid": 1000, "gids": [1000, 992]}, "0660", "ok"),
        ({"uid": 1000, "gids": [1000]}, "0666", "ok"),
        ({"uid": 0}, "0660", "ok"),
        (None, "0660", "ok"),
    ],
)
def test_without_a_recorded_answer_the_mode_of_a_node_decides(
    tmp_path: Path, user: Any, mode: str, answer: str
) -> None:
    node = {"mode": mode, "uid": 0, "gid": 992}
    assert recorded(tmp_path, user=user, nodes={"/dev/kfd": node}).open_node("/dev/kfd").opened == answer
    for tried in ({"nodes": {"/dev/kfd": {**node, "open": "ok"}}}, {"nodes": {"/dev/kfd": node}, "asked_only": True}):
        assert recorded(tmp_path, user=user, **tried).open_node("/dev/kfd").opened == "ok"


def test_an_error_recorded_for_a_path_also_holds_below_it_and_through_links(tmp_path: Path) -> None:
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 72")
    write(tmp_path, "/sys/class/kfd/kfd/topology/nodes/0/properties", "simd_count 0")
    (tmp_path / "sys/node1").symlink_to("/sys/class/kfd/kfd/topology/nodes/1")
    host = recorded(tmp_path, nodes={"/sys/class/kfd/kfd/topology/nodes/1": {"open": "EPERM"}})
    assert host.text("/sys/class/kfd/kfd/topology/nodes/1/properties").state == "denied"
    assert host.names("/sys/class/kfd/kfd/topology/nodes/1").state == "denied"
    assert host.text("/sys/node1/properties").state == "denied"
    assert host.open_binary("/sys/node1/properties") is None
    assert host.text("/sys/class/kfd/kfd/topology/nodes/0/properties").value == "simd_count 0"


def test_variables_and_commands_come_from_the_recording_and_the_command_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        "/gpudoctor-host.json",
        json.dumps({"environ": {"A": "1", "B": "1"}, "commands": {"nvidia-smi": {"stdout": "x", "rc": 9}}}),
    )
    host = RecordedHost(tmp_path, {"B": "2"})
    assert dict(host.environ) == {"A": "1", "B": "2"}
    answer = host.run(["/usr/bin/nvidia-smi", "-q"], 1).value
    assert answer is not None and (answer.stdout, answer.rc) == ("x", 9)
    assert host.run(["true"], 1).state == "unknown"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "gpudoctor-host.json"),
        ('{"nodes": {"/dev/kfd": {"mode": "rw"}}}', "not octal"),
        ('{"nodes": {"/dev/kfd": {"open": "perhaps"}}}', "perhaps"),
        ('{"environ": ["A"]}', "environ"),
        ("[" * 100_000, "gpudoctor-host.json"),
    ],
)
def test_a_host_file_that_cannot_be_used_is_one_clear_line(tmp_path: Path, content: str, said: str) -> None:
    write(tmp_path, "/gpudoctor-host.json", content)
    with pytest.raises(InputError, match=said) as caught:
        RecordedHost(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_host_file_that_is_a_fifo_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gpudoctor-host.json")
    with pytest.raises(InputError, match="not a regular file"):
        RecordedHost(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "file", "a\0b"])
def test_a_root_that_is_no_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--root"):
        RecordedHost(tmp_path / name)


# --- children ----------------------------------------------------------------------------------------


def test_a_command_gives_its_output_and_status() -> None:
    found = run_limited(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert found.value is not None
    assert (found.value.stdout, found.value.stderr, found.value.rc) == ("out\n", "err\n", 3)


def test_a_command_that_is_not_there_is_absent_and_one_that_cannot_start_is_unknown(tmp_path: Path) -> None:
    assert run_limited(["no-such-command-here"], 5).absent
    (tmp_path / "plain").write_text("x")
    assert run_limited([str(tmp_path / "plain")], 5).state == "unknown"
    assert run_limited(["a\0b"], 5).absent
    assert run_limited(["true", "a\0b"], 5).state == "unknown"
    assert run_limited(["true"], 5, cwd=str(tmp_path / "gone")).state == "unknown"


@pytest.mark.parametrize(
    "script",
    [
        "sleep 60",
        "exec >&- 2>&-; sleep 60",
        "kill -STOP $$",
        "trap '' TERM INT HUP; sleep 60; sleep 60",
        "while :; do sleep 60 & wait; done",
    ],
)
def test_a_command_that_does_not_end_costs_its_time_limit(script: str) -> None:
    found = run_limited(["sh", "-c", script], 0.2)
    assert (found.state, found.why) == ("unknown", "no answer within 0.2 s")


def test_a_flood_of_output_is_cut_and_an_endless_one_given_up() -> None:
    cut = run_limited(["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"], 20).value
    assert cut is not None and len(cut.stdout) == 1 << 20
    assert run_limited(["yes"], 60).why == "printed more than 64 MiB"


def test_output_that_is_no_text_is_still_text() -> None:
    found = run_limited(["sh", "-c", r"printf '\377\376ok'"], 10).value
    assert found is not None and found.stdout.endswith("ok")


def test_a_signal_is_told_from_a_status() -> None:
    found = run_limited(["sh", "-c", "kill -SEGV $$"], 10).value
    assert found is not None and found.rc == -signal.SIGSEGV


class SignalledPopen(subprocess.Popen[bytes]):
    """A process whose starter gets a signal as soon as it runs, before it can take note of that."""

    started: ClassVar[list[int]] = []
    number = signal.SIGINT

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.started.append(self.pid)
        signal.raise_signal(self.number)


class TermReceived(BaseException):
    pass


@pytest.mark.parametrize(("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TermReceived)])
def test_a_signal_between_start_and_reading_ends_the_command_first(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, raised: type[BaseException]
) -> None:
    def end(*_: object) -> None:
        raise TermReceived

    monkeypatch.setattr(SignalledPopen, "number", number)
    monkeypatch.setattr(SignalledPopen, "started", [])
    monkeypatch.setattr("gpudoctor.host.child.subprocess.Popen", SignalledPopen)
    before = signal.signal(signal.SIGTERM, end), signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        with pytest.raises(raised):
            run_limited(["sleep", "60"], 60)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    (child,) = SignalledPopen.started
    assert not is_running(child)
    assert time.monotonic() - began < 30, "the time limit is not waited for"


def test_a_child_in_python_that_comes_after_its_gpudoctor_ended_does_nothing(tmp_path: Path) -> None:
    program = "open(sys.argv[1], 'w').close()"
    run = ["sh", "-c", '"$@"; true', "sh", sys.executable]
    subprocess.run([*run, *bound(program, str(tmp_path / "orphan"))], check=True, timeout=20)
    subprocess.run([sys.executable, *bound(program, str(tmp_path / "child"))], check=True, timeout=20)
    assert os.listdir(tmp_path) == ["child"]


def test_without_a_free_descriptor_a_command_is_unknown() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        found = run_limited(["true"], 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert found.state == "unknown" and "Too many open files" in found.why


@pytest.mark.parametrize("closed", ["", "</dev/null >/dev/null 2>&1"])
def test_nothing_that_a_command_started_is_left(tmp_path: Path, closed: str) -> None:
    """A daemon in a session of its own, with and without the output held open."""
    program = tmp_path / "daemon.py"
    program.write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    )
    wait = f"while ! [ -s {tmp_path}/pid ]; do sleep 0.01; done"
    script = f"setsid {sys.executable} -S {program} {closed} & {wait}; echo done"
    found = run_limited(["sh", "-c", script], 20)
    assert found.value is not None and found.value.stdout == "done\n"
    number = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while is_running(number) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(number), "the daemon lives on"


def test_what_a_command_starts_before_it_is_marked_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it is faster than gpudoctor."""

    def late(number: int) -> int:
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        return marked(number)

    marked = process_tree._marked
    monkeypatch.setattr(process_tree, "_marked", late)
    daemon = f"echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 60"
    found = run_limited(["sh", "-c", f"setsid sh -c '{daemon}' & sleep 0.5; echo done"], 20)
    assert found.value is not None and found.value.stdout == "done\n"
    assert not is_running(int((tmp_path / "pid").read_text()))


def is_running(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_children_leave_no_descriptors_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for argv in (["true"], ["no-such-command-here"], ["a\0b"], ["sh", "-c", "exec >&-; sleep 60"]):
        run_limited(argv, 0.1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_child_has_no_input_and_no_terminal() -> None:
    found = run_limited(["sh", "-c", "cat; tty <&0; (exec </dev/tty) 2>/dev/null || echo none"], 10).value
    assert found is not None and found.stdout.splitlines()[-1] == "none"


def test_a_recorded_plain_file_below_dev_is_a_file_of_this_system(tmp_path: Path) -> None:
    write(tmp_path, "/dev/dri/renderD128")
    assert stat.S_ISREG((tmp_path / "dev/dri/renderD128").stat().st_mode)
    assert RecordedHost(tmp_path).open_node("/dev/dri/renderD128").opened == "ok"


def test_what_a_child_changes_of_its_parent_is_changed_back() -> None:
    """A driver library runs as the same user: it may set its parent's limits and processors."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE), os.sched_getaffinity(0)
    with kept_as_they_are():
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0][0] - 1, before[0][1]))
        os.sched_setaffinity(0, {min(before[1])})
    assert (resource.getrlimit(resource.RLIMIT_NOFILE), os.sched_getaffinity(0)) == before
