//! Uses of results: merged reports, comparisons of two folders, lists.

use tunesmith_testing::{Workspace, finished};

use super::{bench, bench_command, compress, records, workspace};

/// Easy functions, on which few evaluations distinguish a search from random draws.
const FUNCTIONS: &str = "--suite bbob --dims 2 --problems f01,f02,f05,f06,f08,f10,f11,f14 --budget 25 --seeds 2";

/// Copies the runs of `optimizer` in `from` to a new folder, under the name `called`.
fn rename(workspace: &Workspace, from: &str, optimizer: &str, to: &str, called: &str) {
    let mut text = String::new();
    for mut record in records(workspace, from) {
        if record["contestant"] == optimizer {
            record["contestant"] = called.into();
            text.push_str(&format!("{record}\n"));
        }
    }
    std::fs::create_dir(workspace.path().join(to)).unwrap();
    workspace.write(&format!("{to}/runs.jsonl"), &text);
}

#[test]
fn compare_fails_if_something_became_worse() {
    let workspace = workspace();
    bench(&workspace, &format!("{FUNCTIONS} --algorithms gp,random --out out")).expect(0);
    rename(&workspace, "out", "gp", "strong", "search");
    rename(&workspace, "out", "random", "weak", "search");

    let same = bench(&workspace, "compare out out").expect(0);
    assert!(same.stdout.starts_with("From out to out\n32 pairs of runs.\n"), "{}", same.stdout);
    assert!(same.stdout.ends_with("\noverall: none\n"), "{}", same.stdout);
    let worse = bench(&workspace, "compare strong weak").expect(1);
    assert!(worse.stdout.ends_with("\noverall: worse\n"), "{}", worse.stdout);
    let better = bench(&workspace, "compare weak strong").expect(0);
    assert!(better.stdout.ends_with("\noverall: better\n"), "{}", better.stdout);

    let markdown = bench(&workspace, "compare strong weak --markdown").expect(1).stdout;
    assert!(markdown.starts_with("# From strong to weak\n\n**Overall: worse.** 16 pairs of runs."), "{markdown}");
    let chosen = bench(&workspace, "compare out out --contestants random").expect(0).stdout;
    assert!(chosen.contains("16 pairs of runs.") && !chosen.contains("gp"), "{chosen}");
}

/// Asserts that the tables in `text` have at most `width` characters in each line, and that columns were left out.
#[track_caller]
fn assert_fits(text: &str, width: usize) {
    // A table is a header in capitals and the lines below it.
    let is_header = |line: &str| line.contains(char::is_uppercase) && !line.contains(char::is_lowercase);
    let mut is_table = false;
    let table = text.lines().filter(|line| {
        is_table = is_header(line) || (is_table && !line.is_empty() && !line.ends_with(['.', ')']));
        is_table
    });
    let widths: Vec<usize> = table.map(|line| line.chars().count()).collect();
    assert!(widths.len() >= 3 && widths.iter().all(|found| *found <= width), "{text}");
    assert!(text.contains("not fit: ") && text.contains("(--wide prints all columns)"), "{text}");
}

#[test]
fn tables_fit_the_terminal() {
    let workspace = workspace();
    let functions = "--suite bbob --dims 2 --problems f01,f08 --budget 3 --seeds 2 --algorithms random,quasi_random";
    let at = |width: &str, args: &str| {
        finished(bench_command(&workspace, args).env("COLUMNS", width).output().unwrap()).expect(0).stdout
    };
    let run = at("50", &format!("{functions} --out out"));
    assert_fits(&run, 50);
    assert!(!at("50", "report out --out out --wide").contains("not fit"));
    let report = std::fs::read_to_string(workspace.path().join("out/report.md")).unwrap();
    assert!(report.contains("| wins / losses |") && !report.contains("not fit"), "{report}");
    assert_fits(&at("50", "compare out out"), 50);
    assert!(!at("50", "compare out out --wide").contains("not fit"));
}

#[test]
fn a_report_merges_folders_and_chooses() {
    let workspace = workspace();
    let functions = "--suite bbob --dims 2 --problems f01,f08 --budget 6 --seeds 2";
    bench(&workspace, &format!("{functions} --algorithms quasi_random --out one")).expect(0);
    bench(&workspace, &format!("{functions} --algorithms random,grid --out two")).expect(0);
    bench(
        &workspace,
        "--suite trained --problems random-forest-wine --algorithms random --budget 6 --seeds 1 --out two",
    )
    .expect(0);

    let merged = bench(&workspace, "report one two --out merged").expect(0);
    assert!(merged.stdout.starts_with("Search algorithms on bbob, trained\n"), "{}", merged.stdout);
    assert!(merged.stdout.contains("3 optimizers, 3 problems, 13 runs"), "{}", merged.stdout);
    assert_eq!(merged.stderr, "the whole report: merged/report.html\n");
    let (page, markdown) = (workspace.read("merged/report.html"), workspace.read("merged/report.md"));
    for text in [&page, &markdown] {
        assert!(text.contains("grid") && text.contains("random"), "{text}");
        assert!(text.contains("tunesmith bench --suite trained"), "the report has each command");
    }
    assert!(!workspace.path().join("merged/runs.jsonl").exists(), "a report is no folder of results");

    let args = "report one two --out chosen --suites bbob --contestants random,quasi_random --baseline quasi_random \
                --title Chosen --note Remark";
    let chosen = bench(&workspace, args).expect(0);
    assert!(
        chosen.stdout.starts_with("Chosen\n2 optimizers, 2 problems, 8 runs; each is tested against quasi_random."),
        "{}",
        chosen.stdout
    );
    assert!(!chosen.stdout.contains("grid") && !chosen.stdout.contains("trained"), "{}", chosen.stdout);
    assert!(workspace.read("chosen/report.md").contains("\nRemark\n"));
}

#[test]
fn compressed_folder_gives_the_same_report_and_takes_more_runs() {
    let workspace = workspace();
    let functions = "--suite bbob --dims 2 --problems f01,f08 --budget 4 --out out";
    bench(&workspace, &format!("{functions} --algorithms random,quasi_random --seeds 2")).expect(0);
    let plain = bench(&workspace, "report out --out plain").expect(0).stdout;
    compress(&workspace, "out/runs.jsonl");
    compress(&workspace, "out/invocations.jsonl");
    assert_eq!(bench(&workspace, "report out --out compressed").expect(0).stdout, plain);
    for name in ["report.md", "report.html"] {
        assert_eq!(workspace.read(&format!("compressed/{name}")), workspace.read(&format!("plain/{name}")));
    }

    // The new runs go to the plain file, and both files are read.
    bench(&workspace, &format!("{functions} --algorithms random,quasi_random --seeds 3")).expect(0);
    assert_eq!(records(&workspace, "out").len(), 4);
    let more = bench(&workspace, "report out --out more").expect(0).stdout;
    assert!(more.contains("2 problems, 12 runs"), "{more}");
}

#[test]
fn first_optimizer_is_the_baseline() {
    let workspace = workspace();
    let functions = "--suite bbob --dims 2 --problems f01,f08 --budget 4 --seeds 1";
    let run = bench(&workspace, &format!("{functions} --algorithms random,gp,grid --out out")).expect(0);
    assert!(run.stdout.contains("each is tested against random."), "{}", run.stdout);
    let run = bench(&workspace, &format!("{functions} --algorithms grid,random --out out")).expect(0);
    assert!(run.stdout.contains("3 optimizers, 2 problems, 6 runs; each is tested against grid."), "{}", run.stdout);
}

#[test]
fn list_contains_all_suites_algorithms_and_problems() {
    let workspace = workspace();
    let all = bench(&workspace, "list").expect(0).stdout;
    for name in [
        "bbob",
        "bbob-mixint",
        "classic",
        "noisy",
        "conditional",
        "categorical",
        "constrained",
        "failing",
        "large",
        "multi-objective",
        "trained",
    ] {
        assert!(all.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {all}");
    }
    for name in ["gp", "random", "quasi_random", "grid"] {
        assert!(all.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {all}");
    }
    let bbob = bench(&workspace, "list --suite bbob --dims 2").expect(0).stdout;
    let expected: String = (1..=24).map(|function| format!("bbob f{function:02}/d02\n")).collect();
    assert_eq!(bbob, expected);
    let two = bench(&workspace, "list --suite bbob-mixint,trained --dims 5,10").expect(0).stdout;
    assert_eq!(two.lines().filter(|line| line.starts_with("bbob-mixint f")).count(), 48);
    assert_eq!(two.lines().filter(|line| line.starts_with("trained ")).count(), 9);
    assert!(two.contains("\nbbob-mixint f24/d10\n"), "{two}");
    assert!(two.contains("\ntrained support-vectors-digits\n"), "{two}");
}
