"""The GPUs that a text names, identified by whatever it tells of each: PCI id, architecture, name."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.intake.text.facts import Facts, NamedGpu, Statement
from gpudoctor.intake.text.ranking import decided, gpus_of_best_source
from gpudoctor.late_regex import late
from gpudoctor.machine import OVERRIDE, Vendor
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.names import alternatives, maker, product
from gpudoctor.matrix.questions import Matrix

_MOST = 64
_SEVERAL = 3
"""As `alternatives` counts: the whole name, and two products."""
_LONGEST_NAME = 120
_PARTS = late(r"[,;]\s|\s[|/+]\s")
_AMD_VARIABLE = (
    r"HSA_|HIP_|ROCR_|ROCM_(?!HOME)|MIOPEN_|PYTORCH_HIP|PYTORCH_ROCM|TORCH_BLAS_PREFER_HIPBLASLT|HIPBLASLT|ROCBLAS"
)
_GFX_IN_NAME = late(r"\bgfx(?:80[1-5]|9[0-9a-f]{2}|1[0-2]\d{2})\b")
"""What people add to a name: "Ryzen 7 8845HS (Radeon 780M, gfx1103)"."""
_CHIP = late(
    r"(?:\[AMD/ATI\]|\bAMD) (?P<chip>[A-Z][a-z]+(?: Ridge| \d\d)?)(?=\d?(?: \w+)?(?:/[^\[]{1,20})?(?: ?\[|$))"
)
"""What lspci and inxi call the chip, before the products that are made of it."""
_LINE = late(r"(?i)\b(?:[gr]t|r)x(?![a-z])")
_OF_ANY = late(r"Radeon(?:\(TM\))? Graphics$")
"""What ROCm calls a GPU of which it knows no name: an integrated one most often."""
_AMD_LOG, _NVIDIA_LOG = late(r"amdgpu|kfd|radeon"), late(r"NVRM|nvidia|nouveau")
_OF_NO_DRIVER = late(r"apparmor=|audit|[Cc]ommand line:")
"""Lines of the log that name drivers on every machine: profiles of AppArmor, parameters of the kernel."""


def identify(facts: Facts, matrix: Matrix) -> tuple[tuple[tuple[NamedGpu, Identity], ...], tuple[str, ...]]:
    """Each GPU with what it is, and the names of which nothing is known. An Identity without `arch` is a GPU whose
    vendor alone is certain."""
    named = gpus_of_best_source(facts)
    if named and named[0].by == "prose":
        return _of_prose(named, matrix)
    if all(gpu.vendor_only for gpu in named):
        of_prose, _ = _of_prose(tuple(gpu for gpu in facts.gpus if gpu.by == "prose"), matrix)
        if of_prose and any(of_prose[0][1].vendor == one.vendor for gpu in named if (one := _of_vendor(gpu))):
            return of_prose, ()
    found: list[tuple[NamedGpu, Identity]] = []
    unread: list[str] = []
    for gpu in (_completed(one, facts, matrix) for one in named[:_MOST]):
        identity = identity_of(gpu, matrix)
        if identity is None:
            unread.append(f"{gpu.name or gpu.pci_id or gpu.arch} (line {gpu.line})")
        else:
            found.append((gpu, identity))
    return tuple(found), tuple(dict.fromkeys(unread))


def assumed_gpu(facts: Facts, *, rocm: bool) -> tuple[tuple[NamedGpu, Identity], ...]:
    """A GPU of which only the vendor is known, where the text is about the GPUs of one vendor and names none."""
    amd = [one for one in facts.said if one.what.startswith("variable ") and re.match(_AMD_VARIABLE, one.what[9:])]
    log = [line for line in facts.log if not _OF_NO_DRIVER.search(line.text)]
    amd_lines = [one.line for one in amd] or [line.number for line in log if _AMD_LOG.search(line.text)]
    nvidia = [line.number for line in log if _NVIDIA_LOG.search(line.text)]
    nvidia += [one.line for one in facts.said if one.what in ("driver", "driver cuda", "no node /dev/nvidia-uvm")]
    if facts.smi is not None:
        nvidia.append(facts.smi[1])
    # torch says so on every machine without that driver: whose GPU it is, the rest of the text tells.
    no_driver = not facts.gpus and any("Found no NVIDIA driver" in line.text for line in facts.errors)
    amd_lines += [one.line for one in facts.said if one.what in ("no node /dev/kfd", "node /dev/kfd")]
    amd_lines += [one.line for one in facts.said if one.what == "for amd" and (no_driver or one.by == "tool")]
    indexes = [one for one in facts.said if one.what == "torch index"] if facts.errors else []
    if all(one.value.startswith("rocm") for one in indexes):  # who wanted torch for ROCm, and got another or none
        amd_lines += [one.line for one in indexes]
    if rocm and not nvidia:
        amd_lines.append(next((one.line for one in facts.said if one.what.startswith("torch")), 1))
    if bool(amd_lines) == bool(nvidia):
        return ()
    vendor: Vendor = "amd" if amd_lines else "nvidia"
    line = (amd_lines or nvidia)[0]
    return ((NamedGpu(line, "prose"), Identity(vendor=vendor, name=f"{vendor.upper()} GPU", arch="")),)


def unnamed_gpu(facts: Facts, matrix: Matrix, *, rocm: bool) -> tuple[tuple[NamedGpu, Identity], ...]:
    """The GPU of a text that names none: that of a Jetson, or of a processor that people buy for its GPU; else one of
    which only the vendor is known."""
    if tegra := decided(facts, "l4t") or decided(facts, "tegra kernel"):
        board = Identity(vendor="nvidia", name="NVIDIA Jetson", arch="", integrated=True, jetson=True)
        return ((NamedGpu(tegra.line, "tool"), matrix.gpus.gpu_by_l4t(tegra.value) or board),)
    assumed = assumed_gpu(facts, rocm=rocm)
    overridden = decided(facts, f"variable {OVERRIDE}") is not None
    if all(identity.vendor == "amd" for _, identity in assumed):
        for said in (one for one in facts.said if one.what == "processor"):
            gpu = _of_processor(said, matrix)
            # Who overrides the target wants to compute on a GPU, and names no other one.
            wanted = gpu is not None and (matrix.amd.is_for_computing(gpu.arch) or overridden)
            if gpu is not None and wanted and gpu.vendor == "amd":
                return ((NamedGpu(said.line, "prose"), gpu),)
    return assumed


def _completed(gpu: NamedGpu, facts: Facts, matrix: Matrix) -> NamedGpu:
    """The GPU with what other lines tell of it: an architecture for its name, the rest of a name that was cut off; of
    a name that several integrated GPUs have the one of the processor."""
    name = gpu.name
    if name.endswith("..."):
        stem = name.rstrip(". ")
        name = next(
            (other.name for other in facts.gpus if other.name.startswith(stem) and not other.name.endswith("...")),
            stem,
        )
        gpu = replace(gpu, name=name)
    if gpu.arch:
        return gpu
    same = [other for other in facts.gpus if other.arch and other.by != "prose" and _same_name(other.name, name)]
    if same:
        return replace(gpu, arch=same[0].arch)
    capability = decided(facts, f"capability {gpu.index}") if gpu.by == "report" else None
    if capability:
        return replace(gpu, arch=capability.value)
    archs, processor = {one.arch for one in _by_name(name, matrix)[1]}, decided(facts, "processor")
    own = _of_processor(processor, matrix) if processor and len(archs) != 1 else None
    meant = own and (own.arch in archs or (_OF_ANY.search(name) and matrix.amd.is_for_computing(own.arch)))
    return replace(gpu, arch=own.arch) if own and meant else gpu


def _of_processor(said: Statement, matrix: Matrix) -> Identity | None:
    """The integrated GPU of a processor that the text names."""
    return next(iter(matrix.gpus.gpus_by_name(said.value)), None) or matrix.gpus.gpu_of_processor(said.value)


def _same_name(one: str, other: str) -> bool:
    def plain(text: str) -> str:
        return re.sub(r"nvidia|amd|geforce|[^a-z0-9]", "", text.lower())

    return bool(plain(one)) and plain(one) == plain(other)


def identity_of(gpu: NamedGpu, matrix: Matrix) -> Identity | None:
    """What a GPU is: by its PCI id, else by its name and architecture together, else by one of them."""
    if gpu.pci_id and (by_id := matrix.gpus.gpu_by_pci(gpu.pci_id)):
        exact = gpu.by != "shell" and {by_id.arch} == {one.arch for one in matrix.gpus.gpus_by_name(gpu.name)}
        return replace(by_id, name=gpu.name) if exact and "[" not in gpu.name else by_id
    gpu = replace(gpu, name=re.sub(r"^\d{1,2} ?[x*]? (?=[A-Za-z])|(?<=\d) ?[x*] ?\d{1,2}$", "", gpu.name))
    listed, (name, by_name) = gpu.name, _by_name(gpu.name, matrix)
    if len({identity.arch for identity in by_name}) != 1 and (chip := _CHIP.search(gpu.name)):
        by_name = matrix.gpus.gpus_by_name(chip["chip"]) or by_name
    gpu = replace(gpu, name=name)
    within = _GFX_IN_NAME.search(gpu.name)
    arch = gpu.arch.partition(":")[0] or (within[0] if within else "")
    if arch:
        same = [identity for identity in by_name if identity.arch == arch]
        if same:
            return replace(same[0], name=gpu.name)
        plain = next(iter(matrix.gpus.gpus_by_name(arch)), None)
        vendor: Vendor = "amd" if arch.startswith("gfx") else "nvidia"
        # A runtime tells the architecture of an override; the name tells the GPU.
        if by_name and vendor == "amd" and len({identity.arch for identity in by_name}) == 1:
            return by_name[0]
        if plain is not None:
            return replace(plain, name=gpu.name or plain.name)
        return Identity(vendor=vendor, name=gpu.name or arch, arch=arch)
    archs = {identity.arch for identity in by_name}
    if len(archs) == 1:
        return _of_chip(listed, by_name[0]) if gpu.by == "shell" else replace(by_name[0], name=gpu.name)
    if by_name and len({identity.vendor for identity in by_name}) == 1:
        return Identity(vendor=by_name[0].vendor, name=gpu.name, arch="")
    return _of_vendor(gpu)


def _of_chip(name: str, gpu: Identity) -> Identity:
    """The GPU of a line of lspci, which lists all products of a chip: only a revision tells which of them it is."""
    products = product(name)
    if len(alternatives(products)) < _SEVERAL:
        return gpu
    vendor = "NVIDIA" if gpu.vendor == "nvidia" else "AMD"
    return replace(gpu, name=f"{vendor} {gpu.chip or ''} ({products})".replace("  ", " "))


def _by_name(name: str, matrix: Matrix) -> tuple[str, tuple[Identity, ...]]:
    """The GPUs of a name, and the name: people put all they have behind one key, and add remarks."""
    if not name or len(name) >= _LONGEST_NAME:
        return name, ()
    parts = [_closed(part.strip()) for part in _PARTS.split(name)]
    named = [(part, found) for part in parts if (found := matrix.gpus.gpus_by_name(part))]
    if len(named) == 1:
        return named[0]
    within = [part.removesuffix(" OC").strip() for part in re.findall(r"\(([^()]{3,60})\)", name)]
    if len(inner := [(part, found) for part in within if (found := matrix.gpus.gpus_by_name(part))]) == 1:
        return inner[0]
    first = re.split(r"[,;(]|(?i:\s(?:(?:gpu|card)s\b|with\s))", name)[0].strip()
    several = first.removesuffix("s")
    found = next(filter(None, map(matrix.gpus.gpus_by_name, (name, first, several))), ())
    return name, found or _of_another_line(first, matrix)


def _of_another_line(name: str, matrix: Matrix) -> tuple[Identity, ...]:
    """The GPU of a name with the wrong line of products, if one line alone has that number: people write "GTX 3090",
    "RTX 1080" and "RTX 6700 XT"."""
    if not _LINE.search(name):
        return ()
    each = (_LINE.sub(line, name) for line in ("GTX", "RTX", "RX"))
    lines = [found for one in each if (found := matrix.gpus.gpus_by_name(one)) and found[0].vendor == maker(one)]
    return lines[0] if len(lines) == 1 else ()


def _closed(part: str) -> str:
    """ "GTX 1080 (Pascal" of "GTX 1080 (Pascal, 8 GB)" without the remark that was cut."""
    return part if ")" in part else part.partition("(")[0].strip()


def _of_vendor(gpu: NamedGpu) -> Identity | None:
    of_id: dict[str, Vendor] = {"10de": "nvidia", "1002": "amd"}
    vendor = maker(gpu.name) or of_id.get(gpu.pci_id[:4])
    name = gpu.name or gpu.pci_id
    return Identity(vendor=vendor, name=name, arch="") if vendor else None


def _of_prose(
    named: tuple[NamedGpu, ...], matrix: Matrix
) -> tuple[tuple[tuple[NamedGpu, Identity], ...], tuple[str, ...]]:
    """The GPU that sentences name, if all that they name can be one; the several of a machine, if one sentence names
    them together; and beside a discrete GPU the integrated one of the processor."""
    found = [(gpu, identity) for gpu in named if (identity := identity_of(gpu, matrix)) and identity.arch]
    archs = {identity.arch for _, identity in found}
    models = [pair for pair in found if not _GFX_IN_NAME.fullmatch(pair[0].name or pair[1].arch)]
    if len(archs) == 1 or len({identity.arch for _, identity in models}) == 1:
        return (_longest(models or found),), ()
    block = next((gpu.block for gpu, _ in found if gpu.block), 0)
    together = tuple({one.arch: (gpu, one) for gpu, one in reversed(found) if gpu.block == block}.values())[::-1]
    if block and {one.arch for _, one in together} == archs:
        return together, ()
    if with_integrated := _with_an_integrated_one(found):
        return with_integrated, ()
    titled = [(gpu, identity) for gpu, identity in found if gpu.titled]
    return ((_longest(titled),) if len({identity.arch for _, identity in titled}) == 1 else ()), ()


def _with_an_integrated_one(found: list[tuple[NamedGpu, Identity]]) -> tuple[tuple[NamedGpu, Identity], ...]:
    """One discrete GPU and an integrated one, if that is all that is named."""
    # A list of the targets that a build has names GPUs of nobody.
    discrete = [pair for pair in found if not (pair[1].integrated or _GFX_IN_NAME.search(pair[0].name or "gfx900"))]
    integrated = [pair for pair in found if pair[1].integrated]
    kinds = (discrete, integrated)
    archs = {identity.arch for _, identity in found}
    others = archs - {identity.arch for kind in kinds for _, identity in kind}
    if not others and all(len({identity.arch for _, identity in kind}) == 1 for kind in kinds):
        return _longest(discrete), _longest(integrated)
    return ()


def _longest(found: list[tuple[NamedGpu, Identity]]) -> tuple[NamedGpu, Identity]:
    return max(found, key=lambda pair: len(pair[0].name))
