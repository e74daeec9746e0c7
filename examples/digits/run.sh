#!/usr/bin/env bash
# Builds Tunesmith, installs what Python needs, and tunes the digits example: 20 trials, two at a time.
# Passes further arguments to `tunesmith run`, for example --seed 7.
set -euo pipefail
cd "$(dirname "$0")/../.."
. .ci/setup.sh
install_missing

cargo build --release --locked
exec cargo run --quiet --release --locked -- run \
    --config examples/digits/hptuning_config.yaml \
    --package-path examples/digits/trainer \
    --module-name trainer.task \
    --job-dir digits-output \
    "$@"
