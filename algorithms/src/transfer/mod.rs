//! What earlier studies teach a new one, though their search spaces differ from its own.
//!
//! An [`EarlierStudy`] is read in the words of the new problem (the module `translation`):
//!
//! | in the earlier study | in the new one |
//! | --- | --- |
//! | a parameter of the same name, whatever its range, scale or kind | its value, on the new scale |
//! | a number where the new space has levels, or the other way round | the text of the one is read as the other |
//! | a value outside the new range, a level that is gone | the trial is left out: moved to the bound, it would be wrong about it |
//! | a parameter that the new space does not have | left out; what it did is noise now |
//! | no such parameter | the mode of its prior, or its middle; the noise of the trial counts four times |
//! | the metric of the same name, whatever its goal | its values, by the new goal |
//! | no metric of that name | the study teaches nothing |
//! | a trial stopped early | the noise counts four times |
//! | a failed trial | left out: another space, another reason |
//!
//! The values of each study are [warped](crate::output_warp::warp) on their own. The models are stacked
//! ([`StackedPosterior`](crate::gp::StackedPosterior)), the oldest at the bottom; which of them a study is built upon,
//! and by which line its values follow theirs, is decided anew as its trials come in (the module `ground`).
//!
//! Measured with the automatic choice on 8 BBOB functions in d = 5, eight instances each, after a study of 40 trials: mean
//! difference of the log10 gap to a search of its own after 10, 30 and 50 trials (standard errors 0.1, at 10 trials up to
//! 0.2). The same function -1.7, -0.6 and -0.1; its optimum shifted by 7% of each range -0.5, -0.1 and 0.0; another function
//! +0.1, +0.25 and +0.2, which is what the trials cost that were spent on it. Without trials of the start between the first
//! ones, and a comparison of both models by their fit, another function cost 0.8 after 30 with an earlier version of the
//! engine.

mod ground;
mod study;
#[cfg(test)]
mod tests;
mod translation;

pub use self::study::EarlierStudy;
pub(crate) use ground::{FEWEST_TO_JUDGE, Ground, Grounds, TRIALS_ON_TRUST};
