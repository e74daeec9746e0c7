//! Transfer of knowledge from source studies to a study, whose search space may differ from theirs.
//!
//! A [`SourceStudy`] is translated to the new problem (module `translation`):
//!
//! | in the source study | in the new study |
//! | --- | --- |
//! | a parameter of the same name, of any range, scale or kind | its value, on the new scale |
//! | a number where the new space has levels, or the reverse | the value, converted through its text |
//! | a value outside the new range, a level that no longer exists | the trial is dropped: moved to the bound, its outcome would be wrong |
//! | a parameter that the new space does not have | dropped; its effect becomes noise |
//! | no such parameter | the mode of its prior, or its middle; the noise of the trial counts four times |
//! | the metric of the same name, of any goal | its values, by the new goal |
//! | no metric of that name | the study is dropped |
//! | a trial stopped early | its noise counts four times |
//! | a failed trial | dropped: the cause may not apply in the new space |
//!
//! The values of each study are [warped](crate::output_warp::warp) separately. The models are stacked
//! ([`StackedPosterior`](crate::gp::StackedPosterior)), the oldest at the bottom. After each trial of the new study it is
//! decided again which source models are used and by which line the values follow them (module `source_model`). Gains and
//! costs are measured, see docs/experiments/003.

mod influence;
mod source_model;
mod source_study;
#[cfg(test)]
mod tests;
mod translation;

pub use self::influence::SourceInfluence;
pub(crate) use self::source_model::{ALTERNATING_TRIALS, COMPARED_TRIALS, SourceModel, SourceModels, TRUSTED_TRIALS};
pub use self::source_study::SourceStudy;
