"""What may leave a machine: no secret in any form, and names of people and programs only where that is asked for.

The sweep over every command is `python -m tests.hostile --only secrets`.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.cli import gpudoctor
from gpudoctor.planner.planned_steps import PlannedStep
from gpudoctor.planner.repair import Repair
from gpudoctor.planner.script import shell_script
from gpudoctor.privacy import public_text, without_secrets
from gpudoctor.probes.variables import probe_variables
from gpudoctor.render.json import json_line, to_json
from gpudoctor.step import RunStep
from tests.support.check_cases import matrix
from tests.support.hosts import Host, slugs
from tests.support.shell_scripts import check_syntax

SECRET = "hunter2hunter2hunter2"
HOLDING = (
    f"torch @ https://alice:{SECRET}@git.example/torch.whl",
    f"git+https://{SECRET}@git.example/a/b@v1",
    f"https://alice:p/{SECRET}@mirror.example/simple",
    f"https://alice:{SECRET}",
    f"-i 'ftp://a:{SECRET}@h/'",
    f"https://h/whl?token={SECRET}&a=b",
    f"https://h/whl?X-Amz-Signature={SECRET}",
    f"HF_TOKEN={SECRET} python",
    f"AWS_SECRET_ACCESS_KEY = {SECRET}",
    f'"password": "{SECRET} with spaces"',
    f"--password {SECRET}",
    f"--hf-token={SECRET}",
    f"Authorization: Bearer {SECRET}",
    f"X-Api-Key: {SECRET}",
    f"hf_{SECRET}",
    f"github_pat_{SECRET}",
    f"eyJ{SECRET}.{SECRET}.{SECRET}",
    f"alice:{SECRET}@mirror.example/whl",
    f"https://c.example/t/{SECRET}/pytorch",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
)
HOLDING_NONE = (
    "https://download.pytorch.org/whl/cu128",
    "https://mirror.example:8080/whl@stable/cu128",
    "http://[::1]:8080/simple",
    "docker://ubuntu:22.04",
    "torch[device-gfx1031]==2.11.0+rocm7.14.0",
    "max_tokens=20, pad_token_id=0, TOKENIZERS_PARALLELISM=false",
    "module verification failed: signature and/or required key missing - tainting kernel",
    "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so",
    "author=me key=value",
    "/etc/passwd: cannot be started",
    "ubuntu:22.04@sha256:0123456789abcdef",
    "nvidia/cuda:12.4.1-base@sha256:0123456789abcdef",
)


@pytest.mark.parametrize("text", HOLDING)
def test_a_secret_is_taken_out_and_what_stands_around_it_stays(text: str) -> None:
    clean = without_secrets(text)
    assert SECRET not in clean
    assert "***" in clean
    assert without_secrets(clean) == clean
    assert SECRET not in without_secrets(f"before {text} after")


@pytest.mark.parametrize("text", ["export HF_TOKEN={}; exec app", "app --password {}; sync", "A_SECRET='{}'; app"])
def test_the_end_of_a_command_is_no_part_of_its_secret(text: str) -> None:
    assert without_secrets(text.format(SECRET)) == text.replace("'{}'", "{}").format("***")


@pytest.mark.parametrize("text", HOLDING_NONE)
def test_a_text_without_a_secret_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "unit", ["a", "://a:", "token=", "token", "eyJ", "-", "auth ", 'password="', "--a", "x-", "sk-"]
)
def test_no_text_takes_longer_than_its_length_asks(unit: str) -> None:
    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        begun = time.process_time()
        without_secrets(text)
        return time.process_time() - begun

    assert seconds(400_000) < 40 * max(seconds(20_000), 0.005)  # 20 times the text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_holds_only_what_can_be_seen_and_says_the_same(text: str) -> None:
    for written in (to_json({"a": [text]}), json_line({"a": [text]})):
        assert all(char.isprintable() or char == "\n" for char in written)
        assert json.loads(written) == {"a": [without_secrets(text)]}


@pytest.mark.parametrize("char", ["\x85", "\x9b", "\u202e", "\u200b", "\ufeff", "\U000e0001", "\x7f", "\x1b"])
def test_what_a_terminal_obeys_is_a_number_in_json(char: str) -> None:
    written = to_json({"a": char})
    assert char not in written and "\\u" in written
    assert json.loads(written) == {"a": char}


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=secret_project, Ch 00000008",
        "NVRM: API mismatch: the client 'secret_project' (pid 4711)",
        "NVRM: Xid (PCI:0000:01:00): 48, pid=4711, name=alice, secret_project, DBE",
        "NVRM: Xid (PCI:0000:01:00): 13, pid='4711', name=secret_project --train, Graphics",
        "amdgpu: [gfxhub] page fault, for process secret_project pid 4711 thread secret_project:cs0 pid 4712",
        "Out of memory: Killed process 4711 (secret_project) total-vm:1kB",
        "oom-kill:constraint=CONSTRAINT_NONE,task=secret_project,pid=4711,uid=0",
        "CPU: 3 PID: 4711 Comm: secret_project Tainted: P",
        "INFO: task secret_project:4711 blocked for more than 120 seconds.",
        "secret_project[4711]: segfault at 0 ip 0 sp 0 error 4",
    ],
)
def test_a_process_is_told_by_its_number_and_not_by_its_name(line: str) -> None:
    public = public_text()(line)
    assert "secret_project" not in public
    assert "4711" in public


# --- variables ---------------------------------------------------------------------------------------


def test_only_variables_that_are_known_to_matter_are_kept(tmp_path: Path) -> None:
    host = Host(tmp_path).ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    kept = {"CUDA_VISIBLE_DEVICES": "0", "HSA_OVERRIDE_GFX_VERSION_1": "10.3.0", "NCCL_P2P_DISABLE": "1"}
    dropped = (
        "NCCL_HOSTID",
        "NCCL_COMM_ID",
        "TORCH_HUB_PASS",
        "CUDA_REGISTRY",
        "NVIDIA_NGC_API",
        "HIP_",
        "ROCM_USER",
    )
    host.environ(**kept, **dict.fromkeys(dropped, "node17.example"))
    variables = host.check("--private")["machine"]["variables"]
    assert kept.items() <= variables.items()
    assert not set(dropped) & variables.keys()


def test_an_overlays_issue_finds_the_variable_that_it_hangs_on(tmp_path: Path) -> None:
    host = Host(tmp_path / "root").ubuntu().nvidia_gpu("2684").nvidia_driver("580.95.05").torch("2.9.1+cu128")
    host.environ(SITE_SWITCH="on")
    overlay = tmp_path / "site.yaml"
    overlay.write_text(
        "known_issues:\n  - {id: site, severity: warning, trigger: facts, symptom: slow, workaround: Wait.,\n"
        "     when: {vendor: nvidia, env: [{name: SITE_SWITCH}]}}\n"
    )
    assert "known-issue" in slugs(host.check("--matrix", str(overlay)))
    assert "known-issue" not in slugs(host.check())


def test_every_variable_of_the_matrix_is_kept_without_being_asked_for() -> None:
    class Shell:
        environ = dict.fromkeys(matrix().variables, "1")

    assert probe_variables(Shell()).keys() == matrix().variables  # type: ignore[arg-type]
    assert "USER" not in matrix().variables  # a name of a person


# --- commands ----------------------------------------------------------------------------------------


def test_a_script_asks_for_the_password_that_it_does_not_hold(tmp_path: Path) -> None:
    step = RunStep(
        argv=(
            "python",
            "-m",
            "pip",
            "install",
            "--index-url",
            f"https://alice:{SECRET}@mirror.example/cu128",
            "torch",
        ),
        why=f"from https://alice:{SECRET}@mirror.example",
        undo=(("pip", "install", f"https://alice:{SECRET}@mirror.example/old.whl"),),
    )
    plan = Repair(steps=(PlannedStep(step=step, because=("GPD402",), state="will run"),), after="then check again")
    script = shell_script(plan, version="1", subject=f"--root https://alice:{SECRET}@x")
    check_syntax(script, tmp_path / "fix.sh")
    assert SECRET not in script
    assert 'https://"$INDEX_LOGIN"@mirror.example/cu128' in script
    assert ': "${INDEX_LOGIN:?' in script


@pytest.mark.parametrize("words", [(), ("-v",), ("--format", "json")])
def test_what_owns_files_of_the_new_build_is_taken_out_first(tmp_path: Path, words: tuple[str, ...]) -> None:
    """nvidia-nccl-cu12 of torch 2.6 would take files of a CUDA 13 build along when it goes."""
    host = Host(tmp_path).ubuntu().nvidia_gpu("2b85").nvidia_driver("580.95.05").torch("2.6.0+cu124")
    host.package("nvidia-nccl-cu12", "2.21.5").run()
    told = CliRunner().invoke(gpudoctor, ["recommend", "--root", str(tmp_path), *words], standalone_mode=False)
    assert told.exception is None
    if "json" in words:
        commands = json.loads(told.stdout)["choices"][0]["commands"]
        assert list(commands)[:2] == ["pip_first", "pip"]
        assert commands["pip_first"][-1] == commands["uv_first"][-1] == "nvidia-nccl-cu12"
    else:
        lines = [line.split() for line in told.stdout.splitlines() if line.startswith(("    pip ", "    then "))]
        assert ["uninstall" in line for line in lines[:2]] == [True, False]
        assert lines[0][-1] == "nvidia-nccl-cu12"
