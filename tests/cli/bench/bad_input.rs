//! Invalid input: exit code 2 and one line that names the value and what is allowed.

use tunesmith_testing::finished;

use super::{append, bench, bench_command, compress, workspace};

/// The message with which `args` are refused.
#[track_caller]
fn refused(args: &str) -> String {
    let run = bench(&workspace(), args).expect(2);
    assert_eq!(run.stdout, "");
    run.stderr
}

#[test]
fn unknown_names_are_refused_with_the_known_names() {
    assert_eq!(
        refused("--suite nope"),
        "error: suite \"nope\" does not exist; the suites are bbob, bbob-mixint, classic, noisy, outliers, plateaus, conditional, \
         categorical, binary, constrained, failing, large, multi-objective, three-objectives, tiny, transfer, curves, trained, tables\n"
    );
    assert_eq!(
        refused("--suite bbob --algorithms gp,anneal"),
        "error: there is no algorithm \"anneal\"; there are auto, gp, tpe, cma_es, random, quasi_random, grid\n"
    );
    assert_eq!(
        refused("--suite bbob --algorithms grid:x=1"),
        "error: algorithm \"grid\" has no option \"x\"; it has doubles=N\n"
    );
    assert_eq!(
        refused("--suite bbob --algorithms grid:doubles=many"),
        "error: option \"doubles\" of algorithm \"grid\" cannot be \"many\": it is a whole number from 1\n"
    );
    assert_eq!(
        refused("--suite noisy --problems f01"),
        format!("error: --problems \"f01\" is not a problem of the chosen suites, which contain {}\n", noisy_names())
    );
    assert_eq!(
        refused("contestant anneal"),
        "error: there is no algorithm \"anneal\"; there are auto, gp, tpe, cma_es, random, quasi_random, grid\n"
    );
    let unknown = refused("--suite bbob --frobnicate 1");
    assert!(unknown.starts_with("error: unexpected argument '--frobnicate' found\n"), "{unknown}");
}

/// The families of the noisy suite, in its order.
fn noisy_names() -> String {
    let list = bench(&workspace(), "list --suite noisy").expect(0).stdout;
    let mut names: Vec<&str> =
        list.lines().map(|line| line.strip_prefix("noisy ").unwrap().split('/').next().unwrap()).collect();
    names.dedup();
    assert!(!names.is_empty());
    names.join(", ")
}

#[test]
fn invalid_numbers_are_refused_with_the_allowed_range() {
    assert_eq!(
        refused("--suite bbob --dims 1"),
        "error: suite \"bbob\", --dims 1: bbob does not support 1 dimensions: 2 to 40 are allowed\n"
    );
    assert_eq!(
        refused("--suite bbob-mixint --dims 7"),
        "error: suite \"bbob-mixint\", --dims 7: bbob-mixint does not support 7 dimensions: multiples of 5 up to \
         40 are allowed\n"
    );
    assert_eq!(
        refused("--suite bbob --mode sequential --parallel 2"),
        "error: --mode sequential runs one trial at a time, not --parallel 2\n"
    );
    assert_eq!(
        refused("--suite bbob --answer-limit 0"),
        "error: --answer-limit 0: it is more than 0 and at most 1000000 seconds\n"
    );
    assert_eq!(
        refused("--suite trained --budget 3 --early-stopping i_epoch"),
        "error: --early-stopping i_epoch: 3 trials go on, which is not less than --budget 3\n"
    );
    assert_eq!(
        refused("--suite trained --external mine=true --early-stopping asha:resume"),
        "error: --early-stopping asha:resume: the external optimizer \"mine\" cannot replace the result of a trial that \
         resumes; use built-in algorithms, or early stopping without \":resume\"\n"
    );
    let budget = refused("--suite bbob --budget 0");
    assert!(budget.starts_with("error: invalid value '0' for '--budget <N>': 0 is not in 1..=100000\n"), "{budget}");
    let seeds = refused("--suite bbob --seeds many");
    assert!(seeds.starts_with("error: invalid value 'many' for '--seeds <N>'"), "{seeds}");
}

#[test]
fn optimizers_need_commands_and_different_names() {
    let no_optimizer = "error: no optimizer is given: use --algorithms or --external\n";
    assert_eq!(refused("--suite bbob --algorithms="), no_optimizer);
    assert_eq!(
        refused("--suite bbob --algorithms gp,random,gp"),
        "error: two optimizers have the name \"gp\": rename one with --external NAME=COMMAND\n"
    );
    assert_eq!(
        refused("--suite bbob --external mine="),
        "error: external optimizer \"mine=\" has no command: write NAME=COMMAND or COMMAND\n"
    );
    // Both are named by their program.
    let workspace = workspace();
    let mut command = bench_command(&workspace, "--suite bbob");
    command.args(["--external", "python3 a.py", "--external", "/usr/bin/python3 b.py"]);
    assert_eq!(
        finished(command.output().unwrap()).expect(2).stderr,
        "error: two optimizers have the name \"python3\": rename one with --external NAME=COMMAND\n"
    );
}

#[test]
fn exactly_one_source_of_problems_is_required() {
    let nothing = refused("");
    assert!(nothing.contains("required arguments were not provided:\n  --suite <NAME,...>\n"), "{nothing}");
    let no_config = refused("--objective true");
    assert!(no_config.contains("required arguments were not provided:\n  --config <FILE>\n"), "{no_config}");
    for (args, one, other) in [
        ("--suite bbob --objective true --config x.yaml", "--objective <COMMAND>", "--suite <NAME,...>"),
        ("--suite bbob --replay x.csv", "--replay <FILE>", "--suite <NAME,...>"),
        ("--replay x.csv --objective true --config x.yaml", "--objective <COMMAND>", "--replay <FILE>"),
    ] {
        let both = refused(args);
        assert!(both.contains(" cannot be used with ") && both.contains(one) && both.contains(other), "{both}");
    }
    assert_eq!(refused("--replay none.csv"), "error: none.csv: No such file or directory (os error 2)\n");
    assert_eq!(refused("--replay hptuning_config.yaml --metric loss").lines().count(), 1);
}

#[test]
fn refused_command_creates_no_folder() {
    let workspace = workspace();
    bench(&workspace, "--suite nope --out out").expect(2);
    bench(&workspace, "--objective true --config none.yaml --out out").expect(2);
    assert!(!workspace.path().join("out").exists());
}

#[test]
fn damaged_line_is_named() {
    let workspace = workspace();
    let comparison = "--suite bbob --dims 2 --problems f01 --algorithms random --budget 2 --seeds 3 --out out";
    bench(&workspace, comparison).expect(0);
    let text = workspace.read("out/runs.jsonl");
    let damaged: String = text
        .lines()
        .enumerate()
        .map(|(line, text)| if line == 1 { format!("{}\n", &text[..30]) } else { format!("{text}\n") })
        .collect();
    workspace.write("out/runs.jsonl", &damaged);
    for args in [comparison, "report out --out report", "compare out out"] {
        let message = bench(&workspace, args).expect(2).stderr;
        assert!(message.starts_with("error: out/runs.jsonl, line 2 is not the record of a run: EOF"), "{message}");
        assert_eq!(message.lines().count(), 1);
    }
    assert_eq!(workspace.read("out/runs.jsonl"), damaged, "nothing is lost");

    // JSON, but of something else.
    workspace.write("out/runs.jsonl", &text);
    append(&workspace.path().join("out/runs.jsonl"), "{\"suite\": \"bbob\"}\n");
    let message = bench(&workspace, comparison).expect(2).stderr;
    assert!(
        message.starts_with("error: out/runs.jsonl, line 4 is not the record of a run: missing field"),
        "{message}"
    );
}

#[test]
fn damaged_compressed_file_is_named() {
    let workspace = workspace();
    let comparison = "--suite bbob --dims 2 --problems f01 --algorithms random --budget 2 --seeds 3 --out out";
    bench(&workspace, comparison).expect(0);
    compress(&workspace, "out/runs.jsonl");
    let path = workspace.path().join("out/runs.jsonl.zst");
    let whole = std::fs::read(&path).unwrap();
    let mut changed = whole.clone();
    // The last four bytes are the checksum of the content.
    *changed.last_mut().unwrap() ^= 1;
    for damaged in [&changed, &whole[..whole.len() / 2], b"no Zstandard frame".as_slice()] {
        std::fs::write(&path, damaged).unwrap();
        for args in [comparison, "report out --out report", "compare out out"] {
            let message = bench(&workspace, args).expect(2).stderr;
            assert!(message.starts_with("error: cannot decompress out/runs.jsonl.zst: "), "{message}");
            assert_eq!(message.lines().count(), 1);
        }
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "nothing is lost");
    }
}

#[test]
fn reports_require_existing_results_and_optimizers() {
    let workspace = workspace();
    bench(&workspace, "--suite bbob --dims 2 --problems f01 --algorithms random --budget 2 --seeds 1 --out out")
        .expect(0);
    for (args, message) in [
        ("report none --out report", "there are no results in none: it has no runs.jsonl and no runs.jsonl.zst"),
        ("compare out none", "there are no results in none: it has no runs.jsonl and no runs.jsonl.zst"),
        ("report out --out report --suites trained", "there are no runs to report on in out"),
        ("report out --out report --contestants gp", "no run of optimizer \"gp\"; there are runs of random"),
        ("report out --out report --baseline gp", "no run of optimizer \"gp\"; there are runs of random"),
    ] {
        assert_eq!(bench(&workspace, args).expect(2).stderr, format!("error: {message}\n"));
    }
    assert!(!workspace.path().join("report").exists());
}

#[test]
fn constraints_are_refused_for_a_command() {
    let workspace = workspace();
    let config = "
hyperparameters:
  goal: MINIMIZE
  hyperparameterMetricTag: loss
  params: [{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}]
tunesmith: {metrics: [{metric: time, safetyConfig: {safetyThreshold: 1}}]}
";
    workspace.write("config.yaml", config);
    let run = bench(&workspace, "--objective true --config config.yaml").expect(2);
    assert_eq!(run.stderr, "error: the configuration has the constraint \"time\"; --objective needs one without\n");

    workspace.write("config.yaml", "hyperparameters: {}\n");
    let run = bench(&workspace, "--objective true --config config.yaml").expect(2);
    assert!(run.stderr.starts_with("error: hyperparameters"), "{}", run.stderr);
}
