//! Other programs as optimizers: valid programs and failing ones.

use std::collections::BTreeMap;

use serde_json::Value;
use tunesmith_testing::{Finished, Workspace, finished};

use super::{
    bench_command, failure, of_optimizer, records, results, source, timeless, wait_until_nothing_runs, workspace,
};

/// A random search that fails in the way of its argument at the third requested point.
const OPTIMIZER: &str = r#"
import json, os, random, sys, time
way = sys.argv[1]
for line in sys.stdin:
    request = json.loads(line)
    answer = {}
    if request["method"] == "create":
        parameters, draw, asked = request["problem"]["parameters"], random.Random(request["seed"]), 0
        answer = {"name": way, "version": "test 1.0"}
        if way == "unsupported":
            answer = {"unsupported": "only even numbers of parameters from 4"}
    elif request["method"] == "suggest":
        asked += 1
        points = [{p["name"]: draw.uniform(p["min"], p["max"]) for p in parameters} for _ in request["trials"]]
        if asked == 3:
            if way == "dies" or way == "dies-at-times" and os.path.exists("broken"):
                print("out of luck", file=sys.stderr)
                sys.exit(3)
            elif way == "hangs":
                time.sleep(600)
            elif way == "nonsense":
                print("Welcome to my optimiser!")
            elif way == "outside":
                points[0][parameters[0]["name"]] = 5.5
            elif way == "incomplete":
                del points[0][parameters[0]["name"]]
            elif way == "many":
                points *= 2
            elif way == "exhausted":
                points = []
            elif way == "mute":
                del points
            elif way == "endless":
                sys.stdout.write("x" * 20_000_000)
                sys.stdout.flush()
                time.sleep(600)
            elif way == "error":
                print(json.dumps({"error": "the matrix is singular"}), flush=True)
                continue
        answer = {"suggestions": points} if "points" in globals() else {}
    print(json.dumps(answer), flush=True)
"#;

const PROBLEM: &str = "--suite bbob --dims 2 --problems f01 --algorithms random --budget 5 --out out";

fn with_script() -> Workspace {
    let workspace = workspace();
    workspace.write("optimizer.py", OPTIMIZER);
    workspace
}

/// A comparison of random search with these externals.
fn compare(workspace: &Workspace, args: &str, externals: &[String]) -> Finished {
    let mut command = bench_command(workspace, &format!("{PROBLEM} {args}"));
    for external in externals {
        command.arg("--external").arg(external);
    }
    finished(command.output().unwrap())
}

/// The optimizer that fails in this way, under the name of the way.
fn misbehaving(workspace: &Workspace, way: &str) -> String {
    format!("{way}=python3 {} {way}", workspace.path().join("optimizer.py").display())
}

#[test]
fn documented_example_runs() {
    let workspace = workspace();
    let climber = format!("hill-climber=python3 {}", source("examples/external_optimizer/hill_climber.py"));
    let mut command = bench_command(
        &workspace,
        "--suite bbob,trained,multi-objective --dims 2 --algorithms random --budget 12 --seeds 2 --out out \
         --problems f01,support-vectors-digits,random-forest-wine,zdt1",
    );
    let run = finished(command.args(["--external", &climber]).output().unwrap()).expect(0);
    assert!(run.stderr.contains("16 runs are new, 0 were there, 0 failed"), "{}", run.stderr);
    assert!(run.stdout.contains("hill-climber"), "{}", run.stdout);
    let records = of_optimizer(&records(&workspace, "out"), "hill-climber");
    assert_eq!(records.len(), 8);
    for record in records {
        assert_eq!(record["version"], "1.0");
        if record["suite"] == "multi-objective" {
            let reason = "more than one metric".to_owned();
            assert_eq!(failure(&record), Some(("unsupported".to_owned(), reason)));
        } else {
            assert_eq!((failure(&record), results(&record).len()), (None, 12));
        }
    }
    assert!(workspace.path().join("out/logs/hill-climber.log").is_file());
}

#[test]
fn own_algorithms_give_the_same_results_over_the_protocol() {
    let workspace = workspace();
    let mut command = bench_command(
        &workspace,
        "--suite bbob,bbob-mixint,trained,constrained --dims 5 --problems f08,extra-trees-diabetes,gardner1 \
         --algorithms gp,random --budget 14 --seeds 1 --keep-points --out out",
    );
    for algorithm in ["gp", "random"] {
        let program = env!("CARGO_BIN_EXE_tunesmith");
        command.arg("--external").arg(format!("{algorithm}-outside=exec '{program}' bench contestant {algorithm}"));
    }
    finished(command.output().unwrap()).expect(0);
    let records = timeless(&workspace, "out");
    assert_eq!(records.len(), 16);
    for algorithm in ["gp", "random"] {
        let renamed = |mut record: Value| {
            record["contestant"] = algorithm.into();
            record
        };
        let outside = of_optimizer(&records, &format!("{algorithm}-outside"));
        let outside: Vec<Value> = outside.into_iter().map(renamed).collect();
        assert_eq!(of_optimizer(&records, algorithm), outside);
        assert!(outside.iter().all(|record| failure(record).is_none()), "{outside:?}");
    }
}

#[test]
fn failing_optimizers_are_reported_and_given_up() {
    let workspace = with_script();
    let reasons = BTreeMap::from([
        ("dies", "it ended with exit code 3; the last line of its standard error: out of luck"),
        ("nonsense", "its answer is not what the protocol asks for: expected value at line 1 column 1"),
        ("outside", "it suggested a point that is not in the search space: value 5.5 of parameter \"x01\""),
        ("incomplete", "it suggested a point that is not in the search space: parameter \"x01\" has no value"),
        ("many", "it gave 2 points for 1 trials"),
        ("mute", "its answer to suggest has no \"suggestions\""),
        ("endless", "its response has more than 16777216 bytes"),
        ("error", "it answered with an error: the matrix is singular"),
    ]);
    let mut externals: Vec<String> = reasons.keys().map(|way| misbehaving(&workspace, way)).collect();
    externals.push(misbehaving(&workspace, "good"));
    externals.push("absent=/no/such/program".to_owned());
    let run = compare(&workspace, "--seeds 4", &externals).expect(0);
    wait_until_nothing_runs(&workspace);

    let (records, markdown) = (records(&workspace, "out"), workspace.read("out/report.md"));
    for (way, expected) in reasons {
        let failed = of_optimizer(&records, way);
        assert_eq!(failed.len(), 3, "{way} is given up after three failures");
        for record in failed {
            let (kind, reason) = failure(&record).unwrap();
            assert_eq!(kind, "failed");
            assert!(reason.starts_with(expected), "{way}: {reason}");
            // What it did before stands: two trials, and not the third.
            assert_eq!(results(&record).len(), 2);
            assert_eq!(record["version"], "test 1.0");
        }
        let warning = format!("warning: {way} failed three times in a row and was given up: {expected}");
        assert!(run.stderr.contains(&warning), "{warning}\n{}", run.stderr);
        // Some characters are escaped in Markdown.
        let words = expected.split([':', '"', '#', '_']).next().unwrap();
        let rows = markdown.lines().filter_map(|line| line.strip_prefix(&format!("| {way} | **failed** | bbob | ")));
        let rows: Vec<&str> = rows.filter(|row| row.contains(words)).collect();
        let runs: u32 = rows.iter().map(|row| row[..1].parse::<u32>().unwrap()).sum();
        assert_eq!(runs, 3, "{way}: {markdown}");
    }
    let (_, reason) = failure(&of_optimizer(&records, "absent")[0]).unwrap();
    assert!(reason.starts_with("it ended with exit code 127; the last line of its standard error: "), "{reason}");
    assert!(run.stderr.contains("35 runs are new, 0 were there, 27 failed"), "{}", run.stderr);
    assert!(run.stderr.contains("warning: 9 runs of optimizers that were given up were skipped"), "{}", run.stderr);
    for whole in ["random", "good"] {
        let whole = of_optimizer(&records, whole);
        assert_eq!(whole.len(), 4);
        assert!(whole.iter().all(|record| failure(record).is_none() && results(record).len() == 5));
    }
}

#[test]
fn hanging_optimizer_is_killed_at_the_limit() {
    let workspace = with_script();
    let hangs = misbehaving(&workspace, "hangs");
    let run = compare(&workspace, "--seeds 2 --answer-limit 1", &[hangs]).expect(0);
    wait_until_nothing_runs(&workspace);
    let records = records(&workspace, "out");
    let reasons: Vec<_> = of_optimizer(&records, "hangs").iter().map(failure).collect();
    let reason = ("failed".to_owned(), "it did not respond within 1 s".to_owned());
    assert_eq!(reasons, [Some(reason.clone()), Some(reason)]);
    assert!(run.stderr.contains("4 runs are new, 0 were there, 2 failed"), "{}", run.stderr);
    assert!(workspace.read("out/report.md").contains("it did not respond within 1 s"));
}

#[test]
fn exhausted_or_unsupporting_optimizer_has_not_failed() {
    let workspace = with_script();
    let externals = ["exhausted", "unsupported"].map(|way| misbehaving(&workspace, way));
    let run = compare(&workspace, "--seeds 4", &externals).expect(0);
    assert!(run.stderr.contains("12 runs are new, 0 were there, 0 failed"), "{}", run.stderr);
    let records = records(&workspace, "out");
    for record in of_optimizer(&records, "exhausted") {
        assert_eq!((failure(&record), results(&record).len()), (None, 2));
    }
    for record in of_optimizer(&records, "unsupported") {
        let reason = "only even numbers of parameters from 4".to_owned();
        assert_eq!(failure(&record), Some(("unsupported".to_owned(), reason)));
        assert!(results(&record).is_empty());
    }
    let markdown = workspace.read("out/report.md");
    assert!(markdown.contains("| unsupported | not supported | bbob | 4 |"), "{markdown}");
}

#[test]
fn failed_runs_are_repeated_on_request() {
    let workspace = with_script();
    let externals = [misbehaving(&workspace, "dies-at-times")];
    let broken = workspace.write("broken", "");
    let first = compare(&workspace, "--seeds 2", &externals).expect(0);
    assert!(first.stderr.contains("4 runs are new, 0 were there, 2 failed"), "{}", first.stderr);
    std::fs::remove_file(broken).unwrap();
    let same = compare(&workspace, "--seeds 2", &externals).expect(0);
    assert!(same.stderr.contains("0 runs are new, 4 were there, 0 failed"), "{}", same.stderr);
    let again = compare(&workspace, "--seeds 2 --retry-failed", &externals).expect(0);
    assert!(again.stderr.contains("2 runs are new, 2 were there, 0 failed"), "{}", again.stderr);

    let records = of_optimizer(&records(&workspace, "out"), "dies-at-times");
    let failed: Vec<bool> = records.iter().map(|record| failure(record).is_some()).collect();
    assert_eq!(failed, [true, true, false, false], "the last record of a run counts");
    assert!(!workspace.read("out/report.md").contains("out of luck"));
    let last = compare(&workspace, "--seeds 2 --retry-failed", &externals).expect(0);
    assert!(last.stderr.contains("0 runs are new, 4 were there, 0 failed"), "{}", last.stderr);
}
