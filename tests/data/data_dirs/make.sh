#!/bin/sh
# Writes the data folder of one version and kind of store, for tests/storage/store/data_dirs.rs.
#
#   sh tests/data/data_dirs/make.sh <tunesmith binary> <sqlite|sled> <new folder>
#
# The folder holds a study with trials and measurements in each state, a finished job, and a job that was interrupted
# while its third trial ran.
set -eu
program=$(realpath "$1") kind=$2 folder=$(realpath -m "$3")
here=$(dirname "$(realpath "$0")")
mkdir "$folder"

port=18473
"$program" serve --listen "127.0.0.1:$port" --data-dir "$folder" --store "$kind" > /dev/null 2>&1 &
server=$!
studies="http://127.0.0.1:$port/v1/projects/p/locations/l/studies"
request() { curl --silent --show-error --fail --header 'content-type: application/json' --data "$2" "$1"; echo; }
until curl --silent --output /dev/null "$studies"; do sleep 0.1; done
request "$studies?studyId=s" @"$here/study.json"
request "$studies/s/trials" '{"parameters": [{"parameter": "x", "floatValue": 2.5}, {"parameter": "kind", "stringValue": "b"}]}'
request "$studies/s/trials:suggest" '{"clientId": "c", "suggestionCount": 3}'
sleep 1
request "$studies/s/trials/2:addMeasurement" '{"measurement": {"stepCount": "1", "metrics": [{"metric": "loss", "value": 0.75}]}}'
request "$studies/s/trials/2:complete" '{"finalMeasurement": {"stepCount": "2", "metrics": [{"metric": "loss", "value": 0.5}]}}'
request "$studies/s/trials/3:complete" '{"trialInfeasible": true, "infeasibleReason": "out of memory"}'
kill -TERM $server
wait $server || true

# The plan of a job contains the working directory, so the test has to run the command in the same one.
cd /
job() { id=$1; shift; "$program" run --data-dir "$folder" --store "$kind" --config "$here/hptuning_config.yaml" \
    --job-id "$id" --parallel 1 -- sh -c "$(cat "$here/train.sh")" trainer; }
job finished
touch /tmp/tunesmith-trial-3-waits
job interrupted > "$folder/log" 2>&1 &
run=$!
until grep -q 'trial 3 started' "$folder/log"; do sleep 0.1; done
# The function runs in a subshell, whose child is the command.
pkill -INT -P $run tunesmith
wait $run || true
rm /tmp/tunesmith-trial-3-waits
cat "$folder/log"
# Without FOLDER, the copy of a test is no copy.
rm -r "$folder/log" "$folder/LOCK" "$folder/FOLDER" "$folder/audit" "$folder/jobs/finished/trials" "$folder"/executions/finished-*
case $kind in
sqlite) # An interrupted command leaves its log; folded into the file it takes less space.
    python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)")' \
        "$folder/store.sqlite" ;;
sled) # The file is padded with zeros, which the test restores.
    python3 -c 'import sys; file = open(sys.argv[1], "r+b"); file.truncate(len(file.read().rstrip(b"\0")))' \
        "$folder/store.sled/db" ;;
esac
