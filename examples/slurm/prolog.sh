#!/bin/sh
# A Slurm prolog (slurm.conf: Prolog=/etc/slurm/prolog.d/gpudoctor.sh) that judges the node, and nothing of the user's.
#
# Slurm drains a node whose prolog ends with anything but 0, and puts the job back into the queue. So:
#   - only the checks of hardware, kernel and driver (GPD1) and of the device nodes (GPD203, GPD206 to GPD209)
#     count;
#   - the job's variables are left out (env -i): a user who hides all GPUs drains nothing;
#   - no environment of a user is examined, only the one that gpudoctor was installed into;
#   - only what is known to be wrong with the node (1), and a driver that does not answer in time (3), drain it.
#     A mistake in this file (2) or in gpudoctor itself (70, GPD902) is logged and lets the job start. GPUs that
#     could not be listed for it leave gpu>=1 open (3).

GPUDOCTOR=${GPUDOCTOR:-/opt/gpudoctor/bin/gpudoctor}
# What every job of this partition may rely on, for example "gpu==8; same-model".
REQUIRE=${GPUDOCTOR_NODE_REQUIRE:-gpu>=1}

told=$(env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin GPUDOCTOR_REQUIRE="$REQUIRE" \
    "$GPUDOCTOR" preflight --level driver --python "${GPUDOCTOR%/bin/*}" \
    --select GPD1 --select GPD203 --select GPD206 --select GPD207 --select GPD208 --select GPD209 \
    --ignore "GPD902=a fault of gpudoctor is no fault of the node" 2>&1)
code=$?

if [ "$code" -ne 0 ]; then
    command -v logger >/dev/null && logger -t gpudoctor -p daemon.err -- "exit $code: $told"
    echo "gpudoctor: exit $code: $told" >&2
fi
case $code in
    1 | 3) exit 1 ;;
    *) exit 0 ;;
esac
