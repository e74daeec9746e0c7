//! `cargo xtask campaign [FACTOR]`: fault injection tests with their figures.
//!
//! CI runs each campaign at a small size. `FACTOR` multiplies its number of faults.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// Prefix of the lines in which a test prints its figures.
const FIGURES: &str = "figures: ";

/// One campaign per line: faults, test with its suite in `tests`, and the variable for its size with the value for factor 1
/// (absent for a fixed size).
const CAMPAIGNS: &str = "\
kill -9 of a process with a store, sqlite | storage::store::durability::sqlite_keeps_acknowledged_changes_after_kills | TUNESMITH_KILL_ROUNDS=20
kill -9 of a process with a store, sled | storage::store::durability::sled_keeps_acknowledged_changes_after_kills | TUNESMITH_KILL_ROUNDS=20
kill -9 of serve | storage::service_crash::acknowledged_changes_survive_kills_under_load | TUNESMITH_SERVICE_CRASH_ROUNDS=5
kill -9 of three servers and of their database | storage::postgres_chaos::acknowledged_changes_survive_kills_of_servers_and_of_the_database | TUNESMITH_DATABASE_CRASH_ROUNDS=20
kill -9 of run and of supervisors | storage::crash::acknowledged_reports_survive_kills_and_no_trial_runs_twice | TUNESMITH_CRASH_ROUNDS=40
jobs, nodes, controller, supervisors and command on Slurm | executors::slurm::chaos::trials_survive_what_happens_on_a_cluster | TUNESMITH_SLURM_EVENTS=100
network between agents and their server | executors::agent_network::trials_survive_cuts_of_the_network_between_agents_and_server | TUNESMITH_NETWORK_CUTS=4
trials that wait in Slurm | executors::slurm::scale::thousands_of_waiting_trials_cost_little_and_name_their_reason | TUNESMITH_SLURM_JOBS=120
attempts that wait and run on Kubernetes | executors::kubernetes::scale::waiting_and_running_attempts_cost_few_requests | TUNESMITH_KUBERNETES_WAITING=1000
N-th failing write and sync, sqlite | storage::store::faults::sqlite_survives_failing_writes_and_syncs | TUNESMITH_FAULT_POINTS=6
N-th failing write, sled | storage::store::faults::sled_stops_at_failing_writes_and_keeps_what_it_acknowledged | TUNESMITH_FAULT_POINTS=6
N-th failing write, after the others, sled | storage::store::faults::sled_change_ends_if_its_last_write_fails | TUNESMITH_FAULT_POINTS=6
N-th failing write, after the others, 60 changes at once, sled | storage::store::faults::sled_changes_at_once_end_if_a_late_write_fails | TUNESMITH_FAULT_POINTS=6
power cuts from recorded calls, sqlite | storage::store::power_cuts::sqlite_keeps_acknowledged_changes_after_power_cuts | TUNESMITH_POWER_CUTS=30
flipped bytes, sqlite | storage::store::damage::sqlite_detects_flipped_bytes | TUNESMITH_DAMAGE_FACTOR=1
flipped bytes, sled | storage::store::damage::sled_detects_flipped_bytes | TUNESMITH_DAMAGE_FACTOR=1
full disk under a server, sqlite | storage::store_failures::full_disk_is_named_and_changes_resume_when_there_is_space |
full disk under a server, sled | storage::store_failures::sled_server_ends_on_a_full_disk_and_keeps_what_it_acknowledged |
store removed, replaced, emptied, overwritten | storage::store::faults::store_that_is_not_the_opened_one_stops |
values that a field cannot have | api::hostile_bodies::every_field_refuses_values_that_it_cannot_have |
every route with every way of writing its path | api::route_access::no_way_of_writing_a_path_is_answered_without_a_token |
misbehaving programs of tuning jobs | executors::hostile_programs::tuning_jobs_end_whatever_their_programs_do |
misbehaving programs of cancelled jobs | executors::hostile_programs::cancelled_jobs_end_whatever_their_programs_do |
";

/// Runs all campaigns and prints a table of their figures. `arguments` follow `campaign`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    let factor: usize = match arguments {
        [] => 1,
        [factor] => factor
            .parse()
            .ok()
            .filter(|factor| *factor > 0)
            .with_context(|| format!("FACTOR is {factor:?}: expected a whole number from 1"))?,
        _ => bail!("usage: cargo xtask campaign [FACTOR]"),
    };
    let mut table = vec!["| campaign | figures | seconds |".to_owned(), "|---|---|---|".to_owned()];
    let mut failed = Vec::new();
    // Compiled first, so that the table shows test times only.
    if !tests(root, "*").arg("--no-run").status().context("cannot start `cargo test`")?.success() {
        bail!("the tests cannot be compiled");
    }
    for campaign in CAMPAIGNS.lines() {
        let [what, name, size] = columns(campaign);
        println!("==> {what} ({name})");
        let begin = Instant::now();
        let (passed, output) = test(root, name, size, factor)?;
        let figures: Vec<&str> =
            output.lines().filter_map(|line| line.split_once(FIGURES)).map(|(_, text)| text).collect();
        let figures = match (passed, figures.as_slice()) {
            (false, _) => "FAILED".to_owned(),
            (true, []) => "passed".to_owned(),
            (true, figures) => figures.join("; "),
        };
        if !passed {
            println!("{output}");
            failed.push(name);
        }
        table.push(format!("| {} | {figures} | {} |", what, begin.elapsed().as_secs()));
    }
    println!("{}", table.join("\n"));
    if !failed.is_empty() {
        bail!("{} campaigns failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

/// Runs one test at `factor` times `size`, if it has one. Returns whether it passed, and its output.
fn test(root: &Path, name: &str, size: &str, factor: usize) -> Result<(bool, String)> {
    let (suite, test) = name.split_once("::").with_context(|| format!("test {name} names no suite"))?;
    let mut command = tests(root, suite);
    command.args(["--", "--exact", test, "--nocapture"]);
    if let Some((variable, small)) = size.split_once('=') {
        command.env(variable, (small.parse::<usize>()? * factor).to_string());
    }
    let output = command.stdin(Stdio::null()).output().context("cannot start `cargo test`")?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && !text.contains("1 passed") {
        bail!("there is no test {name}");
    }
    Ok((output.status.success(), text))
}

/// Faults, test and size of a line of [`CAMPAIGNS`]; the size is empty for a fixed one.
fn columns(campaign: &str) -> [&str; 3] {
    let mut columns = campaign.split('|').map(str::trim);
    [(); 3].map(|()| columns.next().unwrap_or_default())
}

/// Command that compiles and runs the suites of `tests` whose names match `suite`.
fn tests(root: &Path, suite: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--locked", "--workspace", "--all-features", "--test", suite]);
    command.envs(crate::ci::LINTS).current_dir(root);
    command
}

#[cfg(test)]
mod documentation {
    use super::*;

    #[test]
    fn campaigns_are_documented() {
        let page = std::fs::read_to_string(crate::root().join("docs/reference/reliability.md")).unwrap();
        for campaign in CAMPAIGNS.lines() {
            let [_, test, size] = columns(campaign);
            let name = test.rsplit("::").next().unwrap();
            assert!(!name.is_empty() && page.contains(name), "{campaign}: {name} is missing");
            if !size.is_empty() {
                let (variable, small) = size.split_once('=').unwrap();
                assert!(page.contains(variable), "{variable} is missing");
                assert!(small.parse::<usize>().unwrap() > 0, "{campaign}");
            }
        }
    }
}
