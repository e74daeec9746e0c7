//! f1 to f5: separable functions.

use super::super::transformations::{boundary_penalty, conditioning, difference, make_asymmetric, oscillate_all, ramp};
use super::{Draws, Function, rastrigin, squared_norm, weighted_squares};

/// f1, the sphere: |x - x_opt|^2.
#[derive(Debug)]
pub(super) struct Sphere {
    minimizer: Vec<f64>,
}

impl Sphere {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { minimizer: draws.location() }
    }
}

impl Function for Sphere {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        squared_norm(&difference(point, &self.minimizer))
    }
}

/// f2, the ellipsoid: sum of 10^(6 i / (D - 1)) z_i^2 with z = T_osz(x - x_opt).
#[derive(Debug)]
pub(super) struct Ellipsoid {
    minimizer: Vec<f64>,
    weights: Vec<f64>,
}

impl Ellipsoid {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { minimizer: draws.location(), weights: ramp(draws.dimensions).map(|e| 1e6_f64.powf(e)).collect() }
    }
}

impl Function for Ellipsoid {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut z = difference(point, &self.minimizer);
        oscillate_all(&mut z);
        weighted_squares(&z, &self.weights)
    }
}

/// f3, Rastrigin's function of z = Lambda^10 T_asy^0.2(T_osz(x - x_opt)).
#[derive(Debug)]
pub(super) struct Rastrigin {
    minimizer: Vec<f64>,
    scales: Vec<f64>,
}

impl Rastrigin {
    pub(super) fn new(draws: &Draws) -> Self {
        Self { minimizer: draws.location(), scales: conditioning(10.0, draws.dimensions) }
    }
}

impl Function for Rastrigin {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut z = difference(point, &self.minimizer);
        oscillate_all(&mut z);
        make_asymmetric(0.2, &mut z);
        z.iter_mut().zip(&self.scales).for_each(|(value, scale)| *value *= scale);
        rastrigin(&z)
    }
}

/// f4, the Büche-Rastrigin function: Rastrigin's of z_i = s_i T_osz(x_i - x_opt_i), where s_i is that of Lambda^10, and
/// ten times that for positive values of every other variable, from the first; plus 100 f_pen.
#[derive(Debug)]
pub(super) struct BuecheRastrigin {
    minimizer: Vec<f64>,
    scales: Vec<f64>,
}

impl BuecheRastrigin {
    pub(super) fn new(draws: &Draws) -> Self {
        let mut minimizer = draws.location();
        // The variables with two scales have a positive optimum, which the report does not state.
        minimizer.iter_mut().step_by(2).for_each(|coordinate| *coordinate = coordinate.abs());
        Self { minimizer, scales: conditioning(10.0, draws.dimensions) }
    }
}

impl Function for BuecheRastrigin {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let mut z = difference(point, &self.minimizer);
        oscillate_all(&mut z);
        for (i, (value, scale)) in z.iter_mut().zip(&self.scales).enumerate() {
            let steeper = if *value > 0.0 && i % 2 == 0 { 10.0 } else { 1.0 };
            *value *= scale * steeper;
        }
        rastrigin(&z) + 100.0 * boundary_penalty(point, 5.0)
    }
}

/// f5, the linear slope: sum of 5 |s_i| - s_i z_i, where s_i is that of Lambda^100 with the sign of x_opt_i, and z_i is
/// x_i, or x_opt_i beyond it. The minimizer is a corner of the box.
#[derive(Debug)]
pub(super) struct LinearSlope {
    minimizer: Vec<f64>,
    slopes: Vec<f64>,
}

impl LinearSlope {
    pub(super) fn new(draws: &Draws) -> Self {
        let minimizer: Vec<f64> = draws.location().into_iter().map(|coordinate| 5_f64.copysign(coordinate)).collect();
        let slopes = conditioning(100.0, draws.dimensions).into_iter().zip(&minimizer);
        Self { slopes: slopes.map(|(slope, corner)| slope.copysign(*corner)).collect(), minimizer }
    }
}

impl Function for LinearSlope {
    fn minimizer(&self) -> &[f64] {
        &self.minimizer
    }

    fn excess(&self, point: &[f64]) -> f64 {
        let parts = point.iter().zip(&self.minimizer).zip(&self.slopes).map(|((value, corner), slope)| {
            let z = if value * corner < 25.0 { value } else { corner };
            5.0 * slope.abs() - slope * z
        });
        parts.sum()
    }
}
