//! `tunesmith bench latency`: measures the time and memory of a suggestion.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use comfy_table::{Table, presets};

use crate::cli::output::{notice, print};
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
    /// Numbers of completed trials.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "10,50,100,200,500,1000,2000,5000,10000")]
    history: Vec<usize>,
    /// Number of measured steps at each number of trials. The median is reported.
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
    let rows = latency.run(&mixed_problem()?, logs.path(), &mut report)?;
    if let Some(path) = &args.out {
        let mut lines = String::new();
        for row in &rows {
            lines.push_str(&serde_json::to_string(row)?);
            lines.push('\n');
        }
        std::fs::write(path, lines)?;
    }
    print(&format!("{}\n", table(&rows, &latency.histories, args.markdown)))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns a table with a row for each optimizer and a column for each number of completed trials.
fn table(rows: &[LatencyRow], histories: &[usize], markdown: bool) -> Table {
    let mut table = Table::new();
    let header = histories.iter().map(|history| format!("n = {history}"));
    let style = if markdown { presets::ASCII_MARKDOWN } else { presets::UTF8_HORIZONTAL_ONLY };
    table.load_style(style).set_header([String::new()].into_iter().chain(header));
    for of_optimizer in rows.chunk_by(|a, b| a.optimizer == b.optimizer) {
        let cells = of_optimizer.iter().map(|row| text(&row.result));
        table.add_row([of_optimizer[0].optimizer.clone()].into_iter().chain(cells));
    }
    table
}

fn text(result: &LatencyResult) -> String {
    match result {
        LatencyResult::Measured { wall_ms, processor_ms, memory_mib } => {
            format!("{} ms ({} ms cpu), {memory_mib:.0} MiB", short(*wall_ms), short(*processor_ms))
        }
        LatencyResult::LeftOut => "-".to_owned(),
        LatencyResult::Failed(reason) => format!("failed: {reason}"),
    }
}

/// Formats a number with two or three significant digits.
fn short(number: f64) -> String {
    if number < 10.0 { format!("{number:.2}") } else { format!("{number:.0}") }
}
