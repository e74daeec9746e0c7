//! External optimizers: child processes that speak the protocol of `messages`.

pub(super) mod messages;
mod process;

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tunesmith_algorithms::problem::{ParameterValues, ProblemStatement, TrialId, TrialOutcome};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialReport, TrialResult};

use self::messages::{Answer, Request, WireProblem, point_from_json, point_to_json};
use self::process::Process;

/// Maximum length of the quote from an invalid response.
const QUOTED_CHARS: usize = 200;

/// An external optimizer. Its process starts with the first study and is kept for the next; after a failure it is
/// killed, and the next study starts a new one.
pub struct External {
    command: String,
    log: PathBuf,
    limit: Duration,
    process: Option<Process>,
    problem: Option<ProblemStatement>,
    version: Option<String>,
}

impl External {
    /// Runs `command` in the shell, with a time limit of `limit` per response and standard error appended to `log`.
    pub(crate) fn new(command: String, log: PathBuf, limit: Duration) -> Self {
        Self { command, log, limit, process: None, problem: None, version: None }
    }

    /// Process id while running.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, OptimizerError> {
        let answer = self.try_ask(request);
        if answer.is_err() {
            // The late response may still arrive and be mistaken for the next one.
            self.process = None;
        }
        answer.map_err(|reason| OptimizerError::Failed { reason })
    }

    fn try_ask(&mut self, request: &Request) -> Result<Answer, String> {
        let line = serde_json::to_string(request).map_err(|error| format!("cannot write the request: {error}"))?;
        let process = self.process.as_mut().ok_or("it is not running")?;
        let text = process.ask(&line, self.limit).map_err(|error| error.to_string())?;
        let answer: Answer = serde_json::from_str(&text).map_err(|error| {
            let quoted: String = text.chars().take(QUOTED_CHARS).collect();
            format!("its answer is not what the protocol asks for: {error}: {quoted:?}")
        })?;
        match answer.error {
            Some(error) => Err(format!("it answered with an error: {error}")),
            None => Ok(answer),
        }
    }
}

impl Optimizer for External {
    fn create(&mut self, study: &StudyRequest) -> Result<(), OptimizerError> {
        if self.process.is_none() {
            let process = Process::start(&self.command, &self.log)
                .map_err(|error| OptimizerError::Failed { reason: error.to_string() })?;
            self.process = Some(process);
        }
        self.problem = Some(study.problem.clone());
        let StudyRequest { seed, budget, parallel, .. } = *study;
        let problem = WireProblem::new(&study.problem, study.constraints);
        let answer = self.ask(&Request::Create { problem, seed, budget, parallel })?;
        self.version = answer.version.or_else(|| self.version.take());
        match answer.unsupported {
            Some(reason) => Err(OptimizerError::Unsupported { reason }),
            None => Ok(()),
        }
    }

    fn suggest(&mut self, trials: &[TrialId]) -> Result<Vec<ParameterValues>, OptimizerError> {
        let answer = self.ask(&Request::Suggest { trials: trials.iter().map(|trial| trial.0).collect() })?;
        let points = answer.suggestions.ok_or_else(|| "its answer to suggest has no \"suggestions\"".to_owned());
        let points = points.and_then(|points| {
            let space = self.problem.as_ref().ok_or("no study was started")?.search_space();
            let mut read = Vec::with_capacity(points.len());
            for point in &points {
                read.push(point_from_json(space, point).map_err(|error| {
                    format!(
                        "it suggested a point that is not in the search space: {error}: {}",
                        Value::from(point.clone())
                    )
                })?);
            }
            Ok(read)
        });
        points.map_err(|reason| {
            self.process = None;
            OptimizerError::Failed { reason }
        })
    }

    fn complete(&mut self, result: &TrialResult) -> Result<(), OptimizerError> {
        let names = self.problem.iter().flat_map(|problem| problem.metrics()).map(|metric| metric.name.clone());
        let infeasible = matches!(result.trial.outcome, TrialOutcome::Infeasible).then(|| {
            let reason = if result.values.is_some() { "a constraint is violated" } else { "the trial failed" };
            reason.to_owned()
        });
        self.ask(&Request::Complete {
            trial: result.trial.id.0,
            parameters: point_to_json(&result.trial.parameters),
            metrics: names.zip(result.values.iter().flatten().copied()).collect(),
            constraints: result.constraints.clone(),
            infeasible,
            stopped_early: matches!(&result.trial.outcome, TrialOutcome::Measured { fidelity, .. } if !fidelity.is_full()),
        })?;
        Ok(())
    }

    fn report(&mut self, report: &TrialReport) -> Result<bool, OptimizerError> {
        let TrialReport { trial, step, value } = *report;
        let answer = self.ask(&Request::Report { trial: trial.0, step, value })?;
        match answer.unsupported {
            Some(reason) => Err(OptimizerError::Unsupported { reason }),
            None => Ok(answer.stop.unwrap_or(false)),
        }
    }

    fn version(&self) -> Option<String> {
        self.version.clone()
    }
}
