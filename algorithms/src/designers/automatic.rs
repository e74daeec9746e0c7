//! Choice of the algorithm for a study by fixed rules.
//!
//! | first rule that applies | algorithm |
//! | --- | --- |
//! | several metrics, or constraints | Gaussian process |
//! | more than 64 levels of categorical parameters in total, of those with more than five levels | Parzen estimator |
//! | a plateau: at least half of the best quarter of the measured trials (at least eight) repeat the value of another trial that is not close | Parzen estimator |
//! | from [`LONG_RUN`] completed trials on, at least 2 parameters, none categorical, none conditional | covariance matrix adaptation |
//! | otherwise | Gaussian process |
//!
//! The rules are measured, see docs/experiments/014 and 018. Equal values of close trials, or of trials that differ only in
//! categories, are no plateau: the former are a search that has converged to the printed digits, the latter irrelevant
//! categories, which the Gaussian process learns.
//!
//! The user's prior guides both the Gaussian process and the Parzen estimator. Only the Gaussian process uses source studies:
//! where they provide a model, it proposes the first trials even if the Parzen estimator is chosen, which has no model of its
//! own before its [eleventh trial](super::TreeParzen) and then uses those trials.
//!
//! If the chosen algorithm fails on a history for numerical reasons, quasi-random search proposes the points, which the origin
//! of the suggestions states.

use super::tpe::START_TRIALS;
use super::{CmaEs, GpBandit, QuasiRandomSearch, TreeParzen};
use crate::designer::{Capabilities, Designer, DesignerError, History, SuggestRequest};
use crate::encoding::Encoding;
use crate::interruption::Interruption;
use crate::problem::{
    AlgorithmName, CompletedTrial, ParameterKind, ParameterSpec, ProblemStatement, TrialOutcome, TrialSuggestion,
};
use crate::transfer::{SourceInfluence, SourceStudy};

/// Number of completed trials from which covariance matrix adaptation takes over (mostly a guess, see
/// docs/experiments/014).
pub const LONG_RUN: usize = 2_000;
/// Maximum total number of levels, over categorical parameters with more than [`FEW_LEVELS`], for the Gaussian process
/// (measured, see docs/experiments/014).
const MOST_LEVELS: usize = 64;
/// Categorical parameters with at most this many levels do not count: each level is tried often enough for the Gaussian
/// process (measured with 25 to 60 parameters of two and five levels, see docs/experiments/018).
const FEW_LEVELS: usize = 5;
/// The best trials, one in this many, are inspected for a plateau.
const INSPECTED_SHARE: usize = 4;
/// Minimum number of inspected trials for a plateau: in a small integer space a few equal values are normal.
const MIN_INSPECTED: usize = 8;
/// Trials of equal value count as one if no ordered parameter differs by more than this share of its range (see
/// docs/experiments/014).
const CLOSE: f64 = 0.05;
/// One repeated value in this many trials makes a plateau (see docs/experiments/014).
const SHARE_REPEATED: usize = 2;

/// Chosen algorithm, with the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlgorithmChoice {
    /// Name of the algorithm.
    pub algorithm: AlgorithmName,
    /// Reason in words: lower case, no full stop.
    pub reason: &'static str,
}

/// Chooses the algorithm for the next suggestion of `problem` after the trials `completed`, in any order. Depends on
/// nothing else.
pub fn choose_algorithm(problem: &ProblemStatement, completed: &[CompletedTrial]) -> AlgorithmChoice {
    let (algorithm, reason) = if has_one_outcome(problem) && levels(problem) > MOST_LEVELS {
        let reason = "the categorical parameters have too many levels for a Gaussian process to learn each of them";
        (AlgorithmName::TreeStructuredParzenEstimator, reason)
    } else if is_on_plateau(problem, completed) {
        let reason = "many of the best trials have equal values, and a Gaussian process would stay near them";
        (AlgorithmName::TreeStructuredParzenEstimator, reason)
    } else if completed.len() >= LONG_RUN && is_smooth(problem) {
        let reason = "in long runs without categorical or conditional parameters an evolution strategy keeps improving";
        (AlgorithmName::CmaEs, reason)
    } else {
        (AlgorithmName::GaussianProcessBandit, "it finds good values in the fewest trials")
    };
    AlgorithmChoice { algorithm, reason }
}

fn has_one_outcome(problem: &ProblemStatement) -> bool {
    problem.metrics().len() == 1 && problem.constraints().is_empty()
}

/// Total number of levels of categorical parameters with more than [`FEW_LEVELS`].
fn levels(problem: &ProblemStatement) -> usize {
    let levels = |spec: &ParameterSpec| match spec.kind() {
        ParameterKind::Categorical { values } if values.len() > FEW_LEVELS => values.len(),
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

/// Whether many of the best trials have exactly equal values although they are not close.
///
/// Close trials with equal values count as one point, to which the search has converged up to the digits of the metric.
/// Categories do not separate points: an irrelevant category gives equal values for any function.
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
    let best = &trials[..trials.len().div_ceil(INSPECTED_SHARE)];
    let equals = best.windows(2).filter(|pair| pair[0].0 == pair[1].0).count();
    if best.len() < MIN_INSPECTED || SHARE_REPEATED * equals < best.len() {
        return false;
    }
    let encoding = Encoding::new(problem.search_space());
    let categorical = encoding.categorical();
    let (mut apart, mut repeats) = (0, 0);
    for equal in best.chunk_by(|a, b| a.0 == b.0) {
        let mut kept: Vec<Vec<f64>> = Vec::new();
        for point in equal.iter().filter_map(|(_, trial)| encoding.encode(&trial.parameters).ok()) {
            let is_apart = |other: &Vec<f64>| {
                let mut coordinates = point.iter().zip(other).zip(&categorical);
                coordinates.any(|((u, v), categorical)| !categorical && (u - v).abs() > CLOSE)
            };
            if kept.iter().all(is_apart) {
                kept.push(point);
            }
        }
        apart += kept.len();
        repeats += kept.len().saturating_sub(1);
    }
    apart >= MIN_INSPECTED && SHARE_REPEATED * repeats >= apart
}

/// Designer that delegates each suggestion to the algorithm of [`choose_algorithm`].
#[derive(Debug, Clone)]
pub struct Automatic {
    problem: ProblemStatement,
    gaussian_process: GpBandit,
    /// Only for one metric without constraints.
    parzen: Option<TreeParzen>,
    /// Only for problems that may select it.
    evolution: Option<CmaEs>,
    quasi_random: QuasiRandomSearch,
}

impl Automatic {
    /// Creates a designer for `problem`.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if no algorithm can search it.
    pub fn new(problem: ProblemStatement, seed: u64) -> Result<Self, DesignerError> {
        Self::with_source_studies(problem, seed, &[])
    }

    /// Creates a designer for `problem` that learns from the trials of `studies`, oldest first, as described in
    /// [`crate::transfer`].
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if no algorithm can search it, or if there are studies and it has several
    /// metrics.
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

impl Automatic {
    /// Algorithm of the next suggestion.
    fn chosen(&self, history: History<'_>) -> &dyn Designer {
        let choice = choose_algorithm(&self.problem, history.completed);
        let source_models_propose = self.gaussian_process.has_source_models() && history.completed.len() < START_TRIALS;
        match (choice.algorithm, &self.parzen, &self.evolution) {
            _ if source_models_propose => &self.gaussian_process,
            (AlgorithmName::TreeStructuredParzenEstimator, Some(parzen), _) => parzen,
            (AlgorithmName::CmaEs, _, Some(evolution)) => evolution,
            _ => &self.gaussian_process,
        }
    }
}

impl Designer for Automatic {
    fn source_influences(
        &self,
        history: History<'_>,
        interruption: &Interruption,
    ) -> Result<Vec<SourceInfluence>, DesignerError> {
        self.chosen(history).source_influences(history, interruption)
    }

    fn capabilities(&self) -> Capabilities {
        self.gaussian_process.capabilities()
    }

    fn suggest_until(
        &self,
        history: History<'_>,
        request: SuggestRequest,
        interruption: &Interruption,
    ) -> Result<Vec<TrialSuggestion>, DesignerError> {
        or_fallback(
            self.chosen(history).suggest_until(history, request, interruption),
            &self.quasi_random,
            history,
            request,
        )
    }
}

/// Returns `outcome`, or the suggestions of `fallback` after a numerical failure.
fn or_fallback(
    outcome: Result<Vec<TrialSuggestion>, DesignerError>,
    fallback: &dyn Designer,
    history: History<'_>,
    request: SuggestRequest,
) -> Result<Vec<TrialSuggestion>, DesignerError> {
    match outcome {
        Err(DesignerError::Numerical { algorithm, reason }) => {
            tracing::warn!(%algorithm, %reason, trial.id = request.first_trial_id.0, "numerical failure, falling back to quasi-random search");
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
            let outcome = TrialOutcome::measured(values);
            CompletedTrial { id: TrialId(id), parameters: parameters.into(), outcome }
        };
        (1..=count).map(trial).collect()
    }

    #[test]
    fn automatic_choice_satisfies_the_contract() {
        designer_contract(|problem, seed| Ok(Box::new(Automatic::new(problem.clone(), seed)?)));
    }

    #[test]
    fn evolution_strategy_takes_over_only_in_long_smooth_runs() {
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
    fn many_levels_choose_the_parzen_estimator() {
        let of_levels = |counts: &[usize]| {
            let kind = |count: usize| ParameterKind::Categorical {
                values: (0..count).map(|level| level.to_string()).collect(),
            };
            problem(counts.iter().enumerate().map(|(index, &count)| spec(&format!("c{index}"), kind(count))).collect())
        };
        let algorithm = |counts: &[usize]| choose_algorithm(&of_levels(counts), &[]).algorithm;
        let (gp, tpe) = (AlgorithmName::GaussianProcessBandit, AlgorithmName::TreeStructuredParzenEstimator);
        assert_eq!(algorithm(&[MOST_LEVELS, FEW_LEVELS]), gp);
        assert_eq!(algorithm(&[MOST_LEVELS + 1]), tpe);
        // Parameters of few levels never count, whatever their number.
        assert_eq!(algorithm(&[FEW_LEVELS; 60]), gp);
        assert_eq!(algorithm(&[FEW_LEVELS + 1; 60]), tpe);
    }

    #[test]
    fn equal_values_are_a_plateau_only_among_the_best_trials() {
        // 40 trials with values from 0, the best; ten are inspected.
        let with = |value: &dyn Fn(usize) -> f64| {
            let mut trials = trials(40);
            for (place, trial) in trials.iter_mut().enumerate() {
                trial.outcome = TrialOutcome::measured(vec![value(place)]);
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
        // Too few trials are no plateau; failed trials have no values.
        assert_eq!(algorithm(&pairs[..28]), gp);
        // Equal values of close trials come from a converged search.
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
    fn suggestions_and_origins_are_those_of_the_chosen_algorithm() {
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
    fn numerical_failure_falls_back_to_quasi_random_search_and_other_errors_are_returned() {
        let quasi_random = QuasiRandomSearch::new(&plane(), 5);
        let (history, request) = (History::default(), SuggestRequest::one(TrialId(1)));
        let answer = |error: DesignerError| or_fallback(Err(error), &quasi_random, history, request);
        let failed = DesignerError::Numerical { algorithm: "GAUSSIAN_PROCESS_BANDIT", reason: "synthetic".into() };
        let suggestions = answer(failed).unwrap();
        assert_eq!(suggestions, quasi_random.suggest(history, request).unwrap());
        assert_eq!(suggestions[0].origin, Origin::of(AlgorithmName::QuasiRandomSearch));
        let foreign = DesignerError::ForeignTrial { trial: TrialId(3), reason: "synthetic".into() };
        assert_eq!(answer(foreign.clone()), Err(foreign));
    }
}
