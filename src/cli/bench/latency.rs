//! `tunesmith bench latency`: measures the time and memory of a suggestion.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::cli::output::{notice, print};
use crate::cli::table::{Column, Layout, Table};
use tunesmith_benchmark::problem::Problem;
use tunesmith_benchmark::problems::functions::ackley;
use tunesmith_harness::OptimizerSpec;
use tunesmith_harness::latency::{Latency, LatencyResult, LatencyRow, mixed_problem};

/// Arguments of `tunesmith bench latency`.
#[derive(Debug, clap::Args)]
pub(super) struct LatencyArgs {
    /// Built-in algorithms.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', default_value = "gp,random")]
    algorithms: Vec<String>,
    /// External optimizer: a program that reads and writes JSON lines. May be given several times.
    #[arg(long, value_name = "[NAME=]COMMAND")]
    external: Vec<String>,
    /// Measure on this many doubles (Ackley's function), not on six parameters of all kinds.
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u16).range(1..=1000))]
    dims: Option<u16>,
    /// Numbers of completed trials.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,50,100,200,500,1000,2000,5000,10000")]
    history: Vec<usize>,
    /// Number of measured steps at each number of trials. The median is reported, beside the first suggestion of the process.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Skip larger numbers of trials once a step took longer than this number of seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    step_limit: f64,
    /// Also write the rows to this file, one JSON object per line.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    /// Print all columns of a table, also if they do not fit the terminal.
    #[arg(long, conflicts_with = "markdown")]
    wide: bool,
}

pub(super) fn run(args: &LatencyArgs) -> anyhow::Result<ExitCode> {
    let own = args.algorithms.iter().filter(|text| !text.is_empty()).map(|text| OptimizerSpec::parse(text));
    let external = args.external.iter().map(|text| OptimizerSpec::external(text));
    let optimizers = own.chain(external).collect::<Result<Vec<_>, _>>()?;
    if optimizers.is_empty() {
        anyhow::bail!("no optimizer is given: use --algorithms or --external");
    }
    if !(args.step_limit > 0.0 && args.step_limit <= 1e6) {
        anyhow::bail!("--step-limit {}: it is more than 0 and at most 1000000 seconds", args.step_limit);
    }
    let mut histories = args.history.clone();
    histories.sort_unstable();
    histories.dedup();
    let latency = Latency {
        optimizers,
        histories,
        repeats: args.repeats.into(),
        step_limit: Duration::from_secs_f64(args.step_limit),
        // The first suggestion may have to process the whole history.
        answer_limit: Duration::from_secs_f64(args.step_limit * 20.0),
        program: std::env::current_exe()?,
    };
    let logs = tempfile::tempdir()?;
    let mut report = |row: &LatencyRow| notice(&format!("{} n={}: {}", row.optimizer, row.history, text(&row.result)));
    let problem: Box<dyn Problem> = match args.dims {
        Some(dimensions) => Box::new(ackley(dimensions.into())),
        None => Box::new(mixed_problem()?),
    };
    let rows = latency.run(problem.as_ref(), logs.path(), &mut report)?;
    if let Some(path) = &args.out {
        let mut lines = String::new();
        for row in &rows {
            lines.push_str(&serde_json::to_string(row)?);
            lines.push('\n');
        }
        std::fs::write(path, lines)?;
    }
    let table = table(&rows, &latency.histories);
    print(&if args.markdown { table.to_markdown() } else { table.render(&Layout::of_all_columns(args.wide))? })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a table with a row for each optimizer and a column for each number of completed trials.
fn table(rows: &[LatencyRow], histories: &[usize]) -> Table {
    let history = |(rank, history): (usize, &usize)| Column::text(format!("n = {history}")).may_be_left_out(rank);
    let columns = [Column::text("")].into_iter().chain(histories.iter().enumerate().map(history));
    let mut table = Table::new(columns.collect());
    for of_optimizer in rows.chunk_by(|a, b| a.optimizer == b.optimizer) {
        let cells = of_optimizer.iter().map(|row| text(&row.result));
        table.add_row([of_optimizer[0].optimizer.clone()].into_iter().chain(cells).collect());
    }
    table
}

fn text(result: &LatencyResult) -> String {
    match result {
        LatencyResult::Measured { wall_ms, processor_ms, memory_mib, first_wall_ms, first_processor_ms } => {
            let times = |wall: f64, processor: f64| format!("{} ms ({} ms cpu)", short(wall), short(processor));
            let first = first_wall_ms.zip(*first_processor_ms);
            let first = first.map(|(wall, processor)| format!(", first {}", times(wall, processor)));
            format!("{}{}, {memory_mib:.0} MiB", times(*wall_ms, *processor_ms), first.unwrap_or_default())
        }
        LatencyResult::LeftOut => "-".to_owned(),
        LatencyResult::Failed(reason) => format!("failed: {reason}"),
    }
}

/// Formats a number with two or three significant digits.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}
