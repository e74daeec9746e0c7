use tunesmith_algorithms::problem::{
    ConstraintSpec, Goal, MetricSpec, ParameterKind, ParameterValues, ProblemStatement, ScaleType, SearchSpace, TrialId,
};
use tunesmith_benchmark::problem::{Draw, Evaluation, EvaluationOutcome, Problem, Quality};
use tunesmith_benchmark::problems::table::TableProblem;

use super::*;

const EXPORT_HEADER: &str = "trial_id,state,objective_value,training_step,stopped_early,reason,start_time,end_time";

fn metric(name: &str, goal: Goal) -> MetricSpec {
    MetricSpec { name: name.into(), goal }
}

fn space() -> SearchSpace {
    let levels = vec!["relu".to_owned(), "tanh, scaled".to_owned()];
    let kinds = [
        ("rate", ParameterKind::Double { min: 1e-3, max: 1.0, scale: ScaleType::UnitLog }),
        ("depth", ParameterKind::Integer { min: 1, max: 9, scale: ScaleType::UnitLinear }),
        ("batch", ParameterKind::Discrete { values: vec![8.0, 16.5], scale: ScaleType::UnitLinear }),
        ("activation", ParameterKind::Categorical { values: levels }),
    ];
    SearchSpace::new(kinds.map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).to_vec()).unwrap()
}

fn statement() -> ProblemStatement {
    ProblemStatement::new(space(), vec![metric("loss", Goal::Minimize)]).unwrap()
}

fn read(csv: &str) -> Result<TableProblem, RecordedError> {
    read_csv("study", csv.as_bytes(), &statement())
}

fn message(csv: &str) -> String {
    read(csv).unwrap_err().to_string()
}

fn point(rate: f64, depth: i64, batch: f64, activation: &str) -> ParameterValues {
    ParameterValues::from([
        ("rate".to_owned(), ParameterValue::Double(rate)),
        ("depth".to_owned(), ParameterValue::Integer(depth)),
        ("batch".to_owned(), ParameterValue::Discrete(batch)),
        ("activation".to_owned(), ParameterValue::Categorical(activation.to_owned())),
    ])
}

fn evaluate(problem: &TableProblem, point: &ParameterValues) -> Evaluation {
    problem.evaluate(point, Draw { seed: 1, trial: TrialId::FIRST })
}

fn value(evaluation: &Evaluation) -> Option<f64> {
    match &evaluation.outcome {
        EvaluationOutcome::Measured { observed, .. } => Some(observed[0]),
        EvaluationOutcome::Infeasible { .. } => None,
    }
}

#[test]
fn columns_are_found_by_name_in_any_order() {
    let csv = "loss@4,seconds,activation,loss,depth,loss@2,rate,batch\n\
        0.25,8,\"tanh, scaled\",0.25,3,0.75,1e-2,16.5\n\
        ,,relu,,4.0,0.5, 1 ,8\n";
    let problem = read(csv).unwrap();
    assert_eq!((problem.name(), problem.rows()), ("study", 2));
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(0.25) });
    let measured = evaluate(&problem, &point(1e-2, 3, 16.5, "tanh, scaled"));
    assert_eq!((value(&measured), measured.duration_secs), (Some(0.25), 8.0));
    let curve: Vec<_> = measured.curve.iter().map(|report| (report.step, report.elapsed_secs, report.value)).collect();
    assert_eq!(curve, [(2, 4.0, 0.75), (4, 8.0, 0.25)]);
    let infeasible = evaluate(&problem, &point(1.0, 4, 8.0, "relu"));
    assert_eq!((value(&infeasible), infeasible.curve.len()), (None, 1));
}

#[test]
fn a_table_of_several_metrics_needs_all_of_them_or_none() {
    let metrics = vec![metric("loss", Goal::Minimize), metric("size", Goal::Minimize)];
    let statement = ProblemStatement::new(space(), metrics).unwrap();
    let header = "rate,depth,batch,activation,loss,size\n";
    let csv = format!("{header}0.1,1,8,relu,0.5,7\n0.1,2,8,relu,,\n");
    let problem = read_csv("study", csv.as_bytes(), &statement).unwrap();
    let first = evaluate(&problem, &point(0.1, 1, 8.0, "relu"));
    assert_eq!(first.outcome, Evaluation::measured(vec![0.5, 7.0], vec![0.5, 7.0], Vec::new()).outcome);
    assert_eq!(value(&evaluate(&problem, &point(0.1, 2, 8.0, "relu"))), None);
    let half = format!("{header}0.1,1,8,relu,0.5,\n");
    let error = read_csv("study", half.as_bytes(), &statement).unwrap_err().to_string();
    let allowed = "a finite number, or empty in all metrics for an infeasible trial";
    assert_eq!(error, format!("line 2, column \"size\": \"\" is not {allowed}"));
}

#[test]
fn an_exported_study_is_replayed_as_it_was_written() {
    let times = "2026-03-01T10:00:00Z,2026-03-01T10:00:02.5Z";
    let csv = format!(
        "{EXPORT_HEADER},rate,depth,batch,activation\n\
        1,SUCCEEDED,0.5,12,false,,{times},0.01,2,8,relu\n\
        2,SUCCEEDED,0.25,6,true,,{times},0.1,5,16.5,relu\n\
        3,INFEASIBLE,NaN,3,false,\"not finite, so no result\",{times},1.0,9,8,relu\n\
        4,ACTIVE,,,false,,2026-03-01T10:00:00Z,,0.5,1,8,relu\n"
    );
    let problem = read(&csv).unwrap();
    // Trial 4 has not ended.
    assert_eq!(problem.rows(), 3);
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(0.25) });
    let first = evaluate(&problem, &point(0.01, 2, 8.0, "relu"));
    assert_eq!((value(&first), first.duration_secs), (Some(0.5), 2.5));
    assert_eq!(value(&evaluate(&problem, &point(1.0, 9, 8.0, "relu"))), None);
}

#[test]
fn the_mark_of_the_recommended_trial_is_no_parameter() {
    let rows = "1,SUCCEEDED,0.5,12,false,,,,false,0.01,2,8,relu\n2,SUCCEEDED,0.25,6,false,,,,true,0.1,5,16.5,relu\n";
    let csv = format!("{EXPORT_HEADER},recommended,rate,depth,batch,activation\n{rows}");
    assert_eq!(value(&evaluate(&read(&csv).unwrap(), &point(0.1, 5, 16.5, "relu"))), Some(0.25));
    let inferred = infer_statement(csv.as_bytes(), metric("loss", Goal::Minimize)).unwrap();
    let found: Vec<&str> = inferred.search_space().parameters().iter().map(ParameterSpec::name).collect();
    assert_eq!(found, ["rate", "depth", "batch", "activation"]);
}

#[test]
fn notes_are_no_parameter() {
    let header = format!("{EXPORT_HEADER},recommended,note,rate,depth,batch,activation");
    let csv = format!("{header}\n1,SUCCEEDED,0.5,12,false,,,,false,\"a, b\nc\",0.01,2,8,relu\n");
    assert_eq!(value(&evaluate(&read(&csv).unwrap(), &point(0.01, 2, 8.0, "relu"))), Some(0.5));
    let inferred = infer_statement(csv.as_bytes(), metric("loss", Goal::Minimize)).unwrap();
    assert_eq!(inferred.search_space().parameters().len(), 4);
}

#[test]
fn exported_study_with_a_constraint_has_columns_of_its_metrics() {
    let limit = ConstraintSpec::new("time", Goal::Minimize, 2.0);
    let statement = statement().with_constraints(vec![limit]).unwrap();
    let header = format!("{EXPORT_HEADER},recommended,rate,depth,batch,activation,loss,time");
    let rows = "1,SUCCEEDED,0.5,1,false,,,,false,0.01,2,8,relu,0.5,1.5\n2,SUCCEEDED,0.25,1,false,violates time,,,false,0.1,5,16.5,relu,0.25,3\n";
    let problem = read_csv("study", format!("{header}\n{rows}").as_bytes(), &statement).unwrap();
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(0.5) });
    let EvaluationOutcome::Measured { observed, constraints, .. } =
        evaluate(&problem, &point(0.1, 5, 16.5, "relu")).outcome
    else {
        panic!("infeasible")
    };
    assert_eq!((observed, constraints), (vec![0.25], vec![1.0]));
    let inferred = infer_statement(format!("{header}\n{rows}").as_bytes(), metric("loss", Goal::Minimize));
    assert!(inferred.unwrap_err().to_string().starts_with("column \"loss\" repeats objective_value"));
    let read = |text: &str| read_csv("study", text.as_bytes(), &statement).unwrap_err().to_string();
    let missing = read(&format!("{EXPORT_HEADER},rate,depth,batch,activation,loss\n"));
    assert!(missing.starts_with("line 1: column \"time\" is missing"), "{missing}");
    let wrong = read(&format!("{header}\n{}", rows.replace(",1.5", ",soon")));
    assert!(wrong.starts_with("line 2, column \"time\": \"soon\" is not a finite number"), "{wrong}");
}

#[test]
fn parameters_of_an_exported_study_may_have_any_name() {
    let kind = ParameterKind::Integer { min: 0, max: 9, scale: ScaleType::UnitLinear };
    let names = ["state", "seconds", "loss"];
    let parameters = names.map(|name| ParameterSpec::new(name, kind.clone()).unwrap()).to_vec();
    let metrics = vec![metric("loss", Goal::Minimize)];
    let statement = ProblemStatement::new(SearchSpace::new(parameters).unwrap(), metrics.clone()).unwrap();
    let csv = format!("{EXPORT_HEADER},state,seconds,loss\n1,SUCCEEDED,-7.5,1,false,,,,3,4,5\n");
    let problem = read_csv("study", csv.as_bytes(), &statement).unwrap();
    let point = names.map(str::to_owned).into_iter().zip([3, 4, 5].map(ParameterValue::Integer)).collect();
    assert_eq!(evaluate(&problem, &point), Evaluation::exact(-7.5));
    let inferred = infer_statement(csv.as_bytes(), metrics[0].clone()).unwrap();
    let found: Vec<&str> = inferred.search_space().parameters().iter().map(ParameterSpec::name).collect();
    // Without a config, a duration is more likely than a parameter of that name.
    assert_eq!(found, ["state", "loss"]);
}

#[test]
fn wrong_columns_are_named() {
    assert_eq!(message(""), "the file is empty; a header with the names of the columns is needed");
    assert_eq!(message("rate,depth,rate\n"), "line 1: column \"rate\" occurs twice, as columns 1 and 3");
    let missing = "line 1: column \"batch\" is missing; the columns are rate, depth, activation, loss";
    assert_eq!(message("rate,depth,activation,loss\n"), missing);
    let no_metric = "line 1: column \"loss\" is missing; the columns are rate, depth, batch, activation";
    assert_eq!(message("rate,depth,batch,activation\n"), no_metric);
    let unknown = message("rate,depth,batch,activation,loss,los@3\n");
    let allowed = "rate, depth, batch, activation, loss, seconds, loss@STEP, trial_id, state";
    assert!(unknown.starts_with(&format!("line 1: column \"los@3\" is unknown; allowed are {allowed}")), "{unknown}");
    // An edited export may keep its other columns.
    assert!(read("trial_id,state,rate,depth,batch,activation,loss\n7,DONE,0.1,1,8,relu,2\n").is_ok());
}

#[test]
fn wrong_values_are_named_with_their_line_and_what_is_allowed() {
    let header = "rate,depth,batch,activation,loss,seconds,loss@1";
    let line = |row: &str| message(&format!("{header}\n0.1,1,8,relu,0.5,1,0.5\n{row}\n"));
    let text = "line 3, column \"rate\": \"fast\" is not a number from 0.001 to 1.0";
    assert_eq!(line("fast,1,8,relu,0.5,1,0.5"), text);
    let outside = "line 3, column \"depth\": \"10\" is not a whole number from 1 to 9";
    assert_eq!(line("0.1,10,8,relu,0.5,1,0.5"), outside);
    let fraction = "line 3, column \"depth\": \"1.5\" is not a whole number from 1 to 9";
    assert_eq!(line("0.1,1.5,8,relu,0.5,1,0.5"), fraction);
    assert_eq!(line("0.1,1,9,relu,0.5,1,0.5"), "line 3, column \"batch\": \"9\" is not one of 8, 16.5");
    let level = "line 3, column \"activation\": \"sine\" is not one of \"relu\", \"tanh, scaled\"";
    assert_eq!(line("0.1,1,8,sine,0.5,1,0.5"), level);
    let metric = "a finite number, or empty in all metrics for an infeasible trial";
    assert_eq!(line("0.1,1,8,relu,inf,1,0.5"), format!("line 3, column \"loss\": \"inf\" is not {metric}"));
    let instant = "line 3, column \"seconds\": \"0\" is not a positive number of seconds, or empty";
    assert_eq!(line("0.1,1,8,relu,0.5,0,0.5"), instant);
    let report = "line 3, column \"loss@1\": \"x\" is not a finite number, or empty";
    assert_eq!(line("0.1,1,8,relu,0.5,1,x"), report);
    let time = format!("{EXPORT_HEADER},rate,depth,batch,activation\n1,SUCCEEDED,1,1,false,,noon,,0.1,1,8,relu\n");
    assert!(message(&time).starts_with("line 2, column \"start_time\": \"noon\" is not a time"), "{}", message(&time));
}

#[test]
fn text_that_is_no_table_is_refused() {
    let header = "rate,depth,batch,activation,loss";
    assert!(matches!(read(&format!("{header}\n0.1,1\n")), Err(RecordedError::Csv(_))));
    assert!(matches!(read(&format!("{header}\n")), Err(RecordedError::Table(TableError::NoRows))));
    let bytes = [header.as_bytes(), b"\n0.1,1,8,\xff,1\n"].concat();
    assert!(matches!(read_csv("study", &*bytes, &statement()), Err(RecordedError::Csv(_))));
}

#[test]
fn a_space_is_inferred_from_what_occurs() {
    let csv = "a,b,c,d,loss,loss@5,seconds,trial_id\n3,0.5,x,7,1,2,3,1\n-2,4,3,7,,,,2\n11,1e-3,x,7,2,,,3\n";
    let statement = infer_statement(csv.as_bytes(), metric("loss", Goal::Maximize)).unwrap();
    let scale = ScaleType::UnitLinear;
    let expected = [
        ("a", ParameterKind::Integer { min: -2, max: 11, scale }),
        ("b", ParameterKind::Double { min: 1e-3, max: 4.0, scale }),
        ("c", ParameterKind::Categorical { values: vec!["3".into(), "x".into()] }),
        ("d", ParameterKind::Integer { min: 7, max: 7, scale }),
    ];
    let expected = expected.map(|(name, kind)| ParameterSpec::new(name, kind).unwrap());
    assert_eq!(statement.search_space().parameters(), expected);
    assert_eq!(statement.metrics(), [metric("loss", Goal::Maximize)]);
    let problem = read_csv("study", csv.as_bytes(), &statement).unwrap();
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(2.0) });
}

#[test]
fn a_space_that_cannot_be_inferred_is_refused() {
    let infer = |csv: &str| infer_statement(csv.as_bytes(), metric("loss", Goal::Minimize)).unwrap_err().to_string();
    assert_eq!(infer("loss,seconds\n1,2\n"), "none of the columns loss, seconds can be a parameter");
    assert_eq!(infer("a,b\n1,2\n"), "line 1: column \"loss\" is missing; the columns are a, b");
    let empty = "line 3, column \"a\": \"\" is not a value of a parameter, which every trial needs";
    assert_eq!(infer("a,loss\n1,2\n,3\n"), empty);
    assert_eq!(infer("a,loss\n-1e308,2\n1e308,3\n"), "column \"a\" is not a valid parameter");
    assert_eq!(infer("a,loss\n"), "the trials are not a valid table");
}

/// Job resource with `trials`, as `tunesmith jobs describe --format json` prints it.
fn job(trials: &str) -> String {
    format!(
        r#"{{"jobId": "j1", "createTime": "2026-03-01T10:00:00Z", "state": "SUCCEEDED",
        "trainingInput": {{"hyperparameters": {{"goal": "MINIMIZE", "hyperparameterMetricTag": "loss", "maxTrials": 2,
            "params": [{{"parameterName": "depth", "type": "INTEGER", "minValue": 1, "maxValue": 9}}]}}}},
        "trainingOutput": {{"completedTrialCount": "2", "isHyperparameterTuningJob": true, "trials": [{trials}]}}}}"#
    )
}

#[test]
fn a_finished_job_is_replayed() {
    let trials = r#"
        {"trialId": "2", "hyperparameters": {"depth": "3"}, "state": "SUCCEEDED",
         "finalMetric": {"trainingStep": "7", "objectiveValue": 0.125},
         "startTime": "2026-03-01T10:00:00Z", "endTime": "2026-03-01T10:01:00Z"},
        {"trialId": "1", "hyperparameters": {"depth": "8"}, "state": "SUCCEEDED",
         "finalMetric": {"trainingStep": "7", "objectiveValue": 2.0}}"#;
    let problem = read_job("study", job(trials).as_bytes()).unwrap();
    assert_eq!(problem.statement().metrics(), [metric("loss", Goal::Minimize)]);
    assert_eq!(problem.quality(), &Quality::Value { best_known: Some(0.125) });
    let depth = |depth| ParameterValues::from([("depth".to_owned(), ParameterValue::Integer(depth))]);
    let near = evaluate(&problem, &depth(4));
    assert_eq!((value(&near), near.duration_secs), (Some(0.125), 60.0));
    assert_eq!(value(&evaluate(&problem, &depth(7))), Some(2.0));
}

#[test]
fn a_job_without_a_table_is_refused() {
    let error = |json: &str| read_job("study", json.as_bytes()).unwrap_err();
    let trial = r#"{"trialId": "4", "hyperparameters": {"depth": "12"}}"#;
    let outside = "trial 4, column \"depth\": \"12\" is not a whole number from 1 to 9";
    assert_eq!(error(&job(trial)).to_string(), outside);
    assert!(matches!(error(&job("")), RecordedError::Table(TableError::NoRows)));
    assert!(matches!(error("{"), RecordedError::Json(_)));
    let training = r#"{"jobId": "j2", "trainingInput": {"region": "here"}}"#;
    let message = r#"job "j2" has no trainingInput.hyperparameters, so there is no search space"#;
    assert_eq!(error(training).to_string(), message);
}

#[test]
fn the_column_of_an_export_is_the_metric_of_a_table_without_one_of_its_name() {
    let loss = || metric("loss", Goal::Minimize);
    let csv = "lr,depth,objective_value\n0.1,3,0.8\n0.2,4,0.5\n";
    let statement = infer_statement(csv.as_bytes(), loss()).unwrap();
    let names: Vec<&str> = statement.search_space().parameters().iter().map(ParameterSpec::name).collect();
    assert_eq!(names, ["lr", "depth"]);
    let rows = read_rows(csv.as_bytes(), &statement).unwrap();
    assert_eq!(rows.iter().map(|row| row.values.clone()).collect::<Vec<_>>(), [Some(vec![0.8]), Some(vec![0.5])]);
    // The metric's own column takes precedence; the other one is not a parameter either.
    let csv = "lr,objective_value,loss\n0.1,7,0.8\n0.2,6,0.5\n";
    let statement = infer_statement(csv.as_bytes(), loss()).unwrap();
    assert_eq!(statement.search_space().parameters().len(), 1);
    assert_eq!(read_rows(csv.as_bytes(), &statement).unwrap()[1].values, Some(vec![0.5]));
}
