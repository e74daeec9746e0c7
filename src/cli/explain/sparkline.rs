//! Bar charts in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One bar per value: lowest for `low`, highest for `high`, and the middle one if these are equal.
pub(super) fn sparkline(values: &[f64], low: f64, high: f64) -> String {
    let bar = |value: &f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        // The product is finite and not negative; a share of 1 gives the last bar.
        BARS[((share.clamp(0.0, 1.0) * BARS.len() as f64) as usize).min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_reach_from_the_lowest_to_the_highest() {
        assert_eq!(sparkline(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 0.0, 7.0), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[-9.0, 0.5, 9.0], 0.0, 1.0), "▁▅█");
        assert_eq!(sparkline(&[3.0, 3.0], 3.0, 3.0), "▅▅");
        assert_eq!(sparkline(&[], 0.0, 1.0), "");
    }
}
