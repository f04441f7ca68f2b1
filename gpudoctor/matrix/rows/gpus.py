"""The GPUs: NVIDIA's by PCI id, chip and compute capability, AMD's by PCI id and gfx target."""

from typing import Literal

from msgspec import Struct

from gpudoctor.matrix.rows.row import Row, Standing


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
    subnet_manager: bool = False
    """The switches of its HGX boards need NVIDIA's NVLink subnet manager beside the fabric manager."""


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
    display: bool = False
    """It has fewer than 8 multiprocessors: its GPUs are made for a screen."""


class NvidiaGpu(Row, frozen=True, kw_only=True):
    """A PCI id of NVIDIA: `pci` is the device part, four lower-case hex digits."""

    pci: str
    chip: str
    name: str
    capability: str | None = None
    """Set if it differs from the chip's (GK110 etc.)."""
    listed_from: tuple[str, ...] = ()
    """The first release of each branch from which on all later ones list it; branches after the last one list it from
    their start. Empty: it came with its chip."""
    aliases: tuple[str, ...] = ()
    datacenter: bool = False
    """Eligible for CUDA forward compatibility (data-centre product)."""
    rare: bool = False
    """Hardly anyone has it: its name means the usual GPU of that name."""


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
    wheels: dict[str, str] = {}
    """Where NVIDIA's torch wheels for a major release of Jetson Linux are."""
    wheel_pythons: dict[str, str] = {}
    """The one Python that these wheels are for: that of the release."""


class Override(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """The values of HSA_OVERRIDE_GFX_VERSION that suit a target."""

    value: str | None = None
    safety: Literal["safe-class", "risky", "unsafe", "none"]
    note: str = ""

    @property
    def within_generation(self) -> bool:
        """Whether it names a target of the GPU's own generation, or one that is known to work."""
        return self.safety in ("safe-class", "risky")

    @property
    def proposed(self) -> str | None:
        """The value, where it may be proposed."""
        return self.value if self.within_generation else None


class GfxTarget(Row, frozen=True, kw_only=True):
    """One gfx target."""

    gfx: str
    family: str
    """RDNA2, CDNA3 ..."""
    chips: str
    kind: Literal["dgpu", "apu", "dcgpu"]
    for_display: bool = False
    """It has two compute units for the screen: who computes has another GPU beside it."""
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


class AmdProcessor(Row, frozen=True, kw_only=True):
    """Processors of AMD with one integrated GPU, by which people call it."""

    gpu: str
    """Its PCI id, the device part."""
    name: str
    """The GPU as AMD calls it."""
    models: tuple[str, ...]
    """5700G, HX 370: the words of the processor's name that no other has."""


class GpuRates(Row, frozen=True, kw_only=True):
    """The best rates of a product, by its vendor's documents."""

    product: str
    gpus: tuple[str, ...]
    """PCI ids, with the revision after a colon if the id alone stands for several products: "1002:744c:c8"."""
    memory_gib: float
    """Memory of the whole GPU: a device with less is a part of one."""
    gb_per_s: float
    """Bandwidth of its own memory, reading and writing together."""
    tflops: dict[str, float]
    """Products per second by torch's name of the type ("float8" for any of 8 bits), summed in float32, without
    sparsity."""


class Interconnect(Row, frozen=True, kw_only=True):
    """What all links of a GPU to the others of its machine carry."""

    name: str
    gpu: str
    """Regular expression for the GPU's name, as the driver prints it."""
    gb_per_s: float
    """In one direction; data sheets print the sum of both."""
    example: str


class OtherName(Row, frozen=True, kw_only=True):
    """Names that stand for no GPU that gpudoctor checks, or for many, with a remark about them."""

    id: str
    name: str
    """Regular expression, searched for in a lower-case name that no GPU has."""
    says: str
    example: str
    """A real name that the pattern matches (checked at load)."""
