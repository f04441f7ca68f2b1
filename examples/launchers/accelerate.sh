#!/bin/sh
# `accelerate launch` on a machine that was checked: ./accelerate.sh --num_processes 4 train.py

export GPUDOCTOR_REQUIRE="${GPUDOCTOR_REQUIRE:-gpu>=1}"

# The level "quick" computes on each GPU before the first model is loaded.
exec gpudoctor preflight --level "${GPUDOCTOR_LEVEL:-quick}" -- accelerate launch "$@"
