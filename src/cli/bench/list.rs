//! `tunesmith bench list`: lists suites, problems and algorithms.

use std::path::PathBuf;
use std::process::ExitCode;

use comfy_table::{Table, presets};

use crate::cli::output::print;
use tunesmith_harness::ALGORITHMS;
use tunesmith_harness::suites::{SUITES, Selection, tasks};

/// Arguments of `tunesmith bench list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List the problems of these suites instead.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    suite: Vec<String>,
    /// Numbers of parameters, for suites that allow any number.
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "5")]
    dims: Vec<usize>,
    /// Folder of the suite `tables`.
    #[arg(long, value_name = "DIR")]
    tables: Option<PathBuf>,
}

pub(super) fn run(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    if args.suite.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(["suite", "problems"]);
        table.add_rows(SUITES.map(|(name, meaning)| [name, meaning]));
        text.push_str(&format!("{table}\n\n"));
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header(["algorithm", "options", "meaning"]);
        // One option per line, because side by side they are wider than a terminal.
        let row = |(name, options, meaning): (&str, &str, &str)| {
            [name.to_owned(), options.replace(", ", "\n"), meaning.to_owned()]
        };
        table.add_rows(ALGORITHMS.map(row));
        text.push_str(&format!("{table}\n"));
    } else {
        let selection =
            Selection { dimensions: args.dims.clone(), tables: args.tables.clone(), ..Selection::default() };
        for task in tasks(&args.suite, &selection)? {
            text.push_str(&format!("{} {}\n", task.suite, task.problem));
        }
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}
