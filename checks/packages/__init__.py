"""Packages that are installed beside a framework."""

from gpudoctor.check import Need
from gpudoctor.situation import Situation, needs

NEEDS: dict[str, Need[Situation]] = {
    "bitsandbytes": lambda situation: (
        situation.torch is not None and situation.machine.installed("bitsandbytes") is not None
    ),
    "companions": needs.torch,
    "copied_installs": lambda situation: any(
        one.unlinked or one.locked or one.made_for for one in situation.machine.packages
    ),
    "extension_libraries": needs.computing_packages_and_gpus,
    "extension_torch": needs.computing_packages_and_torch,
    "gpu_extensions": needs.computing_packages_and_gpus,
    "installed_twice": lambda situation: any(one.twins for one in situation.machine.packages),
    "interrupted_installs": needs.interrupted_installs,
    "jax_plugins": lambda situation: any(one.name.startswith("jax-cuda") for one in situation.machine.packages),
    "other_vendor": needs.torch,
    "same_releases": needs.packages_of_one_release,
    "shared_files": needs.packages_with_the_same_files,
    "torch_dependents": needs.torch,
}
