"""Packages that are installed beside a framework."""

from gpudoctor.situation import needs

NEEDS = {
    "bitsandbytes": needs.bitsandbytes,
    "gpu_extensions": needs.computing_packages,
}
