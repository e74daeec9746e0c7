//! Folders of event files relative to their trial, and event files outside of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::event_tree::is_event_file;
use tunesmith_domain::MAX_FOLDER_BYTES;
use tunesmith_files::RootedPath;

/// Limits of the search outside the trial's folder: depth and number of folders. Guesses.
const MAX_DEPTH: usize = 3;
const MAX_FOLDERS: usize = 200;

/// Suffix of a folder that contains the rest of a long escaped name.
const CONTINUED: &str = "%+";

/// Folder of the event file `file` relative to `root`, separated by slashes; `.` for `root` itself. Long names lose
/// their beginning.
pub(super) fn folder_of(root: &Path, file: &Path, has_escaped_names: bool) -> Arc<str> {
    let below = file.strip_prefix(root).unwrap_or(file);
    let path = if has_escaped_names { unescaped(below) } else { below.to_string_lossy().into_owned() };
    let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
    if folder.len() <= MAX_FOLDER_BYTES {
        return folder.into();
    }
    let mark = "…";
    let cut = folder.len() - (MAX_FOLDER_BYTES - mark.len());
    let start = (cut..).find(|index| folder.is_char_boundary(*index)).unwrap_or(folder.len());
    format!("{mark}{}", &folder[start..]).into()
}

fn unescaped(below: &Path) -> String {
    let parts = below.iter().map(|part| part.to_string_lossy().into_owned());
    let name: String = parts.map(|part| part.strip_suffix(CONTINUED).unwrap_or(&part).to_owned()).collect();
    name.replace("%2F", "/").replace("%25", "%")
}

/// Whether the path `folder` ends with the path segments of `only`.
pub(super) fn is_named(folder: &str, only: &str) -> bool {
    let only = only.trim_start_matches("./").trim_matches('/');
    folder
        .strip_suffix(if only.is_empty() { "." } else { only })
        .is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Finds an event file in the job's folder outside the trials' folders, whose names are numbers.
pub(super) fn outside_of_trials(job: &RootedPath) -> Option<PathBuf> {
    let mut folders = vec![(job.clone(), 0)];
    let mut listed = 0;
    while let Some((folder, depth)) = folders.pop() {
        listed += 1;
        if listed > MAX_FOLDERS {
            return None;
        }
        // An unreadable folder explains nothing.
        for entry in folder.entries().into_iter().flatten() {
            if entry.is_file && is_event_file(&entry.name) {
                return Some(folder.join(&entry.name).path());
            }
            let is_trial = depth == 0 && entry.name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
            if entry.is_folder && !is_trial && depth < MAX_DEPTH {
                folders.push((folder.join(&entry.name), depth + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_files_or_of_their_escaped_names() {
        let folder = |file: &str, escaped| folder_of(Path::new("/r"), Path::new(file), escaped).to_string();
        assert_eq!(folder("/r/tfevents", false), ".");
        assert_eq!(folder("/r/a/b%2F/tfevents", false), "a/b%2F");
        assert_eq!(folder("/r/a%2Fb%252Fc%2Ftfevents", true), "a/b%2Fc");
        assert_eq!(folder("/r/tfevents", true), ".");
        assert_eq!(folder("/r/a%2Flong%+/er%2Ftfe%+/vents", true), "a/longer");
        let long = folder(&format!("/r/{}/train/tfevents", "ä".repeat(MAX_FOLDER_BYTES)), false);
        assert!(long.len() <= MAX_FOLDER_BYTES && long.starts_with("…ä") && long.ends_with("ä/train"), "{long}");
    }

    #[test]
    fn folder_is_named_by_the_end_of_its_path() {
        for (only, folders) in [
            ("validation", &["validation", "logs/validation"][..]),
            ("logs/validation/", &["logs/validation"]),
            ("./validation", &["validation", "logs/validation"]),
            (".", &["."]),
        ] {
            for folder in ["validation", "logs/validation", ".", "cross_validation", "validation/train"] {
                assert_eq!(is_named(folder, only), folders.contains(&folder), "{folder} {only}");
            }
        }
    }
}
