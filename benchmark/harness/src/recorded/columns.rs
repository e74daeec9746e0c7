//! Columns of a CSV file of trials, classified by name.

use csv::StringRecord;

use super::RecordedError;

/// First columns of an exported study, in order; [`RECOMMENDED`], [`NOTE`] and the parameters follow.
pub(super) const EXPORT_COLUMNS: [&str; 8] =
    ["trial_id", "state", "objective_value", "training_step", "stopped_early", "reason", "start_time", "end_time"];
/// Next column of an export, which marks one trial; absent in files of earlier versions.
const RECOMMENDED: &str = "recommended";
/// Next column of an export in which a trial has a note.
const NOTE: &str = "note";
pub(super) const STATE: usize = 1;
pub(super) const OBJECTIVE_VALUE: usize = 2;
pub(super) const START_TIME: usize = 6;
pub(super) const END_TIME: usize = 7;

const SECONDS: &str = "seconds";

pub(super) struct Columns {
    /// Whether the file is an exported study.
    pub(super) exported: bool,
    /// Columns of the metrics, then of the constraints.
    pub(super) values: Vec<usize>,
    /// Column of durations.
    pub(super) seconds: Option<usize>,
    /// Step and column of each learning curve point, by step.
    pub(super) curve: Vec<(u64, usize)>,
    /// Names and columns of all others, in file order.
    pub(super) others: Vec<(String, usize)>,
}

impl Columns {
    /// Classifies the columns of `header`, which must contain `values`. A name in `parameters` is always a parameter.
    pub(super) fn new(header: &StringRecord, values: &[&str], parameters: &[&str]) -> Result<Self, RecordedError> {
        if header.iter().all(str::is_empty) {
            return Err(RecordedError::Empty);
        }
        let exported = header.len() >= EXPORT_COLUMNS.len() && header.iter().zip(EXPORT_COLUMNS).all(|(a, b)| a == b);
        // A parameter of an exported study may have the name of a fixed column.
        let fixed = EXPORT_COLUMNS.len();
        let is_of_export = |place: usize, column: &str| {
            exported
                && header.get(place) == Some(column)
                && (!parameters.contains(&column) || header.iter().skip(place + 1).any(|name| name == column))
        };
        let mut first = if exported { fixed } else { 0 };
        for column in [RECOMMENDED, NOTE] {
            first += usize::from(is_of_export(first, column));
        }
        let names: Vec<(usize, &str)> = header.iter().enumerate().skip(first).collect();
        for (place, (second, name)) in names.iter().enumerate() {
            if let Some((first, _)) = names[..place].iter().find(|(_, other)| other == name) {
                let (column, first, second) = ((*name).to_owned(), first + 1, second + 1);
                return Err(RecordedError::RepeatedColumn { column, first, second });
            }
        }
        let place_of = |name: &str| names.iter().find(|(_, other)| *other == name).map(|(place, _)| *place);
        let mut places = Vec::with_capacity(values.len());
        for &name in values {
            let of_metric = |name: &str| place_of(name).filter(|_| !parameters.contains(&name));
            // An exported study with one metric and no constraint has no column named after the metric.
            let place = match values {
                [_] if exported => Some(OBJECTIVE_VALUE),
                [_] => of_metric(name).or_else(|| of_metric(EXPORT_COLUMNS[OBJECTIVE_VALUE])),
                _ => of_metric(name),
            };
            places.push(place.ok_or_else(|| RecordedError::MissingColumn {
                column: name.to_owned(),
                columns: header.iter().map(str::to_owned).collect(),
            })?);
        }
        let mut columns = Self { exported, values: places, seconds: None, curve: Vec::new(), others: Vec::new() };
        for (place, name) in names {
            let is_parameter = parameters.contains(&name);
            if columns.values.contains(&place) {
                continue;
            } else if name == SECONDS && !is_parameter {
                columns.seconds = Some(place);
            } else if let Some(step) = curve_step(name, values).filter(|_| !is_parameter) {
                columns.curve.push((step, place));
            } else {
                columns.others.push((name.to_owned(), place));
            }
        }
        columns.curve.sort_unstable();
        Ok(columns)
    }

    pub(super) fn allowed(values: &[&str], parameters: &[&str]) -> Vec<String> {
        let named = parameters.iter().chain(values).copied();
        let mut allowed: Vec<String> = named.chain([SECONDS]).map(str::to_owned).collect();
        allowed.push(format!("{}@STEP", values[0]));
        allowed.extend(EXPORT_COLUMNS.map(str::to_owned));
        allowed
    }
}

/// Step of a column `METRIC@STEP`, for the first metric.
fn curve_step(name: &str, values: &[&str]) -> Option<u64> {
    let (metric, step) = name.rsplit_once('@')?;
    (metric == *values.first()?).then(|| step.parse().ok())?
}
