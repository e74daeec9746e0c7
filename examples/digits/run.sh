#!/usr/bin/env bash
# Builds Tunesmith, sets up Python, and tunes the digits example: 20 trials, two at a time.
# Arguments are passed to `tunesmith run`, such as --seed 7.
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
