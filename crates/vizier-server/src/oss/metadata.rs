//! Metadata of studies and trials.

use std::collections::BTreeMap;

use tunesmith_api::ai_platform::optimizer::trial_and_attempt;
use tunesmith_domain::{Refusal, TrialId};
use tunesmith_vizier::messages::oss as wire;
use tunesmith_vizier::messages::oss::KeyValue;
use tunesmith_vizier::names;
use tunesmith_vizier::oss::metadata;

use crate::refusals::violation;
use crate::services::{Context, Reply};
use crate::trials::first;

/// Adds the metadata of the study, then those of each trial. Its clients read a failure from the response.
pub(super) async fn update(
    context: Context,
    request: wire::UpdateMetadataRequest,
) -> Result<Reply<wire::UpdateMetadataResponse>, Refusal> {
    let study = first(context.studies(), &names::oss::study("name", &request.name)?).await?;
    let mut by_trial: BTreeMap<Option<TrialId>, Vec<KeyValue>> = BTreeMap::new();
    for (index, update) in request.delta.into_iter().enumerate() {
        let refuse = |field: &str, text: &str| Refusal::invalid(&format!("delta[{index}].{field}"), text);
        let metadatum = update.metadatum.ok_or_else(|| refuse("metadatum", "is required"))?;
        let trial = update.trial_id.map(|trial| trial_and_attempt(&trial)).transpose();
        let trial = trial.map_err(|error| refuse("trialId", &error.description))?;
        by_trial.entry(trial.map(|(trial, _)| trial)).or_default().push(metadatum);
    }
    // All are read before any is stored.
    let mut read = Vec::with_capacity(by_trial.len());
    for (trial, entries) in by_trial {
        read.push((trial, metadata(entries, "delta").map_err(violation)?));
    }
    for (trial, values) in read {
        let added = match trial {
            None => context.studies().add_metadata(&study.id, values).await.map(drop),
            Some(trial) => context.studies().add_metadata_of_trial(&study.id, trial, values).await.map(drop),
        };
        if let Err(error) = added {
            let error_details = Refusal::from(error).message;
            return Ok(wire::UpdateMetadataResponse { error_details }.into());
        }
    }
    Ok(wire::UpdateMetadataResponse::default().into())
}
