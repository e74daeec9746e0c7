use tunesmith_algorithms::problem::{ParameterKind, ParameterValue, ParameterValues};

use super::{coefficient, with_minimizer};
use crate::problems::functions::TestFunction;
use crate::problems::functions::builders::{categorical, level, linear, number, parameter};

pub(super) const ITEMS: usize = 80;
pub(super) const USES: [&str; 5] = ["build", "carry", "heat", "hold", "paint"];

/// 80 items with two hidden properties each, five uses with desired properties, and two settings in `[0, 1]`, whose
/// optimal values depend on the item's properties.
pub fn catalogue() -> TestFunction {
    let value = |point: &ParameterValues| {
        let item = level(point, "item").trim_start_matches("item_").parse().unwrap_or(0);
        let usage = USES.iter().position(|name| *name == level(point, "use")).unwrap_or(0);
        let best = settings(item);
        let miss = |which: usize| (number(point, SETTINGS[which]) - best[which]).powi(2);
        misfit(item, usage) + miss(0) + miss(1)
    };
    let items = (0..ITEMS).map(item_name).collect();
    let parameters = vec![
        parameter("item", ParameterKind::Categorical { values: items }),
        parameter("use", categorical(&USES)),
        parameter(SETTINGS[0], linear(0.0, 1.0)),
        parameter(SETTINGS[1], linear(0.0, 1.0)),
    ];
    let (item, usage) = BEST;
    let text = |text: String| ParameterValue::Categorical(text);
    let mut minimizer = ParameterValues::from([
        ("item".to_owned(), text(item_name(item))),
        ("use".to_owned(), text(USES[usage].to_owned())),
    ]);
    let best = settings(item);
    minimizer.extend((0..2).map(|which| (SETTINGS[which].to_owned(), ParameterValue::Double(best[which]))));
    with_minimizer("catalogue", parameters, minimizer, value)
}

const SETTINGS: [&str; 2] = ["x01", "x02"];
/// Optimal item and use.
pub(super) const BEST: (usize, usize) = (57, 1);

fn item_name(item: usize) -> String {
    format!("item_{item:02}")
}

fn property(item: usize, which: usize) -> f64 {
    coefficient(&[40, item, which])
}

/// Optimal settings of `item`, between 0.1 and 0.9.
fn settings(item: usize) -> [f64; 2] {
    [0, 1].map(|which| 0.1 + 0.8 * property(item, which))
}

pub(super) fn misfit(item: usize, usage: usize) -> f64 {
    let wanted = |which: usize| coefficient(&[41, usage, which]);
    let miss: f64 = (0..2).map(|which| (property(item, which) - wanted(which)).powi(2)).sum();
    2.0 * miss + 0.3 * coefficient(&[42, usage]) + 0.1 * coefficient(&[43, item, usage])
}
