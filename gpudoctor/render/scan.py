"""What a scan found, for a person and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from msgspec import UNSET

from gpudoctor.codeobjects import Code
from gpudoctor.machine import Gpu
from gpudoctor.plain_text import enumeration
from gpudoctor.records import view_as
from gpudoctor.render.next_command import next_line
from gpudoctor.scan.library import Library, combined_code
from gpudoctor.situation.gpu_groups import gpu_names

if TYPE_CHECKING:
    from gpudoctor.render.documents import LibrariesWithoutCode, Scan, ScannedFor, ScannedLibrary
    from gpudoctor.render.lines import Line
    from gpudoctor.scan.target import ScanResult
    from gpudoctor.scan.verdicts import Verdict

_FEW = 0.5
_MARKS = {"missing": "✗", "unknown": "?", "beside": "·"}
_MOST_NAMED = 6


def scan_data(scanned: Iterable[ScanResult], judged: list[tuple[Gpu, list[Verdict]]]) -> Scan:
    """The JSON document."""
    from gpudoctor.render.documents import Scan

    libraries = tuple(_library(library) for found in scanned for library in found.libraries)
    gpus = tuple(_document_of(gpu, verdicts) for gpu, verdicts in judged)
    return Scan(libraries=libraries, gpus=gpus or UNSET)


def _library(library: Library) -> ScannedLibrary:
    from gpudoctor.render.documents import ScannedLibrary

    code = library.code
    share = {arch: round(share, 4) for arch, share in code.share.items()}
    return view_as(ScannedLibrary, code, path=library.path, share=share, reason=_reason(code))


def _document_of(gpu: Gpu, verdicts: list[Verdict]) -> ScannedFor:
    from gpudoctor.render.documents import ScannedFor

    missing, unknown = (
        tuple(_without_code(verdict) for verdict in verdicts if verdict.standing == standing)
        for standing in ("missing", "unknown")
    )
    return ScannedFor(gpu.name, gpu.arch.value, missing, unknown)


def _reason(code: Code) -> str | None:
    if code.kpack and not code.gfx and code.reason is None:
        return "its device code is in packages of their own (kpack)"
    return code.reason


def _without_code(verdict: Verdict) -> LibrariesWithoutCode:
    from gpudoctor.render.documents import LibrariesWithoutCode

    paths = tuple(library.path for library in verdict.libraries)
    return LibrariesWithoutCode(verdict.libraries[0].owner or None, paths, verdict.why)


def scan_lines(
    scanned: list[ScanResult],
    judged: list[tuple[Gpu, list[Verdict]]],
    again: tuple[str, ...] = (),
    framework_of: Callable[[str], str | None] = lambda owner: None,
) -> Iterator[Line]:
    """How it stands, what has no code for the GPUs, worst first, then the code of each library and what to type.
    `again`: what was scanned, as the command line has it; `framework_of`: the framework beside torch that a
    distribution belongs to."""
    yield [(_headline(scanned, judged), "bold")]
    yield []
    for gpu, verdicts in judged:
        yield [(f"{gpu.name} ({gpu.arch.value or 'architecture unknown'})", "bold")]
        yield from _gpu(verdicts)
        yield []
    told = {
        library.path: _told_code(verdict)
        for _, verdicts in judged
        for verdict in verdicts
        if verdict.standing == "missing"
        for library in verdict.libraries
    }
    for found in scanned:
        yield [(found.label, "bold")]
        yield from ([(text, "")] for text in _inventory(found.libraries, told))
        yield []
    yield from _next(scanned, judged, again, framework_of)


def _headline(scanned: list[ScanResult], judged: list[tuple[Gpu, list[Verdict]]]) -> str:
    libraries = sum(len(found.libraries) for found in scanned)
    if not libraries:
        return "No library with GPU code found."
    for standing, what in (("missing", "no code"), ("unknown", "code that could not be read")):
        gpus = [gpu.name for gpu, verdicts in judged if any(verdict.standing == standing for verdict in verdicts)]
        if gpus:
            count = sum(len(v.libraries) for _, verdicts in judged for v in verdicts if v.standing == standing)
            has = "y has" if count == 1 else "ies have"
            return f"{count} librar{has} {what} for {', '.join(dict.fromkeys(gpus))}."
    if judged:
        return f"Every library that decides has code for {gpu_names(gpu for gpu, _ in judged)}."
    return f"{libraries} librar{'y' if libraries == 1 else 'ies'} read; no GPU to compare with."


def _next(
    scanned: list[ScanResult],
    judged: list[tuple[Gpu, list[Verdict]]],
    again: tuple[str, ...],
    framework_of: Callable[[str], str | None],
) -> Iterator[Line]:
    missing = [(gpu, one.owner) for gpu, verdicts in judged for one in verdicts if one.standing == "missing"]
    argv: tuple[str, ...] = ("gpudoctor", "check")
    if missing:
        gpu, owner = missing[0]
        framework = framework_of(owner.partition(" ")[0])
        name = arch if (arch := gpu.arch.value) and gpu.name.startswith(arch) else gpu.name
        argv = ("gpudoctor", "recommend", "--gpu", name, *(("--framework", framework) if framework else ()))
    elif not judged and any(found.libraries for found in scanned):
        yield [("With --gpu, scan tells whether all of this runs on a GPU that you name, such as an RTX 4090.", "")]
        argv = ("gpudoctor", "scan", "--gpu", "RTX 4090", *again)
    yield next_line(argv)


def _gpu(verdicts: list[Verdict]) -> Iterator[Line]:
    for verdict in verdicts:
        if verdict.standing == "carried":
            continue
        names = enumeration([library.path.rpartition("/")[2] for library in verdict.libraries], _MOST_NAMED)
        owner = f"{verdict.libraries[0].owner}: " if verdict.libraries[0].owner else ""
        yield [(f"  {_MARKS[verdict.standing]} ", ""), (f"{owner}{names}: {verdict.why}", "")]
        if verdict.standing == "missing":
            yield [(f"      it has code for {_told_code(verdict) or 'nothing'}", "")]
    bad = {verdict.owner for verdict in verdicts if verdict.standing in ("missing", "unknown")}
    fine = {verdict.owner: None for verdict in verdicts if verdict.standing == "carried" and verdict.owner not in bad}
    if fine:
        yield [("  ✓ ", ""), (", ".join(sorted(fine)), "")]
    if not verdicts:
        yield [("  no library with GPU code", "")]


def _told_code(verdict: Verdict) -> str:
    return _archs(combined_code([library.code for library in verdict.libraries]))


def _inventory(libraries: tuple[Library, ...], told: dict[str, str]) -> Iterator[str]:
    """The code of each library, unless the verdict on it told the very same."""
    if not libraries:
        yield "  no library with GPU code"
    for library in libraries:
        count = f" ({library.files} files)" if library.files > 1 else ""
        yield f"  {library.path}{count}"
        archs, reason = _archs(library.code), _reason(library.code)
        if archs:
            yield "      the code named above" if archs == told.get(library.path) else f"      {archs}"
        if library.code.relocatable:
            yield f"      for the device linker only: {' '.join(library.code.relocatable)}"
        if reason:
            yield f"      not read whole: {reason}" if not library.code.kpack else f"      {reason}"
        if not (archs or library.code.relocatable or reason):
            yield "      no GPU code"


def _archs(code: Code) -> str:
    """Architectures; those that fewer than half of the containers carry with their share."""
    return " ".join(
        arch if code.share.get(arch, 1.0) >= _FEW else f"{arch} ({_percent(code.share[arch])})"
        for arch in (*code.sass, *code.ptx, *code.gfx)
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"
