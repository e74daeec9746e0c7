//! The problem of the latency measurements: a search space of six parameters of all kinds and scales.

use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
    SearchSpace,
};
use tunesmith_benchmark::problem::{Draw, Evaluation, Problem, Profile, Quality};

/// A smooth function of six parameters with one optimum for each activation.
pub(crate) struct MixedProblem {
    profile: Profile,
}

/// The problem.
///
/// # Errors
/// None that could happen: its ranges are fixed. The caller passes it on.
pub(crate) fn mixed_problem() -> anyhow::Result<MixedProblem> {
    let double = |min, max, scale| ParameterKind::Double { min, max, scale };
    let levels = ["relu", "tanh", "gelu", "selu"].map(str::to_owned).to_vec();
    let parameters = [
        ("activation", ParameterKind::Categorical { values: levels }),
        ("batch", ParameterKind::Discrete { values: vec![16.0, 32.0, 64.0, 128.0, 256.0], scale: ScaleType::UnitLog }),
        ("dropout", double(0.0, 0.8, ScaleType::UnitLinear)),
        ("layers", ParameterKind::Integer { min: 1, max: 12, scale: ScaleType::UnitLinear }),
        ("momentum", double(0.5, 0.999, ScaleType::UnitReverseLog)),
        ("rate", double(1e-5, 1.0, ScaleType::UnitLog)),
    ];
    let parameters: Result<Vec<_>, _> =
        parameters.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind)).collect();
    let metric = MetricSpec { name: "objective".to_owned(), goal: Goal::Minimize };
    let statement = ProblemStatement::new(SearchSpace::new(parameters?)?, vec![metric])?;
    Ok(MixedProblem { profile: Profile::new("mixed", statement, Quality::Value { best_known: None }) })
}

impl Problem for MixedProblem {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn evaluate(&self, point: &ParameterValues, _: Draw) -> Evaluation {
        let number = |name: &str| match point.get(name) {
            Some(ParameterValue::Double(x) | ParameterValue::Discrete(x)) => *x,
            Some(ParameterValue::Integer(k)) => *k as f64,
            _ => f64::NAN,
        };
        let (best_rate, penalty) = match point.get("activation") {
            Some(ParameterValue::Categorical(level)) if level == "gelu" => (-2.5, 0.0),
            Some(ParameterValue::Categorical(level)) if level == "relu" => (-3.0, 0.3),
            Some(ParameterValue::Categorical(level)) if level == "tanh" => (-1.5, 0.6),
            _ => (-4.0, 1.0),
        };
        let rate = number("rate").log10() - best_rate;
        let momentum = (1.0 - number("momentum")).log10() + 1.2;
        let layers = (number("layers") - 7.0) / 4.0;
        let batch = (number("batch") / 64.0).log2();
        let dropout = number("dropout") - 0.1 * number("layers") / 3.0;
        let squares = 0.5 * rate * rate + momentum * momentum + layers * layers + 0.1 * batch * batch;
        Evaluation::exact(penalty + squares + 4.0 * dropout * dropout)
    }
}
