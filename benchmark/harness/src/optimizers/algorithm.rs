//! Our search algorithms by name, with options: `gp`, `grid:doubles=5`.

use std::fmt;
use std::str::FromStr;

use tunesmith_algorithms::designer::{Designer, DesignerError};
use tunesmith_algorithms::designers::Algorithm;
use tunesmith_algorithms::problem::{ParameterKind, ProblemStatement};
use tunesmith_algorithms::transfer::SourceStudy;

/// Name, options and meaning of each algorithm, for messages and help.
pub const ALGORITHMS: [(&str, &str, &str); 7] = [
    ("auto", "", "the algorithm that serves the problem best, the service's default"),
    ("gp", "", "Gaussian process and expected improvement in a trust region"),
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

/// Invalid algorithm name or options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlgorithmError {
    #[error("there is no algorithm {name:?}; there are {}", known())]
    Unknown { name: String },
    #[error("algorithm {algorithm:?} has no option {option:?}; {}", options(algorithm))]
    UnknownOption { algorithm: &'static str, option: String },
    #[error("option {option:?} of algorithm {algorithm:?} cannot be {value:?}: it is {allowed}")]
    BadOption { algorithm: &'static str, option: &'static str, value: String, allowed: &'static str },
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

/// One of our algorithms with its options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OwnAlgorithm {
    kind: Kind,
    /// Text as given, used as the name in records.
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// An algorithm of the service, without options.
    Plain(Algorithm),
    /// A grid with `doubles` points per parameter of kind double.
    Grid { doubles: u32 },
}

const DEFAULT_DOUBLES: u32 = 10;

impl FromStr for OwnAlgorithm {
    type Err = AlgorithmError;

    /// Parses `NAME` or `NAME:OPTION=VALUE:OPTION=VALUE`.
    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let mut parts = text.split(':');
        let given = parts.next().unwrap_or_default();
        let Some((algorithm, ..)) = ALGORITHMS.iter().find(|(name, ..)| *name == given) else {
            return Err(AlgorithmError::Unknown { name: given.to_owned() });
        };
        let parts: Vec<(&str, &str)> = parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let unknown = |option: &str| AlgorithmError::UnknownOption { algorithm, option: option.to_owned() };
        let kind = match (*algorithm, &parts[..]) {
            ("grid", parts) => Kind::Grid { doubles: doubles(parts)? },
            (_, [(option, _), ..]) => return Err(unknown(option)),
            ("auto", []) => Kind::Plain(Algorithm::Automatic),
            ("gp", []) => Kind::Plain(Algorithm::GaussianProcessBandit),
            ("tpe", []) => Kind::Plain(Algorithm::Tpe),
            ("cma_es", []) => Kind::Plain(Algorithm::CmaEs),
            ("random", []) => Kind::Plain(Algorithm::RandomSearch),
            (_, []) => Kind::Plain(Algorithm::QuasiRandomSearch),
        };
        Ok(Self { kind, text: text.to_owned() })
    }
}

/// The grid's only option.
fn doubles(parts: &[(&str, &str)]) -> Result<u32, AlgorithmError> {
    const GRID: &str = "grid";
    let mut doubles = DEFAULT_DOUBLES;
    for &(option, value) in parts {
        if option != "doubles" {
            return Err(AlgorithmError::UnknownOption { algorithm: GRID, option: option.to_owned() });
        }
        doubles = value.parse().ok().filter(|count| *count > 0).ok_or_else(|| AlgorithmError::BadOption {
            algorithm: GRID,
            option: "doubles",
            value: value.to_owned(),
            allowed: "a whole number from 1",
        })?;
    }
    Ok(doubles)
}

impl fmt::Display for OwnAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl OwnAlgorithm {
    /// Creates the designer for `problem` after `sources`, if it learns from them.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if it cannot search this problem.
    pub(crate) fn designer(
        &self,
        problem: &ProblemStatement,
        seed: u64,
        sources: &[SourceStudy],
    ) -> Result<Box<dyn Designer>, DesignerError> {
        match &self.kind {
            Kind::Plain(algorithm) => algorithm.designer(problem, seed, sources),
            Kind::Grid { doubles } => {
                let parameters = problem.search_space().parameters().iter();
                let double_resolution = parameters
                    .filter(|parameter| matches!(parameter.kind(), ParameterKind::Double { .. }))
                    .map(|parameter| (parameter.name().to_owned(), *doubles))
                    .collect();
                Algorithm::GridSearch { double_resolution }.designer(problem, seed, &[])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{Goal, MetricSpec, ParameterSpec, ScaleType, SearchSpace};

    use super::*;

    #[test]
    fn an_algorithm_is_named_with_its_options() {
        let grid: OwnAlgorithm = "grid:doubles=5".parse().unwrap();
        assert_eq!(grid.kind, Kind::Grid { doubles: 5 });
        assert_eq!(grid.to_string(), "grid:doubles=5");
        assert_eq!("gp".parse::<OwnAlgorithm>().unwrap().kind, Kind::Plain(Algorithm::GaussianProcessBandit));
        assert_eq!("auto".parse::<OwnAlgorithm>().unwrap().kind, Kind::Plain(Algorithm::Automatic));
        assert_eq!("tpe".parse::<OwnAlgorithm>().unwrap().kind, Kind::Plain(Algorithm::Tpe));
        assert_eq!("cma_es".parse::<OwnAlgorithm>().unwrap().kind, Kind::Plain(Algorithm::CmaEs));
    }

    #[test]
    fn algorithms_that_ignore_priors_are_described_so() {
        let kind = ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metric = MetricSpec { name: "y".to_owned(), goal: Goal::Minimize };
        let problem = ProblemStatement::new(space, vec![metric]).unwrap();
        for (name, _, meaning) in ALGORITHMS {
            let designer = name.parse::<OwnAlgorithm>().unwrap().designer(&problem, 1, &[]).unwrap();
            assert_eq!(meaning.contains("ignores priors"), !designer.capabilities().priors, "{name}");
        }
    }

    #[test]
    fn errors_name_the_value_and_the_allowed_values() {
        let message = |text: &str| text.parse::<OwnAlgorithm>().unwrap_err().to_string();
        assert_eq!(
            message("anneal"),
            "there is no algorithm \"anneal\"; there are auto, gp, tpe, cma_es, random, quasi_random, grid"
        );
        assert_eq!(message("random:x=1"), "algorithm \"random\" has no option \"x\"; it has none");
        assert_eq!(message("quasi_random:x=1:y=2"), "algorithm \"quasi_random\" has no option \"x\"; it has none");
        assert_eq!(message("gp:x=1"), "algorithm \"gp\" has no option \"x\"; it has none");
        assert_eq!(message("tpe:x=1"), "algorithm \"tpe\" has no option \"x\"; it has none");
        assert_eq!(message("grid:x=1"), "algorithm \"grid\" has no option \"x\"; it has doubles=N");
        assert_eq!(
            message("grid:doubles=0"),
            "option \"doubles\" of algorithm \"grid\" cannot be \"0\": it is a whole number from 1"
        );
    }
}
