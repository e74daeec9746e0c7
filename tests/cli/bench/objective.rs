//! A command as the problem: real processes, whose answers are kept.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use tunesmith_testing::{Finished, Workspace, finished, signal};

use super::{
    append, bench_command, lines, of_optimizer, records, results, timeless, wait_until_nothing_runs, workspace,
};

const CONFIG: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 1
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
    - {parameterName: layers, type: INTEGER, minValue: 1, maxValue: 4}
";

/// Notes that it was called; fails for x over 8; is stuck in its fourth call as long as there is a file `stick`.
const OBJECTIVE: &str = r#"
for argument in "$@"; do
    case "$argument" in
        --x=*) x="${argument#--x=}" ;;
        --layers=*) layers="${argument#--layers=}" ;;
    esac
done
echo "$x $layers $TUNESMITH_BENCH_SEED" >> calls.log
if [ -e stick ] && [ "$(wc -l < calls.log)" -eq 4 ]; then
    echo "fourth call" > pipe
    exec tail -f "$0"
fi
awk -v x="$x" -v layers="$layers" 'BEGIN { if (x > 8) exit 1; printf "loss=%.17g\n", (x - 3) * (x - 3) + layers }' ||
    { echo "x is too large" >&2; exit 1; }
"#;

const BUDGET: usize = 8;

fn with_objective() -> Workspace {
    let workspace = workspace();
    workspace.write("config.yaml", CONFIG);
    workspace.write("objective.sh", OBJECTIVE);
    workspace
}

fn command(workspace: &Workspace, more: &str) -> Command {
    let mut command = bench_command(
        workspace,
        "--config config.yaml --algorithms random,quasi_random --budget 8 --seeds 2 --out out",
    );
    let script = workspace.path().join("objective.sh");
    command.arg("--objective").arg(format!("sh {}", script.display())).args(more.split_whitespace());
    command
}

fn compare(workspace: &Workspace, more: &str) -> Finished {
    finished(command(workspace, more).output().unwrap()).expect(0)
}

fn calls(workspace: &Workspace) -> Vec<String> {
    workspace.read("calls.log").lines().map(str::to_owned).collect()
}

fn assert_results_are_those_of_the_command(records: &[Value]) {
    for record in records {
        assert_eq!((record["suite"].as_str(), record.get("failure")), (Some("objective"), None));
        let points = record["points"].as_array().unwrap();
        assert_eq!((points.len(), results(record).len()), (BUDGET, BUDGET));
        for (point, result) in points.iter().zip(results(record)) {
            let (x, layers) = (point["x"]["Double"].as_f64().unwrap(), point["layers"]["Integer"].as_i64().unwrap());
            assert_eq!(result.is_none(), x > 8.0, "{point} {result:?}");
            let loss = (x - 3.0).powi(2) + layers as f64;
            assert!(result.is_none_or(|result| (result - loss).abs() <= 1e-5 * loss), "{point} {result:?}");
        }
    }
}

#[test]
fn every_trial_is_a_process_and_failing_ones_are_infeasible() {
    let workspace = with_objective();
    let run = compare(&workspace, "--keep-points");
    assert!(run.stderr.contains("4 runs are new, 0 were there, 0 failed"), "{}", run.stderr);
    let records = records(&workspace, "out");
    assert_eq!(records.len(), 4);
    assert_results_are_those_of_the_command(&records);
    let infeasible = records.iter().flat_map(results).filter(Option::is_none).count();
    assert!(infeasible > 0, "a fifth of the space fails");
    assert_eq!(records[0]["quality"], json!({"value": {"best_known": null}}));
    assert_eq!(records[0]["problem"], records[3]["problem"]);
    for record in &records {
        let mut times: Vec<f64> =
            record["ended_secs"].as_array().unwrap().iter().map(|at| at.as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
        times.dedup();
        assert_eq!(times.len(), BUDGET, "a process takes time");
    }

    // One call for each evaluation, and each with the seed of its run.
    let (calls, evaluations) = (calls(&workspace), lines(&workspace, "out/evaluations.jsonl"));
    assert_eq!((calls.len(), evaluations.len()), (4 * BUDGET, 4 * BUDGET));
    for (call, evaluation) in calls.iter().zip(&evaluations) {
        let parameters = &evaluation["parameters"];
        let [x, layers, seed]: [f64; 3] =
            call.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(parameters["x"], x);
        assert_eq!((parameters["layers"].as_f64(), evaluation["seed"].as_f64()), (Some(layers), Some(seed)));
        let reason = if x > 8.0 { json!("the command ended with exit status: 1") } else { Value::Null };
        assert_eq!(evaluation["reason"], reason);
    }
    let failed = evaluations.iter().position(|evaluation| evaluation["values"].is_null()).unwrap() + 1;
    assert_eq!(workspace.read(&format!("out/trials/{failed}/stderr.log")), "x is too large\n");
    let kept = workspace.read("out/trials/1/stdout.log") + &workspace.read("out/trials/1/stderr.log");
    assert!(kept.starts_with("loss=") || kept == "x is too large\n", "{kept}");
}

#[test]
fn stored_evaluations_are_not_repeated() {
    let workspace = with_objective();
    compare(&workspace, "");
    let (calls_before, results_before) = (calls(&workspace), timeless(&workspace, "out"));
    std::fs::remove_file(workspace.path().join("out/runs.jsonl")).unwrap();
    // What an interrupt in the middle of a write leaves.
    append(&workspace.path().join("out/evaluations.jsonl"), r#"{"seed":3,"para"#);
    let again = compare(&workspace, "");
    assert!(again.stderr.contains("4 runs are new, 0 were there"), "{}", again.stderr);
    assert_eq!(calls(&workspace), calls_before, "no process was started");
    assert_eq!(timeless(&workspace, "out"), results_before);
    assert_eq!(lines(&workspace, "out/evaluations.jsonl").len(), 4 * BUDGET);

    // A new optimizer starts processes for its own points only.
    let more = compare(&workspace, "--algorithms grid:doubles=2");
    assert!(more.stderr.contains("2 runs are new, 4 were there"), "{}", more.stderr);
    let grid = of_optimizer(&records(&workspace, "out"), "grid:doubles=2");
    assert_eq!(grid.len(), 2);
    assert_eq!(calls(&workspace)[..4 * BUDGET], calls_before);
    assert_eq!(calls(&workspace).len(), 6 * BUDGET);
    // Half of the grid is x = 10.
    assert_eq!(results(&grid[0]).iter().filter(|result| result.is_none()).count(), BUDGET / 2);
}

#[test]
fn an_interrupted_evaluation_is_not_counted_as_failed() {
    let workspace = with_objective();
    workspace.write("stick", "");
    assert!(tunesmith_testing::program("mkfifo").arg(workspace.path().join("pipe")).status().unwrap().success());
    let child = command(&workspace, "--keep-points").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    File::open(workspace.path().join("pipe")).unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "fourth call\n");

    let second = finished(command(&workspace, "").output().unwrap()).expect(2);
    assert_eq!(second.stderr, "error: another benchmark is running in out\n");
    signal(&child, Signal::INT);
    let run = finished(child.wait_with_output().unwrap()).expect(130);
    assert_eq!(run.stderr, "interrupted; run the same command again to continue\n");
    wait_until_nothing_runs(&workspace);
    assert_eq!(lines(&workspace, "out/evaluations.jsonl").len(), 3);
    assert_eq!(records(&workspace, "out").len(), 0);

    std::fs::remove_file(workspace.path().join("stick")).unwrap();
    let rest = compare(&workspace, "--keep-points");
    assert!(rest.stderr.contains("4 runs are new, 0 were there, 0 failed"), "{}", rest.stderr);
    assert_results_are_those_of_the_command(&records(&workspace, "out"));
    let calls = calls(&workspace);
    assert_eq!(calls.len(), 4 * BUDGET + 1, "the one that was interrupted is called again");
    assert_eq!(calls[3], calls[4]);
}
