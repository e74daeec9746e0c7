//! Event files of trials with several attempts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use prost::Message;
use tunesmith_algorithms::problem::{Condition, ParameterKind, ParameterSpec, ParameterValue, ScaleType, SearchSpace};
use tunesmith_domain::{LossCause, TrialChange};
use tunesmith_store::Store;

use super::messages::{Event, HParamsData, HParamsPluginData, SummaryContent, What};
use super::*;
use crate::Subject;
use crate::testing::{at, report, start_trial, store, study_id, succeed};

/// Events of a file, as text: scalars with their steps, starts with their groups, ends with their states.
fn events(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).unwrap();
    let mut rest = &bytes[..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        let length = usize::try_from(u64::from_le_bytes(rest[..8].try_into().unwrap())).unwrap();
        let event = Event::decode(&rest[12..12 + length]).unwrap();
        rest = &rest[16 + length..];
        let Some(What::Summary(summary)) = event.what else { continue };
        for value in summary.value {
            let data = value.metadata.and_then(|metadata| metadata.plugin_data);
            let data = data.map(|data| HParamsPluginData::decode(&data.content[..]).unwrap().data.unwrap());
            found.push(match (value.content.unwrap(), data) {
                (SummaryContent::SimpleValue(simple), _) => format!("{} {simple} at {}", value.tag, event.step),
                (_, Some(HParamsData::SessionStart(start))) => format!("start of group {}", start.group_name),
                (_, Some(HParamsData::SessionEnd(end))) => format!("{:?}", end.status()),
                (_, other) => format!("{other:?}"),
            });
        }
    }
    found
}

#[test]
fn siblings_with_one_name_are_one_parameter() {
    let levels = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
    let model = ParameterSpec::new("model", ParameterKind::Categorical { values: levels }).unwrap();
    let rate = |name: &str, max, level: &str| {
        let kind = ParameterKind::Double { min: 0.0, max, scale: ScaleType::UnitLinear };
        let condition = Condition::new("model", vec![ParameterValue::Categorical(level.into())]);
        ParameterSpec::new(name, kind).unwrap().with_condition(condition)
    };
    let space = SearchSpace::new(vec![model, rate("rate", 1.0, "a"), rate("rate#2", 9.0, "b")]).unwrap();
    let infos = events::parameter_infos(&space);
    let shown: Vec<(&str, bool)> = infos.iter().map(|info| (info.name.as_str(), info.domain.is_some())).collect();
    assert_eq!(shown, [("model", true), ("rate", false)]);
    assert_eq!(infos[1].description, "");
}

#[tokio::test]
async fn attempts_are_sessions_of_one_group_each_with_one_end() {
    let (store, id) = (store().await, study_id());
    start_trial(&store, 1).await;

    let folder = tempfile::tempdir().unwrap();
    let mut files = EventFiles::new(folder.path(), "s");
    let put = async |files: &mut EventFiles, change: Option<TrialChange>| {
        if let Some(change) = change {
            store.change_trial(&id, TrialId(1), change).await.unwrap();
        }
        let study = store.study(&id).await.unwrap();
        let subject = Subject::of_study(&study);
        let view = View { store: &store, subject: &subject, study: Some(&study) };
        files.open(&view).await.unwrap();
        files.put(&view, vec![store.trial(&id, TrialId(1)).await.unwrap()]).await.unwrap();
    };
    let reports = |attempt, steps: &[i64], second| {
        let measurements = steps.iter().map(|step| report(attempt, *step)).collect();
        Some(TrialChange::Report { attempt, measurements, at: at(second), request_key: None })
    };
    let first = folder.path().join("s/1/events.out.tfevents.1.1.tunesmith");
    let second = folder.path().join("s/1-2/events.out.tfevents.1.2.tunesmith");
    put(&mut files, reports(1, &[1, 2], 2)).await;
    assert_eq!(events(&first), ["start of group 1", "loss 1 at 1", "size 1 at 1", "loss 2 at 2", "size 1 at 2"]);
    let lost = TrialChange::BeginAttempt { attempt: 2, previous_loss: Some(LossCause::Failure), at: at(3) };
    put(&mut files, Some(lost)).await;
    assert_eq!(
        events(&first),
        ["start of group 1", "loss 1 at 1", "size 1 at 1", "loss 2 at 2", "size 1 at 2", "Failure"]
    );
    assert_eq!(events(&second), ["start of group 1"]);
    put(&mut files, reports(2, &[3], 4)).await;
    put(&mut files, Some(succeed(2, report(2, 4), 5))).await;
    let whole = ["start of group 1", "loss 3 at 3", "size 1 at 3", "loss 4 at 4", "size 1 at 4", "Success"];
    assert_eq!(events(&second), whole);

    // Another process writes the same, and a file that a crash has cut goes on.
    let snapshot = || {
        let paths = [&first, &second];
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).into_iter().collect::<BTreeMap<_, _>>()
    };
    let before = snapshot();
    fs::write(&second, &before[&second][..before[&second].len() - 5]).unwrap();
    put(&mut EventFiles::new(folder.path(), "s"), None).await;
    assert!(snapshot() == before, "another process writes other bytes");
}
