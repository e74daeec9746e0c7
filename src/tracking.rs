//! Exports to MLflow and TensorBoard, composed.

use std::sync::Arc;

use rand::Rng;

use crate::cli::recommended;
use tunesmith_data_dir::DataDir;
use tunesmith_domain::{Study, Trial};
use tunesmith_store::{Documents, JobClaims, Store};
use tunesmith_studies::clock::Clock;
use tunesmith_tracking::mlflow::Operator;
use tunesmith_tracking::{LiveTracking, Recommend, StateStore};

/// Live exports of this process on `data_dir`.
pub(crate) fn live_tracking(
    data_dir: &DataDir,
    store: &Arc<dyn Store>,
    claims: &Arc<dyn JobClaims>,
    documents: Option<&Arc<dyn Documents>>,
    clock: &Arc<dyn Clock>,
    operator: Operator,
) -> LiveTracking {
    let states = match documents {
        Some(documents) => StateStore::Shared(Arc::clone(documents)),
        None => StateStore::Folder(data_dir.tracking()),
    };
    let clock = Arc::clone(clock);
    LiveTracking::new(
        Arc::clone(store),
        Arc::clone(claims),
        states,
        operator,
        recommend(),
        format!("{:016x}", rand::rng().next_u64()),
        Arc::new(move || clock.now()),
    )
}

/// Recommendation of the model that also `run` and `explain` show.
pub(crate) fn recommend() -> Recommend {
    Arc::new(|study: Study, trials: Vec<Trial>| {
        let compute = move || recommended(&study, &trials);
        // A panic of the model leaves the export without a recommendation.
        Box::pin(async move { tokio::task::spawn_blocking(compute).await.ok().flatten() })
    })
}
