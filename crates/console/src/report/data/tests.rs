use super::*;
use tunesmith_algorithms::problem::{
    Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValue, ParameterValues, ProblemStatement, ScaleType,
    SearchSpace, TrialId,
};
use tunesmith_domain::{Measurement, Metadata, MetricValue, ReportKey, StudyFields, Trial, TrialFields, TrialState};

/// Columns of a study with five metrics. Every tenth trial has failed.
fn columns(parameters: usize, trials: usize) -> Columns {
    let kind = ParameterKind::Double { min: 0.0, max: 1.0, scale: ScaleType::UnitLinear };
    let space = (0..parameters).map(|index| ParameterSpec::new(format!("p{index}"), kind.clone()).unwrap()).collect();
    let metrics = (0..5).map(|index| MetricSpec { name: format!("m{index}"), goal: Goal::Maximize }).collect();
    let problem = ProblemStatement::new(SearchSpace::new(space).unwrap(), metrics).unwrap();
    let study = Study::restore(StudyFields {
        next_trial_id: TrialId(trials as u64 + 1),
        ..StudyFields::new("p/l/s".parse().unwrap(), problem, Timestamp::UNIX_EPOCH)
    });
    let mut columns = Columns::new(&study);
    (1..=trials).for_each(|number| columns.apply(&trial(number, parameters)));
    columns
}

fn trial(number: usize, parameters: usize) -> Trial {
    // A sequence without repetitions that is spread over the range.
    let spread = |index: usize| (number as f64 * (0.618 + 0.01 * index as f64)).fract();
    let values = (0..parameters).map(|index| (format!("p{index}"), ParameterValue::Double(spread(index))));
    let failed = number.is_multiple_of(10);
    let measurement = Measurement {
        step: 1,
        wall_time_secs: 0.0,
        elapsed_secs: None,
        key: ReportKey::Http,
        metrics: (0..5).map(|index| MetricValue { metric: format!("m{index}"), value: spread(index) }).collect(),
    };
    Trial::restore(TrialFields {
        id: TrialId(number as u64),
        parameters: values.collect::<ParameterValues>(),
        origin: None,
        state: if failed { TrialState::Infeasible } else { TrialState::Succeeded },
        client_id: String::new(),
        attempt: 1,
        lost_attempts: 0,
        preempted_attempts: 0,
        lost_time: Default::default(),
        places: Vec::new(),
        delivered: 0,
        lease: None,
        expired_leases: 0,
        create_time: Timestamp::UNIX_EPOCH,
        start_time: Some(Timestamp::UNIX_EPOCH),
        attempt_start_time: Some(Timestamp::UNIX_EPOCH),
        end_time: Some(Timestamp::UNIX_EPOCH),
        measurement_count: 1,
        metric_folders: Default::default(),
        final_measurement: (!failed).then_some(measurement),
        infeasible_reason: failed.then(|| "exit code 3".to_owned()),
        stopped_early: false,
        predicted_final: None,
        fallback_reason: None,
        fixed_parameters: Vec::new(),
        request_keys: Vec::new(),
        metadata: Metadata::default(),
        last_note: None,
        revision: number as u64,
    })
}

/// Report without models and learning curves.
fn report(columns: &Columns) -> Contents {
    let problem = columns.problem();
    let parameters: Vec<String> =
        problem.search_space().parameters().iter().map(|spec| spec.name().to_owned()).collect();
    let metrics: Vec<String> = problem.metrics().iter().map(|metric| metric.name.clone()).collect();
    let rows = columns.live();
    let order = by_importance(&parameters, None);
    let mut views = Views { columns, rows: &rows, answers: BTreeMap::new() };
    views.add_all(metrics.len().min(MOST_PLOTTED), &order, &Vec::new(), Timestamp::UNIX_EPOCH);
    contents_of(views, "job".to_owned(), metrics, parameters, &order)
}

#[test]
fn large_study_is_reduced_and_the_page_states_what_was_left_out() {
    let columns = columns(60, 3000);
    let contents = report(&columns);
    assert_eq!((contents.plotted.len(), contents.sliced.len(), contents.paired.len()), (4, 40, 5));
    assert_eq!(
        contents.omissions,
        [
            "Plots are of 4 of 5 metrics.",
            "Results over a parameter are of 40 of 60 parameters, the most important ones.",
            "Results over two parameters are of 5 of 60 parameters, the most important ones.",
        ]
    );
    assert!(contents.data.len() < 8 << 20, "{} bytes", contents.data.len());
    let data: Json = serde_json::from_str(&contents.data).unwrap();
    let views = data["views"].as_object().unwrap();
    // For each metric: 3 plots, 40 slices, 20 pairs in 2 plots. For each pair of metrics: a front. And the timeline.
    assert_eq!(views.len(), 4 * (3 + 40 + 2 * 20) + 4 * 3 + 1);
    let history = &views["history 0"]["view"];
    assert_eq!(history["measured"], 2700);
    let counted: u64 = history["density"]["counts"].as_array().unwrap().iter().filter_map(Json::as_u64).sum();
    assert_eq!(counted, 2700, "each trial is counted");
    let results: Vec<f64> = contents.rows.iter().map(|row| row.values[0].unwrap().0).collect();
    assert_eq!((results.len(), contents.total), (CELLS / 65, 3000));
    assert!(results.is_sorted_by(|a, b| a >= b), "{results:?}");
    let best = (0..3000).filter_map(|row| columns.metric(0, row)).fold(0.0, f64::max);
    assert_eq!(results[0], best);
}

#[test]
fn small_and_empty_studies_are_whole() {
    let whole = report(&columns(2, 30));
    assert_eq!((whole.rows.len(), whole.total), (30, 30));
    assert_eq!(whole.omissions, ["Plots are of 4 of 5 metrics."]);
    let failed = &whole.rows[27..];
    assert!(failed.iter().all(|row| row.values[0].is_none() && row.reason == "exit code 3"), "failed trials are last");
    assert_eq!(failed.iter().map(|row| row.number).collect::<Vec<_>>(), [10, 20, 30]);
    let empty = report(&columns(1, 0));
    assert_eq!((empty.rows.len(), empty.total, empty.paired.len()), (0, 0, 1));
}
