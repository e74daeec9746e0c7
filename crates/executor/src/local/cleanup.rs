//! Removal of files of an ended attempt that are no longer needed. Its end, its logs and the files of its program
//! remain.

use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use tunesmith_files::RootedPath;

/// Files for communication between submitter and supervisor. `exit.json` remains; `spec.json` is removed last, since it
/// names the folder of the program.
const RECORDS: [&str; 4] = ["started.json", "stop.json", "lock", "spec.json"];

/// Removes the records of an ended attempt, whose supervisor had its files in `folder`.
pub(super) fn remove_records(folder: &Path) -> io::Result<()> {
    remove_files(folder, &RECORDS)
}

/// Removes files of `folder`, which may be missing.
pub(super) fn remove_files(folder: &Path, names: &[&str]) -> io::Result<()> {
    let folder = RootedPath::from(folder.to_owned()).open_folder()?;
    for name in names {
        gone(unlinkat(&folder, *name, AtFlags::empty()))?;
    }
    Ok(())
}

/// Removes empty logs and empty folders of an ended program from `directory`, which may be missing.
pub(super) fn remove_empty_files(directory: &Path) -> io::Result<()> {
    let place = RootedPath::from(directory.to_owned());
    let folder = match place.open_folder() {
        Ok(folder) => folder,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in place.entries()? {
        let is_empty_log = entry.is_file
            && entry.name.as_encoded_bytes().ends_with(b".log")
            && place.join(&entry.name).metadata().is_ok_and(|metadata| metadata.len() == 0);
        if is_empty_log {
            gone(unlinkat(&folder, &entry.name, AtFlags::empty()))?;
        } else if entry.is_folder {
            // Folders with files of the program remain.
            match unlinkat(&folder, &entry.name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                removed => gone(removed)?,
            }
        }
    }
    Ok(())
}

fn gone(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn absent_folder_of_a_program_is_no_error() {
        let temporary = tempfile::tempdir().unwrap();
        remove_empty_files(&temporary.path().join("absent")).unwrap();
    }

    #[test]
    fn logs_metrics_and_the_exit_status_are_kept() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path().join("attempt-1");
        fs::create_dir_all(directory.join("metrics")).unwrap();
        fs::create_dir_all(directory.join("empty")).unwrap();
        for name in RECORDS {
            fs::write(directory.join(name), "{}").unwrap();
        }
        for (name, text) in
            [("stdout.log", "x"), ("stderr.log", ""), ("exit.json", "{}"), ("metrics/m", ""), ("own", "")]
        {
            fs::write(directory.join(name), text).unwrap();
        }
        for _ in 0..2 {
            remove_empty_files(&directory).unwrap();
            remove_records(&directory).unwrap();
            let mut left: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(left, ["exit.json", "metrics", "own", "stdout.log"]);
        }
    }
}
