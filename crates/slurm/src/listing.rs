//! Snapshot of this user's jobs, from one `squeue` call for all attempts.

use std::collections::HashMap;
use std::time::Instant;

use crate::row::{FORMAT, Row};

/// Slurm's jobs at one point in time.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Start time of the command.
    pub(crate) started: Instant,
    /// By job name.
    rows: HashMap<String, Vec<Row>>,
}

impl Listing {
    /// Arguments of `squeue` to list all jobs of user `uid`, including ended ones.
    pub(crate) fn arguments(uid: u32) -> Vec<String> {
        ["--noheader", "--states=all", &format!("--user={uid}"), &format!("--format={FORMAT}")]
            .map(str::to_owned)
            .to_vec()
    }

    pub(crate) fn parse(started: Instant, output: &str) -> Self {
        let mut rows: HashMap<String, Vec<Row>> = HashMap::new();
        for row in output.lines().filter_map(Row::parse) {
            rows.entry(row.name.clone()).or_default().push(row);
        }
        Self { started, rows }
    }

    /// Finds the job of an attempt by name and token. Prefers the ID `job`, then jobs that have not ended.
    pub(crate) fn row(&self, name: &str, token: &str, job: Option<&str>) -> Option<&Row> {
        let rows = || self.rows.get(name).into_iter().flatten().filter(|row| row.is_of(name, token));
        rows()
            .find(|row| Some(row.job.as_str()) == job)
            .or_else(|| rows().find(|row| !row.state.is_final()))
            .or_else(|| rows().next_back())
    }

    /// Jobs that have not ended.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().flatten().filter(|row| !row.state.is_final())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_is_found_by_name_and_token_whatever_its_id() {
        let output =
            "1|RUNNING|a|n|/|None\n1|RUNNING|b|n|/|None\n2|CANCELLED|a|n|/|None\n3|PENDING|c|m|/|None\nnoise\n";
        let listing = Listing::parse(Instant::now(), &output.replace('|', "\u{1f}"));
        let job = |name, token, job| listing.row(name, token, job).map(|row| (row.job.as_str(), row.comment.as_str()));
        assert_eq!(job("n", "a", None), Some(("1", "a")), "a job that runs is preferred");
        assert_eq!(job("n", "a", Some("2")), Some(("2", "a")));
        assert_eq!(job("n", "b", Some("2")), Some(("1", "b")));
        assert_eq!(job("n", "c", Some("3")), None, "the ID alone is no identity");
        assert_eq!(job("m", "c", None), Some(("3", "c")));
        let mut open: Vec<&str> = listing.open().map(|row| row.comment.as_str()).collect();
        open.sort_unstable();
        assert_eq!(open, ["a", "b", "c"]);
    }
}
