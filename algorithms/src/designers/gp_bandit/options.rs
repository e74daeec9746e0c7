//! What of the designer can be chosen, to compare its parts with their alternatives.

use crate::acquisition::Criterion;
use crate::gp::KernelTerms;

/// The parts of a [`GpBandit`](super::GpBandit). The default is what the designer is measured to do best with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpBanditOptions {
    /// How a point is valued (expected improvement, which gives way to the upper confidence bound under much noise). With
    /// two or three metrics always by expected hypervolume improvement.
    pub acquisition: Criterion,
    /// Whether trials are sought in a box around the incumbent (yes), or always in the whole space. With several metrics
    /// it is always the whole space.
    pub trust_region: bool,
    /// Where the first trials are.
    pub start: Start,
    /// Whether the covariance has a linear term (yes). Without ordered parameters there is none anyway.
    pub linear_term: bool,
    /// Whether values are [warped](crate::output_warp::warp) (yes), or only standardised: then an outlier can flatten
    /// the model.
    pub warp: bool,
}

impl Default for GpBanditOptions {
    fn default() -> Self {
        Self {
            acquisition: Criterion::default(),
            trust_region: true,
            start: Start::default(),
            linear_term: true,
            warp: true,
        }
    }
}

impl GpBanditOptions {
    /// What is wrong with them, or `None`.
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

/// Where the first trials are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// The centre, then one trial per parameter, each moving that one alone: `d + 1` trials, at least 4; in spaces of
    /// more than 15 features the centre and maximin points, 6 trials. In conditional spaces the centres of all branches
    /// (16 at most), then the star of the parameters active at the first.
    #[default]
    Star,
    /// The points of a scrambled Sobol sequence at the numbers of the trials, the centre not among them: `d + 1`
    /// trials, at least 4 and at most 6.
    SpaceFilling,
}
