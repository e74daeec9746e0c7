//! `compare`: whether a point is better than another one, from repeated trials.
//!
//! The trial that a search found to be the best is chosen for its result, which is therefore too good on average. It does not
//! count if its point has enough other results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tunesmith_api::ai_platform::GoalType;
use tunesmith_statistics::summary::{mean, standard_error};
use tunesmith_statistics::welch::mean_difference;

use crate::context::Context;
use crate::failure::Failure;
use crate::rows::{quoted, row, table};
use crate::subject::{Of, Subject, TrialName};
use crate::tool::{Effects, Tool};

/// Least number of results of a point.
const FEWEST_RESULTS: usize = 2;

/// Most results of a point.
const MOST_RESULTS: u64 = 200;

/// Two-sided 95% and one-sided 80% quantiles of the normal distribution, for the number of repeats that would show a
/// difference with a probability of 80%.
const QUANTILES: f64 = 1.959_964 + 0.841_621;

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(
        ("mcp.compare", "Compare A with B"),
        "Compares point A with point B by the results of their trials with equal parameters: Welch's interval for the difference of \
         means. Repeat points with propose_trials first.",
        Effects::Reads,
        json!({"a": {"job": "census", "trial": 1}, "b": {"job": "census", "trial": 17}}),
        compare,
    )]
}

/// A point: that of a trial.
#[derive(Deserialize, JsonSchema)]
struct Side {
    #[serde(flatten)]
    of: Of,
    /// A trial at the point; default the best one.
    trial: Option<TrialName>,
}

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// Point A, such as the baseline.
    a: Side,
    /// Point B, such as the tuned one.
    b: Side,
    /// Metric; default the first one.
    metric: Option<String>,
    /// Confidence of the interval, 0.5 to 0.999; default 0.95.
    confidence: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Outcome {
    ABetter,
    BBetter,
    NoDifferenceShown,
    NotEnoughData,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Comparison {
    outcome: Outcome,
    metric: String,
    /// MAXIMIZE or MINIMIZE.
    goal: String,
    /// Mean of B minus mean of A; absent without enough data.
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<Difference>,
    confidence: f64,
    a: Sample,
    b: Sample,
    method: String,
    /// Reason for the outcome, and what to do next.
    why: String,
    /// Results of each point that would show a difference of this size with a probability of 80%.
    #[serde(skip_serializing_if = "Option::is_none")]
    results_needed: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Difference {
    estimate: f64,
    low: f64,
    high: f64,
}

/// Results of a point.
#[derive(Debug, Serialize, JsonSchema)]
struct Sample {
    parameters: BTreeMap<String, Value>,
    /// Trials that count.
    trials: Vec<u64>,
    /// Trial that does not count, because it was chosen for its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    excluded: Option<u64>,
    /// Whether a trial that was chosen for its result counts for want of others.
    has_chosen: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    #[serde(skip)]
    values: Vec<f64>,
}

/// Metric and goal of a study.
type Metric = (String, GoalType);

async fn compare(context: Context, arguments: Arguments) -> Result<Comparison, Failure> {
    let confidence = arguments.confidence.unwrap_or(0.95);
    if !(0.5..=0.999).contains(&confidence) {
        return Err(Failure::argument("confidence", "is out of range", "0.5 to 0.999"));
    }
    let within = |side: &str, failure: Failure| failure.within(side);
    let subject_a = arguments.a.of.subject(&context).map_err(|failure| within("a", failure))?;
    let subject_b = arguments.b.of.subject(&context).map_err(|failure| within("b", failure))?;
    let metric = metric(&subject_a, arguments.metric.as_deref()).await?;
    let other = self::metric(&subject_b, Some(&metric.0)).await?;
    if metric != other {
        return Err(Failure::argument("b", format!("has another goal of {}", metric.0), "a study with the same goal"));
    }
    let a = sample(&subject_a, arguments.a.trial.as_ref(), &metric).await.map_err(|failure| within("a", failure))?;
    let b = sample(&subject_b, arguments.b.trial.as_ref(), &metric).await.map_err(|failure| within("b", failure))?;
    Ok(compared(metric, (a, b), confidence))
}

/// Metric `name` of the study, or its first one that is no constraint.
async fn metric(subject: &Subject, name: Option<&str>) -> Result<Metric, Failure> {
    let config = subject.study.get().await?.study_config.known();
    let config = config.map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
    let mut metrics = config.metrics.into_iter().filter(|metric| metric.safety_config.is_none());
    let names: Vec<String> = metrics.clone().map(|metric| metric.metric).collect();
    let found = metrics.find(|metric| name.is_none_or(|name| metric.metric == name));
    found.map(|metric| (metric.metric, metric.goal)).ok_or_else(|| {
        let text = format!("{:?} is no metric of the study", name.unwrap_or_default());
        Failure::argument("metric", text, names.join(", "))
    })
}

/// Results at the point of `trial`, or of the best trial.
async fn sample(subject: &Subject, trial: Option<&TrialName>, (metric, goal): &Metric) -> Result<Sample, Failure> {
    let field = format!("metric.{}", quoted(metric));
    let order = if *goal == GoalType::Minimize { field } else { format!("{field} desc") };
    let best = table(&subject.study, "state = SUCCEEDED", &order, (0, 1)).await?.view.rows.pop();
    let named = match (trial, &best) {
        (Some(trial), _) => row(&subject.study, trial.number()).await?,
        (None, Some(best)) => row(&subject.study, &best.id.to_string()).await?,
        (None, None) => {
            return Err(Failure::argument("trial", "no trial has a result yet", "a job or study with results"));
        }
    };
    let terms = named.parameters.iter().map(|(name, value)| match value {
        Value::String(text) => format!("parameters.{} = {}", quoted(name), quoted(text)),
        number => format!("parameters.{} = {number}", quoted(name)),
    });
    let terms: Vec<String> =
        std::iter::once("state = SUCCEEDED AND stoppedEarly = false".to_owned()).chain(terms).collect();
    let mut rows = table(&subject.study, &terms.join(" AND "), "", (0, MOST_RESULTS)).await?.view.rows;
    // A point with a conditional parameter is another one.
    rows.retain(|row| row.parameters == named.parameters && row.metrics.contains_key(metric));
    let is_chosen = |id: u64| best.as_ref().is_some_and(|best| best.id == id && !best.is_of_client());
    let chosen = rows.iter().map(|row| row.id).find(|id| is_chosen(*id));
    let excluded = chosen.filter(|_| rows.len() > FEWEST_RESULTS);
    rows.retain(|row| Some(row.id) != excluded);
    let values: Vec<f64> = rows.iter().filter_map(|row| row.metrics.get(metric).copied()).collect();
    Ok(Sample {
        parameters: named.parameters,
        trials: rows.iter().map(|row| row.id).collect(),
        excluded,
        has_chosen: chosen.is_some() && excluded.is_none(),
        mean: (!values.is_empty()).then(|| mean(&values)),
        values,
    })
}

fn compared((metric, goal): Metric, (a, b): (Sample, Sample), confidence: f64) -> Comparison {
    let mut comparison = Comparison {
        outcome: Outcome::NotEnoughData,
        goal: if goal == GoalType::Minimize { "MINIMIZE" } else { "MAXIMIZE" }.to_owned(),
        metric,
        difference: None,
        confidence,
        method: "Welch's interval for the difference of the means of repeated trials".to_owned(),
        why: String::new(),
        results_needed: None,
        a,
        b,
    };
    let (a, b) = (&comparison.a, &comparison.b);
    if a.parameters == b.parameters {
        comparison.outcome = Outcome::NoDifferenceShown;
        comparison.why = "A and B are the same point".to_owned();
        return comparison;
    }
    let Some(found) = mean_difference(&a.values, &b.values, confidence) else {
        let needed =
            |sample: &Sample| (FEWEST_RESULTS + usize::from(sample.has_chosen)).saturating_sub(sample.values.len());
        let repeats: Vec<String> = [("A", a), ("B", b)]
            .into_iter()
            .filter(|(_, sample)| needed(sample) > 0)
            .map(|(name, sample)| format!("repeat {name} at least {} more times", needed(sample)))
            .collect();
        comparison.why = format!(
            "a difference needs at least {FEWEST_RESULTS} results of each point, and A has {}, B has {}: {} with propose_trials",
            a.values.len(),
            b.values.len(),
            repeats.join(" and "),
        );
        return comparison;
    };
    let is_better = |difference: f64| if goal == GoalType::Minimize { difference < 0.0 } else { difference > 0.0 };
    let is_exact = found.low == found.high;
    comparison.outcome = match (found.low > 0.0 || found.high < 0.0, is_better(found.estimate)) {
        (true, true) => Outcome::BBetter,
        (true, false) => Outcome::ABetter,
        (false, _) => Outcome::NoDifferenceShown,
    };
    let mut why = match comparison.outcome {
        Outcome::NoDifferenceShown if is_exact => "the results of both points are equal".to_owned(),
        Outcome::NoDifferenceShown => {
            let spread = |sample: &Sample| {
                standard_error(&sample.values).map_or(0.0, |error| error.powi(2) * sample.values.len() as f64)
            };
            let needed = (QUANTILES / found.estimate).powi(2) * (spread(a) + spread(b));
            let needed = (needed.is_finite() && needed < 1e9).then(|| needed.ceil() as u64);
            comparison.results_needed = needed;
            "the interval of the difference contains 0: the points may be equally good".to_owned()
        }
        _ if is_exact => "repeated trials have equal results, and the points differ".to_owned(),
        _ => "the interval of the difference does not contain 0".to_owned(),
    };
    for (name, sample) in [("A", a), ("B", b)] {
        if sample.has_chosen {
            why.push_str(&format!(
                "; {name} includes the trial that was chosen for its result, which favours {name}: repeat it"
            ));
        }
    }
    comparison.why = why;
    comparison.difference = Some(Difference { estimate: found.estimate, low: found.low, high: found.high });
    comparison
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_of(x: f64, values: &[f64], has_chosen: bool) -> Sample {
        Sample {
            parameters: BTreeMap::from([("x".to_owned(), json!(x))]),
            trials: (1..=values.len() as u64).collect(),
            excluded: None,
            has_chosen,
            mean: Some(mean(values)),
            values: values.to_vec(),
        }
    }

    fn outcome(goal: GoalType, a: &[f64], b: &[f64]) -> Comparison {
        compared(("m".to_owned(), goal), (sample_of(1.0, a, false), sample_of(2.0, b, true)), 0.95)
    }

    #[test]
    fn outcome_follows_the_interval_and_the_goal() {
        let (low, high) = ([0.80, 0.81, 0.79, 0.80], [0.90, 0.91, 0.90, 0.89]);
        assert_eq!(outcome(GoalType::Maximize, &low, &high).outcome, Outcome::BBetter);
        assert_eq!(outcome(GoalType::Minimize, &low, &high).outcome, Outcome::ABetter);
        let found = outcome(GoalType::Maximize, &[0.7, 0.9, 0.8], &[0.75, 0.9, 0.85]);
        assert_eq!(found.outcome, Outcome::NoDifferenceShown);
        assert!(found.results_needed.is_some_and(|needed| (60..200).contains(&needed)), "{found:?}");
        assert!(found.why.contains("B includes the trial that was chosen"), "{}", found.why);
        let few = outcome(GoalType::Maximize, &[0.7], &[0.8, 0.9]);
        assert_eq!((few.outcome, few.difference.is_none()), (Outcome::NotEnoughData, true));
        assert!(
            few.why.contains("repeat A at least 1 more times and repeat B at least 1 more times with"),
            "{}",
            few.why
        );
        let exact = outcome(GoalType::Maximize, &[0.5, 0.5], &[0.5, 0.5]);
        assert_eq!(
            (exact.outcome, exact.why.starts_with("the results of both points are equal")),
            (Outcome::NoDifferenceShown, true)
        );
    }
}
