//! Algorithms of OSS Vizier.

use std::num::NonZeroU32;

use tunesmith_api::ai_platform::optimizer::{ParameterNames, StudyConfig, StudyParameterSpec};
use tunesmith_api::ai_platform::rpc::FieldViolation;
use tunesmith_api::ai_platform::{Algorithm, Notice, ParameterType};

/// Number of points of a `DOUBLE` in a grid, as in OSS Vizier.
const GRID_POINTS: NonZeroU32 = NonZeroU32::new(10).expect("is not zero");

/// Published name, algorithm here, and what differs.
const ALGORITHMS: [(&str, Algorithm, &str); 14] = [
    ("ALGORITHM_UNSPECIFIED", Algorithm::AlgorithmUnspecified, ""),
    ("DEFAULT", Algorithm::AlgorithmUnspecified, ""),
    ("", Algorithm::AlgorithmUnspecified, ""),
    (
        "GP_UCB_PE",
        Algorithm::GaussianProcessBandit,
        "a Gaussian process with expected improvement, not with an upper confidence bound and pure exploration",
    ),
    ("GAUSSIAN_PROCESS_BANDIT", Algorithm::GaussianProcessBandit, ""),
    ("GRID_SEARCH", Algorithm::GridSearch, ""),
    ("SHUFFLED_GRID_SEARCH", Algorithm::GridSearch, "a grid search in its own order"),
    ("RANDOM_SEARCH", Algorithm::RandomSearch, ""),
    ("QUASI_RANDOM_SEARCH", Algorithm::QuasiRandomSearch, ""),
    ("CMA_ES", Algorithm::CmaEs, ""),
    ("NSGA2", Algorithm::AlgorithmUnspecified, AUTOMATIC),
    ("BOCS", Algorithm::AlgorithmUnspecified, AUTOMATIC),
    ("HARMONICA", Algorithm::AlgorithmUnspecified, AUTOMATIC),
    ("EAGLE_STRATEGY", Algorithm::AlgorithmUnspecified, AUTOMATIC),
];

const AUTOMATIC: &str = "the algorithm that this server chooses for the search space";

/// Sets the algorithm that stands for `requested`, with a notice if it differs.
///
/// # Errors
/// If OSS Vizier has no such algorithm.
pub(super) fn request(
    requested: &str,
    config: &mut StudyConfig,
    names: &ParameterNames,
) -> Result<Option<Notice>, FieldViolation> {
    let known = ALGORITHMS.iter().find(|(name, ..)| *name == requested);
    let (name, algorithm, difference) = known.ok_or_else(|| {
        let names: Vec<&str> = ALGORITHMS.iter().map(|(name, ..)| *name).filter(|name| !name.is_empty()).collect();
        let text = format!("{requested:?} is no algorithm; allowed: {}", names.join(", "));
        FieldViolation::new("studySpec.algorithm", text)
    })?;
    config.algorithm = *algorithm;
    (*name).clone_into(&mut config.tunesmith.vizier.algorithm);
    if *algorithm == Algorithm::GridSearch {
        let mut doubles = Vec::new();
        add_doubles(&config.parameters, &mut Vec::new(), names, &mut doubles);
        config.tunesmith.double_resolution = doubles.into_iter().map(|name| (name, GRID_POINTS)).collect();
    }
    Ok((!difference.is_empty())
        .then(|| Notice { field: "studySpec.algorithm".to_owned(), description: format!("{name} is {difference}") }))
}

fn add_doubles(specs: &[StudyParameterSpec], path: &mut Vec<usize>, names: &ParameterNames, doubles: &mut Vec<String>) {
    for (index, spec) in specs.iter().enumerate() {
        path.push(index);
        if spec.parameter_type == ParameterType::Double {
            doubles.push(names.internal(path).to_owned());
        }
        add_doubles(&spec.child_parameter_specs, path, names, doubles);
        path.pop();
    }
}

/// Name of the algorithm of `config` in OSS Vizier: the requested one, if it was made by its clients.
pub(super) fn name(config: &StudyConfig) -> &str {
    let requested = config.tunesmith.vizier.algorithm.as_str();
    if !requested.is_empty() {
        return requested;
    }
    match config.algorithm {
        Algorithm::AlgorithmUnspecified | Algorithm::Tpe => "ALGORITHM_UNSPECIFIED",
        Algorithm::GaussianProcessBandit => "GAUSSIAN_PROCESS_BANDIT",
        Algorithm::GridSearch => "GRID_SEARCH",
        Algorithm::RandomSearch => "RANDOM_SEARCH",
        Algorithm::QuasiRandomSearch => "QUASI_RANDOM_SEARCH",
        Algorithm::CmaEs => "CMA_ES",
    }
}
