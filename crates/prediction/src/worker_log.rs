//! Log of a version's workers: what they print, in two files of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Size from which on the log is continued in a new file. The one before it is kept.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Bytes per read.
const CHUNK: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct WorkerLog {
    path: PathBuf,
    open: Mutex<Option<(File, u64)>>,
}

impl WorkerLog {
    /// A log at `path`, which is created with the first output.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }

    /// Appends what `output` yields until its end, and returns the last [`CHUNK`] bytes at most.
    pub(crate) fn follow(&self, mut output: impl Read) -> Vec<u8> {
        let (mut chunk, mut tail) = (vec![0; CHUNK], Vec::new());
        loop {
            let length = match output.read(&mut chunk) {
                Ok(0) => return tail,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return tail,
            };
            let written = &chunk[..length];
            tail.extend_from_slice(written);
            let excess = tail.len().saturating_sub(CHUNK);
            tail.drain(..excess);
            // The output of a worker must not stop it, even if the disk is full.
            if let Err(error) = self.append(written) {
                tracing::debug!(log = %self.path.display(), %error, "output of a worker is lost");
            }
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|(_, size)| *size >= MAX_FILE_BYTES) {
            *open = None;
            fs::rename(&self.path, earlier(&self.path))?;
        }
        if open.is_none() {
            let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            let size = file.metadata()?.len();
            *open = Some((file, size));
        }
        if let Some((file, size)) = open.as_mut() {
            file.write_all(bytes)?;
            *size += bytes.len() as u64;
        }
        Ok(())
    }

    /// The last bytes of the log, at most `limit`.
    pub(crate) fn tail(&self, limit: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        for path in [earlier(&self.path), self.path.clone()] {
            match fs::read(&path) {
                Ok(part) => content.extend(part),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let excess = content.len().saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
        content.drain(..excess);
        Ok(content)
    }
}

fn earlier(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keeps_the_last_output_in_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let log = WorkerLog::new(folder.path().join("worker.log"));
        let line = [b'x'; 999];
        let mut output = Vec::new();
        for number in 0..4000_u32 {
            output.extend_from_slice(&line);
            output.extend_from_slice(number.to_string().as_bytes());
            output.push(b'\n');
        }
        let tail = log.follow(output.as_slice());
        assert_eq!(tail.len(), CHUNK);
        assert!(tail.ends_with(b"x3999\n"));
        let sizes = ["worker.log", "worker.log.1"].map(|name| fs::metadata(folder.path().join(name)).unwrap().len());
        assert!(sizes.iter().all(|size| *size <= MAX_FILE_BYTES + CHUNK as u64), "{sizes:?}");
        assert_eq!(log.tail(6).unwrap(), b"x3999\n");
    }
}
