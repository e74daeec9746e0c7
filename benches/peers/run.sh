#!/bin/sh
# Runs an adapter in its virtual environment, which install.sh creates: run.sh NAME [ARGUMENT...]
# Example: tunesmith bench --external 'optuna-tpe=benches/peers/run.sh optuna tpe'
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 1 ]; then
    echo "usage: run.sh NAME [ARGUMENT...], where NAME is one of: $(cd "$here/requirements" && ls | sed 's/\.txt$//' | tr '\n' ' ')" >&2
    exit 2
fi
name=$1
shift
if [ ! -f "$here/${name}_peer.py" ]; then
    echo "run.sh: unknown peer $name: $here/${name}_peer.py does not exist" >&2
    exit 2
fi
python=${TUNESMITH_PEERS_DIR:-$here/.venv}/$name/bin/python
if [ ! -x "$python" ]; then
    echo "run.sh: peer $name is not installed: $python does not exist; run $here/install.sh $name" >&2
    exit 3
fi
exec "$python" "$here/${name}_peer.py" "$@"
