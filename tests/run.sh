#!/usr/bin/env bash
# Runs every check and every test, after installing what they need. Exits with an error if any fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. .ci/setup.sh

# For compiled crates, Python environments and test files. On a full disk, hundreds of tests fail with misleading reasons.
needed_gib=9
for folder in . "${TMPDIR:-/tmp}"; do
    free_kib=$(df --output=avail -k "$folder" | tail -n 1)
    if [ "$((free_kib >> 20))" -lt "$needed_gib" ]; then
        echo "error: the tests need $needed_gib GiB of free disk space, $folder has $((free_kib >> 20)) GiB" >&2
        exit 1
    fi
done

# For tests that count system calls, create certificates or run containers.
need "command -v strace" strace
need "command -v openssl" openssl
# For tests of the store in a database.
need "ls /usr/lib/postgresql/*/bin/initdb" postgresql-15
need "command -v setpriv" util-linux
need "command -v podman" podman
need "command -v runc" runc
# A cluster of two nodes for the tests of the executor for Slurm.
need "command -v slurmctld" slurmctld
need "command -v slurmd" slurmd
need "command -v sbatch" slurm-client
need "command -v munged" munge
# For a network namespace with a Ray cluster, and the small program that it gets.
need "command -v ip" iproute2
need "command -v strip" binutils
# The guide shows requests with curl.
need "command -v curl" curl
# A page of another site tries to use a server.
need "command -v chromium" chromium
# TypeScript and ESLint check the scripts of the console, HTML-validate its pages.
need "command -v npm" nodejs npm
need "[ -x /bin/busybox ] && ! ldd /bin/busybox" busybox-static
# For tests that draw on a terminal, and for programs in the background of a trial.
need "command -v script" bsdutils
need "command -v setsid" util-linux
install_missing

# A minimal toolchain has neither.
for component in rustfmt clippy; do
    if ! cargo "${component#rust}" --version >/dev/null 2>&1; then
        if ! command -v rustup >/dev/null; then
            echo "error: cargo ${component#rust} is missing; install the component $component of Rust" >&2
            exit 1
        fi
        rustup component add "$component"
    fi
done

# Licences, sources and bans of dependencies. A debug build compiles in half the time.
if ! cargo deny --version >/dev/null 2>&1; then
    cargo install --quiet --locked --debug cargo-deny
fi

# Nobody debugs these programs, and the lines of a backtrace would double their size.
export CARGO_PROFILE_DEV_DEBUG=false
exec cargo xtask ci
