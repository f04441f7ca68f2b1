"""The torch that an image ends up with: that of its base image, or what its commands install."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.dockerfile.commands import EXTRA_VARIABLES, INDEX_VARIABLES, Command, in_turn
from gpudoctor.dockerfile.conda import conda_packages
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.installs import PipInstall, system_packages
from gpudoctor.dockerfile.markers import PYTHONS
from gpudoctor.dockerfile.requirements import Requirement, torch_wheel
from gpudoctor.dockerfile.unreadable_commands import copies_environment, installs_unread
from gpudoctor.matrix.versions import figures, package_matches

if TYPE_CHECKING:
    from gpudoctor.machine import Vendor
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import Companion, TorchBuild, TorchDependent

_OTHER_PYTHON = re.compile(
    r"[Pp]ython-?(3\.\d+|\$)|altinstall|asdf|pixi|spack|miniconda|miniforge|mambaforge|micromamba|anaconda|pyenv"
)

_NAMED_PYTHON = re.compile(r"(?:\buv .{0,200}--python[ =]|\b(?:conda|mamba) create .{0,200}\bpython=)(3\.\d+)")
"""A Python that the file asks for, with its version."""
_TORCH_ALONE = re.compile(r"install (?:-\S+ )*(?:\S*/)?(?:py)?torch-\d[^ /]*\.whl$")
"""A command that installs a wheel file of torch, and nothing else."""
_COMPANIONS = ("torchvision", "torchaudio")
_PINNING = ("vllm-torch-abi", "xformers-mismatch")
"""Rows whose packages require exactly that torch in their metadata."""
_UNINSTALLED = re.compile(r"\bpip[\d.]* uninstall\b"), re.compile(r"\storch(\s|$)")
_CONFIGURED = re.compile(r"\bpip[\d.]* config |pip\.conf|uv\.toml")

Source = Literal["package index", "index", "both", "elsewhere", "base"]


class TorchRequest(Struct, frozen=True):
    """One install command that requests torch."""

    line: int
    text: str
    """The command as written, on one line."""
    tool: str
    requirement: Requirement
    source: Source
    """The package index alone; one index of torch; both together; or an unknown place."""
    index_url: str = ""
    build: str = ""
    """The build that this index has: cu128, rocm6.4, cpu."""
    maybe: bool = False
    locked: bool = False
    """Whether a lock file names it, not the command."""
    folder: str = ""
    """The folder of --prefix, where pip does not see what is installed already."""
    by: str = ""
    """The package that requires it, if the command does not name torch: "vllm 0.11.2"."""

    @property
    def pinned(self) -> str:
        """The exact version that it requests, without the local part; "" if there is none."""
        return self.requirement.exact.partition("+")[0]

    @property
    def local(self) -> str:
        """The local part that it requests: "cu124"."""
        found = re.fullmatch(r"={2,3}[^*,+]+\+([\w.]+)", self.requirement.specifier)
        return found[1] if found else ""


class Held(Struct, frozen=True):
    """The torch of an image. `build` or `version` is "" if unknown."""

    version: str
    build: str
    line: int
    source: Source
    asked: TorchRequest | None = None
    certain: bool = True
    """False if the version is only the newest known one that matches."""

    @property
    def known(self) -> bool:
        """Whether version and build are those of a wheel that can be checked."""
        return bool(self.version and re.fullmatch(r"cpu|xpu|cu\d+|rocm[\d.]+", self.build))

    @property
    def vendor(self) -> Vendor | None:
        if self.build.startswith("rocm"):
            return "amd"
        return "nvidia" if re.match(r"cu\d", self.build) else None


@lru_cache
def asked_for(image: Image) -> tuple[TorchRequest, ...]:
    """Every command of an image that installs torch into the image's own Python."""
    configured = _configured_from(image)
    found = []
    for step in image.steps:
        install = step.pip
        if install is None or install.elsewhere:
            continue
        requirement = install.asks_for("torch")
        if requirement is not None:
            found.append(_asked(step, install, requirement, image, configured))
    return tuple(found)


def _asked(
    step: Step, install: PipInstall, requirement: Requirement, image: Image, configured: _Configured
) -> TorchRequest:
    def variable(name: str) -> str:
        setting = image.settings.get(name)
        later = setting is not None and setting.line > step.command.line and not step.command.script
        if later or image.form == "definition":
            setting = None  # the command does not see it
        return step.command.variables.get(name, (setting.value or "?") if setting else "")

    urls = list(install.index_urls) or [url for name in INDEX_VARIABLES if (url := variable(name))]
    extra = list(install.extra_urls) or [url for name in EXTRA_VARIABLES if (url := variable(name))]
    backend = install.backend or (variable("UV_TORCH_BACKEND") if install.tool == "uv" else "")
    strategy = variable("UV_INDEX_STRATEGY") if install.tool == "uv" else ""
    if "--index-strategy" in install.flags:
        strategy = "unsafe-best-match" if "unsafe-best-match" in step.command.text else "?"
    as_pip = install.tool == "pip" or (strategy == "unsafe-best-match" and "+" in requirement.exact)
    source, url, build = _source(
        requirement,
        install,
        urls,
        extra,
        backend,
        configured.decides(step.command) or bool(strategy and not as_pip),
        as_pip,
    )
    return TorchRequest(
        line=step.command.line,
        text=step.command.text,
        tool=install.tool,
        requirement=requirement,
        source=source,
        index_url=url,
        build=build,
        maybe=step.command.maybe,
        locked=install.locked,
        folder=install.folder,
    )


def _source(
    requirement: Requirement,
    install: PipInstall,
    urls: list[str],
    extra: list[str],
    backend: str,
    configured: bool,
    as_pip: bool,
) -> tuple[Source, str, str]:
    """Where a requirement of torch comes from: (source, url of torch's index, the build that it has). `as_pip`: the
    newest version of all indexes is taken."""
    if install.tool == "conda":
        return "elsewhere", "", install.backend
    if requirement.specifier.startswith("@"):
        wheel = re.search(r"/whl/(?:nightly/|test/)?([a-z]+[\d.]*)/torch-", requirement.specifier)
        return "elsewhere", "", wheel[1] if wheel else ""
    if install.locked:
        named = [(url, build_of_index(url)) for url in install.index_urls]
        return ("index", *named[0]) if named and named[0][1] else ("elsewhere" if named else "package index", "", "")
    if backend:
        return ("index", "", backend) if re.fullmatch(r"cpu|cu\d+|rocm[\d.]+", backend) else ("elsewhere", "", "")
    if configured or install.find_links or install.incomplete:
        return "elsewhere", "", ""
    named = [(url, build) for url in urls for build in [build_of_index(url)] if build]
    if urls:
        return ("index", *named[0]) if named else ("elsewhere", urls[0], "")
    added = [(url, build) for url in extra for build in [build_of_index(url)] if build]
    if extra:
        if not added:
            return "elsewhere", extra[0], ""
        # uv takes a package from the first index that has it, and an extra index comes first.
        return ("both" if as_pip else "index", *added[0])
    return "package index", "", ""


def build_of_index(url: str) -> str:
    """The build that an index of torch has: "cu128" for ".../whl/cu128"; "" for any other index. Nightly builds and
    candidates have an index of the same form."""
    found = re.search(r"/whl/(?:(?:nightly|test)/)?(cpu|cu\d{3}|rocm\d+(?:\.\d+)*|xpu)/?(?:simple/?)?$", url)
    return found[1] if found else ""


class _Configured(NamedTuple):
    """Where a configuration of pip or uv may choose the index."""

    from_line: float
    """Commands from this line on."""
    uv: bool
    pip: bool

    def decides(self, command: Command) -> bool:
        return self.pip or (self.uv and "uv" in command.argv[0]) or command.line >= self.from_line


def _configured_from(image: Image) -> _Configured:
    sources = [source for one in image.copied for source in one.sources]
    commands = [step.command for step in image.steps]
    lines = (one.line for one in commands if _CONFIGURED.search(one.text) or _CONFIGURED.search(one.writes))
    return _Configured(
        from_line=min(lines, default=float("inf")),
        uv=any(re.search(r"pip\.conf|uv\.toml|pyproject\.toml", source) for source in sources),
        pip=any("pip.conf" in source for source in sources),
    )


@lru_cache
def python_of(image: Image) -> str | None:
    """The Python that pip installs into; None if base image and commands leave a doubt."""
    named = {found for step in image.steps for found in _NAMED_PYTHON.findall(step.command.text)}
    named |= {(image.variable("UV_PYTHON") or "")[:4]} & set(PYTHONS)
    if named:
        return named.pop() if len(named) == 1 else None
    facts = image.facts
    if facts is None or facts.python is None:
        return None
    names = [name for step in image.steps for name in (*system_packages(step.command), step.command.text)]
    if any(_OTHER_PYTHON.search(name) for name in names):
        return None
    if any(conda_packages(step.command) for step in image.steps):
        return None
    if any(re.search(r"--python|uv (python|venv|sync)", step.command.text) for step in image.steps):
        return None
    if any(re.search(r"python3\.|venv|conda", one.value or "") for one in image.settings.values()):
        return None
    return facts.python if not any(one.origin for one in image.copied if "python" in one.target) else None


def torch_of(image: Image, matrix: Matrix) -> Held | None:
    """The torch that the image ends up with; None if there is none or nothing is known of it."""
    facts = image.facts
    held: Held | None = None
    if facts is not None and facts.has_torch:
        held = Held(facts.torch or "", _base_build(image), image.base_line, "base")
    if any("pytorch" in name for step in image.steps if not step.pip for name in conda_packages(step.command)):
        return None
    if any(step.script is not None and step.script.names_torch for step in image.steps):
        return None
    uninstalls = [step.command.line for step in image.steps if in_turn(step.command.text, *_UNINSTALLED)]
    if held is not None and uninstalls:
        held = None
    for asked in sorted((*asked_for(image), *required_by(image, matrix)), key=lambda asked: asked.line):
        if asked.maybe:
            return None
        if held is not None and _satisfied(held, asked):
            continue
        held = _installed_by(image, matrix, asked)
    return held


@lru_cache
def required_by(image: Image, matrix: Matrix) -> tuple[TorchRequest, ...]:
    """Commands that install a package which requires certain torches (vLLM, xformers, torchvision) or any torch, and
    do not name torch themselves: pip installs such a torch along."""
    configured = _configured_from(image)
    companions = _Companions(image, matrix)
    found: list[TorchRequest] = []
    unread = copies_environment(image) is not None
    there = bool(image.facts and image.facts.has_torch)
    for step in image.steps:
        install = step.pip
        unread = unread or installs_unread(image, step)
        if install is None or install.elsewhere or "--no-deps" in install.flags:
            continue
        if not install.asks_for("torch"):
            own = _asked(step, install, Requirement("torch"), image, configured)
            exact = list(_required(install, own, companions, matrix))
            if not exact and not unread and not _constrained(image, step):
                exact = list(_left_open(install, own, image, matrix, there))
            found += exact
        there = there or bool(found) or install.asks_for("torch") is not None
        companions.after(step)
    return tuple(found)


def _required(
    install: PipInstall, own: TorchRequest, companions: _Companions, matrix: Matrix
) -> Iterator[TorchRequest]:
    """The torch of the packages whose version the command names, and of the companions."""
    for one in install.requirements:
        torch = companions.torch_of(one, own) if one.name in _COMPANIONS else required_torch(one, matrix)
        if torch:
            yield _brought(own, one, torch, one.exact)


def _left_open(
    install: PipInstall, own: TorchRequest, image: Image, matrix: Matrix, there: bool
) -> Iterator[TorchRequest]:
    """The torch of a package whose newest release is taken. Where that pins a torch, only a torch that is `there`
    tells something: it is replaced. A newer release than the known ones may pin another."""
    if own.maybe or own.source not in ("package index", "index", "both") or install.locked:
        return
    newest = [(one, row.torch) for one in install.requirements if (row := _newest_of(one, matrix)) is not None]
    pinning = [pair for pair in newest if pair[1].startswith("==")]
    users = {row.package for row in matrix.tables.torch_users} if python_of(image) else set()
    open_ = [(one, "") for one in install.requirements if one.name in users]
    if not pinning or there:
        yield from (_brought(own, one, torch, "") for one, torch in (pinning or newest or open_)[:1])
    elif image.facts is not None and image.facts.vendor == "amd" and own.source == "package index":
        yield _brought(own, pinning[0][0], "", "")  # whatever torch it pins: those of the package index are for CUDA


def _brought(own: TorchRequest, package: Requirement, torch: str, version: str) -> TorchRequest:
    by = f"{package.name} {version}".strip()
    return replace(own, requirement=Requirement("torch", torch, file=package.file), by=by)


def _newest_of(one: Requirement, matrix: Matrix) -> TorchDependent | None:
    """The newest known release that a requirement without an exact version admits."""
    if one.exact or one.specifier.startswith("@"):
        return None
    rows = [
        row
        for row in matrix.tables.torch_dependents
        if row.package == one.name
        and row.slug in _PINNING
        and row.version.startswith("==")
        and package_matches(one.specifier or ">=0", row.version.removeprefix("=="))
    ]
    return max(rows, key=lambda row: _numbers(row.version), default=None)


def pins_torch(name: str, matrix: Matrix) -> bool:
    """Whether the releases of a package require exactly one torch each."""
    return any(row.package == name and row.slug in _PINNING for row in matrix.tables.torch_dependents)


def release_for(name: str, torch: str, matrix: Matrix) -> str:
    """The newest known release of a package that requires exactly that torch; "" if none is known."""
    rows = [
        row.version.removeprefix("==")
        for row in matrix.tables.torch_dependents
        if row.package == name and row.version.startswith("==") and row.torch == f"=={torch}"
    ]
    return max(rows, key=_numbers, default="")


def _numbers(version: str) -> tuple[int, ...]:
    """Every number of a version: those of a post-release, too."""
    return tuple(map(int, re.findall(r"\d{1,9}", version)))


def _constrained(image: Image, step: Step) -> bool:
    """Whether constraints may hold the torch that is there: of the command, the file, or an image of NVIDIA."""
    names = {"PIP_CONSTRAINT", "UV_CONSTRAINT"} & (image.settings.keys() | step.command.variables.keys())
    given = step.pip is not None and {"-c", "--constraint", "--override", "--overrides"} & set(step.pip.flags)
    return bool(names or given) or (image.facts is not None and image.facts.origin == "ngc")


class _Companions:
    """torchvision and torchaudio, as far as the commands before have not installed them yet."""

    def __init__(self, image: Image, matrix: Matrix) -> None:
        self._image, self._matrix = image, matrix
        self._there: set[str] = set(_COMPANIONS) if image.facts is not None and image.facts.has_torch else set()

    def torch_of(self, requirement: Requirement, asked: TorchRequest) -> str:
        """The torch that the metadata of a companion requires: "==2.9.1"; "" if pip installs none, or if which one is
        unknown. `asked` says where the command takes its packages from."""
        constrained = {"PIP_CONSTRAINT", "UV_CONSTRAINT"} & self._image.settings.keys()
        if asked.maybe or constrained:
            return ""
        other = bool(self._image.facts and self._image.facts.torch) and bool(requirement.exact)
        if requirement.name in self._there and not other:
            return ""
        if requirement.exact:
            return companion_torch(requirement, self._matrix)
        if requirement.specifier or asked.source not in ("package index", "index"):
            return ""
        newest = _installed_by(self._image, self._matrix, asked)
        row = self._matrix.companion(newest.version) if python_of(self._image) and newest.known else None
        return (row and _requires(row, requirement.name)) or ""

    def after(self, step: Step) -> None:
        """A command has run. What it may have installed unread may be a companion."""
        if installs_unread(self._image, step) and not _TORCH_ALONE.search(step.command.text):
            self._there.update(_COMPANIONS)
        elif step.pip is not None and not step.command.maybe:
            self._there.update(one.name for one in step.pip.requirements if one.name in _COMPANIONS)


def companion_torch(requirement: Requirement, matrix: Matrix) -> str:
    """The torch that a torchvision or torchaudio of an exact version requires; "" if none is known."""
    name, exact = requirement.name, requirement.exact.partition("+")[0]
    rows = (row for row in matrix.tables.companions if name in _COMPANIONS and _release(row, name) == exact)
    return next((torch for row in rows if (torch := _requires(row, name))), "")


def _release(row: Companion, name: str) -> str | None:
    return row.torchvision if name == "torchvision" else row.torchaudio


def _requires(row: Companion, name: str) -> str | None:
    return row.torchvision_torch if name == "torchvision" else row.torchaudio_torch


def required_torch(requirement: Requirement, matrix: Matrix) -> str:
    """The one torch that a requirement of an exact version brings: "==2.9.0"; "" if none is known."""
    found = re.fullmatch(r"={2,3}([^*,+]+)", requirement.specifier)
    rows = matrix.tables.torch_dependents if found else ()
    exact = (
        row.torch
        for row in rows
        if row.package == requirement.name
        and row.slug in _PINNING
        and package_matches(row.version, found[1] if found else "")
    )
    return next((torch for torch in exact if re.fullmatch(r"==[\d.]+", torch)), "")


def _base_build(image: Image) -> str:
    facts = image.facts
    if facts is None:
        return ""
    if facts.rocm:
        return f"rocm{facts.rocm}"
    return f"cu{facts.cuda.replace('.', '')}" if facts.cuda and facts.origin != "ngc" else ""


def _satisfied(held: Held, asked: TorchRequest) -> bool:
    """Whether pip keeps the installed torch: its version matches, and nothing forces another."""
    if asked.folder or re.search(r"\s(--force-reinstall|--ignore-installed|-I)\b", asked.text):
        return False
    along = bool(asked.by) and asked.tool == "pip"  # pip upgrades what is named, and of the rest what does not match
    upgraded = re.search(r"\s(-U|--upgrade)\b", asked.text) and (not along or "eager" in asked.text)
    if asked.requirement.specifier.startswith("@") or upgraded:
        return False
    if asked.local and asked.local != held.build:
        return False
    if not asked.requirement.specifier:
        return True
    if not held.version:
        return not asked.pinned
    return package_matches(asked.requirement.specifier.partition("+")[0], held.version)


def _installed_by(image: Image, matrix: Matrix, asked: TorchRequest) -> Held:
    """The torch that one command installs, as far as gpudoctor can tell."""
    build = asked.local or asked.build
    if wheel := torch_wheel(asked.requirement.specifier.lstrip("@ ")):
        return Held(wheel.partition("+")[0], build, asked.line, asked.source, asked)
    python = python_of(image)
    specifier = asked.requirement.specifier
    if asked.tool == "conda":
        row = matrix.removed_package("pytorch", "pytorch")
        specifier = ",".join(filter(None, (specifier, f"<={row.last}" if row else "")))
    rows = _matching(wheels_for(matrix, image.platform, python), specifier)
    if asked.source == "package index" and not asked.local:
        own = next((row for row in rows if row.origin == "pypi"), None)
        return Held(
            own.version if own else asked.pinned,
            own.build if own else "",
            asked.line,
            asked.source,
            asked,
            bool(asked.pinned),
        )
    if asked.source == "both" and not asked.local:
        offered = [row for row in rows if row.origin == "pypi" or row.build == build]
        if asked.pinned:  # 2.9.1+cu128 comes before 2.9.1
            offered.sort(key=lambda row: row.build != build)
        return _of_row(asked, next(iter(offered), None), build)
    if build:
        best = next((row for row in rows if row.build == build and row.origin != "pypi"), None)
        if best is None and not asked.requirement.specifier:
            return Held(matrix.newest_old_release(build), build, asked.line, asked.source, asked, False)
        return _of_row(asked, best, build)
    return Held("", "", asked.line, asked.source, asked, False)


def _of_row(asked: TorchRequest, row: TorchBuild | None, build: str) -> Held:
    if row is None:
        return Held(asked.pinned, build if asked.source != "both" else "", asked.line, asked.source, asked, False)
    source = "package index" if row.origin == "pypi" else asked.source
    return Held(row.version, row.build, asked.line, source, asked, bool(asked.pinned))


def outrun(image: Image, matrix: Matrix, held: Held, asked: TorchRequest) -> TorchBuild | None:
    """The build that an extra index was named for, if pip instead installs a newer torch of the package index."""
    if asked.source != "both" or asked.pinned or held.asked != asked or held.build in ("", asked.build):
        return None
    rows = (row for row in wheels_for(matrix, image.platform, python_of(image)) if row.build == asked.build)
    wanted = next(rows, None)
    return wanted if wanted is not None and figures(wanted.version) < figures(held.version) else None


@lru_cache
def wheels_for(matrix: Matrix, platform: str, python: str | None) -> tuple[TorchBuild, ...]:
    """The builds that pip may install there, newest first."""
    rows = (row for row in matrix.builds(platform) if row.origin in ("pypi", "download.pytorch.org"))
    return tuple(row for row in rows if python is None or python in row.pythons)


def _matching(rows: tuple[TorchBuild, ...], specifier: str) -> list[TorchBuild]:
    public = re.sub(r"\+[\w.]+", "", specifier)
    versions = {row.version for row in rows}
    matching = {version for version in versions if not public or package_matches(public, version)}
    return [row for row in rows if row.version in matching]


def cuda_of(build: str) -> str:
    """ "12.8" for cu128; "" for other builds."""
    found = re.fullmatch(r"cu(\d+)(\d)", build)
    return f"{found[1]}.{found[2]}" if found else ""
