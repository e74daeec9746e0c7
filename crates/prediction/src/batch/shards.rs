//! Parts of the input, the unit of progress: a shard is predicted as a whole, or again from its beginning.

use serde::{Deserialize, Serialize};

/// Minimum size of a shard in bytes, except at the end of a file. A guess.
const SHARD_BYTES: u64 = 1 << 20;

/// Number of shards above which they become larger. A guess.
const MAX_SHARDS: u64 = 1000;

/// Maximum number of input files, each of which has a shard. A guess.
pub(super) const MAX_FILES: usize = 1000;

/// Kinds of errors that a shard counts separately. A guess.
const MAX_KINDS: usize = 100;

/// Bytes of an error that are its kind. A guess.
const MAX_KIND_BYTES: usize = 500;

const OTHER_KINDS: &str = "other errors";

/// File with instances, as found at the start of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InputFile {
    /// Absolute path, or address.
    pub(super) path: String,
    pub(super) size: u64,
}

/// The lines that begin in a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// Index of the file.
    pub(super) file: usize,
    pub(super) start: u64,
    /// Exclusive.
    pub(super) end: u64,
}

/// Files of a job, and its shards in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Inputs {
    pub(super) files: Vec<InputFile>,
    pub(super) shards: Vec<Shard>,
}

impl Inputs {
    /// Splits `files` into shards of nearly equal size. Empty files have none, unless all are empty.
    pub(super) fn new(files: Vec<InputFile>) -> Self {
        let total: u64 = files.iter().map(|file| file.size).sum();
        let size = SHARD_BYTES.max(total.div_ceil(MAX_SHARDS));
        let mut shards = Vec::new();
        for (index, file) in files.iter().enumerate() {
            let count = file.size.div_ceil(size);
            let bound = |part: u64| u64::try_from(u128::from(file.size) * u128::from(part) / u128::from(count.max(1)));
            shards.extend((0..count).map(|part| Shard {
                file: index,
                start: bound(part).unwrap_or(file.size),
                end: bound(part + 1).unwrap_or(file.size),
            }));
        }
        if shards.is_empty() && !files.is_empty() {
            shards.push(Shard { file: 0, start: 0, end: 0 });
        }
        Self { files, shards }
    }
}

/// Result of a finished shard.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShardResult {
    pub(super) predictions: u64,
    pub(super) errors: u64,
    pub(super) worker_time_ms: u64,
    /// Errors by kind, in the order of their first occurrence.
    pub(super) kinds: Vec<(String, u64)>,
}

impl ShardResult {
    pub(super) fn count_error(&mut self, error: &str) {
        self.errors += 1;
        let end = error.floor_char_boundary(error.len().min(MAX_KIND_BYTES));
        self.count_kind(error.get(..end).unwrap_or(error), 1);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.predictions += other.predictions;
        self.errors += other.errors;
        self.worker_time_ms += other.worker_time_ms;
        for (kind, count) in &other.kinds {
            self.count_kind(kind, *count);
        }
    }

    fn count_kind(&mut self, kind: &str, count: u64) {
        let is_full = self.kinds.len() >= MAX_KINDS;
        let known = self.kinds.iter().position(|(known, _)| known == kind);
        let kind = if known.is_none() && is_full { OTHER_KINDS } else { kind };
        match self.kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, known)) => *known += count,
            None => self.kinds.push((kind.to_owned(), count)),
        }
    }

    /// Content of the file of error statistics: a line per kind, in the published form `('text', count)`.
    pub(super) fn statistics(&self) -> String {
        let line = |(kind, count): &(String, u64)| {
            let escaped = kind.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n").replace('\r', "\\r");
            format!("('{escaped}', {count})\n")
        };
        self.kinds.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(sizes: &[u64]) -> Inputs {
        let file = |(index, size): (usize, &u64)| InputFile { path: format!("/{index}"), size: *size };
        Inputs::new(sizes.iter().enumerate().map(file).collect())
    }

    #[test]
    fn shards_cover_every_file_once() {
        for sizes in
            [&[1][..], &[0, 5, 0], &[SHARD_BYTES, SHARD_BYTES + 1, 10 * SHARD_BYTES - 3], &[5_000_000_000_000, 7]]
        {
            let inputs = inputs(sizes);
            assert!(inputs.shards.len() as u64 <= MAX_SHARDS + sizes.len() as u64, "{}", inputs.shards.len());
            for (index, size) in sizes.iter().enumerate() {
                let mut position = 0;
                for shard in inputs.shards.iter().filter(|shard| shard.file == index) {
                    assert!(shard.start == position && shard.end > shard.start, "{shard:?}");
                    position = shard.end;
                }
                assert_eq!(position, *size);
            }
        }
        assert_eq!(inputs(&[SHARD_BYTES + 2]).shards.len(), 2);
        assert_eq!(inputs(&[0, 0]).shards, [Shard { file: 0, start: 0, end: 0 }]);
        assert_eq!(inputs(&[]).shards, []);
    }

    #[test]
    fn kinds_of_errors_are_bounded() {
        let mut result = ShardResult::default();
        for number in 0..150 {
            result.count_error(&format!("it's {number}\n"));
        }
        result.count_error("it's 7\n");
        let mut total = ShardResult { predictions: 1, ..ShardResult::default() };
        total.add(&result);
        total.add(&result);
        assert_eq!((total.predictions, total.errors, total.kinds.len()), (1, 302, MAX_KINDS + 1));
        let statistics = total.statistics();
        assert!(statistics.starts_with("('it\\'s 0\\n', 2)\n") && statistics.contains("('it\\'s 7\\n', 4)\n"));
        assert!(statistics.ends_with("('other errors', 100)\n"), "{statistics}");
    }
}
