//! Comparisons of own algorithms: records, resumed comparisons, reproducible results.

use serde_json::{Value, json};

use super::{bench, key, records, results, timeless, workspace};

const COMPARISON: &str = "--suite bbob,trained --dims 2 --problems f01,f08,random-forest-wine \
                          --algorithms gp,random,grid:doubles=3 --budget 8";
const OPTIMIZERS: [&str; 3] = ["gp", "random", "grid:doubles=3"];
const PROBLEMS: [(&str, &str); 3] = [("bbob", "f01/d02"), ("bbob", "f08/d02"), ("trained", "random-forest-wine")];

#[test]
fn each_optimizer_on_each_problem_with_each_seed_is_a_record() {
    let workspace = workspace();
    let run = bench(&workspace, &format!("{COMPARISON} --seeds 2 --out out")).expect(0);
    assert!(run.stderr.contains("18 runs are new, 0 were there, 0 failed; results are in out\n"), "{}", run.stderr);

    let records = records(&workspace, "out");
    // Seeds first, then problems, then optimizers: what an interrupted comparison has is balanced.
    let mut expected = Vec::new();
    for seed in 1..=2 {
        for (_, problem) in PROBLEMS {
            expected.extend(OPTIMIZERS.map(|optimizer| (problem.to_owned(), optimizer.to_owned(), seed)));
        }
    }
    assert_eq!(records.iter().map(key).collect::<Vec<_>>(), expected);
    for record in &records {
        let (problem, _, seed) = key(record);
        let suite = PROBLEMS.iter().find(|(_, name)| *name == problem).unwrap().0;
        assert_eq!(record["suite"], suite);
        assert_eq!((&record["budget"], &record["parallel"]), (&json!(8), &json!(1)));
        assert_eq!(record["mode"], "sequential");
        let version = record["version"].as_str().unwrap();
        assert!(version.starts_with(concat!("tunesmith ", env!("CARGO_PKG_VERSION"))), "{version}");
        assert_eq!(record["goals"], json!(["Minimize"]));
        assert_eq!(record["parameters"], if suite == "bbob" { 2 } else { 6 });
        for list in ["results", "suggest_ms"] {
            assert_eq!(record[list].as_array().unwrap().len(), 8, "{list} of {record}");
        }
        // Trials of the trained models have durations; the others end at every second, which is not written.
        let ended = record.get("ended_secs").map(|ended| ended.as_array().unwrap().len());
        assert_eq!(ended, (suite != "bbob").then_some(8), "{record}");
        assert_eq!(record.get("failure"), None);
        let best_known = record["quality"]["value"]["best_known"].as_f64().unwrap();
        let found: Vec<f64> = results(record).into_iter().flatten().collect();
        assert!(suite != "bbob" || found.len() == 8, "bbob has no infeasible points: {record}");
        assert!(found.iter().all(|result| *result >= best_known), "{best_known} is undercut: {record}");
        // The optimal values of the first two instances of f1 in COCO.
        if problem == "f01/d02" {
            assert_eq!(best_known, [79.48, 394.48][seed as usize - 1]);
        }
    }

    let (page, markdown) = (workspace.read("out/report.html"), workspace.read("out/report.md"));
    for optimizer in OPTIMIZERS {
        for text in [&page, &markdown, &run.stdout] {
            assert!(text.contains(optimizer), "{optimizer} is missing");
        }
    }
    assert!(page.starts_with("<!DOCTYPE html>"), "{}", &page[..100]);
    assert!(run.stdout.starts_with("Search algorithms on bbob, trained\n"), "{}", run.stdout);
    assert!(run.stdout.contains("3 optimizers, 3 problems, 18 runs; each is tested against gp."), "{}", run.stdout);
    assert!(markdown.contains(&format!("tunesmith bench {COMPARISON} --seeds 2 --out out")), "{markdown}");
}

#[test]
fn recorded_runs_are_not_repeated_and_more_seeds_add_runs() {
    let workspace = workspace();
    bench(&workspace, &format!("{COMPARISON} --seeds 1 --out out")).expect(0);
    let first = workspace.read("out/runs.jsonl");
    let again = bench(&workspace, &format!("{COMPARISON} --seeds 1 --out out")).expect(0);
    assert!(again.stderr.contains("0 runs are new, 9 were there, 0 failed"), "{}", again.stderr);
    assert_eq!(workspace.read("out/runs.jsonl"), first);

    let more = bench(&workspace, &format!("{COMPARISON} --seeds 3 --out out")).expect(0);
    assert!(more.stderr.contains("18 runs are new, 9 were there, 0 failed"), "{}", more.stderr);
    assert!(workspace.read("out/runs.jsonl").starts_with(&first), "what was there stays as it is");
    let seeds: Vec<Value> = records(&workspace, "out").iter().map(|record| record["seed"].clone()).collect();
    assert_eq!(seeds, [1; 9].into_iter().chain([2; 9]).chain([3; 9]).map(Value::from).collect::<Vec<_>>());

    // Another budget is another run.
    let longer = bench(&workspace, "--suite bbob --dims 2 --problems f01 --budget 9 --seeds 1 --out out").expect(0);
    assert!(longer.stderr.contains("2 runs are new, 0 were there"), "{}", longer.stderr);
    let invocations = super::lines(&workspace, "out/invocations.jsonl");
    assert_eq!(invocations.len(), 4);
    assert_eq!(invocations[3]["command"].as_array().unwrap()[..3], ["tunesmith", "bench", "--suite"]);
}

#[test]
fn results_are_the_same_each_time_and_with_several_at_once() {
    let workspace = workspace();
    bench(&workspace, &format!("{COMPARISON} --seeds 2 --keep-points --out one")).expect(0);
    bench(&workspace, &format!("{COMPARISON} --seeds 2 --keep-points --out two")).expect(0);
    bench(&workspace, &format!("{COMPARISON} --seeds 2 --keep-points --jobs 2 --out three")).expect(0);
    let one = timeless(&workspace, "one");
    assert_eq!(one.len(), 18);
    assert_eq!(one, timeless(&workspace, "two"));
    assert_eq!(one, timeless(&workspace, "three"));

    assert!(one.iter().all(|record| record["points"].as_array().unwrap().len() == 8));
}

#[test]
fn repeated_names_are_run_once() {
    let workspace = workspace();
    let run = bench(
        &workspace,
        "--suite bbob,bbob --dims 2,2 --problems f01 --algorithms random --budget 2 --seeds 1 --out out",
    )
    .expect(0);
    assert!(run.stderr.contains("1 runs are new, 0 were there"), "{}", run.stderr);
    assert_eq!(records(&workspace, "out").len(), 1);
}
