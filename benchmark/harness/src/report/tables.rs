//! Tables of a comparison, independent of the output format.

use tunesmith_benchmark::analysis::{
    Change, Checkpoint, Comparison, Decision, GroupComparison, HandedOut, Standing, TIME_SHARES,
};

use super::format::{
    count, finding, gap, group_name, group_title, milliseconds, one, p_value, seconds, signed, threshold, two,
};

pub(super) struct Table {
    pub(super) header: Vec<String>,
    /// The first cell of each row is its name.
    pub(super) rows: Vec<Vec<Cell>>,
    /// Explains the numbers.
    pub(super) note: String,
}

#[derive(Clone)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// Emphasis of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Best of its column.
    Best,
    /// Better than the baseline.
    Better,
    /// Worse than the baseline, or failed.
    Worse,
}

impl Cell {
    fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    fn finding(found: Decision) -> Self {
        let tone = match found {
            Decision::Better => Tone::Better,
            Decision::Worse => Tone::Worse,
            Decision::NoDifference => Tone::Plain,
        };
        Self { text: finding(found).to_owned(), tone }
    }
}

fn header(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

/// Column of numbers with the best one emphasised; `None` is a dash.
fn column(values: &[Option<f64>], is_less_better: bool, text: impl Fn(f64) -> String) -> Vec<Cell> {
    let best = values.iter().flatten().copied().reduce(|a, b| if is_less_better { a.min(b) } else { a.max(b) });
    let best = best.map(&text);
    let cell = |value: &Option<f64>| {
        let Some(value) = value else { return Cell::plain("-") };
        let text = text(*value);
        // Cells with the same text are equally good.
        let tone = if best.as_ref() == Some(&text) && values.len() > 1 { Tone::Best } else { Tone::Plain };
        Cell { text, tone }
    };
    values.iter().map(cell).collect()
}

fn transposed(columns: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

/// Mean rank of each optimizer at the last checkpoint of each whole suite.
pub(super) fn overview(comparison: &Comparison) -> Table {
    let mut columns = vec![comparison.optimizers.iter().map(Cell::plain).collect::<Vec<Cell>>()];
    let mut names = vec!["optimizer".to_owned()];
    for group in whole_suites(comparison) {
        let Some(checkpoint) = group.checkpoints.last() else { continue };
        names.push(format!("{} @ {}", group.suite, checkpoint.evaluations));
        let rank = |optimizer: usize| {
            let mut standings = checkpoint.standings.iter();
            standings.find(|standing| standing.optimizer == optimizer).map(|standing| standing.mean_rank)
        };
        let ranks: Vec<Option<f64>> = (0..comparison.optimizers.len()).map(rank).collect();
        columns.push(column(&ranks, true, two));
    }
    let note = "Mean rank over the problems of each suite after the given number of evaluations; 1 is best.";
    Table { header: names, rows: transposed(columns), note: note.to_owned() }
}

/// The first group of each suite contains all its problems.
pub(super) fn whole_suites(comparison: &Comparison) -> impl Iterator<Item = &GroupComparison> {
    let mut last: Option<&str> = None;
    comparison.groups.iter().filter(move |group| last.replace(&group.suite) != Some(&group.suite))
}

/// Optimizers of a checkpoint, best first.
pub(super) fn standings(comparison: &Comparison, checkpoint: &Checkpoint) -> Table {
    let rows = &checkpoint.standings;
    let names = rows.iter().map(|row| Cell::plain(&comparison.optimizers[row.optimizer])).collect();
    let of = |value: &dyn Fn(&Standing) -> Option<f64>| -> Vec<Option<f64>> { rows.iter().map(value).collect() };
    let columns = vec![
        names,
        column(&of(&|row| Some(row.mean_rank)), true, two),
        column(&of(&|row| Some(row.mean_log_gap)), true, two),
        column(&of(&|row| Some(row.coarse_mean_log_gap)), true, two),
        column(&of(&|row| row.normalised_score), false, one),
        rows.iter().map(|row| Cell::plain(row.runs.to_string())).collect(),
    ];
    let coarse = format!("log10 gap, floor {}", threshold(comparison.coarse_floor));
    let mut header = header(&["optimizer", "mean rank", "log10 gap", "", "score", "runs"]);
    header[3] = coarse;
    Table { header, rows: transposed(columns), note: standings_note(comparison, checkpoint) }
}

fn standings_note(comparison: &Comparison, checkpoint: &Checkpoint) -> String {
    let mut note = format!("Means over {} that all have.", count(checkpoint.problems, "problem"));
    if let Some(ranking) = &checkpoint.ranking {
        note.push_str(&format!(
            " Friedman p {}; ranks less than {} apart do not differ (Nemenyi, level {}).",
            p_value(ranking.friedman_p),
            two(ranking.critical_difference),
            comparison.significance
        ));
        for clique in &ranking.cliques {
            let names: Vec<&str> = clique.iter().map(|&optimizer| comparison.optimizers[optimizer].as_str()).collect();
            note.push_str(&format!(" No difference among: {}.", names.join(", ")));
        }
    }
    for partial in &checkpoint.partial {
        note.push_str(&format!(
            " {} has results on {} only and is compared in pairs alone.",
            comparison.optimizers[partial.optimizer],
            count(partial.problems, "problem")
        ));
    }
    note
}

pub(super) fn pairs(comparison: &Comparison, checkpoint: &Checkpoint) -> Table {
    let baseline = &comparison.optimizers[comparison.baseline];
    let rows = checkpoint.pairs.iter().map(|pair| {
        vec![
            Cell::plain(&comparison.optimizers[pair.optimizer]),
            Cell::finding(pair.test.finding),
            Cell::plain(difference(pair.test.difference, pair.test.standard_error)),
            Cell::plain(format!("{} to {}", signed(pair.test.low), signed(pair.test.high))),
            Cell::plain(format!("{} / {}", pair.wins, pair.losses)),
            Cell::plain(p_value(pair.test.adjusted_p)),
            Cell::plain(signed(pair.test.effect)),
            Cell::plain(pair.test.problems.to_string()),
        ]
    });
    let mut names =
        header(&["optimizer", "", "log10 gap ± SE", "interval", "wins / losses", "p", "effect", "problems"]);
    names[1] = format!("than {baseline}");
    let note = format!(
        "Difference of log10 gaps to {baseline}, over the problems both have; below 0 is better. p of Wilcoxon's \
         signed-rank test, adjusted by Holm; effect is the rank-biserial correlation. A difference inside the noise is \
         none."
    );
    Table { header: names, rows: rows.collect(), note }
}

fn difference(value: f64, standard_error: Option<f64>) -> String {
    match standard_error {
        Some(error) => format!("{} ± {}", signed(value), two(error)),
        None => signed(value),
    }
}

/// Tables of a group beyond those of its checkpoints, with their titles.
pub(super) fn further_tables(
    comparison: &Comparison,
    group: &GroupComparison,
) -> impl Iterator<Item = (&'static str, Table)> {
    let tables = [
        ("Suggestion time", suggestion_times(comparison, group)),
        ("Simulated time", simulated_times(comparison, group)),
        ("Handed out", handed_out(comparison, group)),
    ];
    tables.into_iter().filter_map(|(title, table)| Some((title, table?)))
}

/// Median and p90 of suggestion times; `None` if not recorded.
fn suggestion_times(comparison: &Comparison, group: &GroupComparison) -> Option<Table> {
    let mut bins: Vec<(usize, usize)> = group.suggestion_times.iter().map(|time| (time.from, time.to)).collect();
    bins.sort_unstable();
    bins.dedup();
    let mut header = vec!["optimizer".to_owned()];
    header.extend(bins.iter().map(|(from, to)| match *to {
        usize::MAX => format!("from {from}"),
        to => format!("{from} to {}", to - 1),
    }));
    let mut rows = Vec::new();
    for (optimizer, name) in comparison.optimizers.iter().enumerate() {
        let find =
            |from: usize| group.suggestion_times.iter().find(|time| time.optimizer == optimizer && time.from == from);
        let cell = |(from, _): &(usize, usize)| match find(*from) {
            Some(time) => Cell::plain(format!("{} / {}", milliseconds(time.median_ms), milliseconds(time.p90_ms))),
            None => Cell::plain("-"),
        };
        if group.suggestion_times.iter().any(|time| time.optimizer == optimizer) {
            rows.push(std::iter::once(Cell::plain(name)).chain(bins.iter().map(cell)).collect());
        }
    }
    let note = "Wall time of a suggestion, median / 90th percentile, by the number of results before it. A batch counts \
                as one.";
    (!rows.is_empty()).then(|| Table { header, rows, note: note.to_owned() })
}

/// Simulated time relative to the baseline; `None` if only the baseline has any.
fn simulated_times(comparison: &Comparison, group: &GroupComparison) -> Option<Table> {
    let baseline = &comparison.optimizers[comparison.baseline];
    let times = &group.simulated_times;
    let any_stopped = times.iter().any(|time| time.stopped_early > 0.0);
    let mut header = header(&["optimizer", "reached", "time to reach", "total", "total / baseline", "stopped early"]);
    let mut note = format!(
        "Over pairs of runs of one problem and seed: how many reached the final result of {baseline}; the median time to \
         it, as a multiple of the time {baseline} took; simulated time of whole runs; trials stopped early."
    );
    if any_stopped {
        header.extend(TIME_SHARES.map(|share| format!("finished by {:.0}%", 100.0 * share)));
        note.push_str(&format!(
            " Finished by: log10 gap of the best trial that had run to its end by that share of the time of {baseline}'s run, \
             floored at {}; a run that has spent its budget keeps its gap.",
            threshold(comparison.coarse_floor)
        ));
    }
    let rows = times.iter().map(|time| {
        let mut cells = vec![
            Cell::plain(&comparison.optimizers[time.optimizer]),
            Cell::plain(format!("{} of {}", time.reached, time.pairs)),
            Cell::plain(time.median_time_ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))),
            Cell::plain(seconds(time.mean_total_secs)),
            Cell::plain(format!("{:.2}", time.mean_total_secs / time.baseline_total_secs)),
            Cell::plain(format!("{:.0}%", 100.0 * time.stopped_early)),
        ];
        let gaps = time.finished_log10_gaps.iter().filter(|_| any_stopped);
        cells.extend(gaps.map(|gap| Cell::plain(gap.map_or_else(|| "-".to_owned(), |gap| format!("{gap:.2}")))));
        cells
    });
    (times.len() > 1).then(|| Table { header, rows: rows.collect(), note })
}

/// Quality of the trials recommended to the user on noisy problems; `None` if not recorded.
fn handed_out(comparison: &Comparison, group: &GroupComparison) -> Option<Table> {
    let mut checkpoints: Vec<usize> = group.handed_out.iter().map(|row| row.evaluations).collect();
    checkpoints.sort_unstable();
    checkpoints.dedup();
    let mut header = header(&["problem", "optimizer", "runs"]);
    header.extend(checkpoints.iter().map(|evaluations| format!("after {evaluations}")));
    let of_one = |a: &&HandedOut, b: &&HandedOut| (&a.problem, a.optimizer) == (&b.problem, b.optimizer);
    let all: Vec<&HandedOut> = group.handed_out.iter().collect();
    let rows = all.chunk_by(|a, b| of_one(a, b)).map(|rows| {
        let runs = rows.iter().map(|row| row.runs).max().unwrap_or(0);
        let mut cells = vec![
            Cell::plain(&rows[0].problem),
            Cell::plain(&comparison.optimizers[rows[0].optimizer]),
            Cell::plain(runs.to_string()),
        ];
        cells.extend(checkpoints.iter().map(|evaluations| {
            let row = rows.iter().find(|row| row.evaluations == *evaluations);
            Cell::plain(row.map_or_else(
                || "-".to_owned(),
                |row| {
                    let recommended = row.recommended.map_or_else(|| "-".to_owned(), gap);
                    format!("{} / {} / {recommended}", gap(row.found), gap(row.observed))
                },
            ))
        }));
        cells
    });
    let note = "Median gap over runs of the best tried point, which a user does not know, of the trial with the best observed \
                value, and of the recommended one: the tried point with the best mean of a Gaussian process.";
    (!all.is_empty()).then(|| Table { header, rows: rows.collect(), note: note.to_owned() })
}

/// Failed runs and unsupported problems; `None` without any.
pub(super) fn failures(comparison: &Comparison) -> Option<Table> {
    let rows = comparison.failures.iter().map(|failure| {
        let (kind, tone) =
            if failure.is_unsupported { ("not supported", Tone::Plain) } else { ("failed", Tone::Worse) };
        vec![
            Cell::plain(&failure.optimizer),
            Cell { text: kind.to_owned(), tone },
            Cell::plain(&failure.suite),
            Cell::plain(failure.runs.to_string()),
            Cell::plain(failure.problems.to_string()),
            Cell::plain(&failure.example),
            Cell::plain(&failure.reason),
        ]
    });
    let header = header(&["optimizer", "kind", "suite", "runs", "problems", "first", "reason"]);
    let note = "A run that failed keeps its last result up to the budget. An optimizer is left out where it does not \
                support the problem.";
    (!comparison.failures.is_empty()).then(|| Table { header, rows: rows.collect(), note: note.to_owned() })
}

pub(super) fn change(change: &Change) -> Table {
    let rows = change.rows.iter().map(|row| {
        vec![
            Cell::plain(&row.optimizer),
            Cell::plain(group_name(&row.suite, row.dimension)),
            Cell::finding(row.test.finding),
            Cell::plain(difference(row.test.difference, row.test.standard_error)),
            Cell::plain(format!("{} to {}", signed(row.test.low), signed(row.test.high))),
            Cell::plain(p_value(row.test.adjusted_p)),
            Cell::plain(signed(row.test.effect)),
            Cell::plain(row.test.problems.to_string()),
            Cell::plain(row.pairs.to_string()),
            Cell::plain(row.evaluations.to_string()),
        ]
    });
    let names = [
        "optimizer",
        "group",
        "new is",
        "log10 gap ± SE",
        "interval",
        "p",
        "effect",
        "problems",
        "pairs",
        "evaluations",
    ];
    let note = format!(
        "New log10 gap minus old, floored at {}, mean over problems; below 0 is better. p of Wilcoxon's signed-rank test \
         over problems, adjusted by Holm; level {}.",
        threshold(change.floor),
        change.significance
    );
    Table { header: header(&names), rows: rows.collect(), note }
}

/// Notes on methods, common to all reports.
pub(super) fn method(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![
        format!(
            "The gap is the distance from the best value so far to the best known one: the optimum or, where none is \
             known, the best that any run found; for several metrics the hypervolume that is missing. log10 gaps are \
             floored at {}, at {} without a known optimum.",
            threshold(comparison.floor),
            threshold(comparison.coarse_floor)
        ),
        "Before the first feasible result the gap is the worst of any result on the problem.".to_owned(),
        "Seeds that all compared optimizers have are averaged within each problem first; tests are over problems."
            .to_owned(),
    ];
    if let Some(random) = comparison.random {
        lines.push(format!("The score has {} at 0 and the best known value at 100.", comparison.optimizers[random]));
    }
    if !comparison.without_result.is_empty() {
        lines.push(format!("Left out, as nothing feasible was found: {}.", comparison.without_result.join(", ")));
    }
    lines
}

/// One sentence on the extent of the comparison.
pub(super) fn extent(comparison: &Comparison) -> String {
    let problems: usize = whole_suites(comparison).map(|group| group.problems).sum();
    format!(
        "{}, {}, {}; each is tested against {}.",
        count(comparison.optimizers.len(), "optimizer"),
        count(problems, "problem"),
        count(comparison.runs, "run"),
        comparison.optimizers[comparison.baseline]
    )
}

pub(super) fn checkpoint_title(group: &GroupComparison, checkpoint: &Checkpoint) -> String {
    format!("{}, after {}", group_title(group), count(checkpoint.evaluations, "evaluation"))
}
