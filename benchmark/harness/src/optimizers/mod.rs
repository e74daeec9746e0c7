//! The optimizers of a comparison: the own algorithms by name, and other programs.

mod algorithm;
mod catalogue;
mod external;
mod gaussian_process;
mod in_process;
mod server;

use std::path::Path;
use std::time::Duration;

use tunesmith_algorithms::problem::{ParameterValues, TrialId};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialResult};

use self::algorithm::Algorithm;
pub use self::catalogue::{ALGORITHMS, AlgorithmError};
pub(crate) use self::external::External;
pub(crate) use self::external::messages::point_to_json;
use self::in_process::InProcess;
pub use self::server::serve;

/// The name of an optimizer and the way to start it.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSpec {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Own(Algorithm),
    External { command: String },
}

/// The reason why a text names no optimizer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptimizerSpecError {
    /// It is none of our algorithms.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// There is no command to start.
    #[error("external optimizer {text:?} has no command: write NAME=COMMAND or COMMAND")]
    NoCommand {
        /// The given text.
        text: String,
    },
}

/// The prefix of an external optimizer among the names of algorithms.
const EXTERNAL: &str = "external:";

impl OptimizerSpec {
    /// One of our algorithms (`gp`, `grid:doubles=5`), or `external:` and what [`Self::external`] takes.
    ///
    /// # Errors
    /// [`OptimizerSpecError`].
    pub fn parse(text: &str) -> Result<Self, OptimizerSpecError> {
        if let Some(external) = text.strip_prefix(EXTERNAL) {
            return Self::external(external);
        }
        let algorithm: Algorithm = text.parse()?;
        Ok(Self { name: algorithm.to_string(), kind: Kind::Own(algorithm) })
    }

    /// `NAME=COMMAND`, or a command whose first word, without folders, is the name. The shell starts it.
    ///
    /// # Errors
    /// [`OptimizerSpecError::NoCommand`].
    pub fn external(text: &str) -> Result<Self, OptimizerSpecError> {
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
            return Err(OptimizerSpecError::NoCommand { text: text.to_owned() });
        }
        Ok(Self { name, kind: Kind::External { command: command.to_owned() } })
    }

    /// The name in the records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// An optimizer of this kind. Standard error of other programs goes to a file in the folder `logs`; each of their
    /// answers may take up to `limit`.
    pub(crate) fn start(&self, logs: &Path, limit: Duration) -> StartedOptimizer {
        match &self.kind {
            Kind::Own(algorithm) => StartedOptimizer::Own(InProcess::new(algorithm.clone())),
            Kind::External { command } => {
                let log = logs.join(format!("{}.log", self.name.replace(':', "_")));
                StartedOptimizer::External(External::new(command.clone(), log, limit))
            }
        }
    }

    /// The same optimizer as its own process, so that its time and memory can be measured.
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

/// An optimizer that is ready to start a study.
pub(crate) enum StartedOptimizer {
    Own(InProcess),
    External(External),
}

impl StartedOptimizer {
    /// The version that the optimizer reports; for an own algorithm that of this program.
    pub(crate) fn version(&self) -> Option<String> {
        match self {
            Self::Own(_) => Some(format!("tunesmith {}", env!("CARGO_PKG_VERSION"))),
            Self::External(external) => external.version().map(str::to_owned),
        }
    }

    fn inner(&mut self) -> &mut dyn Optimizer {
        match self {
            Self::Own(optimizer) => optimizer,
            Self::External(optimizer) => optimizer,
        }
    }
}

impl Optimizer for StartedOptimizer {
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError> {
        self.inner().create(study)
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
        self.inner().suggest(trials)
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
        self.inner().complete(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optimizers_are_named_by_the_user_or_by_their_program() {
        let name = |text: &str| OptimizerSpec::parse(text).unwrap().name().to_owned();
        assert_eq!(name("gp"), "gp");
        assert_eq!(name("external:mine=python3 mine.py"), "mine");
        assert_eq!(name("external:benches/peers/run.sh optuna tpe"), "run.sh");
        let command = |text: &str| match OptimizerSpec::external(text).unwrap().kind {
            Kind::External { command } => command,
            Kind::Own(algorithm) => panic!("{algorithm}"),
        };
        assert_eq!(command("mine=python3 mine.py --beta=2"), "python3 mine.py --beta=2");
        assert_eq!(command("python3 mine.py --beta=2"), "python3 mine.py --beta=2");
        assert_eq!(
            OptimizerSpec::parse("external:mine=").unwrap_err().to_string(),
            "external optimizer \"mine=\" has no command: write NAME=COMMAND or COMMAND"
        );
    }
}
