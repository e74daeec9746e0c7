use tunesmith_algorithms::problem::{FixedParameters, ParameterValues};

use super::*;

fn with_level(id: &str) -> StudyFields {
    let values = vec!["a".to_owned(), "b".to_owned()];
    let level = ParameterSpec::new("level", ParameterKind::Categorical { values }).unwrap();
    let number = ParameterKind::Integer { min: 1, max: 3, scale: ScaleType::UnitLinear };
    let space = SearchSpace::new(vec![level, ParameterSpec::new("k", number).unwrap()]).unwrap();
    let metrics = vec![MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize }];
    let problem = ProblemStatement::new(space, metrics).unwrap();
    StudyFields::new(id.parse().unwrap(), problem, Timestamp::UNIX_EPOCH)
}

fn level(name: &str) -> ParameterValue {
    ParameterValue::Categorical(name.to_owned())
}

fn fixed(study: &Study, values: &[(&str, ParameterValue)]) -> FixedParameters {
    let values: ParameterValues = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    FixedParameters::new(study.problem.search_space(), values).unwrap()
}

#[tokio::test]
async fn contexts_get_their_own_queued_or_new_trials_in_order() {
    let (studies, _) = studies();
    let study = studies.create_study(Study::restore(with_level("p/l/s"))).await.unwrap();
    let (a, b) = (fixed(&study, &[("level", level("a"))]), fixed(&study, &[("level", level("b"))]));
    let point = [("level".to_owned(), level("b")), ("k".to_owned(), ParameterValue::Integer(2))].into();
    let queued = studies.create_trial(&study.id, point, None, None).await.unwrap().trial;
    let three = SuggestionRequest { count: NonZeroUsize::new(3).unwrap(), ..request("c") };
    let contexts = [FixedParameters::default(), a.clone(), b.clone()];
    let first = studies.suggest_in_contexts(&study.id, &three, &contexts).await.unwrap().trials;
    assert_eq!(
        first.iter().map(|trial| &trial.parameters["level"]).skip(1).collect::<Vec<_>>(),
        [&level("a"), &level("b")]
    );
    // The queued trial was chosen by its creator.
    let fixed = first.iter().map(|trial| trial.fixed_parameters.join(",")).collect::<Vec<_>>();
    assert_eq!(fixed, ["", "level", ""]);
    assert_eq!(first[2].id, queued.id);
    assert_eq!(first[2].state, TrialState::Active);
    let again = studies.suggest_in_contexts(&study.id, &three, &contexts).await.unwrap().trials;
    let ids = |trials: &[Trial]| {
        let mut ids: Vec<TrialId> = trials.iter().map(|trial| trial.id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&again), ids(&first), "unfinished trials are returned again");
    // The points of a context end, and the study goes on.
    let mut points: Vec<ParameterValues> = Vec::new();
    for client in ["d", "e", "f", "g"] {
        match studies.suggest_in_contexts(&study.id, &request(client), std::slice::from_ref(&a)).await {
            Ok(suggested) => points.push(suggested.trials[0].parameters.clone()),
            Err(error) => {
                let expected = "context 0 has no other point: every one with level = a was tried";
                assert_eq!(error.to_string(), expected);
                assert_eq!(Refusal::from(error).code, Code::FailedPrecondition);
                break;
            }
        }
    }
    points.extend(first.iter().map(|trial| trial.parameters.clone()).filter(|point| point["level"] == level("a")));
    let mut numbers: Vec<String> = points.iter().map(|point| point["k"].to_string()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["1", "2", "3"]);
    assert_eq!(studies.study(&study.id).await.unwrap().state, StudyState::Active);
}

#[tokio::test]
async fn contexts_stop_at_the_maximum_of_trials() {
    let (studies, _) = studies();
    let study = StudyFields { max_trials: Some(2), ..with_level("p/l/s") };
    let study = studies.create_study(Study::restore(study)).await.unwrap();
    let three = SuggestionRequest { count: NonZeroUsize::new(3).unwrap(), ..request("c") };
    let contexts = vec![fixed(&study, &[("level", level("b"))]); 3];
    let suggested = studies.suggest_in_contexts(&study.id, &three, &contexts).await.unwrap();
    assert_eq!((suggested.trials.len(), suggested.study.state), (2, StudyState::Completed));
}
