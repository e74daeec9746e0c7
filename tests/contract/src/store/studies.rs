//! Studies without a job.

use super::{Medium, assert_not_found, reopen, samples};
use tunesmith_domain::{StudyId, TrialId};
use tunesmith_store::{StoreError, SummaryKind};

fn id(text: &str) -> StudyId {
    text.parse().unwrap()
}

pub(super) async fn are_created_once(medium: &impl Medium) {
    let store = medium.open().await;
    let study = samples::study("p/l/s");
    store.create_study(study.clone()).await.unwrap();
    match store.create_study(study.clone()).await {
        Err(StoreError::AlreadyExists { resource }) => assert_eq!(resource, "study p/l/s"),
        other => panic!("the study exists: {other:?}"),
    }
    // The study of a job of the same name has another ID.
    store.create_job(samples::job("s"), Some(samples::study("s"))).await.unwrap();
    assert_eq!(reopen(medium, store).await.study(&study.id).await.unwrap(), study);
}

pub(super) async fn are_listed_by_location_and_pages(medium: &impl Medium) {
    let store = medium.open().await;
    store.create_job(samples::job("b"), Some(samples::study("b"))).await.unwrap();
    // IDs directly before and after the listed ones, in the order of bytes.
    for other in ["p/k/a", "p/l-/a", "p/l./a", "p/l0/a", "p-/l/a", "q/l/a"] {
        store.create_study(samples::study(other)).await.unwrap();
    }
    for name in ["c", "a", "b", "B", "b.1", "-"] {
        store.create_study(samples::study(&format!("p/l/{name}"))).await.unwrap();
    }
    let store = reopen(medium, store).await;
    let list = async |after: Option<&str>, limit| {
        let after = after.map(|name| id(&format!("p/l/{name}")));
        let studies = store.studies(Some(("p", "l")), after.as_ref(), limit).await.unwrap();
        studies.iter().map(|study| study.id.parts().2.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 10).await, ["-", "B", "a", "b", "b.1", "c"]);
    assert_eq!(list(None, 2).await, ["-", "B"]);
    assert_eq!(list(Some("B"), 2).await, ["a", "b"]);
    assert_eq!(list(Some("b.1"), 9).await, ["c"]);
    assert!(list(Some("c"), 9).await.is_empty());
    assert!(store.studies(Some(("p", "nowhere")), None, 9).await.unwrap().is_empty());

    // Those of all locations, without the studies of jobs of any project.
    for name in ["p/jobs/b", "p/Jobs/a"] {
        store.create_study(samples::study(name)).await.unwrap();
    }
    let list = async |after: Option<&str>, limit| {
        let studies = store.studies(None, after.map(id).as_ref(), limit).await.unwrap();
        studies.iter().map(|study| study.id.as_str().to_owned()).collect::<Vec<_>>()
    };
    let all = [
        "p-/l/a", "p/Jobs/a", "p/k/a", "p/l-/a", "p/l./a", "p/l/-", "p/l/B", "p/l/a", "p/l/b", "p/l/b.1", "p/l/c",
        "p/l0/a", "q/l/a",
    ];
    assert_eq!(list(None, 20).await, all);
    assert_eq!(list(None, 2).await, all[..2]);
    assert_eq!(list(Some("p/l/b"), 3).await, all[9..12]);
    assert!(list(Some("q/l/a"), 9).await.is_empty());
}

pub(super) async fn are_deleted_with_their_trials(medium: &impl Medium) {
    let store = medium.open().await;
    for name in ["p/l/s", "p/l/s2"] {
        store.create_study(samples::study(name)).await.unwrap();
        store.create_trials(&id(name), vec![samples::leased(1, 5), samples::new_trial(2)]).await.unwrap();
        let curve = vec![samples::measurement(1, 0.5)];
        store.change_trial(&id(name), TrialId(1), samples::report(1, curve)).await.unwrap();
    }
    store.delete_study(&id("p/l/s")).await.unwrap();
    assert_not_found(store.delete_study(&id("p/l/s")).await, "study p/l/s");
    let store = reopen(medium, store).await;
    assert_not_found(store.study(&id("p/l/s")).await, "study p/l/s");
    assert_not_found(store.trials(&id("p/l/s"), None, 9).await, "study p/l/s");
    assert_eq!(store.studies(Some(("p", "l")), None, 9).await.unwrap().len(), 1);
    let overdue = store.overdue_trials(samples::at(1000), 9).await.unwrap();
    assert_eq!(overdue.iter().map(|(study, _)| study.as_str()).collect::<Vec<_>>(), ["p/l/s2"]);
    // A new study of the same ID contains nothing of the former one.
    store.create_study(samples::study("p/l/s")).await.unwrap();
    assert!(store.trials(&id("p/l/s"), None, 9).await.unwrap().is_empty());
    assert!(store.open_trials(&id("p/l/s"), None, 9).await.unwrap().is_empty());
    store.create_trial(&id("p/l/s"), samples::new_trial(1)).await.unwrap();
    assert!(store.measurements(&id("p/l/s"), TrialId(1), 0, 9).await.unwrap().is_empty());
    assert_eq!(store.trials_changed_since(&id("p/l/s"), 0, 9).await.unwrap().len(), 1);
    assert_eq!(store.trials(&id("p/l/s2"), None, 9).await.unwrap().len(), 2);
}

pub(super) async fn keep_their_last_summary(medium: &impl Medium) {
    const FIGURES: SummaryKind = SummaryKind::Figures;
    const COLUMNS: SummaryKind = SummaryKind::Columns;
    let (study, other) = (id("p/l/s"), id("p/l/t"));
    let store = medium.open().await;
    assert_not_found(store.summary(&study, FIGURES).await, "study p/l/s");
    assert_not_found(store.put_summary(&study, FIGURES, vec![1]).await, "study p/l/s");
    for study in [&study, &other] {
        store.create_study(samples::study(study.as_str())).await.unwrap();
    }
    assert_eq!(store.summary(&study, FIGURES).await.unwrap(), None);
    // More bytes than a page of any engine, with every value.
    let long: Vec<u8> = (0..1 << 20).map(|place: u32| (place % 251) as u8).chain(0..=255).collect();
    for body in [vec![], vec![0, 255, 7], long.clone()] {
        store.put_summary(&study, FIGURES, body.clone()).await.unwrap();
        assert_eq!(store.summary(&study, FIGURES).await.unwrap(), Some(body));
    }
    store.put_summary(&other, FIGURES, vec![2]).await.unwrap();
    store.put_summary(&study, COLUMNS, vec![3]).await.unwrap();
    let revision = store.study(&study).await.unwrap().revision;
    let store = reopen(medium, store).await;
    assert_eq!(store.summary(&study, FIGURES).await.unwrap(), Some(long));
    assert_eq!(store.summary(&study, COLUMNS).await.unwrap(), Some(vec![3]), "each kind has its own");
    assert_eq!(store.study(&study).await.unwrap().revision, revision, "the study has not changed");
    store.delete_study(&study).await.unwrap();
    assert_not_found(store.summary(&study, FIGURES).await, "study p/l/s");
    store.create_study(samples::study("p/l/s")).await.unwrap();
    assert_eq!(store.summary(&study, FIGURES).await.unwrap(), None, "it belonged to the deleted study");
    assert_eq!(store.summary(&study, COLUMNS).await.unwrap(), None, "it belonged to the deleted study");
    assert_eq!(store.summary(&other, FIGURES).await.unwrap(), Some(vec![2]));
}

pub(super) async fn of_many_trials_are_deleted_in_steps(medium: &impl Medium) {
    /// Three steps.
    const TRIALS: u64 = 1200;
    let (study, other) = (id("p/l/s"), id("p/l/t"));
    let store = medium.open().await;
    for (is_interrupted, is_finished) in [(false, false), (true, true), (true, false)] {
        for name in [&study, &other] {
            if store.study(name).await.is_err() {
                store.create_study(samples::study(name.as_str())).await.unwrap();
                let trials = (1..=TRIALS).map(|number| samples::leased(number, 5)).collect();
                store.create_trials(name, trials).await.unwrap();
            }
        }
        if is_interrupted {
            // The first step is on its way to the store, or the study is deleted already.
            let mut deletion = store.delete_study(&study);
            let _ = futures::poll!(&mut deletion);
            drop(deletion);
            if let Err(error) = store.delete_study(&study).await {
                assert!(matches!(error, StoreError::NotFound { .. }), "{error}");
            }
        } else {
            store.delete_study(&study).await.unwrap();
        }
        assert_not_found(store.study(&study).await, "study p/l/s");
        assert_not_found(store.trial(&study, TrialId(1)).await, "study p/l/s");
        assert_not_found(store.open_trials(&study, None, 10).await, "study p/l/s");
        assert_not_found(store.trials_changed_since(&study, 0, 10).await, "study p/l/s");
        let overdue = store.overdue_trials(samples::at(1000), 10_000).await.unwrap();
        assert!(overdue.iter().all(|(of, _)| *of == other));
        if is_finished {
            store.finish_deletions().await.unwrap();
        }
        store.create_study(samples::study("p/l/s")).await.unwrap();
        assert!(store.trials_changed_since(&study, 0, 10).await.unwrap().is_empty());
        store.delete_study(&study).await.unwrap();
    }
    assert_eq!(store.trials(&other, None, 10_000).await.unwrap().len() as u64, TRIALS);
}
