//! Numeric ranges and their scales.
//!
//! Values are represented by their offset from the lower bound. Differences of integers then stay exact up to the ends
//! of `i64`, and the logarithm of a range that is narrow relative to its bounds keeps its precision (`ln_1p` of the
//! offset).
//!
//! Notation: `lo` lower bound, `span = hi - lo`, `offset = x - lo` in `[0, span]`, `u` coordinate in `[0, 1]`.

use crate::problem::ScaleType;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    span: f64,
    shape: Shape,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Linear,
    Log(Logarithm),
    /// Mirror image of `Log`: finest near the upper bound.
    ReverseLog(Logarithm),
}

/// Logarithmic scale from `lo` to `lo + span`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Logarithm {
    lo: f64,
    /// `ln(hi / lo)`.
    length: f64,
    /// Whether `hi / lo` is finite.
    ratio_fits: bool,
}

impl Axis {
    /// Range `[lo, lo + span]`; `span > 0`, and `lo > 0` unless the scale is linear.
    pub(super) fn new(lo: f64, span: f64, scale: ScaleType) -> Self {
        let shape = match scale {
            ScaleType::UnitLinear => Shape::Linear,
            ScaleType::UnitLog => Shape::Log(Logarithm::new(lo, span)),
            ScaleType::UnitReverseLog => Shape::ReverseLog(Logarithm::new(lo, span)),
        };
        Self { span, shape }
    }

    /// Coordinate of the value at `offset`: exactly 0 at offset 0, exactly 1 at offset `span`.
    pub(super) fn unit(&self, offset: f64) -> f64 {
        let unit = match self.shape {
            Shape::Linear => offset / self.span,
            Shape::Log(logarithm) => logarithm.unit(offset),
            Shape::ReverseLog(logarithm) => 1.0 - logarithm.unit(self.span - offset),
        };
        clip(unit)
    }

    /// Offset of the value at coordinate `u`, clipped to `[0, span]`: exactly 0 for `u <= 0`, exactly `span` for `u >=
    /// 1`.
    pub(super) fn offset(&self, u: f64) -> f64 {
        let u = clip(u);
        if u == 0.0 || u == 1.0 {
            return u * self.span;
        }
        let offset = match self.shape {
            Shape::Linear => u * self.span,
            Shape::Log(logarithm) => logarithm.offset(u),
            Shape::ReverseLog(logarithm) => self.span - logarithm.offset(1.0 - u),
        };
        // The exponential may overshoot by a rounding error.
        offset.clamp(0.0, self.span)
    }
}

/// Maximum number of digits that [`Axis::shortened`] prefers.
const SHORT_DIGITS: usize = 10;

impl Axis {
    /// Number of at most ten digits within the rounding error of `value`, a value of this axis from the lower bound
    /// `lo` on, or `value` itself: a grid has 10 and not 9.999999999999998. Changes fewer than one in a hundred values.
    pub(super) fn shortened(&self, lo: f64, value: f64) -> f64 {
        // A few roundings; an exponential multiplies them by the size of its argument.
        const ROUNDINGS: f64 = 4.0 * f64::EPSILON;
        let hi = lo + self.span;
        let error = match self.shape {
            Shape::Linear => ROUNDINGS * lo.abs().max(hi.abs()),
            Shape::Log(logarithm) => ROUNDINGS * (1.0 + logarithm.length) * value,
            Shape::ReverseLog(logarithm) => ROUNDINGS * ((1.0 + logarithm.length) * (hi - value + lo) + hi),
        };
        let short: f64 = format!("{value:.*e}", SHORT_DIGITS - 1).parse().unwrap_or(value);
        match self.shape {
            Shape::Linear if value.abs() <= error => 0.0,
            // A number smaller than its own error has no digits to choose.
            _ if (short - value).abs() <= error && error < value.abs() => short,
            _ => value,
        }
    }
}

/// Share of the reverse logarithmic scale from `min` (above 0) to `max` whose numbers all round to `max`. Above 0 with
/// more than about 16 decades.
pub fn reverse_log_share_at_upper_end(min: f64, max: f64) -> f64 {
    let nearest = 0.5 * (max - max.next_down());
    ((nearest.ln() - min.ln()) / (max.ln() - min.ln())).clamp(0.0, 1.0)
}

impl Logarithm {
    fn new(lo: f64, span: f64) -> Self {
        let ratio_fits = (span / lo).is_finite();
        let length = log_ratio(lo, span, ratio_fits);
        Self { lo, length, ratio_fits }
    }

    fn unit(&self, offset: f64) -> f64 {
        log_ratio(self.lo, offset, self.ratio_fits) / self.length
    }

    fn offset(&self, u: f64) -> f64 {
        let exponent = u * self.length;
        if self.ratio_fits {
            self.lo * exponent.exp_m1()
        } else {
            // `exp(exponent)` alone may overflow. The lower bound is lost in rounding unless the exponent is small.
            (self.lo.ln() + exponent).exp() - self.lo
        }
    }
}

/// `ln((lo + offset) / lo)`, to full relative precision if `ratio_fits`.
fn log_ratio(lo: f64, offset: f64, ratio_fits: bool) -> f64 {
    if ratio_fits { (offset / lo).ln_1p() } else { (lo + offset).ln() - lo.ln() }
}

/// Clamps `u` to `[0, 1]`; NaN becomes 0.
pub(super) fn clip(u: f64) -> f64 {
    if u > 0.0 { u.min(1.0) } else { 0.0 }
}
