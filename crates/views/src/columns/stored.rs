//! Stored form of columns: a few arrays of little-endian numbers, which are read many times faster than the trials.
//!
//! Not stored: the order of the best, which is computed on demand.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error;
use tunesmith_algorithms::problem::{AlgorithmName, Origin, Step};
use tunesmith_domain::{Study, TrialState};

use super::{Columns, ParameterColumn, Texts};

/// First bytes of the form. Another version of it has others.
const MAGIC: &[u8; 8] = b"columns1";

/// States by their stored number.
const STATES: [TrialState; 6] = [
    TrialState::Requested,
    TrialState::Active,
    TrialState::Stopping,
    TrialState::Succeeded,
    TrialState::Infeasible,
    TrialState::Deleted,
];

/// Stored number of a trial that was not read.
const NO_STATE: u8 = u8::MAX;

trait Stored: Sized {
    const BYTES: usize;

    fn put(self, bytes: &mut Vec<u8>);

    /// Reads from `bytes`, which has [`Self::BYTES`].
    fn of(bytes: &[u8]) -> Option<Self>;
}

macro_rules! stored {
    ($($number:ty),+) => {
        $(
            impl Stored for $number {
                const BYTES: usize = size_of::<$number>();

                fn put(self, bytes: &mut Vec<u8>) {
                    bytes.extend_from_slice(&self.to_le_bytes());
                }

                fn of(bytes: &[u8]) -> Option<Self> {
                    Some(Self::from_le_bytes(bytes.try_into().ok()?))
                }
            }
        )+
    };
}

stored!(u8, u32, u64, i64, f64);

fn put_all<T: Stored + Copy>(bytes: &mut Vec<u8>, values: &[T]) {
    values.iter().for_each(|value| value.put(bytes));
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    (text.len() as u32).put(bytes);
    bytes.extend_from_slice(text.as_bytes());
}

/// Unread part of a stored form.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn one<T: Stored>(&mut self) -> Option<T> {
        T::of(self.bytes(T::BYTES)?)
    }

    fn all<T: Stored>(&mut self, count: usize) -> Option<Vec<T>> {
        self.bytes(count.checked_mul(T::BYTES)?)?.chunks_exact(T::BYTES).map(T::of).collect()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.one::<u32>()?;
        str::from_utf8(self.bytes(usize::try_from(length).ok()?)?).ok()
    }
}

impl Texts {
    fn put(&self, bytes: &mut Vec<u8>) {
        put_all(bytes, &self.rows);
        (self.known.len() as u32).put(bytes);
        self.known.iter().for_each(|text| put_text(bytes, text));
    }

    fn read(reader: &mut Reader<'_>, len: usize) -> Option<Self> {
        let mut texts = Self { rows: reader.all(len)?, ..Self::default() };
        for _ in 0..reader.one::<u32>()? {
            texts.add(reader.text()?);
        }
        Some(texts)
    }
}

impl Columns {
    /// Stored form, for [`Self::restore`].
    pub fn store(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes());
        bytes.extend_from_slice(MAGIC);
        self.create_time.as_second().put(&mut bytes);
        i64::from(self.create_time.subsec_nanosecond()).put(&mut bytes);
        self.revision.put(&mut bytes);
        (self.len() as u64).put(&mut bytes);
        let number = |state: TrialState| STATES.iter().position(|known| *known == state).unwrap_or(0) as u8;
        bytes.extend(self.states.iter().map(|state| state.map_or(NO_STATE, number)));
        bytes.extend(self.stopped_early.iter().map(|stopped| u8::from(*stopped)));
        for times in [&self.created, &self.started, &self.ended] {
            put_all(&mut bytes, times);
        }
        put_all(&mut bytes, &self.attempts);
        put_all(&mut bytes, &self.measurements);
        put_all(&mut bytes, &self.origins);
        (self.known_origins.len() as u32).put(&mut bytes);
        for origin in &self.known_origins {
            put_text(&mut bytes, &origin.map_or_else(String::new, |origin| origin.to_string()));
        }
        self.clients.put(&mut bytes);
        self.reasons.put(&mut bytes);
        (self.notes.len() as u64).put(&mut bytes);
        for (row, note) in &self.notes {
            (*row as u64).put(&mut bytes);
            put_text(&mut bytes, note);
        }
        for values in self.metrics.iter().chain(&self.constraints) {
            put_all(&mut bytes, values);
        }
        for column in &self.parameters {
            match column {
                ParameterColumn::Number(values) => put_all(&mut bytes, values),
                ParameterColumn::Integer(values) => put_all(&mut bytes, values),
                ParameterColumn::Level(values) => put_all(&mut bytes, values),
            }
        }
        bytes
    }

    /// Columns in `bytes`; `None` unless they are those of `study` at its revision or an earlier one, in the present form.
    pub fn restore(study: &Study, bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let mut columns = Self::new(study);
        let is_present = reader.bytes(MAGIC.len())? == MAGIC
            && reader.one::<i64>()? == study.create_time.as_second()
            && reader.one::<i64>()? == i64::from(study.create_time.subsec_nanosecond());
        columns.revision = reader.one()?;
        columns.mark_stored();
        let len = usize::try_from(reader.one::<u64>()?).ok()?;
        if !is_present || columns.revision > study.revision || len as u64 >= study.next_trial_id.0 {
            return None;
        }
        let state = |number: &u8| match *number {
            NO_STATE => Some(None),
            number => STATES.get(usize::from(number)).copied().map(Some),
        };
        columns.states = reader.bytes(len)?.iter().map(state).collect::<Option<_>>()?;
        columns.stopped_early = reader.bytes(len)?.iter().map(|stopped| *stopped != 0).collect();
        columns.created = reader.all(len)?;
        columns.started = reader.all(len)?;
        columns.ended = reader.all(len)?;
        columns.attempts = reader.all(len)?;
        columns.measurements = reader.all(len)?;
        columns.origins = reader.all(len)?;
        let origins = (0..reader.one::<u32>()?).map(|_| origin(reader.text()?));
        columns.known_origins = origins.collect::<Option<_>>()?;
        columns.clients = Texts::read(&mut reader, len)?;
        columns.reasons = Texts::read(&mut reader, len)?;
        let mut notes = BTreeMap::new();
        for _ in 0..reader.one::<u64>()? {
            notes.insert(usize::try_from(reader.one::<u64>()?).ok()?, reader.text()?.into());
        }
        columns.notes = notes;
        for values in columns.metrics.iter_mut().chain(&mut columns.constraints) {
            *values = reader.all(len)?;
        }
        for column in &mut columns.parameters {
            match column {
                ParameterColumn::Number(values) => *values = reader.all(len)?,
                ParameterColumn::Integer(values) => *values = reader.all(len)?,
                ParameterColumn::Level(values) => *values = reader.all(len)?,
            }
        }
        reader.0.is_empty().then_some(columns)
    }
}

/// Origin by its text; the empty text is that of no origin.
fn origin(text: &str) -> Option<Option<Origin>> {
    if text.is_empty() {
        return Some(None);
    }
    let (algorithm, step) = text.split_once('/').map_or((text, None), |(algorithm, step)| (algorithm, Some(step)));
    let algorithm = AlgorithmName::deserialize(IntoDeserializer::<Error>::into_deserializer(algorithm)).ok()?;
    let step = step.map(|step| Step::deserialize(IntoDeserializer::<Error>::into_deserializer(step)));
    Some(Some(Origin { algorithm, step: step.transpose().ok()? }))
}
