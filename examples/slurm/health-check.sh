#!/bin/sh
# A HealthCheckProgram (slurm.conf: HealthCheckProgram=/etc/slurm/gpudoctor-health.sh, HealthCheckInterval=600,
# HealthCheckNodeState=IDLE,CYCLE). Slurm ignores its exit code: a bad node is drained here, by the judgement of the
# prolog. A node that is drained already keeps the reason that a person gave.

PROLOG=${GPUDOCTOR_PROLOG:-/etc/slurm/prolog.d/gpudoctor.sh}
NODE=${SLURMD_NODENAME:-$(hostname -s)}

told=$("$PROLOG" 2>&1) && exit 0
case $(sinfo --noheader --nodes "$NODE" --format %T) in
    drain*) exit 0 ;;
esac
reason=$(printf '%s' "$told" | tr -cs '[:alnum:][:space:].,:;()\[\]/_+-' ' ' | tr '\n' ' ' | cut -c1-200)
scontrol update nodename="$NODE" state=drain reason="$reason"
