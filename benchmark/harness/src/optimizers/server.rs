//! Server side of the protocol: one of our algorithms as an optimizer for another process.
//!
//! Measurements of time and memory then use the same pipe for all optimizers, and other benchmarks can call our
//! algorithms.

use std::io::{BufRead, Write};

use tunesmith_algorithms::problem::{CompletedTrial, Fidelity, ProblemStatement, TrialId, TrialOutcome};
use tunesmith_benchmark::optimizer::{Optimizer, OptimizerError, StudyRequest, TrialReport, TrialResult};

use super::algorithm::OwnAlgorithm;
use super::external::messages::{Answer, Request, point_from_json, point_to_json};
use super::in_process::InProcess;

/// Serves requests from `input` one at a time on `output` until `input` ends.
///
/// # Errors
/// Reading or writing failed. An invalid request gets an error response.
pub fn serve(algorithm: &str, input: impl BufRead, mut output: impl Write) -> anyhow::Result<()> {
    let algorithm: OwnAlgorithm = algorithm.parse()?;
    let mut server = Server { name: algorithm.to_string(), optimizer: InProcess::new(algorithm), problem: None };
    for line in input.lines() {
        let answer = match serde_json::from_str::<Request>(&line?) {
            Ok(request) => server.answer(request),
            Err(error) => Err(format!("this is not a request: {error}")),
        };
        let answer = answer.unwrap_or_else(|error| Answer { error: Some(error), ..Answer::default() });
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

struct Server {
    name: String,
    optimizer: InProcess,
    problem: Option<ProblemStatement>,
}

impl Server {
    fn answer(&mut self, request: Request) -> Result<Answer, String> {
        match request {
            Request::Create { problem, seed, budget, parallel } => {
                let constraints = problem.constraints;
                let problem = problem.statement()?;
                self.problem = Some(problem.clone());
                let sources = Vec::new();
                let study = StudyRequest { problem, seed, budget, parallel, constraints, sources };
                let created = self.optimizer.create(&study);
                let answer =
                    Answer { name: Some(self.name.clone()), version: self.optimizer.version(), ..Answer::default() };
                match created {
                    Err(OptimizerError::Unsupported { reason }) => Ok(Answer { unsupported: Some(reason), ..answer }),
                    created => created.map(|()| answer).map_err(|error| error.to_string()),
                }
            }
            Request::Suggest { trials } => {
                let trials: Vec<TrialId> = trials.into_iter().map(TrialId).collect();
                let points = self.optimizer.suggest(&trials).map_err(|error| error.to_string())?;
                let suggestions = Some(points.iter().map(point_to_json).collect());
                Ok(Answer { suggestions, ..Answer::default() })
            }
            Request::Complete { trial, parameters, metrics, constraints, infeasible, stopped_early } => {
                let problem = self.problem.as_ref().ok_or("no study was started")?;
                let parameters = point_from_json(problem.search_space(), &parameters)?;
                let values: Option<Vec<f64>> =
                    problem.metrics().iter().map(|metric| metrics.get(&metric.name).copied()).collect();
                let outcome = match &values {
                    Some(values) if infeasible.is_none() => {
                        let fidelity = if stopped_early { Fidelity::Partial } else { Fidelity::Full };
                        TrialOutcome::Measured { values: values.clone(), fidelity }
                    }
                    _ => TrialOutcome::Infeasible,
                };
                let trial = CompletedTrial { id: TrialId(trial), parameters, outcome };
                let result = TrialResult { trial, values, constraints };
                self.optimizer.complete(&result).map_err(|error| error.to_string())?;
                Ok(Answer::default())
            }
            Request::Report { trial, step, value } => {
                let report = TrialReport { trial: TrialId(trial), step, value };
                match self.optimizer.report(&report) {
                    Ok(stop) => Ok(Answer { stop: Some(stop), ..Answer::default() }),
                    Err(OptimizerError::Unsupported { reason }) => {
                        Ok(Answer { unsupported: Some(reason), ..Answer::default() })
                    }
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }
}
