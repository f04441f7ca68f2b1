"""What people see: through a real pseudo-terminal at 80 and 120 columns, with and without colour, and in a pipe."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from msgspec.structs import replace

from gpudoctor.intake.snapshot import Snapshot
from gpudoctor.machine import NvidiaApi, Smoke, SmokeDevice, SmokeKernel, known
from gpudoctor.plain_text import enumeration, is_command, questions, with_code
from gpudoctor.render.headline import headline
from gpudoctor.render.layout import Line, wrap
from gpudoctor.render.next_command import next_lines
from gpudoctor.render.steps import fix_lines, step_lines, step_spans, telling_steps
from gpudoctor.render.style import PLAIN
from gpudoctor.report import Subject, make_report
from gpudoctor.step import ManualStep, PlannedFix
from gpudoctor.testing import nvidia_machine, torch
from tests.support.check_cases import matrix
from tests.support.codeobject_files import container, cuda_library
from tests.support.environments import write_distribution, write_torch, write_venv
from tests.support.faulty_machines import MACHINES
from tests.support.hosts import Host
from tests.support.in_process import gpudoctor, invoked
from tests.support.judging import judged

COLOR = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(
    *arguments: str, columns: int = 80, cwd: Path | None = None, progress: bool = False, **variables: str
) -> str:
    """What a terminal of that width gets of stdout; of stderr alone, where the `progress` is asked for."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", *arguments],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL if progress else theirs,
        stderr=theirs if progress else subprocess.DEVNULL, cwd=cwd,
        env=environ(TERM="xterm-256color") | variables,
    )  # fmt: skip
    os.close(theirs)
    told = b""
    with contextlib.suppress(OSError):  # the terminal's other side is gone
        while select.select([ours], [], [], 120)[0] and (part := os.read(ours, 65536)):
            told += part
    child.wait(120)
    os.close(ours)
    return told.decode().replace("\r\n", "\n")


def environ(**variables: str) -> dict[str, str]:
    own = ("GPUDOCTOR_", "NO_COLOR", "VIRTUAL_ENV", "CONDA_PREFIX", "COLUMNS", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)} | variables


def piped(*arguments: str, cwd: Path | None = None, **variables: str) -> str:
    return gpudoctor(*arguments, cwd=cwd, environ=environ(**variables)).stdout


@pytest.fixture
def two_faults(tmp_path: Path) -> Host:
    """An RTX 5090 with a torch that has no code for it, and a /dev/shm that is too small in a container."""
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124")
    host.docker()
    host.run()
    return host


def commands_in(text: str) -> list[list[str]]:
    """The commands of a screen, as a shell takes them where they are copied."""
    whole = text.replace("\\\n", " ")
    return [shlex.split(line) for line in whole.splitlines() if "pip install" in line]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_screen_says_the_same_with_and_without_colour(two_faults: Host, columns: int):
    check = ("check", "--root", str(two_faults.root))
    colored = on_a_terminal(*check, columns=columns)
    assert "\x1b[" in colored
    text = COLOR.sub("", colored)
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_a_terminal(*check, columns=columns, **variables) == text
    assert on_a_terminal(*check, "--no-color", columns=columns) == text
    assert [line for line in text.splitlines() if len(line) > columns and " " in line.strip()] == []
    assert "\n\n✗ Problem  torch-no-arch-for-gpu" in text
    assert commands_in(text) == commands_in(piped(*check))


def test_a_pipe_has_the_words_of_a_terminal_and_its_commands_whole(two_faults: Host):
    check = ("check", "--root", str(two_faults.root))
    text = piped(*check)
    assert "\x1b" not in text
    assert " ".join(text.split()) == " ".join(COLOR.sub("", on_a_terminal(*check)).replace("\\\n", " ").split())
    assert all("\\" not in line for line in text.splitlines())


def test_the_first_line_says_how_it_stands_and_the_last_what_to_type(two_faults: Host, tmp_path: Path):
    lines = piped("check", "--root", str(two_faults.root)).splitlines()
    assert re.fullmatch(r"1 problem(, \d warnings?)?", lines[0])
    assert lines[-1] == f"Next: gpudoctor fix --root {two_faults.root}"
    empty = Host(tmp_path / "empty").ubuntu().venv()
    empty.run()
    lines = piped("check", "--root", str(empty.root)).splitlines()
    assert lines[0] == "Nothing to check: no GPU and no PyTorch found."
    assert lines[-1].endswith(f"gpudoctor recommend --root {empty.root}")


@pytest.mark.parametrize(("slug", "command"), [("gpu-off-bus", "check"), ("torch-cpu-only", "fix")])
def test_where_only_a_person_can_repair_it_check_follows_and_not_fix(slug: str, command: str):
    machine = MACHINES[slug]
    report = make_report(machine, matrix(), judged(machine), subject=Subject(kind="machine", label="this machine"))
    assert report.findings[0].slug == slug
    told = "".join(text for line in next_lines(report, PLAIN) for text, _ in line)
    assert told.endswith(f"Next: gpudoctor {command}")


@pytest.mark.parametrize("kind", ["machine", "snapshot"])
def test_the_next_command_takes_the_options_that_it_is_given(kind: Literal["machine", "snapshot"]):
    machine = MACHINES["gpu-slow"]  # it computed right, but the rate of its memory is low: a note
    report = make_report(machine, matrix(), judged(machine), subject=Subject(kind=kind, label="one"))
    where = ("--from", "one.json") if kind == "snapshot" else ("--python", "venv", "--driver", "580", "--matrix", "m")
    told = "".join(text for line in next_lines(report, replace(PLAIN, again=where)) for text, _ in line)
    expected = {
        "machine": "Next: gpudoctor snapshot --python venv",
        "snapshot": "Next, on that machine: gpudoctor check",
    }
    assert told.endswith(expected[kind])


@pytest.mark.parametrize(("framework", "command"), [("torch", "smoke --level standard"), ("cupy", "snapshot")])
def test_more_kernels_are_offered_only_where_there_are_more(framework: str, command: str):
    machine = replace(nvidia_machine(packages={"cupy-cuda12x": "13.6.0"}), level="quick")
    kernels = (SmokeKernel("matmul", "cuda:0" if framework == "torch" else "gpu:0", "float32"),)
    device = SmokeDevice(kernels[0].device)
    machine = replace(machine, smoke=Smoke("quick", kernels=kernels, devices=(device,), framework=framework))
    report = make_report(machine, matrix(), judged(machine), subject=Subject(kind="machine", label="this machine"))
    told = "".join(text for line in next_lines(report, PLAIN) for text, _ in line)
    assert told.endswith(f"Next: gpudoctor {command}")


def test_what_was_not_computed_is_not_called_ok(tmp_path: Path):
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.run()
    lines = piped("check", "--root", str(tmp_path)).splitlines()
    assert lines[0] == "No problem found in files: the driver was not started, nothing was computed."
    assert lines[-1].endswith("gpudoctor smoke")


def test_no_driver_was_started_for_a_gpu_that_is_only_described():
    machine = replace(nvidia_machine(), level="quick")
    described = replace(machine, gpus=tuple(replace(gpu, source="description") for gpu in machine.gpus))
    asked = replace(machine.nvidia, cuda=known(NvidiaApi(status=0, devices=()), "libcuda.so.1"))
    for one, told in (
        (machine, "the driver was not started"),
        (replace(machine, nvidia=asked), "the driver starts"),
        (replace(described, nvidia=asked), "the driver was not started"),
    ):
        report = make_report(one, matrix(), judged(one), subject=Subject(kind="machine", label="this machine"))
        line = "".join(text for text, _ in headline(report, PLAIN))
        assert line == f"No problem found: {told}; nothing was computed on a GPU."


def test_without_torch_the_screen_is_neutral_and_names_the_best_build(tmp_path: Path):
    described = ("--gpu", "RTX 4090", "--driver", "580.95.05", "--python", str(tmp_path / "venv"))
    write_venv(tmp_path / "venv")
    colored = on_a_terminal("check", *described)
    assert "\x1b[1;32m" not in colored
    text = piped("check", *described)
    best = next(line.strip() for line in text.splitlines() if "install" in line and "torch==" in line)
    assert best in piped("recommend", *described)
    assert text.splitlines()[0] == "No PyTorch found for NVIDIA GeForce RTX 4090: nothing was computed."
    assert "`gpudoctor recommend`" in text
    assert text.splitlines()[-1].startswith("Next: gpudoctor fix --install torch --python ")


def test_a_torch_that_nothing_can_use_is_not_green(tmp_path: Path):
    host = Host(tmp_path).ubuntu().torch("2.9.1+cpu")
    host.run()
    text = on_a_terminal("check", "--root", str(tmp_path))
    assert COLOR.sub("", text).startswith("No GPU found; torch 2.9.1+cpu runs on the CPU only.\n")
    assert "\x1b[1;32m" not in text


def test_each_stage_is_told_before_it_begins_and_nothing_stays(tmp_path: Path):
    write_torch(write_venv(tmp_path / "venv"), "2.9.1+cpu", None)
    told = on_a_terminal("check", "--python", str(tmp_path / "venv"), progress=True)
    stages = ["reading the machine's files", "asking the driver", "importing torch"]
    assert [stage for stage in re.split(r"\r\x1b\[K| \.\.\.", told) if stage] == stages
    assert told.endswith("\r\x1b[K")
    assert on_a_terminal("check", "--level", "static", progress=True, TERM="dumb") == ""


def test_eight_equal_gpus_are_one_line(tmp_path: Path):
    host = Host(tmp_path).ubuntu()
    for number in range(8):
        host.nvidia_gpu("2330", f"0000:{number + 1:02x}:00.0", minor=number)
    host.nvidia_driver("570.133.07").torch("2.9.1+cu128").run()
    (line,) = [line for line in piped("check", "--root", str(tmp_path)).splitlines() if "H100" in line]
    assert line.split()[:5] == ["GPU", "0-7", "8", "x", "NVIDIA"]


def test_a_list_is_told_once_and_what_is_likely_has_a_reason(two_faults: Host):
    text = piped("check", "--root", str(two_faults.root))
    assert text.count("sm_50") == 1
    assert "found " not in text and "needed" not in text  # the message and the fix tell both
    assert re.search(r"^    likely: read from ", text, re.MULTILINE)


def test_the_working_folder_s_venv_is_examined_where_none_is_active(tmp_path: Path):
    write_torch(write_venv(tmp_path / ".venv"), "2.9.1+cpu", None)
    assert examined(tmp_path) == f"{tmp_path}/.venv"
    write_venv(tmp_path / "active")
    assert examined(tmp_path, VIRTUAL_ENV=str(tmp_path / "active")) == f"{tmp_path}/active"


def test_the_environment_of_a_tool_is_not_examined(tmp_path: Path):
    home, here = tmp_path / "home", Path(__file__).parent.parent
    own = home / ".cache/uv/archive-v0/x"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(own)], check=True)
    (site,) = own.glob("lib/python*/site-packages")
    (site / "gpudoctor.pth").write_text("\n".join([str(here), *(path for path in sys.path if "packages" in path)]))
    variables = {"HOME": str(home), "PATH": f"{own}/bin:/usr/bin:/bin"}
    check = [str(own / "bin/python"), "-m", "gpudoctor", "check", "--level", "static"]
    done = subprocess.run(
        check, capture_output=True, text=True, check=False, cwd=tmp_path, env=variables, timeout=120
    )
    assert "own environment (uvx, pipx) is not examined" in done.stdout, done.stderr
    assert str(own) not in done.stdout


def examined(folder: Path, **variables: str) -> str:
    """The environment that is examined in that folder."""
    report = json.loads(piped("check", "--level", "static", "--format", "json", "--private", cwd=folder, **variables))
    prefix: str = report["machine"]["environment"]["value"]["prefix"]
    return prefix


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_command_is_broken_between_the_words_of_a_shell(width: int):
    argv = ["/opt/my venv/bin/python", "-m", "pip", "install", "--index-url", "https://example.org/whl/cu128", "a b"]
    line: Line = [("    pip   ", "dim"), (shlex.join(argv), "command")]
    lines = ["".join(text for text, _ in part) for part in wrap(line, width)]
    joined = "\n".join(lines).removeprefix("    pip   ").replace("\\\n", "")
    assert shlex.split(joined) == argv
    assert all(len(line) <= width for line in lines if " " in line.strip().removesuffix("\\").strip())


def test_text_hangs_below_itself_and_no_word_is_broken():
    line: Line = [("  System   ", "dim"), ("a kernel " * 20, "")]
    lines = ["".join(text for text, _ in part) for part in wrap(line, 40)]
    assert all(part.startswith(" " * 11) and len(part) <= 40 for part in lines[1:])
    assert " ".join(lines).split() == ["System", *(["a", "kernel"] * 20)]


def test_code_that_is_longer_than_a_line_does_not_hold_the_words_behind_it_together():
    code = "nvidia-ctk runtime configure " * 3
    text = f"Run `{code}--now`, then restart it and give all the pods `runtimeClassName: nvidia`."
    lines = ["".join(text for text, _ in part) for part in wrap([(text, "")], 40)]
    assert max(map(len, lines)) <= 40
    assert any("`runtimeClassName: nvidia`" in line for line in lines)


def test_a_command_of_an_explanation_is_shown_as_it_is_typed():
    screen = on_a_terminal("explain", "CUDA error: no kernel image is available for execution on the device")
    assert "print(torch.__version__," in screen


@pytest.mark.parametrize("slug", MACHINES)
def test_what_looks_like_a_command_is_one(slug: str):
    """A person copies it: no words of a sentence stand behind it, and no step only repeats the title of its fix."""
    machine = MACHINES[slug]
    report = make_report(machine, matrix(), judged(machine), subject=Subject(kind="machine", label="this machine"))
    for fix in (fix for finding in report.findings for fix in finding.fixes):
        steps = telling_steps(fix)
        assert [step for step in steps if " ".join(step_lines(step)).rstrip(".") == fix.title.rstrip(".")] == []
        for text, style in (span for step in steps for span in step_spans(step)):
            if style == "command":
                assert not re.search(
                    r", then | in this |\(|\w\.$", re.sub(r"'[^']*'|\"[^\"]*\"|\$\([^)]*\)", "", text)
                ), text
            else:
                assert not re.match(r"(?:\[|apt-get|kubectl|conda|docker|pip|sudo) ", text), text


def test_the_lines_for_a_dockerfile_stand_together(tmp_path: Path):
    """Between them and the commands for the container that runs, nobody takes one for the other."""
    host = Host(tmp_path / "root").ubuntu().docker().nvidia_gpu("2684").nvidia_driver("580.95.05")
    host.torch("2.6.0+cu124").package(
        "nvidia-cudnn-cu12", "9.10.2.21"
    ).run()  # it lacks NCCL, from one index, and Triton, from another
    screen = piped("check", "--root", str(host.root), "--select", "requirements-incomplete")
    lines = [line.split()[0] for line in screen.splitlines() if " install " in line]
    assert screen.count("In the Dockerfile of the image:") == 1
    assert lines == ["/opt/venv/bin/python"] * 2 + ["RUN"] * 2


def test_a_question_tells_its_commands_from_its_words():
    rows = matrix().tables.error_patterns
    commands = {part for row in rows for part in questions(row.ask) if is_command(part)}
    assert {
        "ls -l /dev/nvidia*",
        "sudo dmesg | grep -i -e nvrm -e xid",
        "pip list | grep -i -e triton -e '^torch'",
        "nvidia-smi --query-gpu=name,compute_cap --format=csv",
    } <= commands
    assert not is_command("pip cannot write there.") and is_command("docker run --gpus all ...")
    words = {"the", "it", "is", "was", "and", "or"}
    assert [part for part in commands if words & set(re.sub(r"'[^']*'|\"[^\"]*\"", "", part).split())] == []
    assert with_code('python -c "import a; print(a.b(c, d))"; is it WSL? id') == (
        '`python -c "import a; print(a.b(c, d))"`; is it WSL? `id`'
    )


@pytest.mark.parametrize("columns", [80, 120])
def test_an_explanation_is_the_same_with_and_without_colour(columns: int):
    explain = ("explain", "HIP error: invalid device function")
    colored = on_a_terminal(*explain, columns=columns)
    assert "\x1b[" in colored
    text = COLOR.sub("", colored)
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert on_a_terminal(*explain, columns=columns, **variables) == text
    assert "#" not in text
    assert "\n    rocminfo | grep gfx\n    echo $HSA_OVERRIDE_GFX_VERSION\n    python -c" in text
    assert [line for line in text.splitlines() if len(line) > columns and "import torch" not in line] == []


def test_an_error_on_a_terminal_breaks_between_words(tmp_path: Path):
    (tmp_path / "empty.txt").write_text("")
    told = on_a_terminal("check", "--from", "empty.txt", columns=40, cwd=tmp_path, progress=True)
    lines = told.splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 40
    assert all(line.startswith(" " * len("gpudoctor: ")) for line in lines[1:])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("fleet", "merge"), "no command 'merge' (`gpudoctor fleet --help` tells more)"),
        (("fleet", "report"), "Missing argument 'DIR|FILE|-...'. (`gpudoctor fleet report --help` tells more)"),
        (("check", "--level", "deep"), "Invalid value for '--level': 'deep' is not one of"),
    ],
)
def test_who_types_a_wrong_word_learns_where_the_right_ones_are(arguments: tuple[str, ...], error: str):
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", *arguments],
        capture_output=True, text=True, check=False, timeout=120, env=environ(),
    )  # fmt: skip
    assert done.returncode == 2 and done.stderr.startswith(f"gpudoctor: {error}")


def test_beside_a_problem_nothing_else_is_told_twice_or_recommended():
    """Neither the other causes, which the message lists, nor a build of torch, which nobody asked for."""
    screen = piped("whatif", "--gpu", "RTX 4090", "--error", "CUDA error: unknown error")
    assert screen.count("driver-installed-no-reboot") == 1
    assert "Best build" not in screen
    assert "\n      ls -l /dev/nvidia*\n" in screen


def test_where_torch_is_all_that_is_missing_the_next_command_installs_it(tmp_path: Path):
    write_venv(tmp_path / ".venv")
    described = ("--gpu", "RTX 5090", "--driver", "580.95.05")
    lines = piped("fix", *described, "--dry-run", VIRTUAL_ENV=str(tmp_path / ".venv")).splitlines()
    assert lines == ["Nothing to fix.", "Next: gpudoctor fix --install torch --gpu 'RTX 5090' --driver 580.95.05"]


def test_a_plan_for_a_described_machine_does_not_lead_back_to_the_same_check():
    screen = piped("fix", "--gpu", "RTX 5090", "--driver", "580.95.05", "--torch", "2.5.1+cu124")
    assert screen.splitlines()[-1] == "Next, on that machine: gpudoctor fix"


@pytest.mark.parametrize("cause", ["torch.py", "PYTHONPATH"])
def test_a_step_by_hand_in_this_environment_has_one_next_command(tmp_path: Path, cause: str):
    """For described GPUs, too: the file, the variable and the environment are those here."""
    write_torch(write_venv(tmp_path / "venv"), "2.9.1+cu128", "12.8", requires=())
    (folder := tmp_path / "project").mkdir()
    if cause == "torch.py":
        (folder / "torch.py").touch()
    else:
        write_torch(folder, "2.4.0+cpu", None, requires=())
    variables = {"PYTHONPATH": str(folder)} if cause == "PYTHONPATH" else {}
    options = ("--python", str(tmp_path / "venv"), "--gpu", "RTX 4090", "--driver", "570.133.07")
    run = {"cwd": folder if cause == "torch.py" else tmp_path, **variables}
    plan = piped("fix", "--dry-run", *options, **run)  # type: ignore[arg-type]
    lines = plan.splitlines()
    assert re.match(r"Plan: \d steps?, by hand,", lines[0]) and "not run" not in plan
    assert lines[-2] in ("Do this, then check again.", "Do the steps that are only shown, then check again.")
    assert lines[-1] == f"Next: gpudoctor check {shlex.join(options)}"
    report = piped("check", *options, **run)  # type: ignore[arg-type]
    assert report.count("Start programs from another folder") == (cause == "torch.py")
    assert ("possible: it depends on the folder that programs are started in" in report) is (cause == "torch.py")


def test_of_described_gpus_in_this_environment_the_last_lines_say_what_was_not_read(tmp_path: Path):
    venv = tmp_path / "venv"
    write_torch(write_venv(venv), requires=())
    screen = piped("check", "--python", str(venv), "--gpu", "RTX 4090", "--driver", "570.133.07", "--ignore", "GPD4")
    *_, why, last = (" ".join(part.split()) for part in screen.replace("and\n", "and ").splitlines())
    assert (
        why == "The GPU and driver were described, not read. Run the same without --gpu and --driver on that machine."
    )
    assert last == f"Next, on that machine: gpudoctor check --python {venv}"


def test_where_there_is_no_gpu_and_no_torch_fix_recommends_what_check_does(tmp_path: Path):
    empty = Host(tmp_path).ubuntu().venv()
    empty.run()
    lines = piped("fix", "--root", str(empty.root)).splitlines()
    assert lines == ["Nothing to fix.", f"Next: gpudoctor recommend --root {empty.root}"]


def test_a_table_and_a_list_fit_into_the_terminal():
    table = COLOR.sub("", on_a_terminal("matrix", "show", "known_issues"))
    assert [line for line in table.splitlines() if len(line) > 80 and " " in line.strip()] == []
    assert "\namd-sdpa-sd3-240\n    slug         rocm-mem-efficient-attention\n" in f"\n{table}"
    assert "…" not in table
    listed = COLOR.sub("", on_a_terminal("list"))
    assert "\nGPD402  torch-no-arch-for-gpu  The installed torch is older than the NVIDIA GPU\n        and" in listed


def test_a_fleet_ends_in_what_to_type_and_where(tmp_path: Path):
    for name, machine in {"gpu01": "torch-cpu-only", "gpu02": "gpu-slow"}.items():
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(Snapshot(machine=MACHINES[machine])))
    screen = piped("fleet", "report", str(tmp_path))
    assert screen.splitlines()[-1] == "Next, on gpu01: gpudoctor fix"


def test_a_fleet_with_a_node_that_only_differs_ends_in_what_to_type_there(tmp_path: Path):
    odd = nvidia_machine(torch=torch("2.8.0+cu128"))
    for name, machine in {"n1": nvidia_machine(), "n2": nvidia_machine(), "n3": nvidia_machine(), "n4": odd}.items():
        (tmp_path / f"{name}.json").write_bytes(msgspec.json.encode(Snapshot(machine=machine)))
    lines = piped("fleet", "report", str(tmp_path)).splitlines()
    assert (lines[0], lines[-1]) == ("1 node with a warning (of 4 nodes)", "Next, on n4: gpudoctor check")


def test_what_a_text_does_not_say_is_said_once(tmp_path: Path):
    (tmp_path / "report.txt").write_text("My program crashed: TypeError: 'NoneType' object is not iterable\n")
    screen = piped("check", "--from", str(tmp_path / "report.txt"))
    assert screen.startswith("Nothing in this text is about a GPU. If there is a GPU problem, add its message\n")
    assert "  not said system, GPU, Python, torch: taken as healthy\n" in screen
    assert "unknown" not in screen


def test_a_long_reason_is_told_in_brief_and_what_decides_can_be_copied(tmp_path: Path):
    empty = Host(tmp_path / "root").ubuntu()
    empty.run()
    message = "CUDA error: no kernel image is available"
    screen = piped("check", "--root", str(empty.root), "--error", message)
    head, _, rest = screen.partition("\ngpudoctor ")
    assert "torch-no-arch-for-gpu is the most likely" in " ".join(head.split())
    assert "Other possible" not in head and "To be sure" not in head
    assert "\n      Which GPU is it?\n      python -c " in rest


def test_long_names_move_the_values_of_all_lines(tmp_path: Path):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.package("onnxruntime-gpu", "1.23.2")
    host.run()
    rows = re.findall(r"(?m)^  (?:System|GPU 0|torch|onnxruntime) +(?=\S)", piped("check", "--root", str(host.root)))
    assert len(rows) == 4 and len(set(map(len, rows))) == 1


def test_a_build_for_another_machine_is_not_installed_here(tmp_path: Path):
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").venv()
    host.run()
    assert piped("recommend", "--root", str(host.root)).splitlines()[-1].startswith("Next, on that machine: python")


def test_without_a_variable_to_set_env_says_so(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "env", "--root", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=120, env=environ(),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("# Nothing to set")


def test_what_was_seen_is_said_once(tmp_path: Path):
    lines = (
        "NVIDIA GeForce RTX 5070 with CUDA capability sm_120 is not compatible with the current PyTorch installation",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "torch 2.5.1+cu121",
    )
    (tmp_path / "report.txt").write_text("\n".join(lines))
    screen = " ".join(piped("check", "--from", str(tmp_path / "report.txt")).split())
    assert screen.count(" seen ") == 1
    assert "not compatible" in screen and "no kernel image" in screen


def test_the_same_answer_twice_is_told_once(tmp_path: Path):
    lines = (
        "torch.cuda.is_available() is False",
        "$ pip install torch===1.3.0",
        "$ python3",
        ">>> import torch",
        ">>> torch.cuda.is_available()",
        "False",
        "nvidia-smi: driver 410.48",
    )
    (tmp_path / "report.txt").write_text("\n".join(lines))
    screen = " ".join(piped("check", "--from", str(tmp_path / "report.txt")).split())
    assert screen.count("torch.cuda.is_available() is False") == 1


@pytest.mark.parametrize(
    ("names", "text"), [("", ""), ("a", "a"), ("abc", "a, b, c"), ("abcde", "a, b, c and 2 more")]
)
def test_a_shortened_list_says_how_many_it_leaves_out(names: str, text: str):
    assert enumeration(list(names), 3) == text


def screen_of(tmp_path: Path, *lines: str) -> list[str]:
    (tmp_path / "report.txt").write_text("\n".join(lines))
    return piped("check", "--from", str(tmp_path / "report.txt")).splitlines()


def test_of_a_text_the_cause_comes_first_then_its_fix_what_was_seen_and_what_else_it_may_be(tmp_path: Path):
    error = "rocBLAS error: Cannot read /opt/rocm/lib/rocblas/library/TensileLibrary.dat: No such file or directory"
    lines = screen_of(tmp_path, error)
    starts = ("✗ Problem", "    Fix: ", "    seen    ", "    Other possible causes", "    To be sure:", "    likely:")
    found = [next(number for number, line in enumerate(lines) if line.startswith(start)) for start in starts]
    assert found == sorted(found)
    assert "      rocminfo | grep gfx" in lines  # as it is typed
    assert lines[-1] == "Next, on that machine: gpudoctor check"


def test_the_person_s_own_words_stand_behind_what_they_suggest(tmp_path: Path):
    lines = screen_of(tmp_path, "After suspend my RTX 3080 is not found by PyTorch until I reboot.")
    problem = next(number for number, line in enumerate(lines) if line.startswith("✗ Problem"))
    seen = next(number for number, line in enumerate(lines) if line.startswith("    seen    “After suspend"))
    assert lines[problem + 1].startswith("    The text suggests that ") and seen > problem


def test_after_a_fix_that_a_person_knows_nobody_is_sent_to_an_explanation(tmp_path: Path):
    lines = screen_of(tmp_path, "Unable to open /dev/kfd read-write: Permission denied")
    assert "sudo usermod -aG render,video $USER" in " ".join(lines)
    assert lines[-1] == "Next, on that machine: gpudoctor check"
    described = piped("whatif", "--gpu", "RTX 5090", "--torch", "2.6.0+cu124").splitlines()
    assert described[-1] == "Next: gpudoctor recommend --gpu 'RTX 5090'"


def test_an_image_is_checked_for_a_gpu_that_is_named(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text("FROM python:3.12-slim\nRUN pip install torch==2.9.1\n")
    assert piped("dockerfile", str(tmp_path)).splitlines()[-1] == f"Next: gpudoctor dockerfile {tmp_path} --gpu NAME"
    named = piped("dockerfile", str(tmp_path), "--gpu", "RTX 4090").splitlines()
    assert named[-1] == "Next, in its container: gpudoctor check"


def test_a_refusal_ends_in_the_command_that_shows_more(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "preflight", "--require", "gpu>=64", "--", "true"],
        capture_output=True, text=True, check=False, timeout=120, env=environ(), cwd=tmp_path,
    )  # fmt: skip
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Next: gpudoctor check ") and last.endswith("--require 'gpu>=64'")


def test_a_fix_is_named_once():
    once = PlannedFix("Reset the GPU.", (ManualStep(text="Reset the GPU with `nvidia-smi --gpu-reset`, or reboot."),))
    lines = ["".join(text for text, _ in line) for line in fix_lines(once, "Fix")]
    assert lines == ["    Fix: Reset the GPU with `nvidia-smi --gpu-reset`, or reboot."]
    placed = PlannedFix("Install torch 2.7.0", (ManualStep(text="Dockerfile:3: RUN pip install torch==2.7.0"),))
    lines = ["".join(text for text, _ in line) for line in fix_lines(placed, "Fix")]
    assert lines == ["    Fix: Install torch 2.7.0", "      Dockerfile:3: RUN pip install torch==2.7.0"]


def test_integrated_graphics_that_a_build_leaves_out_are_no_shortcoming_of_it(tmp_path: Path):
    laptop = Host(tmp_path / "host").ubuntu().nvidia_gpu("28e0").nvidia_driver("570.133.07")
    laptop.amd_gpu("15bf", 110003, "0000:65:00.0").torch("2.9.1+cu128")
    laptop.file("/gpudoctor-host.json", json.dumps(laptop.json))
    said = piped("recommend", "--root", str(laptop.root))
    assert ", without" not in said.splitlines()[0]
    assert "is left out: integrated." in said
    # A tool that needs two commands says which comes after which.
    assert re.search(r"^    pip   .*--force-reinstall.*\n    then  python -m pip install ", said, re.MULTILINE)


def test_what_goes_into_a_compose_file_stands_alone_and_within_the_screen():
    machine = MACHINES["container-no-gpu"]
    report = make_report(machine, matrix(), judged(machine), subject=Subject(kind="machine", label="here"))
    lines = step_lines(report.findings[0].fixes[0].steps[0])
    label = lines.index("compose, in the service:")
    assert lines[label + 1].startswith("  deploy: ")
    assert all(len(line) <= 72 for line in lines)


def test_a_scan_breaks_no_word_and_indents_what_goes_on(tmp_path: Path):
    site = write_venv(tmp_path / "venv")
    code = cuda_library(container(*(f"sm_{number}" for number in (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121))))
    write_distribution(site, "flash-attn", "2.7.4", files={"flash_attn_2_cuda_with_a_long_name.so": code})
    said = on_a_terminal("scan", "flash-attn", "--python", str(tmp_path / "venv"), "--gpu", "GTX 1080", NO_COLOR="1")
    assert "\n      it has code for sm_75 " in said
    assert "\n      sm_1" in said  # the rest of the list, indented
    assert all(len(line) <= 80 for line in said.splitlines() if " sm_" in line)


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("explain GPD402", "gpudoctor check"),
        ("explain GPD601", "gpudoctor dockerfile ."),
        ("explain no kernel image is available", "gpudoctor check"),
        ("explain CUDA_VISIBLE_DEVICES", "gpudoctor explain GPD210"),
        ("matrix show", "gpudoctor matrix show nvidia_gpus"),
        ("matrix show nvidia_chips TU1", "gpudoctor matrix show nvidia_chips TU1 --format json"),
        ("matrix show nvidia_chips nothing", "gpudoctor matrix show nvidia_chips"),
    ],
)
def test_what_only_tells_ends_with_the_command_to_type_too(command: str, last: str):
    assert invoked(*command.split()).stdout.splitlines()[-1] == f"Next: {last}"


def test_a_gpu_build_without_a_gpu_is_led_to_the_build_for_the_cpu(tmp_path: Path):
    host = Host(tmp_path).ubuntu().torch("2.9.1+cu128")
    assert host.run().stdout.splitlines()[-1].startswith("Next: gpudoctor recommend --root ")
    assert "recommend" not in host.run("--require", "gpu>=1").stdout.splitlines()[-1]
    assert "recommend" not in host.node("/dev/nvidia0", "EIO").run().stdout.splitlines()[-1]  # it is there, and dead
