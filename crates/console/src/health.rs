//! Findings about the health of a study, with advice.

use std::time::Duration;

use jiff::Timestamp;

use super::format::{Span, counted};
use super::summary::Progress;
use tunesmith_domain::{Job, JobState};
use tunesmith_studies::MAX_POINTS;

/// Share of failed trials that triggers a finding.
const MANY_FAILURES: f64 = 0.2;

/// Number of equal results for considering the objective flat.
const FEWEST_EQUAL: u64 = 5;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) badge: &'static str,
    pub(crate) class: &'static str,
    pub(crate) text: String,
    pub(crate) advice: &'static str,
}

/// Findings about a study with this first metric; none until a trial has ended.
pub(crate) fn findings(progress: &Progress, metric: &str) -> Vec<Finding> {
    let ended = &progress.figures.ended;
    let mut findings = Vec::new();
    let mut add = |badge, class, text, advice| findings.push(Finding { badge, class, text, advice });
    let all = progress.ended();
    let of_all = |part: u64| format!("{part} of {}", counted(all, "trial"));
    let verb = |part: u64, one, many| if part == 1 { one } else { many };
    if all == 0 {
        return findings;
    }
    if ended.measured == 0 {
        let text = format!("No ended trial has reported {metric}.");
        let advice =
            "Compare hyperparameterMetricTag with what the program prints or writes: see the output of a trial.";
        add("Metric", "is-bad", text, advice);
    } else {
        let class = if ended.measured == all { "is-good" } else { "is-ending" };
        let text = format!(
            "{} of {} {} reported a metric, {} {} a result.",
            ended.measured,
            counted(all, "ended trial"),
            verb(ended.measured, "has", "have"),
            ended.succeeded,
            verb(ended.succeeded, "has", "have")
        );
        add("Metric", class, text, "");
    }
    if ended.infeasible > 0 {
        let share = ended.infeasible as f64 / all as f64;
        let class = if share >= MANY_FAILURES { "is-bad" } else { "is-ending" };
        let percent = (share * 100.0).round();
        let text = format!(
            "{} ({percent} %) {} no usable result.",
            of_all(ended.infeasible),
            verb(ended.infeasible, "has", "have")
        );
        add("Failures", class, text, "Read the log of one of these trials.");
    }
    if ended.succeeded > 0 && ended.finite == 0 {
        let text = "No trial has a finite result.".to_owned();
        let advice = "The trainer reports NaN or infinity: look for a division by zero or a diverging loss.";
        add("Objective", "is-bad", text, advice);
    }
    match ended.range {
        Some((low, high)) if ended.finite >= FEWEST_EQUAL && high - low <= 1e-9 * low.abs().max(high.abs()) => {
            let text = format!("All {} results are equal.", ended.finite);
            let advice = "The metric does not depend on the parameters: check that the trainer reads its arguments.";
            add("Objective", "is-bad", text, advice);
        }
        Some(_) if ended.finite >= FEWEST_EQUAL => {
            add("Objective", "is-good", "The results differ.".to_owned(), "");
        }
        _ => {}
    }
    if ended.duplicates > 0 {
        let text = format!(
            "{} {} the parameters of another one.",
            of_all(ended.duplicates),
            verb(ended.duplicates, "repeats", "repeat")
        );
        let advice =
            "A small search space is exhausted, or the trials were given by hand. Lower maxTrials or widen the ranges.";
        add("Duplicates", "is-ending", text, advice);
    } else if all > MAX_POINTS as u64 {
        let text = format!("No trial repeats the parameters of one of the first {MAX_POINTS}.");
        add("Duplicates", "is-good", text, "");
    } else if all > 1 {
        add("Duplicates", "is-good", "No trial repeats the parameters of another one.".to_owned(), "");
    }
    if ended.stopped_early > 0 {
        let saved = ended.saved_time().map(|saved| format!(", which has saved about {}", Span(saved).text()));
        let text = format!(
            "{} {} stopped early{}.",
            of_all(ended.stopped_early),
            verb(ended.stopped_early, "was", "were"),
            saved.unwrap_or_default()
        );
        add("Early stopping", "is-good", text, "");
    }
    if ended.stopped_without_result > 0 {
        let text = format!(
            "{} {} stopped without a result.",
            of_all(ended.stopped_without_result),
            verb(ended.stopped_without_result, "was", "were")
        );
        add("Stopped", "is-ending", text, "");
    }
    let lost = ended.lost_attempts + progress.figures.open_lost_attempts;
    if lost > 0 {
        let time = Span(ended.lost_time + progress.figures.open_lost_time).text();
        let text = format!(
            "{} {} lost or preempted after {time} in all, and ran again.",
            counted(lost, "attempt"),
            verb(lost, "was", "were")
        );
        add(
            "Lost attempts",
            "is-ending",
            text,
            "Machines or supervisors ended. The page of a trial lists its attempts.",
        );
    }
    findings
}

/// Estimated time for the remaining trials at the current pace; `None` unless the job is running and a trial has ended.
pub(crate) fn pace(job: &Job, progress: &Progress, now: Timestamp) -> Option<Span> {
    let left = progress.max_trials?.saturating_sub(progress.ended());
    if job.state != JobState::Running || progress.ended() == 0 || left == 0 {
        return None;
    }
    let ran = Span::between(job.start_time?, now).0.as_secs_f64();
    let seconds = ran / progress.ended() as f64 * left as f64;
    Duration::try_from_secs_f64(seconds.ceil()).ok().map(Span)
}

#[cfg(test)]
mod tests {
    use tunesmith_studies::{EndedFigures, StudyFigures};

    use super::*;

    fn badges(ended: EndedFigures) -> Vec<(&'static str, &'static str)> {
        let figures = StudyFigures { ended, ..StudyFigures::default() };
        let progress = Progress { figures, max_trials: Some(10) };
        findings(&progress, "loss").iter().map(|finding| (finding.badge, finding.class)).collect()
    }

    #[test]
    fn findings_tell_a_good_study_from_a_bad_one() {
        assert_eq!(badges(EndedFigures::default()), []);
        let good = EndedFigures {
            succeeded: 6,
            measured: 6,
            finite: 6,
            range: Some((0.1, 0.9)),
            stopped_early: 2,
            time_of_whole: Duration::from_secs(400),
            time_of_stopped: Duration::from_secs(20),
            ..EndedFigures::default()
        };
        let shown = badges(good.clone());
        assert_eq!(shown, ["Metric", "Objective", "Duplicates", "Early stopping"].map(|badge| (badge, "is-good")));
        let figures = StudyFigures { ended: good.clone(), ..StudyFigures::default() };
        let last = findings(&Progress { figures, max_trials: None }, "loss").pop().unwrap();
        assert_eq!(last.text, "2 of 6 trials were stopped early, which has saved about 3 min.");

        let bad = EndedFigures {
            infeasible: 4,
            measured: 6,
            range: Some((0.5, 0.5)),
            duplicates: 5,
            lost_attempts: 1,
            stopped_early: 0,
            ..good
        };
        let expected = [
            ("Metric", "is-ending"),
            ("Failures", "is-bad"),
            ("Objective", "is-bad"),
            ("Duplicates", "is-ending"),
            ("Lost attempts", "is-ending"),
        ];
        assert_eq!(badges(bad), expected);
        let silent = EndedFigures { infeasible: 3, ..EndedFigures::default() };
        assert_eq!(badges(silent)[..2], [("Metric", "is-bad"), ("Failures", "is-bad")]);
        let not_finite = EndedFigures { succeeded: 1, measured: 1, ..EndedFigures::default() };
        assert_eq!(badges(not_finite), [("Metric", "is-good"), ("Objective", "is-bad")]);
    }
}
