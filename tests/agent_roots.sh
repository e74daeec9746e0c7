#!/usr/bin/env bash
# Runs the release of tunesmith-agent in the root of Debian 11 and in one with busybox alone: attempts whose server has a name in
# /etc/hosts, a name in DNS behind search domains, and a certificate of a private authority. Needs root, debootstrap, busybox-static,
# openssl and python3.
#
#   tests/agent_roots.sh [PROGRAM]     without PROGRAM, cargo xtask agent builds it
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" != --inside ]; then
    program=${1:-}
    if [ -z "$program" ]; then
        cargo xtask agent
        program=${CARGO_TARGET_DIR:-target}/release/tunesmith-agent
    fi
    roots=${TUNESMITH_AGENT_ROOTS:-$(mktemp -d)}
    [ -d "$roots/debian11" ] || debootstrap --variant=minbase bullseye "$roots/debian11" http://deb.debian.org/debian >/dev/null
    mkdir -p "$roots/busybox"/{bin,dev,etc,proc,tmp}
    cp /bin/busybox "$roots/busybox/bin/busybox"
    ln -sf busybox "$roots/busybox/bin/sh"
    for root in debian11 busybox; do
        cp "$program" "$roots/$root/tunesmith-agent"
    done
    # Ports 53 and 443 of a loopback interface of its own.
    exec unshare --net --mount --fork "$0" --inside "$roots"
fi
ip link set lo up
# As in every container.
for root in "$2"/{debian11,busybox}; do
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
done
exec python3 tests/agent_roots.py "$2"
