"""Problems that smoke kernels showed."""

from gpudoctor.situation import needs

NEEDS = {"failed_kernels": needs.kernels, "other_frameworks": needs.other_kernels}
