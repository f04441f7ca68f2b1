"""The GPUs that a person names: which they are, and where they would be in a healthy machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.intake.description import Description
from gpudoctor.machine import DESCRIBED, Gpu, LogFault, Machine, known
from gpudoctor.matrix.gpu_models import Identity
from gpudoctor.matrix.names import vgpu_series
from gpudoctor.matrix.questions import Matrix
from gpudoctor.records import view_as

SOURCE = DESCRIBED
_WITH_GRACE = ("GH200", "GB200", "GB300")
_MOST = 16
"""GPUs of one name that "8x H100" may ask for."""


class AmbiguousGpuError(InputError):
    """A name that stands for several GPUs."""

    def __init__(self, place: int, name: str, choices: tuple[Identity, ...]) -> None:
        listed = "; ".join(f"{identity.name} ({identity.arch})" for identity in choices[:6])
        super().__init__(f"--gpu {name!r} may mean several GPUs: {listed}. Give a PCI id, a chip or an architecture.")
        self.place = place
        self.choices = choices


def identify(names: Sequence[str], matrix: Matrix) -> tuple[Identity, ...]:
    """The GPUs of these names, in order. Raises InputError for a name that means nothing or several GPUs."""
    found: list[Identity] = []
    for place, name in enumerate(names):
        count, one = _counted(name, matrix)
        gpus = matrix.gpus.gpus_by_name(one) or tuple(filter(None, (matrix.gpus.gpu_of_processor(one),)))
        gpus = tuple(gpu for gpu in gpus if not gpu.rare) or gpus
        if not gpus:
            raise InputError(f"--gpu {name!r}: {_why_unknown(one, matrix)}")
        if len(gpus) > 1:
            raise AmbiguousGpuError(place, name, gpus)
        identity = gpus[0] if vgpu_series(one) is None else replace(gpus[0], name=one.strip())
        found += [identity] * count
    return tuple(found)


def usual_meanings(names: Sequence[str], matrix: Matrix) -> tuple[str, ...]:
    """What was taken for a name that a rare GPU has, too: "GM107 (sm_50) for 'GTX 750 Ti', not the rare GK106"."""
    told = []
    for name in names:
        gpus = matrix.gpus.gpus_by_name(_counted(name, matrix)[1])
        usual, rare = [gpu for gpu in gpus if not gpu.rare], [gpu for gpu in gpus if gpu.rare]
        if usual and rare:
            told.append(
                f"{usual[0].chip} ({usual[0].arch}) for {name!r}, not the rare {rare[0].chip} ({rare[0].arch})"
            )
    return tuple(dict.fromkeys(told))


def _counted(name: str, matrix: Matrix) -> tuple[int, str]:
    """ "8x H100" and "RTX 3090 x2" name several equal GPUs; MI25x2 is the name of one."""
    many = re.fullmatch(r"\s*(\d{1,2})\s*[x*]\s*(?P<one>.{2,})|(?P<name>.{2,}?)\s+[x*]\s*(\d{1,2})\s*", name)
    if many is None:
        return 1, name
    count, one = int(many[1] or many[4]), many["one"] or many["name"]
    return (count, one) if 0 < count <= _MOST and matrix.gpus.gpus_by_name(one) else (1, name)


def _why_unknown(name: str, matrix: Matrix) -> str:
    if said := matrix.gpus.other_name(name):
        return f"{said}."
    near = matrix.gpus.names_near(name)
    hint = f" Did you mean {' or '.join(near[:3])}?" if near else ""
    return f"no GPU of that name is known.{hint} A PCI id, chip, sm_NN or gfxNNNN also works."


def unambiguous(
    description: Description, make: Callable[[Description], Machine], answer: Callable[[Machine], object]
) -> Machine:
    """The described machine. A name may stand for several GPUs that all get one answer: then it is the machine of the
    first, and says so. Raises InputError, as `make` does."""
    try:
        return make(description)
    except AmbiguousGpuError as error:
        machines = [
            unambiguous(_with_choice(description, error.place, identity), make, answer) for identity in error.choices
        ]
        first, *others = machines
        if any(answer(other) != answer(first) for other in others):
            raise
        named = description.gpus[error.place]
        also = ", ".join(identity.arch for identity in error.choices[1:])
        chosen = error.choices[0]
        said = f"{chosen.name} ({chosen.arch}) for {named!r}; for {also} the answer is the same"
        return replace(first, assumed=(said, *first.assumed))


def _with_choice(description: Description, place: int, identity: Identity) -> Description:
    exact = identity.pci_id or identity.chip or identity.arch
    return replace(description, gpus=(*description.gpus[:place], exact, *description.gpus[place + 1 :]))


def processor(identities: Iterable[Identity]) -> str:
    """The processor that comes with one of these GPUs; "" where any may be there."""
    for identity in identities:
        if identity.vendor == "nvidia" and (
            identity.integrated or any(module in identity.name for module in _WITH_GRACE)
        ):
            return "aarch64"
        if identity.vendor == "amd" and identity.integrated:
            return "x86_64"
    return ""


def with_places(identities: tuple[Identity, ...], faults: tuple[LogFault, ...], *, wsl: bool) -> tuple[Gpu, ...]:
    """The GPUs with the places, indexes and nodes that they would have, in the order given. A described kernel log
    tells their addresses. WSL has none, and no nodes: Windows has the GPUs."""
    counted = {"nvidia": 0, "amd": 0}
    addresses = {vendor: _addresses(faults, vendor) for vendor in counted}
    gpus = []
    for slot, identity in enumerate(identities, start=1):
        vendor = identity.vendor
        index = counted[vendor]
        counted[vendor] += 1
        nvidia, logged = vendor == "nvidia", addresses[vendor]
        node = f"/dev/nvidia{index}" if nvidia else f"/dev/dri/renderD{128 + index}"
        address = logged[index] if index < len(logged) else f"0000:{slot:02x}:00.0"
        gpus.append(
            view_as(
                Gpu,
                identity,
                arch=known(identity.arch, SOURCE),
                bdf=None if wsl else address,
                driver=known("dxgkrnl" if wsl else "nvidia" if nvidia else "amdgpu", SOURCE),
                index=index,
                nodes=() if wsl else (node,),
                kfd_node=None if nvidia or wsl else index + 1,
                source=SOURCE,
            )
        )
    return tuple(gpus)


def _addresses(faults: tuple[LogFault, ...], vendor: str) -> list[str]:
    """The addresses that the lines of a vendor's driver name, in their order."""
    theirs = r"amdgpu|kfd|radeon" if vendor == "amd" else r"NVRM|nvidia|nouveau"
    return list(dict.fromkeys(fault.bdf for fault in faults if fault.bdf and re.search(theirs, fault.line)))
