#!/bin/sh
# Starts the sidecar again whenever it ends. The namespace lasts as long as this container, and other containers
# are in it: they would stay in a dead one if the container ended with its program.

# What a node has no interface for must not leave by another, as that of its published ports.
for network in $COSIM_NETWORKS; do
    ip route replace unreachable "$network" metric 4096
done

# The run may have no name yet when the sidecar asks for it. On a network without a way out the engine's name server then
# says nothing for five seconds, and the resolver asks twice; it is asked again soon instead.
export RES_OPTIONS='timeout:1 attempts:1'

pause=1
trap 'trap - TERM INT; kill -TERM "$child"; wait "$child"; exit 0' TERM INT
while :; do
    began=$(date +%s)
    python3 -m cosim.testbed.emulation.sidecar "$@" &
    child=$!
    wait "$child"
    code=$?
    [ $(($(date +%s) - began)) -lt 10 ] || pause=1
    echo "the sidecar of $COSIM_NODE has ended with exit code $code; it is started again in $pause s" >&2
    sleep "$pause" &
    child=$!
    wait "$child"
    [ "$pause" -ge 8 ] || pause=$((2 * pause))
done
