//! `tunesmith bench list`: lists suites, problems and algorithms.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::cli::output::print;
use crate::cli::table::{Column, Layout, Table};
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
        let layout = Layout::of_all_columns(false);
        let mut suites = Table::new(vec![Column::text("SUITE"), Column::prose("PROBLEMS")]);
        for (name, meaning) in SUITES {
            suites.add_row(vec![name.to_owned(), meaning.to_owned()]);
        }
        let mut algorithms =
            Table::new(vec![Column::text("ALGORITHM"), Column::text("OPTIONS"), Column::prose("MEANING")]);
        for (name, options, meaning) in ALGORITHMS {
            // One option per line: side by side they exceed the width of a terminal.
            algorithms.add_row(vec![name.to_owned(), options.replace(", ", "\n"), meaning.to_owned()]);
        }
        text.push_str(&format!("{}\n{}", suites.render(&layout)?, algorithms.render(&layout)?));
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
