"""Identifies a GPU by PCI id, device tree, or name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import takewhile
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gpudoctor.isa import Answer, dotted, gfx_runs
from gpudoctor.machine import Vendor
from gpudoctor.matrix import names
from gpudoctor.matrix.versions import minor

if TYPE_CHECKING:
    from gpudoctor.matrix.rows import AmdGpu, Capability, GfxTarget, NvidiaChip, NvidiaGpu, NvidiaSoc, Tables


class Identity(Struct, frozen=True):
    """A GPU that the matrix knows, found by a PCI id, a board name or a described name."""

    vendor: Vendor
    name: str
    arch: str
    """ "sm_120" or "gfx1031"."""
    chip: str | None = None
    family: str | None = None
    """Blackwell, Ampere ...; RDNA2, CDNA3 ..."""
    pci_id: str | None = None
    integrated: bool = False
    datacenter: bool = False
    """Eligible for CUDA forward compatibility (cuda-compat)."""
    jetson: bool = False
    rare: bool = False
    """As of its row."""


Key = Callable[[str], str]
"""The key of a name: what all its spellings have in common."""
Names = dict[str, list[tuple[str, Identity]]]
"""The names and the GPUs by key."""
Named = tuple[str, Callable[[], Identity]]
"""A name, and what makes the GPU of it: few of two thousand are ever asked for."""


class Gpus:
    """The GPU tables, and look-ups in them."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._names_with: dict[tuple[Key, frozenset[str]], Names] = {}

    # --- rows ----------------------------------------------------------------------------------

    def capability(self, sm: str | None) -> Capability | None:
        """The row of "sm_89" (or "8.9")."""
        return self._capabilities.get(dotted(sm.lower()) or sm) if sm else None

    def came_after(self, cuda: str, sm: str) -> bool:
        """Whether a GPU came after a CUDA: its cuBLAS and cuDNN have nothing for it, whatever the driver compiles. A
        GPU without a row came after all that the matrix knows."""
        known = self.capability(sm)
        return known is None or minor(cuda) < minor(known.first_cuda)

    def chip(self, code: str) -> NvidiaChip | None:
        """The row of a chip ("GB202")."""
        return self._chips.get(code.upper())

    def target(self, gfx: str | None) -> GfxTarget | None:
        """The row of a gfx target (without xnack and sramecc)."""
        return self._targets.get(gfx.partition(":")[0]) if gfx else None

    def gfx_answer(self, gfx: str, archs: Collection[str]) -> Answer:
        """`isa.gfx_runs` with the generic targets that a GPU accepts."""
        target = self.target(gfx)
        return gfx_runs(gfx, archs, target.generic if target else ())

    @cached_property
    def _capabilities(self) -> dict[str, Capability]:
        return {row.capability: row for row in self.tables.capabilities}

    @cached_property
    def _targets(self) -> dict[str, GfxTarget]:
        return {row.gfx: row for row in self.tables.gfx_targets}

    @cached_property
    def _chips(self) -> dict[str, NvidiaChip]:
        return {row.chip: row for row in self.tables.nvidia_chips}

    @cached_property
    def _socs(self) -> dict[str, NvidiaSoc]:
        return {row.chip: row for row in self.tables.nvidia_socs if row.chip}

    @cached_property
    def _nvidia(self) -> dict[str, NvidiaGpu]:
        return {row.pci: row for row in self.tables.nvidia_gpus}

    @cached_property
    def _amd(self) -> dict[str, AmdGpu]:
        return {row.pci: row for row in self.tables.amd_gpus}

    def nvidia(self, pci_id: str | None) -> NvidiaGpu | None:
        """The row of an NVIDIA GPU, by its PCI id "10de:2b85"."""
        return self._nvidia.get((pci_id or "").removeprefix("10de:"))

    # --- identification ------------------------------------------------------------------------

    def gpu_by_pci(self, pci_id: str, revision: str | None = None) -> Identity | None:
        """The GPU of a PCI id such as "10de:2b85" or "1002:73df" (any case); None if no row has it."""
        vendor, _, device = pci_id.lower().replace("0x", "").partition(":")
        if vendor == "10de" and (nvidia := self._nvidia.get(device)):
            return self._of_nvidia(nvidia)
        if vendor == "1002" and (amd := self._amd.get(device)):
            named = amd.revisions.get((revision or "").lower().removeprefix("0x").zfill(2))
            return self._of_amd(amd, named or amd.name)
        return None

    def gpu_by_device_tree(self, compatible: str) -> Identity | None:
        """The SoC whose device-tree names occur in `compatible` (with NULs or without)."""
        for soc in self.tables.nvidia_socs:
            # No digit may follow: tegra21 is no part of tegra210's name, and the NULs between names may be lost.
            if any(re.search(re.escape(name) + r"(?!\d)", compatible) for name in soc.device_tree):
                return self._of_soc(soc)
        return None

    def gpu_by_l4t(self, l4t: str) -> Identity | None:
        """The SoC that a release of Jetson Linux ("38.4") supports, if it supports only one."""
        socs = [soc for soc in self.tables.nvidia_socs if l4t.partition(".")[0] in soc.l4t]
        return self._of_soc(socs[0]) if len(socs) == 1 else None

    def soc(self, sm: str) -> NvidiaSoc | None:
        """The SoC of an architecture, "sm_110"."""
        return next((soc for soc in self.tables.nvidia_socs if _sm(soc.capability) == sm), None)

    def gpus_by_name(self, name: str) -> tuple[Identity, ...]:
        """All architectures that a name may stand for; empty: unknown; more than one: ambiguous.

        A name as people write it ("rx 6700xt", "4090"), as a driver or lspci prints it ("NVIDIA H100 80GB HBM3"), a
        PCI id, a chip, "sm_90", "gfx1031".
        """
        text = names.product(name.strip())
        if re.fullmatch(r"(0x)?(10de|1002):(0x)?[0-9a-f]{4}", text, re.IGNORECASE):
            gpu = self.gpu_by_pci(text)
            return (gpu,) if gpu else ()
        direct = self._by_architecture(text)
        if direct is not None:
            return (direct,)
        said = self._generations.intersection(names.words(text))
        plain = " ".join(word for word in text.split() if not said.intersection(names.words(word)))
        each = dict.fromkeys((text, plain))
        either = (self._of_words(one) or self._of_alternatives(one) or self._of_parts(one) for one in each)
        return next(filter(None, (_of_generation(said, found) for found in either)), ())

    @cached_property
    def _generations(self) -> frozenset[str]:
        """The words that name generations of NVIDIA's."""
        return frozenset(word for row in self.tables.capabilities for word in row.architecture.lower().split())

    def _of_words(self, text: str) -> tuple[Identity, ...]:
        """The GPUs of a name, by the strictest of the keys that finds any."""
        if names.says_nothing(text):
            return ()
        detailed, figure = names.loose_key(text) != names.short_key(text), names.figure_only(text)
        # A name without brand and detail may be short for several: RTX 6000 is a Quadro, and an Ada GPU.
        plain = not names.brands(text) and not detailed
        loose = self._with_key(names.loose_key, names.loose_key(text)) if plain else ()
        for key, wanted in _keys(text, detailed=detailed, figure=figure):
            if wanted and (found := _closest(text, self._with_key(key, wanted), loose)):
                return found
        return ()

    def _with_key(self, key: Key, wanted: str) -> Sequence[tuple[str, Identity]]:
        """The names with this key, and their GPUs. A key has no digit that its name lacks, so an index of the names
        with these digits is enough: to read all two thousand names takes half as long as a whole check."""
        digits = frozenset(filter(str.isdigit, wanted))
        if (key, digits) not in self._names_with:
            self._names_with[key, digits] = _index((one for one in self._named if digits.issubset(one[0])), key)
        return self._names_with[key, digits].get(wanted, ())

    def _of_alternatives(self, text: str) -> tuple[Identity, ...]:
        """The GPUs of "Radeon RX 6700/6700 XT", where that is not the name of one row."""
        each = (self._of_words(one) for one in names.alternatives(text)[1:])
        return tuple({gpu.arch: gpu for found in each for gpu in found}.values())

    def _of_parts(self, text: str) -> tuple[Identity, ...]:
        """The GPU in a name that has more words than any GPU's name. Words that tell products apart are never left
        out: there is no RTX 5080 SUPER, and it is no RTX 5080."""
        text = text[:100]
        said = names.telling(text)
        for part in names.parts(text):
            left_out = list(said)
            for word in names.telling(part):
                left_out.remove(word)
            if self._vocabulary.isdisjoint(left_out) and (found := self._of_words(part)):
                return found
        return ()

    def gpu_of_processor(self, name: str) -> Identity | None:
        """The integrated GPU of an AMD processor: "Ryzen 7 5700G", "5700G", "Ryzen Z1 Extreme". None: unknown."""
        said = f" {' '.join(names.words(name))} "
        for row in self.tables.amd_processors:
            if any(f" {' '.join(names.words(model))} " in said for model in row.models):
                return self._of_amd(self._amd[row.gpu], row.name)
        return None

    def other_name(self, name: str) -> str:
        """A remark about a name that stands for no GPU that gpudoctor checks, or for many; "" if the matrix has
        none."""
        lower = " ".join(name.lower().replace("(r)", "").split())
        return next((row.says for row in self.tables.other_names if re.search(row.name, lower)), "")

    def names_near(self, name: str) -> tuple[str, ...]:
        """At most five known names that resemble an unknown one."""
        from difflib import get_close_matches

        if architectures := self._architectures_near(name):
            return architectures
        asked, maker = names.short_key(name[:100]), names.maker(name)
        asked = re.sub(r"(?<=\d)o|o(?=\d)", "0", asked)
        if not asked:
            return ()
        named = {
            key: gpu.name
            for key, found in _index(self._named, names.short_key).items()
            for _, gpu in found[:1]
            if maker in (None, gpu.vendor)
        }
        whole = sorted(
            (key for key in named if names.has_number(key, asked)), key=lambda key: ("mobile" in key, len(key))
        )
        # A GPU of quite another number or line is far-fetched, however much of its name is the same.
        alike = get_close_matches(asked, [key for key in named if names.resemble(asked, key)], n=15, cutoff=0.6)
        return tuple(dict.fromkeys(named[key] for key in (*whole, *alike)))[:5]

    def _architectures_near(self, text: str) -> tuple[str, ...]:
        """What a person may mean who gives an architecture: those of that generation ("Rubin", "RDNA4"), else those
        with the nearest numbers."""
        capabilities, targets = self.tables.capabilities, self.tables.gfx_targets
        known = [(row.architecture, _sm(row.capability)) for row in capabilities]
        known += [(row.family, row.gfx) for row in targets]
        plain = text.lower().replace(" ", "")
        same = [arch for family, arch in known if family.lower().replace(" ", "") == plain]
        asked = re.fullmatch(r"(sm_?|gfx)([0-9a-f]{2,4})", plain)
        if same or asked is None:
            return tuple(same[:5])
        kind, begun = asked[1].removesuffix("_"), f"{asked[1].removesuffix('_')}{asked[2]}"

        def distance(arch: str) -> tuple[bool, int]:
            joined = arch.replace("_", "")
            return not joined.startswith(begun), abs(int(joined.removeprefix(kind), 16) - int(asked[2], 16))

        return tuple(sorted((arch for _, arch in known if arch.startswith(kind)), key=distance)[:3])

    def _by_architecture(self, text: str) -> Identity | None:
        lower = text.lower()
        if (sm := re.fullmatch(r"sm_?(\d{2,3})[af]?", lower)) and (row := self.capability(f"sm_{sm[1]}")):
            arch = f"sm_{sm[1]}"
            return Identity("nvidia", f"{arch} ({row.architecture})", arch, None, row.architecture)
        if lower.startswith("gfx") and (target := self.target(lower)):
            return self._of_target(target)
        chip = self._chips.get(text.upper())
        if chip is not None:
            arch, soc = _sm(chip.capability), self._socs.get(chip.chip)
            jetson = soc is not None and soc.jetson
            return Identity("nvidia", chip.chip, arch, chip.chip, chip.architecture, jetson=jetson)
        return None

    # --- identities of rows --------------------------------------------------------------------

    def _of_nvidia(self, row: NvidiaGpu) -> Identity:
        chip = self._chips[row.chip]
        capability = row.capability or chip.capability
        soc = self._socs.get(row.chip)
        return Identity(
            vendor="nvidia",
            name=f"NVIDIA {row.name}",
            arch=_sm(capability),
            chip=row.chip,
            family=chip.architecture,
            pci_id=f"10de:{row.pci}",
            integrated=soc is not None,
            datacenter=row.datacenter,
            jetson=soc is not None and soc.jetson,
            rare=row.rare,
        )

    def _of_soc(self, row: NvidiaSoc) -> Identity:
        known = self.capability(row.capability)
        return Identity(
            vendor="nvidia",
            name=f"NVIDIA {row.name}",
            arch=_sm(row.capability),
            chip=row.chip,
            family=known.architecture if known else None,
            integrated=True,
            jetson=row.jetson,
        )

    def _of_amd(self, row: AmdGpu, name: str) -> Identity:
        target = self._targets.get(row.gfx)
        # A chip and a processor are AMD's, and no Radeon.
        if name != row.chip and not re.match(r"AMD|Radeon|Instinct|Steam|Custom|Ryzen|AI ", name):
            name = f"Instinct {name}" if re.match(r"MI\d", name) else f"Radeon {name}"
        return Identity(
            vendor="amd",
            name=name if name.startswith("AMD") else f"AMD {name}",
            arch=row.gfx,
            chip=row.chip,
            family=target.family if target else None,
            pci_id=f"1002:{row.pci}",
            integrated=bool(target and target.kind == "apu"),
        )

    def _of_target(self, row: GfxTarget) -> Identity:
        return Identity(
            vendor="amd",
            name=f"{row.gfx}, {row.chips}",
            arch=row.gfx,
            chip=None,
            family=row.family,
            integrated=row.kind == "apu",
        )

    # --- names ---------------------------------------------------------------------------------

    @cached_property
    def _named(self) -> tuple[Named, ...]:
        """Every single name of every GPU, in the order of the tables."""
        found: list[Named] = []
        for soc in self.tables.nvidia_socs:
            found += [(alias, partial(self._of_soc, soc)) for alias in (soc.name, *soc.aliases)]
        for gpu in self.tables.nvidia_gpus:
            spoken = (*names.alternatives(gpu.name), *gpu.aliases)
            found += [(alias, partial(self._of_nvidia, gpu)) for alias in spoken]
        for amd in self.tables.amd_gpus:
            spoken = (*names.alternatives(amd.name), *amd.revisions.values(), *amd.aliases)
            found += [(alias, partial(self._of_amd, amd, alias)) for alias in spoken]
            found.append((amd.chip, partial(self._of_amd, amd, amd.name)))
        # A target whose products have no PCI id yet is named by them.
        sold = {amd.gfx for amd in self.tables.amd_gpus}
        for target in (target for target in self.tables.gfx_targets if target.gfx not in sold):
            found += [(chip, partial(self._of_target, target)) for chip in names.alternatives(target.chips)]
        return tuple(found)

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        """The words that tell GPUs apart."""
        return frozenset(word for name, _ in self._named for word in names.telling(name))


def _keys(text: str, *, detailed: bool, figure: bool) -> Iterator[tuple[Key, str]]:
    """The keys of a name, the strictest first."""
    if detailed:
        yield names.exact_key, names.exact_key(text)
    yield names.short_key, names.short_key(text)
    if figure:
        yield names.bare_key, names.bare_key(text)
    yield names.loose_key, names.loose_key(text)
    if figure:
        yield names.bare_key, names.bare_key(" ".join(names.telling(text)))
    yield names.unordered_key, names.unordered_key(text)


def _of_generation(said: Collection[str], found: Iterable[Identity]) -> tuple[Identity, ...]:
    """Those of the generation that a name tells: there is no RTX A4000 Ada, and of two TITAN X one is a Maxwell."""
    return tuple(gpu for gpu in found if set(said) <= set((gpu.family or " ".join(said)).lower().split()))


def _index(named: Iterable[Named], key: Key) -> Names:
    found: Names = {}
    for name, gpu in named:
        found.setdefault(key(name), []).append((name, gpu()))
    return found


def _closest(
    text: str, found: Sequence[tuple[str, Identity]], also: Sequence[tuple[str, Identity]]
) -> tuple[Identity, ...]:
    """One GPU per architecture, the one whose name has most words in common with the text, else the shortest name.
    `also` is added if anything was found."""
    maker, said = names.maker(text), set(names.words(text))
    ours = [(name, gpu) for name, gpu in found if maker in (None, gpu.vendor)]
    if ours:
        ours += [(name, gpu) for name, gpu in also if maker in (None, gpu.vendor)]
    brand = names.brands(text)  # a Quadro RTX 3000 is no RTX 3000 Ada
    ours = [one for one in ours if brand <= names.brands(one[1].name)] or ours
    near = [(len(said ^ set(names.words(name))), gpu) for name, gpu in ours]
    nearest: dict[str, list[tuple[int, Identity]]] = {}
    for one in sorted(near, key=lambda one: (one[0], len(one[1].name))):
        nearest.setdefault(one[1].arch, []).append(one)
    return tuple(_as_said(said, [gpu for words, gpu in of if words == of[0][0]]) for of in nearest.values())


def _as_said(said: set[str], alike: Sequence[Identity]) -> Identity:
    """The first of the GPUs that a text does not tell apart, under the name that all have in common: "A100" does not
    say which A100."""
    first, columns = alike[0], zip(*(re.split("[ -]", gpu.name) for gpu in alike), strict=False)
    shared = " ".join(column[0] for column in takewhile(lambda column: len(set(column)) == 1, columns))
    apart = len({gpu.name for gpu in alike}) > 1
    return replace(first, name=shared) if apart and said <= set(names.words(shared)) else first


def _sm(capability: str) -> str:
    return "sm_" + capability.replace(".", "")
