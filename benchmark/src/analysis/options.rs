use crate::record::CHECKPOINTS;
use tunesmith_statistics::StatisticsError;

/// Options of an analysis. Defaults are those of the reports of `tunesmith bench`.
#[derive(Debug, Clone, PartialEq)]
pub struct AnalysisOptions {
    /// Optimizers to compare, in report order; if empty, all of them in the order of their first run.
    pub optimizers: Vec<String>,
    /// Reference of all tests; `None` for the first optimizer.
    pub baseline: Option<String>,
    /// Name of the optimizer with normalised score 0. Default `random`.
    pub random: String,
    /// Numbers of evaluations at which to compare results. The largest budget shared by two optimizers is always added;
    /// larger ones are dropped. Default [`CHECKPOINTS`].
    pub checkpoints: Vec<usize>,
    /// Smallest distinguished gap for problems with a known optimum; positive. Default 1e-8, the last target of COCO
    /// (Hansen et al. 2021, "COCO: a platform for comparing continuous optimizers").
    pub floor: f64,
    /// Smallest distinguished gap of the coarse mean log gap, and of all problems without a known optimum, where a gap
    /// of 0 only means that the run found the best known value; positive. Default 1e-3.
    pub coarse_floor: f64,
    /// Level of all tests, in (0, 1). Default 0.05.
    pub significance: f64,
    /// Coverage of the bootstrap bands of curves, in (0, 1). Default 0.95.
    pub confidence: f64,
    /// Number of bootstrap resamples, at least 1. Default 1000.
    pub resamples: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self {
            optimizers: Vec::new(),
            baseline: None,
            random: "random".to_owned(),
            checkpoints: CHECKPOINTS.to_vec(),
            floor: 1e-8,
            coarse_floor: 1e-3,
            significance: 0.05,
            confidence: 0.95,
            resamples: 1000,
            seed: 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AnalysisError {
    #[error("there are no runs to compare")]
    NoRuns,
    #[error("no run of optimizer {name:?}; there are runs of {}", known.join(", "))]
    UnknownOptimizer { name: String, known: Vec<String> },
    #[error("no run of one set has the same key as a run of the other: {difference}")]
    NothingShared {
        /// Key parts that differ, with their values in both sets.
        difference: String,
    },
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    #[error("{name} is {value}; it must be {allowed}")]
    Setting { name: &'static str, value: f64, allowed: &'static str },
}

impl AnalysisOptions {
    pub(super) fn check(&self) -> Result<(), AnalysisError> {
        let positive = |value: f64| value > 0.0 && value.is_finite();
        let share = |value: f64| value > 0.0 && value < 1.0;
        for (name, value, is_valid, allowed) in [
            ("floor", self.floor, positive(self.floor), "positive and finite"),
            ("coarse_floor", self.coarse_floor, positive(self.coarse_floor), "positive and finite"),
            ("significance", self.significance, share(self.significance), "above 0 and below 1"),
            ("confidence", self.confidence, share(self.confidence), "above 0 and below 1"),
            ("resamples", self.resamples as f64, self.resamples > 0, "at least 1"),
        ] {
            if !is_valid {
                return Err(AnalysisError::Setting { name, value, allowed });
            }
        }
        Ok(())
    }
}
