"""The examples for operators: a bad node is told, a fault of gpudoctor itself harms none."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[1] / "examples"
PLUGIN = EXAMPLES / "node-problem-detector" / "gpudoctor.yaml"


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def run(*argv: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    config, _ = yaml.safe_load_all(PLUGIN.read_text())
    path = tmp_path / "check-gpu.sh"
    path.write_text(config["data"]["check-gpu.sh"])
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("code", "answer"), [(0, 0), (1, 1), (2, 2), (3, 2), (70, 2), (127, 2)])
def test_the_plugin_speaks_the_node_problem_detectors_protocol(code: int, answer: int, plugin: Path) -> None:
    stub = script(
        plugin.parent / "gpudoctor", f"echo; echo 'Problem  driver-too-old'; echo '  Driver 470.'; exit {code}"
    )
    done = run(plugin, GPUDOCTOR=str(stub))
    assert (done.returncode, done.stdout.strip()) == (answer, "Problem driver-too-old Driver 470.")


def test_the_plugins_parts_fit_together() -> None:
    config, daemons = yaml.safe_load_all(PLUGIN.read_text())
    rules: dict[str, Any] = json.loads(config["data"]["gpudoctor.json"])
    (container,) = daemons["spec"]["template"]["spec"]["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}["plugin"]
    assert [rule["path"] for rule in rules["rules"]] == [f"{mounted}/check-gpu.sh"]
    assert f"{mounted}/gpudoctor.json" in container["command"][-1]
    assert {rule["condition"] for rule in rules["rules"]} == {one["type"] for one in rules["conditions"]}


def test_the_manifests_meet_their_schema() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate has the schemas")
    documents = list(yaml.safe_load_all(PLUGIN.read_text()))
    for document in documents:
        validate.validate(document, "1.33", strict=True)
    assert [document["kind"] for document in documents] == ["ConfigMap", "DaemonSet"]


@pytest.mark.parametrize("code", [0, 1, 2, 3, 70])
def test_the_textfile_changes_whole_or_not_at_all(code: int, tmp_path: Path) -> None:
    stub = script(tmp_path / "bin" / "gpudoctor", f"echo new; exit {code}")
    (tmp_path / "gpudoctor.prom").write_text("old\n")
    done = run(EXAMPLES / "node-exporter" / "gpudoctor-textfile.sh", tmp_path, GPUDOCTOR=str(stub))
    judged = code in (0, 1, 3)
    assert (tmp_path / "gpudoctor.prom").read_text() == ("new\n" if judged else "old\n")
    assert done.returncode == (0 if judged else code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "gpudoctor.prom"]


@pytest.mark.parametrize(("code", "fails"), [(0, False), (1, True)])
def test_the_nhc_check_dies_on_a_bad_node_only(code: int, fails: bool, tmp_path: Path) -> None:
    prolog = script(tmp_path / "prolog", f"echo 'gpudoctor: exit 1: GPU 0 is lost' >&2; exit {code}")
    # log and die are NHC's own.
    body = f'log() {{ echo "log $*"; }}; die() {{ echo "die $*"; }}; . {EXAMPLES}/nhc/gpudoctor.nhc; check_gpudoctor'
    done = run("bash", "-c", body, GPUDOCTOR_PROLOG=str(prolog))
    assert done.returncode == fails
    assert done.stdout.startswith("die 1 check_gpudoctor:  gpudoctor: exit 1" if fails else "log check_gpudoctor:")
