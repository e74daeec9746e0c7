use std::collections::BTreeMap;
use std::io::Read;

use jiff::Timestamp;
use serde::Deserialize;
use tunesmith_algorithms::problem::ParameterValues;
use tunesmith_benchmark::problems::table::{TableProblem, TableRow};

use super::{RecordPosition, RecordedError, parameter_value};
use tunesmith_api::ai_platform::{TrainingInput, study_spec};

/// Reads the problem `name`, evaluated by the trials of a job, from the output of `tunesmith jobs describe --format
/// json` or an AI Platform job resource.
///
/// The resource contains only successful trials, so failures are not replayed, unlike from a CSV file.
///
/// # Errors
/// [`RecordedError`] for the first invalid value.
pub fn read_job(name: impl Into<String>, reader: impl Read) -> Result<TableProblem, RecordedError> {
    let job: Job = serde_json::from_reader(reader)?;
    let Some(spec) = &job.training_input.hyperparameters else {
        return Err(RecordedError::NotTuning { job: job.job_id });
    };
    let study = study_spec(spec, &job.training_input.tunesmith);
    let statement = study.map_err(|source| RecordedError::Study { job: job.job_id.clone(), source })?.study.problem;
    if statement.value_names().nth(1).is_some() {
        return Err(RecordedError::SeveralValues { job: job.job_id });
    }
    let mut rows = Vec::with_capacity(job.training_output.trials.len());
    for trial in &job.training_output.trials {
        let place = RecordPosition::Trial(trial.trial_id.clone());
        let mut parameters = ParameterValues::new();
        for spec in statement.search_space().parameters() {
            let given = trial.hyperparameters.get(spec.name());
            // The table checks whether conditional parameters are active.
            if spec.condition().is_none() || given.is_some() {
                let value = parameter_value(spec, given.map_or("", String::as_str), &place)?;
                parameters.insert(spec.name().to_owned(), value);
            }
        }
        let duration = trial.start_time.zip(trial.end_time).map(|(start, end)| end.duration_since(start));
        rows.push(TableRow {
            parameters,
            values: trial.final_metric.as_ref().map(|metric| vec![metric.objective_value]),
            duration_secs: duration.map(|duration| duration.as_secs_f64()).filter(|secs| *secs > 0.0),
            curve: Vec::new(),
        });
    }
    Ok(TableProblem::new(name, statement, rows)?)
}

/// Job fields used here; others are ignored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    #[serde(default)]
    job_id: String,
    training_input: TrainingInput,
    #[serde(default)]
    training_output: TrainingOutput,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TrainingOutput {
    #[serde(default)]
    trials: Vec<HyperparameterOutput>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HyperparameterOutput {
    trial_id: String,
    hyperparameters: BTreeMap<String, String>,
    final_metric: Option<FinalMetric>,
    start_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FinalMetric {
    /// Canonical JSON omits it if it is 0.
    #[serde(default)]
    objective_value: f64,
}
