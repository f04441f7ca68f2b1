#!/bin/sh
# Writes what gpudoctor says of this node for the textfile collector of node_exporter. Start it every few minutes by
# cron or a timer, as root:  gpudoctor-textfile.sh /var/lib/node_exporter/textfile
#
# The file changes at once or not at all. If gpudoctor itself fails, the old file stays: alert on the age of
# gpudoctor_node_checked_timestamp_seconds.

GPUDOCTOR=${GPUDOCTOR:-/opt/gpudoctor/bin/gpudoctor}
FILE=$1/gpudoctor.prom

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    "$GPUDOCTOR" check --level driver --python "${GPUDOCTOR%/bin/*}" --format openmetrics \
    --select GPD1 --select GPD203 --select GPD206 --select GPD207 --select GPD208 --select GPD209 >"$FILE.$$"
code=$?
case $code in
    0 | 1 | 3) chmod 0644 "$FILE.$$" && mv "$FILE.$$" "$FILE" ;;
    *)
        rm -f "$FILE.$$"
        echo "gpudoctor: exit $code; $FILE stays as it was" >&2
        exit "$code"
        ;;
esac
