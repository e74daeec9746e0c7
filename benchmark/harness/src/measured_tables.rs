//! Complete tables in a folder, each a pair of files: `NAME.yaml` with the search space in the format of
//! `hptuning_config.yaml`, and `NAME.csv` with a row per measurement. [`super::recorded`] describes the columns.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use tunesmith_benchmark::problems::measured_table::{MeasuredTable, MeasuredTableError};

use super::recorded::{RecordedError, read_rows};
use tunesmith_config::ConfigErrors;

#[derive(Debug, thiserror::Error)]
pub enum MeasuredTablesError {
    #[error("{} cannot be read", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} has no table, which is a pair of files NAME.yaml and NAME.csv", folder.display())]
    None { folder: PathBuf },
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{} has no hyperparameters", path.display())]
    NoStudy { path: PathBuf },
    #[error("{}", path.display())]
    Row {
        path: PathBuf,
        #[source]
        source: Box<RecordedError>,
    },
    #[error("{}, row {row}: a measurement is one finite number", path.display())]
    NoValue {
        path: PathBuf,
        /// Row number below the header, from 1.
        row: usize,
    },
    #[error("{}", path.display())]
    Table {
        path: PathBuf,
        #[source]
        source: MeasuredTableError,
    },
}

/// Tables of `folder`, by name.
///
/// # Errors
/// [`MeasuredTablesError`] for the first unreadable or invalid file.
pub(super) fn measured_tables(folder: &Path) -> Result<Vec<MeasuredTable>, MeasuredTablesError> {
    let failed = |source| MeasuredTablesError::Read { path: folder.to_owned(), source };
    let entries = folder.read_dir().map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut configurations: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    configurations.retain(|path| path.extension() == Some(OsStr::new("yaml")));
    configurations.sort();
    if configurations.is_empty() {
        return Err(MeasuredTablesError::None { folder: folder.to_owned() });
    }
    configurations.iter().map(|path| measured_table(path)).collect()
}

fn measured_table(configuration: &Path) -> Result<MeasuredTable, MeasuredTablesError> {
    let study = tunesmith_config::load(configuration)?.study;
    let study = study.ok_or_else(|| MeasuredTablesError::NoStudy { path: configuration.to_owned() })?;
    let statement = study.study.problem;
    let path = configuration.with_extension("csv");
    let file = File::open(&path).map_err(|source| MeasuredTablesError::Read { path: path.clone(), source })?;
    let rows = read_rows(BufReader::new(file), &statement);
    let rows = rows.map_err(|source| MeasuredTablesError::Row { path: path.clone(), source: Box::new(source) })?;
    let mut measurements = Vec::with_capacity(rows.len());
    for (index, row) in rows.into_iter().enumerate() {
        let no_value = || MeasuredTablesError::NoValue { path: path.clone(), row: index + 1 };
        let value = row.values.as_deref().and_then(|values| values.first().copied()).ok_or_else(no_value)?;
        if !row.curve.is_empty() {
            return Err(no_value());
        }
        measurements.push((row.parameters, value));
    }
    let name = configuration.file_stem().map(|stem| stem.to_string_lossy().replace(' ', "_")).unwrap_or_default();
    MeasuredTable::new(name, statement, measurements).map_err(|source| MeasuredTablesError::Table { path, source })
}

#[cfg(test)]
mod tests {
    use tunesmith_benchmark::problem::Problem;

    use super::*;

    const SPACE: &str = "trainingInput:
  hyperparameters:
    goal: MAXIMIZE
    hyperparameterMetricTag: accuracy
    params:
    - {parameterName: width, type: DISCRETE, discreteValues: [16, 64]}
    - {parameterName: kind, type: CATEGORICAL, categoricalValues: [a, b]}
";

    fn read(files: &[(&str, &str)]) -> Result<Vec<MeasuredTable>, MeasuredTablesError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        measured_tables(folder.path())
    }

    /// Error message with its causes, without the folder's path.
    fn refused(files: &[(&str, &str)]) -> String {
        let error = anyhow::Error::new(read(files).unwrap_err());
        let text = format!("{error:#}");
        text.rsplit_once("/t.").map_or(text.clone(), |(_, rest)| format!("t.{rest}"))
    }

    #[test]
    fn tables_of_a_folder_are_problems() {
        let rows = "width,kind,accuracy\n16,a,0.5\n64,a,0.75\n16,b,0.25\n16,a,0.5625\n64,b,0.125\n";
        let tables = read(&[("t.yaml", SPACE), ("t.csv", rows), ("other.txt", "")]).unwrap();
        let [table] = &tables[..] else { panic!("{tables:?}") };
        assert_eq!((table.name(), table.configurations()), ("t", 4));
        assert_eq!(&*table.statement().metrics()[0].name, "accuracy");
    }

    #[test]
    fn file_row_and_value_of_an_invalid_table_are_named() {
        let table = |rows: &str| refused(&[("t.yaml", SPACE), ("t.csv", rows)]);
        let incomplete = "3 of 4 configurations have no measurement, the first of them is width=16, kind=b";
        assert_eq!(table("width,kind,accuracy\n16,a,0.5\n"), format!("t.csv: {incomplete}"));
        let wrong = table("width,kind,accuracy\n16,a,0.5\n17,a,0.5\n");
        assert_eq!(wrong, "t.csv: line 3, column \"width\": \"17\" is not one of 16, 64");
        let empty = table("width,kind,accuracy\n16,a,\n");
        assert_eq!(empty, "t.csv, row 1: a measurement is one finite number");
        assert!(refused(&[("t.yaml", SPACE)]).starts_with("t.csv cannot be read: No such file"));
        assert!(refused(&[("t.yaml", "trainingInput: {}")]).ends_with("t.yaml has no hyperparameters"));
        let none = refused(&[]);
        assert!(none.ends_with(" has no table, which is a pair of files NAME.yaml and NAME.csv"), "{none}");
    }
}
