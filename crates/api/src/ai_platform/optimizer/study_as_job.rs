//! A study as the hyperparameters of a job, for jobs of protocols whose search is a `StudyConfig`.

use super::study_additions::as_of_a_job;
use super::{StudyConfig, StudyPlan};
use crate::ai_platform::{Additions, FurtherMetric, HyperparameterSpec};

/// Hyperparameters and additions of a job with the search of `config`, whose plan is `plan`; without its trial counts.
pub fn study_as_job(config: &StudyConfig, plan: &StudyPlan) -> (HyperparameterSpec, Additions) {
    let parameters = plan.spec.problem.search_space().parameters();
    let (mut spec, mut additions) = as_of_a_job(parameters, config.algorithm, &config.tunesmith);
    // Jobs have one metric before the others. Constraints come later.
    let first = config.metrics.iter().position(|metric| metric.safety_config.is_none());
    for (index, metric) in config.metrics.iter().enumerate() {
        if Some(index) == first {
            spec.goal = metric.goal;
            spec.hyperparameter_metric_tag.clone_from(&metric.metric);
        } else {
            additions.metrics.push(FurtherMetric {
                metric: metric.metric.clone(),
                goal: metric.goal,
                safety_config: metric.safety_config.clone(),
            });
        }
    }
    spec.enable_trial_early_stopping = plan.spec.stopping_rule.is_some();
    additions.early_stopping = plan.spec.stopping_rule.as_ref().map(|rule| rule.kind());
    additions.early_stopping_settings = config.tunesmith.early_stopping_settings.clone();
    additions.study_stopping_config = config.tunesmith.study_stopping_config.clone();
    additions.final_measurement = config.tunesmith.final_measurement;
    (spec, additions)
}
