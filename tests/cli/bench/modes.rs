//! Several trials at once, early stopping, initial points that all share.

use serde_json::{Value, json};

use super::{bench, failure, of_optimizer, records, results, timeless, workspace};

const TRAINED: &str = "--suite trained --problems neural-network-digits,gradient-boosting-diabetes \
                       --algorithms random,quasi_random --seeds 2";

fn numbers(record: &Value, name: &str) -> Vec<f64> {
    record[name].as_array().into_iter().flatten().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn trials_run_side_by_side_on_a_virtual_clock() {
    let workspace = workspace();
    bench(&workspace, &format!("{TRAINED} --budget 12 --out sequential")).expect(0);
    bench(&workspace, &format!("{TRAINED} --budget 12 --parallel 3 --mode batch --out batch")).expect(0);
    bench(&workspace, &format!("{TRAINED} --budget 12 --parallel 3 --out asynchronous")).expect(0);
    for (mode, asked) in [("sequential", 12), ("batch", 4), ("asynchronous", 12)] {
        for record in records(&workspace, mode) {
            assert_eq!(record["mode"], mode);
            assert_eq!(record["parallel"], if mode == "sequential" { 1 } else { 3 });
            let ended = numbers(&record, "ended_secs");
            assert_eq!((ended.len(), results(&record).len()), (12, 12));
            assert!(ended[0] > 0.0 && ended.is_sorted(), "{ended:?}");
            assert_eq!(numbers(&record, "suggest_ms").len(), asked, "a batch is one request");
        }
    }
    let [sequential, batch, asynchronous] =
        ["sequential", "batch", "asynchronous"].map(|folder| timeless(&workspace, folder));
    for ((sequential, batch), asynchronous) in sequential.iter().zip(&batch).zip(&asynchronous) {
        // Random points depend on the number of the trial alone, so only their order in time differs.
        let [one, two, three] = [sequential, batch, asynchronous].map(|record| {
            let mut found: Vec<Option<f64>> = results(record);
            found.sort_by(|a, b| a.partial_cmp(b).unwrap());
            found
        });
        assert_eq!((&one, &one), (&two, &three));
        let [alone, batch, asynchronous] =
            [sequential, batch, asynchronous].map(|record| *numbers(record, "ended_secs").last().unwrap());
        assert!(asynchronous <= batch && batch < alone, "{asynchronous} {batch} {alone}");
        assert!(asynchronous > alone / 3.0 - 1e-5, "three at once are at most three times as fast");
    }
}

#[test]
fn the_median_rule_stops_trials_and_saves_time() {
    let workspace = workspace();
    let trained = format!("{TRAINED} --budget 20");
    bench(&workspace, &format!("{trained} --out whole")).expect(0);
    for schedule in ["--parallel 3 --mode batch", "--parallel 3 --mode asynchronous", "--mode sequential"] {
        let out = schedule.rsplit(' ').next().unwrap();
        let run = bench(&workspace, &format!("{trained} {schedule} --early-stopping median --out {out}")).expect(0);
        assert!(run.stdout.contains("stopped early"), "{}", run.stdout);
        for record in records(&workspace, out) {
            assert_eq!((&record["mode"], &record["early_stopping"]), (&json!(out), &json!("median")));
            let stopped = numbers(&record, "stopped_early");
            assert!(!stopped.is_empty() && stopped.iter().all(|place| *place < 20.0), "{record}");
            assert!(numbers(&record, "ended_secs").is_sorted());
        }
    }
    let ends =
        |folder| timeless(&workspace, folder).into_iter().map(|record| *numbers(&record, "ended_secs").last().unwrap());
    for (stopped, whole) in ends("sequential").zip(ends("whole")) {
        assert!(stopped < whole, "{stopped} {whole}");
    }
}

#[test]
fn every_stopping_rule_can_be_chosen_by_name() {
    let workspace = workspace();
    for rule in ["decay_curve", "asha", "asha:resume", "hyperband", "i_epoch:2:3"] {
        let run = format!("{TRAINED} --budget 20 --early-stopping {rule} --out {rule}");
        bench(&workspace, &run).expect(0);
        let stopped: usize = records(&workspace, rule)
            .iter()
            .map(|record| {
                assert_eq!(record["early_stopping"], rule);
                numbers(record, "stopped_early").len()
            })
            .sum();
        assert!(stopped > 0, "{rule} stopped nothing");
    }
    let unknown = bench(&workspace, &format!("{TRAINED} --early-stopping bohb")).expect(2);
    assert!(
        unknown.stderr.contains("median[:resume], decay_curve[:resume], asha[:resume], hyperband, optimizer"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn curves_are_compared_within_equal_epochs() {
    let workspace = workspace();
    let run = "--suite curves --problems parallel,linear-descent-digits/r03 --algorithms random --budget 100 --seeds 2 \
               --time-limit 60 --early-stopping asha --out out";
    bench(&workspace, run).expect(0);
    let records = records(&workspace, "out");
    assert_eq!(records.len(), 8, "four problems with two seeds");
    for record in &records {
        assert_eq!(record["time_limit_secs"], 60);
        let ends = numbers(record, "ended_secs");
        // Six whole trials take as long.
        assert!(ends.len() > 6 && ends.is_sorted() && *ends.last().unwrap() <= 60.0, "{record}");
    }
}

#[test]
fn an_optimizer_that_stops_no_trials_does_not_support_stopping_by_itself() {
    let workspace = workspace();
    let run = bench(&workspace, &format!("{TRAINED} --budget 5 --early-stopping optimizer --out out"));
    assert!(run.stderr.contains("8 runs are new"), "{}", run.stderr);
    let records = records(&workspace, "out");
    assert!(!records.is_empty());
    for record in records {
        let (kind, reason) = failure(&record).unwrap();
        assert_eq!((kind.as_str(), reason.as_str()), ("unsupported", "it has no early stopping of its own"));
    }
}

#[test]
fn functions_take_time_only_if_several_run_at_once() {
    let workspace = workspace();
    let functions = "--suite bbob --dims 2 --problems f01 --algorithms random --budget 9 --seeds 1";
    bench(&workspace, &format!("{functions} --out one")).expect(0);
    bench(&workspace, &format!("{functions} --parallel 3 --out three")).expect(0);
    let record = |folder| records(&workspace, folder).remove(0);
    // Ends at every second are not written.
    assert_eq!(record("one").get("ended_secs"), None);
    let mut different = numbers(&record("three"), "ended_secs");
    different.dedup();
    assert_eq!(different.len(), 9, "no two trials end together: {different:?}");
}

#[test]
fn initial_points_are_the_same_for_all() {
    let workspace = workspace();
    bench(
        &workspace,
        "--suite bbob,trained --dims 3 --problems f03,support-vectors-digits --algorithms gp,random,quasi_random,grid \
         --budget 8 --seeds 2 --initial-points 5 --keep-points --out out",
    )
    .expect(0);
    let records = records(&workspace, "out");
    assert_eq!(records.len(), 16);
    let first = of_optimizer(&records, "gp");
    for optimizer in ["random", "quasi_random", "grid"] {
        for (record, first) in of_optimizer(&records, optimizer).iter().zip(&first) {
            assert_eq!(record["initial_points"], 5);
            assert_eq!((&record["problem"], &record["seed"]), (&first["problem"], &first["seed"]));
            assert_eq!(results(record)[..5], results(first)[..5]);
            assert_eq!(record["points"].as_array().unwrap()[..5], first["points"].as_array().unwrap()[..5]);
            assert_eq!(numbers(record, "suggest_ms").len(), 3, "initial points are not requested");
        }
    }
    for optimizer in ["quasi_random", "grid"] {
        let own =
            |name| of_optimizer(&records, name).iter().map(|record| record["points"][5].clone()).collect::<Vec<_>>();
        assert_ne!(own(optimizer), own("gp"), "after them each goes its own way");
    }
}
