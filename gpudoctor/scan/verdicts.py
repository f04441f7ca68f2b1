"""Which libraries have no code for a GPU, by the role of each library.

For torch's own libraries half of the containers decides; for any other library one container that runs is enough.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gpudoctor.isa import cuda_runs
from gpudoctor.machine import Gpu
from gpudoctor.scan.library import Library, combined_code

if TYPE_CHECKING:
    from gpudoctor.codeobjects import Code
    from gpudoctor.matrix.questions import Matrix
    from gpudoctor.matrix.rows import LibraryRole

Standing = Literal["missing", "unknown", "beside", "carried"]
"""beside: it has no code for the GPU, and that is no fault."""

HALF = 0.5
_WORST = {"missing": 0, "unknown": 1, "beside": 2, "carried": 3}


class Verdict(Struct, frozen=True):
    """Whether libraries that are judged together have code for a GPU, and why that is a fault or not."""

    libraries: tuple[Library, ...]
    standing: Standing
    why: str

    @property
    def owner(self) -> str:
        """The distribution, else the library itself."""
        return _owner(self.libraries[0])


def judge(libraries: Iterable[Library], gpu: Gpu, others: tuple[Gpu, ...], matrix: Matrix) -> list[Verdict]:
    """A verdict for each library (or group of them), worst first. `others` are GPUs beside this one: libraries for
    their vendor alone are meant for them."""
    libraries = [library for library in libraries if _decidable(library, matrix)]
    kpack = {arch for library in libraries if library.path.endswith(".kpack") for arch in library.code.gfx}
    served: dict[str, set[str]] = {}
    for library in libraries:
        served.setdefault(_owner(library), set()).update(_vendors(library.code))
    groups: dict[tuple[str, str], list[Library]] = {}
    foreign: dict[str, list[Library]] = {}
    for library in libraries:
        if gpu.vendor in (_vendors(library.code) or {gpu.vendor}):
            groups.setdefault(_group(library, matrix), []).append(library)
        else:
            foreign.setdefault(_owner(library), []).append(library)
    found = [
        Verdict(tuple(members), *_judge(members, _role(members[0], matrix), gpu, matrix, kpack))
        for members in groups.values()
    ]
    for owner, members in foreign.items():
        beside = gpu.vendor in served[owner] or any(other.vendor in served[owner] for other in others)
        why = "built for GPUs of the other vendor"
        found.append(Verdict(tuple(members), "beside" if beside else "missing", why))
    return sorted(found, key=lambda verdict: (_WORST[verdict.standing], verdict.owner, verdict.libraries[0].path))


def _group(library: Library, matrix: Matrix) -> tuple[str, str]:
    """The group that a library is judged with; by itself otherwise. torch 1.13 splits its kernels over two libraries.
    bitsandbytes has several, and loads one. Code objects lie in one folder for each GPU."""
    role = _role(library, matrix)
    if library.kind == "code objects" and library.owner:
        return library.owner, library.kind
    if role is not None and role.role in ("half", "alternative"):
        return library.owner or posixpath.dirname(library.path), role.library
    return "", library.path


def _owner(library: Library) -> str:
    return library.owner or library.path


def _decidable(library: Library, matrix: Matrix) -> bool:
    """Whether it has, or should have, code that a driver loads."""
    code = library.code
    if code.sass or code.ptx or code.gfx or code.kpack:
        return True
    role = _role(library, matrix)
    return code.reason is not None and (code.containers > 0 or (role is not None and role.role == "half"))


def _vendors(code: Code) -> set[str]:
    found = {"nvidia"} if code.sass or code.ptx else set()
    return found | ({"amd"} if code.gfx or code.kpack else set())


def _role(library: Library, matrix: Matrix) -> LibraryRole | None:
    return next(matrix.roles_of("/" + library.path), None)


def _judge(
    members: list[Library], role: LibraryRole | None, gpu: Gpu, matrix: Matrix, kpack: set[str]
) -> tuple[Standing, str]:
    code = combined_code([library.code for library in members])
    name = role.role if role else ""
    arch = gpu.arch.value or ""
    runs, by = _runs(code.architectures(HALF if name == "half" else 0.0), gpu, matrix)
    if runs == "no" and code.kpack:
        runs, by = _runs(tuple(kpack), gpu, matrix)
        if runs == "no" and not kpack:
            return "unknown", "its device code is in separate packages, one for each GPU (amd-torch-device-*)"
    if runs == "yes":
        few = code.share.get(by, 1.0)
        note = f", in {few:.1%} of its containers" if few < HALF and name not in ("half", "split") else ""
        return "carried", f"{by} as PTX, compiled at first start{note}" if by.startswith("compute_") else by + note
    if runs == "unknown":
        return "unknown", f"whether {by or 'its code'} runs on {arch or 'this GPU'} is unknown"
    if code.reason is not None:
        return "unknown", code.reason
    if name in ("part", "chosen"):
        note = (role.note if role else "") or "written for other GPUs"
        return "beside", f"no code for this GPU, and that is no fault ({note})"
    if _written_for_chosen_gpus(code):
        return "beside", "written for exactly the GPUs that it has code for"
    partly = _runs(code.architectures(), gpu, matrix)[0] == "yes" if name == "half" else False
    return "missing", "only a few of its kernels are for this GPU" if partly else "no code for this GPU"


def _runs(carried: tuple[str, ...], gpu: Gpu, matrix: Matrix) -> tuple[str, str]:
    """Whether it runs, and by which of the architectures in `carried`."""
    arch = gpu.arch.value or ""
    if gpu.vendor == "amd":
        answer = matrix.gpus.gfx_answer(arch, [item for item in carried if item.startswith("gfx")])
        return answer.runs, answer.by
    row = matrix.gpus.capability(arch)
    answer = cuda_runs(
        arch,
        [item for item in carried if item.startswith("sm_")],
        [item for item in carried if item.startswith("compute_")],
        ptx_readable=True,
        tegra=bool(row and row.tegra),
    )
    return answer.runs, answer.by


def _written_for_chosen_gpus(code: Code) -> bool:
    """Code whose every piece is for one chip or family (sm_90a, sm_100f) leaves the others out on purpose."""
    return bool(code.sass) and not code.ptx and not code.gfx and all(arch[-1] in "af" for arch in code.sass)
