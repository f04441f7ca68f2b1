#!/bin/sh
# A Slurm epilog (slurm.conf: Epilog=/etc/slurm/epilog.d/gpudoctor.sh): a job may leave a GPU broken. Slurm drains a
# node whose epilog ends with anything but 0, as for the prolog, which judges the node here, too.

exec "${GPUDOCTOR_PROLOG:-/etc/slurm/prolog.d/gpudoctor.sh}"
