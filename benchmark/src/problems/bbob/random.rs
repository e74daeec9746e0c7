//! Seeded random numbers of BBOB instances: uniform, normal, and derived values.
//!
//! Not for other use: the generator is weak and exists only because it defines the instances.
//!
//! Source: N. Hansen, S. Finck, R. Ros, A. Auger, Real-Parameter Black-Box Optimization Benchmarking 2009: Noiseless
//! Functions Definitions, INRIA RR-6829, section 0.2; the generator is the multiplicative congruential one of S. Park
//! and K. Miller, Random Number Generators: Good Ones Are Hard to Find, CACM 31, 1988, with a shuffle table as in C.
//! Bays and S. Durham, Improving a Poor Random Number Generator, ACM TOMS 2, 1976. Details missing from the report
//! (seeds, size and initialisation of the table) follow the COCO platform.

use std::f64::consts::PI;

/// Modulus of the generator, the Mersenne prime 2^31 - 1. Seeds are smaller.
const MODULUS: i64 = 2_147_483_647;

const MULTIPLIER: i64 = 16_807;

const TABLE_SIZE: usize = 32;

/// Number of states discarded before filling the table.
const WARM_UP: usize = 8;

/// Replaces an exact 0, whose logarithm would be infinite.
const ALMOST_ZERO: f64 = 1e-99;

/// `count` uniform numbers in (0, 1); `seed` is from 1 to 2^31 - 2.
pub(super) fn uniform(count: usize, seed: i64) -> Vec<f64> {
    let mut state = seed;
    for _ in 0..WARM_UP {
        state = successor(state);
    }
    let mut table = [0; TABLE_SIZE];
    for entry in table.iter_mut().rev() {
        state = successor(state);
        *entry = state;
    }
    let mut last = table[0];
    let mut numbers = Vec::with_capacity(count);
    for _ in 0..count {
        state = successor(state);
        // The last output selects the next entry; 67108865 is slightly above a 32nd of the modulus.
        let index = usize::try_from(last / 67_108_865).unwrap_or(0);
        last = std::mem::replace(&mut table[index], state);
        let number = last as f64 / MODULUS as f64;
        numbers.push(if number == 0.0 { ALMOST_ZERO } else { number });
    }
    numbers
}

fn successor(state: i64) -> i64 {
    (MULTIPLIER * state).rem_euclid(MODULUS)
}

/// `count` standard normal numbers: Box and Muller's cosine of two uniform numbers, one from each half of the sequence.
pub(super) fn gaussian(count: usize, seed: i64) -> Vec<f64> {
    let numbers = uniform(2 * count, seed);
    let (radii, angles) = numbers.split_at(count);
    radii
        .iter()
        .zip(angles)
        .map(|(radius, angle)| {
            let number = (-2.0 * radius.ln()).sqrt() * (2.0 * PI * angle).cos();
            if number == 0.0 { ALMOST_ZERO } else { number }
        })
        .collect()
}

/// Minimizer of most functions, in [-4, 4]^`dimensions` in steps of 0.0008.
pub(super) fn location(dimensions: usize, seed: i64) -> Vec<f64> {
    uniform(dimensions, seed)
        .into_iter()
        .map(|number| {
            let coordinate = 8.0 * (1e4 * number).floor() / 1e4 - 4.0;
            if coordinate == 0.0 { -1e-5 } else { coordinate }
        })
        .collect()
}

/// Value of a function at its optimum: a multiple of 0.01 in [-1000, 1000] from a Cauchy distribution.
///
/// f4 has the value of f3, and f18 that of f17, with the same instance.
pub(super) fn optimal_value(function: u8, instance: u64) -> f64 {
    let seed = seed(function, instance);
    let quotient = gaussian(1, seed)[0] / gaussian(1, seed + 1)[0];
    let hundredths = (100.0 * 100.0 * quotient + 0.5).floor();
    (hundredths / 100.0).clamp(-1000.0, 1000.0)
}

/// Seed of the random numbers of a function. `instance` is at most [`super::MAX_INSTANCE`].
///
/// f4 has the seed of f3, and f18 that of f17, with the same instance.
pub(super) fn seed(function: u8, instance: u64) -> i64 {
    let base = match function {
        4 => 3,
        18 => 17,
        other => i64::from(other),
    };
    // Instances above `i64::MAX` are rejected earlier.
    base + 10_000 * i64::try_from(instance).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_that_of_park_and_miller() {
        // The check value of Park and Miller: the 10,001st state from 1 is 1043618065.
        let state = (0..10_000).fold(1, |state, _| successor(state));
        assert_eq!(state, 1_043_618_065);
    }

    #[test]
    fn optimal_values_equal_those_of_coco() {
        // `cocoex.bare_problem.BareProblem("bbob", f, 5, 3).best_value()` of coco-experiment 2.8.2.
        let expected = [(1, -247.11), (3, 115.68), (4, 115.68), (6, -1000.0), (17, 273.15), (18, 273.15), (24, 13.64)];
        for (function, value) in expected {
            assert_eq!(optimal_value(function, 3), value, "f{function}");
        }
    }

    #[test]
    fn numbers_have_the_stated_distributions() {
        let numbers = uniform(2000, 7);
        assert!(numbers.iter().all(|number| 0.0 < *number && *number < 1.0));
        let mean = numbers.iter().sum::<f64>() / 2000.0;
        assert!((mean - 0.5).abs() < 0.03, "{mean}");
        let squares = gaussian(2000, 7).iter().map(|number| number * number).sum::<f64>() / 2000.0;
        assert!((squares - 1.0).abs() < 0.15, "{squares}");
    }
}
