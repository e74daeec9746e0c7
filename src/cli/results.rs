//! The results of a job: the table of trials, the arguments of the best one, and the output files.

use std::path::{Path, PathBuf};

use anyhow::Context;
use futures::TryStreamExt;
use tunesmith_algorithms::insight::PredictedPoint;
use tunesmith_algorithms::problem::Goal;
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};

use super::progress::duration_text;
use super::recommended::recommended;
use super::table::{Column, Layout, Table};
use tunesmith_api::ai_platform::job::{best_first, job_resource};
use tunesmith_domain::{Job, JobState, Study, StudyState, Trial, TrialState};
use tunesmith_files::create_for_user;
use tunesmith_service::pages;
use tunesmith_store::{Store, StoreError};

/// Maximum number of rows in the table: of trials that did not fail, and of failed ones.
const TABLE_ROWS: usize = 50;

/// The reason of a study whose points have all been tried.
const EXHAUSTED: &str = "search space exhausted";

/// A job with its study and its trials.
pub(super) struct Results {
    pub(super) job: Job,
    pub(super) study: Option<Study>,
    pub(super) trials: Vec<Trial>,
    /// The folder of the logs, or the command that prints them.
    pub(super) logs: String,
}

impl Results {
    /// Reads the study and the trials of `job`, whose files are in `directory`. A missing study has no trials.
    pub(super) async fn read(store: &dyn Store, job: Job, directory: PathBuf) -> Result<Self, StoreError> {
        let study = match &job.study {
            Some(id) => match store.study(id).await {
                Ok(study) => Some(study),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let trials = match &study {
            Some(study) => pages::trials(store, &study.id).try_collect().await?,
            None => Vec::new(),
        };
        Ok(Self { job, study, trials, logs: directory.display().to_string() })
    }

    /// Returns the results as text, with the table in `layout`.
    ///
    /// # Errors
    /// If the layout selects a column that does not exist.
    pub(super) fn text(&self, layout: &Layout) -> anyhow::Result<String> {
        let mut text = String::new();
        if let (Some((metric, goal)), false) = (self.metric(), self.trials.is_empty()) {
            text.push_str(&self.table(metric, goal, layout)?);
            if let Some(best) = self.best(metric, goal) {
                text.push_str(&self.best_text(best, metric));
                text.push_str(&self.recommended_text(best, metric));
            }
        }
        text.push_str(&format!("job {} is {}", self.job.id, self.job.state));
        if !self.job.error_message.is_empty() {
            text.push_str(&format!(": {}", self.job.error_message));
        }
        text.push('\n');
        if let Some(reason) = self.early_end() {
            text.push_str(&match reason {
                "" | EXHAUSTED => format!("{EXHAUSTED} after {} trials\n", self.trials.len()),
                reason => format!("no further trials after {}: {reason}\n", self.trials.len()),
            });
        }
        text.push_str(&format!("logs: {}\n", self.logs));
        if let Ok(plan) = self.job.plan()
            && let Some(job_dir) = &plan.job_dir
        {
            text.push_str(&format!("models: {job_dir}\n"));
        }
        Ok(text)
    }

    /// The reason why the job succeeded with fewer trials than it asked for, if it did; empty if it is not known.
    fn early_end(&self) -> Option<&str> {
        let plan = self.job.plan().ok()?;
        let study = self.study.as_ref().filter(|study| study.state == StudyState::Completed)?;
        let is_early = self.job.state == JobState::Succeeded && (self.trials.len() as u64) < plan.max_trials;
        is_early.then_some(&study.state_reason)
    }

    /// Writes the job resource as JSON.
    pub(super) fn write_resource(&self, path: &Path) -> anyhow::Result<()> {
        let resource = job_resource(&self.job, self.study.as_ref(), &self.trials);
        let json = serde_json::to_string_pretty(&resource)?;
        replace_file(path, |file| Ok(std::io::Write::write_all(file, format!("{json}\n").as_bytes())?))
    }

    /// Writes the trials as CSV, by number.
    pub(super) fn write_csv(&self, path: &Path) -> anyhow::Result<()> {
        replace_file(path, |file| self.csv(file))
    }

    fn csv(&self, file: &mut std::fs::File) -> anyhow::Result<()> {
        let mut writer = csv::Writer::from_writer(file);
        let names = self.parameter_names();
        let metric = self.metric().map_or("", |(metric, _)| metric);
        let fixed = ["trial_id", "state", "objective_value", "training_step", "stopped_early", "reason"];
        let times = ["start_time", "end_time"];
        writer.write_record(fixed.iter().copied().chain(times).chain(names.iter().copied()))?;
        for trial in &self.trials {
            let result = trial.final_measurement.as_ref();
            let mut row = vec![
                trial.id.to_string(),
                trial.state.to_string(),
                result.and_then(|found| found.value(metric)).map(|value| format!("{value:?}")).unwrap_or_default(),
                result.map(|found| found.step.to_string()).unwrap_or_default(),
                trial.stopped_early.to_string(),
                trial.infeasible_reason.clone().unwrap_or_default(),
                trial.start_time.map(|time| time.to_string()).unwrap_or_default(),
                trial.end_time.map(|time| time.to_string()).unwrap_or_default(),
            ];
            row.extend(
                names.iter().map(|name| trial.parameters.get(*name).map(ToString::to_string).unwrap_or_default()),
            );
            writer.write_record(row)?;
        }
        writer.flush()?;
        Ok(())
    }

    fn metric(&self) -> Option<(&str, Goal)> {
        let metric = &self.study.as_ref()?.problem.metrics()[0];
        Some((&metric.name, metric.goal))
    }

    fn best(&self, metric: &str, goal: Goal) -> Option<&Trial> {
        best_first(&self.trials, metric, goal).first().copied().filter(|trial| trial.state == TrialState::Succeeded)
    }

    /// Returns the table of trials, best first. The parameters stand in the order of the configuration.
    fn table(&self, metric: &str, goal: Goal, layout: &Layout) -> anyhow::Result<String> {
        let parameters: Vec<&str> = self.parameter_names();
        let any_reason = self.trials.iter().any(|trial| trial.infeasible_reason.is_some());
        let mut columns = vec![Column::text("trial"), Column::number(metric)];
        columns.push(Column::number("step").may_be_left_out(parameters.len() + 1));
        columns.extend(parameters.iter().enumerate().map(|(rank, name)| Column::value(*name).may_be_left_out(rank)));
        columns.push(Column::text("duration").may_be_left_out(parameters.len()));
        columns.push(Column::text("state"));
        columns.extend(any_reason.then(|| Column::prose("reason")));
        let mut table = Table::new(columns);
        let is_failed = |trial: &&Trial| trial.infeasible_reason.is_some();
        let (failed, others): (Vec<&Trial>, Vec<&Trial>) =
            best_first(&self.trials, metric, goal).into_iter().partition(is_failed);
        for trial in others.iter().take(TABLE_ROWS).chain(failed.iter().take(TABLE_ROWS)) {
            let result = trial.final_measurement.as_ref();
            let value = result.and_then(|found| found.value(metric));
            let mut row = vec![
                trial.id.to_string(),
                value.map_or_else(|| "-".to_owned(), |value| Rounded(value).to_string()),
                result.map_or_else(|| "-".to_owned(), |found| found.step.to_string()),
            ];
            // A trial lacks the conditional parameters that are inactive.
            let value = |name: &&str| trial.parameters.get(*name).map(|value| RoundedValue(value).to_string());
            row.extend(parameters.iter().map(|name| value(name).unwrap_or_default()));
            row.push(duration(trial));
            row.push(state_text(trial));
            row.extend(trial.infeasible_reason.clone());
            table.add_row(row);
        }
        let mut text = table.render(layout)?;
        let more = [(others.len(), "more trials"), (failed.len(), "more failed trials")];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > TABLE_ROWS) {
            text.push_str(&format!("and {} {what}\n", count - TABLE_ROWS));
        }
        Ok(text)
    }

    /// Returns the names of the parameters in the order of the configuration.
    pub(super) fn parameter_names(&self) -> Vec<&str> {
        let space = self.study.iter().flat_map(|study| study.problem.search_space().parameters());
        space.map(|parameter| parameter.name()).collect()
    }

    fn best_text(&self, best: &Trial, metric: &str) -> String {
        let value = best.final_measurement.as_ref().and_then(|found| found.value(metric)).unwrap_or(f64::NAN);
        let given = self.parameter_names().into_iter().filter_map(|name| Some((name, best.parameters.get(name)?)));
        let arguments: Vec<String> =
            given.map(|(name, value)| shell_word(&format!("--{name}={}", RoundedValue(value)))).collect();
        format!("best: trial {} with {metric}={}\n  {}\n", best.id, Rounded(value), arguments.join(" "))
    }

    /// The trial that the model recommends, if it is another one than `best`.
    fn recommended_text(&self, best: &Trial, metric: &str) -> String {
        let found = self.study.as_ref().and_then(|study| recommended(study, &self.trials));
        let Some(PredictedPoint { trial: Some(trial), predicted, .. }) = found else { return String::new() };
        if trial == best.id || self.trials.iter().any(|other| other.id == trial && other.parameters == best.parameters)
        {
            return String::new();
        }
        format!(
            "recommended: trial {trial}, of which the model expects {metric}={} ({} to {}); trial {} may have been lucky\n",
            Rounded(predicted.median),
            Rounded(predicted.lower),
            Rounded(predicted.upper),
            best.id
        )
    }
}

/// Replaces the file `path` atomically.
pub(super) fn replace_file(
    path: &Path,
    write: impl FnOnce(&mut std::fs::File) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut name =
        path.file_name().with_context(|| format!("{} is not the path of a file", path.display()))?.to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut file = create_for_user(&partial).with_context(|| format!("{} cannot be written", partial.display()))?;
    write(&mut file)?;
    file.sync_all()?;
    std::fs::rename(&partial, path).with_context(|| format!("{} cannot be written", path.display()))
}

fn duration(trial: &Trial) -> String {
    match (trial.start_time, trial.end_time) {
        (Some(start), Some(end)) => duration_text(end.duration_since(start).as_secs_f64()),
        _ => "-".to_owned(),
    }
}

fn state_text(trial: &Trial) -> String {
    if trial.stopped_early { format!("{}, stopped early", trial.state) } else { trial.state.to_string() }
}

/// Quotes a word for a POSIX shell where it needs it.
pub(super) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word("--lr=1e-5"), "--lr=1e-5");
        assert_eq!(shell_word("--name=it's"), r"'--name=it'\''s'");
    }
}
