"""The HSA runtime's own answers, from a timed child; on a recorded host the recorded output of rocminfo."""

from __future__ import annotations

import posixpath
import re

from msgspec import Struct

from gpudoctor.host import Host
from gpudoctor.machine import Fact, HsaAgent, HsaApi, LoadPath, Torch, absent, known, unknown
from gpudoctor.probes.pci_address import address_of

LIBRARY = "libhsa-runtime64.so.1"
_USUAL = (f"/opt/rocm/lib/{LIBRARY}", f"/opt/rocm/lib64/{LIBRARY}", f"/opt/rocm/core/lib/{LIBRARY}")


class _Line(Struct, frozen=True):
    """One line of the child (see children/hsa.py)."""

    doing: str = ""
    missing: str = ""
    why: str = ""
    hsa: HsaApi | None = None


def ask_hsa(host: Host, load_path: LoadPath, seconds: float = 20.0, *, torch: Torch | None = None) -> Fact[HsaApi]:
    """Initialise the runtime that torch loads: its own, else the load path's, else the one in /opt/rocm."""
    if not host.live:
        return _recorded_rocminfo(host)
    path = _own_library(host, torch) or _library(host, load_path)
    if path is None:
        return absent(LIBRARY, "no HSA runtime on the load path or in /opt/rocm")
    from gpudoctor.probes.driver_child import run_child

    run = run_child(("hsa", path), seconds, host.environ)
    lines = run.answers(_Line)
    for line in lines:
        if line.hsa is not None:
            return known(line.hsa, path)
        if line.missing:
            return unknown(line.why, path)
    step = next((line.doing for line in reversed(lines) if line.doing), "starting")
    return unknown(f"{step}: {run.failure or 'said nothing'}", path)


def _own_library(host: Host, torch: Torch | None) -> str | None:
    """The copy in torch/lib: torch's libraries find it by their DT_RPATH, before any variable."""
    if torch is None or not torch.own_hsa_runtime:
        return None
    folder = posixpath.join(torch.path, "lib")
    names = (name for name in host.names(folder).value or () if name.startswith("libhsa-runtime64.so"))
    return next((posixpath.join(folder, name) for name in names), None)


def _library(host: Host, load_path: LoadPath) -> str | None:
    found = load_path.first(LIBRARY)
    if found is not None:
        return found.path
    return next((path for path in _USUAL if host.exists(path)), None)


# --- rocminfo --------------------------------------------------------------------------------------

_REFUSED = re.compile(
    r"^(?:Unable to open /dev/kfd.*|ROCk module is NOT loaded.*|Call returned HSA_STATUS_\w+.*)$", re.M
)
_HSA_ERROR, _OUT_OF_RESOURCES = 0x1000, 0x1008


def _recorded_rocminfo(host: Host) -> Fact[HsaApi]:
    result = host.run(("rocminfo",), 0)
    if result.value is None:
        return result.unanswered()
    api = parse_rocminfo(f"{result.value.stdout}\n{result.value.stderr}")
    return known(api, result.source) if api else unknown("nothing in its output is rocminfo's", result.source)


def parse_rocminfo(text: str) -> HsaApi | None:
    """Agents of a rocminfo text, or its refusal as an HSA status; None if it is neither.

    With HSA_OVERRIDE_GFX_VERSION set, the targets are those of the override, not the GPU's.
    """
    agents = tuple(_agent(piece) for piece in re.split(r"^\s*Agent \d+\s*$", text, flags=re.M)[1:])
    if agents:
        return HsaApi(0, library="rocminfo", agents=agents)
    refused = _REFUSED.findall(text)
    if not refused:
        return None
    status = _OUT_OF_RESOURCES if "OUT_OF_RESOURCES" in text else _HSA_ERROR
    return HsaApi(status, message=refused[0].strip()[:300], library="rocminfo")


def _agent(text: str) -> HsaAgent:
    top: dict[str, str] = {}
    for key, value in re.findall(r"^  (\S[^:\n]*):+[ \t]*(.*?)[ \t]*$", text, re.M):
        top.setdefault(key, value)
    kind = {"CPU": "cpu", "GPU": "gpu"}.get(top.get("Device Type", ""), "other")
    place = top.get("BDFID", "")
    number = int(place) if kind == "gpu" and re.fullmatch("[0-9]{1,9}", place) else 0
    domain = top.get("Domain", "0")
    chip = re.search(r"\(0x([0-9a-f]{4})\)", top.get("Chip ID", ""))
    return HsaAgent(
        name=top.get("Name", ""),
        kind=kind,  # type: ignore[arg-type]
        isa=tuple(re.findall(r"^\s+Name:\s+amdgcn-amd-amdhsa--(\S+)", text, re.M)),
        bdf=address_of(int(domain) if re.fullmatch("[0-9]{1,9}", domain) else 0, number) if number else None,
        product=top.get("Marketing Name", "") if kind == "gpu" else "",
        pci_id=f"1002:{chip[1]}" if kind == "gpu" and chip else None,
        memory=_largest_pool(text) if kind == "gpu" else None,
    )


def _largest_pool(text: str) -> int | None:
    """Bytes of an agent's largest global pool: "Size: 25149440(0x17fc000) KB"."""
    sizes = re.findall(r"^\s+Segment:\s+GLOBAL;.*\n\s+Size:\s+(\d{1,15})\(0x[0-9a-f]+\) KB", text, re.M)
    return max((int(size) << 10 for size in sizes), default=None)
