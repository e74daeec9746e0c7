//! The names and the options of the built-in algorithms, and the errors of texts that name none.

/// Name of Bayesian optimisation by a Gaussian process.
pub(super) const GAUSSIAN_PROCESS: &str = "gp";

/// Its options, for help and messages.
const GAUSSIAN_PROCESS_OPTIONS: &str = "acquisition=ei|ucb|mean, beta=NUMBER, trust_region=on|off, \
                                  start=star|space_filling, linear_term=on|off, warp=on|off";

/// What can be named, for messages and help: name, options, meaning.
pub const ALGORITHMS: [(&str, &str, &str); 7] = [
    ("auto", "", "the algorithm that serves the problem best, the service's default"),
    (GAUSSIAN_PROCESS, GAUSSIAN_PROCESS_OPTIONS, "Gaussian process and expected improvement in a trust region"),
    ("tpe", "", "multivariate tree-structured Parzen estimator, for categories and conditions"),
    (
        "cma_es",
        "",
        "covariance matrix adaptation with restarts, for long runs; no categorical parameters, ignores priors",
    ),
    ("random", "", "independent draws, uniform or from priors"),
    ("quasi_random", "", "scrambled Sobol points; ignores priors"),
    ("grid", "doubles=N", "every point of a grid, N along each double (10); ignores priors"),
];

/// The reason why a text names no algorithm.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    /// There is no such algorithm.
    #[error("there is no algorithm {name:?}; there are {}", known())]
    Unknown {
        /// The given value.
        name: String,
    },
    /// It has no such option.
    #[error("algorithm {algorithm:?} has no option {option:?}; {}", options(algorithm))]
    UnknownOption {
        /// The algorithm.
        algorithm: &'static str,
        /// The given value.
        option: String,
    },
    /// An option has a value that it cannot have.
    #[error("option {option:?} of algorithm {algorithm:?} cannot be {value:?}: it is {allowed}")]
    BadOption {
        /// The algorithm.
        algorithm: &'static str,
        /// The option.
        option: &'static str,
        /// The given text.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// An option has no meaning without another one.
    #[error("option {option:?} of algorithm {algorithm:?} is only for {needed}")]
    LacksOption {
        /// The algorithm.
        algorithm: &'static str,
        /// The option.
        option: &'static str,
        /// The needed option with its value.
        needed: &'static str,
    },
}

fn known() -> String {
    ALGORITHMS.map(|(name, ..)| name).join(", ")
}

fn options(algorithm: &str) -> String {
    match ALGORITHMS.iter().find(|(name, ..)| *name == algorithm) {
        Some((_, options, _)) if !options.is_empty() => format!("it has {options}"),
        _ => "it has none".to_owned(),
    }
}
