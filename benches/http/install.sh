#!/bin/sh
# Installs the packages of the reference servers: install.sh [NAME...], where NAME is optuna or vizier (default: both).
# Each has its own virtual environment, $TUNESMITH_HTTP_DIR/NAME (default: .venv/NAME next to this script), with the
# packages pinned in requirements/NAME.txt. Environment: PYTHON is the interpreter (default python3.11, else python3).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${TUNESMITH_HTTP_DIR:-$here/.venv}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
[ $# -gt 0 ] || set -- optuna vizier
mkdir -p "$folder"
for name in "$@"; do
    "$python" -m venv "$folder/$name"
    "$folder/$name/bin/python" -m pip install --disable-pip-version-check -r "$here/requirements/$name.txt"
    "$here/run.sh" "$name" --help >"$folder/$name/help.txt"
done
echo "installed: $*"
