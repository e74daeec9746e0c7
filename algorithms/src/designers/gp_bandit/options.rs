//! The options of the designer, for comparison of its parts with their alternatives.

use crate::acquisition::Criterion;
use crate::gp::KernelTerms;

/// The options of a [`GpBandit`](super::GpBandit). The defaults performed best in our measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpBanditOptions {
    /// The criterion that values a point. Default: expected improvement, which the upper confidence bound replaces under
    /// much noise. With two or three metrics it is always expected hypervolume improvement.
    pub acquisition: Criterion,
    /// Whether trials are sought in a box around the incumbent (default) or always in the whole space. With several metrics
    /// the whole space is always searched.
    pub trust_region: bool,
    /// The points of the first trials.
    pub initial_design: InitialDesign,
    /// Whether the covariance has a linear term (default). Without ordered parameters it has none.
    pub linear_term: bool,
    /// Whether values are [warped](crate::output_warp::warp) (default) or only standardised, in which case an outlier can
    /// flatten the model.
    pub warp: bool,
}

impl Default for GpBanditOptions {
    fn default() -> Self {
        Self {
            acquisition: Criterion::default(),
            trust_region: true,
            initial_design: InitialDesign::default(),
            linear_term: true,
            warp: true,
        }
    }
}

impl GpBanditOptions {
    /// The reason why the options are invalid; `None` if they are valid.
    pub(super) fn fault(&self) -> Option<String> {
        match self.acquisition {
            Criterion::UpperConfidenceBound { beta } if !(beta.is_finite() && beta > 0.0) => {
                Some(format!("the upper confidence bound has {beta} deviations, not a finite number above 0"))
            }
            _ => None,
        }
    }

    /// The terms of the covariance.
    pub(super) fn kernel_terms(&self) -> KernelTerms {
        if self.linear_term { KernelTerms::RadialAndLinear } else { KernelTerms::Radial }
    }
}

/// The points of the first trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialDesign {
    /// The centre, then one trial per parameter that moves this parameter alone: `d + 1` trials, at least 4. From 16 to 50
    /// features the steps are a coordinate descent from the best trial. With more than 50 features, or more than 15 and
    /// several metrics or constraints, the design is the centre and maximin points, 6 trials. In conditional spaces it is
    /// the centres of all branches (at most 16), then the steps of the parameters active at the first.
    #[default]
    AxisAligned,
    /// The points of a scrambled Sobol sequence, indexed by trial number, without the centre: `d + 1` trials, at least 4
    /// and at most 6.
    SpaceFilling,
}
