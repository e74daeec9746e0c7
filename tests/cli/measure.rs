//! The measuring tool of `benches/measure` on small sizes.

use serde_json::Value;
use tunesmith_testing::Workspace;

#[path = "../../benches/measure/commands/mod.rs"]
mod commands;

/// Runs the tool with the words of `args`.
fn measure(args: &str) -> anyhow::Result<String> {
    commands::run(["measure"].into_iter().chain(args.split_whitespace()).map(Into::into))
}

/// The first cell of each row of a Markdown table.
fn first_cells(table: &str) -> Vec<&str> {
    table.lines().map(|line| line.split('|').nth(1).unwrap().trim()).collect()
}

#[test]
fn latency_measures_each_optimizer_at_each_history() {
    let workspace = Workspace::new("");
    let out = workspace.path().join("rows.jsonl");
    let table = measure(&format!(
        "latency --algorithms gp,random --history 50,10,10 --repeats 2 --out {} --external absent=/no/such/program",
        out.display()
    ))
    .unwrap();
    let rows = std::fs::read_to_string(out).unwrap();
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let cells: Vec<(&str, u64)> =
        rows.iter().map(|row| (row["optimizer"].as_str().unwrap(), row["history"].as_u64().unwrap())).collect();
    let expected = ["gp", "random", "absent"].map(|name| [(name, 10), (name, 50)]).concat();
    assert_eq!(cells, expected);
    for row in &rows[..4] {
        assert!(row["version"].as_str().is_some_and(|version| version.starts_with("tunesmith ")), "{row}");
        for figure in ["wall_ms", "processor_ms", "memory_mib", "first_wall_ms", "first_processor_ms"] {
            let value = row["result"]["measured"][figure].as_f64();
            assert!(value.is_some_and(|value| value > 0.0 && value.is_finite()), "{figure} of {row}");
        }
    }
    assert!(rows[4]["result"]["failed"].as_str().is_some_and(|reason| reason.contains("exit code 127")), "{}", rows[4]);
    assert_eq!(rows[5]["result"], Value::from("left_out"));
    assert!(table.starts_with("|  | n = 10 | n = 50 |\n|---|---:|---:|\n"), "{table}");
    assert_eq!(first_cells(&table)[2..], ["gp", "random", "absent"]);
    let error = measure("latency --algorithms=").unwrap_err().to_string();
    assert_eq!(error, "no optimizer is given: use --algorithms or --external");
}

#[test]
fn service_measures_loads_and_starts() {
    let table = measure("service --clients 1,2 --pairs 4 --grown 10 --history 3 --suggestions 2 --stored 20").unwrap();
    let (loads, starts) = table.split_once("\n\n").unwrap();
    let [bare, http] = ["bare store, create and complete", "suggest and complete, random search"];
    let model = ["suggest on demand, Gaussian process", "suggest prepared, Gaussian process"];
    assert_eq!(first_cells(loads)[2..], [&[bare, bare, http, http, http][..], &model[..]].concat());
    assert_eq!(first_cells(starts)[2..], ["0", "33"]);
}

#[test]
fn growth_measures_each_figure_beside_its_reference() {
    let table = measure("growth --reports 10 --batched 21 --listed 30 --readers 2 --studies 1").unwrap();
    assert_eq!(
        first_cells(&table)[2..],
        [
            "a report, the last 1 of 10",
            "listOptimalTrials of 30 trials, again",
            "memory for 2 readers of the list",
            "a suggestion of the model beside 21 pending trials",
            "resident memory after 1 studies with models",
        ]
    );
}
