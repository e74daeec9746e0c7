//! The cost of a suggestion: encoding, fitting the Gaussian process, maximising the acquisition function, and all
//! together, for a space of six mixed parameters; beside it the algorithms that learn nothing, late in a long study.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails has nothing to measure")]

use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use nalgebra::DMatrix;
use tunesmith_algorithms::acquisition::{
    Acquisition, AcquisitionFunction, Axis, Criterion as Valuation, FANTASY_SAMPLES, Region, Search,
};
use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::{GpBandit, GridSearch, RandomSearch};
use tunesmith_algorithms::encoding::{Encoding, FeatureKind};
use tunesmith_algorithms::gp::{Hyperparameters, Posterior, TrainingSet, fit};
use tunesmith_algorithms::numerics::triangular::InverseFactor;
use tunesmith_algorithms::output_warp::warp;
use tunesmith_algorithms::problem::{
    CompletedTrial, Goal, MetricSpec, ParameterKind, ParameterSpec, ParameterValues, PendingTrial, ProblemStatement,
    ScaleType, SearchSpace, TrialId, TrialOutcome,
};
use tunesmith_benchmark::problem::Problem;

#[path = "measure/commands/problem.rs"]
mod problem_of_latency;

const SEED: u64 = 1;

/// Three doubles, an integer, a list and a category: the problem of `measure latency`.
fn mixed_problem() -> ProblemStatement {
    problem_of_latency::mixed_problem().unwrap().statement().clone()
}

/// 4,000,000 points.
fn grid_problem() -> ProblemStatement {
    let integer = |max| ParameterKind::Integer { min: 1, max, scale: ScaleType::UnitLinear };
    problem(vec![("a", integer(200)), ("b", integer(200)), ("c", integer(100))])
}

fn problem(kinds: Vec<(&str, ParameterKind)>) -> ProblemStatement {
    let parameters = kinds.into_iter().map(|(name, kind)| ParameterSpec::new(name, kind).unwrap()).collect();
    let metric = MetricSpec { name: "loss".to_owned(), goal: Goal::Minimize };
    ProblemStatement::new(SearchSpace::new(parameters).unwrap(), vec![metric]).unwrap()
}

/// A waved bowl over the coordinates; categories count too.
fn loss(encoding: &Encoding, point: &ParameterValues) -> f64 {
    let term = |(j, u): (usize, f64)| match encoding.features()[j].kind {
        FeatureKind::Categorical { .. } => 0.1 * u,
        _ => (u - 0.3 - 0.1 * j as f64).powi(2) + 0.05 * (9.0 * u).sin(),
    };
    encoding.encode(point).unwrap().into_iter().enumerate().map(term).sum()
}

/// `n` random points with their losses.
fn history(problem: &ProblemStatement, n: usize) -> Vec<CompletedTrial> {
    history_of(&RandomSearch::new(problem, SEED), problem, n)
}

/// The first `n` points of `designer` with their losses.
fn history_of(designer: &dyn Designer, problem: &ProblemStatement, n: usize) -> Vec<CompletedTrial> {
    let encoding = Encoding::new(problem.search_space());
    let request = SuggestRequest { first_trial_id: TrialId::FIRST, count: NonZeroUsize::new(n).unwrap() };
    let points = designer.suggest(History::default(), request).unwrap();
    let complete = |(index, parameters): (usize, ParameterValues)| {
        let outcome = TrialOutcome::measured(vec![loss(&encoding, &parameters)]);
        CompletedTrial { id: TrialId::FIRST.offset(index as u64), parameters, outcome }
    };
    points.into_iter().map(|suggestion| suggestion.parameters).enumerate().map(complete).collect()
}

fn training_set(encoding: &Encoding, trials: &[CompletedTrial]) -> TrainingSet {
    let points: Vec<Vec<f64>> = trials.iter().map(|trial| encoding.encode(&trial.parameters).unwrap()).collect();
    let losses: Vec<f64> = trials.iter().map(|trial| -loss(encoding, &trial.parameters)).collect();
    TrainingSet {
        points: DMatrix::from_fn(points.len(), encoding.dimensions(), |row, j| points[row][j]),
        values: warp(&losses, false),
        noise_weights: vec![1.0; points.len()],
        added_noise: vec![0.0; points.len()],
        noise: Default::default(),
        categorical: Region::whole(encoding).axes.iter().map(|axis| matches!(axis, Axis::Levels(_))).collect(),
    }
}

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group
}

fn encoding(criterion: &mut Criterion) {
    let problem = mixed_problem();
    let encoding = Encoding::new(problem.search_space());
    let values = history(&problem, 1).remove(0).parameters;
    let vector = encoding.encode(&values).unwrap();
    let mut group = group(criterion, "search/encoding");
    group.bench_function("encode", |bencher| bencher.iter(|| encoding.encode(black_box(&values)).unwrap()));
    group.bench_function("decode", |bencher| bencher.iter(|| encoding.decode(black_box(&vector))));
    group.finish();
}

fn fitting(criterion: &mut Criterion) {
    let problem = mixed_problem();
    let encoding = Encoding::new(problem.search_space());
    let mut group = group(criterion, "search/fit");
    for n in [50, 100, 200] {
        let data = training_set(&encoding, &history(&problem, n));
        group.bench_function(BenchmarkId::from_parameter(n), |bencher| bencher.iter(|| fit(black_box(&data))));
    }
    group.finish();
}

/// Our blocked factor with its inverse, which every fit and model needs, beside nalgebra's factor alone.
fn factorising(criterion: &mut Criterion) {
    let mut group = group(criterion, "search/factorisation");
    for n in [100, 256, 512, 1000] {
        let entry = |i: usize, j: usize| (-(i.abs_diff(j) as f64) / 9.0).exp() + if i == j { 0.1 } else { 0.0 };
        let matrix = DMatrix::from_fn(n, n, entry);
        group.bench_function(BenchmarkId::new("ours, with inverse", n), |bencher| {
            bencher.iter(|| InverseFactor::new(black_box(matrix.clone())).unwrap());
        });
        group.bench_function(BenchmarkId::new("nalgebra", n), |bencher| {
            bencher.iter(|| black_box(matrix.clone()).cholesky().unwrap());
        });
    }
    group.finish();
}

/// The kernels under every search: covariances, predictions with and without gradients, one more pending trial.
fn predicting(criterion: &mut Criterion) {
    let problem = mixed_problem();
    let encoding = Encoding::new(problem.search_space());
    let probes = training_set(&encoding, &history(&problem, 1000)).points;
    let few = probes.rows(0, 7).clone_owned();
    let mut group = group(criterion, "search/prediction");
    for n in [50, 100, 500] {
        let data = training_set(&encoding, &history(&problem, n));
        let model = Hyperparameters::default_for(&data.categorical);
        let posterior = Posterior::new(model.clone(), &data).unwrap();
        let best = data.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut acquisition = AcquisitionFunction::new(posterior.clone(), Valuation::default(), best, None);
        group.bench_function(BenchmarkId::new("covariances with 1000", n), |bencher| {
            bencher.iter(|| model.kernel.cross(black_box(&data.points), &probes));
        });
        group.bench_function(BenchmarkId::new("posterior", n), |bencher| {
            bencher.iter(|| Posterior::new(model.clone(), black_box(&data)).unwrap());
        });
        group.bench_function(BenchmarkId::new("1000 predictions", n), |bencher| {
            bencher.iter(|| posterior.predict(black_box(&probes)));
        });
        group.bench_function(BenchmarkId::new("7 gradients", n), |bencher| {
            bencher.iter(|| acquisition.values_and_gradients(black_box(&few)));
        });
        let normals: Vec<f64> = (0..FANTASY_SAMPLES).map(|s| (s as f64).sin()).collect();
        let pending: Vec<f64> = probes.row(8).iter().copied().collect();
        group.bench_function(BenchmarkId::new("pending trial", n), |bencher| {
            bencher.iter(|| acquisition.clone().add_pending(black_box(&pending), &normals));
        });
        acquisition.add_pending(&pending, &normals);
        group.bench_function(BenchmarkId::new("7 gradients, 1 pending", n), |bencher| {
            bencher.iter(|| acquisition.values_and_gradients(black_box(&few)));
        });
    }
    group.finish();
}

fn acquisition(criterion: &mut Criterion) {
    let problem = mixed_problem();
    let encoding = Encoding::new(problem.search_space());
    let trials = history(&problem, 100);
    let data = training_set(&encoding, &trials);
    let model = fit(&data);
    let best = (0..data.values.len()).max_by(|&a, &b| data.values[a].total_cmp(&data.values[b])).unwrap();
    let posterior = Posterior::new(model.clone(), &data).unwrap();
    let acquisition = AcquisitionFunction::new(posterior, Valuation::default(), data.values[best], None);
    let anchors = [data.points.row(best).iter().copied().collect::<Vec<f64>>()];
    let used: HashSet<_> = trials.iter().map(|trial| encoding.key(&trial.parameters).unwrap()).collect();
    let search = Search {
        encoding: &encoding,
        region: &Region::whole(&encoding),
        scales: &model.lengthscales(),
        anchors: &anchors,
        prior: None,
        used: &used,
        seed: SEED,
        trial: TrialId(101),
    };
    let mut group = group(criterion, "search/acquisition");
    group.bench_function("screen and maximise, n = 100", |bencher| {
        bencher.iter(|| search.maximize(black_box(&acquisition)).unwrap());
    });
    group.finish();
}

fn suggestion(criterion: &mut Criterion) {
    let problem = mixed_problem();
    let bandit = GpBandit::new(problem.clone(), SEED).unwrap();
    let mut group = group(criterion, "search/gp_bandit");
    for n in [10, 50, 100, 200, 500, 1000, 5000] {
        let completed = history(&problem, n);
        let request = SuggestRequest::one(TrialId(n as u64 + 1));
        group.bench_function(BenchmarkId::from_parameter(n), |bencher| {
            bencher.iter(|| bandit.suggest(History { completed: &completed, pending: &[] }, request).unwrap());
        });
    }
    for n in [50, 100, 500] {
        let completed = history(&problem, n);
        let request =
            SuggestRequest { count: NonZeroUsize::new(8).unwrap(), ..SuggestRequest::one(TrialId(n as u64 + 1)) };
        group.bench_function(BenchmarkId::new("batch of 8", n), |bencher| {
            bencher.iter(|| bandit.suggest(History { completed: &completed, pending: &[] }, request).unwrap());
        });
    }
    let trials = history(&problem, 108);
    let pending: Vec<_> =
        trials[100..].iter().map(|trial| PendingTrial { id: trial.id, parameters: trial.parameters.clone() }).collect();
    let request = SuggestRequest::one(TrialId(109));
    group.bench_function("100, 8 pending", |bencher| {
        bencher.iter(|| bandit.suggest(History { completed: &trials[..100], pending: &pending }, request).unwrap());
    });
    group.finish();
}

fn without_learning(criterion: &mut Criterion) {
    const TRIALS: usize = 10_000;
    let problem = grid_problem();
    let random = RandomSearch::new(&problem, SEED);
    let grid = GridSearch::new(&problem, &BTreeMap::new()).unwrap();
    let mut group = group(criterion, "search/10000_trials");
    let designers: [(&str, &dyn Designer); 2] = [("random", &random), ("grid", &grid)];
    for (name, designer) in designers {
        let completed = history_of(designer, &problem, TRIALS);
        let request = SuggestRequest::one(TrialId(TRIALS as u64 + 1));
        group.bench_function(name, |bencher| {
            bencher.iter(|| designer.suggest(History { completed: &completed, pending: &[] }, request).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, encoding, fitting, factorising, predicting, acquisition, suggestion, without_learning);
criterion_main!(benches);
