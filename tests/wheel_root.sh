#!/usr/bin/env bash
# Installs a wheel into the root of Debian 12 with Python alone (no compiler, no network), and uses it there: the search in process, a
# job, a server with a client, `python -m tunesmith`. Prints the time from nothing to a tuned model. Needs root and debootstrap.
#
#   tests/wheel_root.sh WHEEL
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" != --inside ]; then
    wheel=$(realpath "${1:?usage: tests/wheel_root.sh WHEEL}")
    root=${TUNESMITH_WHEEL_ROOT:-$(mktemp -d)/debian12}
    [ -d "$root/usr" ] || debootstrap --variant=minbase --include=python3,python3-venv bookworm "$root" http://deb.debian.org/debian >/dev/null
    rm -rf "$root/work"
    mkdir "$root/work"
    cp "$wheel" tests/wheel_root.py "$root/work/"
    exec unshare --net --mount --fork "$0" --inside "$root"
fi
ip link set lo up
mount -t proc proc "$2/proc"
mount --bind /dev "$2/dev"
exec env -i PATH=/usr/bin:/bin LANG=C.UTF-8 HOME=/root "$(command -v chroot)" "$2" python3 /work/wheel_root.py
