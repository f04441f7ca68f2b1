"""A page for each kind of GPU (compute capability or gfx target): which builds of torch run on it, which driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from gpudoctor.frameworks.torch.candidates import Choice, RejectedCandidate, candidates
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.isa import capability
from gpudoctor.machine import Machine
from gpudoctor.matrix.versions import figures
from gpudoctor.recommend import Recommendation, recommend
from gpudoctor.render.recommend import best_command
from gpudoctor.situation import Situation
from tests.documentation.site.markdown import code, escaped, page, table
from tests.support.check_cases import matrix


class Kind(Struct, frozen=True):
    """GPUs that run the same code."""

    arch: str
    family: str
    names: tuple[str, ...]
    """As gpudoctor understands them; the architecture where the matrix names no product."""

    @property
    def page(self) -> str:
        return f"builds/{self.arch}.md"

    @property
    def nvidia(self) -> bool:
        return self.arch.startswith("sm_")

    @property
    def described(self) -> Machine:
        """A healthy machine with such a GPU, the newest driver for it, and no torch."""
        boards = {f"sm_{soc.capability.replace('.', '')}" for soc in matrix().tables.nvidia_socs}
        name, platform = (self.names[0], "linux/arm64") if self.arch in boards else (self.arch, "")
        return imagined_machine(Description(gpus=(name,), platform=platform), {}, matrix())


@cache
def kinds() -> tuple[Kind, ...]:
    """NVIDIA's from the newest to the oldest, then AMD's."""
    names: dict[str, list[str]] = {}
    for soc in matrix().tables.nvidia_socs:
        names.setdefault(_sm(soc.capability), []).extend((soc.name, *soc.aliases))
    for row in matrix().tables.nvidia_gpus:
        identity = matrix().gpus.gpu_by_pci(f"10de:{row.pci}")
        if identity is not None:
            names.setdefault(identity.arch, []).extend((row.name, *row.aliases))
    for gpu in matrix().tables.amd_gpus:
        names.setdefault(gpu.gfx, []).extend((gpu.name, *gpu.revisions.values(), *gpu.aliases))
    nvidia = [(_sm(row.capability), row.architecture) for row in matrix().tables.capabilities]
    amd = [(row.gfx, row.family) for row in matrix().tables.gfx_targets]
    ordered = (*reversed(nvidia), *sorted(amd, key=lambda one: _newness(one[0]), reverse=True))
    return tuple(Kind(arch, family, tuple(dict.fromkeys(names.get(arch, (arch,))))) for arch, family in ordered)


@cache
def pages() -> dict[str, str]:
    """By name."""
    return {kind.page: _page(kind) for kind in kinds()}


def overview() -> str:
    """Every GPU by name, with its newest torch."""
    rows = [("GPU", "architecture", "best torch today", "last driver branch")]
    for kind in kinds():
        newest = best(kind)
        last = matrix().nvidia.last_branch(kind.arch) if kind.nvidia else None
        first = most_asked_for(kind.names)
        for name in (*first, *sorted({*kind.names} - {*first}, key=str.lower)):
            rows.append((escaped(name), f"{code(kind.arch)} {kind.family}", newest, last or ""))
    return table(rows, filtered="Type the name of your GPU")


@cache
def evaluated(kind: Kind) -> tuple[tuple[Choice, ...], tuple[RejectedCandidate, ...], str]:
    """Every build of torch on that GPU: those that run, those that do not, and the platform."""
    machine = kind.described
    situation = Situation(machine, matrix())
    runs, not_so = candidates(situation, machine.gpus, any_python=True)
    return runs, not_so, situation.platform


@cache
def recommended(kind: Kind) -> Recommendation:
    return recommend(Situation(kind.described, matrix()))


def best(kind: Kind) -> str:
    """The newest torch that works, in a word or two."""
    choice = recommended(kind).choices[0]
    if choice.level == "cpu":
        return "none"
    if choice.torch is None:
        return "by hand: see its page"
    return f"{choice.torch}+{choice.build}" + (" with an override" if choice.level == "override" else "")


def _page(kind: Kind) -> str:
    known = [name for name in kind.names if name != kind.arch]
    products = ", ".join(dict.fromkeys(map(_short, most_asked_for(known))))
    title = (
        f"PyTorch on {products} ({kind.family}, {kind.arch})" if known else f"PyTorch on {kind.arch} ({kind.family})"
    )
    described = (
        f"Which builds of PyTorch have code for {', '.join(known[:8]) or kind.arch} ({kind.arch}), and which driver."
    )
    listed = f"These GPUs are {kind.arch}: {escaped(', '.join(known))}." if known else ""
    back = "[Which build runs on your GPU](README.md)"
    return page(
        title,
        described,
        back,
        *_install(kind),
        "## Every build",
        *_builds(kind),
        "## Driver",
        _driver(kind),
        "## Which GPUs",
        listed,
    )


def _install(kind: Kind) -> Iterator[str]:
    answer = recommended(kind)
    first = answer.choices[0]
    name = most_asked_for(kind.names)[0]
    more = (
        f'`gpudoctor recommend --gpu "{name}"` says it for your driver and your Python, with the alternatives '
        "([install](../start.md))."
    )
    if first.torch is None:
        yield escaped(" ".join(first.why))
    elif first.level == "cpu":
        yield "No published build of PyTorch has code for this GPU that its driver can run."
    else:
        command = best_command(answer, pip=True)
        settings = "".join(f"$ export {variable}={value}\n" for variable, value in first.env.items())
        yield f"The newest build that works, with Python {_python(kind)} and the newest driver for this GPU:"
        yield f"```console\n{settings}$ {command[1] if command else ''}\n```"
    yield more


def _builds(kind: Kind) -> Iterator[str]:
    runs, not_so, platform = evaluated(kind)
    mine = [one for one in runs if one.cuda or one.rocm]
    other = [one for one in not_so if one.because != "vendor"]
    columns = sorted({one.build for one in (*mine, *other)}, key=number, reverse=True)
    cells: dict[str, dict[str, str]] = {}
    for one in other:
        cells.setdefault(one.torch, {})[one.build] = "?" if one.because == "unknown" else "no"
    for choice in mine:
        cells.setdefault(choice.version, {})[choice.build] = _runs(choice)
    if not mine:
        yield "None of the published builds runs on it."
        return
    yield (
        f"On {platform}. **yes**: has code for this GPU; **PTX**: compiled at the first start; **no**: has none, or "
        "its CUDA or its libraries do not run here; **?**: nobody published what it has; empty: never published."
    )
    rows = [("torch", *columns)]
    rows += [(v, *(cells[v].get(column, "") for column in columns)) for v in sorted(cells, key=figures, reverse=True)]
    yield table(rows)


def number(build: str) -> tuple[int, ...]:
    """What builds are sorted by: the figures of "cu128" or "rocm6.4"."""
    return figures(build.strip("curomp"))


def _runs(choice: Choice) -> str:
    mark = "PTX" if choice.level == "ptx" else "yes"
    return f"{mark}, with a known issue" if choice.fault else mark


def _driver(kind: Kind) -> str:
    if not kind.nvidia:
        return _amd_support(kind)
    first, last = matrix().nvidia.first_driver(kind.arch), matrix().nvidia.last_branch(kind.arch)
    flavour = {
        "refused": "The open kernel modules refuse this GPU: it needs the proprietary ones.",
        "required": "It needs the open kernel modules.",
        "supported": "It works with the open and with the proprietary kernel modules.",
    }
    lines = [
        f"The first NVIDIA driver for it is {first}." if first else "",
        f"The last driver branch for it is {last}: newer drivers do not know it." if last else "",
        flavour.get(matrix().nvidia.module_flavour(kind.arch) or "", ""),
        "[Drivers and CUDA](drivers.md) says which CUDA each driver runs.",
    ]
    return " ".join(filter(None, lines))


def _amd_support(kind: Kind) -> str:
    target = matrix().gpus.target(kind.arch)
    if target is None:
        return ""
    products = f" ({', '.join(target.official_products)} only)" if target.official_products else ""
    named = f"AMD's documents list it from ROCm {target.official_from} to {target.official_to}{products}."
    override = target.override
    lines = [
        named if target.official_from else "AMD's documents do not list it for any ROCm.",
        f"Linux {target.first_kernel} is the first kernel that runs it." if target.first_kernel else "",
        f"`HSA_OVERRIDE_GFX_VERSION={override.value}` is {_SAFETY[override.safety]}." if override.value else "",
        f"On overrides: {escaped(override.note)}." if override.note else "",
    ]
    return " ".join(filter(None, lines))


_SAFETY = {
    "safe-class": "a workaround that runs the code of a GPU of the same generation",
    "risky": "a workaround with reported faults",
    "unsafe": "dangerous: it runs code that this GPU does not have",
    "none": "of no use",
}


_PRODUCTS = (
    r"GeForce [GR]TX|RX \d|Jetson|DGX Spark|GB10|\d{3}M$|Strix Halo|Steam Deck",
    r"(?:Tesla )?(?:[VPKAHBL]|GB|HGX B)\d{1,3}\b|(?:Instinct )?MI\d|TITAN|Radeon (?:HD|R\d|VII)|Vega \d",
)
"""What people own, then what data centres have."""
_SELDOM = r"Mobile|Max-Q|Laptop|\[|/|^G[A-Z]\d{3}|^CMP|Reserved|Series|Engineering|Custom GPU|Desktop Device"
"""Variants, chips and names that nobody looks for."""
_PARTS = r"(?:[ -](?:PG\d+|SXM|PCIe|DGXS|FHHL|NVL|MIG|AC|\d+ ?GB)\w*)+.*"


def most_asked_for(names: Sequence[str]) -> list[str]:
    """A few names for a title, those that people look for first, each model once."""
    plain = [name for name in names if not re.search(_SELDOM, name)]

    def rank(name: str) -> tuple[int, int]:
        return next((at for at, kind in enumerate(_PRODUCTS) if re.match(kind, name)), len(_PRODUCTS)), len(name)

    models: dict[str, str] = {}
    for name in sorted(plain or names, key=rank):
        models.setdefault(_short(name), name)
    return list(models.values())[:4]


def _short(name: str) -> str:
    """The model as a title names it: "A100" of "A100-SXM-64GB", "RTX 4090" of "GeForce RTX 4090"."""
    return re.sub(_PARTS, "", re.sub(r"^(?:GeForce|Instinct|Tesla|Radeon(?= \d))\s", "", name))


def _python(kind: Kind) -> str:
    environment = kind.described.environment.value
    return (environment.python.value if environment else None) or "3.12"


def _sm(dotted: str) -> str:
    return f"sm_{dotted.replace('.', '')}"


def _newness(arch: str) -> tuple[int, str]:
    number = arch.removeprefix("gfx")
    return (int(number[:-2]), number[-2:]) if capability(arch) is None else (0, arch)
