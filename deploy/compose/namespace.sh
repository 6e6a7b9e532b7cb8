#!/bin/sh
# The namespace that runs are in, made where it is missing. What its worker searches by, the worker
# registers itself.
set -eu

temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d
# The server lets a new namespace be known a little later than it has made it.
tries=60
until temporal workflow count --namespace "$TEMPORAL_NAMESPACE"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ]
    sleep 1
done
