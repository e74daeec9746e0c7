//! Algorithm names in jobs and studies, and the search spaces each supports.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::violations::Violations;
use super::{Additions, Algorithm, HyperparameterSpec, ParameterType};

impl Algorithm {
    /// Converts to the domain; a grid has `double_resolution` points per parameter.
    pub(super) fn to_domain(self, double_resolution: &BTreeMap<String, NonZeroU32>) -> tunesmith_domain::Algorithm {
        use tunesmith_domain::Algorithm as Domain;
        match self {
            Self::AlgorithmUnspecified => Domain::Automatic,
            Self::GaussianProcessBandit => Domain::GaussianProcessBandit,
            Self::GridSearch => {
                let points = double_resolution.iter().map(|(name, points)| (name.clone(), points.get()));
                Domain::GridSearch { double_resolution: points.collect() }
            }
            Self::RandomSearch => Domain::RandomSearch,
            Self::QuasiRandomSearch => Domain::QuasiRandomSearch,
            Self::Tpe => Domain::Tpe,
            Self::CmaEs => Domain::CmaEs,
        }
    }

    pub(super) fn of_domain(algorithm: &tunesmith_domain::Algorithm) -> Self {
        use tunesmith_domain::Algorithm as Domain;
        match algorithm {
            Domain::Automatic => Self::AlgorithmUnspecified,
            Domain::GaussianProcessBandit => Self::GaussianProcessBandit,
            Domain::GridSearch { .. } => Self::GridSearch,
            Domain::RandomSearch => Self::RandomSearch,
            Domain::QuasiRandomSearch => Self::QuasiRandomSearch,
            Domain::Tpe => Self::Tpe,
            Domain::CmaEs => Self::CmaEs,
        }
    }
}

/// Checks that the algorithm of `spec` supports its parameters. `place` maps a parameter index to its path.
pub(super) fn check_algorithm(
    spec: &HyperparameterSpec,
    additions: &Additions,
    place: impl Fn(usize) -> String,
    violations: &mut Violations,
) {
    for (index, parameter) in spec.params.iter().enumerate() {
        let name = &parameter.parameter_name;
        let resolved = additions.double_resolution.contains_key(name);
        match spec.algorithm {
            Algorithm::GridSearch if parameter.parameter_type == ParameterType::Double && !resolved => {
                violations.error_with_help(
                    format_args!("{}.type", place(index)),
                    "GRID_SEARCH cannot enumerate a DOUBLE",
                    "with GRID_SEARCH only INTEGER, CATEGORICAL or DISCRETE",
                    Some(format!("give it a number of points with `tunesmith: {{doubleResolution: {{{name}: 10}}}}`")),
                );
            }
            Algorithm::CmaEs if parameter.categorical_values.len() > 1 => violations.error_with_help(
                format_args!("{}.type", place(index)),
                format_args!("CMA_ES cannot order the values of the CATEGORICAL {name:?}"),
                "with CMA_ES only INTEGER, DOUBLE or DISCRETE",
                Some("TPE and GAUSSIAN_PROCESS_BANDIT search categories".to_owned()),
            ),
            Algorithm::CmaEs => {
                let condition = additions.conditions.iter().position(|condition| condition.parameter == *name);
                if let Some(condition) = condition {
                    violations.error_with_help(
                        conditional_place(condition, place(index)),
                        format_args!("CMA_ES cannot search the conditional parameter {name:?}"),
                        "with CMA_ES only parameters that exist in every trial",
                        Some("TPE and GAUSSIAN_PROCESS_BANDIT search conditional parameters".to_owned()),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Path of a condition: an entry of `tunesmith.conditions` in a job, the child itself in a study.
fn conditional_place(condition: usize, parameter: String) -> String {
    if parameter.starts_with("hyperparameters.") { format!("tunesmith.conditions[{condition}]") } else { parameter }
}

/// Reason why `algorithm` ignores priors, if it does.
pub(super) fn without_priors(algorithm: Algorithm) -> Option<&'static str> {
    match algorithm {
        Algorithm::GridSearch => {
            Some("GRID_SEARCH tries its points in its own order: priors only complete initialTrials")
        }
        Algorithm::QuasiRandomSearch => {
            Some("QUASI_RANDOM_SEARCH spreads its points evenly: priors only complete initialTrials")
        }
        Algorithm::CmaEs => Some("CMA_ES starts at the centre of the space: priors only complete initialTrials"),
        Algorithm::AlgorithmUnspecified
        | Algorithm::GaussianProcessBandit
        | Algorithm::RandomSearch
        | Algorithm::Tpe => None,
    }
}
