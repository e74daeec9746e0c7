//! Lines of a shard, within bounded memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tunesmith_jobs::BatchError;
use tunesmith_objects::ObjectFolder;

use super::shards::Shard;
use crate::serving::MAX_REQUEST_BYTES;

/// Maximum size of a line in bytes: that of a request of online prediction.
pub(super) const MAX_LINE_BYTES: usize = MAX_REQUEST_BYTES;

/// Bytes per read.
const CHUNK_BYTES: u64 = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An open input file.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(Arc<File>),
    Object(ObjectFolder),
}

impl Source {
    /// Reads up to `length` bytes at `offset`; none at the end.
    async fn read(&self, path: &str, offset: u64, length: u64) -> Result<Vec<u8>, BatchError> {
        let unreadable = |error: String| BatchError::Failed(format!("{path} cannot be read: {error}"));
        match self {
            Self::File(file) => {
                let file = Arc::clone(file);
                let read = move || {
                    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
                    let count = file.read_at(&mut bytes, offset)?;
                    bytes.truncate(count);
                    Ok::<_, std::io::Error>(bytes)
                };
                let read = tokio::task::spawn_blocking(read).await.map_err(|error| unreadable(error.to_string()))?;
                read.map_err(|error| unreadable(error.to_string()))
            }
            Self::Object(object) => {
                object.read_range(offset..offset + length).await.map_err(|error| unreadable(error.to_string()))
            }
        }
    }
}

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Offset of its first byte in the file.
    pub(super) offset: u64,
    /// Content without the end of the line, or the reason why there is none.
    pub(super) text: Result<String, String>,
}

/// Reads the lines that begin in a shard, each from its first byte to its end, which may lie beyond the shard.
pub(super) struct LineReader<'a> {
    source: Source,
    path: &'a str,
    /// Size of the file.
    size: u64,
    end: u64,
    /// Offset of the buffer in the file.
    offset: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were used.
    used: usize,
    /// Whether the position may lie within a line that begins before the shard.
    is_within_line: bool,
}

impl<'a> LineReader<'a> {
    /// Reads `shard` of the file at `path`, of `size` bytes.
    pub(super) fn new(source: Source, path: &'a str, size: u64, shard: Shard) -> Self {
        // The byte before the shard tells whether a line begins with it.
        let offset = shard.start.saturating_sub(1);
        let is_within_line = shard.start > 0;
        Self { source, path, size, end: shard.end, offset, buffer: Vec::new(), used: 0, is_within_line }
    }

    /// The next line; `None` at the end of the shard.
    pub(super) async fn next(&mut self) -> Result<Option<Line>, BatchError> {
        if std::mem::take(&mut self.is_within_line) {
            self.skip_line().await?;
        }
        loop {
            let offset = self.position();
            if offset >= self.end {
                return Ok(None);
            }
            let text = self.line().await?;
            if !matches!(&text, Ok(text) if text.trim().is_empty()) {
                return Ok(Some(Line { offset, text }));
            }
        }
    }

    /// Skips the rest of a line, as far as the end of the shard.
    async fn skip_line(&mut self) -> Result<(), BatchError> {
        while self.position() < self.end && self.fill().await? {
            let rest = self.buffer.get(self.used..).unwrap_or_default();
            let newline = rest.iter().position(|byte| *byte == b'\n');
            self.used += newline.map_or(rest.len(), |index| index + 1);
            if newline.is_some() {
                break;
            }
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<Result<String, String>, BatchError> {
        let is_first = self.position() == 0;
        let (mut line, mut is_too_long) = (Vec::new(), false);
        while self.fill().await? {
            let rest = self.buffer.get(self.used..).unwrap_or_default();
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let content = rest.get(..newline.unwrap_or(rest.len())).unwrap_or_default();
            is_too_long |= line.len() + content.len() > MAX_LINE_BYTES;
            if is_too_long {
                line = Vec::new();
            } else {
                line.extend_from_slice(content);
            }
            self.used += newline.map_or(rest.len(), |index| index + 1);
            // No other line of the shard follows.
            if newline.is_some() || (is_too_long && self.position() >= self.end) {
                break;
            }
        }
        if is_too_long {
            return Ok(Err(format!("the line has more than {MAX_LINE_BYTES} bytes")));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if is_first && line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(String::from_utf8(line).map_err(|_| "the line is not UTF-8".to_owned()))
    }

    /// Offset of the next byte in the file.
    fn position(&self) -> u64 {
        self.offset + self.used as u64
    }

    /// Reads on, if the buffer is used up; returns whether there are bytes.
    async fn fill(&mut self) -> Result<bool, BatchError> {
        if self.used < self.buffer.len() {
            return Ok(true);
        }
        let (offset, path) = (self.position(), self.path);
        if offset >= self.size {
            return Ok(false);
        }
        self.buffer = self.source.read(path, offset, CHUNK_BYTES.min(self.size - offset)).await?;
        (self.offset, self.used) = (offset, 0);
        if self.buffer.is_empty() {
            return Err(BatchError::Failed(format!("{path} has become shorter while it was read")));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> Source {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Source::File(Arc::new(file))
    }

    async fn lines(source: &Source, size: u64, start: u64, end: u64) -> Vec<(u64, Result<String, String>)> {
        let shard = Shard { file: 0, start, end };
        let mut reader = LineReader::new(source.clone(), "f", size, shard);
        let mut found = Vec::new();
        while let Some(line) = reader.next().await.unwrap() {
            found.push((line.offset, line.text));
        }
        found
    }

    fn texts(lines: Vec<(u64, Result<String, String>)>) -> Vec<String> {
        lines.into_iter().map(|(_, text)| text.unwrap_or_else(|error| error)).collect()
    }

    #[tokio::test]
    async fn ends_of_lines_and_their_encoding_are_handled() {
        let content = b"\xef\xbb\xbf1\r\n\n  \n\xef\xbb\xbf2\n\xff\n\r\nlast";
        let found = texts(lines(&file(content), content.len() as u64, 0, content.len() as u64).await);
        assert_eq!(found, ["1", "\u{feff}2", "the line is not UTF-8", "last"]);
        assert_eq!(texts(lines(&file(b""), 0, 0, 0).await), [""; 0]);
        assert_eq!(texts(lines(&file(b"\n"), 1, 0, 1).await), [""; 0]);
    }

    #[tokio::test]
    async fn every_line_belongs_to_the_shard_in_which_it_begins() {
        let content = b"a\nbcd\n\nefghi\r\njk\nlmnop";
        let (source, size) = (file(content), content.len() as u64);
        let whole = lines(&source, size, 0, size).await;
        assert_eq!(whole.len(), 5);
        for first in 0..=size {
            for second in first..=size {
                let mut found = Vec::new();
                for (start, end) in [(0, first), (first, second), (second, size)] {
                    if start < end {
                        found.extend(lines(&source, size, start, end).await);
                    }
                }
                assert_eq!(found, whole, "{first} {second}");
            }
        }
    }

    #[tokio::test]
    async fn huge_line_is_an_error_and_is_read_no_further_than_its_shards() {
        let mut content = b"1\n".to_vec();
        content.extend(std::iter::repeat_n(b'x', 3 * MAX_LINE_BYTES));
        content.extend_from_slice(b"\n2\n");
        let (source, size) = (file(&content), content.len() as u64);
        let too_long = format!("the line has more than {MAX_LINE_BYTES} bytes");
        assert_eq!(texts(lines(&source, size, 0, size).await), ["1", &too_long, "2"]);
        // The reader claims a size beyond the file, which it must not reach.
        assert_eq!(texts(lines(&source, size + 9, 0, 10).await), ["1", &too_long]);
        assert_eq!(texts(lines(&source, size + 9, 100, 2 << 20).await), [""; 0]);
        assert_eq!(texts(lines(&source, size, 100, size).await), ["2"]);
        let longest = vec![b'y'; MAX_LINE_BYTES];
        let found = lines(&file(&longest), longest.len() as u64, 0, longest.len() as u64).await;
        assert_eq!(found[0].1.as_ref().unwrap().len(), MAX_LINE_BYTES);
    }

    #[tokio::test]
    async fn file_that_has_become_shorter_is_noticed() {
        let source = file(b"1\n2");
        let mut reader = LineReader::new(source, "/f", 9, Shard { file: 0, start: 0, end: 9 });
        let first = reader.next().await.unwrap().unwrap();
        assert_eq!(first.text.as_deref(), Ok("1"));
        let error = reader.next().await.unwrap_err().to_string();
        assert_eq!(error, "/f has become shorter while it was read");
    }
}
