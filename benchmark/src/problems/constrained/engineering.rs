//! Engineering designs, with parameters of different kinds and scales.
//!
//! Formulas from Coello Coello, Use of a self-adaptive penalty approach for engineering optimization problems, 2000,
//! and, for the speed reducer, from Mezura-Montes and Coello Coello, Useful infeasible solutions in engineering
//! optimization with evolutionary algorithms, 2005. The active constraints at each optimum were determined by
//! sequential quadratic programming from many starts; the optimum is their root, computed with 30 digits.

use std::f64::consts::{PI, SQRT_2};

use tunesmith_algorithms::problem::{ParameterSpec, ParameterValue, ParameterValues, ScaleType};

use super::builders::{discrete, integer, linear, number, parameter, whole};
use super::{Constrained, ConstrainedFunction};

/// Weight of a spring under tension: diameters of wire and coil in inches, number of active coils.
///
/// Shear stress and deflection are active at the optimum.
pub fn tension_spring() -> ConstrainedFunction {
    let function = |point: &ParameterValues| {
        let (wire, coil, count) = (number(point, "wire"), number(point, "coil"), number(point, "coils"));
        let deflection = 1.0 - coil.powi(3) * count / (71_785.0 * wire.powi(4));
        let shear = (4.0 * coil * coil - wire * coil) / (12_566.0 * (coil * wire.powi(3) - wire.powi(4)))
            + 1.0 / (5_108.0 * wire * wire)
            - 1.0;
        let surge = 1.0 - 140.45 * wire / (coil * coil * count);
        let outside = (wire + coil) / 1.5 - 1.0;
        Constrained { value: (count + 2.0) * coil * wire * wire, constraints: vec![deflection, shear, surge, outside] }
    };
    let ranges = [("wire", 0.05, 2.0), ("coil", 0.25, 1.3), ("coils", 2.0, 15.0)];
    let minimizer = point(&[("wire", 0.05168906108279762), ("coil", 0.3567177397998193), ("coils", 11.28896575161854)]);
    super::function("tension_spring", box_of(&ranges), 0.012665232788319417, minimizer, function)
}

/// Cost of a cylindrical pressure vessel, a mixed-integer problem: thickness of shell and head in multiples of 1/16
/// inch up to 99/16, radius and length in `[10, 200]` inches.
///
/// The optimum was found by enumeration of the 9,801 pairs of thicknesses; the least length for a radius has a closed
/// form.
pub fn pressure_vessel() -> ConstrainedFunction {
    let function = |point: &ParameterValues| {
        let (shell, head) = (number(point, "shell"), number(point, "head"));
        let (radius, length) = (number(point, "radius"), number(point, "length"));
        let value = 0.6224 * shell * radius * length
            + 1.7781 * head * radius * radius
            + 3.1661 * shell * shell * length
            + 19.84 * shell * shell * radius;
        let volume = PI * radius * radius * length + 4.0 / 3.0 * PI * radius.powi(3);
        let constraints =
            vec![0.0193 * radius / shell - 1.0, 0.00954 * radius / head - 1.0, 1.0 - volume / 1_296_000.0];
        Constrained { value, constraints }
    };
    let sixteenths: Vec<f64> = (1..=99).map(|count| f64::from(count) / 16.0).collect();
    let parameters = vec![
        parameter("shell", discrete(sixteenths.clone(), ScaleType::UnitLinear)),
        parameter("head", discrete(sixteenths, ScaleType::UnitLinear)),
        parameter("radius", linear(10.0, 200.0)),
        parameter("length", linear(10.0, 200.0)),
    ];
    let mut minimizer = point(&[("radius", 42.09844559581283), ("length", 176.63659584319385)]);
    minimizer.insert("shell".to_owned(), ParameterValue::Discrete(0.8125));
    minimizer.insert("head".to_owned(), ParameterValue::Discrete(0.4375));
    super::function("pressure_vessel", parameters, 6059.714335048435, minimizer, function)
}

/// Cost of a welded beam: size of the weld, length, height and thickness of the bar, in inches.
///
/// Shear stress, bending stress, the weld's side and the buckling load are active at the optimum.
pub fn welded_beam() -> ConstrainedFunction {
    /// Load in pounds, overhang in inches, moduli in pounds per square inch.
    const LOAD: f64 = 6000.0;
    const OVERHANG: f64 = 14.0;
    const YOUNG: f64 = 30e6;
    const SHEAR: f64 = 12e6;
    let function = |point: &ParameterValues| {
        let (weld, length) = (number(point, "weld"), number(point, "length"));
        let (height, thickness) = (number(point, "height"), number(point, "thickness"));
        let bar = 0.04811 * height * thickness * (OVERHANG + length);
        let direct = LOAD / (SQRT_2 * weld * length);
        let half = (weld + height) / 2.0;
        let radius = (length * length / 4.0 + half * half).sqrt();
        let polar = 2.0 * SQRT_2 * weld * length * (length * length / 12.0 + half * half);
        let torsion = LOAD * (OVERHANG + length / 2.0) * radius / polar;
        let shear = (direct * direct + direct * torsion * length / radius + torsion * torsion).sqrt();
        let bending = 6.0 * LOAD * OVERHANG / (thickness * height * height);
        let deflection = 4.0 * LOAD * OVERHANG.powi(3) / (YOUNG * height.powi(3) * thickness);
        let buckling = 4.013 * YOUNG * height * thickness.powi(3) / 6.0 / (OVERHANG * OVERHANG)
            * (1.0 - height / (2.0 * OVERHANG) * (YOUNG / (4.0 * SHEAR)).sqrt());
        let constraints = vec![
            shear / 13_600.0 - 1.0,
            bending / 30_000.0 - 1.0,
            weld - thickness,
            (0.10471 * weld * weld + bar) / 5.0 - 1.0,
            0.125 - weld,
            deflection / 0.25 - 1.0,
            1.0 - buckling / LOAD,
        ];
        Constrained { value: 1.10471 * weld * weld * length + bar, constraints }
    };
    let ranges = [("weld", 0.1, 2.0), ("length", 0.1, 10.0), ("height", 0.1, 10.0), ("thickness", 0.1, 2.0)];
    let minimizer = point(&[
        ("weld", 0.20572963978513115),
        ("length", 3.4704886656514584),
        ("height", 9.036623910361017),
        ("thickness", 0.20572963978613115),
    ]);
    super::function("welded_beam", box_of(&ranges), 1.724852308597365, minimizer, function)
}

/// Weight of a speed reducer, a mixed-integer problem: width of the face, module and number of the teeth (a whole
/// number), lengths and diameters of two shafts, in centimetres.
///
/// The optimum is a corner: face, module, teeth and the length of the first shaft are at their bounds, the diameters at
/// their stress limits, and the length of the second shaft is the least for its diameter.
pub fn speed_reducer() -> ConstrainedFunction {
    #[expect(clippy::approx_constant, reason = "the problem is published with four digits of pi / 4")]
    const FACTOR: f64 = 0.7854;
    let function = |point: &ParameterValues| {
        let (face, module, teeth) = (number(point, "face"), number(point, "module"), whole(point, "teeth"));
        let (length1, length2) = (number(point, "length1"), number(point, "length2"));
        let (diameter1, diameter2) = (number(point, "diameter1"), number(point, "diameter2"));
        let gear = module * teeth;
        let value = FACTOR * face * module * module * (3.3333 * teeth * teeth + 14.9334 * teeth - 43.0934)
            - 1.508 * face * (diameter1 * diameter1 + diameter2 * diameter2)
            + 7.4777 * (diameter1.powi(3) + diameter2.powi(3))
            + FACTOR * (length1 * diameter1 * diameter1 + length2 * diameter2 * diameter2);
        let stress = |length: f64, moment: f64| ((745.0 * length / gear).powi(2) + moment).sqrt();
        let constraints = vec![
            27.0 / (face * module * gear) - 1.0,
            397.5 / (face * gear * gear) - 1.0,
            1.93 * length1.powi(3) / (gear * diameter1.powi(4)) - 1.0,
            1.93 * length2.powi(3) / (gear * diameter2.powi(4)) - 1.0,
            stress(length1, 16.9e6) / (110.0 * diameter1.powi(3)) - 1.0,
            stress(length2, 157.5e6) / (85.0 * diameter2.powi(3)) - 1.0,
            gear / 40.0 - 1.0,
            5.0 * module / face - 1.0,
            face / (12.0 * module) - 1.0,
            (1.5 * diameter1 + 1.9) / length1 - 1.0,
            (1.1 * diameter2 + 1.9) / length2 - 1.0,
        ];
        Constrained { value, constraints }
    };
    let ranges = [
        ("face", 2.6, 3.6),
        ("module", 0.7, 0.8),
        ("length1", 7.3, 8.3),
        ("length2", 7.3, 8.3),
        ("diameter1", 2.9, 3.9),
        ("diameter2", 5.0, 5.5),
    ];
    let mut parameters = box_of(&ranges);
    parameters.insert(2, parameter("teeth", integer(17, 28, ScaleType::UnitLinear)));
    let mut minimizer = point(&[
        ("face", 3.5),
        ("module", 0.7),
        ("length1", 7.3),
        ("length2", 7.715319911487901),
        ("diameter1", 3.350214666097564),
        ("diameter2", 5.286654464981987),
    ]);
    minimizer.insert("teeth".to_owned(), ParameterValue::Integer(17));
    super::function("speed_reducer", parameters, 2994.47106614682, minimizer, function)
}

fn box_of(ranges: &[(&str, f64, f64)]) -> Vec<ParameterSpec> {
    ranges.iter().map(|&(name, min, max)| parameter(name, linear(min, max))).collect()
}

fn point(values: &[(&str, f64)]) -> ParameterValues {
    values.iter().map(|&(name, value)| (name.to_owned(), ParameterValue::Double(value))).collect()
}
