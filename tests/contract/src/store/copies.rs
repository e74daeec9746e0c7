//! Copies of whole stores.

use std::sync::Arc;

use super::{Medium, reopen, samples};
use tunesmith_domain::{StudyId, TrialId};
use tunesmith_store::{Contents, CopyError, MemoryStore, Store, StoreError, SummaryKind, copy, read_all};

/// A store with a job, its study, a study without job, and more measurements than one page.
async fn filled() -> Result<Arc<dyn Store>, StoreError> {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let job = samples::job("j");
    let study = samples::study("j");
    store.create_job(job, Some(study.clone())).await?;
    let own = samples::conditional_study("p/l/alone");
    store.create_study(own.clone()).await?;
    store.put_summary(&study.id, SummaryKind::Figures, b"summary".to_vec()).await?;
    for number in 1..=3 {
        store.create_trial(&study.id, samples::new_trial(number)).await?;
    }
    let first = TrialId(1);
    store.change_trial(&study.id, first, samples::begin(1)).await?;
    for page in 0..3 {
        let curve = (0..5000).map(|step| samples::measurement(page * 5000 + step, f64::NAN)).collect();
        store.change_trial(&study.id, first, samples::report(1, curve)).await?;
    }
    store.change_trial(&study.id, first, samples::succeed(1, 0.25)).await?;
    Ok(store)
}

pub(super) async fn contain_every_record(medium: &impl Medium) {
    let source = filled().await.unwrap();
    let target = medium.open().await;
    let expected = Contents { jobs: 1, studies: 2, trials: 3, measurements: 15_001 };
    assert_eq!(copy(&*source, &*target).await.unwrap(), expected);
    let target = reopen(medium, target).await;
    assert_eq!(read_all(&*target).await.unwrap(), expected);
    let study = StudyId::from(&samples::job("j").id);
    assert_eq!(target.summary(&study, SummaryKind::Figures).await.unwrap().as_deref(), Some(&b"summary"[..]));
    // The study goes on, and its copy does as well.
    let back: Arc<dyn Store> = Arc::new(MemoryStore::new());
    assert_eq!(copy(&*target, &*back).await.unwrap(), expected);
    let next = back.create_trial(&study, samples::new_trial(4)).await.unwrap();
    assert_eq!(next, source.create_trial(&study, samples::new_trial(4)).await.unwrap());
    assert_eq!(next, target.create_trial(&study, samples::new_trial(4)).await.unwrap());
    let refused = copy(&*source, &*target).await.unwrap_err();
    assert!(matches!(refused, CopyError::NotEmpty), "{refused}");
}
