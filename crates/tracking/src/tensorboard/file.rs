//! Files that grow, or are replaced.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

/// Bytes compared at a time.
const PART: usize = 64 * 1024;

/// Makes `path` contain `bytes`. If the file is a beginning of them, as after a crash, the rest is appended, which a
/// running TensorBoard reads on; otherwise the file is replaced atomically.
pub(super) fn bring_up_to_date(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match length_of_prefix(path, bytes)? {
        Some(length) if length == bytes.len() => Ok(()),
        Some(length) => append(path, length as u64, &bytes[length..]),
        None => replace(path, bytes),
    }
}

/// Appends `bytes` to a file of `length` bytes.
///
/// # Errors
/// Also if another process has changed the length.
pub(super) fn append(path: &Path, length: u64, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    if file.metadata()?.len() != length {
        return Err(io::Error::other("another process writes the file"));
    }
    file.write_all(bytes)
}

/// Length of the file, if its content is the beginning of `bytes`; `None` if it is not, or if there is no file.
fn length_of_prefix(path: &Path, bytes: &[u8]) -> io::Result<Option<usize>> {
    let mut file = match OpenOptions::new().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut part = vec![0; PART];
    let mut length = 0;
    loop {
        let read = file.read(&mut part)?;
        if read == 0 {
            return Ok(Some(length));
        }
        if bytes.get(length..length + read) != Some(&part[..read]) {
            return Ok(None);
        }
        length += read;
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    // TensorBoard does not read a file with this name.
    let temporary = parent.join(format!(".{}.part.tunesmith", std::process::id()));
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_grows_or_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/events");
        bring_up_to_date(&path, b"abc").unwrap();
        let first = fs::metadata(&path).unwrap().ino();
        bring_up_to_date(&path, b"abcdef").unwrap();
        assert_eq!((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino()), (b"abcdef".to_vec(), first));
        bring_up_to_date(&path, b"abX").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abX");
        assert_ne!(fs::metadata(&path).unwrap().ino(), first);
        assert!(append(&path, 5, b"more").is_err());
        assert_eq!(fs::read_dir(folder.path().join("run")).unwrap().count(), 1);
    }
}
