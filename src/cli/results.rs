//! The results of a job: the table of trials, the arguments of the best one, and the output files.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use futures::TryStreamExt;
use tunesmith_algorithms::encoding::{AtBound, Bound};
use tunesmith_algorithms::insight::{Estimate, PredictedPoint, Recommendation};
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};

use super::progress::duration_text;
use super::recommended::recommended;
use super::table::{Column, Layout, Table};
use tunesmith_api::ai_platform::job::{RecommendedTrial, job_resource};
use tunesmith_domain::{
    Job, JobState, StoppingRuleKind, Study, StudyState, Trial, TrialState, best_at_bounds, best_first,
    optimal_of_several,
};
use tunesmith_files::create_for_user;
use tunesmith_service::pages;
use tunesmith_store::{Store, StoreError};

/// Maximum number of rows in the table: of trials that did not fail, and of failed ones.
const TABLE_ROWS: usize = 50;

/// Maximum number of optimal trials of several metrics that are listed.
const SHOWN_OPTIMAL: usize = 20;

/// The reason of a study whose points have all been tried.
const EXHAUSTED: &str = "search space exhausted";

/// A job with its study and its trials.
pub(super) struct Results {
    pub(super) job: Job,
    pub(super) study: Option<Study>,
    pub(super) trials: Vec<Trial>,
    /// The folder of the logs, or the command that prints them.
    pub(super) logs: String,
    /// The recommended trial, once it was computed.
    pub(super) recommended: OnceLock<Option<Recommendation>>,
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
        Ok(Self { job, study, trials, logs: directory.display().to_string(), recommended: OnceLock::new() })
    }

    /// Returns the results as text, with the table in `layout`.
    ///
    /// # Errors
    /// If the layout selects a column that does not exist.
    pub(super) fn text(&self, layout: &Layout) -> anyhow::Result<String> {
        let mut text = String::new();
        if let (Some(study), false) = (&self.study, self.trials.is_empty()) {
            text.push_str(&self.table(study, layout)?);
            text.push_str(&self.winners_text(study));
            text.push_str(&at_bounds_text(study, &self.trials).unwrap_or_default());
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
        text.push_str(&self.no_stop_text().unwrap_or_default());
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

    /// Why the rule of early stopping of a job that has ended has stopped no trial.
    fn no_stop_text(&self) -> Option<String> {
        let rule = self.study.as_ref()?.stopping_rule.filter(|_| self.job.state.is_final())?;
        let has_result = |trial: &&Trial| trial.state == TrialState::Succeeded;
        let whole: Vec<&Trial> = self.trials.iter().filter(has_result).collect();
        if whole.is_empty() || self.trials.iter().any(|trial| trial.stopped_early) {
            return None;
        }
        let count = |trial: &&Trial| usize::try_from(trial.measurement_count).unwrap_or(usize::MAX);
        let reason = rule.explain_no_stop(&whole.iter().map(count).collect::<Vec<_>>());
        Some(format!("{} stopped no trial: {reason}\n", rule_name(rule.kind())))
    }

    /// Writes the job resource as JSON.
    pub(super) fn write_resource(&self, path: &Path) -> anyhow::Result<()> {
        let resource = job_resource(&self.job, self.study.as_ref(), &self.trials);
        let recommended = self.recommended().and_then(|found| {
            let Estimate { median, lower, upper } = found.point.predicted;
            let trial_id = found.point.trial?.to_string();
            let best_may_be_lucky = found.best_may_be_lucky;
            Some(RecommendedTrial { trial_id, predicted: median, lower, upper, best_may_be_lucky })
        });
        let resource = resource.with_recommended(recommended);
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
        let values: Vec<&str> = self.study.iter().flat_map(|study| study.problem.value_names()).collect();
        let metric = values.first().copied().unwrap_or("");
        let several = if values.len() > 1 { values.as_slice() } else { &[] };
        let fixed = ["trial_id", "state", "objective_value", "training_step", "stopped_early", "reason"];
        let recommended = self.recommended().and_then(|found| found.point.trial);
        let times = ["start_time", "end_time", "recommended"];
        let names_of_values = names.iter().chain(several).copied();
        writer.write_record(fixed.iter().copied().chain(times).chain(names_of_values))?;
        for trial in &self.trials {
            let result = trial.final_measurement.as_ref();
            let mut row = vec![
                trial.id.to_string(),
                trial.state.to_string(),
                exact(trial, metric),
                result.map(|found| found.step.to_string()).unwrap_or_default(),
                trial.stopped_early.to_string(),
                self.reason(trial).unwrap_or_default(),
                trial.start_time.map(|time| time.to_string()).unwrap_or_default(),
                trial.end_time.map(|time| time.to_string()).unwrap_or_default(),
                (recommended == Some(trial.id)).to_string(),
            ];
            row.extend(
                names.iter().map(|name| trial.parameters.get(*name).map(ToString::to_string).unwrap_or_default()),
            );
            row.extend(several.iter().map(|name| exact(trial, name)));
            writer.write_record(row)?;
        }
        writer.flush()?;
        Ok(())
    }

    /// Why `trial` is infeasible, or which constraints its result violates.
    fn reason(&self, trial: &Trial) -> Option<String> {
        let violated = self.study.iter().flat_map(|study| study.violated(trial));
        let violated: Vec<&str> = violated.map(|constraint| constraint.name.as_str()).collect();
        let violates = (!violated.is_empty()).then(|| format!("violates {}", violated.join(", ")));
        trial.infeasible_reason.clone().or(violates)
    }

    /// Returns the table of trials, best first. The parameters stand in the order of the configuration.
    fn table(&self, study: &Study, layout: &Layout) -> anyhow::Result<String> {
        let parameters: Vec<&str> = self.parameter_names();
        let values: Vec<&str> = study.problem.value_names().collect();
        let any_reason = self.trials.iter().any(|trial| self.reason(trial).is_some());
        let mut columns = vec![Column::text("TRIAL")];
        columns.extend(values.iter().map(|name| Column::number(*name)));
        columns.push(Column::number("STEP").may_be_left_out(parameters.len() + 1));
        columns.extend(parameters.iter().enumerate().map(|(rank, name)| Column::value(*name).may_be_left_out(rank)));
        columns.push(Column::text("DURATION").may_be_left_out(parameters.len()));
        columns.push(Column::text("STATE"));
        columns.extend(any_reason.then(|| Column::prose("REASON")));
        let mut table = Table::new(columns);
        let is_failed = |trial: &&Trial| trial.infeasible_reason.is_some();
        let (failed, others): (Vec<&Trial>, Vec<&Trial>) =
            best_first(study, &self.trials).into_iter().partition(is_failed);
        for trial in others.iter().take(TABLE_ROWS).chain(failed.iter().take(TABLE_ROWS)) {
            let result = trial.final_measurement.as_ref();
            let mut row = vec![trial.id.to_string()];
            let value = |name: &&str| result.and_then(|found| found.value(name));
            row.extend(
                values
                    .iter()
                    .map(|name| value(name).map_or_else(|| "-".to_owned(), |value| Rounded(value).to_string())),
            );
            row.push(result.map_or_else(|| "-".to_owned(), |found| found.step.to_string()));
            // A trial lacks the conditional parameters that are inactive.
            let value = |name: &&str| trial.parameters.get(*name).map(|value| RoundedValue(value).to_string());
            row.extend(parameters.iter().map(|name| value(name).unwrap_or_default()));
            row.push(duration(trial));
            row.push(state_text(trial));
            row.extend(any_reason.then(|| self.reason(trial).unwrap_or_default()));
            table.add_row(row);
        }
        let mut text = table.render(layout)?;
        let more = [(others.len(), "more trials"), (failed.len(), "more failed trials")];
        for (count, what) in more.into_iter().filter(|(count, _)| *count > TABLE_ROWS) {
            text.push_str(&format!("and {} {what}\n", count - TABLE_ROWS));
        }
        Ok(text)
    }

    /// Returns the best trial with its arguments, the trial that the model recommends, and with several metrics the optimal
    /// ones.
    fn winners_text(&self, study: &Study) -> String {
        let metric = &study.problem.metrics()[0].name;
        let first = best_first(study, &self.trials).first().copied();
        let Some(best) = first.filter(|trial| trial.state == TrialState::Succeeded) else { return String::new() };
        if !study.is_feasible(best) {
            return "best: no trial satisfies every constraint\n".to_owned();
        }
        let optimal = optimal_of_several(study, &self.trials);
        if optimal.is_empty() {
            return self.best_text(best, metric) + &self.recommended_text(best, metric);
        }
        let shown: Vec<String> = optimal.iter().take(SHOWN_OPTIMAL).map(ToString::to_string).collect();
        let more = optimal.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let word = if optimal.len() == 1 { "trial" } else { "trials" };
        self.best_text(best, metric) + &format!("optimal by all metrics: {word} {}{more}\n", shown.join(", "))
    }

    /// Returns the names of the parameters in the order of the configuration.
    pub(super) fn parameter_names(&self) -> Vec<&str> {
        let space = self.study.iter().flat_map(|study| study.problem.search_space().parameters());
        space.map(|parameter| parameter.name()).collect()
    }

    fn best_text(&self, best: &Trial, metric: &str) -> String {
        let value = best.final_measurement.as_ref().and_then(|found| found.value(metric)).unwrap_or(f64::NAN);
        let given = self.parameter_names().into_iter().filter_map(|name| Some((name, best.parameters.get(name)?)));
        format!("best: trial {} with {metric}={}\n  {}\n", best.id, Rounded(value), flags(given))
    }

    /// The trial that the model recommends, if there are enough results.
    fn recommended(&self) -> Option<&Recommendation> {
        let compute = || self.study.as_ref().and_then(|study| recommended(study, &self.trials));
        self.recommended.get_or_init(compute).as_ref()
    }

    /// The trial that the model recommends, if it is better than `best` beyond the uncertainty of the model.
    fn recommended_text(&self, best: &Trial, metric: &str) -> String {
        let recommended = self.recommended().filter(|recommended| recommended.best_may_be_lucky);
        let Some(PredictedPoint { trial: Some(trial), predicted, .. }) = recommended.map(|found| &found.point) else {
            return String::new();
        };
        format!(
            "recommended: trial {trial}, of which the model expects {metric}={} ({} to {}); trial {} may have been lucky\n",
            Rounded(predicted.median),
            Rounded(predicted.lower),
            Rounded(predicted.upper),
            best.id
        )
    }
}

/// The name of a rule of early stopping in a configuration.
pub(super) fn rule_name(kind: StoppingRuleKind) -> &'static str {
    match kind {
        StoppingRuleKind::Median => "MEDIAN",
        StoppingRuleKind::DecayCurve => "DECAY_CURVE",
        StoppingRuleKind::Asha => "ASHA",
    }
}

/// The parameters of the best trial that are at an end of their range; `None` if there are none.
pub(super) fn at_bounds_text(study: &Study, trials: &[Trial]) -> Option<String> {
    let found = best_at_bounds(study, trials);
    let bound = |found: &AtBound| match found.bound {
        Bound::Lower => format!("{} (lower, {})", found.parameter, RoundedValue(&found.limit)),
        Bound::Upper => format!("{} (upper, {})", found.parameter, RoundedValue(&found.limit)),
    };
    let bounds: Vec<String> = found.iter().map(bound).collect();
    (!bounds.is_empty()).then(|| format!("the best is at a bound of {}: widen the range\n", bounds.join(", ")))
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

/// Returns the exact result by the metric `name`; empty without one.
fn exact(trial: &Trial, name: &str) -> String {
    let value = trial.final_measurement.as_ref().and_then(|found| found.value(name));
    value.map(|value| format!("{value:?}")).unwrap_or_default()
}

fn state_text(trial: &Trial) -> String {
    if trial.stopped_early { format!("{}, stopped early", trial.state) } else { trial.state.to_string() }
}

/// Returns the parameters as flags of a program, quoted for a shell. The values are exact, because people copy them: a
/// rounded one is another point, perhaps outside its range.
pub(super) fn flags<'a, N: Display>(parameters: impl IntoIterator<Item = (N, &'a ParameterValue)>) -> String {
    let words = parameters.into_iter().map(|(name, value)| shell_word(&format!("--{name}={value}")));
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell where it needs it.
pub(super) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(shell_word("--lr=1e-5"), "--lr=1e-5");
        assert_eq!(shell_word("--name=it's"), r"'--name=it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn flags_are_exact() {
        let values = [
            ("x", ParameterValue::Double(0.999_999_533_3)),
            ("tiny", ParameterValue::Double(5e-324)),
            ("sum", ParameterValue::Double(0.1 + 0.2)),
            ("large", ParameterValue::Integer(9_007_199_254_740_993)),
            ("batch", ParameterValue::Discrete(32.0)),
            ("kind", ParameterValue::Categorical("a b".to_owned())),
        ];
        assert_eq!(
            flags(values.iter().map(|(name, value)| (*name, value))),
            "--x=0.9999995333 --tiny=5e-324 --sum=0.30000000000000004 --large=9007199254740993 --batch=32 '--kind=a b'"
        );
    }
}
