//! The list of all jobs of this user, from one call of `squeue` for all attempts.

use std::collections::HashMap;
use std::time::Instant;

use crate::row::{FORMAT, Row};

/// The jobs of Slurm at one time.
#[derive(Debug)]
pub(crate) struct Listing {
    /// When the command was started.
    pub(crate) started: Instant,
    /// The jobs, by name.
    rows: HashMap<String, Vec<Row>>,
}

impl Listing {
    /// The arguments of `squeue`: all jobs of the user `uid`, ended ones included.
    pub(crate) fn arguments(uid: u32) -> Vec<String> {
        ["--noheader", "--states=all", &format!("--user={uid}"), &format!("--format={FORMAT}")]
            .map(str::to_owned)
            .to_vec()
    }

    /// Parses the output of a command that was started at `started`.
    pub(crate) fn parse(started: Instant, output: &str) -> Self {
        let mut rows: HashMap<String, Vec<Row>> = HashMap::new();
        for row in output.lines().filter_map(Row::parse) {
            rows.entry(row.name.clone()).or_default().push(row);
        }
        Self { started, rows }
    }

    /// Returns the job of the attempt with this name and token. Of several, the one with the ID `job`, then one that has
    /// not ended.
    pub(crate) fn row(&self, name: &str, token: &str, job: Option<&str>) -> Option<&Row> {
        let rows = || self.rows.get(name).into_iter().flatten().filter(|row| row.is_of(name, token));
        rows()
            .find(|row| Some(row.job.as_str()) == job)
            .or_else(|| rows().find(|row| !row.state.is_final()))
            .or_else(|| rows().next_back())
    }

    /// The jobs that have not ended.
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
