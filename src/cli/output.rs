//! Standard output, and line-by-line following of growing log files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use tunesmith_files::RootedPath;

pub(super) use super::logging::notice;

/// State of a file's writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writers {
    /// An incomplete last line is held back.
    Alive,
    /// An incomplete last line counts as a line.
    Gone,
}

/// Followed files with their read positions.
#[derive(Default)]
pub(super) struct Followed {
    files: BTreeMap<PathBuf, (BufReader<File>, Vec<u8>)>,
}

impl Followed {
    /// Calls `each` with every new line of the file `path`, without its line break. A missing file is empty.
    ///
    /// # Errors
    /// If the file cannot be read, and errors of `each`.
    pub(super) fn new_lines(
        &mut self,
        path: &Path,
        writers: Writers,
        mut each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.files.contains_key(path) {
            match RootedPath::from(path.to_owned()).open() {
                Ok(file) => self.files.insert(path.to_owned(), (BufReader::new(file), Vec::new())),
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
        let Some((reader, line)) = self.files.get_mut(path) else { return Ok(()) };
        while reader.read_until(b'\n', line)? > 0 && line.ends_with(b"\n") {
            each(&line[..line.len() - 1])?;
            line.clear();
        }
        if writers == Writers::Gone && !line.is_empty() {
            each(line)?;
            line.clear();
        }
        Ok(())
    }
}

pub(super) fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}

/// Writes `label`, a space and `line` in a single write.
pub(super) fn write_line(output: &mut dyn Write, label: &str, line: &[u8]) -> io::Result<()> {
    let mut text = Vec::with_capacity(label.len() + line.len() + 2);
    text.extend_from_slice(label.as_bytes());
    text.push(b' ');
    text.extend_from_slice(line);
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_lines(followed: &mut Followed, path: &Path, writers: Writers) -> Vec<String> {
        let mut lines = Vec::new();
        let each = |line: &[u8]| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        };
        followed.new_lines(path, writers, each).unwrap();
        lines
    }

    #[test]
    fn each_complete_line_is_returned_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stdout.log");
        let mut followed = Followed::default();
        assert!(new_lines(&mut followed, &path, Writers::Alive).is_empty());
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\n\ntw").unwrap();
        assert_eq!(new_lines(&mut followed, &path, Writers::Alive), ["one", ""]);
        file.write_all(b"o\nthree").unwrap();
        assert_eq!(new_lines(&mut followed, &path, Writers::Alive), ["two"]);
        assert_eq!(new_lines(&mut followed, &path, Writers::Gone), ["three"]);
        assert!(new_lines(&mut followed, &path, Writers::Gone).is_empty());
    }

    #[test]
    fn labelled_line_keeps_invalid_utf8() {
        let mut output = Vec::new();
        write_line(&mut output, "[ps 1]", b"a\xffb").unwrap();
        assert_eq!(output, b"[ps 1] a\xffb\n");
    }
}
