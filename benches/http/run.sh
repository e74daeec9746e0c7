#!/bin/sh
# Measures a reference server in its virtual environment, which install.sh creates: run.sh optuna|vizier WHAT [OPTION...]
# For example: run.sh optuna sqlite --clients 1,8 --pairs 1000 --completed 0,1000
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
    optuna) program=optuna_storage.py ;;
    vizier) program=vizier_server.py ;;
    *)
        echo "usage: run.sh optuna sqlite|journal [OPTION...], or: run.sh vizier sqlite [OPTION...]; --help lists the options" >&2
        exit 2
        ;;
esac
name=$1
shift
python=${TUNESMITH_HTTP_DIR:-$here/.venv}/$name/bin/python
if [ ! -x "$python" ]; then
    echo "run.sh: $name is not installed: $python does not exist; run $here/install.sh" >&2
    exit 3
fi
exec "$python" -W ignore "$here/$program" "$@"
