//! Event files of trials with several attempts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use prost::Message;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ProblemStatement, ScaleType, SearchSpace,
};
use tunesmith_domain::{
    Completion, LossCause, Measurement, MetricValue, NewTrial, ReportKey, Study, StudyFields, StudyId, TrialChange,
    TrialId, TrialStart,
};
use tunesmith_store::{MemoryStore, Store};

use super::messages::{Event, HParamsData, HParamsPluginData, SummaryContent, What};
use super::*;
use crate::Subject;

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

fn report(attempt: u64, step: i64) -> Measurement {
    Measurement {
        step,
        wall_time_secs: 1000.0 + step as f64,
        elapsed_secs: None,
        key: ReportKey::MetricFile { attempt },
        metrics: vec![MetricValue { metric: "loss".into(), value: step as f64 }],
    }
}

#[tokio::test]
async fn attempts_are_sessions_of_one_group_each_with_one_end() {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![ParameterSpec::new("x", kind).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "loss".into(), goal: Goal::Minimize }];
    let id: StudyId = "p/l/s".parse().unwrap();
    let problem = ProblemStatement::new(space, metrics).unwrap();
    let at = |second| Timestamp::from_second(1000 + second).unwrap();
    let store = MemoryStore::new();
    store.create_study(Study::restore(StudyFields::new(id.clone(), problem, at(0)))).await.unwrap();
    let trial = NewTrial {
        id: TrialId(1),
        parameters: [("x".to_owned(), ParameterValue::Double(0.5))].into_iter().collect(),
        origin: None,
        fallback_reason: None,
        client_id: "c".into(),
        start: TrialStart::Started { lease: None },
        create_time: at(0),
        request_key: None,
    };
    store.create_trial(&id, trial).await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let mut files = EventFiles::new(folder.path(), "s");
    let put = async |files: &mut EventFiles, change: Option<TrialChange>| {
        if let Some(change) = change {
            store.change_trial(&id, TrialId(1), change).await.unwrap();
        }
        let study = store.study(&id).await.unwrap();
        let subject = Subject::of_study(&study);
        let view = View { store: &store, subject: &subject, study: Some(&study), is_live: true };
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
    assert_eq!(events(&first), ["start of group 1", "loss 1 at 1", "loss 2 at 2"]);
    let lost = TrialChange::BeginAttempt { attempt: 2, previous_loss: Some(LossCause::Failure), at: at(3) };
    put(&mut files, Some(lost)).await;
    assert_eq!(events(&first), ["start of group 1", "loss 1 at 1", "loss 2 at 2", "Failure"]);
    assert_eq!(events(&second), ["start of group 1"]);
    put(&mut files, reports(2, &[3], 4)).await;
    let complete = TrialChange::Complete {
        attempt: 2,
        measurements: vec![report(2, 4)],
        completion: Completion::Succeeded { final_measurement: report(2, 4) },
        at: at(5),
    };
    put(&mut files, Some(complete)).await;
    let whole = ["start of group 1", "loss 3 at 3", "loss 4 at 4", "Success"];
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
