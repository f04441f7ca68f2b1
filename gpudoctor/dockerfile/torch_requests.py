"""The commands of an image that request torch, and where each takes it from."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct

from gpudoctor.dockerfile.commands import EXTRA_VARIABLES, INDEX_VARIABLES, Command
from gpudoctor.dockerfile.image import Image, Step
from gpudoctor.dockerfile.installs import PipInstall
from gpudoctor.dockerfile.requirements import Requirement
from gpudoctor.dockerfile.variables import OVERRIDE_CUDA

if TYPE_CHECKING:
    pass

_CONFIGURED = re.compile(r"\bpip[\d.]* config |pip\.conf|uv\.toml")
Source = Literal["package index", "index", "both", "elsewhere", "base"]


class TorchRequest(Struct, frozen=True):
    """One install command that requests torch."""

    line: int
    order: int
    """The place of the command among the steps: several may stand in one line."""
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
    environment: str | None = ""
    """The environment that it goes to; "": the image's own Python; None: unknown."""
    channel: str = ""
    """The channel of conda that it comes from."""
    by: str = ""
    """The package that requires it, if the command does not name torch: "vllm 0.11.2"."""

    @property
    def pinned(self) -> str:
        """The exact version that it requests, without the local part; "" if there is none."""
        return self.requirement.release

    @property
    def local(self) -> str:
        """The local part that it requests: "cu124"."""
        found = re.fullmatch(r"={2,3}[^*,+]+\+([\w.]+)", self.requirement.specifier)
        return found[1] if found else ""


@lru_cache
def asked_for(image: Image) -> tuple[TorchRequest, ...]:
    """Every command of an image that installs torch into the image's own Python."""
    configured = configured_from(image)
    found = []
    for step in image.steps:
        requirement = step.pip.asks_for("torch")
        if requirement is not None and not step.pip.elsewhere:
            found.append(install_request(step, step.pip, requirement, image, configured))
    return tuple(found)


def install_request(
    step: Step, install: PipInstall, requirement: Requirement, image: Image, configured: Configured
) -> TorchRequest:
    """A request of an install command for a torch, with the place that pip or uv takes it from."""

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
    if install.without_cuda and image.facts.known and not any(OVERRIDE_CUDA in line for line in image.source):
        build = build or "cpu"  # another base image, or who builds this one, may say which CUDA there is
    return TorchRequest(
        line=step.command.line,
        order=next(order for order, one in enumerate(image.steps) if one is step),
        text=step.command.text,
        tool=install.tool,
        requirement=requirement,
        source=source,
        index_url=url,
        build=build,
        maybe=step.command.maybe,
        locked=install.locked,
        folder=install.folder,
        environment=step.environment,
        channel=install.channel,
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
    if install.tool == "conda" or install.channel:
        return "elsewhere", "", install.backend
    if requirement.specifier.startswith("@"):
        wheel = re.search(r"/whl/(?:nightly/|test/)?([a-z]+[\d.]*)/torch-", requirement.specifier)
        return "elsewhere", "", wheel[1] if wheel else ""
    if install.locked:
        named = [(url, build_of_index(url)) for url in install.index_urls]
        return ("index", *named[0]) if named and named[0][1] else ("elsewhere" if named else "package index", "", "")
    if backend:
        return ("index", "", backend) if re.fullmatch(r"cpu|cu\d+|rocm[\d.]+", backend) else ("elsewhere", "", "")
    if (configured and not install.sourced) or install.find_links or install.incomplete:
        return "elsewhere", "", ""
    named, added = _of_torch(urls, requirement), _of_torch(extra, requirement)
    having = any(requirement.exact.endswith(f"+{build}") for _, build in (*named, *added))
    if "+" in requirement.exact and not having and len(named) + len(added) < len(urls) + len(extra):
        return "elsewhere", (*urls, *extra)[0], ""  # a mirror may have every build
    if urls:
        return ("index", *named[0]) if named else ("elsewhere", urls[0], "")
    if extra:
        if not added:
            return "elsewhere", extra[0], ""
        # uv takes a package from the first index that has it, and an extra index comes first.
        return ("both" if as_pip else "index", *added[0])
    return "package index", "", ""


def _of_torch(urls: list[str], requirement: Requirement) -> list[tuple[str, str]]:
    """Those of torch's own indexes, each with its build; first the one that has the build that is asked for."""
    found = [(url, build) for url in urls if (build := build_of_index(url))]
    return sorted(found, key=lambda one: not requirement.exact.endswith(f"+{one[1]}"))


def build_of_index(url: str) -> str:
    """The build that an index of torch has: "cu128" for ".../whl/cu128"; "" for any other index. Nightly builds and
    candidates have an index of the same form."""
    found = re.search(r"/whl/(?:(?:nightly|test)/)?(cpu|cu\d{3}|rocm\d+(?:\.\d+)*|xpu)/?(?:simple/?)?$", url)
    return found[1] if found else ""


class Configured(NamedTuple):
    """Where a configuration of pip or uv may choose the index."""

    from_line: float
    """Commands from this line on."""
    uv: bool
    pip: bool

    def decides(self, command: Command) -> bool:
        return self.pip or (self.uv and "uv" in command.argv[0]) or command.line >= self.from_line


def configured_from(image: Image) -> Configured:
    """The configuration of pip and uv that an image's files and commands bring."""
    sources = [source for one in image.copied for source in one.sources]
    commands = [step.command for step in image.steps]
    lines = (one.line for one in commands if _CONFIGURED.search(one.text) or _CONFIGURED.search(one.writes))
    return Configured(
        from_line=min(lines, default=float("inf")),
        uv=any(re.search(r"pip\.conf|uv\.toml|pyproject\.toml", source) for source in sources),
        pip=any("pip.conf" in source for source in sources),
    )
