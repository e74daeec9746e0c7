//! The flags of tables, and the width of the terminal.

use clap::Args;

/// How a table is laid out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cli) struct Layout {
    /// Maximum width in characters; `None` for any width.
    pub(in crate::cli) width: Option<usize>,
    /// The columns to print, in this order; all if empty.
    pub(in crate::cli) columns: Vec<String>,
    /// Whether the command has the flag `--columns`.
    pub(in crate::cli) is_selectable: bool,
}

/// Flags of the commands that print a table.
#[derive(Debug, Clone, Args)]
pub(in crate::cli) struct TableArgs {
    /// Print all columns of a table, also if they do not fit the terminal.
    #[arg(long, conflicts_with = "columns")]
    wide: bool,
    /// Print only these columns of a table, in this order.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    columns: Vec<String>,
}

impl TableArgs {
    /// Returns the layout for standard output.
    pub(in crate::cli) fn layout(&self) -> Layout {
        Layout { columns: self.columns.clone(), is_selectable: true, ..Layout::of_all_columns(self.wide) }
    }
}

impl Layout {
    /// Returns the layout of several tables on standard output; `wide` ignores the width of the terminal.
    pub(in crate::cli) fn of_all_columns(wide: bool) -> Self {
        Self { width: if wide { None } else { terminal_width() }, columns: Vec::new(), is_selectable: false }
    }
}

/// Returns the number in `COLUMNS`, or else the width of the terminal that standard output is; `None` if it is none.
fn terminal_width() -> Option<usize> {
    let given =
        std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse::<usize>().ok()).filter(|width| *width > 0);
    given.or_else(|| {
        let (width, _) = terminal_size::terminal_size_of(std::io::stdout())?;
        Some(usize::from(width.0)).filter(|width| *width > 0)
    })
}
