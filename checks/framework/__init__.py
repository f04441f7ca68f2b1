"""The framework itself: its build, its installation, its import."""

from gpudoctor.situation import needs

NEEDS = {
    "environment_broken": needs.environment_faults,
    "environment_unreadable": needs.unreadable_environment,
    "framework_import": needs.imports,
    "framework_damaged": needs.damaged_packages,
    "framework_libraries": needs.other_frameworks,
    "framework_variables": needs.framework_variables,
    "module_shadowed": needs.shadows,
    "other_frameworks": needs.other_frameworks,
    "programs": needs.programs,
    "rocm_coverage": needs.rocm,
    "seen_errors": needs.errors,
    "circumstance": needs.pasted,
    "torch_coverage": needs.torch_and_gpu,
    "torch_import": needs.torch,
    "torch_interrupted": needs.torch_without_record,
    "torch_vendor": needs.torch,
}
