//! The transformations that make the BBOB functions irregular, asymmetric and ill-conditioned.
//!
//! Source: INRIA RR-6829 (see [`super`]), section 0.2.
//!
//! # Notation
//! | symbol | meaning |
//! |---|---|
//! | D | number of variables, at least 2 |
//! | i | index of a variable, from 0 (the report counts from 1) |
//! | T_osz | [`oscillate`] |
//! | T_asy^beta | [`make_asymmetric`] |
//! | Lambda^alpha | the diagonal matrix of [`conditioning`] |
//! | f_pen | [`boundary_penalty`] |

/// i / (D - 1) for each variable: from 0 to 1. Shape `dimensions`.
pub(super) fn ramp(dimensions: usize) -> impl Iterator<Item = f64> {
    (0..dimensions).map(move |i| i as f64 / (dimensions as f64 - 1.0))
}

/// The diagonal of Lambda^alpha: sqrt(alpha)^(i / (D - 1)). Shape `dimensions`.
pub(super) fn conditioning(alpha: f64, dimensions: usize) -> Vec<f64> {
    let root = alpha.sqrt();
    ramp(dimensions).map(|exponent| root.powf(exponent)).collect()
}

/// T_osz of one number: keeps sign and 0, and oscillates around the identity on all scales.
pub(super) fn oscillate(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let (first, second) = if value > 0.0 { (10.0, 7.9) } else { (5.5, 3.1) };
    let logarithm = value.abs().ln();
    let wave = (first * logarithm).sin() + (second * logarithm).sin();
    (logarithm + 0.049 * wave).exp().copysign(value)
}

pub(super) fn oscillate_all(point: &mut [f64]) {
    point.iter_mut().for_each(|value| *value = oscillate(*value));
}

/// T_asy^beta: enlarges positive coordinates, with an exponent that grows with the index.
pub(super) fn make_asymmetric(beta: f64, point: &mut [f64]) {
    let dimensions = point.len();
    for (value, share) in point.iter_mut().zip(ramp(dimensions)) {
        if *value > 0.0 {
            *value = value.powf(1.0 + beta * share * value.sqrt());
        }
    }
}

/// f_pen: the squared distance to the box [-`bound`, `bound`]^D.
pub(super) fn boundary_penalty(point: &[f64], bound: f64) -> f64 {
    point
        .iter()
        .map(|value| {
            let excess = (value.abs() - bound).max(0.0);
            excess * excess
        })
        .sum()
}

pub(super) fn difference(point: &[f64], origin: &[f64]) -> Vec<f64> {
    point.iter().zip(origin).map(|(a, b)| a - b).collect()
}

/// Nearest integer, halves rounded up.
pub(super) fn round_half_up(value: f64) -> f64 {
    (value + 0.5).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oscillation_preserves_order_and_sign() {
        assert_eq!(oscillate(0.0), 0.0);
        assert_eq!(oscillate(1.0), 1.0);
        assert_eq!(oscillate(-1.0), -1.0);
        // exp(1 + 0.049 (sin 10 + sin 7.9)) and exp(1 + 0.049 (sin 5.5 + sin 3.1)).
        assert!((oscillate(1_f64.exp()) - 2.779_555_690_356_356_3).abs() < 1e-14, "{}", oscillate(1_f64.exp()));
        assert!((oscillate(-(1_f64.exp())) + 2.631_268_308_453_091_5).abs() < 1e-14, "{}", oscillate(-(1_f64.exp())));
        let mut last = oscillate(-5.0);
        for step in 1..=10_000 {
            let next = oscillate(-5.0 + 0.001 * f64::from(step));
            assert!(last <= next);
            last = next;
        }
    }

    #[test]
    fn asymmetry_keeps_the_first_and_negative_coordinates() {
        let mut point = [4.0, -4.0, 4.0];
        make_asymmetric(0.5, &mut point);
        assert_eq!(point, [4.0, -4.0, 16.0]);
    }

    #[test]
    fn the_conditioning_is_the_square_root_of_the_condition_number() {
        assert_eq!(conditioning(100.0, 3), [1.0, 10_f64.sqrt(), 10.0]);
    }

    #[test]
    fn the_penalty_starts_at_the_bound() {
        assert_eq!(boundary_penalty(&[5.0, -5.0, 0.0], 5.0), 0.0);
        assert_eq!(boundary_penalty(&[6.0, -7.0], 5.0), 5.0);
    }
}
