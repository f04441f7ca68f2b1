"""`gpudoctor smoke`, and `check` at its levels, as people and scripts use them: with made-up torches and kernels in
real children, and with a real torch where GPUDOCTOR_TEST_PYTHON names an interpreter that has one."""

from __future__ import annotations

import functools
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest

from gpudoctor.smoke import session
from tests.support import in_process
from tests.support.environments import write_torch, write_venv
from tests.support.hosts import slugs
from tests.support.smoke_children import GOOD, GPUS, PYTHON, TORCH, faulty, write_kernels

ROOT = Path(__file__).parents[1]
TORCH_PYTHON = os.environ.get("GPUDOCTOR_TEST_PYTHON", "")
PROGRAM = """
import functools, sys
from pathlib import Path
from gpudoctor.smoke import session
if sys.argv[1]:
    session.perform = functools.partial(session.perform, kernels=Path(sys.argv[1]))
from gpudoctor.cli import run
sys.exit(run(sys.argv[2:]))
"""
"""The command line, with other kernels where a folder of them is given."""


def command(kernels: Path | None, *arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, str(kernels or ""), *arguments]


def environ(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    return {**kept, "TERM": "xterm", **variables}


def gpudoctor(*arguments: str, kernels: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    perform = functools.partial(session.perform, kernels=kernels) if kernels else session.perform
    with patch.object(session, "perform", perform):
        return in_process.gpudoctor(*arguments, **variables)


def environment(root: Path, program: str = TORCH) -> str:
    """A venv of the running Python whose torch/__init__.py is `program`."""
    site = write_venv(root / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))
    (write_torch(site, "2.9.1+cpu", None, python=PYTHON) / "__init__.py").write_text(program)
    return str(root / "venv")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "kernels", GOOD)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    return write_kernels(tmp_path / "kernels", faulty("return Outcome(3.0, 0.1, 'element 7 is 4 and should be 1')"))


def report(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_right_results_are_a_table_and_exit_code_0(tmp_path: Path, good: Path) -> None:
    result = gpudoctor(
        "smoke", "--python", environment(tmp_path), "--device", "cpu", "--select", "GPD5", kernels=good
    )
    assert (result.returncode, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert [row[: row.index("pass")] for row in rows if "pass" in row] == [["good"], ["good", "too"]]
    assert "\x1b" not in result.stdout
    assert max(len(line) for line in result.stdout.splitlines() if not line.startswith("Next: ")) <= 80


def test_a_wrong_result_is_an_error_and_the_other_kernels_are_told_too(tmp_path: Path, wrong: Path) -> None:
    result = gpudoctor("smoke", "--python", environment(tmp_path), "--device", "cpu", kernels=wrong)
    assert result.returncode == 1
    table, _, findings = result.stdout.partition("✗ Problem")
    assert "element 7 is 4 and should be 1" in table
    assert [word for word in table.split() if word in ("pass", "wrong")] == ["pass", "wrong", "pass"]
    assert "smoke-wrong-result" in findings


def test_the_json_report_meets_its_contract(tmp_path: Path, wrong: Path) -> None:
    result = gpudoctor(
        "smoke", "--python", environment(tmp_path), "--device", "cpu", "--format", "json", kernels=wrong
    )
    found = report(result)
    jsonschema.validate(found, json.loads(gpudoctor("schema").stdout))
    assert (found["verdict"], found["exit_code"], result.returncode, result.stderr) == ("error", 1, 1, "")
    assert found["smoke"]["level"] == "quick"
    kernel = found["smoke"]["kernels"][1]
    assert " ".join(kernel) == "name device dtype status ms error tolerance detail"
    assert (kernel["name"], kernel["device"], kernel["status"]) == ("faulty", "cpu", "wrong")
    assert (kernel["error"], kernel["tolerance"]) == (3.0, 0.1)
    assert kernel["ms"] >= 0
    assert found["timings_ms"]["smoke"] > 0


def test_an_error_that_is_no_number_is_null(tmp_path: Path) -> None:
    kernels = write_kernels(tmp_path / "kernels", faulty("return Outcome(float('nan'), 0.1)"))
    result = gpudoctor(
        "smoke", "--python", environment(tmp_path), "--device", "cpu", "--format", "json", kernels=kernels
    )
    kernel = report(result)["smoke"]["kernels"][1]
    assert (kernel["status"], kernel["error"], "NaN" in result.stdout) == ("wrong", None, False)


def test_check_has_one_line_and_the_table_with_v(tmp_path: Path, wrong: Path) -> None:
    arguments = ("check", "--level", "quick", "--python", environment(tmp_path))
    text = gpudoctor(*arguments, kernels=wrong).stdout
    (line,) = [line for line in text.splitlines() if line.startswith("  Smoke")]
    assert "quick: 2 of 3 kernels right on cpu" in line
    assert "error (tolerance)" not in text
    assert "error (tolerance)" in gpudoctor(*arguments, "-v", kernels=wrong).stdout


def test_quiet_prints_nothing_but_an_error(tmp_path: Path, wrong: Path) -> None:
    arguments = ("smoke", "--python", environment(tmp_path), "--device", "cpu", "--select", "GPD5", "-q")
    result = gpudoctor(*arguments, kernels=wrong)
    assert result.returncode == 1
    assert "smoke-wrong-result" in result.stdout.splitlines()[0]
    silent = gpudoctor(*arguments, kernels=write_kernels(tmp_path / "others", GOOD))
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")


def test_a_report_file_gets_the_table(tmp_path: Path, good: Path) -> None:
    file = tmp_path / "report"
    arguments = ("smoke", "--python", environment(tmp_path), "--device", "cpu", "--report-file", str(file))
    result = gpudoctor(*arguments, kernels=good)
    assert file.read_text() == result.stdout
    assert "good too" in result.stdout


def test_private_details_of_a_kernels_words_are_left_out(tmp_path: Path) -> None:
    words = "raise RuntimeError('/home/alice/x.so on GPU-8e5a1f0c-1111-2222-3333-444455556666 failed')"
    kernels = write_kernels(tmp_path / "kernels", faulty(words))
    arguments = ("smoke", "--python", environment(tmp_path), "--device", "cpu", "--format", "json")
    public = gpudoctor(*arguments, kernels=kernels).stdout
    private = gpudoctor(*arguments, "--private", kernels=kernels).stdout
    for secret in ("alice", "8e5a1f0c"):
        assert secret in private
        assert secret not in public


def test_a_snapshot_carries_the_results(tmp_path: Path, wrong: Path) -> None:
    place = environment(tmp_path)
    taken = gpudoctor("snapshot", "--level", "quick", "--python", place, kernels=wrong)
    (tmp_path / "machine.json").write_text(taken.stdout)
    again = report(gpudoctor("check", "--from", str(tmp_path / "machine.json"), "--format", "json"))
    assert [kernel["status"] for kernel in again["smoke"]["kernels"]] == ["pass", "wrong", "pass"]
    assert "smoke-wrong-result" in slugs(again, "error")
    assert again["exit_code"] == 1


@pytest.mark.parametrize(("level", "imports"), [("static", 0), ("driver", 0), ("quick", 1)])
def test_torch_is_imported_once_and_only_where_kernels_run(
    tmp_path: Path, good: Path, level: str, imports: int
) -> None:
    note = tmp_path / "imports"
    place = environment(tmp_path, f"with open({str(note)!r}, 'a') as note:\n    note.write('x')\n" + TORCH)
    gpudoctor("check", "--level", level, "--python", place, kernels=good)
    assert (note.read_text() if note.exists() else "") == "x" * imports


CAUSES = ("--select", "GPD4", "--select", "GPD5")


def _damaged(place: Path) -> None:
    library = next(place.rglob("libtorch_cpu.so"))
    library.write_bytes(library.read_bytes()[:100])


@pytest.mark.parametrize(
    ("program", "slug", "word"),
    [
        ("import os\nos.write(2, b'terminate called\\n')\nos.abort()\n", "torch-import-fails", "SIGABRT"),
        (
            "raise ImportError('libx.so.9: cannot open shared object file')\n",
            "torch-import-fails",
            "libx.so.9",
        ),
        ("damaged", "torch-install-damaged", "libtorch_cpu.so"),
        ("none", "torch-missing", "no torch"),
    ],
)
@pytest.mark.parametrize("asking", [("check", "--level", "quick"), ("smoke",)])
def test_a_torch_that_does_not_come_up_has_its_cause_named(
    tmp_path: Path, asking: tuple[str, ...], program: str, slug: str, word: str
) -> None:
    if program == "none":
        write_venv(tmp_path / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))
        place = str(tmp_path / "venv")
    elif program == "damaged":
        place = environment(tmp_path, "raise ImportError('libtorch_cpu.so: file too short')\n")
        _damaged(Path(place))
    else:
        place = environment(tmp_path, program)
    result = gpudoctor(*asking, "--python", place, *CAUSES, "--format", "json")
    found = report(result)
    assert slugs(found)[0] == slug
    assert word in json.dumps(found["findings"][0])
    assert found["smoke"] == {"level": "quick", "kernels": []}
    assert (found["findings"][0]["severity"], result.returncode) == ("error", 1)


def test_the_list_names_kernels_with_level_dtypes_and_limit() -> None:
    rows = json.loads(gpudoctor("smoke", "--list", "--format", "json").stdout)["kernels"]
    matmul = next(row for row in rows if row["name"] == "matmul")
    assert (matmul["level"], matmul["dtypes"]) == ("quick", ["float32", "float16", "bfloat16"])
    assert all(row["seconds"] > 0 and row["title"] for row in rows)
    lines = gpudoctor("smoke", "--list").stdout.splitlines()
    heads = [line.split() for line in lines if not line.startswith(" ")]
    assert [head[:4] for head in heads] == [[row["level"], row["name"], f"{row['seconds']:g}", "s"] for row in rows]
    assert [head[4:] for head in heads] == [row["dtypes"] for row in rows]
    assert max(map(len, lines)) <= 80
    assert all(row["title"] in " ".join(" ".join(lines).split()) for row in rows)


@pytest.mark.parametrize(
    ("name", "near"), [("matmull", "matmul"), ("Layer_Norm", "layer-norm"), ("no such thing", "")]
)
def test_an_unknown_kernel_is_answered_with_those_of_like_names(name: str, near: str) -> None:
    result = gpudoctor("smoke", "--kernel", name)
    assert (result.returncode, result.stdout) == (2, "")
    assert ("did you mean" in result.stderr, near in result.stderr) == (bool(near), True)
    assert "`gpudoctor smoke --list`" in result.stderr
    assert len(result.stderr) < 200


BAD = {
    "no such device": (["--device", "gpu"], "cuda:0"),
    "no such kernel": (["--kernel", "matmull"], "matmul"),
    "no time": (["--timeout", "0"], "--timeout"),
    "no number": (["--timeout", "nan"], "--timeout"),
    "no minutes": (["--minutes", "-1"], "--minutes"),
    "minutes without a soak": (["--minutes", "1", "--level", "quick"], "soak"),
    "a level without kernels": (["--level", "driver"], "quick"),
    "a root": (["--root", "{tmp}"], "running system"),
    "a snapshot": (["--from", "{tmp}/machine.json"], "running system"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, what: str) -> None:
    arguments, word = BAD[what]
    given = [text.format(tmp=tmp_path, venv=environment(tmp_path) if "{" in text else "") for text in arguments]
    result = gpudoctor("smoke", *given)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert word in result.stderr


@pytest.mark.parametrize(("count", "code"), [(2, 2), (0, 1)])
def test_a_gpu_that_is_not_there_is_a_mistake_only_where_there_are_others(
    tmp_path: Path, good: Path, count: int, code: int
) -> None:
    place = environment(tmp_path, GPUS.replace("return 2", f"return {count}"))
    result = gpudoctor("smoke", "--python", place, "--device", "cuda:7", "--format", "json", kernels=good)
    assert result.returncode == code
    if count:
        assert "cuda:1 (NVIDIA H100)" in result.stderr
    else:
        assert report(result)["verdict"] == "error"
        assert any("torch sees no GPU" in question["why"] for question in report(result)["not_judged"])


def test_a_kernel_by_name_needs_no_level(tmp_path: Path) -> None:
    place = environment(tmp_path)
    result = gpudoctor("smoke", "--python", place, "--device", "cpu", "--kernel", "fft", "--format", "json")
    smoke = report(result)["smoke"]
    assert smoke["level"] == "standard"
    assert {kernel["name"] for kernel in smoke["kernels"]} == {"fft"}


# --- described machines ------------------------------------------------------------------------------


def test_for_a_described_gpu_the_kernels_prove_this_torch_on_the_cpu(tmp_path: Path, good: Path) -> None:
    arguments = ("check", "--gpu", "H100", "--driver", "580.95.05", "--python", environment(tmp_path))
    asked = report(gpudoctor(*arguments, "--level", "quick", "--format", "json", kernels=good))
    assert {kernel["device"] for kernel in asked["smoke"]["kernels"]} == {"cpu"}
    assert report(gpudoctor(*arguments, "--format", "json", kernels=good))["smoke"] is None


def test_a_described_torch_is_not_proved_by_the_installed_one(tmp_path: Path, good: Path) -> None:
    arguments = ("--gpu", "H100", "--torch", "2.9.1+cu128", "--level", "quick", "--python", environment(tmp_path))
    assert report(gpudoctor("check", *arguments, "--format", "json", kernels=good))["smoke"] is None


# --- a terminal, and signals ---------------------------------------------------------------------------


def on_a_terminal(kernels: Path, *arguments: str, **variables: str) -> bytes:
    """What reaches a terminal on stderr; stdout is a pipe."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command(kernels, *arguments), cwd=ROOT, env=environ(**variables), stdout=subprocess.PIPE, stderr=theirs
    ) as process:
        os.close(theirs)
        process.communicate(timeout=60)
    seen = b""
    try:
        while piece := os.read(ours, 1 << 16):
            seen += piece
    except OSError:  # how Linux tells that the other end is closed
        pass
    finally:
        os.close(ours)
    return seen


def test_a_terminal_sees_each_kernel_and_nothing_of_it_stays(tmp_path: Path, good: Path) -> None:
    arguments = ("smoke", "--python", environment(tmp_path), "--device", "cpu")
    seen = on_a_terminal(good, *arguments)
    assert b"good too on cpu" in seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"\n" not in seen
    assert on_a_terminal(good, *arguments, "-q") == b""
    assert on_a_terminal(good, *arguments, "--format", "json") == b""
    assert on_a_terminal(good, *arguments, TERM="dumb") == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_with_the_shells_code_and_no_words(tmp_path: Path, number: int, code: int) -> None:
    started = tmp_path / "started"
    place = environment(tmp_path, f"open({str(started)!r}, 'w').close()\nimport time\ntime.sleep(600)\n")
    (tmp_path / "tmp").mkdir()
    with subprocess.Popen(
        command(None, "smoke", "--python", place),
        cwd=ROOT, env=environ(TMPDIR=str(tmp_path / "tmp")), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 30
        while not started.exists():  # the child imports torch
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        output = process.communicate(timeout=20)
    assert (process.returncode, output) == (code, (b"", b""))
    assert os.listdir(tmp_path / "tmp") == []


# --- a real torch --------------------------------------------------------------------------------------


@pytest.mark.skipif(not TORCH_PYTHON, reason="GPUDOCTOR_TEST_PYTHON names no interpreter with torch")
def test_a_real_torch_is_right_at_level_quick_on_the_cpu() -> None:
    result = gpudoctor("smoke", "--python", TORCH_PYTHON, "--device", "cpu", "--select", "GPD5", "--format", "json")
    found = report(result)
    assert (result.returncode, found["verdict"]) == (0, "ok")
    assert {kernel["status"] for kernel in found["smoke"]["kernels"]} == {"pass"}
    assert {"copy", "matmul", "convolution", "attention"} <= {kernel["name"] for kernel in found["smoke"]["kernels"]}
    assert found["machine"]["environment"]["value"]["frameworks"]["torch"]["value"]["trial"]["value"]["ok"] is True
