//! What a new user meets in the first hour: `init`, `doctor`, hints, numbers, tables, progress, reasons of failures.

use std::path::Path;
use std::process::Command;

use tunesmith_testing::{Finished, Workspace, finished};

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

fn output(command: &mut Command) -> Finished {
    finished(command.output().unwrap())
}

/// Runs `tunesmith init` with `arguments` in the folder of an example, and writes to the workspace.
fn init(workspace: &Workspace, folder: &Path, arguments: &[&str]) -> Finished {
    let mut command = workspace.command();
    command.current_dir(folder).args(["init", "--output"]).arg(workspace.path().join("made.yaml")).args(arguments);
    output(&mut command)
}

fn validate(workspace: &Workspace) -> Finished {
    output(workspace.command().args(["validate", "--config", "made.yaml"]))
}

#[test]
fn init_writes_the_flags_of_real_trainers_and_validate_accepts_them() {
    let workspace = Workspace::new("");
    // The libraries of this trainer need not be installed.
    let trainer = ["--metric", "accuracy", "--", "python3", "-m", "trainer.task"];
    init(&workspace, &example("digits"), &trainer).expect(0);
    let config = workspace.read("made.yaml");
    for part in [
        "goal: MAXIMIZE\n",
        "    # default 0.01\n    - parameterName: learning-rate\n      type: DOUBLE\n      minValue: 0.0001\n      maxValue: 1\n",
        "    - parameterName: batch-size\n      type: DISCRETE\n      discreteValues: [8, 16, 32, 64, 128]\n",
        "      categoricalValues: [identity, logistic, relu, tanh]\n",
        "    # --epochs is left out: it sets the cost of a trial; give it in args\n",
        "    # --job-dir is left out: ",
    ] {
        assert!(config.contains(part), "{part:?} is not in\n{config}");
    }
    let valid = validate(&workspace).expect(0);
    assert!(valid.stdout.contains("50, 1 at once") && valid.stderr.is_empty(), "{valid:?}");

    let again = init(&workspace, &example("digits"), &trainer).expect(2).stderr;
    assert!(again.contains("made.yaml exists; give --force to replace it"), "{again}");
    let trainer = ["--metric", "mean_squared_error", "--force", "--trials", "15", "--", "python3", "train.py"];
    init(&workspace, &example("tensorboard"), &trainer).expect(0);
    let config = workspace.read("made.yaml");
    assert!(config.contains("goal: MINIMIZE") && config.contains("parameterName: degree"), "{config}");
    assert!(validate(&workspace).expect(0).stdout.contains("15, 1 at once"));
    // Reading the flags leaves nothing in the folder of the trainer.
    assert!(!example("tensorboard").join("__pycache__").exists());
}

#[test]
fn init_reads_the_help_of_other_programs_and_quotes_their_errors() {
    let workspace = Workspace::new("");
    workspace.write("train.sh", "printf 'Options:\\n  --rate RATE  (default: 0.5)\\n  --kind {a,b}\\n'\n");
    workspace.write("broken.py", "import json\njson.loads('{')\n");
    let folder = workspace.path().to_owned();
    init(&workspace, &folder, &["--metric", "loss", "--", "sh", "train.sh"]).expect(0);
    let config = workspace.read("made.yaml");
    assert!(config.contains("parameterName: rate") && config.contains("categoricalValues: [\"a\", \"b\"]"), "{config}");
    validate(&workspace).expect(0);

    for (arguments, expected) in [
        (
            &["--metric", "m", "--force", "--", "python3", "broken.py"][..],
            "json.decoder.JSONDecodeError: Expecting property",
        ),
        (&["--metric", "m", "--force", "--", "absent-program"], "`absent-program` cannot be started"),
        (&["--force", "--no-input", "--", "sh", "train.sh"], "give --metric, the name of the metric"),
        (&["--force", "--no-input"], "give the command of the trainer after `--`"),
    ] {
        let error = init(&workspace, &folder, arguments).expect(2).stderr;
        assert!(error.contains(expected), "{error}");
    }
    // The file of before is kept.
    assert_eq!(workspace.read("made.yaml"), config);
}

#[test]
fn init_asks_for_what_it_does_not_know() {
    let workspace = Workspace::new("");
    workspace.write("answers", "score\n\nlearning_rate\n0.001 to 1 log\nlayers\neight\n1 to 8\n\nlearning_rate if layers=9\nlearning_rate if layers=1,2\n\n\n2\n");
    let mut command = workspace.command();
    command.args(["init", "--interactive", "--output", "made.yaml"]);
    command.stdin(std::fs::File::open(workspace.path().join("answers")).unwrap());
    let asked = output(&mut command).expect(0).stderr;
    assert!(asked.contains("maximize or minimize score [maximize]") && asked.contains("expected a range"), "{asked}");
    let config = workspace.read("made.yaml");
    assert!(config.contains("parameterName: layers\n      type: INTEGER\n      minValue: 1\n"), "{config}");
    assert!(asked.contains("\"9\" is not one of the values of layers"), "{asked}");
    assert!(config.contains("- {parameter: learning_rate, parent: layers, values: [1, 2]}"), "{config}");
    assert!(validate(&workspace).expect(0).stdout.contains("20, 2 at once"));
}

#[test]
fn init_tries_the_defaults_first_and_reads_conditions_from_the_help() {
    let workspace = Workspace::new("");
    workspace.write(
        "train.py",
        r#"
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer", choices=["adam", "sgd"], default="sgd", help="rule of the steps")
parser.add_argument("--momentum", type=float, default=0.9, help="momentum, only for sgd")
parser.add_argument("--beta", type=float, default=0.99, help="decay of the moments (adam only)")
parser.add_argument("--lr", type=float, default=0.037)
parser.add_argument("--units", type=int, default=32)
args = parser.parse_args()
print(f"loss={(args.lr - 0.037) ** 2} {args.optimizer} {args.momentum} {args.units}")
"#,
    );
    let folder = workspace.path().to_owned();
    init(&workspace, &folder, &["--metric", "loss", "--parallel", "2", "--", "python3", "train.py"]).expect(0);
    let config = workspace.read("made.yaml");
    assert!(config.contains("- {parameter: momentum, parent: optimizer, values: [sgd]}\n"), "{config}");
    assert!(config.contains("- {parameter: beta, parent: optimizer, values: [adam]}\n"), "{config}");
    assert!(config.contains("- {optimizer: sgd, momentum: 0.9, lr: 0.037, units: 32}\n"), "{config}");
    assert!(validate(&workspace).expect(0).stdout.contains("50, 2 at once"));
    // The first trial is the program without any flag.
    let args = ["run", "--config", "made.yaml", "--trials", "1", "--job-id", "j", "--", "python3", "train.py"];
    let run = output(workspace.command().args(args)).expect(0).stdout;
    assert!(run.contains("best: trial 1 with loss=0\n"), "{run}");
}

#[test]
fn doctor_names_each_check_and_what_to_do() {
    let workspace = Workspace::new("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = output(workspace.command().args(["doctor", "--listen", &address])).expect(0).stdout;
    for check in ["machine", "python", "installer", "container", "gpu", "disk", "files", "clock", "reports", "store"] {
        assert!(text.lines().any(|line| line.split_whitespace().nth(1) == Some(check)), "{check}\n{text}");
    }
    assert!(text.contains(&format!("warning server    {address} cannot be bound")), "{text}");
    assert!(text.contains("-> for a server, give another address with --listen"), "{text}");
    assert!(text.contains(".tunesmith has none yet"), "{text}");
    assert!(!workspace.path().join(".tunesmith").exists());

    // Without any program, only jobs of some kinds cannot run.
    let bare = output(workspace.command().args(["doctor", "--json", "--listen", "127.0.0.1:0"]).env("PATH", "/absent"));
    let findings: serde_json::Value = serde_json::from_str(&bare.expect(0).stdout).unwrap();
    let of = |check: &str| findings.as_array().unwrap().iter().find(|one| one["check"] == check).unwrap().clone();
    assert_eq!(of("python")["severity"], "warning");
    assert_eq!(of("container")["found"], "neither docker nor podman is installed");
    assert_eq!(of("server")["severity"], "ok");

    // A data folder with a damaged store is an error.
    std::fs::create_dir(workspace.path().join("damaged")).unwrap();
    workspace.write("damaged/STORE", "sqlite\n");
    workspace.write("damaged/store.sqlite", &"this is no database ".repeat(200));
    let damaged = output(workspace.command().args(["doctor", "--data-dir", "damaged", "--listen", "127.0.0.1:0"]));
    let damaged = damaged.expect(1).stdout;
    assert!(
        damaged.contains("error   store     damaged cannot be read") && damaged.contains("-> restore the folder"),
        "{damaged}"
    );
}

const TEN: &str = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  maxTrials: 3
  params:
    - {parameterName: units_10, type: DOUBLE, minValue: 0.010000000000000004, maxValue: 0.010000000000000004}
    - {parameterName: units_2, type: INTEGER, minValue: 1, maxValue: 3}
    - {parameterName: a_last_one, type: CATEGORICAL, categoricalValues: [a]}
tunesmith:
  metricFromStdout: true
";

/// Fails for `units_2` = 2, and otherwise reports a third of it.
const SCRIPT: &str = r#"
for word in "$@"; do case "$word" in --units_2=*) n="${word#*=}" ;; esac; done
if [ "$n" = 2 ]; then echo "no memory for $n units" >&2; exit 3; fi
awk "BEGIN { printf \"loss=%.17g\n\", $n / 3 }"
"#;

#[test]
fn numbers_are_rounded_for_people_and_exact_in_files() {
    let workspace = Workspace::new(TEN);
    workspace.write("train.sh", SCRIPT);
    let run = workspace.run(["--seed", "1", "--", "sh", "train.sh"]).expect(0);
    // Flags are copied, so they are exact.
    let flags = "  --units_10=0.010000000000000004 --units_2=1 --a_last_one=a\n";
    assert!(run.stdout.contains(&format!("loss=0.333333\n{flags}")), "{}", run.stdout);
    let people = format!("{}{}", run.stdout.replace(flags, ""), run.stderr);
    assert!(!people.contains("0.01000000"), "{people}");
    assert!(!people.contains("0.33333333"), "{people}");
    assert!(!people.contains("about 0.0 s left"), "{people}");
    let values = workspace.column("objective_value");
    assert!(values.contains(&"0.3333333333333333".to_owned()), "{values:?}");
    assert_eq!(workspace.column("units_10"), ["0.010000000000000004"; 3]);
    let exact = workspace.job()["trainingOutput"]["trials"][0]["hyperparameters"]["units_10"].clone();
    assert_eq!(exact, "0.010000000000000004");
}

#[test]
fn table_has_the_order_of_the_configuration_fits_the_terminal_and_gives_reasons() {
    let workspace = Workspace::new(TEN);
    workspace.write("train.sh", SCRIPT);
    let run = workspace.run(["--job-id", "table", "--seed", "1", "--", "sh", "train.sh"]).expect(0);
    let header = run.stdout.lines().find(|line| line.contains("units_10")).unwrap();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(words, ["TRIAL", "loss", "STEP", "units_10", "units_2", "a_last_one", "DURATION", "STATE", "REASON"]);
    let failed = run.stdout.lines().find(|line| line.contains("no memory")).unwrap();
    assert!(failed.contains("exit code 3: no memory for 2 units"), "{}", run.stdout);
    let log = run.stderr.lines().find(|line| line.contains("failed: exit code 3")).unwrap();
    let log = log.split_once("(log: ").unwrap().1.split_once(')').unwrap().0;
    assert_eq!(std::fs::read_to_string(log).unwrap(), "no memory for 2 units\n");

    let describe = |more: &[&str], columns: Option<&str>| {
        let mut command = workspace.command();
        command.args(["jobs", "describe", "table", "--format", "table"]).args(more).env_remove("COLUMNS");
        if let Some(columns) = columns {
            command.env("COLUMNS", columns);
        }
        output(&mut command)
    };
    let narrow = describe(&[], Some("60")).expect(0).stdout;
    let table: Vec<&str> = narrow.lines().take_while(|line| !line.contains("not fit")).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(narrow.contains("(--wide prints all columns, --columns selects some)"), "{narrow}");
    assert!(!table[0].contains("a_last_one") && narrow.contains("a_last_one"), "{narrow}");
    for (more, columns) in [(&["--wide"][..], Some("60")), (&[], None)] {
        assert!(!describe(more, columns).expect(0).stdout.contains("--wide"));
    }
    let selected = describe(&["--columns", "state,units_2"], Some("60")).expect(0).stdout;
    let header: Vec<&str> = selected.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["STATE", "units_2"]);
    let unknown = describe(&["--columns", "lr"], None).expect(2).stderr;
    assert!(unknown.contains("no column is named \"lr\"; the columns are TRIAL, loss,"), "{unknown}");
}

#[test]
fn plain_job_shows_its_output_and_a_failure_quotes_it_with_the_log() {
    let workspace = Workspace::new("trainingInput: {args: [x]}\n");
    let script = "echo one; echo two >&2; printf three";
    let run = workspace.run(["--", "sh", "-c", script, "trainer"]).expect(0);
    assert!(run.stdout.starts_with("one\nthree\n"), "{run:?}");
    assert!(run.stderr.lines().any(|line| line == "two"), "{run:?}");

    let run = workspace.run(["--", "sh", "-c", "echo 'no such data' >&2; exit 4", "trainer"]).expect(1);
    let reason = run.stdout.split_once("FAILED: ").unwrap().1;
    assert!(reason.starts_with("the program ended with exit code 4: no such data (log: "), "{reason}");
    let log = reason.split_once("(log: ").unwrap().1.split_once(')').unwrap().0;
    assert_eq!(std::fs::read_to_string(log).unwrap(), "no such data\n");
}

#[test]
fn hints_are_printed_by_validate_and_run() {
    let config = TEN.replace("maxTrials: 3", "maxTrials: 9").replace(
        "{parameterName: units_10, type: DOUBLE, minValue: 0.010000000000000004, maxValue: 0.010000000000000004}",
        "{parameterName: x, type: INTEGER, minValue: 1, maxValue: 1}",
    );
    let workspace = Workspace::new(&config);
    let expected = "hint: maxTrials is 9, but the search space has only 3 points: the job ends after 3 trials; to try more, add values";
    let validated = output(workspace.command().args(["validate", "--config", "hptuning_config.yaml"])).expect(0);
    assert_eq!(validated.stderr.trim_end(), expected);
    workspace.write("train.sh", "echo loss=1");
    let run = workspace.run(["--parallel", "1", "--", "sh", "train.sh"]).expect(0);
    assert_eq!(run.stderr.lines().next(), Some(expected));
}
