//! Input paths: files, folders, and patterns.
//!
//! `*` and `?` match within a name, `**` as a whole name matches any number of folders. Names that begin with a dot are
//! matched by patterns that begin with one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tunesmith_files::{OpenError, RootedPath};
use tunesmith_jobs::BatchError;
use tunesmith_jobs::allowed_folders::ModelFolder;
use tunesmith_objects::ObjectError;
use tunesmith_packages::ProgramUser;

use super::lines::Source;
use super::shards::{InputFile, MAX_FILES};
use crate::models::Inner;

/// Names that one pattern may look at. A guess.
const MAX_LOOKED_AT: usize = 100_000;
const MAX_DEPTH: usize = 32;

/// A path that may have a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pattern<'a> {
    base: &'a str,
    /// Pattern below the base; `None` for a file or folder.
    rest: Option<&'a str>,
}

impl<'a> Pattern<'a> {
    pub(super) fn new(path: &'a str) -> Self {
        let Some(first) = path.find(['*', '?']) else {
            return Self { base: path.trim_end_matches('/'), rest: None };
        };
        match path.get(..first).and_then(|before| before.rfind('/')) {
            Some(slash) => Self { base: &path[..slash.max(1)], rest: Some(&path[slash + 1..]) },
            // Relative, which is refused.
            None => Self { base: path, rest: None },
        }
    }

    /// The folder below which the pattern matches; the path itself without one.
    pub(super) fn base(self) -> &'a str {
        self.base
    }
}

/// Whether `name`, a relative path, matches `pattern`.
fn matches(pattern: &str, name: &str) -> bool {
    let names: Vec<&str> = name.split('/').collect();
    // Whether the names before each position match the parts so far.
    let mut reached = vec![false; names.len() + 1];
    reached[0] = true;
    for part in pattern.split('/') {
        let mut next = vec![false; names.len() + 1];
        for position in 0..=names.len() {
            if part == "**" {
                let is_open = position > 0 && next[position - 1] && !names[position - 1].starts_with('.');
                next[position] = reached[position] || is_open;
            } else if position > 0 {
                next[position] = reached[position - 1] && matches_name(part, names[position - 1]);
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

fn matches_name(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let name: Vec<char> = name.chars().collect();
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for wanted in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        for position in 0..=name.len() {
            next[position] = match wanted {
                '*' => reached[position] || (position > 0 && next[position - 1]),
                '?' => position > 0 && reached[position - 1],
                wanted => position > 0 && reached[position - 1] && name[position - 1] == wanted,
            };
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

impl Inner {
    /// Files of `paths`, by path and without duplicates.
    pub(super) async fn input_files(&self, project: &str, paths: &[String]) -> Result<Vec<InputFile>, BatchError> {
        let user = self.program_user(project);
        let mut files = BTreeMap::new();
        for path in paths {
            let found = self.files_of(project, path, user.as_ref()).await?;
            if found.is_empty() {
                return Err(BatchError::Failed(format!("inputPaths: {path} matches no file")));
            }
            files.extend(found.into_iter().map(|file| (file.path, file.size)));
            if files.len() > MAX_FILES {
                let text = format!("inputPaths: more than {MAX_FILES} files, the maximum, with those of {path}");
                return Err(BatchError::Failed(text));
            }
        }
        Ok(files.into_iter().map(|(path, size)| InputFile { path, size }).collect())
    }

    async fn files_of(
        &self,
        project: &str,
        path: &str,
        user: Option<&ProgramUser>,
    ) -> Result<Vec<InputFile>, BatchError> {
        let pattern = Pattern::new(path);
        let failed = |error: String| BatchError::Failed(format!("inputPaths: {error}"));
        let place = self.services.allowed_folders.model_folder(project, pattern.base, user);
        match place.map_err(|error| failed(error.to_string()))? {
            ModelFolder::Here(place) => {
                let rest = pattern.rest.map(str::to_owned);
                let located = self.located(project, place, user);
                let look = tokio::task::spawn_blocking(move || local_files(&located(), rest.as_deref()));
                look.await.map_err(|error| failed(error.to_string()))?.map_err(failed)
            }
            ModelFolder::Objects(url) => {
                let failed_text = failed;
                let failed = |error: ObjectError| failed_text(error.to_string());
                let folder = self.services.buckets.folder(&url).map_err(failed)?;
                if pattern.rest.is_none()
                    && let Some(size) = folder.size().await.map_err(failed)?
                {
                    return Ok(vec![InputFile { path: url, size }]);
                }
                let pattern = pattern.rest.unwrap_or("*");
                let mut left = MAX_LOOKED_AT;
                let accepts = |name: &str| {
                    left = left.checked_sub(1)?;
                    Some(matches(pattern, name))
                };
                let files = folder.files(MAX_FILES + 1, accepts).await.map_err(failed)?;
                check_found(path, files.len(), left > 0).map_err(failed_text)?;
                let input = |file: tunesmith_objects::ObjectFile| InputFile {
                    path: format!("{}/{}", folder.url(), file.name),
                    size: file.size,
                };
                Ok(files.into_iter().map(input).collect())
            }
        }
    }

    /// The file or folder at `place`. On a server that restricts folders, no component may be a link. Blocks.
    fn located(
        &self,
        project: &str,
        place: RootedPath,
        user: Option<&ProgramUser>,
    ) -> impl FnOnce() -> RootedPath + Send + 'static {
        let is_restricted = self.services.allowed_folders.base(project).is_some();
        let user = user.map(|user| Arc::new(user.files()));
        move || {
            if is_restricted {
                return place;
            }
            let path = std::fs::canonicalize(place.path()).unwrap_or_else(|_| place.path());
            RootedPath::from(path).with_rights_of(user)
        }
    }

    /// Opens an input file, which must still have the size that was found at the start of the job.
    pub(super) async fn open_input(&self, project: &str, file: &InputFile) -> Result<Source, BatchError> {
        let user = self.program_user(project);
        let path = file.path.clone();
        let failed = move |error: String| BatchError::Failed(format!("{path} cannot be read: {error}"));
        let place = self.services.allowed_folders.model_folder(project, &file.path, user.as_ref());
        let (source, size) = match place.map_err(|error| failed(error.to_string()))? {
            ModelFolder::Here(place) => {
                let located = self.located(project, place, user.as_ref());
                let open = move || {
                    let opened = located().open()?;
                    let size = opened.metadata()?.len();
                    Ok::<_, OpenError>((Source::File(Arc::new(opened)), size))
                };
                let opened = tokio::task::spawn_blocking(open).await.map_err(|error| failed(error.to_string()))?;
                opened.map_err(|error| failed(error.to_string()))?
            }
            ModelFolder::Objects(url) => {
                let object = self.services.buckets.folder(&url).map_err(|error| failed(error.to_string()))?;
                let size = object.size().await.map_err(|error| failed(error.to_string()))?;
                (Source::Object(object), size.unwrap_or(0))
            }
        };
        if size != file.size {
            let text = format!("it has {size} bytes, and had {} at the start of the job", file.size);
            return Err(failed(text));
        }
        Ok(source)
    }
}

/// Files at `place`: of the file or folder itself, or those below it that match `pattern`.
fn local_files(place: &RootedPath, pattern: Option<&str>) -> Result<Vec<InputFile>, String> {
    let unreadable = |place: &RootedPath, error: OpenError| match error.is_not_found() {
        true => format!("{} does not exist", place.path().display()),
        false => format!("{} cannot be read: {error}", place.path().display()),
    };
    let input = |place: &RootedPath| -> Result<InputFile, String> {
        let path = place.path().into_os_string().into_string();
        let path = path.map_err(|path| format!("{} is not UTF-8", path.display()))?;
        let size = place.metadata().map_err(|error| unreadable(place, error))?.len();
        Ok(InputFile { path, size })
    };
    let metadata = place.metadata().map_err(|error| unreadable(place, error))?;
    if pattern.is_none() && metadata.is_file() {
        return Ok(vec![input(place)?]);
    }
    let pattern = pattern.unwrap_or("*");
    let parts: Vec<&str> = pattern.split('/').collect();
    let is_deep = parts.contains(&"**");
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut folders = vec![(place.clone(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        for entry in folder.entries().map_err(|error| unreadable(&folder, error))? {
            looked_at += 1;
            check_found(pattern, found.len(), looked_at <= MAX_LOOKED_AT)?;
            let Some(name) = entry.name.to_str() else { continue };
            let (path, relative) = (folder.join(name), format!("{prefix}{name}"));
            if entry.is_file && matches(pattern, &relative) {
                found.push(input(&path)?);
            }
            let may_match = match is_deep {
                true => depth < MAX_DEPTH && !name.starts_with('.'),
                false => depth + 1 < parts.len() && parts.get(depth).is_some_and(|part| matches_name(part, name)),
            };
            if entry.is_folder && may_match {
                folders.push((path, format!("{relative}/"), depth + 1));
            }
        }
    }
    check_found(pattern, found.len(), true)?;
    Ok(found)
}

/// Checks the number of files that `pattern` has found, and whether it has not looked at too many.
fn check_found(pattern: &str, found: usize, is_bounded: bool) -> Result<(), String> {
    if found > MAX_FILES {
        return Err(format!("{pattern} matches more than {MAX_FILES} files, the maximum"));
    }
    if !is_bounded {
        return Err(format!("{pattern} looks at more than {MAX_LOOKED_AT} files, the maximum"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name) in [
            ("*", "a"),
            ("*.json", "a.json"),
            ("a?c*", "abc"),
            ("*/part-*", "x/part-1"),
            ("**/*.json", "a/b/c.json"),
            ("**/*.json", "c.json"),
            ("a/**", "a/b/c"),
            (".*", ".hidden"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*", "a/b"),
            ("*", ".hidden"),
            ("*.json", "a.jsonl"),
            ("?", ""),
            ("a/**/b", "a/c"),
            ("**", ".git/x"),
            ("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn pattern_has_a_base() {
        let parts = |path| {
            let pattern = Pattern::new(path);
            (pattern.base, pattern.rest)
        };
        assert_eq!(parts("/a/b*/c"), ("/a", Some("b*/c")));
        assert_eq!(parts("/*"), ("/", Some("*")));
        assert_eq!(parts("gs://bucket/in/**/x?"), ("gs://bucket/in", Some("**/x?")));
        assert_eq!(parts("gs://bucket/*"), ("gs://bucket", Some("*")));
        assert_eq!(parts("/a/b/"), ("/a/b", None));
        assert_eq!(parts("gs://b*/x"), ("gs:/", Some("b*/x")));
    }

    #[test]
    fn files_of_folders_and_patterns_are_found() {
        let root = tempfile::tempdir().unwrap();
        for name in ["in/1.json", "in/2.json", "in/.3.json", "in/deep/4.json", "in/deep/er/5.json", "in/x.csv"] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", root.path().join("in/6.json")).unwrap();
        let place = RootedPath::new(root.path(), "in");
        let found = |place: &RootedPath, pattern| {
            let mut files = local_files(place, pattern).unwrap();
            files.sort_by(|a, b| a.path.cmp(&b.path));
            let below = root.path().display().to_string() + "/in/";
            files.iter().map(|file| file.path.strip_prefix(&below).unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(found(&place, None), "1.json 2.json x.csv");
        assert_eq!(found(&place, Some("*.json")), "1.json 2.json");
        assert_eq!(found(&place, Some("de*/*")), "deep/4.json");
        assert_eq!(found(&place, Some("**/*.json")), "1.json 2.json deep/4.json deep/er/5.json");
        assert_eq!(found(&place.join("x.csv"), None), "x.csv");
        let many = root.path().join("many");
        std::fs::create_dir(&many).unwrap();
        for number in 0..=MAX_FILES {
            std::fs::write(many.join(number.to_string()), "").unwrap();
        }
        let error = local_files(&RootedPath::new(root.path(), "many"), Some("**")).unwrap_err();
        assert_eq!(error, "** matches more than 1000 files, the maximum");
        let error = local_files(&place.join("none"), None).unwrap_err();
        assert!(error.ends_with("/in/none does not exist"), "{error}");
    }
}
