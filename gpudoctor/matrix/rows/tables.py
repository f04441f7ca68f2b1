"""All tables of `compat_matrix.yaml`, and the kinds of their rows."""

from msgspec import Struct

from gpudoctor.matrix.rows.amd import *
from gpudoctor.matrix.rows.gpus import *
from gpudoctor.matrix.rows.images import *
from gpudoctor.matrix.rows.installing import *
from gpudoctor.matrix.rows.issues import *
from gpudoctor.matrix.rows.nvidia import *
from gpudoctor.matrix.rows.packages import *
from gpudoctor.matrix.rows.programs import *
from gpudoctor.matrix.rows.row import *
from gpudoctor.matrix.rows.torch import *


class Tables(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole matrix, table by table, in the order of the YAML file."""

    version: str
    capabilities: tuple[Capability, ...] = ()
    architectures: tuple[Architecture, ...] = ()
    nvidia_chips: tuple[NvidiaChip, ...] = ()
    nvidia_gpus: tuple[NvidiaGpu, ...] = ()
    nvidia_socs: tuple[NvidiaSoc, ...] = ()
    cuda_floors: tuple[CudaFloor, ...] = ()
    forward_compatibility: tuple[ForwardCompatibility, ...] = ()
    image_requirements: tuple[ImageRequirement, ...] = ()
    vgpu_series: tuple[VgpuSeries, ...] = ()
    cudnn_floors: tuple[CudnnFloor, ...] = ()
    cuda_toolkits: tuple[CudaToolkit, ...] = ()
    driver_branches: tuple[DriverBranch, ...] = ()
    driver_packages: tuple[DriverPackage, ...] = ()
    driver_instructions: tuple[DriverInstruction, ...] = ()
    nvidia_kernel_limits: tuple[NvidiaKernelLimit, ...] = ()
    gfx_targets: tuple[GfxTarget, ...] = ()
    amd_gpus: tuple[AmdGpu, ...] = ()
    amd_processors: tuple[AmdProcessor, ...] = ()
    other_names: tuple[OtherName, ...] = ()
    gpu_rates: tuple[GpuRates, ...] = ()
    interconnects: tuple[Interconnect, ...] = ()
    rocm_releases: tuple[RocmRelease, ...] = ()
    rocm_driver_window: tuple[RocmDriverWindow, ...] = ()
    amdgpu_dkms_limits: tuple[AmdgpuDkmsLimit, ...] = ()
    amdgpu_dkms_systems: tuple[AmdgpuDkmsSystem, ...] = ()
    firmware_packages: tuple[FirmwarePackage, ...] = ()
    module_keys: tuple[ModuleKey, ...] = ()
    distribution_kernels: tuple[DistributionKernel, ...] = ()
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
    removed_images: tuple[RemovedImage, ...] = ()
    removed_packages: tuple[RemovedPackage, ...] = ()
    torch_releases: tuple[TorchRelease, ...] = ()
    companions: tuple[Companion, ...] = ()
    stable_companions: tuple[StableCompanion, ...] = ()
    torch_dependents: tuple[TorchDependent, ...] = ()
    wheel_pages: tuple[WheelPage, ...] = ()
    runtime_libraries: tuple[RuntimeLibraries, ...] = ()
    torch_users: tuple[TorchUser, ...] = ()
    library_roles: tuple[LibraryRole, ...] = ()
    extension_builds: tuple[ExtensionBuild, ...] = ()
    gpu_lists: tuple[GpuList, ...] = ()
    late_libraries: tuple[LateLibrary, ...] = ()
    imported_modules: tuple[ImportedModules, ...] = ()
    optional_modules: tuple[OptionalModules, ...] = ()
    removed_modules: tuple[RemovedModules, ...] = ()
    version_files: tuple[VersionFile, ...] = ()
    package_folders: tuple[PackageFolders, ...] = ()
    frameworks: tuple[Framework, ...] = ()
    frameworks_on_torch: tuple[Framework, ...] = ()
    framework_builds: tuple[FrameworkBuild, ...] = ()
    program_builds: tuple[ProgramBuild, ...] = ()
    framework_variables: tuple[FrameworkVariable, ...] = ()
    framework_flags: tuple[FrameworkFlags, ...] = ()
    programs: tuple[GpuProgram, ...] = ()
    shared_files: tuple[SharedFiles, ...] = ()
    installer_targets: tuple[InstallerTargets, ...] = ()
    package_conflicts: tuple[PackageConflict, ...] = ()
    requirement_uses: tuple[RequirementUse, ...] = ()
    same_releases: tuple[SameRelease, ...] = ()
    log_patterns: tuple[LogPattern, ...] = ()
    error_patterns: tuple[ErrorPattern, ...] = ()
    told_circumstances: tuple[ToldCircumstance, ...] = ()
    told_concepts: tuple[ToldConcept, ...] = ()
    foreign_words: tuple[ForeignWords, ...] = ()
    plain_words: tuple[ForeignWords, ...] = ()
    xids: tuple[XidMeaning, ...] = ()
    known_issues: tuple[KnownIssue, ...] = ()


_SEVERAL_FIELDS = {
    "cuda_toolkits": ("cuda", "update"),
    "driver_packages": ("distribution", "branch", "flavour"),
    "driver_instructions": ("distribution", "flavour"),
    "nvidia_kernel_limits": ("driver", "kernel"),
    "amd_processors": ("gpu", "name", "models"),
    "amdgpu_dkms_limits": ("dkms", "rocm", "kernel"),
    "amdgpu_dkms_systems": ("distribution", "kernel"),
    "distribution_kernels": ("distribution", "kernel"),
    "torch_builds": ("version", "build", "origin", "platform"),
    "old_torch_builds": ("torch", "builds"),
    "published_archs": ("origin", "cuda", "release"),
    "removed_packages": ("package", "channel"),
    "torch_dependents": ("package", "version", "torch"),
    "runtime_libraries": ("package", "version"),
    "late_libraries": ("opener", "version"),
    "framework_builds": ("framework", "package", "version", "vendor"),
    "framework_variables": ("framework", "variables", "pattern", "ptx"),
    "framework_flags": ("framework", "variable"),
    "package_conflicts": ("package", "version", "other", "other_version"),
    "requirement_uses": ("package", "requires", "version"),
}
"""What distinguishes the rows of a table where the first field alone does not."""


def _first_field(table: str) -> str:
    kind: type[Row] = Tables.__annotations__[table].__args__[0]
    return next(name for name in kind.__struct_fields__ if name not in Row.__struct_fields__)


KEYS: dict[str, tuple[str, ...]] = {
    name: _SEVERAL_FIELDS.get(name) or (_first_field(name),)
    for name in Tables.__struct_fields__
    if name not in ("version", "wheel_index")
}
"""The tables of rows, and the fields that distinguish a row from the others of its table."""
