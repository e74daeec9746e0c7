//! Compare page: several jobs side by side, and which is better.

mod parameters;
mod statistics;

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use self::parameters::Parameters;
use self::statistics::{Against, FEWEST_PAIRS, Outcome, Run, Setting, against_first, settings};
use super::console::Console;
use super::errors::PageError;
use super::explore;
use super::format::Number;
use super::frame::{Frame, Section};
use super::plotly;
use super::query;
use super::subject;
use super::summary::{ListRow, goal_word};
use super::visit::Visit;
use tunesmith_access::Permission;
use tunesmith_algorithms::problem::{Goal, MetricSpec};
use tunesmith_domain::{JobId, Study, StudyId};
use tunesmith_statistics::decision::Decision;
use tunesmith_views::Columns;

/// Maximum number of compared jobs. More curves in one plot are indistinguishable.
const MOST_JOBS: usize = 40;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparePage {
    frame: Frame,
    /// Reason for not comparing the jobs.
    problem: Option<String>,
    notices: Vec<String>,
    metric: String,
    goal: &'static str,
    /// Number of trials after which the jobs are compared.
    common: usize,
    rows: Vec<Compared>,
    /// Names of the compared jobs.
    labels: Vec<String>,
    /// Parameters of their best trials.
    parameters: Parameters,
    tests: Vec<Test>,
    /// First setting, the reference for the others.
    reference: String,
    /// URL of plotly.js.
    library: String,
    /// Names of the jobs and API URLs of their studies, as JSON.
    studies: String,
}

struct Compared {
    row: ListRow,
    algorithm: &'static str,
    seed: u64,
    /// Best result after the number of trials that all jobs have.
    best_of_common: Option<Number>,
    /// Difference from the best result of the best job.
    behind: Option<Number>,
}

/// Comparison of a setting with the first one.
struct Test {
    name: String,
    pairs: usize,
    difference: Option<Number>,
    /// Interval of the difference, and p value.
    figures: Option<[Number; 3]>,
    finding: String,
}

struct Subject {
    of: subject::Subject,
    study: Study,
}

impl ComparePage {
    fn noun(&self) -> &'static str {
        match self.rows.iter().filter(|compared| compared.row.is_study).count() {
            0 => "jobs",
            studies if studies == self.rows.len() => "studies",
            _ => "jobs and studies",
        }
    }
}

impl Subject {
    /// Name with project, and location for a study.
    fn key(&self) -> String {
        match self.of.job() {
            Some(job) => {
                let (project, name) = job.id.parts();
                format!("{project}/{name}")
            }
            None => self.study.id.to_string(),
        }
    }

    fn id(&self) -> String {
        self.of.job().map_or_else(|| self.study.id.to_string(), |job| job.id.to_string())
    }
}

/// Distinct values of the query parameter `job`: names of jobs, and of studies with their locations.
pub(crate) fn names_of(query: &str) -> Vec<String> {
    query::values(query, "job")
}

pub(crate) async fn show(console: Console, visit: Visit, RawQuery(query): RawQuery) -> Result<Response, PageError> {
    let chosen = names_of(query.as_deref().unwrap_or_default());
    if chosen.len() > MOST_JOBS {
        let count = chosen.len();
        return Err(PageError::Invalid(format!(
            "{count} jobs are selected; at most {MOST_JOBS} can be compared at once"
        )));
    }
    let mut subjects = Vec::new();
    let mut notices = Vec::new();
    for name in &chosen {
        let of = visible(&console, &visit, name).await?;
        match of.study().cloned() {
            Some(study) => subjects.push(Subject { of, study }),
            None => notices.push(format!("Job {name} has no trials: it runs its program once. It is left out.")),
        }
    }
    let problem = refusal(&subjects);
    let status = if problem.as_ref().is_some_and(|(status, _)| *status != StatusCode::OK) {
        StatusCode::BAD_REQUEST
    } else {
        StatusCode::OK
    };
    let mut page = ComparePage {
        frame: visit.frame("Compare", Section::Jobs),
        problem: problem.map(|(_, text)| text),
        notices,
        metric: String::new(),
        goal: "",
        common: 0,
        rows: Vec::new(),
        labels: Vec::new(),
        parameters: Parameters::default(),
        tests: Vec::new(),
        reference: String::new(),
        library: plotly::address(),
        studies: String::new(),
    };
    if page.problem.is_none() {
        fill(&console, &subjects, &mut page).await?;
    }
    Ok(Frame::respond(true, status, &page))
}

/// The job `project/job` or the study `project/location/study`. Reports an invisible one as missing.
async fn visible(console: &Console, visit: &Visit, name: &str) -> Result<subject::Subject, PageError> {
    if let [project, _, _] = name.split('/').collect::<Vec<_>>()[..] {
        let id: StudyId = name.parse().map_err(|error| PageError::Invalid(format!("job={name}: {error}")))?;
        let absent = || PageError::NotFound(format!("study {name} does not exist, or you may not see it"));
        if id.is_of_job() || !visit.visitor.may(Permission::TrialsList, project) {
            return Err(absent());
        }
        return match console.studies.study(&id).await.map_err(PageError::from) {
            Err(PageError::NotFound(_)) => Err(absent()),
            study => Ok(subject::Subject::Study(study?)),
        };
    }
    let id: JobId = name.parse().map_err(|error| PageError::Invalid(format!("job={name}: {error}")))?;
    let absent = || PageError::NotFound(format!("job {name} does not exist, or you may not see it"));
    let job = match console.jobs.job(&id).await.map_err(PageError::from) {
        Err(PageError::NotFound(_)) => return Err(absent()),
        job => job?,
    };
    if !visit.visitor.may_on(Permission::JobsGet, &job) {
        return Err(absent());
    }
    console.subject_of_job(job).await
}

/// Reason for refusing to compare `subjects`, with the response status.
fn refusal(subjects: &[Subject]) -> Option<(StatusCode, String)> {
    let [first, others @ ..] = subjects else {
        return Some((StatusCode::OK, "Tick two jobs or studies with trials, or more, in their list.".to_owned()));
    };
    if others.is_empty() {
        return Some((StatusCode::OK, "Tick one more job or study with trials in the list.".to_owned()));
    }
    let goal = |subject: &Subject| {
        let MetricSpec { name, goal, .. } = &subject.study.problem.metrics()[0];
        (*goal, format!("{} {}s {name}", subject.id(), goal_word(*goal)))
    };
    let (wanted, of_first) = goal(first);
    let (_, other) = others.iter().map(goal).find(|(goal, _)| *goal != wanted)?;
    let text = format!(
        "These jobs have different goals: {of_first}, and {other}. No result of one is better than one of the other."
    );
    Some((StatusCode::BAD_REQUEST, text))
}

async fn fill(console: &Console, subjects: &[Subject], page: &mut ComparePage) -> Result<(), PageError> {
    let MetricSpec { name, goal, .. } = &subjects[0].study.problem.metrics()[0];
    let mut results = Vec::with_capacity(subjects.len());
    for Subject { study, .. } in subjects {
        let columns = console.studies.columns(study).await?;
        results.push(tokio::task::spawn_blocking(move || results_of(&columns)).await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "jobs cannot be compared");
            PageError::Failed("the jobs cannot be compared; see the server's log".to_owned())
        })?);
    }
    let common = results.iter().map(Vec::len).min().unwrap_or(0);
    let best_of = |results: &[f64]| results.iter().copied().reduce(|a, b| if goal.is_better(b, a) { b } else { a });
    let bests: Vec<Option<f64>> = results.iter().map(|results| best_of(results)).collect();
    let best = best_of(&bests.iter().copied().flatten().collect::<Vec<_>>());
    let of_common = results.iter().map(|results| best_of(&results[..common]));
    let runs: Vec<Run<'_>> = subjects
        .iter()
        .zip(of_common)
        .map(|(Subject { of, study }, best)| Run {
            input: of.job().map_or(&*study.config, |job| &job.training_input),
            plan: of.job().and_then(|job| job.plan.as_ref().ok()),
            problem: &study.problem,
            seed: study.seed,
            best,
        })
        .collect();
    for ((Subject { of, study }, run), own) in subjects.iter().zip(&runs).zip(&bests) {
        page.rows.push(Compared {
            row: console.row(of).await?,
            algorithm: study.algorithm.as_str(),
            seed: study.seed,
            best_of_common: run.best.map(Number),
            behind: own.zip(best).map(|(own, best)| Number((own - best).abs())),
        });
    }
    let mut best_trials = Vec::with_capacity(subjects.len());
    for (Subject { study, .. }, compared) in subjects.iter().zip(&page.rows) {
        let best = compared.row.best.as_ref().map(|best| best.trial);
        let trial = console.studies.trials_numbered(&study.id, best).await?.pop();
        best_trials.push((study, trial));
    }
    page.parameters = Parameters::of(&best_trials);
    let settings = settings(&runs);
    let labels = labels(subjects);
    let names = |setting: &Setting| {
        let names = setting.runs.iter().map(|index| &*labels[*index]);
        let algorithm = subjects[setting.runs[0]].study.algorithm.as_str();
        format!("{} ({algorithm})", names.collect::<Vec<_>>().join(", "))
    };
    page.reference = settings.first().map(&names).unwrap_or_default();
    let tests = against_first(&runs, &settings, *goal);
    page.tests = tests.into_iter().map(|against| test(names(&settings[against.setting]), against, *goal)).collect();
    page.notices.extend(differences(subjects));
    page.notices.extend(without_results(
        labels.iter().zip(&results).filter(|(_, own)| own.is_empty()).map(|(name, _)| &**name),
    ));
    let studies = subjects.iter().zip(&labels);
    let studies: Vec<_> =
        studies.map(|(subject, label)| json!({"name": label, "study": explore::address_of(&subject.study)})).collect();
    page.studies = json!(studies).to_string();
    page.labels = labels;
    (page.metric, page.goal, page.common) = (name.clone(), goal_word(*goal), common);
    Ok(())
}

/// Reason for not comparing after an equal number of trials; `names` are the subjects without a result.
fn without_results<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    (!names.is_empty()).then(|| {
        format!(
            "{} {verb} no result yet. Without one of each there is no comparison after the same number of trials; the plots \
             show the others.",
            names.join(", ")
        )
    })
}

/// Names, qualified by project and location if ambiguous or from several projects.
fn labels(subjects: &[Subject]) -> Vec<String> {
    let project = |subject: &Subject| subject.key().split('/').next().map(str::to_owned);
    let is_one = subjects.iter().all(|subject| project(subject) == project(&subjects[0]));
    let names: BTreeSet<&str> = subjects.iter().map(|subject| subject.of.name()).collect();
    let is_short = is_one && names.len() == subjects.len();
    subjects.iter().map(|subject| if is_short { subject.of.name().to_owned() } else { subject.key() }).collect()
}

/// Results of the first metric in trial order, for trials that can be the best.
fn results_of(columns: &Columns) -> Vec<f64> {
    let live = columns.live();
    let first = [0];
    let counts = columns.can_be_best(&live, &first);
    let results = live.iter().filter(|row| counts(*row)).filter_map(|row| columns.metric(0, row));
    results.filter(|value| value.is_finite()).collect()
}

fn differences(subjects: &[Subject]) -> Vec<String> {
    let mut notices = Vec::new();
    let mut names: Vec<&str> = subjects.iter().map(|subject| &*subject.study.problem.metrics()[0].name).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > 1 {
        let names = names.join(", ");
        notices.push(format!(
            "The metrics have different names ({names}). The comparison is valid only if they measure the same."
        ));
    }
    let space = |subject: &Subject| subject.study.problem.search_space().clone();
    if subjects.iter().any(|subject| space(subject) != space(&subjects[0])) {
        notices.push("The search spaces differ.".to_owned());
    }
    notices
}

fn test(name: String, against: Against, goal: Goal) -> Test {
    let Against { pairs, difference, outcome, .. } = against;
    let better = if goal == Goal::Maximize { "higher" } else { "lower" };
    let (figures, finding) = match outcome {
        Outcome::OtherProblem => (None, "Not tested: it has another search space or metric.".to_owned()),
        Outcome::TooFewPairs if pairs == 0 => (
            None,
            format!(
                "Not tested: no two jobs have the same seed. A test needs {FEWEST_PAIRS} pairs of jobs with equal seeds (tunesmith.seed)."
            ),
        ),
        Outcome::TooFewPairs => {
            let noun = if pairs == 1 { "pair" } else { "pairs" };
            (
                None,
                format!("Too few runs for a test: {pairs} {noun} of jobs with equal seeds, {FEWEST_PAIRS} are needed."),
            )
        }
        Outcome::Undefined(reason) => (None, format!("Not tested: {reason}.")),
        Outcome::Tested { decision, low, high, p } => {
            let finding = match decision {
                Decision::Better => format!("Better: its results are {better}."),
                Decision::Worse => {
                    format!("Worse: its results are not as {}.", if goal == Goal::Maximize { "high" } else { "low" })
                }
                Decision::NoDifference => "No clear difference, which does not prove that they are equal.".to_owned(),
            };
            (Some([low, high, p].map(Number)), finding)
        }
    };
    Test { name, pairs, difference: difference.map(Number), figures, finding }
}
