"""Initialise the HSA runtime and list its agents: {"hsa": answer} in the shape of gpudoctor.machine.HsaApi."""

from __future__ import annotations

import ctypes

from .channel import load, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Attributes of hsa_agent_get_info and hsa_isa_get_info_alt (hsa.h, hsa_ext_amd.h).
AGENT_NAME, AGENT_DEVICE = 0, 17
AMD_CHIP, AMD_BDF, AMD_PRODUCT, AMD_DOMAIN = 0xA000, 0xA006, 0xA009, 0xA00F
ISA_NAME_LENGTH, ISA_NAME = 0, 1
KINDS = {0: "cpu", 1: "gpu"}


class Handle(ctypes.Structure):
    """hsa_agent_t and hsa_isa_t."""

    _fields_ = [("handle", ctypes.c_uint64)]


VISIT = ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.c_void_p)


def message(hsa: Any, status: int) -> str:
    """The library's own text for a status."""
    text = ctypes.c_char_p()
    if status == 0 or hsa.hsa_status_string(ctypes.c_int(status), ctypes.byref(text)) != 0:
        return ""
    return (text.value or b"").decode("utf-8", "replace")


def isas(hsa: Any, agent: Handle) -> list[str]:
    """Targets that the agent accepts: "gfx1100", "gfx11-generic", "gfx90a:sramecc+:xnack-"."""
    found: list[str] = []

    def visit(isa: Handle, _: Any) -> int:
        length = ctypes.c_uint32()
        if hsa.hsa_isa_get_info_alt(isa, ISA_NAME_LENGTH, ctypes.byref(length)) == 0:
            name = ctypes.create_string_buffer(min(length.value, 4096) + 1)
            if hsa.hsa_isa_get_info_alt(isa, ISA_NAME, name) == 0:
                found.append(name.value.decode("utf-8", "replace").rpartition("--")[2])
        return 0

    hsa.hsa_agent_iterate_isas(agent, VISIT(visit), None)
    return found


def describe(hsa: Any, agent: Handle) -> dict[str, Any]:
    """One agent, in the shape of gpudoctor.machine.HsaAgent."""
    name = ctypes.create_string_buffer(256)
    kind, bdf, domain = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32()
    hsa.hsa_agent_get_info(agent, AGENT_NAME, name)
    hsa.hsa_agent_get_info(agent, AGENT_DEVICE, ctypes.byref(kind))
    found: dict[str, Any] = {"name": name.value.decode("utf-8", "replace"), "kind": KINDS.get(kind.value, "other")}
    if kind.value == 1:
        product = ctypes.create_string_buffer(256)
        if hsa.hsa_agent_get_info(agent, AMD_PRODUCT, product) == 0 and product.value:
            found["product"] = product.value.decode("utf-8", "replace")
        if hsa.hsa_agent_get_info(agent, AMD_BDF, ctypes.byref(bdf)) == 0:
            hsa.hsa_agent_get_info(agent, AMD_DOMAIN, ctypes.byref(domain))
            place = bdf.value
            found["bdf"] = f"{domain.value:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
        chip = ctypes.c_uint32()
        if hsa.hsa_agent_get_info(agent, AMD_CHIP, ctypes.byref(chip)) == 0:
            found["pci_id"] = f"1002:{chip.value:04x}"
        found["isa"] = isas(hsa, agent)
    return found


def ask_hsa(path: str) -> None:
    """Open the runtime at this path, initialise it, list its agents."""
    hsa = load("hsa", path)
    if hsa is None:
        return
    say(doing="hsa_init")
    status = hsa.hsa_init()
    answer: dict[str, Any] = {"status": status, "message": message(hsa, status), "library": path}
    if status != 0:
        say(hsa=answer)
        return
    say(doing="listing the agents")
    agents: list[Handle] = []

    def visit(agent: Handle, _: Any) -> int:
        agents.append(Handle(agent.handle))
        return 0

    hsa.hsa_iterate_agents(VISIT(visit), None)
    answer["agents"] = [describe(hsa, agent) for agent in agents]
    say(hsa=answer)
