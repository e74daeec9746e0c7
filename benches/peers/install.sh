#!/bin/sh
# Installs the named peers, or all of them: install.sh [NAME...]
# Each has its own virtual environment, $TUNESMITH_PEERS_DIR/NAME (default: .venv/NAME next to this script), with the
# packages pinned in requirements/NAME.txt. Environment: PYTHON is the interpreter (default python3.11, else python3).
# Peers that cannot be installed are skipped and listed at the end; the exit status is 1 only if none is installed.
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
        skip "$name" "$requirements does not exist"
        continue
    fi
    echo "== $name: $("$python" --version 2>&1), packages of requirements/$name.txt, into $folder/$name"
    if ! "$python" -m venv "$folder/$name"; then
        skip "$name" "cannot create the virtual environment $folder/$name"
        continue
    fi
    if ! "$folder/$name/bin/python" -m pip install --disable-pip-version-check -r "$requirements"; then
        skip "$name" "pip cannot install requirements/$name.txt, see above"
        rm -f "$folder/$name/bin/python"
        continue
    fi
    # Importing the adapter checks that its packages work on this machine; check.py is the full test.
    if ! (cd "$here" && "$folder/$name/bin/python" -W ignore -c "import ${name}_peer"); then
        skip "$name" "the packages are installed, but the adapter cannot be imported, see above"
        rm -f "$folder/$name/bin/python"
        continue
    fi
    installed="$installed $name"
done
echo "installed:${installed:- none}$skipped"
[ -n "$installed" ]
