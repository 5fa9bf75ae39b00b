#!/bin/sh
# Make the Secrets of zelda-rl in the cluster, where they are not there yet. Values are made here, shown to
# nobody and kept in no file:   sh gitops/make-secrets.sh
# With External Secrets (components/external-secrets) they come from a vault instead.
set -eu
namespace=${NAMESPACE:-zelda-rl}
kubectl=${KUBECTL:-oc}

value() { head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

make() { # make NAME KEY=VALUE...; the values go by a file descriptor, not by the command line
  name=$1
  shift
  if $kubectl -n "$namespace" get secret "$name" >/dev/null 2>&1; then
    echo "secret $name: there already"
    return
  fi
  {
    printf 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\nstringData:\n' "$name" "$namespace"
    for pair in "$@"; do printf '  %s: "%s"\n' "${pair%%=*}" "${pair#*=}"; done
  } | $kubectl create -f -
}

$kubectl get namespace "$namespace" >/dev/null 2>&1 || $kubectl create namespace "$namespace"
make questloop-store S3_ACCESS_KEY="questloop" S3_SECRET_KEY="$(value)"
make questloop-fleet POSTGRESQL_PASSWORD="p$(value)" NATS_TOKEN="t$(value)"
make questloop-proxy cookie="$(value | cut -c 1-32)"
