#!/bin/sh
# Start it on every node: a node that is bad starts no worker, and says why before the others wait for it.
#
#   srun --ntasks-per-node=1 ./torchrun.sh --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=head:29400 train.py
#
# preflight becomes torchrun: signals, exit status and variables are torchrun's own. A node that is refused ends with
# 121 (error), 122 (usage) or 123 (unknown).

# What every rank relies on.
export GPUDOCTOR_REQUIRE="${GPUDOCTOR_REQUIRE:-gpu>=1; same-model}"

exec gpudoctor preflight -- torchrun --nproc-per-node="${NPROC_PER_NODE:-gpu}" "$@"
