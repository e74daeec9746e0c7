use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tunesmith_benchmark::problem::Problem;
use tunesmith_benchmark::problems::bbob::{BbobError, BbobProblem, FUNCTIONS, bbob, bbob_mixint};
use tunesmith_benchmark::problems::durations::WithDurations;
use tunesmith_benchmark::problems::table::TableProblem;
use tunesmith_benchmark::problems::{
    binary, categorical, conditional, constrained, curves, failing, functions, large, multi_objective, noisy, outliers,
    plateaus, tiny, transfer,
};

use super::measured_tables::{MeasuredTablesError, measured_tables};
use super::tables::tables;

/// Suite of a recorded study.
pub const REPLAY: &str = "replay";
const TRAINED: &str = "trained";
const TABLES: &str = "tables";
const CURVES: &str = "curves";
/// Problem of a suite, constructed for each seed.
pub struct Task {
    pub suite: String,
    /// Name within the suite.
    pub problem: String,
    /// Constructs the problem for a seed: the instance with that number, or the same problem for all seeds in suites
    /// without instances.
    pub make: Box<dyn Fn(u64) -> Arc<dyn Problem> + Send + Sync>,
}

/// Filter of the suites' problems.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Numbers of parameters, for suites with scalable problems.
    pub dimensions: Vec<usize>,
    /// Problem names, or their prefixes before a slash; empty selects all.
    pub problems: Vec<String>,
    /// Folder of the suite `tables`.
    pub tables: Option<PathBuf>,
    /// Whether to simulate durations for problems that have none, for parallel trials.
    pub durations: bool,
}

/// Names and descriptions of all suites, for messages and help.
pub const SUITES: [(&str, &str); 19] = [
    ("bbob", "the 24 noiseless functions of COCO, instance = seed; --dims 2 to 40"),
    ("bbob-mixint", "the same with integer parameters, as COCO's suite of that name; --dims 5, 10, 15 ... 40"),
    ("classic", "Branin, Hartmann, Levy, Ackley, Michalewicz and others with known optima"),
    ("noisy", "some of them with noise"),
    ("outliers", "some of them with one falsely good result, or with a tenth of wildly bad ones"),
    ("plateaus", "functions that are flat over nine tenths of the space, with known optima; instance = seed"),
    ("conditional", "choices of models with parameters of their own, with known optima"),
    ("categorical", "choices that interact, with known optima; hardly any numbers"),
    ("binary", "21 to 43 parameters of two levels, as published and with levels exchanged by seed, with known optima"),
    ("constrained", "problems with constraints"),
    ("failing", "problems of which about half of the space fails, with known optima"),
    ("large", "25 to 100 parameters, also mixed and categorical, with known optima; instance = seed"),
    ("multi-objective", "ZDT, DTLZ and others with two or three metrics"),
    (
        "three-objectives",
        "DTLZ with three metrics, also convex and in a mixed space, with known fronts at random places; instance = seed",
    ),
    (
        "tiny",
        "training recipes of 9 and 30 parameters for budgets of 3 to 15 trials, with known optima; instance = seed",
    ),
    (
        "transfer",
        "bbob functions with five parameters, alone and after a source study: scaled, related or misleading; instance = seed",
    ),
    (
        CURVES,
        "trainings with 10, 5 and 3 reports, for early stopping at equal epochs: tables of real models, and recipes with known \
         optima, instance = seed; a trial takes 10 s",
    ),
    (TRAINED, "tables of real models, trained at many points of a mixed search space; smooth between them"),
    (
        TABLES,
        "complete tables of the folder --tables, each configuration measured several times; levels exchanged by seed",
    ),
];

/// Evaluation method of a suite, for reports; `None` for formulas.
pub fn remark(suite: &str) -> Option<&'static str> {
    match suite {
        TRAINED => Some(
            "trained: an answer is a mean over the nearest trained points, weighted by inverse squared distance; at a \
             trained point it is what the training gave, and no answer is better than the best of them.",
        ),
        CURVES => Some(
            "curves: every trial takes ten seconds, so simulated time counts epochs; compare finished trials by that time.",
        ),
        TABLES => Some(
            "tables: a trial observes one of the measurements of its configuration, at random; the gap is the share of the \
             table with a better mean, in per cent. The names of the levels of categories are exchanged in each seed.",
        ),
        REPLAY => Some("replay: an answer is that of the nearest recorded trial."),
        _ => None,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error("suite {name:?} does not exist; the suites are {}", SUITES.map(|(name, _)| name).join(", "))]
    Unknown { name: String },
    #[error("suite {suite:?}, --dims {dimensions}")]
    Dimensions {
        suite: &'static str,
        dimensions: usize,
        #[source]
        source: BbobError,
    },
    #[error("--problems {name:?} is not a problem of the chosen suites, which contain {known}")]
    NoSuchProblem { name: String, known: String },
    #[error("suite \"tables\" needs a folder, --tables DIR; benches/tables/hpo_tables.sh writes one")]
    NoFolder,
    #[error("--tables")]
    Measured(#[from] MeasuredTablesError),
}

/// Problems of the suites `names` that pass `selection`, in suite order.
///
/// # Errors
/// [`SuiteError`].
pub fn tasks(names: &[String], selection: &Selection) -> Result<Vec<Task>, SuiteError> {
    let mut tasks = Vec::new();
    for name in names {
        match name.as_str() {
            "bbob" => {
                for (dimensions, function) in functions_of(&selection.dimensions) {
                    tasks.push(instances("bbob", dimensions, move |seed| bbob(function, dimensions, seed))?);
                }
            }
            "bbob-mixint" => {
                for (dimensions, function) in functions_of(&selection.dimensions) {
                    let make = move |seed| bbob_mixint(function, dimensions, seed);
                    tasks.push(instances("bbob-mixint", dimensions, make)?);
                }
            }
            "classic" => tasks.extend(fixed(name, functions::classic())),
            "noisy" => tasks.extend(fixed(name, noisy::noisy())),
            "outliers" => tasks.extend(fixed(name, outliers::outliers())),
            "conditional" => tasks.extend(fixed(name, conditional::conditional())),
            "categorical" => tasks.extend(fixed(name, categorical::categorical())),
            "constrained" => tasks.extend(fixed(name, constrained::constrained())),
            "failing" => tasks.extend(fixed(name, failing::failing())),
            "binary" => {
                tasks.extend(binary::binary().map(|make| by_instance(name, move |seed| Arc::new(make(seed)))));
            }
            "large" => tasks.extend(large::large().map(|make| by_instance(name, move |seed| Arc::from(make(seed))))),
            "plateaus" => {
                tasks.extend(plateaus::plateaus().map(|make| by_instance(name, move |seed| Arc::new(make(seed)))));
            }
            "tiny" => tasks.extend(tiny::tiny().map(|make| by_instance(name, move |seed| Arc::new(make(seed))))),
            "transfer" => {
                let problems = transfer::transfer().into_iter();
                tasks.extend(problems.map(|make| by_instance(name, move |seed| Arc::new(make(seed)))));
            }
            "three-objectives" => {
                let problems = multi_objective::three_objectives().into_iter();
                tasks.extend(problems.map(|make| by_instance(name, move |seed| Arc::new(make(seed)))));
            }
            "multi-objective" => tasks.extend(fixed(name, multi_objective::multi_objective())),
            TRAINED => tasks.extend(fixed(name, tables())),
            CURVES => tasks.extend(curve_tasks()),
            TABLES => {
                let folder = selection.tables.as_ref().ok_or(SuiteError::NoFolder)?;
                tasks.extend(measured_tables(folder)?.into_iter().map(|table| Task {
                    suite: name.clone(),
                    problem: table.name().to_owned(),
                    make: Box::new(move |seed| Arc::new(table.with_exchanged_levels(seed))),
                }));
            }
            _ => return Err(SuiteError::Unknown { name: name.clone() }),
        }
    }
    // Suites and dimensions may be repeated.
    let mut seen = BTreeSet::new();
    tasks.retain(|task| seen.insert((task.suite.clone(), task.problem.clone())));
    if selection.durations {
        tasks = tasks.into_iter().map(with_durations).collect();
    }
    if selection.problems.is_empty() {
        return Ok(tasks);
    }
    for name in &selection.problems {
        if !tasks.iter().any(|task| is_named(&task.problem, name)) {
            let mut known: Vec<&str> = tasks.iter().map(|task| family(&task.problem)).collect();
            known.dedup();
            return Err(SuiteError::NoSuchProblem { name: name.clone(), known: known.join(", ") });
        }
    }
    tasks.retain(|task| selection.problems.iter().any(|name| is_named(&task.problem, name)));
    Ok(tasks)
}

/// Task with the same problem for every seed.
pub fn fixed_task(suite: &str, problem: Arc<dyn Problem>) -> Task {
    Task { suite: suite.to_owned(), problem: problem.name().to_owned(), make: Box::new(move |_| Arc::clone(&problem)) }
}

fn fixed<P: Problem + 'static>(suite: &str, problems: Vec<P>) -> impl Iterator<Item = Task> {
    problems.into_iter().map(move |problem| fixed_task(suite, Arc::new(problem)))
}

/// Tables with curves and recipes, each with several numbers of reports.
fn curve_tasks() -> Vec<Task> {
    let mut tasks = Vec::new();
    let tables = tables().into_iter().filter(TableProblem::has_curves).map(Arc::new);
    for table in tables {
        let problems = curves::REPORTS.map(|reports| curves::WithReports::new(Arc::clone(&table), reports));
        tasks.extend(fixed(CURVES, problems.into()));
    }
    for make in curves::recipes() {
        tasks.extend(
            curves::REPORTS.map(|reports| {
                by_instance(CURVES, move |seed| Arc::new(curves::WithReports::new(make(seed), reports)))
            }),
        );
    }
    tasks
}

/// Task whose instance number is the seed.
fn by_instance(suite: &str, make: impl Fn(u64) -> Arc<dyn Problem> + Send + Sync + 'static) -> Task {
    let problem = make(1).name().to_owned();
    Task { suite: suite.to_owned(), problem, make: Box::new(make) }
}

/// Task of a function with instances. Constructs the first instance immediately, to detect invalid dimensions.
fn instances(
    suite: &'static str,
    dimensions: usize,
    make: impl Fn(u64) -> Result<BbobProblem, BbobError> + Send + Sync + 'static,
) -> Result<Task, SuiteError> {
    let first = make(1).map_err(|source| SuiteError::Dimensions { suite, dimensions, source })?;
    let make = move |seed| -> Arc<dyn Problem> {
        match make(seed) {
            Ok(problem) => Arc::new(problem),
            // Function and dimension are valid for instance 1, and every instance from 1 exists.
            Err(error) => unreachable!("{error}"),
        }
    };
    Ok(Task { suite: suite.to_owned(), problem: first.name().to_owned(), make: Box::new(make) })
}

/// Adds simulated durations; tables of trained models have recorded ones, and all trials of `curves` take equally long.
fn with_durations(task: Task) -> Task {
    if [TRAINED, CURVES].contains(&task.suite.as_str()) {
        return task;
    }
    let make = task.make;
    Task { make: Box::new(move |seed| Arc::new(WithDurations::new(make(seed)))), ..task }
}

fn functions_of(dimensions: &[usize]) -> impl Iterator<Item = (usize, u8)> {
    dimensions.iter().flat_map(|&dimensions| (1..=FUNCTIONS).map(move |function| (dimensions, function)))
}

fn is_named(problem: &str, name: &str) -> bool {
    problem == name || family(problem) == name
}

/// Name without its variant.
fn family(problem: &str) -> &str {
    problem.split('/').next().unwrap_or(problem)
}
