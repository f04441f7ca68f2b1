"""One record per kind of row in `compat_matrix.yaml`.

Every row has `source` and `checked`; a table's head may give them once for all its rows. Versions are texts. A field
that is None or empty means "unknown" unless its comment says otherwise.
"""

# Annotations are no strings here: the decoder would compile each of these three hundred at every start.

import re
from typing import Literal

from msgspec import Struct

Standing = Literal["supported", "tested", "built", "none"]
"""How far a vendor supports something: documented as supported, tested, merely built."""

Basis = Literal["measured", "documented", "derived", "unknown"]
"""Where an architecture list comes from; measured (read from the wheel) is better than documented."""


class Row(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of every row."""

    source: str = ""
    checked: str = ""
    note: str = ""


# --- NVIDIA ---------------------------------------------------------------------------------------


class Capability(Row, frozen=True, kw_only=True):
    """One compute capability."""

    capability: str
    architecture: str
    tegra: bool = False
    first_cuda: str
    last_cuda: str | None = None
    """Last toolkit that compiles for it; None: no toolkit has dropped it."""
    last_branch: str | None = None
    """Last driver branch that runs it; None: no branch has dropped it."""


class Architecture(Row, frozen=True, kw_only=True):
    """One NVIDIA architecture: which kernel modules it needs."""

    architecture: str
    open_modules: Literal["refused", "supported", "required"]
    open_required_on: tuple[str, ...] = ()
    """Products that require the open modules although the architecture works with both."""


class NvidiaChip(Row, frozen=True, kw_only=True):
    chip: str
    capability: str
    architecture: str
    first_driver: str | None = None


class NvidiaGpu(Row, frozen=True, kw_only=True):
    """A PCI id of NVIDIA: `pci` is the device part, four lower-case hex digits."""

    pci: str
    chip: str
    name: str
    capability: str | None = None
    """Set if it differs from the chip's (GK110 etc.)."""
    aliases: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()
    """Those of its names and aliases that stand for more than one capability."""
    datacenter: bool = False
    """Eligible for CUDA forward compatibility (data-centre product)."""


class NvidiaSoc(Row, frozen=True, kw_only=True):
    """A GPU that is no PCI device: Jetson, DGX Spark."""

    name: str
    capability: str
    chip: str | None = None
    aliases: tuple[str, ...] = ()
    device_tree: tuple[str, ...] = ()
    """Parts of /proc/device-tree/compatible that name it ("nvidia,tegra234")."""
    l4t: tuple[str, ...] = ()
    """Major releases of Jetson Linux (L4T) that support it."""
    sbsa_from: str | None = None
    """First release of Jetson Linux with the CUDA of Arm servers (SBSA), on which wheels for aarch64 start."""
    jetson: bool = True


class CudaFloor(Row, frozen=True, kw_only=True):
    """Oldest Linux driver that supports any toolkit of this major (minor-version compatibility)."""

    major: str
    driver: str


class VgpuSeries(Row, frozen=True, kw_only=True):
    """A series of NVIDIA's vGPU types, by the letter at the end of their names (A16-4Q)."""

    series: Literal["A", "B", "C", "Q"]
    use: str
    cuda: bool
    """Whether NVIDIA supports CUDA on it."""


class CudnnFloor(Row, frozen=True, kw_only=True):
    """Oldest GPU that cuDNN releases have kernels for. It is the same for every CUDA that a release is built for."""

    cudnn: str
    """Specifier of cuDNN's version."""
    lowest: str
    """"sm_50"."""


class CudaToolkit(Row, frozen=True, kw_only=True):
    """A toolkit release and the Linux driver it bundles."""

    cuda: str
    update: str | None = None
    driver: str | None = None


class DriverBranch(Row, frozen=True, kw_only=True):
    branch: str
    kind: Literal["production", "new-feature", "long-term", "legacy", "unknown"]
    end_of_life: str | None = None
    last_for: tuple[str, ...] = ()
    latest: str | None = None
    """A release of the branch that is known to exist."""


class NvidiaKernelLimit(Row, frozen=True, kw_only=True):
    """A driver that does not build or run on some kernels (PEP 440 specifiers)."""

    driver: str
    kernel: str
    status: Literal["breaks", "tested"]
    fixed_by: str = ""


# --- AMD ------------------------------------------------------------------------------------------


class Override(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The values of HSA_OVERRIDE_GFX_VERSION that suit a target."""

    value: str | None = None
    safety: Literal["safe-class", "risky", "unsafe", "none"]
    note: str = ""


class GfxTarget(Row, frozen=True, kw_only=True):
    """One gfx target."""

    gfx: str
    family: str
    """RDNA2, CDNA3 ..."""
    chips: str
    kind: Literal["dgpu", "apu", "dcgpu"]
    override: Override
    generic: tuple[str, ...] = ()
    """Generic targets whose code it runs: gfx10-3-generic ..."""
    official_from: str | None = None
    """First ROCm whose documents name a product with it; None: never named."""
    official_to: str | None = None
    official_products: tuple[str, ...] = ()
    """The products, by the ends of their names, if not all."""
    atomics: Literal["always", "never", "unless-firmware"] | None = None
    atomics_firmware: int | None = None
    """MEC firmware that no longer needs PCIe atomics."""
    first_kernel: str | None = None
    """First upstream kernel whose KFD knows it."""
    device_extra: bool = False
    """AMD's multi-arch index has device wheels for it (torch[device-gfxNNNN])."""
    device_level: Standing = "none"
    """How far AMD supports them: release-ready = supported, sanity-tested = tested, build-passing = built."""


class AmdGpu(Row, frozen=True, kw_only=True):
    """A PCI id of AMD: `pci` is the device part, four lower-case hex digits."""

    pci: str
    chip: str
    gfx: str
    name: str
    revisions: dict[str, str] = {}
    aliases: tuple[str, ...] = ()
    ambiguous: tuple[str, ...] = ()


class GpuRates(Row, frozen=True, kw_only=True):
    """The best rates of a product, by its vendor's documents."""

    product: str
    gpus: tuple[str, ...]
    """PCI ids, with the revision after a colon if the id alone stands for several products: "1002:744c:c8"."""
    memory_gib: float
    """Of the whole GPU: a device with less is a part of one."""
    gb_per_s: float
    """Of its own memory, reading and writing together."""
    tflops: dict[str, float]
    """By torch's name of the type, "float8" for any of 8 bits: products summed in float32, without sparsity."""


class RocmRelease(Row, frozen=True, kw_only=True):
    version: str
    date: str | None = None
    gfx: tuple[str, ...] = ()
    """Targets its documents support."""
    kernel_driver: tuple[str, ...] = ()
    """Kernel-driver releases tested with its user space (ROCm numbers up to 6.4, AMD's own from 30.10 on)."""
    driver: str | None = None
    """AMD's own number of the kernel driver that came with it (30.10 with 7.0)."""
    dkms: str | None = None
    """Version of its amdgpu-dkms, where known."""


class RocmDriverWindow(Row, frozen=True, kw_only=True):
    """How far the AMD kernel driver (by the ROCm it came with) and the user space may differ."""

    rocm: str
    """PEP 440 specifier for the user-space release."""
    rule: Literal["releases", "years"]
    span: int


class AmdgpuDkmsLimit(Row, frozen=True, kw_only=True):
    dkms: str | None = None
    rocm: str | None = None
    kernel: str
    status: Literal["breaks", "needed"]
    fixed_by: str = ""


class RocmBlas(Row, frozen=True, kw_only=True):
    """gfx targets for which the rocBLAS / hipBLASLt of a ROCm have kernels; None: unknown."""

    rocm: str
    rocblas: tuple[str, ...] | None = None
    rocblas_basis: Basis = "unknown"
    hipblaslt: tuple[str, ...] | None = None
    hipblaslt_basis: Basis = "unknown"


class HipblasltUse(Row, frozen=True, kw_only=True):
    """From which ROCm (specifier) torch uses hipBLASLt on which targets."""

    rocm: str
    gfx: tuple[str, ...]


# --- torch ----------------------------------------------------------------------------------------


class TorchBuild(Row, frozen=True, kw_only=True):
    """One build of torch: keyed by version, build, origin and platform."""

    version: str
    """"2.9.1"; a nightly row ends in ".dev*"."""
    build: str
    """cpu, cu128, rocm6.4 ..."""
    origin: Literal["pypi", "download.pytorch.org", "nightly", "amd"]
    platform: str
    """linux-x86_64 or linux-aarch64."""
    pythons: tuple[str, ...] = ()
    cuda: str | None = None
    rocm: str | None = None
    archs: tuple[str, ...] | None = None
    """sm_NN or gfxNNNN; empty for CPU builds; None: unknown."""
    ptx: tuple[str, ...] | None = None
    partial: tuple[str, ...] = ()
    linalg: tuple[str, ...] | None = None
    cudnn: str | None = None
    """Its cuDNN pin, if it differs from that of the package index's own build of its release."""
    glibc: str | None = None
    """Oldest glibc that its wheel runs with, if it differs from its release's."""
    basis: Basis = "unknown"
    late_archs: tuple[str, ...] = ()
    """Architectures that nightlies of this release may lack if they are older than `late_from`."""
    late_from: str | None = None
    """Day in the version of a nightly, "20251108"."""
    index: str | None = None
    """id of its wheel index; by default `pytorch-stable` for download.pytorch.org."""
    community: bool = False
    extra: str | None = None
    """An extra that selects device code: "device-{gfx}" makes torch[device-gfx1031]."""


class OldTorchBuilds(Row, frozen=True, kw_only=True):
    """Builds of torch before 1.13 that share their architectures. They are judged where they are installed or
    described, and never proposed."""

    torch: tuple[str, ...]
    """Versions, without local part."""
    builds: tuple[str, ...]
    """cu102, rocm4.2 ..."""
    pythons: tuple[str, ...]
    archs: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    on_pypi: bool = False
    """Whether it is the package index's own build, too."""
    basis: Basis = "documented"


class NgcImage(Row, frozen=True, kw_only=True):
    """What a release of NVIDIA's PyTorch image holds."""

    release: str
    """"25.10"."""
    cuda: str


class OtherName(Row, frozen=True, kw_only=True):
    """Names that stand for no GPU that is checked, or for many: what to say of them."""

    id: str
    name: str
    """Regular expression, searched for in a lower-case name that no GPU has."""
    says: str
    example: str
    """A real name that the pattern matches (checked at load)."""


class PublishedArchs(Row, frozen=True, kw_only=True):
    """The GPUs for which a publisher outside the wheel indexes builds torch; used if its libraries cannot be read."""

    origin: Literal["ngc", "conda-forge", "jetson"]
    cuda: str | None = None
    """PEP 440 specifier of the CUDA of the build."""
    release: str | None = None
    """PEP 440 specifier of the publisher's own release: "25.10" for a version that ends in .nv25.10."""
    archs: tuple[str, ...]
    ptx: tuple[str, ...] = ()
    basis: Basis = "documented"


class WheelIndex(Row, frozen=True, kw_only=True):
    """Where builds are published: `template` gets {base}, {build}, {rocm}."""

    id: str
    base: str
    template: str = "{base}/{build}"
    kind: Literal["stable", "nightly", "test"] = "stable"
    builds: tuple[str, ...] = ()
    extra: str | None = None
    """An extra that selects device code, "device-{gfx}"."""

    def __post_init__(self) -> None:
        _check_index(self.base, self.template)


class WheelIndexOverride(Struct, frozen=True, forbid_unknown_fields=True):
    """`wheel_index` of an overlay: a mirror that replaces pytorch-stable."""

    base: str
    template: str = "{base}/{build}"

    def __post_init__(self) -> None:
        _check_index(self.base, self.template)


def index_url(template: str, base: str, build: str, rocm: str) -> str:
    """The index that a template names; an absolute path becomes a URL, which all tools accept."""
    if base.startswith("/"):
        from urllib.parse import quote

        base = f"file://{quote(base)}"
    return template.format(base=base.rstrip("/"), build=build, rocm=rocm)


def _check_index(base: str, template: str) -> None:
    from gpudoctor.spelling import is_index

    check_template(template, "base", "build", "rocm")
    if re.search("[?#]", base) or not is_index(index_url(template, base, "cu128", "6.4")):
        raise ValueError(
            "base and template make no index that pip and uv can use: a base is a URL (http, https or file:///, in "
            "ASCII) or an absolute path"
        )


def check_template(template: str, *names: str) -> None:
    """Raise ValueError for a template with anything but these names in braces."""
    for name in names:
        template = template.replace(f"{{{name}}}", "")
    if "{" in template or "}" in template:
        *others, last = (f"{{{name}}}" for name in names)
        raise ValueError(f"a template is made of {', '.join(others)}{' and ' if others else ''}{last}")


class Distribution(Row, frozen=True, kw_only=True):
    """A release of a Linux distribution, as image names write it, and what it brings."""

    distribution: str
    """Regular expression for the part of an image's name, such as "ubuntu24.04" or "ubuntu:noble", and for the id and
    version of os-release with a hyphen."""
    example: str
    """A real spelling that the pattern matches (checked at load)."""
    python: str | None = None
    libc: str | None = None
    """Its C library: "glibc 2.31" or "musl"."""


class DistributionKin(Row, frozen=True, kw_only=True):
    """A Linux distribution by the ID of its os-release, with its ID_LIKE."""

    id: str
    like: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """How people call it, too, in lower case."""


class BaseImage(Row, frozen=True, kw_only=True):
    """What a public container image holds. A field that is None may be a group of the pattern: the tag tells.
    A group `distribution` names a row of that table, which gives the image's Python."""

    image: str
    """Regular expression for the whole name with its tag, without the registry docker.io and library/."""
    example: str
    """A real name that the pattern matches (checked at load)."""
    vendor: Literal["nvidia", "amd"] | None = None
    """The vendor whose GPUs it is made for."""
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    """The Python behind `python3` or `pip`, if the image or its distribution brings one."""
    torch: str | None = None
    """Version without local part, if it holds a torch and the tag tells."""
    release: str | None = None
    """The publisher's own number of the image (NGC)."""
    origin: Literal["pypi", "download.pytorch.org", "ngc", "amd", "unknown"] = "unknown"
    """The origin of its torch."""
    has_torch: bool = False
    compiler: bool = False
    """It has nvcc."""
    libraries: bool = False
    """It has CUDA's libraries (cuBLAS, cuSPARSE ...) below /usr/local/cuda."""
    musl: bool = False


class TorchRelease(Row, frozen=True, kw_only=True):
    """What one torch release pins and needs."""

    version: str
    cuda: str | None = None
    """CUDA of the package index's own build."""
    cudnn: str | None = None
    nccl: str | None = None
    triton: str | None = None
    pins: Literal["cu11", "cu12", "cuda-toolkit", "none"] = "none"
    """How its wheels name their CUDA packages: three generations."""
    requires_python: str = ""
    glibc: str | None = None
    """Oldest glibc that its wheels run with, by their platform tag or the symbols that they need."""
    all_builds_of: tuple[str, ...] = ()
    """Platforms of which torch_builds has every build of this release: what is missing there was never published."""


class Companion(Row, frozen=True, kw_only=True):
    """The packages that match a torch release. A specifier that is None pins nothing."""

    torch: str
    torchvision: str | None = None
    torchvision_torch: str | None = None
    """The torch that this torchvision requires."""
    torchvision_also: tuple[str, ...] = ()
    torchaudio: str | None = None
    torchaudio_torch: str | None = None
    triton: str | None = None
    triton_rocm_package: str | None = None


class StableCompanion(Row, frozen=True, kw_only=True):
    """A companion with a stable ABI: from `version` on it works with every torch that matches."""

    package: str
    version: str
    torch: str


class TorchDependent(Row, frozen=True, kw_only=True):
    """A package that is compiled against torch (xformers, flash-attn, vllm ...) and the torch it was built for."""

    package: str
    version: str
    """PEP 440 specifier of the package."""
    torch: str
    """PEP 440 specifier of torch."""
    slug: str


class LibraryRole(Row, frozen=True, kw_only=True):
    """What it means that a library has no code for a GPU. A library without a row works if some container runs, and
    does not work if none does."""

    library: str
    """Regular expression for the end of its path, from a slash on."""
    role: Literal["half", "split", "part", "chosen", "alternative"]
    """half: built for what half of its containers have; split: kernels split by GPU on purpose; part: few operations
    need it; chosen: written for chosen GPUs; alternative: one of several, of which the right one is loaded."""


class ExtensionLibrary(Row, frozen=True, kw_only=True):
    """The library that a package computes with: `check` reads what it was built for."""

    package: str
    folder: str = ""
    """Below site-packages."""
    library: str
    """Regular expression for its whole file name."""
    least: str | None = None
    """Oldest NVIDIA architecture that its source can be compiled for."""
    build: str | None = None
    """Variables for compiling it here for a GPU; {digits} is "120", {dotted} "12.0"."""
    build_amd: str | None = None
    """The same for AMD; {gfx} is "gfx1100"."""


class LateLibrary(Row, frozen=True, kw_only=True):
    """Libraries that another one opens only when it needs them (dlopen), by the first part of their names."""

    opener: str
    """"libcudnn" of libcudnn.so.9."""
    version: str | None = None
    """Specifier of the opener's version; None: every one."""
    opens: tuple[str, ...]
    dispatches: bool = False
    """The opener's own functions only call those of the same names in these libraries."""


class ImportedModules(Row, frozen=True, kw_only=True):
    """Top-level modules that torch loads: a file of such a name in an earlier folder takes their place."""

    id: str
    modules: tuple[str, ...]
    standard: bool = False
    """They belong to Python's standard library."""
    at_import: bool = False
    """`import torch` fails without them; the others are loaded later, or may be absent."""
    package: str = ""
    """The distribution that brings them; empty: one of their own name."""
    torch: str = ""
    """Releases of torch, as a specifier; empty: all."""


class PackageConflict(Row, frozen=True, kw_only=True):
    """Two installed packages that conflict, by specifier (numpy 2 with old torch ...)."""

    package: str
    version: str
    other: str
    other_version: str
    slug: str


class RequirementUse(Row, frozen=True, kw_only=True):
    """What breaks where a package lacks something that it requires. A requirement without a row breaks a part."""

    package: str
    requires: str
    """A regular expression for the whole normalised name of what is required."""
    breaks: Literal["import", "gpu", "part", "nothing"]
    """The package's import; GPU work, once a library is loaded; only the `part` that is named; or nothing."""
    version: str | None = None
    """PEP 440 specifier of the package; None: every version."""
    part: str = ""
    """What fails, as a person knows it: "torch.compile"."""
    spare: str | None = None
    """A regular expression for the names of its files that nothing misses."""
    optional: bool = False
    """The package does not require it, but uses it where it is installed."""


# --- known issues and texts -------------------------------------------------------------------------


class IssueVariable(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None
    """None: set to anything."""


class IssuePackage(Struct, frozen=True, forbid_unknown_fields=True):
    package: str
    specifier: str | None = None


class PatchedKernel(Struct, frozen=True, forbid_unknown_fields=True):
    """Kernels of a distribution that have a fix before the upstream release does."""

    flavour: str
    """The end of their release: "oem" of 6.14.0-1018-oem."""
    kernel: str
    """PEP 440 specifier of those that have it."""


class IssueCondition(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All given fields must match; versions are PEP 440 specifiers."""

    vendor: Literal["nvidia", "amd"] | None = None
    gfx: tuple[str, ...] = ()
    sm: tuple[str, ...] = ()
    torch: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    kernel: str | None = None
    patched_kernels: tuple[PatchedKernel, ...] = ()
    """Kernels whose number `kernel` names, but which their distribution has patched."""
    driver: str | None = None
    """NVIDIA driver, or amdgpu-dkms version for AMD rows."""
    container: bool | None = None
    platform: str | None = None
    packages: tuple[IssuePackage, ...] = ()
    env: tuple[IssueVariable, ...] = ()
    min_gpus: int | None = None
    firmware: str | None = None
    """Version of the linux-firmware package (its date); counts if `loaded_firmware` cannot be compared."""
    loaded_firmware: dict[str, tuple[int, ...]] = {}
    """Versions of the firmware that the GPU runs: {mes: [0x83]}."""


class KnownIssue(Row, frozen=True, kw_only=True):
    """`trigger` facts: the condition is enough. workload: only some operations are affected, so it is a note until
    the symptom is seen. symptom: counts only with its log line or error text."""

    id: str
    slug: str = "known-issue"
    severity: Literal["error", "warning", "note"]
    trigger: Literal["facts", "workload", "symptom"]
    when: IssueCondition
    symptom: str
    workaround: str
    variables: dict[str, str] = {}
    """Variables of the workaround, if it is one."""
    log: str | None = None
    """id of a kernel-log pattern that is its symptom."""
    xid: int | None = None
    """Number of the Xid that is its symptom."""
    status: str = ""
    confidence: Literal["high", "medium", "low"] = "medium"


class LogPattern(Row, frozen=True, kw_only=True):
    """A meaningful line of the kernel log. `pattern` is a Python regular expression with the optional groups bdf, xid
    and detail."""

    id: str
    vendor: Literal["nvidia", "amd", "any"]
    pattern: str
    meaning: str
    slug: str | None = None
    needle: str = ""
    """Text that every match holds; computed when the YAML is read, nobody writes it."""
    example: str
    """A real line that the pattern matches (checked at load)."""
    counterexamples: tuple[str, ...] = ()


class XidMeaning(Row, frozen=True, kw_only=True):
    xid: int
    meaning: str
    kind: Literal["hardware", "application", "driver", "information"]
    slug: str | None = None


class ErrorPattern(Row, frozen=True, kw_only=True):
    """An error text that tells its cause, as torch, the runtimes, their libraries or the loader print it. The first
    matching row wins, so exact texts come before general ones. `pattern` is searched for line by line."""

    id: str
    vendor: Literal["nvidia", "amd", "any"]
    """The vendor whose GPUs print it; torch for ROCm says "CUDA error" in places."""
    pattern: str
    meaning: str
    slug: str
    also: tuple[str, ...] = ()
    """Slugs of other causes that print this text, likeliest first: the facts decide which of them is the cause."""
    ask: str = ""
    """A question or a command whose answer decides between the causes."""
    stops: bool = False
    """With this cause nothing on the GPU computes."""
    about: Literal["gpu", "environment"] = "gpu"
    of_program: bool = False
    """In a message that a person saw it is about that program, which may ask for too much of a sound machine."""
    of_import: bool = False
    """It counts where torch was imported; in what another program printed it may be about anything."""
    severity: Literal["error", "warning", "note"] = "error"
    """Severity of a kernel that fails for this cause; a note names a text that explains no failure."""
    workaround: str
    variables: dict[str, str] = {}
    """Variables of the workaround, if it is one."""
    needles: tuple[str, ...] = ()
    """Every match holds one of these texts; computed when the YAML is read, nobody writes it."""
    example: str
    """A real text that the pattern matches (checked at load)."""
    counterexamples: tuple[str, ...] = ()


class WslSupport(Row, frozen=True, kw_only=True):
    """ROCm on WSL: GPUs (gfx) and ROCm releases that AMD's documents name."""

    rocm: str
    gfx: tuple[str, ...] = ()
    excluded_names: tuple[str, ...] = ()
    dxg_variable: bool = False
    """HSA_ENABLE_DXG_DETECTION=1 must be set (before ROCm 7.13; later releases look for /dev/dxg themselves)."""
    runtime: Literal["wheel", "system", "none"] = "wheel"
    """Whose libhsa-runtime64 finds the GPU: torch's own, ROCm for WSL's in its place, or none of that release."""


class Tables(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole matrix, table by table, in the order of the YAML file."""

    version: str
    capabilities: tuple[Capability, ...] = ()
    architectures: tuple[Architecture, ...] = ()
    nvidia_chips: tuple[NvidiaChip, ...] = ()
    nvidia_gpus: tuple[NvidiaGpu, ...] = ()
    nvidia_socs: tuple[NvidiaSoc, ...] = ()
    cuda_floors: tuple[CudaFloor, ...] = ()
    vgpu_series: tuple[VgpuSeries, ...] = ()
    cudnn_floors: tuple[CudnnFloor, ...] = ()
    cuda_toolkits: tuple[CudaToolkit, ...] = ()
    driver_branches: tuple[DriverBranch, ...] = ()
    nvidia_kernel_limits: tuple[NvidiaKernelLimit, ...] = ()
    gfx_targets: tuple[GfxTarget, ...] = ()
    amd_gpus: tuple[AmdGpu, ...] = ()
    other_names: tuple[OtherName, ...] = ()
    gpu_rates: tuple[GpuRates, ...] = ()
    rocm_releases: tuple[RocmRelease, ...] = ()
    rocm_driver_window: tuple[RocmDriverWindow, ...] = ()
    amdgpu_dkms_limits: tuple[AmdgpuDkmsLimit, ...] = ()
    rocm_blas: tuple[RocmBlas, ...] = ()
    hipblaslt_use: tuple[HipblasltUse, ...] = ()
    wsl_rocm: tuple[WslSupport, ...] = ()
    torch_builds: tuple[TorchBuild, ...] = ()
    old_torch_builds: tuple[OldTorchBuilds, ...] = ()
    ngc_images: tuple[NgcImage, ...] = ()
    published_archs: tuple[PublishedArchs, ...] = ()
    wheel_indexes: tuple[WheelIndex, ...] = ()
    wheel_index: WheelIndexOverride | None = None
    distributions: tuple[Distribution, ...] = ()
    distribution_kin: tuple[DistributionKin, ...] = ()
    base_images: tuple[BaseImage, ...] = ()
    torch_releases: tuple[TorchRelease, ...] = ()
    companions: tuple[Companion, ...] = ()
    stable_companions: tuple[StableCompanion, ...] = ()
    torch_dependents: tuple[TorchDependent, ...] = ()
    library_roles: tuple[LibraryRole, ...] = ()
    extension_libraries: tuple[ExtensionLibrary, ...] = ()
    late_libraries: tuple[LateLibrary, ...] = ()
    imported_modules: tuple[ImportedModules, ...] = ()
    package_conflicts: tuple[PackageConflict, ...] = ()
    requirement_uses: tuple[RequirementUse, ...] = ()
    log_patterns: tuple[LogPattern, ...] = ()
    error_patterns: tuple[ErrorPattern, ...] = ()
    xids: tuple[XidMeaning, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()


KEYS: dict[str, tuple[str, ...]] = {
    "capabilities": ("capability",),
    "architectures": ("architecture",),
    "nvidia_chips": ("chip",),
    "nvidia_gpus": ("pci",),
    "nvidia_socs": ("name",),
    "cuda_floors": ("major",),
    "vgpu_series": ("series",),
    "cudnn_floors": ("cudnn",),
    "cuda_toolkits": ("cuda", "update"),
    "driver_branches": ("branch",),
    "nvidia_kernel_limits": ("driver", "kernel"),
    "gfx_targets": ("gfx",),
    "amd_gpus": ("pci",),
    "other_names": ("id",),
    "gpu_rates": ("product",),
    "rocm_releases": ("version",),
    "rocm_driver_window": ("rocm",),
    "amdgpu_dkms_limits": ("dkms", "rocm", "kernel"),
    "rocm_blas": ("rocm",),
    "hipblaslt_use": ("rocm",),
    "wsl_rocm": ("rocm",),
    "torch_builds": ("version", "build", "origin", "platform"),
    "old_torch_builds": ("torch", "builds"),
    "ngc_images": ("release",),
    "published_archs": ("origin", "cuda", "release"),
    "wheel_indexes": ("id",),
    "distributions": ("distribution",),
    "distribution_kin": ("id",),
    "base_images": ("image",),
    "torch_releases": ("version",),
    "companions": ("torch",),
    "stable_companions": ("package",),
    "torch_dependents": ("package", "version", "torch"),
    "library_roles": ("library",),
    "extension_libraries": ("package",),
    "late_libraries": ("opener", "version"),
    "imported_modules": ("id",),
    "package_conflicts": ("package", "version", "other", "other_version"),
    "requirement_uses": ("package", "requires", "version"),
    "log_patterns": ("id",),
    "error_patterns": ("id",),
    "xids": ("xid",),
    "known_issues": ("id",),
}
"""The tables of rows, and the fields that distinguish a row from the others of its table."""
