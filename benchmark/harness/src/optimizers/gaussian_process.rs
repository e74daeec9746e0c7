//! The options of the algorithm `gp`: which of its parts a comparison leaves out or replaces.

use tunesmith_algorithms::acquisition::{Criterion, DEFAULT_BETA};
use tunesmith_algorithms::designers::{GpBanditOptions, InitialDesign};

use super::catalogue::{AlgorithmError, GAUSSIAN_PROCESS};

/// Reads options (name, value); of one that is given twice the last counts. What is not given is as the service has it.
///
/// `beta` is for `acquisition=ucb` alone, before or behind it.
///
/// # Errors
/// [`AlgorithmError`] for an option that there is not, that cannot have its value, or that lacks another one.
pub(super) fn parse(parts: &[(&str, &str)]) -> Result<GpBanditOptions, AlgorithmError> {
    let mut options = GpBanditOptions::default();
    let mut given_beta = None;
    for &(option, value) in parts {
        match option {
            "acquisition" => {
                options.acquisition = match value {
                    "ei" => Criterion::ExpectedImprovement,
                    "ucb" => Criterion::UpperConfidenceBound { beta: DEFAULT_BETA },
                    "mean" => Criterion::Mean,
                    _ => return Err(bad("acquisition", value, "ei, ucb or mean")),
                }
            }
            "beta" => {
                let number: Option<f64> = value.parse().ok().filter(|beta: &f64| beta.is_finite() && *beta > 0.0);
                given_beta = Some(number.ok_or_else(|| bad("beta", value, "a number above 0"))?);
            }
            "trust_region" => options.trust_region = switch("trust_region", value)?,
            "start" => {
                options.initial_design = match value {
                    "star" => InitialDesign::AxisAligned,
                    "space_filling" => InitialDesign::SpaceFilling,
                    _ => return Err(bad("start", value, "star or space_filling")),
                }
            }
            "linear_term" => options.linear_term = switch("linear_term", value)?,
            "warp" => options.warp = switch("warp", value)?,
            _ => return Err(AlgorithmError::UnknownOption { algorithm: GAUSSIAN_PROCESS, option: option.to_owned() }),
        }
    }
    match (&mut options.acquisition, given_beta) {
        (_, None) => Ok(options),
        (Criterion::UpperConfidenceBound { beta }, Some(number)) => {
            *beta = number;
            Ok(options)
        }
        (_, Some(_)) => {
            Err(AlgorithmError::LacksOption { algorithm: GAUSSIAN_PROCESS, option: "beta", needed: "acquisition=ucb" })
        }
    }
}

fn switch(option: &'static str, value: &str) -> Result<bool, AlgorithmError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(bad(option, value, "on or off")),
    }
}

fn bad(option: &'static str, value: &str, allowed: &'static str) -> AlgorithmError {
    AlgorithmError::BadOption { algorithm: GAUSSIAN_PROCESS, option, value: value.to_owned(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimizers::algorithm::Algorithm;

    fn usual() -> GpBanditOptions {
        GpBanditOptions::default()
    }

    #[test]
    fn every_option_is_read() {
        let bound = |beta| Criterion::UpperConfidenceBound { beta };
        for (parts, expected) in [
            (vec![], usual()),
            (vec![("acquisition", "ucb")], GpBanditOptions { acquisition: bound(1.8), ..usual() }),
            (vec![("beta", "2.5"), ("acquisition", "ucb")], GpBanditOptions { acquisition: bound(2.5), ..usual() }),
            (vec![("acquisition", "mean")], GpBanditOptions { acquisition: Criterion::Mean, ..usual() }),
            (vec![("acquisition", "ucb"), ("acquisition", "ei")], usual()),
            (vec![("trust_region", "off")], GpBanditOptions { trust_region: false, ..usual() }),
            (
                vec![("start", "space_filling")],
                GpBanditOptions { initial_design: InitialDesign::SpaceFilling, ..usual() },
            ),
            (vec![("linear_term", "off")], GpBanditOptions { linear_term: false, ..usual() }),
            (vec![("warp", "off")], GpBanditOptions { warp: false, ..usual() }),
            (vec![("trust_region", "on"), ("start", "star"), ("linear_term", "on"), ("warp", "on")], usual()),
        ] {
            assert_eq!(parse(&parts), Ok(expected), "{parts:?}");
        }
    }

    #[test]
    fn errors_name_the_value_and_the_allowed_values() {
        for (text, expected) in [
            ("gp:acquisition=pi", "option \"acquisition\" of algorithm \"gp\" cannot be \"pi\": it is ei, ucb or mean"),
            (
                "gp:acquisition=ucb:beta=0",
                "option \"beta\" of algorithm \"gp\" cannot be \"0\": it is a number above 0",
            ),
            (
                "gp:acquisition=ucb:beta=inf",
                "option \"beta\" of algorithm \"gp\" cannot be \"inf\": it is a number above 0",
            ),
            ("gp:beta=2", "option \"beta\" of algorithm \"gp\" is only for acquisition=ucb"),
            ("gp:acquisition=mean:beta=2", "option \"beta\" of algorithm \"gp\" is only for acquisition=ucb"),
            ("gp:trust_region", "option \"trust_region\" of algorithm \"gp\" cannot be \"\": it is on or off"),
            ("gp:start=sobol", "option \"start\" of algorithm \"gp\" cannot be \"sobol\": it is star or space_filling"),
            ("gp:linear_term=no", "option \"linear_term\" of algorithm \"gp\" cannot be \"no\": it is on or off"),
            ("gp:warp=1", "option \"warp\" of algorithm \"gp\" cannot be \"1\": it is on or off"),
            (
                "gp:x=1",
                "algorithm \"gp\" has no option \"x\"; it has acquisition=ei|ucb|mean, beta=NUMBER, \
                 trust_region=on|off, start=star|space_filling, linear_term=on|off, warp=on|off",
            ),
        ] {
            assert_eq!(text.parse::<Algorithm>().unwrap_err().to_string(), expected, "{text}");
        }
    }
}
