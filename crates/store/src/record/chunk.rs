//! Chunks of measurements: about 25 bytes per measurement, so that a curve of a million points stays small.
//!
//! Format 1, in this order: the byte 1; the number of measurements; the number of names, then each name as length and
//! UTF-8; then each measurement as step, wall time (8 bytes), variant of the key (1, plus 128 if an elapsed time follows),
//! elapsed time (8, if there is one), fields of the key, number of metrics, and each metric as index of its name and value
//! (8). The names are those of metrics and folders; a folder is stored as the index of its name. Doubles are stored as
//! little-endian bits, NaN payloads included, and all other numbers as LEB128.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::RecordError;
use tunesmith_domain::{Measurement, MetricValue, ReportKey};

/// The newest version of the format.
const VERSION: u8 = 1;

/// Maximal number of measurements in a chunk, so that a page of a long curve is read without the rest. A guess: 30 KB.
const CHUNK_LENGTH: usize = 1024;

const HAS_ELAPSED: u8 = 0x80;

/// The chunks of `measurements`, each with the number of its first measurement; `first` is the number of the first
/// measurement of all.
pub(crate) fn encode_chunks(first: u64, measurements: &[Measurement]) -> Vec<(u64, Vec<u8>)> {
    measurements
        .chunks(CHUNK_LENGTH)
        .enumerate()
        .map(|(index, chunk)| (first + (index * CHUNK_LENGTH) as u64, encode_chunk(chunk)))
        .collect()
}

fn encode_chunk(measurements: &[Measurement]) -> Vec<u8> {
    // A trial has few metrics, so a list is searched faster than a map.
    let mut names: Vec<&str> = Vec::new();
    let mut body = Vec::with_capacity(measurements.len() * 40);
    for measurement in measurements {
        push_number(&mut body, measurement.step.cast_unsigned());
        push_double(&mut body, measurement.wall_time_secs);
        let variant = match measurement.key {
            ReportKey::MetricFile { .. } => 0,
            ReportKey::EventFile { .. } => 1,
            ReportKey::Http => 2,
            ReportKey::StandardOutput { .. } => 3,
        };
        body.push(variant | if measurement.elapsed_secs.is_some() { HAS_ELAPSED } else { 0 });
        measurement.elapsed_secs.into_iter().for_each(|elapsed| push_double(&mut body, elapsed));
        match &measurement.key {
            ReportKey::MetricFile { attempt } => push_number(&mut body, *attempt),
            ReportKey::EventFile { folder } => push_count(&mut body, index_of(&mut names, folder)),
            ReportKey::StandardOutput { attempt, offset } => {
                push_number(&mut body, *attempt);
                push_number(&mut body, *offset);
            }
            ReportKey::Http => {}
        }
        push_count(&mut body, measurement.metrics.len());
        for metric in &measurement.metrics {
            push_count(&mut body, index_of(&mut names, &metric.metric));
            push_double(&mut body, metric.value);
        }
    }
    let mut chunk = vec![VERSION];
    push_count(&mut chunk, measurements.len());
    push_count(&mut chunk, names.len());
    for name in names {
        push_count(&mut chunk, name.len());
        chunk.extend_from_slice(name.as_bytes());
    }
    chunk.append(&mut body);
    chunk
}

/// Decodes one chunk of [`encode_chunks`].
pub(crate) fn decode_chunk(bytes: &[u8]) -> Result<Vec<Measurement>, RecordError> {
    let mut reader = Reader { rest: bytes };
    let version = reader.byte()?;
    if version > VERSION {
        return Err(RecordError::TooNew { found: version.into(), known: VERSION.into() });
    }
    let count = reader.count()?;
    let mut names = Vec::new();
    for _ in 0..reader.count()? {
        let length = reader.count()?;
        let name = std::str::from_utf8(reader.take(length)?).map_err(RecordError::malformed)?;
        names.push(name);
    }
    let mut measurements = Vec::new();
    let mut folders = BTreeMap::new();
    for _ in 0..count {
        measurements.push(reader.measurement(&names, &mut folders)?);
    }
    if !reader.rest.is_empty() {
        return Err(RecordError::malformed(format!("{} bytes follow the last measurement", reader.rest.len())));
    }
    Ok(measurements)
}

/// The index of `name` in `names`, to which it is added if it is new.
fn index_of<'a>(names: &mut Vec<&'a str>, name: &'a str) -> usize {
    names.iter().position(|known| *known == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}

fn push_count(bytes: &mut Vec<u8>, count: usize) {
    push_number(bytes, count as u64);
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn push_double(bytes: &mut Vec<u8>, double: f64) {
    bytes.extend_from_slice(&double.to_bits().to_le_bytes());
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads a measurement; `folders` are the names of folders that were read before, by index.
    fn measurement(
        &mut self,
        names: &[&str],
        folders: &mut BTreeMap<usize, Arc<str>>,
    ) -> Result<Measurement, RecordError> {
        let name = |index: usize| {
            names.get(index).copied().ok_or_else(|| RecordError::malformed(format!("there is no name {index}")))
        };
        let step = self.number()?.cast_signed();
        let wall_time_secs = self.double()?;
        let flags = self.byte()?;
        let elapsed_secs = if flags & HAS_ELAPSED == 0 { None } else { Some(self.double()?) };
        let key = match flags & !HAS_ELAPSED {
            0 => ReportKey::MetricFile { attempt: self.number()? },
            1 => {
                let index = self.count()?;
                let folder = match folders.entry(index) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(Arc::from(name(index)?)),
                };
                ReportKey::EventFile { folder: Arc::clone(folder) }
            }
            2 => ReportKey::Http,
            3 => ReportKey::StandardOutput { attempt: self.number()?, offset: self.number()? },
            other => return Err(RecordError::malformed(format!("key {other} is not known"))),
        };
        let mut metrics = Vec::new();
        for _ in 0..self.count()? {
            let index = self.count()?;
            let metric = name(index)?.to_owned();
            metrics.push(MetricValue { metric, value: self.double()? });
        }
        Ok(Measurement { step, wall_time_secs, elapsed_secs, key, metrics })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| RecordError::malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let (taken, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| RecordError::malformed("it ends too early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn double(&mut self) -> Result<f64, RecordError> {
        self.array().map(u64::from_le_bytes).map(f64::from_bits)
    }

    fn count(&mut self) -> Result<usize, RecordError> {
        usize::try_from(self.number()?).map_err(RecordError::malformed)
    }

    fn number(&mut self) -> Result<u64, RecordError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(RecordError::malformed("a number is too large"))
    }
}
