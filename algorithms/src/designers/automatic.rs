//! The algorithm that serves a study best, chosen by rule.
//!
//! | in this order | algorithm |
//! | --- | --- |
//! | several metrics, or constraints | Gaussian process |
//! | more than 64 levels of categorical parameters, together | Parzen estimator |
//! | on a plateau: of the best quarter of the measured trials, at least eight, at least half repeat the value of another that is not close | Parzen estimator |
//! | from [`LONG_RUN`] completed trials on, at least 2 parameters, none categorical, none conditional | covariance matrix adaptation |
//! | otherwise | Gaussian process |
//!
//! Measured at 100 evaluations, wins and losses: on tables of trained models, where nearby points have equal values,
//! the Gaussian process fills the best quarter with equals (19 of 20 trials) and loses to the Parzen estimator 5 to 21;
//! with the rule for plateaus (from four trials looked at on) it wins 19 to 5 against random search, without it 16 to
//! 11. Of seven problems dominated by categories the Parzen estimator is ahead where there are 85 and 96 levels, 15 to
//! 1; with 30 to 48 levels the Gaussian process is, 16 to 5, so the limit of 64 is somewhere between. With conditional
//! parameters the Gaussian process leads 19 to 1.
//!
//! Equals that are close together, or differ in categories alone, are no plateau: the former are a search that has converged
//! to the printed digits, the latter switches that do not matter, which the Gaussian process learns (`clauses`, 5 seeds:
//! log10 gap -2.39 after 100 trials, where the Parzen estimator took over -1.83).
//!
//! What users believe of the optimum guides the Gaussian process and the Parzen estimator alike. Of earlier studies only
//! the Gaussian process learns: where they teach it something it proposes the first trials even if the Parzen estimator is
//! chosen, which has no model of its own before its [eleventh trial](super::TreeParzen) and then learns from those.
//!
//! If the chosen algorithm fails on a history for numerical reasons, quasi-random search answers for it; that it did is
//! told by the suggestion's origin.

use super::tpe::START_TRIALS;
use super::{CmaEs, GpBandit, QuasiRandomSearch, TreeParzen};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::{Encoding, Feature, FeatureKind};
use crate::problem::{
    AlgorithmName, CompletedTrial, ParameterKind, ParameterSpec, ProblemStatement, TrialOutcome, TrialSuggestion,
};
use crate::transfer::SourceStudy;

/// Completed trials from which on covariance matrix adaptation takes over. Mostly a guess: of two functions of five
/// parameters each algorithm was ahead on one after 500 and after 1000 trials; the evolution strategy, which had been
/// behind on both after 200, then still gained many decades. Of the trials of a Gaussian process it makes little: taking over after 500 on five
/// functions of five parameters it gained nothing in 500 more on four, where on one the Gaussian process gained 1.6
/// decades. So it should not take over early.
pub const LONG_RUN: usize = 2_000;
/// More levels than this, of all categorical parameters together, and a Gaussian process learns too little of each.
const MOST_LEVELS: usize = 64;
/// The best one in so many trials are looked at for a plateau.
const SHARE_LOOKED_AT: usize = 4;
/// Fewer trials than this are no plateau: in a small space of whole numbers a few equal values are nothing special.
const FEWEST_LOOKED_AT: usize = 8;
/// Trials of equal value that differ by no more than this share of the range in any ordered parameter are one. On tables
/// answered by the nearest row it makes no difference (60 trials, 9 tables, 3 seeds: -0.02 +- 0.05 decades against 0.01).
const CLOSE: f64 = 0.05;
/// One repeated value in so many trials is a plateau. (A quarter of repeats instead of a half did not differ in the
/// measurement; a metric that counts, as accuracy does, has some equal values anyway.)
const SHARE_REPEATED: usize = 2;

/// An algorithm and why it is the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlgorithmChoice {
    /// The algorithm.
    pub algorithm: AlgorithmName,
    /// Why, for people: lower case, no final stop.
    pub reason: &'static str,
}

/// The algorithm for the next suggestion of `problem` after the trials `completed`, in any order: a function of nothing
/// else.
pub fn choose_algorithm(problem: &ProblemStatement, completed: &[CompletedTrial]) -> AlgorithmChoice {
    let (algorithm, reason) = if has_one_outcome(problem) && levels(problem) > MOST_LEVELS {
        let reason =
            "there are very many levels of categorical parameters, of which a model of values learns too little";
        (AlgorithmName::TreeStructuredParzenEstimator, reason)
    } else if is_on_plateau(problem, completed) {
        let reason = "many of the best trials have equal values: a model of values would stay where they are";
        (AlgorithmName::TreeStructuredParzenEstimator, reason)
    } else if completed.len() >= LONG_RUN && is_smooth(problem) {
        let reason = "in long runs without categorical or conditional parameters an evolution strategy still improves";
        (AlgorithmName::CmaEs, reason)
    } else {
        (AlgorithmName::GaussianProcessBandit, "it finds good values in the fewest trials")
    };
    AlgorithmChoice { algorithm, reason }
}

/// Whether a trial's one value is all that matters.
fn has_one_outcome(problem: &ProblemStatement) -> bool {
    problem.metrics().len() == 1 && problem.constraints().is_empty()
}

/// The number of levels of all categorical parameters together.
fn levels(problem: &ProblemStatement) -> usize {
    let levels = |spec: &ParameterSpec| match spec.kind() {
        ParameterKind::Categorical { values } => values.len(),
        _ => 0,
    };
    problem.search_space().parameters().iter().map(levels).sum()
}

/// Whether covariance matrix adaptation suits the problem.
fn is_smooth(problem: &ProblemStatement) -> bool {
    let parameters = problem.search_space().parameters();
    let is_ordered =
        |spec: &ParameterSpec| spec.condition().is_none() && !matches!(spec.kind(), ParameterKind::Categorical { .. });
    has_one_outcome(problem) && parameters.len() >= 2 && parameters.iter().all(is_ordered)
}

/// Whether many of the best trials have exactly equal values though they are apart.
///
/// Equal values of trials close together are those of one point, to which the search has converged as far as the digits
/// of the metric tell. Categories do not set points apart: one that does not matter gives equal values on any function.
fn is_on_plateau(problem: &ProblemStatement, completed: &[CompletedTrial]) -> bool {
    let [metric] = problem.metrics() else { return false };
    if !has_one_outcome(problem) {
        return false;
    }
    let value = |trial: &CompletedTrial| match &trial.outcome {
        TrialOutcome::Measured { values, .. } => values.first().copied().filter(|value| value.is_finite()),
        TrialOutcome::Infeasible => None,
    };
    let maximized = |trial| value(trial).map(|value| (metric.goal.to_maximized(value), trial));
    let mut trials: Vec<(f64, &CompletedTrial)> = completed.iter().filter_map(maximized).collect();
    trials.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
    let best = &trials[..trials.len().div_ceil(SHARE_LOOKED_AT)];
    let equals = best.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    if best.len() < FEWEST_LOOKED_AT || SHARE_REPEATED * equals < best.len() {
        return false;
    }
    let encoding = Encoding::new(problem.search_space());
    let is_ordered = |feature: &Feature| !matches!(feature.kind, FeatureKind::Categorical { .. });
    let ordered: Vec<bool> = encoding.features().iter().map(is_ordered).collect();
    let (mut apart, mut repeats) = (0, 0);
    for equal in best.chunk_by(|a, b| a.0 == b.0) {
        let mut kept: Vec<Vec<f64>> = Vec::new();
        for point in equal.iter().filter_map(|(_, trial)| encoding.encode(&trial.parameters).ok()) {
            let is_apart = |other: &Vec<f64>| {
                point.iter().zip(other).zip(&ordered).any(|((u, v), ordered)| *ordered && (u - v).abs() > CLOSE)
            };
            if kept.iter().all(is_apart) {
                kept.push(point);
            }
        }
        apart += kept.len();
        repeats += kept.len().saturating_sub(1);
    }
    apart >= FEWEST_LOOKED_AT && SHARE_REPEATED * repeats >= apart
}

/// The designer that [`choose_algorithm`] names, at each suggestion anew.
#[derive(Debug, Clone)]
pub struct Automatic {
    problem: ProblemStatement,
    gaussian_process: GpBandit,
    /// Only for one metric without constraints.
    parzen: Option<TreeParzen>,
    /// Only where it can be chosen.
    evolution: Option<CmaEs>,
    quasi_random: QuasiRandomSearch,
}

impl Automatic {
    /// A designer for `problem`.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if no algorithm can search it.
    pub fn new(problem: ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        Self::with_source_studies(problem, seed, &[])
    }

    /// A designer for `problem` that has learned from `studies`, the oldest first, as [`crate::transfer`] describes.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if no algorithm can search it, or if there are studies and it has several metrics.
    pub fn with_source_studies(
        problem: ProblemStatement,
        seed: u64,
        studies: &[SourceStudy],
    ) -> Result<Self, DesignerError> {
        Ok(Self {
            gaussian_process: GpBandit::with_source_studies(problem.clone(), seed, studies)?,
            parzen: if has_one_outcome(&problem) { Some(TreeParzen::new(&problem, seed)?) } else { None },
            evolution: if is_smooth(&problem) { Some(CmaEs::new(&problem, seed)?) } else { None },
            quasi_random: QuasiRandomSearch::new(&problem, seed),
            problem,
        })
    }
}

impl Designer for Automatic {
    fn capabilities(&self) -> Capabilities {
        self.gaussian_process.capabilities()
    }

    fn suggest(&self, history: History<'_>, request: SuggestRequest) -> Result<Vec<TrialSuggestion>, DesignerError> {
        let choice = choose_algorithm(&self.problem, history.completed);
        let has_foreknowledge = self.gaussian_process.has_source_models() && history.completed.len() < START_TRIALS;
        let chosen: &dyn Designer = match (choice.algorithm, &self.parzen, &self.evolution) {
            _ if has_foreknowledge => &self.gaussian_process,
            (AlgorithmName::TreeStructuredParzenEstimator, Some(parzen), _) => parzen,
            (AlgorithmName::CmaEs, _, Some(evolution)) => evolution,
            _ => &self.gaussian_process,
        };
        or_else_spread_out(chosen.suggest(history, request), &self.quasi_random, history, request)
    }
}

/// `outcome`, or where that is a numerical failure the answer of `fallback`.
fn or_else_spread_out(
    outcome: Result<Vec<TrialSuggestion>, DesignerError>,
    fallback: &dyn Designer,
    history: History<'_>,
    request: SuggestRequest,
) -> Result<Vec<TrialSuggestion>, DesignerError> {
    match outcome {
        Err(DesignerError::Numerical { algorithm, reason }) => {
            tracing::warn!(%algorithm, %reason, trial.id = request.first_trial_id.0, "quasi-random search answers for it");
            fallback.suggest(history, request)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{
        CompletedTrial, Condition, Goal, MetricSpec, Origin, ParameterValue, ScaleType, SearchSpace, Step, TrialId,
        TrialOutcome,
    };
    use crate::testing::designer_contract;

    fn double() -> ParameterKind {
        ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear }
    }

    fn categorical() -> ParameterKind {
        ParameterKind::Categorical { values: vec!["a".into(), "b".into()] }
    }

    fn problem(parameters: Vec<ParameterSpec>) -> ProblemStatement {
        let metric = MetricSpec { name: "y".into(), goal: Goal::Minimize };
        ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
    }

    fn spec(name: &str, kind: ParameterKind) -> ParameterSpec {
        ParameterSpec::new(name, kind).unwrap()
    }

    fn plane() -> ProblemStatement {
        problem(vec![spec("x", double()), spec("y", double())])
    }

    fn trials(count: u64) -> Vec<CompletedTrial> {
        let trial = |id: u64| {
            let x = (id as f64 * 0.618_033_988_749_895).fract();
            let y = (id as f64 * 0.414_213_562_373_095).fract();
            let parameters = [("x", x), ("y", y)].map(|(name, value)| (name.to_owned(), ParameterValue::Double(value)));
            let values = vec![(x - 0.3).powi(2) + (y - 0.6).powi(2)];
            let outcome = TrialOutcome::Measured { values, stopped_early: false };
            CompletedTrial { id: TrialId(id), parameters: parameters.into(), outcome }
        };
        (1..=count).map(trial).collect()
    }

    #[test]
    fn it_keeps_the_contract() {
        designer_contract(|problem, seed| Ok(Box::new(Automatic::new(problem.clone(), seed)?)));
    }

    #[test]
    fn the_evolution_strategy_takes_over_in_long_smooth_runs_only() {
        let many = trials(LONG_RUN as u64);
        let algorithm = |problem: &ProblemStatement, count| choose_algorithm(problem, &many[..count]).algorithm;
        let gp = AlgorithmName::GaussianProcessBandit;
        assert_eq!(algorithm(&plane(), 0), gp);
        assert_eq!(algorithm(&plane(), LONG_RUN - 1), gp);
        assert_eq!(algorithm(&plane(), LONG_RUN), AlgorithmName::CmaEs);
        let line = problem(vec![spec("x", double())]);
        let mixed = problem(vec![spec("x", double()), spec("y", double()), spec("c", categorical())]);
        let integer = ParameterKind::Integer { min: 0, max: 1, scale: ScaleType::UnitLinear };
        let below = Condition::new("k", vec![ParameterValue::Integer(1)]);
        let conditional =
            problem(vec![spec("k", integer), spec("x", double()), spec("y", double()).with_condition(below)]);
        for other in [line, mixed, conditional] {
            assert_eq!(algorithm(&other, LONG_RUN), gp);
        }
    }

    #[test]
    fn very_many_levels_are_left_to_the_parzen_estimator() {
        let of_levels = |levels: usize| {
            let values = (0..levels - 2).map(|level| level.to_string()).collect();
            problem(vec![spec("c", ParameterKind::Categorical { values }), spec("d", categorical())])
        };
        let algorithm = |levels| choose_algorithm(&of_levels(levels), &[]).algorithm;
        assert_eq!(algorithm(MOST_LEVELS), AlgorithmName::GaussianProcessBandit);
        assert_eq!(algorithm(MOST_LEVELS + 1), AlgorithmName::TreeStructuredParzenEstimator);
    }

    #[test]
    fn equal_values_among_the_best_are_a_plateau_and_among_the_others_not() {
        // 40 trials, of which ten are looked at, with values from 0, the best, on.
        let with = |value: &dyn Fn(usize) -> f64| {
            let mut trials = trials(40);
            for (place, trial) in trials.iter_mut().enumerate() {
                trial.outcome = TrialOutcome::Measured { values: vec![value(place)], stopped_early: false };
            }
            trials
        };
        let tpe = AlgorithmName::TreeStructuredParzenEstimator;
        let gp = AlgorithmName::GaussianProcessBandit;
        let algorithm = |trials: &[CompletedTrial]| choose_algorithm(&plane(), trials).algorithm;
        // The best ten have five different values, or eight.
        let pairs = with(&|place| (place / 2) as f64);
        assert_eq!(algorithm(&pairs), tpe);
        assert_eq!(algorithm(&with(&|place| if place < 3 { 0.0 } else { place as f64 })), gp);
        assert_eq!(algorithm(&with(&|place| if place < 10 { place as f64 } else { 99.0 })), gp);
        // Too few say nothing; failed trials have no values.
        assert_eq!(algorithm(&pairs[..28]), gp);
        // Equal values of trials close together are of a search that has converged.
        let mut converged = with(&|place| if place < 20 { 0.0 } else { place as f64 });
        assert_eq!(algorithm(&converged), tpe);
        for (place, trial) in converged[..20].iter_mut().enumerate() {
            let x = 0.3 + 0.002 * place as f64;
            trial.parameters = [("x", x), ("y", 0.6)].map(|(n, v)| (n.to_owned(), ParameterValue::Double(v))).into();
        }
        assert_eq!(algorithm(&converged), gp);
        assert_eq!(algorithm(&pairs[..30]), tpe);
        let mut failed = pairs;
        for trial in &mut failed[8..] {
            trial.outcome = TrialOutcome::Infeasible;
        }
        assert_eq!(algorithm(&failed), gp);
        let suggestions = Automatic::new(plane(), 1)
            .unwrap()
            .suggest(History { completed: &with(&|_| 1.0), pending: &[] }, SuggestRequest::one(TrialId(41)))
            .unwrap();
        assert_eq!(suggestions[0].origin, Origin::with_step(tpe, Step::Model));
    }

    #[test]
    fn its_suggestions_are_those_of_the_chosen_algorithm_and_say_so() {
        let automatic = Automatic::new(plane(), 5).unwrap();
        let next = |designer: &dyn Designer, completed: &[CompletedTrial]| {
            let request = SuggestRequest::one(TrialId(completed.len() as u64 + 1));
            designer.suggest(History { completed, pending: &[] }, request).unwrap().remove(0)
        };
        let few = trials(12);
        let suggestion = next(&automatic, &few);
        assert_eq!(suggestion, next(&GpBandit::new(plane(), 5).unwrap(), &few));
        assert_eq!(suggestion.origin, Origin::with_step(AlgorithmName::GaussianProcessBandit, Step::TrustRegion));
        assert_eq!(next(&automatic, &[]).origin.step, Some(Step::Start));
        let many = trials(LONG_RUN as u64);
        let suggestion = next(&automatic, &many);
        assert_eq!(suggestion, next(&CmaEs::new(&plane(), 5).unwrap(), &many));
        assert_eq!(suggestion.origin, Origin::with_step(AlgorithmName::CmaEs, Step::Model));
    }

    #[test]
    fn a_numerical_failure_is_answered_by_quasi_random_search_and_another_error_stays() {
        let quasi_random = QuasiRandomSearch::new(&plane(), 5);
        let (history, request) = (History::default(), SuggestRequest::one(TrialId(1)));
        let answer = |error: DesignerError| or_else_spread_out(Err(error), &quasi_random, history, request);
        let failed = DesignerError::Numerical { algorithm: "GAUSSIAN_PROCESS_BANDIT", reason: "made up".into() };
        let suggestions = answer(failed).unwrap();
        assert_eq!(suggestions, quasi_random.suggest(history, request).unwrap());
        assert_eq!(suggestions[0].origin, Origin::of(AlgorithmName::QuasiRandomSearch));
        let foreign = DesignerError::ForeignTrial { trial: TrialId(3), reason: "made up".into() };
        assert_eq!(answer(foreign.clone()), Err(foreign));
    }
}
