"""Rules for the matrix that types cannot express: keys, sources, dates, references, and what `fields` checks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any

from msgspec import Struct

from gpudoctor.matrix import rows
from gpudoctor.matrix.fields import wrong_expression, wrong_expressions, wrong_specifier, wrong_specifiers
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.rows import KEYS, check_template
from gpudoctor.safe_arguments import is_name, is_version

_NOT_ITS_EXAMPLE = "the pattern does not match its example"
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*$")


class Problem(Struct, frozen=True):
    """One error in a table, or in the row with this number."""

    table: str
    index: int | None
    text: str


def problems(tables: rows.Tables, overlay: dict[str, set[tuple[Any, ...]]] | None = None) -> Iterator[Problem]:
    """Every error. `overlay` names the rows from overlays by key: only they are checked, and need no source."""
    matrix = Matrix(tables)
    if not re.match(r"\d{4}\.\d{1,2}(\.\d+)?$", tables.version):
        yield Problem("version", None, "the matrix's version is YEAR.MONTH.NUMBER")
    for table, fields in KEYS.items():
        seen: set[tuple[Any, ...]] = set()
        for index, row in enumerate(getattr(tables, table)):
            key = tuple(getattr(row, field) for field in fields)
            from_overlay = overlay is not None and key in overlay.get(table, ())
            if overlay is not None and not from_overlay:
                continue
            if key in seen:
                yield Problem(table, index, "a second row with this key")
            seen.add(key)
            for text in (*_origin(row, from_overlay), *wrong_specifiers(table, row), *_about(row, matrix)):
                yield Problem(table, index, text)


def _origin(row: Any, from_overlay: bool) -> Iterator[str]:
    if not from_overlay and not row.source.strip():
        yield "has no source (give one here or in the table's head)"
    if not from_overlay and not row.checked:
        yield "has no date in `checked`"
    if row.checked:
        try:
            date.fromisoformat(row.checked)
        except ValueError:
            yield f"checked: {row.checked!r} is no date (YEAR-MONTH-DAY)"


def _about(row: Any, matrix: Matrix) -> Iterator[str]:
    """What the rule for rows of this kind says. It takes for granted that patterns are patterns."""
    rule = _RULES.get(type(row))
    yield from wrong_expressions(row) or (rule(row, matrix) if rule else ())


def _reference(what: str, table: str, row: object) -> Iterator[str]:
    """An error where what a row refers to has no row of its own."""
    if row is None:
        yield f"{what} is in no row of {table}"


def _architectures(names: Iterable[str], matrix: Matrix) -> Iterator[str]:
    for name in names:
        row = matrix.gpus.target(name) or (matrix.gpus.capability(name) if "_" in name else None)
        yield from _reference(name, "capabilities or gfx_targets", row)


def _nvidia(row: rows.NvidiaChip | rows.NvidiaSoc | rows.NvidiaGpu, matrix: Matrix) -> Iterator[str]:
    if row.capability is not None:
        yield from _reference(f"capability {row.capability}", "capabilities", matrix.gpus.capability(row.capability))


def _nvidia_gpu(row: rows.NvidiaGpu, matrix: Matrix) -> Iterator[str]:
    chip = next((chip for chip in matrix.tables.nvidia_chips if chip.chip == row.chip), None)
    yield from _reference(f"chip {row.chip}", "nvidia_chips", chip)
    yield from _nvidia(row, matrix)
    yield from _pci(row.pci)


def _amd_gpu(row: rows.AmdGpu, matrix: Matrix) -> Iterator[str]:
    yield from _reference(row.gfx, "gfx_targets", matrix.gpus.target(row.gfx))
    yield from _pci(row.pci)
    for revision in row.revisions:
        if not re.fullmatch(r"[0-9a-f]{2}", revision):
            yield f"revision {revision!r}: two lower-case hex digits"


def _pci(pci: str) -> Iterator[str]:
    if not re.fullmatch(r"[0-9a-f]{4}", pci):
        yield f"pci {pci!r}: the device part, four lower-case hex digits"


def _processor(row: rows.AmdProcessor, matrix: Matrix) -> Iterator[str]:
    gpu = next((gpu for gpu in matrix.tables.amd_gpus if gpu.pci == row.gpu), None)
    yield from _reference(row.gpu, "amd_gpus", gpu)
    for other in matrix.tables.amd_processors:
        if other != row and (both := set(other.models) & set(row.models)):
            yield f"{', '.join(sorted(both))} is in another row, too"


def _rates(row: rows.GpuRates, matrix: Matrix) -> Iterator[str]:
    known = {f"10de:{gpu.pci}" for gpu in matrix.tables.nvidia_gpus}
    known.update(f"1002:{gpu.pci}" for gpu in matrix.tables.amd_gpus)
    for pci in row.gpus:
        if ":".join(pci.split(":")[:2]) not in known:  # a revision may follow
            yield f"{pci} is in no row of nvidia_gpus or amd_gpus"
    if not row.gpus or not row.gb_per_s > 0 or not all(rate > 0 for rate in row.tflops.values()):
        yield "needs a GPU, and rates above 0"


def _interconnect(row: rows.Interconnect, matrix: Matrix) -> Iterator[str]:
    if matrix.rates.interconnect_of(row.example) != row or not row.gb_per_s > 0:
        yield "its example matches no row, or an earlier one, or its rate is not above 0"


def _base_image(row: rows.BaseImage, matrix: Matrix) -> Iterator[str]:
    if re.fullmatch(row.pattern, row.example) is None:
        yield _NOT_ITS_EXAMPLE
    elif (first := matrix.images.base_image(row.example)) is None or first.pattern != row.pattern:
        yield "an earlier row matches its example: exact names come before general ones"


def _removed_image(row: rows.RemovedImage, matrix: Matrix) -> Iterator[str]:
    if re.fullmatch(row.pattern, row.example) is None:
        yield _NOT_ITS_EXAMPLE
    elif row.version and "(?P<version>" not in row.pattern:
        yield "a row with a version needs the group `version`"
    elif (found := matrix.images.removed_image(row.example)) is None or found[0] != row:
        yield "an earlier row matches its example"
    elif matrix.images.removed_image(found[1]) is not None:
        yield f"its proposal {found[1]} is removed, too"


def _other_name(row: rows.OtherName, matrix: Matrix) -> Iterator[str]:
    if wrong := tuple(wrong_expression("name", row.name)):
        yield from wrong
        return
    if matrix.gpus.other_name(row.example) != row.says:
        yield "its example matches no row, or an earlier one"
    try:
        if matrix.gpus.gpus_by_name(row.example):
            yield "a GPU has the name of its example"
    except KeyError:
        return  # a row of the GPUs names an unknown chip, which is said of that row


def _old_builds(row: rows.OldTorchBuilds, matrix: Matrix) -> Iterator[str]:
    yield from _architectures((*row.archs, *row.ptx), matrix)
    for name in row.builds:
        if not is_name(name):
            yield f"{name!r} is no build"


def _distribution(row: Any, matrix: Matrix) -> Iterator[str]:
    if re.fullmatch(row.distribution, row.example) is None:
        yield _NOT_ITS_EXAMPLE


def _driver_package(row: rows.DriverPackage, matrix: Matrix) -> Iterator[str]:
    yield from _distribution(row, matrix)
    branch = next((branch for branch in matrix.tables.driver_branches if branch.branch == row.branch), None)
    yield from _reference(f"branch {row.branch}", "driver_branches", branch)
    for name in (*row.packages, *row.server, *((row.stream,) if row.stream else ())):
        if not is_name(name):
            yield f"{name!r}: no command can name that package"


def _distribution_kernel(row: rows.DistributionKernel, matrix: Matrix) -> Iterator[str]:
    yield from _distribution(row, matrix)
    if not is_name(row.package):
        yield f"{row.package!r}: no command can name that package"
    if not is_version(row.kernel):
        yield f"{row.kernel!r}: not a version"


def _requirement(row: rows.RequirementUse, matrix: Matrix) -> Iterator[str]:
    if row.breaks != "import" and (row.breaks == "part") != bool(row.part):
        yield "part: says what fails where an import or a part breaks"


def _target(row: rows.GfxTarget, matrix: Matrix) -> Iterator[str]:
    value = row.override.value
    if value is None:
        return
    named = matrix.amd.gfx_of_override(value)
    if named is None:
        yield f"override {value}: no row of gfx_targets has the target that it names"
    elif row.override.safety == "safe-class" and (other := matrix.gpus.target(named)) and other.family != row.family:
        yield f"override {value} names {named} of {other.family}: not safe-class for {row.family}"


def _build(row: rows.TorchBuild, matrix: Matrix) -> Iterator[str]:
    if not is_name(row.build) or not (is_version(row.version) or row.origin == "nightly"):
        yield f"torch {row.version} {row.build}: no command can name that build"
    if row.index is not None:
        yield from _reference(f"index {row.index}", "wheel_indexes", matrix.torch.wheel_index(row.index))
    yield from _template("extra", row.extra, "gfx")
    yield from _architectures((*(row.archs or ()), *row.partial, *(row.linalg or ()), *(row.ptx or ())), matrix)
    cuda = re.fullmatch(r"cu(\d+)(\d)", row.build)
    if cuda and row.cuda != f"{cuda[1]}.{cuda[2]}":
        yield f"build {row.build} and cuda {row.cuda} do not match"
    if row.build.startswith("rocm") and row.rocm != row.build[4:]:
        yield f"build {row.build} and rocm {row.rocm} do not match"


def _extension(row: rows.ExtensionBuild, matrix: Matrix) -> Iterator[str]:
    for field, template in (("build", row.build), ("build_amd", row.build_amd)):
        yield from _template(field, template, "digits", "dotted", "gfx")


def _folders(row: rows.PackageFolders, matrix: Matrix) -> Iterator[str]:
    # A plan removes them: "", ".." and a path would take more than the package.
    yield from (f"{name!r} is no name of a folder" for name in row.folders if not re.fullmatch(r"\w[\w.-]*", name))


def _template(field: str, template: str | None, *names: str) -> Iterator[str]:
    try:
        check_template(template or "", *names)
    except ValueError as error:
        yield f"{field}: {error}"


def _companion(row: rows.Companion, matrix: Matrix) -> Iterator[str]:
    for version in (row.torch, row.torchvision, row.torchaudio, *row.torchvision_also):
        if version is not None and not is_version(version):
            yield f"{version!r} is no version"


def _pattern(row: rows.LogPattern | rows.ErrorPattern, matrix: Matrix) -> Iterator[str]:
    pattern = re.compile(row.pattern)
    if not any(map(pattern.search, row.example.splitlines())):
        yield _NOT_ITS_EXAMPLE
    for line in row.counterexamples:
        if pattern.search(line):
            yield f"the pattern matches its counterexample {line[:60]!r}"
    for slug in (row.slug, *(row.also if isinstance(row, rows.ErrorPattern) else ())):
        if slug is not None and not _SLUG.match(slug):
            yield f"slug {slug!r}"


def _error(row: rows.ErrorPattern, matrix: Matrix) -> Iterator[str]:
    yield from _pattern(row, matrix)
    if re.search(r"[*+}]\)[*+{]", row.pattern):
        yield "the pattern repeats what repeats already: that may take for ever on some text"
    if matrix.errors.cause_of(row.example, None if row.vendor == "any" else row.vendor) != row:
        yield "an earlier row matches its example: exact texts come before general ones"


def _told(row: rows.ToldCircumstance, matrix: Matrix) -> Iterator[str]:
    pattern, unless = re.compile(row.pattern, re.ASCII), re.compile(row.unless or "$^")
    found = pattern.search(row.example.lower())
    if found is None or unless.search(row.example.lower()):
        yield _NOT_ITS_EXAMPLE
    elif not row.signs and not row.together:
        yield "it has neither signs nor concepts"
    elif row.signs and not any(sign in row.example.lower() for sign in row.signs):
        yield "its example holds none of its signs"
    for line in row.counterexamples:
        if row.signs and pattern.search(line.lower()) and not unless.search(line.lower()):
            yield f"the pattern matches its counterexample {line[:60]!r}"
    if not _SLUG.match(row.slug):
        yield f"slug {row.slug!r}"
    concepts = {concept.concept for concept in matrix.tables.told_concepts}
    for name in sorted({name for names in row.together for name in names} - concepts):
        yield f"no concept {name!r}"


def _concept(row: rows.ToldConcept, matrix: Matrix) -> Iterator[str]:
    pattern, unless = re.compile(row.pattern, re.ASCII), re.compile(row.unless or "$^", re.ASCII)
    for line in (row.example, *row.counterexamples):
        found = pattern.search(line.lower()) and not unless.search(line.lower())
        if bool(found) != (line == row.example):
            yield f"the pattern is wrong for {line[:60]!r}"


def _words(row: rows.ForeignWords, matrix: Matrix) -> Iterator[str]:
    try:
        re.sub(row.pattern, row.english, "")
    except re.error as error:
        yield f"pattern: {error}"
        return
    example = row.example.lower()
    if not re.search(row.pattern, example):
        yield _NOT_ITS_EXAMPLE
    elif not any(sign in example for sign in row.signs):
        yield "its example holds none of its signs"


def _issue(row: rows.KnownIssue, matrix: Matrix) -> Iterator[str]:
    when = row.when
    for field in ("torch", "cuda", "rocm", "kernel", "driver", "firmware"):
        value = getattr(when, field)
        if value:
            yield from wrong_specifier(field, value)
    for patched in when.patched_kernels:
        yield from wrong_specifier(f"patched_kernels {patched.flavour}", patched.kernel)
    for package in when.packages:
        if package.specifier:
            yield from wrong_specifier(package.package, package.specifier)
    for gfx in when.gfx:
        yield from _reference(gfx, "gfx_targets", matrix.gpus.target(gfx))
    for sm in when.sm:
        yield from _reference(sm, "capabilities", matrix.gpus.capability(sm))
    if row.log is not None:
        pattern = next((pattern for pattern in matrix.tables.log_patterns if pattern.id == row.log), None)
        yield from _reference(f"log {row.log!r}", "log_patterns", pattern)
    if not _SLUG.match(row.slug):
        yield f"slug {row.slug!r}"
    if row.severity == "error" and row.trigger != "facts":
        yield "an error needs the trigger facts: a workload or a symptom alone decides nothing"


_RULES: dict[type, Callable[[Any, Matrix], Iterator[str]]] = {
    rows.NvidiaChip: _nvidia,
    rows.NvidiaGpu: _nvidia_gpu,
    rows.NvidiaSoc: _nvidia,
    rows.AmdGpu: _amd_gpu,
    rows.BaseImage: _base_image,
    rows.RemovedImage: _removed_image,
    rows.Distribution: _distribution,
    rows.DriverPackage: _driver_package,
    rows.DriverInstruction: _distribution,
    rows.AmdgpuDkmsSystem: _distribution,
    rows.FirmwarePackage: _distribution,
    rows.DistributionKernel: _distribution_kernel,
    rows.OldTorchBuilds: _old_builds,
    rows.OtherName: _other_name,
    rows.AmdProcessor: _processor,
    rows.GpuRates: _rates,
    rows.Interconnect: _interconnect,
    rows.GfxTarget: _target,
    rows.TorchBuild: _build,
    rows.Companion: _companion,
    rows.ExtensionBuild: _extension,
    rows.PackageFolders: _folders,
    rows.LogPattern: _pattern,
    rows.ErrorPattern: _error,
    rows.RequirementUse: _requirement,
    rows.KnownIssue: _issue,
    rows.ToldCircumstance: _told,
    rows.ToldConcept: _concept,
    rows.ForeignWords: _words,
}
