"""Reports that no rule was written from, put to the program and scored: right, cause only, wrong, not expressible.

python -m tests.cases.fresh                 as `whatif` or a made machine tells them, one line each, then the sums
python -m tests.cases.fresh --fuller        with what the report tells beyond that (packages, containers, log lines)
python -m tests.cases.fresh --format json   the same, to compare
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import yaml
from msgspec.structs import replace

from tests.cases.reports import build
from tests.cases.shown import unbound, upgraded
from tests.support.codeobject_files import container, cuda_library
from tests.support.environments import shared_library, write_torch
from tests.support.hosts import LIB, Host
from tests.support.in_process import gpudoctor

Facts = dict[str, Any]
Score = Literal["right", "cause only", "wrong", "not expressible"]
SCORES: tuple[Score, ...] = ("right", "cause only", "wrong", "not expressible")
MATRIX = Path("compat_matrix.yaml")
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Fix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["build", "driver", "package", "environment", "container", "system"]
    holds: list[str]
    """Patterns; one of them has to be in the best fix."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report, as `README.md` describes it."""

    ref: str
    year: int
    confirmed: Literal["maintainer", "reporter", "participant"]
    vendor: Literal["nvidia", "amd"]
    cause: str
    problem: str
    solved: str
    accept: list[str] = []
    fix: Fix | None = None
    assumed: str = ""
    whatif: str = ""
    fuller: str = ""
    host: Facts = {}
    log: list[str] = []
    missing: str = ""


class Result(msgspec.Struct, frozen=True):
    name: str
    ref: str
    vendor: str
    expected: str
    how: str = ""
    score: Score = "wrong"
    first: str = ""
    exit_code: int | None = None
    best_fix: str = ""
    note: str = ""
    cited: bool = False
    """The compatibility matrix names this report as a source: it is not quite new to the rules."""


PATH = Path(__file__).with_name("fresh_reports.yaml")


def read() -> dict[str, Case]:
    text = PATH.read_text()
    return msgspec.convert(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)), dict[str, Case])


def scored(name: str, case: Case, *, fuller: bool) -> Result:
    """What the program says of a report, and how right that is."""
    cited = re.search(rf"{re.escape(case.ref)}\b", MATRIX.read_text()) is not None
    result = Result(name, case.ref, case.vendor, case.cause, cited=cited)
    with TemporaryDirectory() as folder:
        argv = arguments(case, Path(folder), fuller=fuller)
        if not argv:
            return replace(result, score="not expressible", note=case.missing)
        how = "host" if argv[0] == "check" else shlex.join(argv)
        answer = gpudoctor(*argv, "--format", "json")
    if answer.returncode not in (0, 1, 3):
        score: Score = "not expressible" if answer.returncode == 2 else "wrong"
        return replace(result, how=how, score=score, exit_code=answer.returncode, note=answer.stderr.strip())
    report = json.loads(answer.stdout)
    problems = [f for f in report["findings"] if f["severity"] != "note"] or report["findings"]
    score, note = _score(case, report, problems)
    return replace(
        result,
        how=how,
        score=score,
        first=" ".join((problems[0]["severity"], problems[0]["slug"])) if problems else "nothing",
        exit_code=report["exit_code"],
        best_fix=problems[0]["fixes"][0]["title"] if problems and problems[0]["fixes"] else "",
        note=note,
    )


def arguments(case: Case, folder: Path, *, fuller: bool) -> list[str]:
    """The command line; empty: there is none."""
    told = case.fuller if fuller and case.fuller else case.whatif
    if told and (fuller or not case.host):
        log = folder / "kernel.log"
        log.write_text("\n".join(case.log) + "\n")
        return ["whatif", *shlex.split(told.replace("{log}", str(log)))]
    if not case.host:
        return []
    host = machine(case.host, folder / "root")
    host.file("/gpudoctor-host.json", json.dumps(host.json))
    return ["check", "--root", str(host.root)]


def _score(case: Case, report: Facts, problems: list[Facts]) -> tuple[Score, str]:
    if case.cause == "healthy":
        return ("right" if report["exit_code"] == 0 else "wrong"), ""
    named = {case.cause, *case.accept}
    slugs = [finding["slug"] for finding in report["findings"]]
    if not named & set(slugs):
        return "wrong", ""
    if problems[0]["slug"] not in named:
        return "cause only", "not the first"
    if problems[0]["severity"] == "note":
        return "cause only", "only a note"
    ways = [json.dumps(way) for way in problems[0]["fixes"]]
    fits = [any(re.search(pattern, way) for pattern in case.fix.holds) for way in ways] if case.fix else [True]
    if fits[:1] == [True]:
        return "right", ""
    return "cause only", "another fix comes first" if any(fits) else "another fix"


def machine(facts: Facts, root: Path) -> Host:
    """The machine of a report: `reports.build` by its facts, then what the report shows beyond them."""
    root.mkdir()
    arm = "aarch64" in str(facts.get("os"))
    host = build(Host(root, arch="aarch64" if arm else "x86_64"), facts)
    if facts.get("unbound"):
        unbound(host)
    if loaded := facts.get("loaded"):
        upgraded(loaded)(host)
    _files(host, facts)
    _kernel(host, facts)
    return host


def _files(host: Host, facts: Facts) -> None:
    """What lies on the disk: texts, libraries, code for GPUs; what does not."""

    def placed(path: str, content: bytes) -> None:
        if not path.startswith("{site}/"):
            host.file(path, content)
            return
        assert host.site is not None
        inside = path.removeprefix("{site}/")
        host.file(f"/{host.site.relative_to(host.root)}/{inside}", content)
        folder = "_".join(inside.split("/")[: 2 if inside.startswith("nvidia/") else 1]).partition(".")[0]
        for record in host.site.glob(f"{folder}*.dist-info/RECORD"):
            record.write_text(f"{inside},sha256=AAAA,{len(content)}\n" + record.read_text())

    for path, text in facts.get("files", {}).items():
        host.file(path, text)
    for path, described in facts.get("libraries", {}).items():
        placed(path, shared_library(**described, arch=host.arch))
    for path, target in facts.get("links", {}).items():
        host.link(path, target)
    for path, archs in facts.get("codes", {}).items():
        placed(path, cuda_library(container(*archs)))
    for path in facts.get("absent", ()):
        host.remove(path)
    if folder := facts.get("moved"):
        host.path(folder).mkdir(parents=True)
        for place in [*host.path(LIB).glob("libcuda.*"), *host.path(LIB).glob("libnvidia-*")]:
            place.rename(host.path(folder) / place.name)
    if other := facts.get("torch_elsewhere"):
        needs = shared_library(needed=("libcudnn.so.9",), rpath="$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN")
        libraries = {"libtorch_cuda.so": needs}
        write_torch(host.path(other["folder"]), other["version"], python=facts["py"], libraries=libraries)
    for gfx in facts.get("tensile", ()):
        host.file(f"/opt/rocm/lib/rocblas/library/TensileLibrary_lazy_{gfx}.dat")
        host.file(f"/opt/rocm/lib/rocblas/library/Kernels.so-000-{gfx}.hsaco")
    if facts.get("tensile"):
        host.file("/opt/rocm/lib/librocblas.so.4", shared_library(soname="librocblas.so.4"))


def _kernel(host: Host, facts: Facts) -> None:
    """What the kernel and its modules say."""
    for path, refused in facts.get("denied", {}).items():
        host.node(path, refused)
    for name, output in facts.get("commands", {}).items():
        host.command(name, output)
    if driver := facts.get("bound"):
        device = host.path("/sys/bus/pci/devices/0000:01:00.0/device").read_text().strip()
        host.pci("0000:01:00.0", "10de", device.removeprefix("0x"), driver=driver)
    if names := facts.get("modules"):
        host.module(*names)
    if facts.get("open"):
        module = host.path("/proc/driver/nvidia/version")
        module.write_text(module.read_text().replace("UNIX x86_64 Kernel", "UNIX Open Kernel"))
    if facts.get("secure_boot"):
        host.file(SECURE_BOOT, b"\x06\0\0\0\x01")
    if version := facts.get("dkms"):
        host.file(f"/var/lib/dkms/amdgpu/{version}/source/dkms.conf", 'PACKAGE_NAME="amdgpu"\n')
        host.file(f"/var/lib/dkms/amdgpu/{version}/build/make.log", "make: *** [Makefile:12: all] Error 2\n")
        host.file(f"/lib/modules/{host.json['uname']['release']}/modules.dep")
    if lines := facts.get("log"):
        host.file("/var/log/dmesg", "\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Score gpudoctor on reports that no rule was written from.")
    parser.add_argument("--fuller", action="store_true", help="tell all that the report tells")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("names", nargs="*", help="these only")
    options = parser.parse_args()
    cases = read()
    names = options.names or list(cases)
    results = [scored(name, cases[name], fuller=options.fuller) for name in names]
    sums = {kind: _sums(results, kind) for kind in ("all", "nvidia", "amd", "healthy", "not cited")}
    if options.format == "json":
        json.dump({"results": msgspec.to_builtins(results), "sums": sums}, sys.stdout, indent=1)
        return
    for result in results:
        found = f"{result.first or '-'} (exit {result.exit_code})"
        note = f"  [{result.note}]" if result.note else ""
        print(f"{result.score:15} {result.ref:42} {result.expected:28} {found}{note}")
    for kind, figures in sums.items():
        print(f"{kind:9}", ", ".join(f"{count} {score}" for score, count in figures.items()))


def _sums(results: list[Result], kind: str) -> dict[Score, int]:
    """Counts of the scores; `healthy` and `not cited` ones are also among those of their vendor."""
    counted = Counter(r.score for r in results if kind in ("all", r.vendor, r.expected, r.cited or "not cited"))
    return {score: counted[score] for score in SCORES}


if __name__ == "__main__":
    main()
