//! Chunks of measurements: about 30 bytes per measurement, so that a curve of a million points stays small.
//!
//! Format 1, in this order: the byte 1; the number of measurements; the number of metric names, then each name as
//! length and UTF-8; then each measurement as step (8 bytes), wall time (8), source (1, plus 128 if an elapsed time
//! follows, plus 64 if a folder follows), elapsed time (8, if there is one), mark (8), index of the folder's name (if there is
//! one), number of metrics, and each metric as index of its name and value (8). The names are those of metrics and folders. Counts, lengths and indices are LEB128; fixed-width numbers are little-endian; doubles are stored as bits,
//! NaN payloads included.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::RecordError;
use tunesmith_domain::{Measurement, MetricValue, Source};

/// The newest version of the format.
const VERSION: u8 = 1;

/// Maximal number of measurements in a chunk, so that a page of a long curve is read without the rest. A guess: 30 KB.
const CHUNK_LENGTH: usize = 1024;

const HAS_ELAPSED: u8 = 0x80;

const HAS_FOLDER: u8 = 0x40;

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
        body.extend_from_slice(&measurement.step.to_le_bytes());
        body.extend_from_slice(&measurement.wall_time_secs.to_bits().to_le_bytes());
        let source = match measurement.source {
            Source::MetricFile => 0,
            Source::EventFile => 1,
            Source::Http => 2,
            Source::StandardOutput => 3,
        };
        let has_elapsed = if measurement.elapsed_secs.is_some() { HAS_ELAPSED } else { 0 };
        let has_folder = if measurement.folder.is_some() { HAS_FOLDER } else { 0 };
        body.push(source | has_elapsed | has_folder);
        if let Some(elapsed) = measurement.elapsed_secs {
            body.extend_from_slice(&elapsed.to_bits().to_le_bytes());
        }
        body.extend_from_slice(&measurement.mark.to_le_bytes());
        if let Some(folder) = &measurement.folder {
            push_count(&mut body, index_of(&mut names, folder));
        }
        push_count(&mut body, measurement.metrics.len());
        for metric in &measurement.metrics {
            push_count(&mut body, index_of(&mut names, &metric.metric));
            body.extend_from_slice(&metric.value.to_bits().to_le_bytes());
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

fn push_count(bytes: &mut Vec<u8>, mut count: usize) {
    while count >= 0x80 {
        bytes.push((count & 0x7f) as u8 | 0x80);
        count >>= 7;
    }
    bytes.push(count as u8);
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
        let step = i64::from_le_bytes(self.array()?);
        let wall_time_secs = f64::from_bits(u64::from_le_bytes(self.array()?));
        let flags = self.byte()?;
        let source = match flags & !(HAS_ELAPSED | HAS_FOLDER) {
            0 => Source::MetricFile,
            1 => Source::EventFile,
            2 => Source::Http,
            3 => Source::StandardOutput,
            other => return Err(RecordError::malformed(format!("source {other} is not known"))),
        };
        let elapsed_secs =
            if flags & HAS_ELAPSED == 0 { None } else { Some(f64::from_bits(u64::from_le_bytes(self.array()?))) };
        let mark = u64::from_le_bytes(self.array()?);
        let folder = if flags & HAS_FOLDER == 0 {
            None
        } else {
            let index = self.count()?;
            let folder = match folders.entry(index) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Arc::from(name(index)?)),
            };
            Some(Arc::clone(folder))
        };
        let mut metrics = Vec::new();
        for _ in 0..self.count()? {
            let index = self.count()?;
            let metric = name(index)?.to_owned();
            metrics.push(MetricValue { metric, value: f64::from_bits(u64::from_le_bytes(self.array()?)) });
        }
        Ok(Measurement { step, wall_time_secs, elapsed_secs, source, mark, folder, metrics })
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

    fn count(&mut self) -> Result<usize, RecordError> {
        let mut count = 0_usize;
        for shift in (0..28).step_by(7) {
            let byte = self.byte()?;
            count |= usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(count);
            }
        }
        Err(RecordError::malformed("a count is too large"))
    }
}
