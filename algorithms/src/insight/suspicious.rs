//! Results that are not what the program should have measured.

use serde::Serialize;

use super::model::Row;
use crate::encoding::Encoding;
use crate::gp::{TrainingSet, fit};
use crate::problem::TrialId;
use crate::suspicion::{far_below, suspects, unexplained};

/// Trial whose result is too good to be true: it exceeds the best of all others by several times their range, and no
/// trial near it confirms it. The search and the analysis ignore it; a program that reports 0 after an error is a
/// frequent cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SuspiciousTrial {
    /// First trial at its point.
    pub trial: TrialId,
    /// Its result, in the units and orientation of the user.
    pub value: f64,
    /// Distance to the best of the other results, in their ranges.
    pub ranges: f64,
}

/// Removes the rows that are too good to be true, and returns them with their distances, best first.
pub(super) fn set_aside_suspects(encoding: &Encoding, rows: &mut Vec<Row>) -> Vec<(Row, f64)> {
    let points: Vec<&[f64]> = rows.iter().map(|row| row.point.as_slice()).collect();
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let found = suspects(encoding, &points, &values);
    let set_aside: Vec<(Row, f64)> =
        found.iter().map(|suspect| (rows[suspect.index].clone(), suspect.ranges)).collect();
    rows.retain(|row| set_aside.iter().all(|(suspect, _)| suspect.trial != row.trial));
    set_aside
}

/// Rows of `data` with the maximised `values`, except wildly bad ones that their points do not explain.
pub(super) fn explained_rows(data: &TrainingSet, values: &[f64]) -> Vec<usize> {
    let far = far_below(values);
    let others: Vec<usize> = (0..values.len()).filter(|row| !far.contains(row)).collect();
    if far.is_empty() {
        return others;
    }
    let removed = unexplained(data, &far, &others, &fit(&data.select(&others)));
    (0..values.len()).filter(|row| !removed.contains(row)).collect()
}
