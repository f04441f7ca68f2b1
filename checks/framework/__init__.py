"""The framework itself: its build, its installation, its import."""

from gpudoctor.check import Need
from gpudoctor.situation import Situation, needs

NEEDS: dict[str, Need[Situation]] = {
    "environment_broken": needs.environment_faults,
    "framework_import": needs.imports,
    "framework_damaged": lambda situation: any(one.damaged for one in situation.machine.packages),
    "framework_libraries": needs.other_frameworks,
    "framework_variables": needs.framework_variables,
    "module_shadowed": needs.shadows,
    "other_frameworks": needs.other_frameworks,
    "programs": lambda situation: bool(situation.machine.programs and situation.usable),
    "rocm_coverage": needs.rocm,
    "seen_errors": lambda situation: bool(situation.machine.errors),
    "circumstance": needs.pasted,
    "torch_coverage": lambda situation: situation.torch is not None and bool(situation.usable),
    "torch_import": needs.torch,
    "torch_interrupted": needs.torch_without_record,
    "torch_vendor": needs.torch,
}
