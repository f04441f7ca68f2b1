"""Plans every two faults of the tests on one machine, and counts what comes of the plans.

python -m tests.planned_pairs [--every N]
"""

from __future__ import annotations

import sys
from collections import Counter

from tests.support.fault_pairs import pairs
from tests.support.plan_rules import outcome


def main(every: int) -> int:
    """Print the counts and every plan that breaks a rule; 1 where there is one."""
    counts: Counter[str] = Counter()
    for names, machine in pairs(every):
        what, faults = outcome(machine)
        counts[what] += 1
        for fault in faults:
            counts["breaks a rule"] += 1
            print(f"{' + '.join(names)}: {fault}")
    for what, count in counts.most_common():
        print(f"{count:6} {what}")
    return 1 if counts["breaks a rule"] else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[2]) if sys.argv[1:2] == ["--every"] else 1))
