#![doc = include_str!("../README.md")]

mod columns;
mod contour;
mod curves;
mod distribution;
mod fields;
mod history;
mod model;
mod parallel;
mod pareto;
mod rank;
mod reduction;
mod rows;
mod slice;
mod source_studies;
mod table;
mod timeline;
mod values;

pub use columns::Columns;
pub use contour::{Contour, contour};
pub use curves::{Curve, Curves, curves, trials_of_curves};
pub use distribution::{Distribution, distribution};
pub use history::{History, Improvement, history};
pub use model::{Bar, Importances, Prediction, Recommendation, Trust, importances, modelled, recommendation, trust};
pub use parallel::{Dimension, ParallelCoordinates, parallel_coordinates};
pub use pareto::{ParetoFront, pareto_front};
pub use rank::{Rank, rank};
pub use reduction::{Density, Points};
pub use rows::Rows;
pub use slice::{Slice, slice};
pub use source_studies::{Relation, SourceStudies, SourceStudy};
pub use table::{Order, Table, TableRow, position, table};
pub use timeline::{Lane, Timeline, most_at_once, running_at_once, running_times, timeline};
pub use values::{Axis, AxisKind, Cell};

pub const DEFAULT_POINTS: usize = 2000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewError {
    /// Query parameter at fault.
    pub field: &'static str,
    pub message: String,
}
