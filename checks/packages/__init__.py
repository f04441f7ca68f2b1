"""Packages that are installed beside a framework."""

from gpudoctor.situation import needs

NEEDS = {
    "bitsandbytes": needs.bitsandbytes,
    "companions": needs.torch,
    "dangling_links": needs.unlinked_packages,
    "extension_libraries": needs.computing_packages,
    "gpu_extensions": needs.computing_packages,
    "installed_twice": needs.packages_installed_twice,
    "interrupted_installs": needs.interrupted_installs,
    "locked_programs": needs.locked_programs,
    "other_python": needs.packages_for_others,
    "other_vendor": needs.torch,
    "torch_dependents": needs.torch,
}
