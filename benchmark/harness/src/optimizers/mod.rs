//! Optimizers of a comparison: our algorithms by name, and external programs.

mod algorithm;
mod external;
mod in_process;
mod server;

use std::path::Path;
use std::time::Duration;

use tunesmith_benchmark::optimizer::Optimizer;

use self::algorithm::OwnAlgorithm;
pub use self::algorithm::{ALGORITHMS, AlgorithmError};
pub use self::external::External;
pub(crate) use self::external::messages::point_to_json;
use self::in_process::InProcess;
pub use self::server::serve;

/// Version of our algorithms in records, with the commit.
pub(crate) const VERSION: &str = concat!("tunesmith ", env!("TUNESMITH_VERSION"));

/// Name and start command of an optimizer.
#[derive(Debug, Clone, PartialEq)]
pub struct OptimizerSpec {
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Own(OwnAlgorithm),
    External { command: String },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptimizerSpecError {
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    #[error("external optimizer {text:?} has no command: write NAME=COMMAND or COMMAND")]
    NoCommand { text: String },
}

/// Prefix of an external optimizer among the names of algorithms.
const EXTERNAL: &str = "external:";

impl OptimizerSpec {
    /// Parses one of our algorithms (`gp`, `grid:doubles=5`), or `external:` followed by an argument of
    /// [`Self::external`].
    ///
    /// # Errors
    /// [`OptimizerSpecError`].
    pub fn parse(text: &str) -> Result<Self, OptimizerSpecError> {
        if let Some(external) = text.strip_prefix(EXTERNAL) {
            return Self::external(external);
        }
        let algorithm: OwnAlgorithm = text.parse()?;
        Ok(Self { name: algorithm.to_string(), kind: Kind::Own(algorithm) })
    }

    /// Parses `NAME=COMMAND`, or a command named after its first word without folders. The shell runs it.
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

    /// Name in the records.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a program of the user.
    pub fn is_external(&self) -> bool {
        matches!(self.kind, Kind::External { .. })
    }

    /// Starts the optimizer. An external one writes its standard error to a file in the folder `logs` and has `limit`
    /// per response.
    pub(crate) fn start(&self, logs: &Path, limit: Duration) -> Box<dyn Optimizer> {
        match &self.kind {
            Kind::Own(algorithm) => Box::new(InProcess::new(algorithm.clone())),
            Kind::External { command } => Box::new(self.external_process(command.clone(), logs, limit)),
        }
    }

    /// The same optimizer in a process of its own, to measure its time and memory. `program` is `tunesmith`, which runs
    /// our algorithms.
    pub fn in_own_process(&self, program: &Path, logs: &Path, limit: Duration) -> External {
        let command = match &self.kind {
            Kind::External { command } => command.clone(),
            Kind::Own(algorithm) => {
                let program = program.to_string_lossy().replace('\'', r"'\''");
                format!("exec '{program}' bench contestant '{algorithm}'")
            }
        };
        self.external_process(command, logs, limit)
    }

    fn external_process(&self, command: String, logs: &Path, limit: Duration) -> External {
        External::new(command, logs.join(format!("{}.log", self.name.replace(':', "_"))), limit)
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
