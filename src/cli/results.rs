//! Job results: trial table, arguments of the best trial, and output files.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Context;
use futures::TryStreamExt;
use tunesmith_algorithms::insight::{Estimate, PredictedPoint, Recommendation, SuspiciousTrial};
use tunesmith_algorithms::problem::ParameterValue;
use tunesmith_algorithms::rounded::Rounded;

use super::study_view::{Judgement, StudyView};
use super::table::Layout;
use super::trial_view::{TableKind, TrialColumns, TrialView};
use tunesmith_api::ai_platform::TrainingInput;
use tunesmith_api::ai_platform::job::{JobResource, RecommendedTrial, job_resource};
use tunesmith_api::ai_platform::plan::{CommandLine, job_plan};
use tunesmith_domain::{
    Job, JobId, JobPlan, JobState, RankedTrial, Study, StudyState, Trial, TrialState, best_first, is_feasible,
    optimal_of_several,
};
use tunesmith_files::create_for_user;
use tunesmith_store::{OptionalExtension, Store, StoreError, pages};

/// Maximum table rows, separately for failed and other trials.
const TABLE_ROWS: usize = 50;

/// Maximum number of Pareto-optimal trials listed.
const SHOWN_OPTIMAL: usize = 20;

/// Proposal where results are noisy.
pub(super) const NOISE_HINT: &str = "results are noisy: to repeat the best trials, pass the seed or fold as a parameter and set \
                                     tunesmith.repeats\n";

/// Reason of a study without untried points.
const EXHAUSTED: &str = "search space exhausted";

pub(super) struct Results {
    pub(super) id: JobId,
    pub(super) job: JobResource,
    /// `None` if this version cannot read it.
    plan: Option<JobPlan>,
    pub(super) study: Option<StudyView>,
    /// Folder of the logs, or the command that prints them.
    logs: String,
    /// Cached findings of the model.
    judgement: OnceLock<Option<Judgement>>,
}

impl Results {
    /// Loads the study and trials of `job`.
    pub(super) async fn read(store: &dyn Store, job: &Job, directory: PathBuf) -> Result<Self, StoreError> {
        let (study, trials) = study_and_trials(store, job).await?;
        Ok(Self {
            id: job.id.clone(),
            job: job_resource(job, study.as_ref(), &trials),
            plan: job.plan().ok().cloned(),
            study: study.map(|study| StudyView::of_store(&study, &trials)),
            logs: directory.display().to_string(),
            judgement: OnceLock::new(),
        })
    }

    /// Results from a response with the job's study. `logs` is the command that prints its logs.
    pub(super) fn of_response(
        id: JobId,
        job: JobResource,
        input: &TrainingInput,
        study: Option<StudyView>,
        logs: String,
    ) -> Self {
        let plan = job_plan(input, &CommandLine::default()).ok();
        Self { id, job, plan, study, logs, judgement: OnceLock::new() }
    }

    /// Renders the results as text, with the table in `layout`.
    ///
    /// # Errors
    /// If the layout selects an unknown column.
    pub(super) fn text(&self, layout: &Layout) -> anyhow::Result<String> {
        let mut text = String::new();
        if let Some(study) = self.study.as_ref().filter(|study| !study.trials.is_empty()) {
            text.push_str(&table(study, layout)?);
            text.push_str(&self.winners_text(study));
            text.push_str(&study.at_bounds_text());
        }
        text.push_str(&format!("job {} is {}", self.id, self.job.state));
        if !self.job.error_message.is_empty() {
            text.push_str(&format!(": {}", self.job.error_message));
        }
        text.push('\n');
        if let Some(study) = &self.study {
            if self.has_ended_early(study) {
                text.push_str(&match study.state_reason.as_str() {
                    "" | EXHAUSTED => format!("{EXHAUSTED} after {} trials\n", study.trials.len()),
                    reason => format!("no further trials after {}: {reason}\n", study.trials.len()),
                });
            }
            text.push_str(&self.no_stop_text(study).unwrap_or_default());
        }
        text.push_str(&format!("logs: {}\n", self.logs));
        if let Some(job_dir) = self.plan.as_ref().and_then(|plan| plan.job_dir.as_ref()) {
            text.push_str(&format!("models: {job_dir}\n"));
        }
        Ok(text)
    }

    /// Whether the job succeeded with fewer trials than requested.
    fn has_ended_early(&self, study: &StudyView) -> bool {
        let is_early = self.plan.as_ref().is_some_and(|plan| (study.trials.len() as u64) < plan.max_trials);
        is_early && study.state == StudyState::Completed && self.job.state == JobState::Succeeded
    }

    /// Reason why early stopping stopped no trial of an ended job.
    fn no_stop_text(&self, study: &StudyView) -> Option<String> {
        let rule = study.stopping_rule.filter(|_| self.job.state.is_final())?;
        let whole = study.trials.iter().filter(|trial| trial.state == TrialState::Succeeded);
        let counts: Vec<usize> = whole.map(|trial| trial.measurement_count).collect();
        if counts.is_empty() || study.trials.iter().any(|trial| trial.stopped_early) {
            return None;
        }
        Some(format!("{} stopped no trial: {}\n", study.rule_name()?, rule.explain_no_stop(&counts)))
    }

    pub(super) fn write_resource(&self, path: &Path) -> anyhow::Result<()> {
        let recommended = self.recommended().and_then(|found| {
            let Estimate { median, lower, upper } = found.point.predicted;
            let trial_id = found.point.trial?.to_string();
            let best_may_be_lucky = found.best_may_be_lucky;
            Some(RecommendedTrial { trial_id, predicted: median, lower, upper, best_may_be_lucky })
        });
        let resource = self.job.clone().with_recommended(recommended);
        let json = serde_json::to_string_pretty(&resource)?;
        replace_file(path, |file| Ok(std::io::Write::write_all(file, format!("{json}\n").as_bytes())?))
    }

    /// Writes the trials as CSV, by number.
    pub(super) fn write_csv(&self, path: &Path) -> anyhow::Result<()> {
        let (metrics, parameters, trials) = match &self.study {
            Some(study) => (study.problem.value_names().collect(), study.parameter_names(), study.trials.as_slice()),
            None => Default::default(),
        };
        let columns = TrialColumns { metrics, parameters, kind: TableKind::Results };
        let recommended = self.recommended().and_then(|found| found.point.trial);
        replace_file(path, |file| columns.write_csv(trials, recommended, |value| format!("{value:?}"), file))
    }

    /// Best trial with its arguments, recommended trial, and with several metrics the Pareto-optimal ones.
    fn winners_text(&self, study: &StudyView) -> String {
        let metric = &study.problem.metrics()[0].name;
        let first = best_first(&study.problem, &study.trials).first().copied();
        let Some(best) = first.filter(|trial| trial.state == TrialState::Succeeded) else { return String::new() };
        if !is_feasible(&study.problem, best) {
            return "best: no trial satisfies every constraint\n".to_owned();
        }
        let optimal = optimal_of_several(&study.problem, &study.trials);
        if optimal.is_empty() {
            let texts = [&self.recommended_text(best, metric), &self.suspicions_text(metric), self.noise_text(study)];
            return best_text(study, best, metric) + &texts.concat();
        }
        let shown: Vec<String> = optimal.iter().take(SHOWN_OPTIMAL).map(ToString::to_string).collect();
        let more = optimal.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let word = if optimal.len() == 1 { "trial" } else { "trials" };
        best_text(study, best, metric) + &format!("optimal by all metrics: {word} {}{more}\n", shown.join(", "))
    }

    /// Findings of the model, given enough results.
    fn judgement(&self) -> Option<&Judgement> {
        let compute = || self.study.as_ref().and_then(StudyView::judgement);
        self.judgement.get_or_init(compute).as_ref()
    }

    /// Trial recommended by the model, given enough results.
    fn recommended(&self) -> Option<&Recommendation> {
        self.judgement()?.recommended.as_ref()
    }

    /// A line for each trial with a result too good to be true.
    fn suspicions_text(&self, metric: &str) -> String {
        let suspicious = self.judgement().map(|judgement| judgement.suspicious_trials.as_slice()).unwrap_or_default();
        suspicious.iter().map(|found| format!("suspicious: {}\n", suspicion_text(found, metric))).collect()
    }

    /// The recommendation, if it was repeated, or if it beats `best` beyond the model's uncertainty.
    fn recommended_text(&self, best: &TrialView, metric: &str) -> String {
        if let Some(PredictedPoint {
            trial: Some(trial),
            observed: Some(mean),
            trials,
            standard_error: Some(error),
            ..
        }) = self.recommended().map(|found| &found.point)
        {
            return format!(
                "recommended: trial {trial}, with the best mean of {trials} trials: {metric}={}, standard error {}\n",
                Rounded(*mean),
                Rounded(*error)
            );
        }
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

impl Results {
    /// Hint about noise, if there is evidence of it and no repetition.
    fn noise_text(&self, study: &StudyView) -> &'static str {
        let is_noisy = self.recommended().is_some_and(|recommended| recommended.is_noisy);
        if is_noisy && study.problem.repeats().is_none() { NOISE_HINT } else { "" }
    }
}

/// Loads the study of `job` and its trials. A missing study has none.
pub(super) async fn study_and_trials(store: &dyn Store, job: &Job) -> Result<(Option<Study>, Vec<Trial>), StoreError> {
    let Some(id) = &job.study else { return Ok((None, Vec::new())) };
    let Some(study) = store.study(id).await.optional()? else { return Ok((None, Vec::new())) };
    Ok((Some(study), pages::trials(store, id).try_collect().await?))
}

/// Trial table, best first, with parameters in configuration order.
fn table(study: &StudyView, layout: &Layout) -> anyhow::Result<String> {
    let metrics = study.problem.value_names().collect();
    let columns = TrialColumns { metrics, parameters: study.parameter_names(), kind: TableKind::Results };
    let any_reason = study.trials.iter().any(|trial| !trial.reason().is_empty());
    let is_failed = |trial: &&TrialView| trial.infeasible_reason.is_some();
    let (failed, others): (Vec<&TrialView>, Vec<&TrialView>) =
        best_first(&study.problem, &study.trials).into_iter().partition(is_failed);
    let shown = others.iter().take(TABLE_ROWS).chain(failed.iter().take(TABLE_ROWS)).copied();
    let mut text = columns.table(shown, any_reason).render(layout)?;
    let more = [(others.len(), "more trials"), (failed.len(), "more failed trials")];
    for (count, what) in more.into_iter().filter(|(count, _)| *count > TABLE_ROWS) {
        text.push_str(&format!("and {} {what}\n", count - TABLE_ROWS));
    }
    Ok(text)
}

fn best_text(study: &StudyView, best: &TrialView, metric: &str) -> String {
    let value = best.value(metric).unwrap_or(f64::NAN);
    let given = study.parameter_names().into_iter().filter_map(|name| Some((name, best.parameters.get(name)?)));
    format!("best: trial {} with {metric}={}\n  {}\n", best.id, Rounded(value), flags(given))
}

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

/// States why a result is too good to be true, and what happens until it is confirmed.
pub(super) fn suspicion_text(found: &SuspiciousTrial, metric: &str) -> String {
    format!(
        "trial {} has {metric}={}, better than all others by {} times their range; the search ignores it until a trial next \
         to it confirms it; check its log, and how the program computes the metric",
        found.trial,
        Rounded(found.value),
        Rounded(found.ranges)
    )
}

/// Parameters as shell-quoted flags. Values are exact because people copy them: a rounded one is another point,
/// perhaps out of range.
pub(super) fn flags<'a, N: Display>(parameters: impl IntoIterator<Item = (N, &'a ParameterValue)>) -> String {
    let words = parameters.into_iter().map(|(name, value)| shell_word(&format!("--{name}={value}")));
    words.collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a POSIX shell if necessary.
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
