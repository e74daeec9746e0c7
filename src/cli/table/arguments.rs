//! Table flags and terminal width.

use clap::Args;

/// Layout of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Layout {
    /// Maximum width in characters; `None` for no limit.
    pub(in crate::cli) width: Option<usize>,
    /// Columns to print, in order; all if empty.
    pub(in crate::cli) columns: Vec<String>,
    /// Whether the command has the flag `--columns`.
    pub(in crate::cli) is_selectable: bool,
}

/// Flags of commands that print a table.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct TableArgs {
    /// Print all columns of a table, even if they do not fit the terminal.
    #[arg(long, conflicts_with = "columns")]
    wide: bool,
    /// Print only these columns of a table, in this order.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<String>,
}

impl TableArgs {
    /// Layout for standard output.
    pub(in crate::cli) fn layout(&self) -> Layout {
        Layout { columns: self.columns.clone(), is_selectable: true, ..Layout::of_all_columns(self.wide) }
    }
}

impl Layout {
    /// Layout for several tables on standard output; `wide` ignores the terminal width.
    pub(in crate::cli) fn of_all_columns(wide: bool) -> Self {
        Self { width: if wide { None } else { terminal_width() }, columns: Vec::new(), is_selectable: false }
    }
}

/// Number in `COLUMNS`, or else the terminal width of standard output; `None` if it is not a terminal.
fn terminal_width() -> Option<usize> {
    let given =
        std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok()).filter(|width| *width > 0);
    given.or_else(|| {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0)).filter(|width| *width > 0)
    })
}
