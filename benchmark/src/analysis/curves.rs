//! Results as functions of the number of evaluations: best-so-far curves with bands, and shares of reached targets.

use std::collections::BTreeMap;

use serde::Serialize;

use super::groups::Cells;
use super::log_gap::log_gap;
use super::options::{AnalysisError, AnalysisOptions};
use super::runs::{Run, RunSet};
use tunesmith_statistics::bootstrap::stratified_interval;
use tunesmith_statistics::ecdf::{self, Ecdf, ecdf, spaced_targets};
use tunesmith_statistics::summary::{mean, median};

const MOST_POINTS: usize = 60;
/// The easiest target of COCO.
const EASIEST_TARGET: f64 = 100.0;

/// Mean log10 gap of an optimizer by number of evaluations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// By increasing number of evaluations.
    pub points: Vec<CurveBand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurveBand {
    pub evaluations: usize,
    /// Mean over problems of the mean over seeds of the log10 gap.
    pub mean: f64,
    /// Lower end of the bootstrap band. Resampling seeds within each problem shows how much the mean varies between
    /// seeds on the same problems.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
}

/// Share of targets reached by an optimizer: its empirical distribution of run lengths, as drawn by COCO.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetCurve {
    #[serde(rename = "contestant")]
    pub optimizer: usize,
    /// Pairs of evaluations divided by the number of parameters, increasing, and the share in [0, 1] of all (problem,
    /// seed, target) reached by then. A finished run keeps the targets it has reached.
    pub points: Vec<(f64, f64)>,
    /// Mean share, in [0, 1], over the logarithm of evaluations per parameter, from the first evaluation of the problem
    /// with most parameters to the end of the shortest curve. `None` if this range is empty.
    pub area: Option<f64>,
}

/// Runs of the curves: the optimizers with results on most problems, on their common problems.
struct CurveRuns<'a> {
    optimizers: Vec<usize>,
    /// By optimizer, then by problem.
    runs: Vec<Vec<Vec<&'a Run<'a>>>>,
}

impl<'a> CurveRuns<'a> {
    fn new(cells: &Cells<'a>) -> Self {
        let (optimizers, _) = cells.coverage(1);
        let mut runs = vec![Vec::new(); optimizers.len()];
        for problem in cells.common_problems(&optimizers, 1) {
            for (index, of_optimizer) in cells.paired(&optimizers, problem, 1).into_iter().enumerate() {
                runs[index].push(of_optimizer);
            }
        }
        Self { optimizers, runs }
    }

    /// Each optimizer with its runs and their common budget.
    fn each(&self) -> impl Iterator<Item = (usize, &Vec<Vec<&'a Run<'a>>>, usize)> {
        self.optimizers.iter().zip(&self.runs).filter_map(|(&optimizer, runs)| {
            let budget = runs.iter().flatten().map(|run| run.losses.len()).min()?;
            Some((optimizer, runs, budget))
        })
    }
}

/// Computes the curves in optimizer order.
///
/// # Errors
/// [`AnalysisError::Statistics`] if a gap is infinite.
pub(super) fn curves(
    set: &RunSet<'_>,
    cells: &Cells<'_>,
    options: &AnalysisOptions,
) -> Result<Vec<Curve>, AnalysisError> {
    let curve_runs = CurveRuns::new(cells);
    let mut curves = Vec::new();
    for (optimizer, problems, budget) in curve_runs.each() {
        let mut points = Vec::new();
        for evaluations in spread(budget) {
            let strata: Vec<Vec<f64>> = problems
                .iter()
                .map(|runs| runs.iter().map(|run| log_gap(run, set, evaluations, options)).collect())
                .collect();
            let band = stratified_interval(&strata, options.confidence, options.resamples, options.seed)?;
            let mean = mean(&strata.iter().map(|values| mean(values)).collect::<Vec<f64>>());
            points.push(CurveBand { evaluations, mean, low: band.low, high: band.high });
        }
        curves.push(Curve { optimizer, points });
    }
    Ok(curves)
}

/// Computes the target curves in optimizer order.
///
/// The targets of a problem are 51 gaps, evenly spaced in their logarithm. The first is 100, or the median gap of all
/// first evaluations if that is smaller. The last is [`AnalysisOptions::floor`], or [`AnalysisOptions::coarse_floor`]
/// times the first without a known optimum. For functions with gaps above 100 these are the targets of COCO.
///
/// # Errors
/// [`AnalysisError::Statistics`] if a loss is NaN.
pub(super) fn target_curves(
    set: &RunSet<'_>,
    cells: &Cells<'_>,
    options: &AnalysisOptions,
) -> Result<Vec<TargetCurve>, AnalysisError> {
    let curve_runs = CurveRuns::new(cells);
    let problems = curve_runs.runs.first().map_or(0, Vec::len);
    let targets: Vec<Vec<f64>> = (0..problems)
        .map(|problem| {
            let runs: Vec<&Run<'_>> = curve_runs.runs.iter().flat_map(|of| of[problem].iter().copied()).collect();
            targets(&runs, set, options)
        })
        .collect();
    let mut functions: Vec<(usize, Ecdf, Vec<f64>)> = Vec::new();
    for (optimizer, problems, _) in curve_runs.each() {
        let mut runs = Vec::new();
        for (of_problem, targets) in problems.iter().zip(&targets) {
            runs.extend(of_problem.iter().map(|run| ecdf::Run {
                // A problem without parameters counts as dimension 1.
                dimension: set.problems[run.problem].parameters.max(1),
                gaps: &run.losses,
                targets,
            }));
        }
        functions.push((optimizer, ecdf(&runs)?, efforts(&runs)));
    }
    let first = functions.iter().filter_map(|(.., efforts)| efforts.first().copied()).reduce(f64::min);
    let shared = functions.iter().filter_map(|(.., efforts)| efforts.last().copied()).reduce(f64::min);
    let curve = |(optimizer, function, efforts): (usize, Ecdf, Vec<f64>)| TargetCurve {
        optimizer,
        points: efforts.into_iter().map(|effort| (effort, function.share_at(effort))).collect(),
        area: first.zip(shared).and_then(|(first, shared)| function.area(first, shared).ok()),
    };
    Ok(functions.into_iter().map(curve).collect())
}

fn targets(runs: &[&Run<'_>], set: &RunSet<'_>, options: &AnalysisOptions) -> Vec<f64> {
    let first: Vec<f64> = runs.iter().map(|run| run.losses[0]).collect();
    let is_exact = runs.first().is_some_and(|run| set.problems[run.problem].is_exact);
    let easiest = median(&first).clamp(10.0 * options.floor, EASIEST_TARGET.max(10.0 * options.floor));
    let hardest = if is_exact { options.floor } else { easiest * options.coarse_floor.min(0.1) };
    // Tolerance for rounded powers of ten: a loss at the floor reaches the last target.
    spaced_targets(easiest, hardest).into_iter().map(|target| target * (1.0 + 1e-9)).collect()
}

/// Numbers of evaluations per parameter of `runs`, increasing: all of them up to a limit, otherwise evenly spaced in
/// their logarithm from the first to the last.
fn efforts(runs: &[ecdf::Run<'_>]) -> Vec<f64> {
    let mut longest: BTreeMap<usize, usize> = BTreeMap::new();
    for run in runs {
        let evaluations = longest.entry(run.dimension).or_default();
        *evaluations = run.gaps.len().max(*evaluations);
    }
    let mut efforts: Vec<f64> = longest
        .into_iter()
        .flat_map(|(dimension, longest)| (1..=longest).map(move |evaluations| evaluations as f64 / dimension as f64))
        .collect();
    efforts.sort_by(f64::total_cmp);
    efforts.dedup();
    if efforts.len() <= MOST_POINTS {
        return efforts;
    }
    let (first, last) = (efforts[0], efforts[efforts.len() - 1]);
    let ratio = (last / first).ln() / (MOST_POINTS - 1) as f64;
    let spaced = (0..MOST_POINTS - 1).map(|index| first * (index as f64 * ratio).exp());
    spaced.chain(std::iter::once(last)).collect()
}

/// Numbers of evaluations from 1 to `budget`: all of them up to a limit, otherwise evenly spaced.
fn spread(budget: usize) -> Vec<usize> {
    if budget <= MOST_POINTS {
        return (1..=budget).collect();
    }
    let step = (budget - 1) as f64 / (MOST_POINTS - 1) as f64;
    (0..MOST_POINTS).map(|index| 1 + (index as f64 * step).round() as usize).collect()
}
