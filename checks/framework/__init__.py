"""The framework itself: its build, its installation, its import."""

from gpudoctor.situation import needs

NEEDS = {
    "other_frameworks": needs.other_frameworks,
    "programs": needs.programs,
    "rocm_coverage": needs.rocm,
    "seen_errors": needs.errors,
    "told_circumstance": needs.pasted,
}
