//! Tables in Parquet files: flat, uncompressed, with optional values.
//!
//! Source: Apache Parquet Format 2.11, `parquet.thrift`, and Thrift's compact protocol. The small part that a table of
//! trials needs is written here: a general implementation would enlarge the program by megabytes.

mod thrift;

use self::thrift::Writer;

const MAGIC: &[u8] = b"PAR1";
/// Rows of a row group. A guess: readers read a group at a time.
const GROUP_ROWS: usize = 1 << 16;

// Encodings of `parquet.thrift`.
const PLAIN: i64 = 0;
const RLE: i64 = 3;
const OPTIONAL: i64 = 1;

/// A column. All columns of a table have the same number of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    pub name: String,
    pub values: Values,
}

/// Values of a column; `None` for a missing one.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    Flags(Vec<Option<bool>>),
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Texts(Vec<Option<String>>),
    /// Microseconds since 1970, in UTC.
    Times(Vec<Option<i64>>),
}

/// A table that the format cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column}: the values of {GROUP_ROWS} rows exceed 2 GiB")]
pub struct TooLarge {
    pub column: String,
}

/// Parquet file with `columns`.
///
/// # Errors
/// [`TooLarge`].
pub fn parquet(columns: &[Column]) -> Result<Vec<u8>, TooLarge> {
    let rows = columns.first().map_or(0, |column| column.values.len());
    let mut file = MAGIC.to_vec();
    let mut groups = Vec::new();
    for first in (0..rows).step_by(GROUP_ROWS) {
        let range = first..rows.min(first + GROUP_ROWS);
        let start = file.len();
        let mut chunks = Vec::new();
        for column in columns {
            let too_large = |_| TooLarge { column: column.name.clone() };
            let page = column.values.page(range.clone());
            let size = i64::from(i32::try_from(page.len()).map_err(too_large)?);
            let offset = file.len();
            file.extend(page_header(size, range.len()));
            file.extend(page);
            chunks.push((offset, file.len() - offset));
        }
        groups.push(Group { rows: range.len(), bytes: file.len() - start, chunks });
    }
    let footer = footer(columns, rows, &groups);
    file.extend(&footer);
    file.extend((footer.len() as u32).to_le_bytes());
    file.extend(MAGIC);
    Ok(file)
}

struct Group {
    rows: usize,
    bytes: usize,
    /// Offset and size of each column.
    chunks: Vec<(usize, usize)>,
}

impl Values {
    pub fn len(&self) -> usize {
        match self {
            Self::Flags(values) => values.len(),
            Self::Integers(values) | Self::Times(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Physical type of `parquet.thrift`.
    fn physical(&self) -> i64 {
        match self {
            Self::Flags(_) => 0,
            Self::Integers(_) | Self::Times(_) => 2,
            Self::Numbers(_) => 5,
            Self::Texts(_) => 6,
        }
    }

    /// Contents of the page with the rows of `range`: which values are present, then the present ones.
    fn page(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        let mut present = Vec::with_capacity(range.len());
        let mut data = Vec::new();
        match self {
            Self::Flags(values) => {
                let values = &values[range];
                present.extend(values.iter().map(Option::is_some));
                data = bits(values.iter().flatten().copied());
            }
            Self::Integers(values) | Self::Times(values) => {
                for value in &values[range] {
                    present.push(value.is_some());
                    data.extend(value.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
            Self::Numbers(values) => {
                for value in &values[range] {
                    present.push(value.is_some());
                    data.extend(value.iter().flat_map(|value| value.to_le_bytes()));
                }
            }
            Self::Texts(values) => {
                for value in &values[range] {
                    present.push(value.is_some());
                    if let Some(text) = value {
                        data.extend((text.len() as u32).to_le_bytes());
                        data.extend(text.as_bytes());
                    }
                }
            }
        }
        // One bit-packed run of groups of eight levels.
        let mut levels = thrift::varint((present.len().div_ceil(8) as u64) << 1 | 1);
        levels.extend(bits(present.into_iter()));
        let mut page = (levels.len() as u32).to_le_bytes().to_vec();
        page.extend(levels);
        page.extend(data);
        page
    }
}

/// Bits, the lowest of each byte first.
fn bits(values: impl Iterator<Item = bool>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, value) in values.enumerate() {
        if index % 8 == 0 {
            bytes.push(0);
        }
        if let Some(last) = bytes.last_mut() {
            *last |= u8::from(value) << (index % 8);
        }
    }
    bytes
}

fn page_header(size: i64, rows: usize) -> Vec<u8> {
    let mut header = Writer::default();
    // A data page.
    header.integer(1, 0);
    header.integer(2, size);
    header.integer(3, size);
    header.structure(5, |page| {
        page.integer(1, rows as i64);
        page.integer(2, PLAIN);
        page.integer(3, RLE);
        page.integer(4, RLE);
    });
    header.end()
}

fn footer(columns: &[Column], rows: usize, groups: &[Group]) -> Vec<u8> {
    let mut file = Writer::default();
    file.integer(1, 2);
    file.structures(2, columns.len() + 1, |index, element| match index.checked_sub(1) {
        None => {
            element.text(4, "schema");
            element.integer(5, columns.len() as i64);
        }
        Some(index) => schema_element(&columns[index], element),
    });
    file.long(3, rows as i64);
    file.structures(4, groups.len(), |index, group| {
        let Group { rows, bytes, chunks } = &groups[index];
        group.structures(1, chunks.len(), |index, chunk| {
            let (offset, size) = chunks[index];
            chunk.long(2, offset as i64);
            chunk.structure(3, |data| {
                data.integer(1, columns[index].values.physical());
                data.integers(2, &[PLAIN, RLE]);
                data.texts(3, &[&columns[index].name]);
                // No compression.
                data.integer(4, 0);
                data.long(5, *rows as i64);
                data.long(6, size as i64);
                data.long(7, size as i64);
                data.long(9, offset as i64);
            });
        });
        group.long(2, *bytes as i64);
        group.long(3, *rows as i64);
    });
    file.text(6, concat!("tunesmith version ", env!("CARGO_PKG_VERSION")));
    file.end()
}

fn schema_element(column: &Column, element: &mut Writer) {
    element.integer(1, column.values.physical());
    element.integer(3, OPTIONAL);
    element.text(4, &column.name);
    match column.values {
        Values::Texts(_) => {
            // UTF-8.
            element.integer(6, 0);
            element.structure(10, |kind| kind.structure(1, |_| ()));
        }
        Values::Times(_) => {
            // Microseconds, adjusted to UTC.
            element.integer(6, 10);
            element.structure(10, |kind| {
                kind.structure(8, |time| {
                    time.flag(1, true);
                    time.structure(2, |unit| unit.structure(2, |_| ()));
                });
            });
        }
        Values::Flags(_) | Values::Integers(_) | Values::Numbers(_) => {}
    }
}
