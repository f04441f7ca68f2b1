"""The examples say what the programs understand: command lines, requirements, exit codes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudoctor.command_line.option_parser import read
from gpudoctor.preflight.arguments import LINE
from gpudoctor.requirement import parse

EXAMPLES = Path(__file__).parents[1] / "examples"
PODS = sorted((EXAMPLES / "kubernetes").glob("*.yaml"))


def entrypoints() -> Iterator[tuple[list[str], dict[str, str]]]:
    """What starts each example's container, and its variables."""
    for service in yaml.safe_load((EXAMPLES / "compose.yaml").read_text())["services"].values():
        yield service["entrypoint"] + service["command"], service["environment"]
    for pod in PODS:
        spec = yaml.safe_load(pod.read_text())["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            variables = {entry["name"]: entry["value"] for entry in container.get("env", ())}
            if "command" in container:
                yield container["command"] + container.get("args", []), variables
    for image in (EXAMPLES / "docker").iterdir():
        found = re.search(r"^ENTRYPOINT (\[.*\])$", image.read_text(), re.MULTILINE)
        assert found is not None
        yield [*yaml.safe_load(found[1]), "app"], {}


@pytest.mark.parametrize(("words", "variables"), list(entrypoints()))
def test_an_entrypoint_is_understood(words: list[str], variables: dict[str, str]) -> None:
    assert words[:2] == ["gpudoctor", "preflight"]
    given: dict[str, Any] | None = read(LINE, words[2:], variables)
    assert given is not None
    for requirement in given.get("require", ()):
        parse(requirement)


@pytest.mark.parametrize("code", [0, 1, 2, 3, 70, 127])
def test_only_a_bad_node_is_drained(code: int, tmp_path: Path) -> None:
    stub = tmp_path / "bin" / "gpudoctor"
    stub.parent.mkdir()
    stub.write_text(f"#!/bin/sh\nenv >{tmp_path}/seen\nexit {code}\n")
    stub.chmod(0o755)
    job = {**os.environ, "GPUDOCTOR": str(stub), "CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_ID": "7"}
    ended = subprocess.run([EXAMPLES / "slurm" / "prolog.sh"], env=job, capture_output=True, check=False, timeout=60)
    assert ended.returncode == (1 if code in (1, 3) else 0)
    seen = (tmp_path / "seen").read_text()
    assert "SLURM" not in seen and "CUDA" not in seen, "the job's own variables are left out"


def test_the_prologs_command_line_is_understood() -> None:
    text = (EXAMPLES / "slurm" / "prolog.sh").read_text().replace("\\\n", " ")
    found = re.search(r'"\$GPUDOCTOR" preflight (.*) 2>&1\)', text)
    assert found is not None
    given = read(LINE, found[1].replace('"', "").split(), {})
    assert given is not None and given["level"] == "driver"
    assert not any(name.startswith(("GPD3", "GPD4", "GPD5")) for name in given["select"]), "only the node is judged"
