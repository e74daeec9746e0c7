//! The results of a job: the table of trials, the arguments of the best one, and the output files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use comfy_table::{Table, presets};
use futures::TryStreamExt;
use tunesmith_algorithms::problem::Goal;

use super::progress::duration_text;
use tunesmith_api::ai_platform::job::{best_first, job_resource};
use tunesmith_domain::{Job, JobState, Study, StudyState, Trial, TrialState};
use tunesmith_service::pages;
use tunesmith_store::{Store, StoreError};

/// Maximum number of rows in the table.
const TABLE_ROWS: usize = 50;

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

    /// Returns the results as text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if let (Some((metric, goal)), false) = (self.metric(), self.trials.is_empty()) {
            text.push_str(&self.table(metric, goal));
            text.push('\n');
            if let Some(best) = self.best(metric, goal) {
                text.push_str(&self.best_text(best, metric));
            }
        }
        text.push_str(&format!("job {} is {}", self.job.id, self.job.state));
        if !self.job.error_message.is_empty() {
            text.push_str(&format!(": {}", self.job.error_message));
        }
        text.push('\n');
        if self.is_exhausted() {
            text.push_str(&format!("search space exhausted after {} trials\n", self.trials.len()));
        }
        text.push_str(&format!("logs: {}\n", self.logs));
        if let Ok(plan) = self.job.plan()
            && let Some(job_dir) = &plan.job_dir
        {
            text.push_str(&format!("models: {job_dir}\n"));
        }
        text
    }

    /// Whether the job succeeded with fewer trials than it asked for.
    fn is_exhausted(&self) -> bool {
        let Ok(plan) = self.job.plan() else { return false };
        self.study.as_ref().is_some_and(|study| study.state == StudyState::Completed)
            && self.job.state == JobState::Succeeded
            && (self.trials.len() as u64) < plan.max_trials
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
        let names: Vec<&str> = self
            .study
            .iter()
            .flat_map(|study| study.problem.search_space().parameters())
            .map(|parameter| parameter.name())
            .collect();
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

    fn table(&self, metric: &str, goal: Goal) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        // A trial lacks the conditional parameters that are inactive.
        let parameters: BTreeSet<&String> = self.trials.iter().flat_map(|trial| trial.parameters.keys()).collect();
        let mut header = vec!["trial".to_owned(), metric.to_owned(), "step".to_owned()];
        header.extend(parameters.iter().map(|name| (*name).clone()));
        header.extend(["duration".to_owned(), "state".to_owned()]);
        table.set_header(header);
        for trial in best_first(&self.trials, metric, goal).into_iter().take(TABLE_ROWS) {
            let result = trial.final_measurement.as_ref();
            let value = result.and_then(|found| found.value(metric));
            let mut row = vec![
                trial.id.to_string(),
                value.map_or_else(|| "-".to_owned(), |value| value.to_string()),
                result.map_or_else(|| "-".to_owned(), |found| found.step.to_string()),
            ];
            row.extend(parameters.iter().map(|name| trial.parameters.get(*name).map(short_value).unwrap_or_default()));
            row.push(duration(trial));
            row.push(state_text(trial));
            table.add_row(row);
        }
        let mut text = table.to_string();
        if self.trials.len() > TABLE_ROWS {
            text.push_str(&format!("\nand {} more trials", self.trials.len() - TABLE_ROWS));
        }
        text
    }

    fn best_text(&self, best: &Trial, metric: &str) -> String {
        let value = best.final_measurement.as_ref().and_then(|found| found.value(metric)).unwrap_or(f64::NAN);
        let arguments: Vec<String> =
            best.parameters.iter().map(|(name, value)| shell_word(&format!("--{name}={value}"))).collect();
        format!("best: trial {} with {metric}={value}\n  {}\n", best.id, arguments.join(" "))
    }
}

/// Replaces the file `path` atomically.
fn replace_file(path: &Path, write: impl FnOnce(&mut std::fs::File) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut name =
        path.file_name().with_context(|| format!("{} is not the path of a file", path.display()))?.to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut file =
        std::fs::File::create(&partial).with_context(|| format!("{} cannot be written", partial.display()))?;
    write(&mut file)?;
    file.sync_all()?;
    std::fs::rename(&partial, path).with_context(|| format!("{} cannot be written", path.display()))
}

/// Formats the value of a parameter for a table, with six significant digits.
pub(super) fn short_value(value: &tunesmith_algorithms::problem::ParameterValue) -> String {
    use tunesmith_algorithms::problem::ParameterValue;
    match value {
        ParameterValue::Double(number) => {
            let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(*number);
            ParameterValue::Double(rounded).to_string()
        }
        other => other.to_string(),
    }
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
