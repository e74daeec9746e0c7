#!/usr/bin/env bash
# Records docs/guide/first-hour.md anew: a terminal session in tmux, from `init` to a cancelled job of a server.
# usage: tests/record_first_hour.sh [PROGRAM]     PROGRAM: the tunesmith to record, target/debug/tunesmith by default
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
program="$(readlink -f "${1:-$root/target/debug/tunesmith}")"
page="$root/docs/guide/first-hour.md"
work="$(mktemp -d)"
socket="first-hour-$$"
trap 'tmux -L "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

home="$work/ada"
mkdir -p "$home/bin"
ln -s "$program" "$home/bin/tunesmith"
cat > "$home/train.py" <<'TRAINER'
import argparse, math, time

parser = argparse.ArgumentParser()
parser.add_argument("--learning-rate", type=float, default=0.01, help="step of the descent")
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--optimizer", choices=["adam", "sgd"], default="adam")
parser.add_argument("--epochs", type=int, default=5)
arguments = parser.parse_args()

for epoch in range(1, arguments.epochs + 1):
    time.sleep(0.2)
    error = abs(math.log10(arguments.learning_rate) + 2) + abs(arguments.layers - 4) / 4
    error += 0.2 if arguments.optimizer == "sgd" else 0
    print(f"loss={0.1 + error / 10 + 1 / epoch:.4f} step={epoch}", flush=True)
TRAINER

python_folder="$(dirname "$(command -v python3)")"

tm() { tmux -L "$socket" "$@"; }
# The shell signals before each prompt, so that the script waits for the end of a command without guessing.
cat > "$work/bashrc" <<RC
PS1='\$ '
PATH="$home/bin:\$PATH"
cd "$home"
bind 'set enable-bracketed-paste off'
PROMPT_COMMAND='tmux -L $socket wait-for -S prompt-\$TMUX_PANE'
RC
tm -f /dev/null new-session -d -x 100 -y 45 -s hour "env -u COLUMNS bash --noprofile --rcfile '$work/bashrc' -i"
tm set-option -g history-limit 10000
tm set-option -g remain-on-exit on
pane="$(tm display-message -p '#{pane_id}')"
tm wait-for "prompt-$pane"

# Writes the text of the screen, without the prompt at its end and machine paths.
capture() {
    tm capture-pane -p -S - -t "$pane" | sed -e 's/ *$//' -e "s|$home|/home/ada|g" -e "s|$python_folder|/usr/bin|g" | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' |
        sed -e '${/^\$$/d}'
}
say() { printf '%s\n' "$@" "" >> "$work/page.md"; }
# Records the screen, or the lines of it that a sed program selects.
show() { { echo '```text'; capture | sed -n "${1:-p}"; echo '```'; echo; } >> "$work/page.md"; }
clean() {
    tm send-keys -t "$pane" C-l
    until [ "$(tm capture-pane -p -t "$pane" | sed '/^ *$/d')" = '$' ]; do sleep 0.05; done
    tm clear-history -t "$pane"
}
type_line() { clean; tm send-keys -t "$pane" -l "$1"; tm send-keys -t "$pane" Enter; }
# Runs a command to its end and records it.
step() { type_line "$1"; tm wait-for "prompt-$pane"; show; }
# Waits until the screen shows a text, for at most a minute.
until_shown() {
    for _ in $(seq 600); do
        if tm capture-pane -p -S - -t "$pane" | grep -q -- "$1"; then return; fi
        sleep 0.1
    done
    echo "error: the screen never showed $1" >&2
    capture >&2
    exit 1
}

say "# The first hour" "" \
    "A recorded terminal session, 100 characters wide. \`tests/record_first_hour.sh\` records it anew. The trainer is a small" \
    "Python program with the flags \`--learning-rate\`, \`--layers\`, \`--optimizer\` and \`--epochs\`; it prints its loss after each" \
    "epoch. [First tuning job](first-tuning-job.md) explains the same steps."
say "## Is the machine ready?"
step "tunesmith doctor"
say "## Write a configuration and check it"
step "tunesmith init --metric loss --trials 12 --no-input -- python3 train.py"
step "cat hptuning_config.yaml"
step "tunesmith validate --config hptuning_config.yaml"
say "## Run it, and interrupt it" "" "While trials run, the last lines show each of them, the best result so far and the remaining time:"
type_line "tunesmith run --config hptuning_config.yaml --job-id first --seed 1 -- python3 train.py"
until_shown "trial 4 started"
sleep 0.7
show
say "Ctrl-C stops the running trials:"
tm send-keys -t "$pane" C-c
tm wait-for "prompt-$pane"
show '/stopping the running trials/,$p'
say "## Go on" "" "The same command with the same \`--job-id\` continues the job. Trials that had ended are not run again."
step "tunesmith run --config hptuning_config.yaml --job-id first --seed 1 -- python3 train.py"
say "## Which parameters mattered?"
step "tunesmith explain first"
say "## Extend the job by ten trials" "" "The search goes on with what it knows; the trials that were run are kept."
type_line "tunesmith run --config hptuning_config.yaml --job-id first --seed 1 --trials +10 -- python3 train.py"
tm wait-for "prompt-$pane"
show
say "## Submit a job to a server" "" "The server runs in another terminal: \`tunesmith serve --listen 127.0.0.1:8080 --data-dir server\`."
tm new-window -d "cd '$home' && exec '$program' serve --listen 127.0.0.1:8080 --data-dir server"
for _ in $(seq 100); do if (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null; then break; fi; sleep 0.1; done
step "export TUNESMITH_SERVER=http://127.0.0.1:8080"
step "tunesmith jobs submit training second --config hptuning_config.yaml -- python3 train.py"
step "tunesmith jobs list"
type_line "tunesmith jobs stream-logs second"
until_shown "step=5"
tm send-keys -t "$pane" C-c
tm wait-for "prompt-$pane"
show
say "## Cancel it"
step "tunesmith jobs cancel second"
type_line "tunesmith jobs stream-logs second > second.log; tunesmith jobs describe second --format table --columns trial,loss,state"
tm wait-for "prompt-$pane"
show
sed -e :a -e '/^\n*$/{$d;N;ba' -e '}' "$work/page.md" | cat -s > "$page"
echo "recorded $page"
