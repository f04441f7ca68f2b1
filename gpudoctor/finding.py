"""What checks say: findings with evidence, and remedies as closed data types, not commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from msgspec import Struct

from gpudoctor.machine import Distribution, Fact, Gpu, Torch, TorchCopy, Vendor

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The worst first."""
Verdict = Literal["ok", "warning", "error", "unknown"]
Confidence = Literal["certain", "likely", "possible"]
Risk = Literal["safe", "replaces", "root", "reboot"]
ModuleFlavour = Literal["open", "proprietary"]
Layer = Literal["driver", "access", "runtime", "framework", "packages", "smoke", "image", "fleet", "gpudoctor"]
"""Where a problem lies, from the metal up: hardware, kernel and driver; nodes and containers; CUDA and ROCm; the
frameworks; what is installed beside them; kernels that ran; recipes of images; gpudoctor itself."""


class Device(Struct, frozen=True):
    """The GPU that a finding is about (JSON of the report)."""

    vendor: Vendor
    index: int | None
    bdf: str | None
    name: str
    mig: str | None = None

    @classmethod
    def of(cls, gpu: Gpu) -> Device:
        return cls(vendor=gpu.vendor, index=gpu.index, bdf=gpu.bdf, name=gpu.name)


class Evidence(Struct, frozen=True):
    """One fact that a finding rests on, and where it was read."""

    fact: str
    value: str
    source: str = ""

    @classmethod
    def of(cls, name: str, fact: Fact[Any]) -> Evidence:
        value = fact.state if fact.value is None else str(fact.value)
        return cls(fact=name, value=value if not fact.why else f"{value} ({fact.why})", source=fact.source)

    @classmethod
    def of_torch(cls, torch: Torch) -> Evidence:
        return cls(fact="torch.version", value=torch.version, source=torch.source)

    @classmethod
    def of_copy(cls, copy: TorchCopy) -> Evidence:
        return cls(fact="torch.copy", value=f"{copy.version or 'no version'} ({copy.via})", source=copy.path)

    @classmethod
    def of_package(cls, package: Distribution) -> Evidence:
        return cls(fact=package.name, value=package.version, source=package.path)

    @classmethod
    def of_version(cls, package: Distribution) -> Evidence:
        return cls(fact=f"{package.name}.version", value=package.version, source=package.path)


# --- remedies --------------------------------------------------------------------------------------
# `fix.plan` turns each into steps for the place at hand (pip, uv, conda; apt, dnf, zypper, pacman).


class Remedy(Struct, frozen=True, tag=True, tag_field="kind", kw_only=True):
    """One part of a fix, in the terms of the field."""

    why: str = ""


class ReplaceTorch(Remedy, frozen=True):
    """Put this build of torch in the place of the present one, with the companions that are installed.

    `build` is the local part (cu128, rocm6.4, cpu); `index_url` "" stands for the package index's own
    build. `extra` is for indexes that choose device code by an extra ("device-gfx1031").
    """

    version: str
    build: str
    origin: str
    index_url: str = ""
    extra: str = ""
    companions: tuple[tuple[str, str], ...] = ()
    """(name, version) of torchvision and torchaudio, where installed; versions without local part."""
    carries: str = ""
    """What of the machine it serves: "sm_120 natively"."""


class ReplacePackage(Remedy, frozen=True):
    """Install this version of one package (torchvision, numpy ...); `specifier` such as "==0.24.1" or "<2"."""

    name: str
    specifier: str
    index_url: str = ""
    local: str = ""
    indirect: bool = False
    """Only another package requires it: a project does not name it itself."""
    extra: str = ""
    """Extras to install with it: "cuda12", "cuda,cudnn"."""


class ReinstallPackage(Remedy, frozen=True):
    """Install the same version again over damaged or mixed files."""

    name: str
    version: str
    index_url: str = ""


class RemovePackage(Remedy, frozen=True):
    name: str
    indirect: bool = False
    """What brought it is replaced by the same fix: a project that does not name it lets it go."""


class AllowExecution(Remedy, frozen=True):
    """Give programs of installed packages the right to be executed."""

    paths: tuple[str, ...]


class SetVariable(Remedy, frozen=True):
    """Set a variable for the examined environment (never silently in a start-up file)."""

    name: str
    value: str


class UnsetVariable(Remedy, frozen=True):
    name: str


class InstallDriver(Remedy, frozen=True):
    """Install an NVIDIA driver of `branch` ("580"), at least `minimum`, in this module flavour."""

    branch: str
    minimum: str = ""
    flavour: ModuleFlavour = "open"


class InstallRocmDriver(Remedy, frozen=True):
    """Install or rebuild the AMD kernel driver: amdgpu-dkms, or the kernel's own where `inbox`."""

    inbox: bool = False
    kernel: str = ""
    """The kernel that is installed for it; "" for the running one."""


class InstallKernel(Remedy, frozen=True):
    """Install the kernel of this version that the distribution ships, and its headers; it runs after a reboot."""

    version: str


class RebuildModule(Remedy, frozen=True):
    """Build the DKMS module for the running kernel (headers included). `tree` is what DKMS calls it, if not `module`
    (Debian: nvidia-current)."""

    module: str
    version: str = ""
    tree: str = ""


class LoadModule(Remedy, frozen=True):
    """Load a kernel module; `reload` unloads it first."""

    module: str
    reload: bool = False
    options: tuple[str, ...] = ()


class UnblockModule(Remedy, frozen=True):
    """Take away the rule that keeps `module` from loading; `source` is the file that holds it."""

    module: str
    source: str


class BlockModule(Remedy, frozen=True):
    """Keep `module` (nouveau, nova_core) from taking the GPU."""

    module: str


class StartService(Remedy, frozen=True):
    service: str
    package: str = ""
    """To install first; with its exact version, where that matters."""


class InstallSystemPackage(Remedy, frozen=True):
    """A package of the distribution, by its purpose: nvidia-container-toolkit, python-headers, linux-firmware ..."""

    purpose: str
    version: str = ""


class JoinGroup(Remedy, frozen=True):
    group: str


class AddContainerFlags(Remedy, frozen=True):
    """Start the container again with what is missing: "nvidia", "amd", "shm" or "ipc"."""

    wants: Literal["nvidia", "amd", "shm", "utility", "recreate"]
    group_id: int | None = None
    """Group of /dev/kfd on the host, where it is known."""


class Reboot(Remedy, frozen=True):
    """Start the machine again."""


class Manual(Remedy, frozen=True):
    """Something a person must do (firmware setup, hardware, another image)."""

    text: str
    risk: Risk = "safe"
    elsewhere: bool = False
    """It leads to another system: what else could be changed here would not help."""


VariableRemedy = SetVariable | UnsetVariable
PackageRemedy = ReplaceTorch | ReplacePackage | ReinstallPackage | RemovePackage
SystemRemedy = (
    InstallDriver
    | InstallRocmDriver
    | InstallKernel
    | RebuildModule
    | LoadModule
    | UnblockModule
    | BlockModule
    | StartService
    | InstallSystemPackage
    | JoinGroup
    | Reboot
)
AnyRemedy = PackageRemedy | AllowExecution | VariableRemedy | SystemRemedy | AddContainerFlags | Manual


class Fix(Struct, frozen=True):
    """One complete fix of a finding: what to do, in order. A finding lists the best one first."""

    title: str
    remedies: tuple[AnyRemedy, ...]

    @property
    def by_hand(self) -> bool:
        """Whether a person does all of it: what comes of it cannot be foreseen."""
        return all(isinstance(remedy, Manual) for remedy in self.remedies)


def together(fix: Fix, other: Fix) -> Fix:
    """One fix of two, in this order."""
    return Fix(f"{fix.title}, and {other.title[:1].lower()}{other.title[1:]}", (*fix.remedies, *other.remedies))


def by_hand(title: str, text: str, risk: Risk = "safe", *, elsewhere: bool = False) -> Fix:
    """A fix that a person makes."""
    return Fix(title, (Manual(text, risk=risk, elsewhere=elsewhere),))


def unset(variable: str, why: str = "") -> Fix:
    """The fix that takes a variable away."""
    return Fix(f"Unset {variable}", (UnsetVariable(variable, why=why),))


SEEN = "Seen:"
"""Stands before what a program printed, at the end of a message."""
KERNEL = "smoke kernel"
"""Source of what a smoke kernel showed."""
ABSENCE = "absence"
"""For a symptom: every error of driver and access may be its cause."""


class Finding(Struct, frozen=True):
    """One fault or remark. `id`, `slug`, `layer` and `framework` are filled in by the check that yields it."""

    severity: Severity
    message: str
    """One or two sentences for a person: what is wrong, in the field's own terms."""
    saw: str = ""
    want: str = ""
    subject: str = ""
    """What it is about: "GPU 0 NVIDIA GeForce RTX 5090", "torch 2.6.0+cu124"."""
    device: Device | None = None
    """The one GPU that it is about."""
    devices: tuple[Device, ...] = ()
    """Every GPU that it is about; empty: the environment or the machine. Of one GPU a check gives `device` alone."""
    nodes: tuple[str, ...] = ()
    """The nodes of a fleet that it is about."""
    confidence: Confidence = "certain"
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    refs: tuple[str, ...] = ()
    supersedes: tuple[str, ...] = ()
    """Slugs of findings that are effects of this one or vanish with its repair: they come after it."""
    possible_causes: tuple[str, ...] = ()
    """A fault that was seen, not inferred: slugs of what may cause it, likeliest first. Where one of these was found
    for the same GPU, this is its evidence, not a second finding. ABSENCE stands for whatever takes GPUs away."""
    ranked: bool = False
    """`slug` is only the likeliest of the possible causes: if nothing decides, the next ones are told as notes."""
    fallback: bool = False
    """Said only where no deeper cause was found: an error of driver or access, or what names it in `supersedes`."""
    id: str = ""
    slug: str = ""
    layer: Layer = "gpudoctor"
    framework: str | None = None
    """The framework that it is about: "torch"."""
    caused_by: tuple[str, ...] = ()
    """Ids of the findings that it is an effect of; the engine fills it in."""


def can_be_foreseen(findings: Iterable[Finding]) -> bool:
    """Whether a fix of any of them changes something that a record holds."""
    return any(not fix.by_hand for finding in findings for fix in finding.fixes)


class NotJudged(Struct, frozen=True):
    """A question that could not be answered. It `matters` if it decides about a usable GPU."""

    why: str
    matters: bool = False
    fallback: bool = False
    """The same as for a finding."""
    if_well: bool = False
    """Asked only where no error and no warning was found."""
    id: str = ""
    slug: str = ""
    layer: Layer = "gpudoctor"


def verdict_of(findings: Iterable[Finding], questions: Iterable[NotJudged]) -> Verdict:
    """How a machine stands with these problems and open questions."""
    severities = {finding.severity for finding in findings}
    if "error" in severities:
        return "error"
    if any(question.matters for question in questions):
        return "unknown"
    return "warning" if "warning" in severities else "ok"


def unique_ids(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Their ids, each once."""
    return tuple(dict.fromkeys(finding.id for finding in findings))


def gpu_subject(gpu: Gpu) -> str:
    """How a GPU is named in a report: "GPU 0 NVIDIA GeForce RTX 5090"."""
    number = "GPU" if gpu.index is None else f"GPU {gpu.index}"
    return f"{number} {gpu.name}"
