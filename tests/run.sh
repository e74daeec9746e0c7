#!/usr/bin/env bash
# Runs every check and every test, after installing what they need. Exits with an error if any fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/setup.sh

# Tests count system calls, make certificates and run containers.
need "command -v strace" strace
need "command -v openssl" openssl
need "command -v podman" podman
need "command -v runc" runc
need "[ -x /bin/busybox ] && ! ldd /bin/busybox" busybox-static
need "[ -e /etc/ssl/certs/ca-certificates.crt ]" ca-certificates
install_missing

for tool in fmt clippy; do
    if ! cargo "$tool" --version >/dev/null 2>&1; then
        echo "error: cargo $tool is missing; add it with: rustup component add rustfmt clippy" >&2
        exit 1
    fi
done
# About two minutes on two cores, once.
if ! cargo deny --version >/dev/null 2>&1; then
    cargo install --locked --version 0.20.2 cargo-deny
fi

exec cargo xtask ci
