//! The cost of the benchmark itself, beside the algorithms that it compares: problems, hypervolumes, tests, reports.
#![expect(clippy::unwrap_used, reason = "a benchmark that fails has nothing to measure")]

use std::hint::black_box;
use std::num::NonZeroUsize;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use tunesmith_algorithms::designer::{Designer, History, SuggestRequest};
use tunesmith_algorithms::designers::RandomSearch;
use tunesmith_algorithms::hypervolume::hypervolume_curve;
use tunesmith_algorithms::problem::{Goal, ParameterValues, ProblemStatement, TrialId};
use tunesmith_benchmark::problem::{Draw, Problem};
use tunesmith_benchmark::problems::bbob::bbob;
use tunesmith_harness::suites::{Selection, tasks};
use tunesmith_statistics::bootstrap::bootstrap_interval;
use tunesmith_statistics::summary::mean;
use tunesmith_statistics::wilcoxon::wilcoxon;

const DRAW: Draw = Draw { seed: 1, trial: TrialId(1) };

/// Some points of the space.
fn points(statement: &ProblemStatement, count: usize) -> Vec<ParameterValues> {
    let request = SuggestRequest { first_trial_id: TrialId(1), count: NonZeroUsize::new(count).unwrap() };
    let suggestions = RandomSearch::new(statement, 1).suggest(History::default(), request).unwrap();
    suggestions.into_iter().map(|suggestion| suggestion.parameters).collect()
}

fn problems(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evaluate");
    // The cheapest, a rotated one, and the dearest of the functions.
    for function in [1, 10, 21] {
        let problem = bbob(function, 10, 1).unwrap();
        let points = points(problem.statement(), 64);
        let mut next = points.iter().cycle();
        group.bench_function(BenchmarkId::new("bbob d=10", function), |bencher| {
            bencher.iter(|| problem.evaluate(black_box(next.next().unwrap()), DRAW));
        });
    }
    let trained = tasks(&["trained".to_owned()], &Selection::default()).unwrap();
    let problem = (trained[0].make)(1);
    let points = points(problem.statement(), 64);
    let mut next = points.iter().cycle();
    group.bench_function(BenchmarkId::new("table", &trained[0].problem), |bencher| {
        bencher.iter(|| problem.evaluate(black_box(next.next().unwrap()), DRAW));
    });
    group.finish();
    criterion.bench_function("construct bbob 21 d=10", |bencher| bencher.iter(|| bbob(21, 10, black_box(1)).unwrap()));
}

fn statistics(criterion: &mut Criterion) {
    let goals = [Goal::Minimize; 3];
    // Spread over a simplex, so that none dominates another.
    let front: Vec<Vec<f64>> = (0..200)
        .map(|index| f64::from(index) / 199.0)
        .map(|share| vec![share, (1.0 - share) * 0.5, (1.0 - share) * 0.5 + 0.1 * (20.0 * share).sin().abs()])
        .collect();
    criterion.bench_function("hypervolume after each of 200 trials, 3 metrics", |bencher| {
        bencher.iter(|| {
            hypervolume_curve(&goals, &[2.0; 3], black_box(&front).iter().map(|values| Some(values.as_slice())))
        });
    });
    let differences: Vec<f64> = (1..=48).map(|index| f64::from(index).sin() + 0.2).collect();
    criterion.bench_function("wilcoxon, 48 pairs, exact", |bencher| {
        bencher.iter(|| wilcoxon(black_box(&differences)).unwrap());
    });
    criterion.bench_function("bootstrap of a mean, 48 values, 1000 resamples", |bencher| {
        bencher.iter_batched(
            || differences.clone(),
            |sample| bootstrap_interval(&sample, mean, 0.95, 1000, 1).unwrap(),
            BatchSize::SmallInput,
        );
    });
}

criterion_group!(benches, problems, statistics);
criterion_main!(benches);
