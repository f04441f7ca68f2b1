"""Mutated inputs for every reader: what strangers hand over, and machines that are damaged or lie."""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.hostile.running import run
from tests.hostile.spoiling import MACHINES, SPOIL, TEXTS, cut, flipped, garbage, one_number, one_word
from tests.support.codeobject_mutations import seeds
from tests.support.hosts import Host
from tests.support.pasted import PASTED

EXAMPLES = Path(__file__).parents[2] / "examples"

OVERLAYS = (
    """\
version: "2026.11.9"
wheel_index: {base: "https://mirror.example/whl"}
torch_builds:
  - {version: "2.9.1", build: cu128, origin: download.pytorch.org, platform: linux-x86_64, pythons: ["3.12"],
     sass: [sm_80, sm_90], cuda: "12.8"}
""",
    """\
nvidia_gpus:
  rows:
    - {pci_id: "2b85", name: "NVIDIA GeForce RTX 5090", capability: "12.0", chip: GB202}
known_issues:
  - {id: mine, severity: note, trigger: facts, when: {vendor: nvidia, env: [{name: MY_VARIABLE}]}, symptom: slow,
     workaround: "Wait."}
""",
    "wheel_index: {base: /srv/wheels}\n",
)
DOCKERFILE = """\
# syntax=docker/dockerfile:1
ARG BASE=nvidia/cuda:12.8.1-runtime-ubuntu24.04
FROM ${BASE} AS build
ENV PIP_INDEX_URL="https://download.pytorch.org/whl/cu128" PATH="/opt/venv/bin:${PATH}"
COPY requirements.txt /app/
WORKDIR /app
RUN --mount=type=cache,target=/root/.cache apt-get update && apt-get install -y python3-venv || exit 1; \\
    pip install -r requirements.txt "torch==2.9.1+cu128" --extra-index-url https://example.org/simple
RUN <<EOT
set -e
pip install torchvision
EOT
FROM build
USER 1000:1000
CMD ["python", "-m", "app"]
"""
REQUIREMENTS = "-r more.txt\ntorch==2.9.1+cu128 --hash=sha256:00\nnumpy>=1.26; sys_platform == 'linux'\n"
SETTINGS = """\
require = ["gpu>=1", "torch>=2.6"]
level = "static"
wait = 0.1
fail-on = "error"
ignore = {GPD213 = "shared memory is set by the scheduler"}
"""
PROJECT = f"""\
[project]
name = "app"
dependencies = ["torch==2.9.1", "numpy"]
[tool.uv.workspace]
members = ["parts/*"]
[tool.gpudoctor]
{SETTINGS}"""
JOURNAL = "\n".join((
    json.dumps({
        "id": "20261122-100000-abcdef", "at": 1795341600.0, "prefix": "/opt/venv", "steps": [
            {"kind": "run", "argv": ["python", "-m", "pip", "install", "torch"], "cwd": "/", "risk": "replaces"}],
        "roots": ["/opt/venv/lib"], "files": [], "made": [], "without": [], "kept": "/opt/.gpudoctor-undo/x",
        "owner": {"pid": 1, "start": 1, "boot": "b"}, "packages": [{"name": "torch", "version": "2.6.0"}],
    }),
    '{"mark": "saved", "at": 1795341601.0}', '{"mark": "started", "at": 1795341602.0, "step": 0}',
    '{"mark": "ended", "at": 1795341603.0, "step": 0, "rc": 0}', '{"mark": "done", "at": 1795341604.0}', "",
))  # fmt: skip
SMI = "| NVIDIA-SMI 580.95.05 Driver Version: 580.95.05 CUDA Version: 13.0 |\nGPU 0: NVIDIA H100 (UUID: GPU-1)\n"
BOMBS = (
    "[" * 25_000,
    "{" * 25_000,
    "a: " * 20_000,
    "- " * 20_000,
    "a: !!int ''\n",
    "a: !!bool x\n",
    "a: !!timestamp x\n",
    "a: !!binary '&'\n",
    "<<: 3\n",
    "? [a]\n: b\n",
    "a: &a [" + ",".join(["*a"] * 50) + "]\n",
    "a = " + "[" * 20_000,
    "a = " + "9" * 6000,
    "a: " + "9" * 6000 + "\n",
    "a." * 20_000 + "b = 1",
    "FROM a\n" + "".join(f"ARG A{n + 1}=${{A{n}}}${{A{n}}}\n" for n in range(40)),
    "FROM a\nENV A=x\n" + "ENV A=$A$A\n" * 60,
    "FROM a\n" + "RUN pip install torch\n" * 5000,
    "FROM a\nRUN true" + " && true" * 100_000,
    "FROM a\n" + "FROM a AS b\n" * 20_000,
    "FROM a\n" + "RUN cat <<EOT\n" * 20_000,
    "FROM a\nRUN echo \\\n" * 30_000,
    "FROM a\nRUN " + "(" * 50_000,
    "FROM a\nRUN " + "$(" * 50_000,
    "FROM a\nENV " + "A=${B:-" * 20_000,
    "services: {" + ",".join(f"s{n}: {{image: a, extends: s{n + 1}}}" for n in range(5000)) + "}",
    "-r requirements.txt\n" * 20,
    "\N{RIGHT-TO-LEFT OVERRIDE}\x9b31m\x1b]0;x\x07",
    "x" * 900_000,
    "\n" * 900_000,
    "\\\n" * 400_000,
)


class Case(NamedTuple):
    """One run."""

    reader: str
    what: str
    arguments: tuple[str, ...]
    folder: Path
    variables: Mapping[str, str] = {}


Reader = Callable[[Path, random.Random], Iterator[Case]]
"""Cases without end, in a folder of its own."""


def _spoil_text(text: str, chance: random.Random) -> bytes:
    """A text in which one thing or several were changed, or something else altogether."""
    if chance.random() < 0.15:
        bomb = chance.choice(BOMBS)
        return (bomb if chance.random() < 0.5 else f"{text}\n{bomb}").encode("utf-8", "surrogatepass")
    content = text.encode()
    for _ in range(chance.choice((1, 1, 2, 5))):
        content = _changed(content, chance)
    return content


def _changed(content: bytes, chance: random.Random) -> bytes:
    kind = chance.randrange(8)
    at, to = sorted((chance.randrange(len(content) + 1), chance.randrange(len(content) + 1)))
    lines = content.split(b"\n")
    line = chance.randrange(len(lines))
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + chance.randbytes(chance.randrange(1, 9)) + content[at:]
    if kind == 2:
        return content[:at] + chance.choice(TEXTS).encode() + content[at + chance.randrange(12) :]
    if kind == 3:
        lines[line : line + 1] = [lines[line]] * chance.choice((0, 2, 50))
    elif kind == 4:
        words = lines[line].split(b" ")
        words[chance.randrange(len(words))] = chance.choice(TEXTS).encode()
        lines[line] = b" ".join(words)
    elif kind == 5:
        chance.shuffle(lines)
    elif kind == 6:
        return content[:at] + content[to:]
    else:
        return content[:to] + content[at:to] * chance.choice((1, 3, 200)) + content[to:]
    return b"\n".join(lines)[: 1 << 20]


def _spoil_json(value: object, chance: random.Random) -> object:
    """One value of a document replaced by one of another kind."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        return {**value, key: _spoil_json(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        return [*value[:at], _spoil_json(value[at], chance), *value[at + 1 :]]
    odd: tuple[object, ...] = (
        None, True, -1, 0, 10**30, 1e300, "", [], {}, [[]], "x" * 5000, *TEXTS[:20], [value] * 100, {"": value},
    )  # fmt: skip
    return chance.choice(odd)


# --- readers ---------------------------------------------------------------------------------------


def snapshots(folder: Path, chance: random.Random) -> Iterator[Case]:
    documents = []
    for number, build in enumerate(MACHINES.values()):
        host = Host(folder / f"machine{number}")
        build(host)
        host.file("/gpudoctor-host.json", json.dumps(host.json))
        ended = run(["snapshot", "--root", str(host.root)], folder, {})
        documents.append(json.loads(ended.out))
    uses = (
        ("check",), ("check", "-v"), ("check", "--format", "json"), ("check", "--format", "junit"),
        ("check", "--format", "markdown"), ("check", "--format", "github"), ("fix", "--dry-run"),
        ("fix", "--dry-run", "--format", "json"), ("fix", "--shell"),
    )  # fmt: skip
    place = folder / "snapshot.json"
    while True:
        document = chance.choice(documents)
        if chance.random() < 0.6:
            for _ in range(chance.choice((1, 1, 3))):
                document = _spoil_json(document, chance)
            place.write_bytes(json.dumps(document).encode())
        else:
            place.write_bytes(_spoil_text(json.dumps(document, indent=1), chance))
        use = chance.choice(uses)
        yield Case("snapshot", " ".join(use), (*use, "--from", str(place)), folder)


def machines(folder: Path, chance: random.Random) -> Iterator[Case]:
    """One file of a recorded machine spoiled at a time."""
    whole = folder / "whole"
    uses = (("check",), ("check", "--format", "json"), ("snapshot",), ("fix", "--dry-run"), ("recommend",), ("env",))
    while True:
        for build in MACHINES.values():
            shutil.rmtree(whole, ignore_errors=True)
            host = Host(whole)
            build(host)
            host.command("nvidia-smi", SMI).command("rocminfo", "Agent 1\n  Name: gfx1031\n  Device Type: GPU\n")
            host.file("/gpudoctor-host.json", json.dumps(host.json))
            places = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
            for _ in range(60):
                place, fix = chance.choice(places), chance.choice(SPOIL)
                root = folder / "root"
                shutil.rmtree(root, ignore_errors=True)
                shutil.copytree(whole, root, symlinks=True)
                fix(root / place, chance)
                use = chance.choice(uses)
                yield Case("machine", f"{use[0]}: {fix.__name__} {place}", (*use, "--root", str(root)), folder)


def overlays(folder: Path, chance: random.Random) -> Iterator[Case]:
    place = folder / "overlay.yaml"
    described = ("--gpu", "RTX 5090", "--driver", "580.95.05")
    uses = (("matrix", "validate"), ("recommend", *described), ("matrix", "show"), ("whatif", *described))
    while True:
        place.write_bytes(_spoil_text(chance.choice(OVERLAYS), chance))
        use = chance.choice(uses)
        yield Case("overlay", " ".join(use), (*use, "--matrix", str(place)), folder)


def recipes(folder: Path, chance: random.Random) -> Iterator[Case]:
    """Dockerfiles, compose files and the requirements that they install."""
    compose = (EXAMPLES / "compose.yaml").read_text()
    uses: tuple[tuple[str, ...], ...] = ((), ("--gpu", "RTX 5090"), ("--format", "json"), ("--format", "github"))
    while True:
        texts = {"Dockerfile": DOCKERFILE, "compose.yaml": compose, "requirements.txt": REQUIREMENTS, "more.txt": ""}
        for name in chance.sample(sorted(texts), chance.choice((1, 1, 2))):
            (folder / name).write_bytes(_spoil_text(texts.pop(name), chance))
        for name, text in texts.items():
            (folder / name).write_text(text)
        path = chance.choice(("Dockerfile", "compose.yaml", "."))
        yield Case("recipe", path, ("dockerfile", path, *chance.choice(uses)), folder)


def settings(folder: Path, chance: random.Random) -> Iterator[Case]:
    uses = (
        ("check", "--level", "static"),
        ("preflight", "--level", "static"),
        ("preflight", "--level", "static", "--", "true"),
        ("whatif", "--gpu", "H100"),
        ("fix", "--dry-run", "--level", "static"),
    )
    while True:
        for name, text in (("gpudoctor.toml", SETTINGS), ("pyproject.toml", PROJECT)):
            (folder / name).unlink(missing_ok=True)
            if chance.random() < 0.6:
                (folder / name).write_bytes(_spoil_text(text, chance))
        use = chance.choice(uses)
        yield Case("settings", " ".join(use), use, folder)


def libraries(folder: Path, chance: random.Random) -> Iterator[Case]:
    sound = seeds()
    uses: tuple[tuple[str, ...], ...] = ((), ("--format", "json"), ("--gpu", "RTX 5090"), ("--matrix-row",))
    while True:
        content = chance.choice(sound)
        place = folder / chance.choice(("library.so", "torch-2.9.1+cu128-cp312-cp312-linux_x86_64.whl"))
        if place.suffix == ".whl":
            with zipfile.ZipFile(place, "w") as archive:
                archive.writestr("torch/lib/libtorch_cuda.so", content)
                archive.writestr("torch-2.9.1+cu128.dist-info/METADATA", "Name: torch\nVersion: 2.9.1+cu128\n")
        else:
            place.write_bytes(content)
        for _ in range(chance.choice((1, 1, 4))):
            chance.choice((cut, flipped, flipped, one_word, one_number, garbage))(place, chance)
        use = chance.choice(uses)
        yield Case("library", f"{place.suffix} {' '.join(use)}", ("scan", str(place), *use), folder)


def journals(folder: Path, chance: random.Random) -> Iterator[Case]:
    run_folder = folder / "state/gpudoctor/runs/20261122-100000-abcdef"
    run_folder.mkdir(mode=0o700, parents=True)
    for parent in list(run_folder.parents)[:3]:
        parent.chmod(0o700)
    uses = (("--history",), ("--history", "--format", "json"), ("--undo", "--yes"), ("--forget", run_folder.name))
    while True:
        for name in ("before", "after", "journal.jsonl"):
            place = run_folder / name
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            place.unlink(missing_ok=True)
        place = run_folder / "journal.jsonl"
        place.write_bytes(_spoil_text(JOURNAL, chance))
        if chance.random() < 0.15:
            chance.choice([fix for fix in SPOIL if fix.__name__ != "strange_name"])(place, chance)
        (run_folder / "before").write_bytes(chance.randbytes(chance.choice((0, 40, 4000))))
        use = chance.choice(uses)
        yield Case("journal", " ".join(use), ("fix", *use), folder, {"XDG_STATE_HOME": str(folder / "state")})


def command_lines(folder: Path, chance: random.Random) -> Iterator[Case]:
    from gpudoctor.cli import COMMANDS

    options = (
        "--gpu", "--driver", "--kernel", "--os", "--torch", "--python-version", "--env", "--python", "--root",
        "--from", "--level", "--format", "--select", "--ignore", "--require", "--matrix", "--fail-on", "--wait",
        "--only", "--alternative", "--with", "--target", "--build-arg", "--kernel", "--device", "--minutes", "-v",
        "--ready-file", "--report-file", "--shell", "--dry-run", "--undo", "--history", "--forget",
    )  # fmt: skip
    values = (*TEXTS, "RTX 5090", "sm_120", "gfx1031", "580.95.05", "2.9.1+cu128", "json", "static", "GPD", "gpu>=1")
    names = ("FORMAT", "LEVEL", "IGNORE", "SELECT", "REQUIRE", "PYTHON", "MATRIX", "FAIL_ON", "QUIET", "ROOT", "WAIT")
    while True:
        command = chance.choice([name for name in COMMANDS if name != "smoke"])
        words = [word for _ in range(chance.randrange(5)) for word in (chance.choice(options), chance.choice(values))]
        variables = {
            f"GPUDOCTOR_{chance.choice(names)}": chance.choice(values) for _ in range(chance.choice((0, 0, 1, 3)))
        }
        variables = {name: value.replace("\0", "") for name, value in variables.items()}
        # No kernel is computed and nothing is asked of this machine's own drivers.
        variables.setdefault("GPUDOCTOR_LEVEL", "static")
        words = [word.replace("\0", "") for word in words]
        yield Case("command line", command, (command, *words), folder, variables)


def texts(folder: Path, chance: random.Random) -> Iterator[Case]:
    """Pasted texts, mutated and spliced: whole reports, quoted, numbered, with colours, cut anywhere."""
    uses = (
        ("check",), ("check", "-v"), ("check", "--format", "json"), ("check", "--format", "markdown"),
        ("check", "--format", "github"), ("fix", "--dry-run"),
    )  # fmt: skip
    place = folder / "issue.md"
    while True:
        text = chance.choice(PASTED)
        for _ in range(chance.choice((0, 1, 1, 3))):
            other, at = chance.choice(PASTED), chance.randrange(len(text) + 1)
            text = text[:at] + other[chance.randrange(len(other)) :] + text[at:]
        before = chance.choice(("", "", "> ", "> > ", "\x1b[1m", "| ", "  12 ", "- "))
        text = "\n".join(before + line for line in text.split("\n"))
        place.write_bytes(_spoil_text(text, chance).replace(b"\n", chance.choice((b"\n", b"\r\n"))))
        use = chance.choice(uses)
        yield Case("text", f"{use[0]} a text", (*use, "--from", str(place)), folder)


READERS: tuple[tuple[Reader, int], ...] = (
    (snapshots, 15), (machines, 10), (overlays, 10), (recipes, 15), (settings, 8), (libraries, 10), (journals, 10),
    (command_lines, 7), (texts, 15),
)  # fmt: skip
"""Each with its share of the runs, in a hundred."""
