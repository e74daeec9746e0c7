//! Recorded trials as the problem: tables of the user, and what `tunesmith run` writes.

use serde_json::{Value, json};
use tunesmith_testing::{Workspace, finished};

use super::{bench, records, results, workspace};

/// A grid of two parameters, the second with a level that always fails.
fn table() -> String {
    let mut text = "rate,kernel,loss,seconds\n".to_owned();
    for step in 0..=10 {
        let rate = f64::from(step) / 10.0;
        text.push_str(&format!("{rate},linear,{},{}\n", (rate - 0.3).powi(2) + 1.0, step + 1));
        text.push_str(&format!("{rate},radial,{},{}\n", (rate - 0.3).powi(2) + 2.0, step + 1));
        text.push_str(&format!("{rate},sigmoid,,0.5\n"));
    }
    text
}

fn best_known(record: &Value) -> f64 {
    record["quality"]["value"]["best_known"].as_f64().unwrap()
}

#[test]
fn search_space_of_a_table_is_inferred_or_configured() {
    let workspace = workspace();
    workspace.write("my table.csv", &table());
    let config = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 1
  params:
    - {parameterName: rate, type: DOUBLE, minValue: 0, maxValue: 2}
    - {parameterName: kernel, type: CATEGORICAL, categoricalValues: [linear, radial, sigmoid, cubic]}
";
    workspace.write("config.yaml", config);
    let compare = |more: &str, out: &str| {
        let mut command = workspace.command();
        command.args(["bench", "--replay", "my table.csv", "--algorithms", "gp,random,quasi_random", "--budget", "12"]);
        command.args(["--seeds", "3", "--keep-points", "--out", out]).args(more.split_whitespace());
        finished(command.output().unwrap()).expect(0);
        records(&workspace, out)
    };
    let (inferred, configured) = (compare("--metric loss", "inferred"), compare("--config config.yaml", "configured"));
    let levels = |records: &[Value]| {
        let points = records.iter().flat_map(|record| record["points"].as_array().unwrap());
        let mut levels: Vec<String> =
            points.map(|point| point["kernel"]["Categorical"].as_str().unwrap().to_owned()).collect();
        levels.sort();
        levels.dedup();
        levels
    };
    assert_eq!(levels(&inferred), ["linear", "radial", "sigmoid"]);
    assert_eq!(levels(&configured), ["cubic", "linear", "radial", "sigmoid"]);
    for record in inferred.iter().chain(&configured) {
        assert_eq!((&record["suite"], &record["goals"]), (&json!("replay"), &json!(["Minimize"])));
        let problem = record["problem"].as_str().unwrap();
        assert!(problem.starts_with("my_table-") && problem.len() == "my_table-".len() + 8, "{problem}");
        assert_eq!((best_known(record), results(record).len()), (1.0, 12));
        assert!(results(record).into_iter().flatten().all(|loss| (1.0..=2.49).contains(&loss)), "{record}");
    }
    assert!(inferred.iter().flat_map(results).any(|result| result.is_none()), "rows without a metric are infeasible");
    let widest = |records: &[Value]| {
        let points = records.iter().flat_map(|record| record["points"].as_array().unwrap());
        points.map(|point| point["rate"]["Double"].as_f64().unwrap()).fold(0.0, f64::max)
    };
    assert!(widest(&inferred) <= 1.0 && widest(&configured) > 1.0);

    // --goal maximize.
    let maximised = compare("--metric loss --goal maximize", "maximised");
    assert!(
        maximised
            .iter()
            .all(|record| best_known(record) == 0.7_f64.powi(2) + 2.0 && record["goals"] == json!(["Maximize"]))
    );
}

#[test]
fn another_content_is_another_problem() {
    let workspace = workspace();
    workspace.write("table.csv", &table());
    let command = "--replay table.csv --metric loss --algorithms random --budget 3 --seeds 1 --out out";
    bench(&workspace, command).expect(0);
    workspace.write("table.csv", &table().replace("0.3,linear,1,", "0.3,linear,0.5,"));
    let changed = bench(&workspace, command).expect(0);
    assert!(changed.stderr.contains("1 runs are new, 0 were there"), "{}", changed.stderr);
    let records = records(&workspace, "out");
    assert_ne!(records[0]["problem"], records[1]["problem"]);
    assert_eq!((best_known(&records[0]), best_known(&records[1])), (1.0, 0.5));
}

#[test]
fn files_of_a_job_can_be_replayed() {
    let workspace = Workspace::new(
        "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 6
  maxParallelTrials: 2
  maxFailedTrials: 6
  algorithm: RANDOM_SEARCH
  params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 10}
    - {parameterName: kind, type: CATEGORICAL, categoricalValues: [good, bad]}
tunesmith:
  metricFromStdout: true
  seed: 3
",
    );
    workspace.write(
        "train.sh",
        r#"for arg in "$@"; do case "$arg" in --x=*) x="${arg#--x=}";; esac; done
awk -v x="$x" 'BEGIN { printf "loss=%.17g step=1\n", (x - 3) * (x - 3) + 1 }'
"#,
    );
    workspace.run(["--job-id", "small", "--", "sh", "train.sh"]).expect(0);
    let losses: Vec<f64> = workspace.column("objective_value").iter().map(|loss| loss.parse().unwrap()).collect();
    assert_eq!(losses.len(), 6);
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let described =
        finished(workspace.command().args(["jobs", "describe", "small", "--format", "json"]).output().unwrap());
    workspace.write("described.json", &described.expect(0).stdout);

    for (file, more) in
        [("trials.csv", ""), ("trials.csv", "--config hptuning_config.yaml"), ("job.json", ""), ("described.json", "")]
    {
        let run = bench(
            &workspace,
            &format!(
                "--replay {file} {more} --algorithms random,quasi_random --budget 5 --seeds 2 --out {file}{}",
                more.len()
            ),
        )
        .expect(0);
        assert!(run.stderr.contains("4 runs are new, 0 were there, 0 failed"), "{file}: {}", run.stderr);
        for record in records(&workspace, &format!("{file}{}", more.len())) {
            assert_eq!((best_known(&record), &record["parameters"]), (best, &json!(2)), "{file}");
            for result in results(&record) {
                let near = |loss: &f64| (loss - result.unwrap()).abs() <= 1e-5 * loss;
                assert!(losses.iter().any(near), "{file}: {result:?} is none of {losses:?}");
            }
        }
    }
}

#[test]
fn a_file_that_cannot_be_replayed_is_refused_with_the_place() {
    let workspace = workspace();
    workspace.write("empty.csv", "");
    workspace.write("bare.csv", "x,objective\n");
    workspace.write("words.csv", "x,objective\n1,2\n2,low\n");
    workspace.write("job.json", "{\"jobId\": \"j\", \"trainingInput\": {}}");
    let message = |args: &str| bench(&workspace, args).expect(2).stderr;
    assert_eq!(
        message("--replay empty.csv"),
        "error: empty.csv: the file is empty; a header with the names of the columns is needed\n"
    );
    assert_eq!(
        message("--replay bare.csv"),
        "error: bare.csv: the trials are not a valid table: a table needs at least one row\n"
    );
    assert_eq!(
        message("--replay bare.csv --metric loss"),
        "error: bare.csv: line 1: column \"loss\" is missing; the columns are x, objective\n"
    );
    assert_eq!(
        message("--replay words.csv"),
        "error: words.csv: line 3, column \"objective\": \"low\" is not a finite number, or empty in all metrics for \
         an infeasible trial\n"
    );
    assert_eq!(
        message("--replay job.json"),
        "error: job.json: job \"j\" has no trainingInput.hyperparameters, so there is no search space\n"
    );
}

#[test]
fn the_export_of_a_study_and_a_table_cut_out_of_it_can_be_replayed() {
    let workspace = Workspace::new("");
    workspace.write(
        "study.yaml",
        "metrics: [{metric: loss, goal: MINIMIZE}]\n\
         parameters:\n\
         - {parameter: lr, type: DOUBLE, doubleValueSpec: {minValue: 0.001, maxValue: 1}}\n\
         - {parameter: depth, type: INTEGER, integerValueSpec: {minValue: 1, maxValue: 9}}\n",
    );
    let command = |args: &[&str]| finished(workspace.command().args(args).output().unwrap()).expect(0).stdout;
    command(&["studies", "create", "s", "--config", "study.yaml"]);
    for (lr, depth, loss) in [("lr=0.1", "depth=3", "loss=0.8"), ("lr=0.2", "depth=4", "loss=0.5")] {
        command(&["trials", "create", "--study", "s", "--parameter", lr, "--parameter", depth, "--metric", loss]);
    }
    command(&["trials", "create", "--study", "s", "--parameter", "lr=0.3", "--parameter", "depth=5"]);
    let export = command(&["trials", "export", "--study", "s"]);
    workspace.write("study.csv", &export);
    // The three columns that a spreadsheet leaves of it.
    workspace.write("cut.csv", "lr,depth,objective_value\n0.1,3,0.8\n0.2,4,0.5\n");
    for file in ["study.csv", "cut.csv"] {
        bench(&workspace, &format!("--replay {file} --algorithms random --budget 4 --seeds 1 --out {file}.out"))
            .expect(0);
        let record = records(&workspace, &format!("{file}.out")).remove(0);
        assert_eq!((best_known(&record), &record["parameters"]), (0.5, &json!(2)), "{file}");
        let found: Vec<f64> = results(&record).into_iter().map(Option::unwrap).collect();
        assert!(found.iter().all(|loss| [0.8, 0.5].contains(loss)), "{file}: {found:?}");
    }
}
