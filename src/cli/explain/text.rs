//! Text form of the analysis.

use std::fmt::Write as _;

use tunesmith_algorithms::insight::{
    Calibration, Estimate, Importance, Interval, MetricInsight, PredictedPoint, Slice, SlicePoint, TrialCounts,
};
use tunesmith_algorithms::problem::{Goal, ParameterValue};
use tunesmith_algorithms::rounded::{Rounded, RoundedValue};

use super::super::results::{flags, suspicion_text};
use super::super::table::{Column, Layout, Table};
use super::analysis::Explanation;
use super::sparkline::sparkline;

/// Minimum rank correlations for good predictions, and for a rough guide. Guesses.
const GOOD_RANKING: f64 = 0.7;
const SOME_RANKING: f64 = 0.3;

/// Full text, with tables in `layout`.
///
/// # Errors
/// If the layout selects an unknown column.
pub(super) fn text(explanation: &Explanation, slices: bool, layout: &Layout) -> anyhow::Result<String> {
    let mut text = String::new();
    let (what, name) = explanation.subject.parts();
    line(&mut text, what, &format!("{name}, {}", explanation.state));
    line(&mut text, "algorithm", &format!("{}, seed {}", explanation.algorithm, explanation.seed));
    if let Some(choice) = &explanation.choice {
        line(&mut text, "chosen now", &format!("{}: {}", choice.algorithm, choice.reason));
    }
    if !explanation.origins.is_empty() {
        let origins = explanation.origins.iter().map(|count| format!("{} {}", count.trials, count.origin));
        line(&mut text, "proposed by", &origins.collect::<Vec<_>>().join(", "));
    }
    for source in &explanation.source_studies {
        line(&mut text, "source study", &format!("{}: {}", source.study, source.description));
    }
    if !explanation.fixed_parameters.is_empty() {
        let fixed = explanation.fixed_parameters.iter().map(|(name, trials)| format!("{name} in {trials}"));
        let fixed: Vec<_> = fixed.collect();
        line(&mut text, "fixed", &format!("{} (values given by callers)", fixed.join(", ")));
    }
    line(&mut text, "trials", &counts(explanation.trials, explanation.early_stopping));
    for metric in &explanation.metrics {
        let goal = if metric.goal == Goal::Maximize { "maximize" } else { "minimize" };
        let model = format!("{} different points, noise/signal {}", metric.points, short(metric.noise_to_signal));
        line(&mut text, "metric", &format!("{goal} {}; {model}", metric.metric));
        for found in &metric.suspicious_trials {
            line(&mut text, "suspicious", &suspicion_text(found, &metric.metric));
        }
        importance(&mut text, &metric.importance, layout)?;
        optimum(&mut text, metric, layout)?;
        calibration(&mut text, &metric.calibration);
        if slices {
            draw_slices(&mut text, metric, layout)?;
        }
    }
    Ok(text)
}

fn counts(trials: TrialCounts, rule: Option<&str>) -> String {
    let TrialCounts { measured, stopped_early, infeasible, pending } = trials;
    let stopped = match rule {
        Some(rule) => format!("{stopped_early} of them stopped early ({rule})"),
        None => "none stopped early".to_owned(),
    };
    format!("{measured} measured, {stopped}; {infeasible} failed; {pending} running")
}

fn importance(text: &mut String, importance: &Importance, layout: &Layout) -> anyhow::Result<()> {
    let mut table = table(&["PARAMETER", "TOTAL", "RANGE", "ALONE", "RANGE"]);
    let range = |interval: Interval| format!("{} to {}", percent(interval.lower), percent(interval.upper));
    for parameter in &importance.parameters {
        table.add_row(vec![
            parameter.parameter.clone(),
            percent(parameter.total),
            range(parameter.total_interval),
            percent(parameter.first_order),
            range(parameter.first_order_interval),
        ]);
    }
    let _ = write!(
        text,
        "\nimportance: share of what the parameters change, with interactions and alone; range over {} refits\n{}",
        importance.refits,
        table.render(layout)?
    );
    Ok(())
}

fn optimum(text: &mut String, metric: &MetricInsight, layout: &Layout) -> anyhow::Result<()> {
    let MetricInsight { metric, optimum, slices, .. } = metric;
    // Slices are in configuration order.
    let names: Vec<&str> = slices.iter().map(|slice| slice.parameter.as_str()).collect();
    let fixed = ["TRIAL", "MEASURED", "PREDICTED", "95% BAND"].map(Column::number);
    let mut columns = vec![Column::text("")];
    columns.extend(fixed);
    columns.extend(names.iter().enumerate().map(|(rank, name)| Column::value(*name).may_be_left_out(rank)));
    let mut table = Table::new(columns);
    let rows = [
        ("best measured", &optimum.best_observed),
        (
            if optimum.is_recommended { "recommended, by the model" } else { "best measured, by the model" },
            &optimum.best_measured_by_model,
        ),
        ("predicted optimum", &optimum.predicted),
    ];
    for (name, point) in rows {
        let PredictedPoint { parameters, predicted, trial, observed, trials, standard_error } = point;
        let error = standard_error.map(|error| format!(" +- {} of {trials}", short(error))).unwrap_or_default();
        let mut row = vec![
            name.to_owned(),
            trial.map_or_else(|| "-".to_owned(), |trial| trial.to_string()),
            observed.map_or_else(|| "-".to_owned(), |observed| short(observed) + &error),
            short(predicted.median),
            band(*predicted),
        ];
        row.extend(names.iter().map(|name| parameters.get(*name).map(short_value).unwrap_or_default()));
        table.add_row(row);
    }
    let _ = write!(text, "\n{metric} at the best points\n{}", table.render(layout)?);
    if let (true, [Some(best), Some(other)]) =
        (optimum.is_recommended, [&optimum.best_observed, &optimum.best_measured_by_model].map(|point| point.trial))
        && best != other
    {
        let _ = if optimum.best_may_be_lucky {
            writeln!(text, "trial {best} may have been lucky: the model expects it to be worse than trial {other}")
        } else {
            writeln!(text, "trials {best} and {other} differ by less than the uncertainty of the model")
        };
    }
    if optimum.predicted.trial.is_none() {
        let _ = writeln!(text, "not tried yet: {}", flags(optimum.predicted.parameters.iter()));
    }
    Ok(())
}

fn calibration(text: &mut String, calibration: &Calibration) {
    let inside = calibration.coverage.iter();
    let inside: Vec<String> =
        inside.map(|band| format!("{} in the {} band", percent(band.observed), percent(band.nominal))).collect();
    let _ = writeln!(text, "\ntrust: each point predicted from the others");
    line(text, "coverage", &inside.join(", "));
    let density = short(calibration.log_predictive_density);
    line(text, "log density", &format!("{density} (a guess without a model has -1.42)"));
    let (correlation, meaning) = match calibration.rank_correlation {
        Some(correlation) if correlation >= GOOD_RANKING => {
            (short(correlation), "the model separates good points from bad ones")
        }
        Some(correlation) if correlation >= SOME_RANKING => (short(correlation), "a rough guide"),
        Some(correlation) => {
            (short(correlation), "the model does not separate good points from bad ones: do not rely on the above")
        }
        None => ("-".to_owned(), "all predictions are the same: do not rely on the above"),
    };
    line(text, "ranking", &format!("{correlation} (Spearman): {meaning}"));
}

/// Draws all slices on one scale, so that a parameter without effect looks flat.
fn draw_slices(text: &mut String, metric: &MetricInsight, layout: &Layout) -> anyhow::Result<()> {
    let medians = |slice: &Slice| slice.points.iter().map(|point| point.predicted.median).collect::<Vec<f64>>();
    let all = || metric.slices.iter().flat_map(medians);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let _ = writeln!(
        text,
        "\n{} along each parameter through the best trial; bars from {} to {}",
        metric.metric,
        short(low),
        short(high)
    );
    let mut ordered = table(&["PARAMETER", "FROM", "", "TO", "BEST AT", "PREDICTED", "95% BAND"]);
    let mut levels = table(&["PARAMETER", "VALUE", "", "PREDICTED", "95% BAND"]);
    let (mut any_ordered, mut any_levels) = (false, false);
    for slice in &metric.slices {
        let better = |a: &&SlicePoint, b: &&SlicePoint| {
            let value = |point: &SlicePoint| metric.goal.to_maximized(point.predicted.median);
            value(a).total_cmp(&value(b))
        };
        let (Some(first), Some(last), Some(best)) =
            (slice.points.first(), slice.points.last(), slice.points.iter().max_by(better))
        else {
            continue;
        };
        if slice.ordered {
            any_ordered = true;
            ordered.add_row(vec![
                slice.parameter.clone(),
                short_value(&first.value),
                sparkline(&medians(slice), low, high),
                short_value(&last.value),
                short_value(&best.value),
                short(best.predicted.median),
                band(best.predicted),
            ]);
            continue;
        }
        any_levels = true;
        for point in &slice.points {
            levels.add_row(vec![
                slice.parameter.clone(),
                short_value(&point.value),
                sparkline(&[point.predicted.median], low, high),
                short(point.predicted.median),
                band(point.predicted),
            ]);
        }
    }
    for table in [any_ordered.then_some(ordered), any_levels.then_some(levels)].into_iter().flatten() {
        text.push_str(&table.render(layout)?);
    }
    Ok(())
}

fn table(header: &[&str]) -> Table {
    let column = |(index, name): (usize, &&str)| if index == 0 { Column::text(*name) } else { Column::number(*name) };
    Table::new(header.iter().enumerate().map(column).collect())
}

fn band(estimate: Estimate) -> String {
    format!("{} to {}", short(estimate.lower), short(estimate.upper))
}

fn short(value: f64) -> String {
    Rounded(value).to_string()
}

fn short_value(value: &ParameterValue) -> String {
    RoundedValue(value).to_string()
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:<12} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_percents() {
        assert_eq!([percent(0.0), percent(0.499), percent(1.0)], ["0%", "50%", "100%"]);
    }
}
