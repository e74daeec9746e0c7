#!/bin/sh
# Installs the peers, or those that are named: install.sh [NAME...]
# Each gets a virtual environment of its own, $TUNESMITH_PEERS_DIR/NAME (default: .venv/NAME beside this script), with the
# packages pinned in requirements/NAME.txt. Environment: PYTHON is the interpreter to use (default python3.11, else python3).
# One that does not install is reported at the end and left out; the exit status is 1 only if none installs.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=${TUNESMITH_PEERS_DIR:-$here/.venv}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
[ $# -gt 0 ] || set -- $(cd "$here/requirements" && ls | sed 's/\.txt$//')
installed=
skipped=
skip() {
    skipped="$skipped
skipped: $1: $2"
}
mkdir -p "$folder" || exit 1
for name in "$@"; do
    requirements=$here/requirements/$name.txt
    if [ ! -f "$requirements" ]; then
        skip "$name" "there is no $requirements"
        continue
    fi
    echo "== $name: $("$python" --version 2>&1), packages of requirements/$name.txt, into $folder/$name"
    if ! "$python" -m venv "$folder/$name"; then
        skip "$name" "no virtual environment at $folder/$name"
        continue
    fi
    if ! "$folder/$name/bin/python" -m pip install --disable-pip-version-check -r "$requirements"; then
        skip "$name" "pip could not install requirements/$name.txt, see above"
        rm -f "$folder/$name/bin/python"
        continue
    fi
    # An adapter that can be imported works on this machine: check.py is the full test.
    if ! (cd "$here" && "$folder/$name/bin/python" -W ignore -c "import ${name}_peer"); then
        skip "$name" "its packages are installed, but the adapter does not start, see above"
        rm -f "$folder/$name/bin/python"
        continue
    fi
    installed="$installed $name"
done
echo "installed:${installed:- none}$skipped"
[ -n "$installed" ]
