#!/usr/bin/env bash
# Boots systemd in the root of Debian 12, and uses both units of examples/systemd there: start, reload, restart and kill while
# programs run, users and files of programs, the journal. Needs root, debootstrap, and systemd-nspawn (package systemd-container).
#
#   tests/systemd_root.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:?usage: tests/systemd_root.sh PROGRAM}")
root=${TUNESMITH_SYSTEMD_ROOT:-$(mktemp -d)/debian12}
[ -d "$root/usr" ] || debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,python3 bookworm "$root" http://deb.debian.org/debian >/dev/null
rm -rf "$root/opt/check" "$root/var/lib/tunesmith" "$root/var/log/journal"
mkdir -p "$root/opt/check" "$root/etc/tunesmith" "$root/usr/local/bin"
cp tests/systemd_root.py "$root/opt/check/"
cp examples/systemd/tunesmith.service examples/systemd/tunesmith-isolated.service "$root/etc/systemd/system/"
install -m 755 "$program" "$root/usr/local/bin/tunesmith"

systemd-nspawn --quiet --register=no --keep-unit --private-network --directory "$root" --boot --console=read-only >"$root/opt/check/console" </dev/null &
container=$!
trap 'kill "$container" 2>/dev/null; wait "$container" || true' EXIT
until init=$(pgrep --parent "$container" --exact systemd) && [ -S "/proc/$init/root/run/systemd/private" ]; do
    kill -0 "$container" || { cat "$root/opt/check/console"; exit 1; }
    sleep 0.2
done
inside() { nsenter --target "$init" --all -- env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin LANG=C.UTF-8 "$@"; }
inside systemctl is-system-running --wait >/dev/null || true
inside python3 /opt/check/systemd_root.py
