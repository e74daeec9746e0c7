//! Who takes part: our own algorithms by name, and other programs.

mod algorithm;
mod external;
mod gaussian_process;
mod in_process;
mod server;

use std::path::Path;
use std::time::Duration;

use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};

use self::algorithm::Algorithm;
pub use self::algorithm::{ALGORITHMS, AlgorithmError};
pub(crate) use self::external::External;
pub(crate) use self::external::messages::point_to_json;
use self::in_process::InProcess;
pub use self::server::serve;

/// How a contestant is named and started.
#[derive(Debug, Clone, PartialEq)]
pub struct ContestantSpec {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Own(Algorithm),
    External { command: String },
}

/// Why a text names no contestant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContestantSpecError {
    /// It is none of our algorithms.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// There is no command to start.
    #[error("external contestant {text:?} has no command: write NAME=COMMAND or COMMAND")]
    NoCommand {
        /// What was given.
        text: String,
    },
}

/// What starts an external contestant among the names of algorithms.
const EXTERNAL: &str = "external:";

impl ContestantSpec {
    /// One of our algorithms (`gp`, `grid:doubles=5`), or `external:` and what [`Self::external`] takes.
    ///
    /// # Errors
    /// [`ContestantSpecError`].
    pub fn parse(text: &str) -> Result<Self, ContestantSpecError> {
        if let Some(external) = text.strip_prefix(EXTERNAL) {
            return Self::external(external);
        }
        let algorithm: Algorithm = text.parse()?;
        Ok(Self { name: algorithm.to_string(), kind: Kind::Own(algorithm) })
    }

    /// `NAME=COMMAND`, or a command whose first word, without folders, is the name. The shell starts it.
    ///
    /// # Errors
    /// [`ContestantSpecError::NoCommand`].
    pub fn external(text: &str) -> Result<Self, ContestantSpecError> {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.:".contains(letter))
        };
        let (name, command) = match text.split_once('=') {
            Some((name, command)) if is_name(name) => (name.to_owned(), command.trim()),
            _ => {
                let first = text.split_whitespace().next().unwrap_or_default();
                (first.rsplit('/').next().unwrap_or_default().to_owned(), text.trim())
            }
        };
        if command.is_empty() || name.is_empty() {
            return Err(ContestantSpecError::NoCommand { text: text.to_owned() });
        }
        Ok(Self { name, kind: Kind::External { command: command.to_owned() } })
    }

    /// The name under which its results stand.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A contestant of this kind. Standard error of other programs goes to a file in the folder `logs`; each of their
    /// answers may take up to `limit`.
    pub(crate) fn start(&self, logs: &Path, limit: Duration) -> StartedContestant {
        match &self.kind {
            Kind::Own(algorithm) => StartedContestant::Own(InProcess::new(algorithm.clone())),
            Kind::External { command } => {
                let log = logs.join(format!("{}.log", self.name.replace(':', "_")));
                StartedContestant::External(External::new(command.clone(), log, limit))
            }
        }
    }

    /// The same contestant as a process of its own, so that its time and memory can be told apart.
    pub(crate) fn in_own_process(&self, program: &Path, logs: &Path, limit: Duration) -> External {
        let (command, log) = match &self.kind {
            Kind::External { command } => (command.clone(), &self.name),
            Kind::Own(algorithm) => {
                let program = program.to_string_lossy().replace('\'', r"'\''");
                (format!("exec '{program}' bench contestant '{algorithm}'"), &self.name)
            }
        };
        External::new(command, logs.join(format!("{}.log", log.replace(':', "_"))), limit)
    }
}

/// A contestant that is ready to begin a study.
pub(crate) enum StartedContestant {
    Own(InProcess),
    External(External),
}

impl StartedContestant {
    /// What it says of its version; ours is that of this program.
    pub(crate) fn version(&self) -> Option<String> {
        match self {
            Self::Own(_) => Some(format!("tunesmith {}", env!("CARGO_PKG_VERSION"))),
            Self::External(external) => external.version().map(str::to_owned),
        }
    }

    fn contestant(&mut self) -> &mut dyn Optimizer {
        match self {
            Self::Own(contestant) => contestant,
            Self::External(contestant) => contestant,
        }
    }
}

impl Optimizer for StartedContestant {
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError> {
        self.contestant().create(study)
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
        self.contestant().suggest(trials)
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
        self.contestant().complete(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_are_named_by_the_user_or_by_their_program() {
        let name = |text: &str| ContestantSpec::parse(text).unwrap().name().to_owned();
        assert_eq!(name("gp"), "gp");
        assert_eq!(name("external:mine=python3 mine.py"), "mine");
        assert_eq!(name("external:benches/peers/run.sh optuna tpe"), "run.sh");
        let command = |text: &str| match ContestantSpec::external(text).unwrap().kind {
            Kind::External { command } => command,
            Kind::Own(algorithm) => panic!("{algorithm}"),
        };
        assert_eq!(command("mine=python3 mine.py --beta=2"), "python3 mine.py --beta=2");
        assert_eq!(command("python3 mine.py --beta=2"), "python3 mine.py --beta=2");
        assert_eq!(
            ContestantSpec::parse("external:mine=").unwrap_err().to_string(),
            "external contestant \"mine=\" has no command: write NAME=COMMAND or COMMAND"
        );
    }
}
