//! `cargo xtask campaign [FACTOR]`: the tests that break things on purpose, with their figures.
//!
//! Each campaign is a test that CI runs small. `FACTOR` multiplies the number of faults of each. [`crate::repeat`] is the campaign
//! against tests that fail now and then.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The prefix of the lines in which a test prints its figures.
const FIGURES: &str = "figures: ";

/// A test with a parameter.
struct Campaign {
    /// What is broken.
    what: &'static str,
    /// The name of the test in `tests/it`.
    test: &'static str,
    /// The variable that sets its size, and the size for the factor 1. `None` for a test of one size.
    size: Option<(&'static str, usize)>,
}

const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        what: "kill -9 of a process with a store, sqlite",
        test: "store::durability::sqlite_keeps_acknowledged_changes_after_kills",
        size: Some(("TUNESMITH_KILL_ROUNDS", 20)),
    },
    Campaign {
        what: "kill -9 of a process with a store, sled",
        test: "store::durability::sled_keeps_acknowledged_changes_after_kills",
        size: Some(("TUNESMITH_KILL_ROUNDS", 20)),
    },
    Campaign {
        what: "kill -9 of serve",
        test: "service_crash::acknowledged_changes_survive_kills_under_load",
        size: Some(("TUNESMITH_SERVICE_CRASH_ROUNDS", 5)),
    },
    Campaign {
        what: "kill -9 of three servers and of their database",
        test: "postgres_chaos::acknowledged_changes_survive_kills_of_servers_and_of_the_database",
        size: Some(("TUNESMITH_DATABASE_CRASH_ROUNDS", 20)),
    },
    Campaign {
        what: "kill -9 of run and of supervisors",
        test: "crash::acknowledged_reports_survive_kills_and_no_trial_runs_twice",
        size: Some(("TUNESMITH_CRASH_ROUNDS", 40)),
    },
    Campaign {
        what: "jobs, nodes, controller, supervisors and command on Slurm",
        test: "slurm::chaos::trials_survive_what_happens_on_a_cluster",
        size: Some(("TUNESMITH_SLURM_EVENTS", 100)),
    },
    Campaign {
        what: "network between agents and their server",
        test: "agent_network::trials_survive_cuts_of_the_network_between_agents_and_server",
        size: Some(("TUNESMITH_NETWORK_CUTS", 4)),
    },
    Campaign {
        what: "trials that wait in Slurm",
        test: "slurm::scale::thousands_of_waiting_trials_cost_little_and_name_their_reason",
        size: Some(("TUNESMITH_SLURM_JOBS", 120)),
    },
    Campaign {
        what: "N-th failing write and sync, sqlite",
        test: "store::faults::sqlite_survives_failing_writes_and_syncs",
        size: Some(("TUNESMITH_FAULT_POINTS", 6)),
    },
    Campaign {
        what: "N-th failing write, sled",
        test: "store::faults::sled_stops_at_failing_writes_and_keeps_what_it_acknowledged",
        size: Some(("TUNESMITH_FAULT_POINTS", 6)),
    },
    Campaign {
        what: "N-th failing write, after the others, sled",
        test: "store::faults::sled_change_ends_if_its_last_write_fails",
        size: Some(("TUNESMITH_FAULT_POINTS", 6)),
    },
    Campaign {
        what: "N-th failing write, after the others, 60 changes at once, sled",
        test: "store::faults::sled_changes_at_once_end_if_a_late_write_fails",
        size: Some(("TUNESMITH_FAULT_POINTS", 6)),
    },
    Campaign {
        what: "power cuts from recorded calls, sqlite",
        test: "store::power_cuts::sqlite_keeps_acknowledged_changes_after_power_cuts",
        size: Some(("TUNESMITH_POWER_CUTS", 30)),
    },
    Campaign {
        what: "flipped bytes, sqlite",
        test: "store::damage::sqlite_detects_flipped_bytes",
        size: Some(("TUNESMITH_DAMAGE_FACTOR", 1)),
    },
    Campaign {
        what: "flipped bytes, sled",
        test: "store::damage::sled_detects_flipped_bytes",
        size: Some(("TUNESMITH_DAMAGE_FACTOR", 1)),
    },
    Campaign {
        what: "full disk under a server, sqlite",
        test: "store_failures::full_disk_is_named_and_changes_resume_when_there_is_space",
        size: None,
    },
    Campaign {
        what: "full disk under a server, sled",
        test: "store_failures::sled_server_ends_on_a_full_disk_and_keeps_what_it_acknowledged",
        size: None,
    },
    Campaign {
        what: "store removed, replaced, emptied, overwritten",
        test: "store::faults::store_that_is_not_the_opened_one_stops",
        size: None,
    },
    Campaign {
        what: "values that a field cannot have",
        test: "hostile_bodies::every_field_refuses_values_that_it_cannot_have",
        size: None,
    },
    Campaign {
        what: "every route with every way of writing its path",
        test: "route_access::no_way_of_writing_a_path_is_answered_without_a_token",
        size: None,
    },
    Campaign {
        what: "misbehaving programs of tuning jobs",
        test: "hostile_programs::tuning_jobs_end_whatever_their_programs_do",
        size: None,
    },
    Campaign {
        what: "misbehaving programs of cancelled jobs",
        test: "hostile_programs::cancelled_jobs_end_whatever_their_programs_do",
        size: None,
    },
];

/// Runs all campaigns, and prints a table of their figures. `arguments` are those after `campaign`.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<()> {
    if let ["repeat", ..] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return crate::repeat::run(root, &arguments[1..]);
    }
    let factor: usize = match arguments {
        [] => 1,
        [factor] => factor
            .parse()
            .ok()
            .filter(|factor| *factor > 0)
            .with_context(|| format!("FACTOR is {factor:?}: expected a whole number from 1"))?,
        _ => bail!("usage: cargo xtask campaign [FACTOR], or campaign repeat [TIMES] [FILTER]"),
    };
    let mut table = vec!["| campaign | figures | seconds |".to_owned(), "|---|---|---|".to_owned()];
    let mut failed = Vec::new();
    // Apart, so that the times in the table are those of the tests.
    if !tests(root).arg("--no-run").status().context("cannot start `cargo test`")?.success() {
        bail!("the tests cannot be compiled");
    }
    for campaign in CAMPAIGNS {
        println!("==> {} ({})", campaign.what, campaign.test);
        let begin = Instant::now();
        let (passed, output) = test(root, campaign, factor)?;
        let figures: Vec<&str> =
            output.lines().filter_map(|line| line.split_once(FIGURES)).map(|(_, text)| text).collect();
        let figures = match (passed, figures.as_slice()) {
            (false, _) => "FAILED".to_owned(),
            (true, []) => "passed".to_owned(),
            (true, figures) => figures.join("; "),
        };
        if !passed {
            println!("{output}");
            failed.push(campaign.test);
        }
        table.push(format!("| {} | {figures} | {} |", campaign.what, begin.elapsed().as_secs()));
    }
    println!("{}", table.join("\n"));
    if !failed.is_empty() {
        bail!("{} campaigns failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

/// Runs one test. Returns whether it passed, and its output.
fn test(root: &Path, campaign: &Campaign, factor: usize) -> Result<(bool, String)> {
    let size = campaign.size.map(|(variable, small)| (variable, OsString::from((small * factor).to_string())));
    let mut command = tests(root);
    command.args(["--", "--exact", campaign.test, "--nocapture"]).envs(size);
    let output = command.stdin(Stdio::null()).output().context("cannot start `cargo test`")?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() && !text.contains("1 passed") {
        bail!("there is no test {}", campaign.test);
    }
    Ok((output.status.success(), text))
}

/// The command that compiles and runs `tests/it`.
pub(crate) fn tests(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--locked", "--workspace", "--all-features", "--test", "it"]);
    command.envs(crate::ci::LINTS).current_dir(root);
    command
}

#[cfg(test)]
mod documentation {
    use super::*;

    #[test]
    fn campaigns_are_documented() {
        let page = std::fs::read_to_string(crate::root().join("docs/reference/reliability.md")).unwrap();
        for campaign in CAMPAIGNS {
            let name = campaign.test.rsplit("::").next().unwrap();
            assert!(page.contains(name), "{name} is missing");
            assert!(
                campaign.size.is_none_or(|(variable, _)| page.contains(variable)),
                "{:?} is missing",
                campaign.size
            );
        }
    }
}
