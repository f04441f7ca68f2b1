"""What a check needs before it has anything to say; without it the engine does not run the check.

What all checks of a file need stands once in `NEEDS` of their folder; the file is imported only where it is there.
"""

from __future__ import annotations

from gpudoctor.machine import OVERRIDE
from gpudoctor.matrix.questions import sharing
from gpudoctor.situation import Situation

_NETWORK = ("NCCL_", "GLOO_", "TP_")


def torch(situation: Situation) -> bool:
    """A torch is installed."""
    return situation.torch is not None


def torch_or_cudnn(situation: Situation) -> bool:
    """A torch is installed, or the cuDNN of NVIDIA's wheels, which other frameworks use."""
    return situation.torch is not None or any(
        one.name.startswith("nvidia-cudnn") for one in situation.machine.packages
    )


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


def pasted(situation: Situation) -> bool:
    """The machine was read from a text that somebody pasted."""
    return situation.machine.pasted is not None


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
    return bool(situation.machine.gpus) or any(
        name.endswith("_VISIBLE_DEVICES") for name in situation.machine.variables
    )


def torch_without_record(situation: Situation) -> bool:
    """There is a torch without a whole record of its installation, or something is left of one."""
    if situation.torch is None:
        return bool(situation.environment.torch_remains)
    record = situation.machine.installed("torch")
    return record is None or bool(record.lacks)


def no_usable_gpu(situation: Situation) -> bool:
    """No GPU is usable, or none of the vendor that a framework is for."""
    vendor = situation.expected_vendor
    return not (situation.usable_of(vendor) if vendor else situation.usable)


def unserved_gpus(situation: Situation) -> bool:
    """A GPU has no driver."""
    if not situation.machine.gpus:
        return False
    from gpudoctor.situation.working_gpus import gpus_without_driver

    return bool(gpus_without_driver(situation, "nvidia") or gpus_without_driver(situation, "amd"))


def log_faults(situation: Situation) -> bool:
    """The kernel log has lines about faults."""
    return bool(situation.machine.log_faults)


def container(situation: Situation) -> bool:
    """This is a container, or nobody knows whether it is one."""
    return not situation.machine.system.container.absent


def rdma(situation: Situation) -> bool:
    """The machine has RDMA devices."""
    return bool(situation.machine.network.rdma.value)


def network_settings(situation: Situation) -> bool:
    """A variable or a file tells programs which network to take."""
    variables = situation.machine.variables
    return bool(situation.machine.network.settings) or any(name.startswith(_NETWORK) for name in variables)


def wsl(situation: Situation) -> bool:
    """The machine is a Linux inside Windows."""
    return situation.in_wsl


def rocm_settings(situation: Situation) -> bool:
    """A variable steers ROCm, or the memory of a torch for it; and no torch is installed but one for AMD's GPUs."""
    named = any(name.startswith(OVERRIDE) or name.endswith("ALLOC_CONF") for name in situation.machine.variables)
    return named and (situation.torch is None or situation.built_for == "amd")


def other_frameworks(situation: Situation) -> bool:
    """A framework beside torch is installed."""
    return bool(situation.others)


def imports(situation: Situation) -> bool:
    """The import of another module than torch was tried."""
    return bool(situation.environment.frameworks.imports)


def framework_variables(situation: Situation) -> bool:
    """A variable is set that the matrix judges, or the user has no name."""
    tables = situation.matrix.tables
    names = {name for row in tables.framework_variables for name in row.variables}
    names |= {row.variable for row in tables.framework_flags}
    settings = situation.environment.frameworks.settings
    nameless = situation.machine.system.user.nameless
    return bool(settings) or nameless or any(situation.variable(name) is not None for name in names)


def computing_packages(situation: Situation) -> bool:
    """A package has libraries that compute on GPUs; or nobody sees them, and it is only named or the matrix tells
    its oldest GPU, or how it comes without them."""
    packages = situation.machine.packages
    if situation.machine.extensions:
        return True
    rows = situation.matrix.tables.extension_builds if packages else ()
    told = {row.package for row in rows if row.least or row.skip}
    return any(one.only_named or one.name in told for one in packages)


def computing_packages_and_gpus(situation: Situation) -> bool:
    """Such a package, and a GPU that it can be used with."""
    return bool(situation.usable) and computing_packages(situation)


def computing_packages_and_torch(situation: Situation) -> bool:
    """Such a package, and a torch that it may have been compiled against."""
    return situation.torch is not None and computing_packages(situation)


def packages_with_the_same_files(situation: Situation) -> bool:
    """Two installed packages own the same files."""
    return any(sharing(row, situation.machine.packages) for row in situation.matrix.tables.shared_files)


def packages_of_one_release(situation: Situation) -> bool:
    """A package is installed that others must have the release of."""
    return any(situation.machine.installed(row.package) for row in situation.matrix.tables.same_releases)


def interrupted_installs(situation: Situation) -> bool:
    """An install, update or uninstall of a package other than torch was interrupted."""
    lacking = any("METADATA" in one.lacks and one.path.endswith(".dist-info") for one in situation.machine.packages)
    return lacking or bool(situation.environment.interrupted)


def start_faults(situation: Situation) -> bool:
    """Python stops before it imports anything."""
    return bool(situation.environment.start_faults)


def environment_faults(situation: Situation) -> bool:
    """Python does not start, Python or pip is of another environment, or this user may not read what is installed."""
    environment = situation.environment
    another = bool(environment.pip_starts or environment.instead_of)
    return another or environment.torch.state == "denied" or start_faults(situation)


def shadows(situation: Situation) -> bool:
    """A folder or file takes the place of a module that a framework imports."""
    return bool(situation.environment.shadows)
