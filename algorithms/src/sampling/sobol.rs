//! Quasi-random points: a Sobol sequence with Owen scrambling.
//!
//! Source: Brent Burley, Practical Hash-based Owen Scrambling, JCGT 9(4), 2020, with the direction numbers of Joe and
//! Kuo, 2008, both in the crate `sobol_burley`. Two limits of that crate, which was made for graphics, are lifted with
//! sequences of other seeds, as the paper proposes: a new, independent scramble starts after 2^16 trials and after 256
//! parameters. The coordinates of the crate have 23 bits. The lower bits are filled at random, which preserves every
//! stratum and gives the resolution of a double.

use rand::RngExt;
use sobol_burley::{NUM_DIMENSIONS, sample};

use crate::encoding::Encoding;
use crate::problem::TrialId;
use crate::rng::stream;

/// Number of points per scramble, the maximum of `sobol_burley`.
const SEQUENCE_LENGTH: u64 = 1 << 16;

/// Distance of neighbouring coordinates in `sobol_burley`.
const RESOLUTION: f64 = 1.0 / (1 << 23) as f64;

/// Point at position `trial` of the sequence scrambled by `seed`, shape `[dimensions]`, feasible and canonical.
///
/// Any `2^k` consecutive trials that start at a multiple of `2^k`, counting the first trial as 0, are evenly spread.
pub fn sobol_point(encoding: &Encoding, seed: u64, trial: TrialId) -> Vec<f64> {
    let place = trial.0.saturating_sub(TrialId::FIRST.0);
    // The remainder fits `u32`; the quotient selects the scramble.
    let index = (place % SEQUENCE_LENGTH) as u32;
    let scramble = place / SEQUENCE_LENGTH;
    let mut scrambles = stream(seed, TrialId(scramble), "sobol/scramble");
    let mut scramble_seed: u32 = scrambles.random();
    let mut point = Vec::with_capacity(encoding.dimensions());
    for (feature, spec) in encoding.features().iter().enumerate() {
        // The remainder of a division by a `u32` fits `u32`.
        let dimension = (feature as u64 % u64::from(NUM_DIMENSIONS)) as u32;
        if feature > 0 && dimension == 0 {
            scramble_seed = scrambles.random();
        }
        let below: f64 = stream(seed, trial, &format!("sobol/{}", spec.name)).random();
        let uniform = f64::from(sample(index, dimension, scramble_seed)) + below * RESOLUTION;
        point.push(encoding.coordinate_from_uniform(feature, uniform));
    }
    encoding.canonicalize(&mut point);
    point
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{ParameterKind, ParameterSpec, ScaleType, SearchSpace};

    fn cube(dimensions: usize) -> Encoding {
        let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
        let specs = (0..dimensions).map(|i| ParameterSpec::new(format!("x{i:04}"), kind.clone()).unwrap()).collect();
        Encoding::new(&SearchSpace::new(specs).unwrap())
    }

    fn points(encoding: &Encoding, seed: u64, first: u64, count: u64) -> Vec<Vec<f64>> {
        (first..first + count).map(|id| sobol_point(encoding, seed, TrialId(id))).collect()
    }

    #[test]
    fn every_coordinate_is_stratified() {
        let encoding = cube(300);
        // The last block is beyond the first scramble.
        for first in [1, 257, (1 << 16) + 1] {
            let points = points(&encoding, 11, first, 256);
            for feature in 0..300 {
                let mut cells: Vec<usize> = points.iter().map(|point| (point[feature] * 256.0) as usize).collect();
                cells.sort_unstable();
                assert_eq!(cells, (0..256).collect::<Vec<_>>(), "coordinate {feature} from trial {first}");
            }
        }
    }

    #[test]
    fn first_two_coordinates_fill_every_elementary_rectangle() {
        let points = points(&cube(2), 3, 1, 256);
        for across in 0..=8 {
            let (columns, rows) = ((1 << across) as f64, (1 << (8 - across)) as f64);
            let mut cells: Vec<_> = points.iter().map(|p| ((p[0] * columns) as u32, (p[1] * rows) as u32)).collect();
            cells.sort_unstable();
            cells.dedup();
            assert_eq!(cells.len(), 256, "{columns} by {rows}");
        }
    }

    #[test]
    fn distant_coordinates_are_uncorrelated() {
        let points = points(&cube(300), 1, 1, 256);
        for (a, b) in [(0, 1), (0, 256), (1, 257), (40, 296), (199, 250)] {
            let covariance: f64 = points.iter().map(|p| (p[a] - 0.5) * (p[b] - 0.5)).sum::<f64>() / 256.0;
            assert!((covariance * 12.0).abs() < 0.3, "coordinates {a} and {b}: {}", covariance * 12.0);
        }
    }

    #[test]
    fn seeds_give_different_scrambles() {
        let encoding = cube(3);
        assert_ne!(points(&encoding, 1, 1, 4), points(&encoding, 2, 1, 4));
        assert_eq!(points(&encoding, 1, 1, 4), points(&encoding, 1, 1, 4));
    }
}
