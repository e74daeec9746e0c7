//! Built-in tables of trained models. `benches/tables/` describes their origin.

use tunesmith_benchmark::problems::table::TableProblem;

use super::recorded::read_csv;

#[derive(Debug, Clone, Copy)]
pub(super) struct CommittedTable {
    /// Model and data set, also the file name.
    pub(super) name: &'static str,
    /// Search space, in the format of `hptuning_config.yaml`.
    pub(super) config: &'static str,
    pub(super) csv: &'static str,
}

macro_rules! committed {
    ($($name:literal),* $(,)?) => {
        [$(CommittedTable {
            name: $name,
            config: include_str!(concat!("../../../benches/tables/data/", $name, ".yaml")),
            csv: include_str!(concat!("../../../benches/tables/data/", $name, ".csv")),
        }),*]
    };
}

pub(super) const TABLES: [CommittedTable; 9] = committed![
    "adaptive-boosting-digits",
    "extra-trees-diabetes",
    "gradient-boosting-diabetes",
    "histogram-boosting-breast-cancer",
    "linear-descent-digits",
    "nearest-neighbours-breast-cancer",
    "neural-network-digits",
    "random-forest-wine",
    "support-vectors-digits",
];

/// Problems in the order of [`TABLES`], interpolated between the trained points.
pub(super) fn tables() -> Vec<TableProblem> {
    TABLES.iter().map(table).collect()
}

fn table(table: &CommittedTable) -> TableProblem {
    let config = tunesmith_config::parse(&format!("{}.yaml", table.name), table.config);
    let study = config.ok().and_then(|config| config.study).expect("the committed configurations are valid");
    let rows = read_csv(table.name, table.csv.as_bytes(), &study.study.problem);
    rows.expect("the committed trials are valid").interpolated()
}

#[cfg(test)]
mod tests {
    use tunesmith_algorithms::problem::{Goal, ParameterKind, TrialId};
    use tunesmith_benchmark::problem::{Draw, EvaluationOutcome, Problem, Quality};

    use super::super::recorded::{RecordPosition, parameter_value};
    use super::*;

    #[test]
    fn every_table_is_a_problem_with_the_metric_and_the_rows_of_its_files() {
        for (problem, files) in tables().iter().zip(&TABLES) {
            assert_eq!(problem.name(), files.name);
            assert_eq!(problem.rows(), files.csv.lines().count() - 1, "{}", files.name);
            let [metric] = problem.statement().metrics() else { panic!("{} has one metric", files.name) };
            assert_eq!((&*metric.name, metric.goal), ("objective", Goal::Minimize));
            let config = tunesmith_config::parse(files.name, files.config).unwrap();
            assert!(config.warnings.is_empty(), "{:?}", config.warnings);
            // Enough trials for a search to improve on random points.
            assert!(problem.rows() >= 256, "{} has {} rows", files.name, problem.rows());
        }
    }

    #[test]
    fn a_recorded_trial_answers_with_its_own_row() {
        let draw = Draw { seed: 0, trial: TrialId::FIRST };
        let all = tables();
        for (problem, files) in all.iter().zip(&TABLES) {
            let mut reader = csv::Reader::from_reader(files.csv.as_bytes());
            let header = reader.headers().unwrap().clone();
            let column = |name: &str| header.iter().position(|other| other == name).unwrap();
            let mut best = f64::INFINITY;
            for record in reader.records().map(Result::unwrap) {
                let values = problem.statement().search_space().parameters().iter().map(|spec| {
                    let text = &record[column(spec.name())];
                    (spec.name().to_owned(), parameter_value(spec, text, &RecordPosition::Line(0)).unwrap())
                });
                let evaluation = problem.evaluate(&values.collect(), draw);
                let objective = record[column("objective")].parse().ok();
                match evaluation.outcome {
                    EvaluationOutcome::Measured { observed, .. } => {
                        assert_eq!(Some(observed[0]), objective, "{record:?}")
                    }
                    _ => assert_eq!(objective, None, "{record:?}"),
                }
                assert_eq!(evaluation.duration_secs, record[column("seconds")].parse::<f64>().unwrap());
                best = best.min(objective.unwrap_or(best));
            }
            assert_eq!(problem.quality(), &Quality::Value { best_known: Some(best) });
        }
    }

    #[test]
    fn means_foretell_rows_that_the_table_does_not_have_better_than_the_nearest_row() {
        const KNOWN: usize = 1024;
        const FORETOLD: usize = 512;
        let draw = Draw { seed: 0, trial: TrialId::FIRST };
        let mut better = 0;
        for files in &TABLES {
            let statement = tunesmith_config::parse(files.name, files.config).unwrap().study.unwrap().study.problem;
            let header = files.csv.lines().take(1);
            let read = |lines: Vec<&str>| read_csv(files.name, lines.join("\n").as_bytes(), &statement).unwrap();
            let nearest = read(header.clone().chain(files.csv.lines().skip(1).take(KNOWN)).collect());
            let means = nearest.clone().interpolated();
            let foretold = files.csv.lines().skip(1 + KNOWN).take(FORETOLD);
            let foretold = header.chain(foretold).collect::<Vec<_>>().join("\n");
            let mut reader = csv::Reader::from_reader(foretold.as_bytes());
            let header = reader.headers().unwrap().clone();
            let column = |name: &str| header.iter().position(|other| other == name).unwrap();
            let mut errors = [0.0; 2];
            for record in reader.records().map(Result::unwrap) {
                let Ok(trained) = record[column("objective")].parse::<f64>() else { continue };
                let values = statement.search_space().parameters().iter().map(|spec| {
                    let value = parameter_value(spec, &record[column(spec.name())], &RecordPosition::Line(0)).unwrap();
                    (spec.name().to_owned(), value)
                });
                let point = values.collect();
                let answers = [&nearest, &means].map(|problem| problem.evaluate(&point, draw).outcome);
                let [
                    EvaluationOutcome::Measured { observed: one, .. },
                    EvaluationOutcome::Measured { observed: mean, .. },
                ] = &answers
                else {
                    continue;
                };
                errors[0] += (one[0] - trained).abs();
                errors[1] += (mean[0] - trained).abs();
            }
            better += usize::from(errors[1] < errors[0]);
            // Where training is discontinuous, as with diverging learning rates, the nearest row may be as good.
            assert!(errors[1] < 1.05 * errors[0], "{}: {errors:?}", files.name);
        }
        assert!(better >= 8, "{better} of 9");
    }

    #[test]
    fn models_that_are_trained_in_steps_have_curves() {
        let draw = Draw { seed: 0, trial: TrialId::FIRST };
        let mut with_curves = Vec::new();
        let mut kinds = [false; 4];
        for problem in tables() {
            let space = problem.statement().search_space();
            let encoding = tunesmith_algorithms::encoding::Encoding::new(space);
            let evaluation = problem.evaluate(&encoding.decode(&vec![0.25; encoding.dimensions()]), draw);
            if let Some(last) = evaluation.curve.last() {
                assert_eq!(evaluation.curve.len(), 10, "{}", problem.name());
                assert_eq!(last.elapsed_secs, evaluation.duration_secs);
                with_curves.push(problem.name().to_owned());
            }
            for parameter in space.parameters() {
                kinds[match parameter.kind() {
                    ParameterKind::Double { .. } => 0,
                    ParameterKind::Integer { .. } => 1,
                    ParameterKind::Discrete { .. } => 2,
                    ParameterKind::Categorical { .. } => 3,
                }] = true;
            }
        }
        let expected = [
            "gradient-boosting-diabetes",
            "histogram-boosting-breast-cancer",
            "linear-descent-digits",
            "neural-network-digits",
        ];
        assert_eq!(with_curves, expected);
        assert_eq!(kinds, [true; 4], "every kind of parameter occurs");
    }
}
