//! Conversion of a CSV file with a header row to the data rules of the built-in algorithms: no header, target first.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::ValueEnum;
use csv::{ReaderBuilder, StringRecord, Trim, Writer};
use sha2::{Digest, Sha256};

use tunesmith_api::ai_platform::nearest;

/// Maximum number of distinct whole numbers that are taken for classes; a guess.
const MAX_NUMBERED_CLASSES: usize = 20;

/// Maximum number of classes; a guess, above which the target is hardly one.
const MAX_CLASSES: usize = 1000;

/// Maximum column names in a message.
const MAX_LISTED: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TargetType {
    Classification,
    Regression,
}

/// Converted data.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Data {
    /// File without a header, absolute if its folder is.
    pub(super) path: PathBuf,
    pub(super) rows: u64,
    /// Number of classes; 0 for a regression.
    pub(super) classes: usize,
    /// Whether the type was found in the data.
    is_guess: bool,
}

impl Data {
    /// Converts `source` to a file in `folder`, named by its content. The target is the column named `target`.
    ///
    /// # Errors
    /// A file or a target that cannot be used, with the reason.
    pub(super) fn convert(
        source: &Path,
        target: &str,
        target_type: Option<TargetType>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let named = || format!("--data {}", source.display());
        let file = File::open(source).with_context(named)?;
        let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(BufReader::new(file));
        let header = reader.headers().with_context(named)?.clone();
        let column = column_named(&header, target).with_context(named)?;
        if header.len() < 2 {
            bail!("{}: the target is the only column", named());
        }
        let unfinished = tempfile::NamedTempFile::new_in(folder)?;
        let mut writer = Writer::from_writer(unfinished);
        let (mut targets, mut digest, mut rows) = (Targets::default(), Sha256::new(), 0);
        let mut record = StringRecord::new();
        while reader.read_record(&mut record).with_context(named)? {
            let target = record.get(column).unwrap_or_default();
            targets.add(target);
            let others = record.iter().enumerate().filter(|(index, _)| *index != column).map(|(_, field)| field);
            for field in std::iter::once(target).chain(others) {
                digest.update((field.len() as u64).to_le_bytes());
                digest.update(field);
                writer.write_field(field)?;
            }
            writer.write_record(None::<&[u8]>)?;
            rows += 1;
        }
        if rows == 0 {
            bail!("{}: it has a header row and no data", named());
        }
        let classes = targets.classes(target_type).with_context(|| format!("--target {target}"))?;
        let path = folder.join(format!("data-{}.csv", hex::encode(&digest.finalize()[..6])));
        let unfinished = writer.into_inner().map_err(|error| error.into_error())?;
        unfinished.persist(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self { path, rows, classes, is_guess: target_type.is_none() })
    }

    /// Summary for display.
    pub(super) fn description(&self, target: &str) -> String {
        let (kind, other) = match self.classes {
            0 => ("numbers: a regression".to_owned(), "classification"),
            classes => (format!("{classes} classes: a classification"), "regression"),
        };
        let hint = if self.is_guess { format!(" (--type {other} for the other)") } else { String::new() };
        format!("{} rows; {target} has {kind}{hint}", self.rows)
    }
}

/// Index of the column `target`.
fn column_named(header: &StringRecord, target: &str) -> anyhow::Result<usize> {
    let mut found = header.iter().enumerate().filter(|(_, name)| *name == target).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (Some(_), Some(_)) => bail!("several columns are named {target:?}"),
        (None, _) => {
            let hint = nearest(target, header.iter()).map(|name| format!("; did you mean {name:?}?"));
            let listed: Vec<&str> = header.iter().take(MAX_LISTED).collect();
            let more = if header.len() > MAX_LISTED { ", ..." } else { "" };
            let hint = hint.unwrap_or_else(|| format!("; the header row has {}{more}", listed.join(", ")));
            bail!("no column is named {target:?}{hint}")
        }
    }
}

/// Findings about the values of the target.
#[derive(Default)]
struct Targets {
    /// Distinct values, at most one above [`MAX_CLASSES`].
    distinct: BTreeSet<String>,
    has_text: bool,
    has_fractions: bool,
}

impl Targets {
    fn add(&mut self, value: &str) {
        if value.is_empty() {
            // The trainer drops such rows.
            return;
        }
        let is_number = !value.contains('_') && value.parse::<f64>().is_ok_and(f64::is_finite);
        self.has_text |= !is_number;
        self.has_fractions |= is_number && value.parse::<i64>().is_err();
        if self.distinct.len() <= MAX_CLASSES && !self.distinct.contains(value) {
            self.distinct.insert(value.to_owned());
        }
    }

    /// Number of classes; 0 for a regression.
    fn classes(&self, target_type: Option<TargetType>) -> anyhow::Result<usize> {
        let count = self.distinct.len();
        let is_numbered = self.has_fractions || count > MAX_NUMBERED_CLASSES;
        let target_type = target_type.unwrap_or(match self.has_text || !is_numbered {
            true => TargetType::Classification,
            false => TargetType::Regression,
        });
        match target_type {
            TargetType::Regression if self.has_text => {
                let text = self.distinct.iter().find(|value| value.parse::<f64>().is_err());
                bail!("a regression needs numbers, not {:?}", text.map_or("", String::as_str))
            }
            TargetType::Regression => Ok(0),
            TargetType::Classification if count > MAX_CLASSES => {
                bail!("it has more than {MAX_CLASSES} distinct values, too many for classes")
            }
            TargetType::Classification if count < 2 => bail!("it has {count} distinct values; two are required"),
            TargetType::Classification => Ok(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn convert(text: &str, target: &str, target_type: Option<TargetType>) -> anyhow::Result<(Data, String)> {
        let folder = tempfile::tempdir()?;
        let source = folder.path().join("birds.csv");
        fs::write(&source, text)?;
        let data = Data::convert(&source, target, target_type, folder.path())?;
        let converted = fs::read_to_string(&data.path)?;
        assert_eq!(fs::read_dir(folder.path())?.count(), 2, "nothing unfinished is left");
        Ok((data, converted))
    }

    fn error(text: &str, target: &str, target_type: Option<TargetType>) -> String {
        let error = format!("{:#}", convert(text, target, target_type).unwrap_err());
        error.split_once("birds.csv: ").map_or(error.clone(), |(_, rest)| rest.to_owned())
    }

    #[test]
    fn target_comes_first_and_the_header_goes() {
        let text = "\u{feff}wing, species ,note\n1.5,robin,\"a, b\"\n2.5,wren,\n,robin,c\n";
        let (data, converted) = convert(text, "species", None).unwrap();
        assert_eq!(converted, "robin,1.5,\"a, b\"\nwren,2.5,\nrobin,,c\n");
        assert_eq!((data.rows, data.classes), (3, 2));
        let expected = "3 rows; species has 2 classes: a classification (--type regression for the other)";
        assert_eq!(data.description("species"), expected);
        // The name depends on the content alone.
        let (again, _) = convert(text, "species", None).unwrap();
        let (other, _) = convert(&text.replace("2.5", "3.5"), "species", None).unwrap();
        assert_eq!(again.path.file_name(), data.path.file_name());
        assert_ne!(other.path.file_name(), data.path.file_name());
    }

    #[test]
    fn type_of_the_target_is_found() {
        let column =
            |values: &[&str]| format!("y,x\n{}", values.iter().map(|v| format!("{v},1\n")).collect::<String>());
        let classes = |values: &[&str], given| convert(&column(values), "y", given).unwrap().0.classes;
        assert_eq!(classes(&["0", "1", "", "1"], None), 2);
        assert_eq!(classes(&["0.5", "1", "2"], None), 0);
        let many: Vec<String> = (0..30).map(|value| value.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(classes(&many, None), 0);
        assert_eq!(classes(&many, Some(TargetType::Classification)), 30);
        assert_eq!(classes(&["1", "2"], Some(TargetType::Regression)), 0);
        let text = column(&["a", "1"]);
        assert_eq!(
            error(&text, "y", Some(TargetType::Regression)),
            "--target y: a regression needs numbers, not \"a\""
        );
        assert_eq!(error(&column(&["a", "a"]), "y", None), "--target y: it has 1 distinct values; two are required");
    }

    #[test]
    fn faults_of_files_are_named() {
        assert_eq!(
            error("wing,species\n1,a\n", "specis", None),
            "no column is named \"specis\"; did you mean \"species\"?"
        );
        assert_eq!(error("wing,song\n1,a\n", "zzz", None), "no column is named \"zzz\"; the header row has wing, song");
        assert_eq!(error("a,a\n1,2\n", "a", None), "several columns are named \"a\"");
        assert_eq!(error("a,b\n", "a", None), "it has a header row and no data");
        assert_eq!(error("a\n1\n", "a", None), "the target is the only column");
        let ragged = error("a,b\n1,2\n3\n", "a", None);
        assert!(ragged.contains("line: 3") && ragged.contains("1 fields"), "{ragged}");
    }
}
