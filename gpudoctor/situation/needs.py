"""What a check needs before it has anything to say; without it the engine does not run the check.

What all checks of a file need stands once in `NEEDS` of their folder; the file is imported only where it is there.
"""

from __future__ import annotations

from gpudoctor.situation import Situation

_NETWORK = ("NCCL_", "GLOO_", "TP_")
_ROCM = "HSA_OVERRIDE_GFX_VERSION"


def torch(situation: Situation) -> bool:
    """A torch is installed."""
    return situation.torch is not None


def torch_or_cudnn(situation: Situation) -> bool:
    """A torch is installed, or the cuDNN of NVIDIA's wheels, which other frameworks use."""
    return situation.torch is not None or any(
        one.name.startswith("nvidia-cudnn") for one in situation.machine.packages
    )


def torch_and_gpu(situation: Situation) -> bool:
    """A torch is installed, and there is a usable GPU."""
    return situation.torch is not None and bool(situation.usable)


def rocm_torch(situation: Situation) -> bool:
    """A torch built for AMD's GPUs is installed."""
    return situation.built_for == "amd"


def rocm(situation: Situation) -> bool:
    """A torch built for AMD's GPUs is installed; or none is, but a ROCm that other programs use."""
    return situation.built_for == "amd" or (situation.torch is None and bool(situation.machine.amd.rocm.value))


def kernels(situation: Situation) -> bool:
    """Smoke kernels of torch were requested."""
    return situation.machine.smoke is not None and situation.machine.smoke.framework == "torch"


def other_kernels(situation: Situation) -> bool:
    """Another framework was asked to compute."""
    return situation.machine.smoke is not None and situation.machine.smoke.framework != "torch"


def errors(situation: Situation) -> bool:
    """A person saw error messages."""
    return bool(situation.machine.errors)


def requirements(situation: Situation) -> bool:
    """A job requires something of this machine."""
    return bool(situation.required)


def pasted(situation: Situation) -> bool:
    """The machine was read from a text that somebody pasted."""
    return situation.machine.pasted is not None


def gpus(situation: Situation) -> bool:
    """A GPU is known, whether it is usable or not."""
    return bool(situation.machine.gpus)


def gpus_or_driver(situation: Situation) -> bool:
    """A GPU is known, or NVIDIA's driver answered."""
    return bool(situation.machine.gpus or situation.machine.nvidia.answered)


def nvidia_gpus_or_wsl(situation: Situation) -> bool:
    """A GPU of NVIDIA's is known, or the machine is a Linux inside Windows, which has its own driver libraries."""
    return bool(situation.machine.of_vendor("nvidia")) or wsl(situation)


def gpu_traces(situation: Situation) -> bool:
    """A GPU is known, or a trace of one: a node, a loaded module, a driver's answer, a line in the kernel log."""
    machine = situation.machine
    nvidia, amd = machine.nvidia, machine.amd
    driver = nvidia.answered or nvidia.module.known or nvidia.modules_loaded.value
    nodes = nvidia.nodes.value or amd.kfd.value or amd.render_nodes.value
    return bool(machine.gpus or driver or nodes or log_faults(situation))


def gpus_or_selection(situation: Situation) -> bool:
    """A GPU is known, or a variable selects the visible ones."""
    return gpus(situation) or any(name.endswith("_VISIBLE_DEVICES") for name in situation.machine.variables)


def driver_asked(situation: Situation) -> bool:
    """The driver was asked, not only its files read."""
    return situation.machine.level != "static"


def torch_without_record(situation: Situation) -> bool:
    """There is a torch without a whole record of its installation, or something is left of one."""
    if situation.torch is None:
        return situation.environment is not None and bool(situation.environment.torch_remains)
    record = situation.machine.installed("torch")
    return record is None or bool(record.lacks)


def amd_gpus(situation: Situation) -> bool:
    """A GPU of AMD's is known."""
    return bool(situation.machine.of_vendor("amd"))


def several_gpus(situation: Situation) -> bool:
    """More than one GPU is usable."""
    return len(situation.usable) > 1


def no_usable_gpu(situation: Situation) -> bool:
    """No GPU is usable, or none of the vendor that a framework is for."""
    vendor = situation.expected_vendor
    return not (situation.usable_of(vendor) if vendor else situation.usable)


def unserved_gpus(situation: Situation) -> bool:
    """A GPU has no driver."""
    if not situation.machine.gpus:
        return False
    from gpudoctor.situation.no_kernel_driver import unserved

    return bool(unserved(situation, "nvidia") or unserved(situation, "amd"))


def log_faults(situation: Situation) -> bool:
    """The kernel log has lines about faults."""
    log = situation.machine.kernel_log.value
    return log is not None and bool(log.faults)


def rdma(situation: Situation) -> bool:
    """The machine has RDMA devices."""
    return bool(situation.machine.network.rdma.value)


def network_settings(situation: Situation) -> bool:
    """A variable or a file tells programs which network to take."""
    variables = situation.machine.variables
    return bool(situation.machine.network.settings) or any(name.startswith(_NETWORK) for name in variables)


def wsl(situation: Situation) -> bool:
    """The machine is a Linux inside Windows."""
    return situation.machine.system.wsl.known


def container(situation: Situation) -> bool:
    """This is a container, or may be one."""
    return not situation.machine.system.container.absent


def job(situation: Situation) -> bool:
    """This is a batch job."""
    return situation.machine.system.job.value is not None


def rocm_settings(situation: Situation) -> bool:
    """A variable steers ROCm, or the memory of a torch for it; and no torch is installed but one for AMD's GPUs."""
    named = any(name.startswith(_ROCM) or name.endswith("ALLOC_CONF") for name in situation.machine.variables)
    return named and (situation.torch is None or situation.built_for == "amd")


def other_frameworks(situation: Situation) -> bool:
    """A framework beside torch is installed."""
    return bool(situation.others)


def imports(situation: Situation) -> bool:
    """The import of another module than torch was tried."""
    return situation.environment is not None and bool(situation.environment.frameworks.imports)


def framework_variables(situation: Situation) -> bool:
    """A variable is set that the matrix judges, or the user has no name."""
    tables = situation.matrix.tables
    names = {name for row in tables.framework_variables for name in row.variables}
    names |= {row.variable for row in tables.framework_flags}
    settings = situation.environment.frameworks.settings if situation.environment else ()
    nameless = situation.machine.system.user.nameless
    return bool(settings) or nameless or any(situation.variable(name) is not None for name in names)


def programs(situation: Situation) -> bool:
    """A program without Python computes on GPUs, and there is a usable one."""
    return bool(situation.machine.programs and situation.usable)


def computing_packages(situation: Situation) -> bool:
    """A package has libraries that compute on GPUs; or nobody sees them, and it was described or the matrix tells
    its oldest GPU, or how it comes without them."""
    environment, packages = situation.environment, situation.machine.packages
    if environment and environment.extensions:
        return True
    rows = situation.matrix.tables.extension_builds if packages else ()
    told = {row.package for row in rows if row.least or row.skip}
    return any(one.path == "description" or one.name in told for one in packages)


def unlinked_packages(situation: Situation) -> bool:
    """The files of a package are links that lead nowhere."""
    return any(one.unlinked for one in situation.machine.packages)


def packages_installed_twice(situation: Situation) -> bool:
    """A package has two whole records in one folder."""
    return any(one.twins for one in situation.machine.packages)


def interrupted_installs(situation: Situation) -> bool:
    """An install, update or uninstall of a package other than torch was interrupted."""
    environment = situation.environment
    lacking = any("METADATA" in one.lacks and one.path.endswith(".dist-info") for one in situation.machine.packages)
    return lacking or (environment is not None and bool(environment.interrupted))


def packages_for_others(situation: Situation) -> bool:
    """The wheel of a package was made for another Python or platform."""
    return any(one.made_for for one in situation.machine.packages)


def locked_programs(situation: Situation) -> bool:
    """Nobody may execute a program of a package."""
    return any(one.locked for one in situation.machine.packages)


def start_faults(situation: Situation) -> bool:
    """Python stops before it imports anything."""
    return bool(situation.environment and situation.environment.start_faults)


def environment_faults(situation: Situation) -> bool:
    """Python does not start, or pip starts that of another environment."""
    return start_faults(situation) or bool(situation.environment and situation.environment.pip_starts)


def unreadable_environment(situation: Situation) -> bool:
    """This user may not read what is installed."""
    return bool(situation.environment and situation.environment.torch.state == "denied")


def cdi_specifications(situation: Situation) -> bool:
    """The host describes its GPUs to container engines."""
    return bool(situation.machine.nvidia.cdi.value)


def damaged_packages(situation: Situation) -> bool:
    """Files of a package are gone or cut short."""
    return any(one.damaged for one in situation.machine.packages)


def shadows(situation: Situation) -> bool:
    """A folder or file takes the place of a module that a framework imports."""
    return situation.environment is not None and bool(situation.environment.shadows)


def bitsandbytes(situation: Situation) -> bool:
    """bitsandbytes is installed beside a torch."""
    return situation.torch is not None and situation.machine.installed("bitsandbytes") is not None
