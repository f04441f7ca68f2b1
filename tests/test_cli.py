"""The command line as people and scripts use it: exit codes, streams, bad input, privacy."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

from gpudoctor.machine import Machine
from gpudoctor.render.lines import print_lines
from gpudoctor.render.steps import command_line
from tests.support.environments import write_torch, write_venv
from tests.support.hosts import Host, slugs
from tests.support.in_process import gpudoctor


def process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *arguments],
        capture_output=True, text=True, env={**os.environ, **variables}, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def broken(tmp_path: Path) -> Host:
    """An RTX 5090 with a torch that has no code for it."""
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")
    host.run()
    return host


@pytest.fixture
def healthy(tmp_path: Path) -> Host:
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.run()
    return host


def test_a_fault_is_told_with_gpu_and_command(broken: Host):
    result = process("check", "--root", str(broken.root))
    assert result.returncode == 1
    assert "torch-no-arch-for-gpu [GPD402]" in result.stdout
    assert "NVIDIA GeForce RTX 5090 (sm_120" in result.stdout
    assert "torch==2.7.0+cu128" in result.stdout
    assert result.stderr == ""


def test_a_report_meets_the_schema(broken: Host):
    printed = gpudoctor("schema")
    schema = json.loads(printed.stdout)
    report = json.loads(gpudoctor("check", "--root", str(broken.root), "--format", "json").stdout)
    jsonschema.validate(report, schema)
    for wrong in ({"verdict": "fine"}, {"findings": [{}]}, {"exit_code": "1"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(report | wrong, schema)


def test_stdout_holds_only_the_json_report(broken: Host):
    result = process("check", "--root", str(broken.root), "--format", "json")
    report = json.loads(result.stdout)
    assert (report["schema"], report["verdict"], report["exit_code"], result.returncode) == (1, "error", 1, 1)
    assert report["subject"]["kind"] == "root"
    first = report["findings"][0]
    fields = (
        "id slug severity confidence subject device devices framework caused_by message saw want evidence fixes refs"
    )
    assert " ".join(first) == fields
    assert first["device"] == {
        "vendor": "nvidia", "index": 0, "bdf": "0000:01:00.0", "name": first["device"]["name"], "mig": None,
    }  # fmt: skip
    step = first["fixes"][0]["steps"][0]
    assert {"kind", "argv", "cwd", "env", "why", "risk", "undo"} == set(step)
    assert all(evidence["source"] for evidence in first["evidence"])


def test_a_pipe_gets_neither_colour_nor_wide_lines(broken: Host):
    result = gpudoctor("check", "--root", str(broken.root))
    assert "\x1b" not in result.stdout
    prose = [line for line in result.stdout.splitlines() if "pip install" not in line]
    assert max(map(len, prose)) <= 110


@pytest.mark.parametrize(
    ("arguments", "code"),
    [([], 1), (["--fail-on", "never"], 0), (["--ignore", "GPD402=we know"], 0), (["--select", "GPD1"], 0)],
)
def test_what_decides_the_exit_code(broken: Host, arguments: list[str], code: int):
    assert gpudoctor("check", "--root", str(broken.root), *arguments).returncode == code


def test_environment_twins_hold_and_an_empty_one_is_unset(broken: Host):
    root = str(broken.root)
    assert json.loads(gpudoctor("check", "--root", root, GPUDOCTOR_FORMAT="json").stdout)["exit_code"] == 1
    assert gpudoctor("check", "--root", root, GPUDOCTOR_FAIL_ON="never").returncode == 0
    assert gpudoctor("check", "--root", root, GPUDOCTOR_FAIL_ON="", GPUDOCTOR_FORMAT="").returncode == 1
    ignored = gpudoctor("check", "--root", root, GPUDOCTOR_IGNORE="GPD402=old cluster, GPD101")
    assert (ignored.returncode, "old cluster" in ignored.stdout) == (0, True)


def test_quiet_says_nothing_when_all_is_well_and_the_first_cause_when_not(healthy: Host, tmp_path: Path):
    assert gpudoctor("check", "--root", str(healthy.root), "-q").stdout == ""
    (tmp_path / "other").mkdir()
    other = Host(tmp_path / "other").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")
    other.run()
    lines = gpudoctor("check", "--root", str(other.root), "-q").stdout.splitlines()
    assert "torch-no-arch-for-gpu" in lines[0]


def test_a_report_file_gets_the_report_too(broken: Host, tmp_path: Path):
    result = gpudoctor(
        "check", "--root", str(broken.root), "--format", "json", "--report-file", str(tmp_path / "r.json")
    )
    assert (tmp_path / "r.json").read_text() == result.stdout


BAD = {
    "no such root": ["check", "--root", "{tmp}/nowhere"],
    "a file for a root": ["check", "--root", "{tmp}/file"],
    "no such python": ["check", "--python", "{tmp}/nowhere"],
    "a text for a python": ["check", "--python", "{tmp}/file"],
    "no such snapshot": ["check", "--from", "{tmp}/nowhere"],
    "an empty text": ["check", "--from", "{tmp}/empty"],
    "a folder for a snapshot": ["check", "--from", "{tmp}"],
    "a snapshot of a later schema": ["check", "--from", "{tmp}/later.json"],
    "a snapshot and a root": ["check", "--from", "{tmp}/file", "--root", "{tmp}"],
    "no such overlay": ["check", "--matrix", "{tmp}/nowhere"],
    "an overlay that is no mapping": ["check", "--matrix", "{tmp}/file"],
    "an unknown rule": ["check", "--ignore", "no-such-slug"],
    "a variable without a value": ["check", "--env", "NAME"],
    "an unknown level": ["check", "--level", "deep"],
    "a report file that cannot be written": ["check", "--report-file", "{tmp}/no/such/folder"],
    "an unknown finding": ["explain", "GPD999"],
    "an unknown table": ["matrix", "show", "no_such_table"],
    "a host file that is no JSON": ["check", "--root", "{tmp}/badhost"],
    "an unknown command": ["chekc"],
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_clear_line_and_exit_code_2(what: str, tmp_path: Path):
    (tmp_path / "file").write_text("just a text\n")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "later.json").write_text('{"schema": 99, "machine": {}}')
    (tmp_path / "badhost").mkdir()
    (tmp_path / "badhost" / "gpudoctor-host.json").write_text("{")
    result = gpudoctor(*(argument.format(tmp=tmp_path) for argument in BAD[what]))
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == "" or what.startswith("a report file")
    assert result.stderr.count("\n") == 1, result.stderr


def test_a_fault_of_our_own_is_70_and_no_traceback(tmp_path: Path):
    trap = tmp_path / "sitecustomize.py"
    trap.write_text("import gpudoctor.matrix.load as load\nload.load_matrix = lambda *a: 1 / 0\n")
    result = process("check", PYTHONPATH=f"{tmp_path}:{Path(__file__).parent.parent}")
    assert (result.returncode, "Traceback" in result.stderr) == (70, False)
    assert "fault of gpudoctor itself" in result.stderr


def test_names_from_a_machine_are_neither_markup_nor_terminal_control(tmp_path: Path):
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.file("/etc/os-release", 'ID=ubuntu\nPRETTY_NAME="[bold red]Evil\x1b[2J\x1b]0;title\x07 \u202eOS"\n')
    host.run()
    text = gpudoctor("check", "--root", str(tmp_path)).stdout
    assert "[bold red]Evil" in text
    assert not any(c in text for c in "\x1b\x07\u202e")


def test_a_snapshot_reads_back_to_the_same_findings(broken: Host, tmp_path: Path):
    printed = gpudoctor("snapshot", "--root", str(broken.root))
    assert printed.returncode == 0
    (tmp_path / "machine.json").write_text(printed.stdout)
    here = json.loads(gpudoctor("check", "--root", str(broken.root), "--format", "json").stdout)
    again = json.loads(gpudoctor("check", "--from", str(tmp_path / "machine.json"), "--format", "json").stdout)
    assert again["subject"]["kind"] == "snapshot"
    assert slugs(again) == slugs(here)
    assert msgspec.convert(again["machine"], Machine) == msgspec.convert(here["machine"], Machine)


def test_a_report_can_be_read_back_like_a_snapshot(broken: Host, tmp_path: Path):
    report = gpudoctor("check", "--root", str(broken.root), "--format", "json").stdout
    (tmp_path / "report.json").write_text(report)
    again = json.loads(gpudoctor("check", "--from", str(tmp_path / "report.json"), "--format", "json").stdout)
    assert slugs(again) == slugs(json.loads(report))


def test_private_details_are_left_out_unless_asked_for(tmp_path: Path):
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.environ(PYTHONPATH="/home/alice/lib", CUDA_VISIBLE_DEVICES="GPU-8e5a1f0c-1111-2222-3333-444455556666")
    host.run()
    public = gpudoctor("snapshot", "--root", str(tmp_path)).stdout
    private = gpudoctor("snapshot", "--root", str(tmp_path), "--private").stdout
    for secret in ("alice", "8e5a1f0c"):
        assert secret not in public
        assert secret in private


def test_users_and_their_folders_are_left_out_and_nothing_else_changes(tmp_path: Path):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.amd_gpu("744c", 110000)
    node = "/sys/class/kfd/kfd/topology/nodes/1/properties"
    host.file(node, host.path(node).read_text() + "unique_id 12345678901234567890\n")
    write_torch(write_venv(host.path("/home/alice/my work/.venv")), "2.6.0+cu124", "12.4")
    host.environ(VIRTUAL_ENV="/home/alice/my work/.venv", ROCR_VISIBLE_DEVICES="GPU-ab54a98ceb1f0ad2")
    host.environ(LD_LIBRARY_PATH="/scratch/alice/lib:/var/home/bob/lib:/Users/carol/lib")
    host.file("/home/alice/my work/uv.lock").run()
    root = str(host.root)
    here = gpudoctor("check", "--root", root, "--format", "json").stdout
    snapshot = gpudoctor("snapshot", "--root", root).stdout
    private = gpudoctor("snapshot", "--root", root, "--private").stdout
    for secret in ("alice", "bob", "carol", "12345678901234567890", "ab54a98ceb1f0ad2"):
        assert secret in private and secret not in here + snapshot
    (tmp_path / "machine.json").write_text(snapshot)
    again = json.loads(gpudoctor("check", "--from", str(tmp_path / "machine.json"), "--format", "json").stdout)
    assert "cuda-visible-devices" not in slugs(again)
    assert again["findings"] == json.loads(here)["findings"]
    assert again["findings"][0]["fixes"][0]["steps"][0]["kind"] == "run"


def test_commands_for_this_machine_keep_the_folder_of_another_user():
    argv = ("/home/alice/v/bin/python", "-m", "pip", "install", "torch")
    out = io.StringIO()
    print_lines([[(command_line(argv), "command")], [("/home/alice/v", "")]], out, color=False, exact_commands=True)
    assert out.getvalue().splitlines() == ["/home/alice/v/bin/python -m pip install torch", "~/v"]
    assert command_line(("~/my work/bin/python", "-V")) == "~/'my work/bin/python' -V"


def test_names_that_are_no_utf8_do_not_end_the_report(broken: Host):
    os.mkdir(os.fsencode(broken.root / "opt/venv/lib/python3.12/site-packages") + b"/x\xff-1.0.dist-info")
    for arguments in (("check", "--format", "json"), ("snapshot",)):
        result = gpudoctor(*arguments, "--root", str(broken.root))
        assert (result.returncode, result.stderr) == (int(arguments[0] == "check"), "")
        assert "x?" in json.dumps(json.loads(result.stdout))


def test_a_terminal_without_unicode_a_full_disk_and_a_closed_output(broken: Host):
    check = f"{sys.executable} -m gpudoctor check --root {broken.root}"
    for command, code in (
        (f"PYTHONIOENCODING=ascii {check}", 1),
        (f"{check} > /dev/full", 2),
        (f"{check} >&-", 1),
        (f"{check} >&- 2>&-", 1),
        (f"{check}/nowhere 2> /dev/full", 2),
        (f"{check}/nowhere 2>&-", 2),
        (f"{sys.executable} -m gpudoctor preflight --python {broken.root}/nowhere -- true 2> /dev/full", 122),
    ):
        result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=60)
        assert result.returncode == code, result.stderr
        assert "fault of gpudoctor" not in result.stderr


@pytest.mark.parametrize("form", [("--format=json",), ("-qv", "--format=json")])  # read here, read by click
def test_a_reader_that_is_gone_is_141(broken: Host, form: tuple[str, ...]):
    reader, writer = os.pipe()
    os.close(reader)
    check = [sys.executable, "-m", "gpudoctor", "check", "--root", str(broken.root), *form]
    result = subprocess.run(check, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_a_pipe_gets_lines_of_80_columns(broken: Host):
    lines = gpudoctor("check", "--root", str(broken.root), "-v").stdout.splitlines()
    assert [line for line in lines if len(line) > 80 and " " in line.strip() and not is_command(line)] == []


def is_command(line: str) -> bool:
    """Commands stay whole in a pipe."""
    return "pip install" in line or line.startswith("Next: ")


def test_check_writes_nothing(broken: Host):
    def state() -> dict[str, tuple[int, bytes]]:
        files = [p for p in broken.root.rglob("*") if p.is_file()]
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}

    before = state()
    gpudoctor("check", "--root", str(broken.root))
    assert state() == before


def test_explain_prints_the_four_parts(broken: Host):
    text = gpudoctor("explain", "torch-no-arch-for-gpu").stdout
    assert text.startswith("# GPD402 torch-no-arch-for-gpu")
    assert [part in text for part in ("## Why it matters", "## How it is judged", "## Fix safety")] == [True] * 3


def test_list_names_every_check_once():
    rows = json.loads(gpudoctor("list", "--format", "json").stdout)
    assert len({(row["id"], row["slug"]) for row in rows}) == len(rows) >= 60
    assert len({row["id"] for row in rows}) == len(rows)


def test_matrix_show_and_validate():
    assert "RTX 5090" in gpudoctor("matrix", "show", "nvidia_gpus", "2b85").stdout
    assert "all valid" in gpudoctor("matrix", "validate").stdout
