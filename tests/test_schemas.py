"""The stored schemas: the same as the types, printed on every Python, met by what commands really print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.schemas import DOCUMENTS, FOLDER, schema_of
from tests.support.hosts import Host


def gpudoctor(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GPUDOCTOR_")}
    environ = {**kept, "XDG_STATE_HOME": str(cwd)} if cwd else kept
    command = [sys.executable, "-m", "gpudoctor", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=cwd, env=environ)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="msgspec makes them on Python 3.11 and newer")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_stored_schema_is_that_of_the_types(name: str):
    stored = json.loads((FOLDER / f"{name}.json").read_bytes())
    assert stored == json.loads(schema_of(name)), "after a wanted change: python -m tests.schemas"


def test_no_other_schema_is_stored():
    assert {path.stem for path in FOLDER.iterdir()} == set(DOCUMENTS)


@pytest.mark.parametrize(("command", "name"), [((), "report"), (("check",), "report"), (("fix-undo",), "fix-undo")])
def test_a_schema_is_printed_as_it_is_stored(command: tuple[str, ...], name: str):
    done = gpudoctor("schema", *command)
    assert (done.returncode, done.stdout) == (0, (FOLDER / f"{name}.json").read_text())


def test_a_schema_that_is_not_there_is_one_line():
    done = gpudoctor("schema", "chek")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "'chek': choose from env, explain, fix" in done.stderr


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An RTX 5090 with a torch that has no code for it."""
    folder = tmp_path_factory.mktemp("host") / "root"
    Host(folder).ubuntu().nvidia_gpu("2b85").nvidia_driver("570.133.07").torch("2.6.0+cu124").run()
    return folder


PRINTED = {
    "report": ("check", "--root", "ROOT", "--format", "json"),
    "snapshot": ("snapshot", "--root", "ROOT"),
    "fix": ("fix", "--dry-run", "--root", "ROOT", "--format", "json"),
    "fix-history": ("fix", "--history", "--format", "json"),
    "env": ("env", "--root", "ROOT", "--shell", "json"),
    "scan": ("scan", "--gpu", "RTX 5090", "--format", "json", "ROOT"),
    "recommend": ("recommend", "--root", "ROOT", "--format", "json"),
    "variants": ("variants", "--root", "ROOT", "--format", "json"),
    "fleet": ("fleet", "report", "SNAPSHOT", "--format", "json"),
    "explain": ("explain", "no kernel image is available", "--format", "json"),
    "list": ("list", "--format", "json"),
    "smoke-list": ("smoke", "--list", "--format", "json"),
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_meets_its_schema(name: str, root: Path, tmp_path: Path):
    snapshot = tmp_path / "node.json"
    if "SNAPSHOT" in PRINTED[name]:
        snapshot.write_text(gpudoctor("snapshot", "--root", str(root), cwd=tmp_path).stdout)
    places = {"ROOT": str(root), "SNAPSHOT": str(snapshot)}
    words = [places.get(word, word) for word in PRINTED[name]]
    done = gpudoctor(*words, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    printed, schema = json.loads(done.stdout), json.loads((FOLDER / f"{name}.json").read_text())
    jsonschema.validate(printed, schema)
    assert keys(printed) <= described(schema), "a key that no type has"


def keys(data: Any) -> set[str]:
    """Of the document itself."""
    first = data[0] if isinstance(data, list) else data
    return set(first)


def described(schema: dict[str, Any]) -> set[str]:
    own = schema.get("items", schema)
    return set(schema["$defs"][own["$ref"].rpartition("/")[2]]["properties"])
