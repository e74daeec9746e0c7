//! The own search algorithms by name, with options: `gp`, `gp:acquisition=ucb:warp=off`, `grid:doubles=5`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use tunesmith_algorithms::designer::{Designer, DesignerError};
use tunesmith_algorithms::designers::{
    Automatic, CmaEs, GpBandit, GpBanditOptions, GridSearch, QuasiRandomSearch, RandomSearch, TreeParzen,
};
use tunesmith_algorithms::problem::{ParameterKind, ProblemStatement};

use super::catalogue::{ALGORITHMS, AlgorithmError, GAUSSIAN_PROCESS};
use super::gaussian_process;

/// An own algorithm with its options.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Algorithm {
    name: Name,
    /// The given text, which is the name in the records.
    text: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Name {
    Automatic,
    GaussianProcess(GpBanditOptions),
    TreeParzen,
    CmaEs,
    Random,
    QuasiRandom,
    Grid {
        /// Points along each parameter of kind double.
        doubles: u32,
    },
}

const DEFAULT_DOUBLES: u32 = 10;

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    /// `NAME` or `NAME:OPTION=VALUE:OPTION=VALUE`.
    fn from_str(text: &str) -> Result<Self, AlgorithmError> {
        let mut parts = text.split(':');
        let given = parts.next().unwrap_or_default();
        let Some((algorithm, ..)) = ALGORITHMS.iter().find(|(name, ..)| *name == given) else {
            return Err(AlgorithmError::Unknown { name: given.to_owned() });
        };
        let parts: Vec<(&str, &str)> = parts.map(|part| part.split_once('=').unwrap_or((part, ""))).collect();
        let unknown = |option: &str| AlgorithmError::UnknownOption { algorithm, option: option.to_owned() };
        let name = match (*algorithm, &parts[..]) {
            (GAUSSIAN_PROCESS, parts) => Name::GaussianProcess(gaussian_process::parse(parts)?),
            ("grid", parts) => Name::Grid { doubles: doubles(parts)? },
            (_, [(option, _), ..]) => return Err(unknown(option)),
            ("auto", []) => Name::Automatic,
            ("tpe", []) => Name::TreeParzen,
            ("cma_es", []) => Name::CmaEs,
            ("random", []) => Name::Random,
            (_, []) => Name::QuasiRandom,
        };
        Ok(Self { name, text: text.to_owned() })
    }
}

/// The one option of the grid.
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

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Algorithm {
    /// The designer of this name for `problem`.
    ///
    /// # Errors
    /// [`DesignerError::Unsupported`] if it cannot search it.
    pub(crate) fn designer(&self, problem: &ProblemStatement, seed: u64) -> Result<Box<dyn Designer>, DesignerError> {
        Ok(match &self.name {
            Name::GaussianProcess(options) => Box::new(GpBandit::with_options(problem.clone(), seed, *options)?),
            Name::Automatic => Box::new(Automatic::new(problem.clone(), seed)?),
            Name::TreeParzen => Box::new(TreeParzen::new(problem, seed)?),
            Name::CmaEs => Box::new(CmaEs::new(problem, seed)?),
            Name::Random => Box::new(RandomSearch::new(problem, seed)),
            Name::QuasiRandom => Box::new(QuasiRandomSearch::new(problem, seed)),
            Name::Grid { doubles } => {
                let parameters = problem.search_space().parameters().iter();
                let is_double = |kind: &ParameterKind| matches!(kind, ParameterKind::Double { .. });
                let resolution: BTreeMap<String, u32> = parameters
                    .filter(|parameter| is_double(parameter.kind()))
                    .map(|parameter| (parameter.name().to_owned(), *doubles))
                    .collect();
                Box::new(GridSearch::new(problem, &resolution)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{Goal, MetricSpec, ParameterSpec, ScaleType, SearchSpace};

    use super::*;

    #[test]
    fn an_algorithm_is_named_with_its_options() {
        let grid: Algorithm = "grid:doubles=5".parse().unwrap();
        assert_eq!(grid.name, Name::Grid { doubles: 5 });
        assert_eq!(grid.to_string(), "grid:doubles=5");
        let usual = GpBanditOptions::default();
        assert_eq!("gp".parse::<Algorithm>().unwrap().name, Name::GaussianProcess(usual));
        assert_eq!("auto".parse::<Algorithm>().unwrap().name, Name::Automatic);
        assert_eq!("tpe".parse::<Algorithm>().unwrap().name, Name::TreeParzen);
        assert_eq!("cma_es".parse::<Algorithm>().unwrap().name, Name::CmaEs);
        let variant: Algorithm = "gp:trust_region=off:warp=off".parse().unwrap();
        let options = GpBanditOptions { trust_region: false, warp: false, ..usual };
        assert_eq!(variant.name, Name::GaussianProcess(options));
        assert_eq!(variant.to_string(), "gp:trust_region=off:warp=off");
    }

    #[test]
    fn algorithms_that_ignore_priors_are_described_so() {
        let kind = ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear };
        let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
        let metric = MetricSpec { name: "y".to_owned(), goal: Goal::Minimize };
        let problem = ProblemStatement::new(space, vec![metric]).unwrap();
        for (name, _, meaning) in ALGORITHMS {
            let designer = name.parse::<Algorithm>().unwrap().designer(&problem, 1).unwrap();
            assert_eq!(meaning.contains("ignores priors"), !designer.capabilities().priors, "{name}");
        }
    }

    #[test]
    fn errors_name_the_value_and_the_allowed_values() {
        let message = |text: &str| text.parse::<Algorithm>().unwrap_err().to_string();
        assert_eq!(
            message("anneal"),
            "there is no algorithm \"anneal\"; there are auto, gp, tpe, cma_es, random, quasi_random, grid"
        );
        assert_eq!(message("random:x=1"), "algorithm \"random\" has no option \"x\"; it has none");
        assert_eq!(message("quasi_random:x=1:y=2"), "algorithm \"quasi_random\" has no option \"x\"; it has none");
        assert_eq!(message("tpe:x=1"), "algorithm \"tpe\" has no option \"x\"; it has none");
        assert_eq!(message("grid:x=1"), "algorithm \"grid\" has no option \"x\"; it has doubles=N");
        assert_eq!(
            message("grid:doubles=0"),
            "option \"doubles\" of algorithm \"grid\" cannot be \"0\": it is a whole number from 1"
        );
    }
}
