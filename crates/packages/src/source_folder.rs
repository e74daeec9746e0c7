use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use walkdir::{DirEntry, WalkDir};

use super::PackageError;

/// Build definitions beside the package.
const BUILD_FILES: [&str; 2] = ["setup.py", "pyproject.toml"];

/// Folder of a Python package (`--package-path`), which contains `__init__.py`.
///
/// As in gcloud, the parent folder determines the build. With a `setup.py` or `pyproject.toml` there, that file is
/// used, and the archive includes the sibling Python packages, a `src` folder and the parent's files, but no other
/// folders, which contain data and results of earlier runs. Otherwise the archive has only the package with its data
/// files and a minimal `setup.py`. Hidden files, `__pycache__`, `build`, `dist` and `*.egg-info` are never packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFolder {
    /// Canonical.
    path: PathBuf,
    name: String,
    parent: PathBuf,
    has_build_file: bool,
}

impl SourceFolder {
    /// # Errors
    /// [`PackageError::NotAPackageFolder`] if `path` is not the folder of a package.
    pub fn new(path: &Path) -> Result<Self, PackageError> {
        let wrong = |detail: String| PackageError::NotAPackageFolder { path: path.to_owned(), detail };
        let canonical = fs::canonicalize(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => wrong("it does not exist".to_owned()),
            _ => wrong(error.to_string()),
        })?;
        if !canonical.is_dir() {
            return Err(wrong("it is not a folder".to_owned()));
        }
        if !canonical.join("__init__.py").is_file() {
            return Err(wrong(match subfolder_with_package(&canonical) {
                Some(package) => format!("it has no __init__.py; did you mean `{}`?", path.join(package).display()),
                None => "it has no __init__.py".to_owned(),
            }));
        }
        let (Some(name), Some(parent)) = (canonical.file_name(), canonical.parent()) else {
            return Err(wrong("it is the root folder".to_owned()));
        };
        let name = name.to_str().filter(|name| is_identifier(name)).ok_or_else(|| {
            wrong(format!("`{}` cannot be imported: use letters, digits and underscores", name.to_string_lossy()))
        })?;
        let has_build_file = BUILD_FILES.iter().any(|file| parent.join(file).is_file());
        Ok(Self { name: name.to_owned(), parent: parent.to_owned(), has_build_file, path: canonical })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn read(&self) -> Result<FolderContent, PackageError> {
        let mut files = Vec::new();
        // Links are followed, since their targets do not exist on the build machine.
        let walk = WalkDir::new(&self.parent).follow_links(true).sort_by_file_name();
        for entry in walk.into_iter().filter_entry(|entry| self.is_packed(entry)) {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(&self.parent).to_owned();
                PackageError::io("read", path)(error.into())
            })?;
            if !entry.file_type().is_file() {
                continue;
            }
            let bytes = fs::read(entry.path()).map_err(PackageError::io("read", entry.path()))?;
            let relative = entry.path().strip_prefix(&self.parent).unwrap_or(entry.path());
            files.push((relative.to_owned(), bytes));
        }
        if !self.has_build_file {
            files.push((PathBuf::from("setup.py"), self.minimal_setup().into_bytes()));
        }
        Ok(FolderContent { files })
    }

    fn is_packed(&self, entry: &DirEntry) -> bool {
        if entry.depth() == 0 {
            return true;
        }
        if is_excluded(entry.file_name()) || !(entry.file_type().is_dir() || entry.file_type().is_file()) {
            return false;
        }
        if entry.depth() > 1 || entry.path() == self.path {
            return true;
        }
        if !self.has_build_file {
            return false;
        }
        !entry.file_type().is_dir() || entry.file_name() == "src" || entry.path().join("__init__.py").is_file()
    }

    fn minimal_setup(&self) -> String {
        let name = &self.name;
        format!(
            "from setuptools import find_packages, setup\n\n\
             setup(\n    name=\"{name}\",\n    version=\"0\",\n    \
             packages=find_packages(include=[\"{name}\", \"{name}.*\"]),\n    package_data={{\"\": [\"**/*\"]}},\n)\n"
        )
    }
}

/// Files of a package, by path below the build folder.
pub(super) struct FolderContent {
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl FolderContent {
    /// Path below the build folder and content of each file.
    pub(super) fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice()))
    }

    /// SHA-256 over all paths and bytes.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for (path, bytes) in &self.files {
            for part in [path.as_os_str().as_encoded_bytes(), bytes.as_slice()] {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            }
        }
        digest.finalize().into()
    }

    /// Writes the files to `folder`, the build folder for an installer.
    pub(super) fn write_into(&self, folder: &Path) -> Result<(), PackageError> {
        for (relative, bytes) in &self.files {
            let path = folder.join(relative);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(PackageError::io("create", parent))?;
            }
            let write = || io::Write::write_all(&mut File::create(&path)?, bytes);
            write().map_err(PackageError::io("write", &path))?;
        }
        Ok(())
    }
}

fn is_excluded(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.')
        || matches!(name.as_ref(), "__pycache__" | "build" | "dist")
        || name.ends_with(".egg-info")
        || name.ends_with(".pyc")
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Only package in `folder`, as a hint for users who name the parent.
fn subfolder_with_package(folder: &Path) -> Option<PathBuf> {
    let mut packages = fs::read_dir(folder)
        .ok()?
        .flatten()
        .filter(|entry| entry.path().join("__init__.py").is_file())
        .map(|entry| PathBuf::from(entry.file_name()));
    packages.next().filter(|_| packages.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for file in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        directory
    }

    fn packed(directory: &Path) -> Vec<String> {
        let content = SourceFolder::new(&directory.join("trainer")).unwrap().read().unwrap();
        content.files.iter().map(|(path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn only_the_package_is_packed_without_a_build_file() {
        let directory = folder(&[
            "trainer/__init__.py",
            "trainer/task.py",
            "trainer/data/words.txt",
            "trainer/__pycache__/task.cpython-311.pyc",
            "trainer/.cache",
            "other/__init__.py",
            "notes.txt",
        ]);
        assert_eq!(
            packed(directory.path()),
            ["trainer/__init__.py", "trainer/data/words.txt", "trainer/task.py", "setup.py"]
        );
    }

    #[test]
    fn results_beside_the_package_are_excluded_with_a_build_file() {
        let directory = folder(&[
            "setup.py",
            "README.md",
            "trainer/__init__.py",
            "common/__init__.py",
            "src/library/code.py",
            "dist/trainer-0.1.tar.gz",
            "trainer.egg-info/PKG-INFO",
            "output/1/model.joblib",
        ]);
        let before = SourceFolder::new(&directory.path().join("trainer")).unwrap().read().unwrap().digest();
        assert_eq!(
            packed(directory.path()),
            ["README.md", "common/__init__.py", "setup.py", "src/library/code.py", "trainer/__init__.py"]
        );
        fs::write(directory.path().join("output/1/events"), "more").unwrap();
        let after = SourceFolder::new(&directory.path().join("trainer")).unwrap().read().unwrap().digest();
        assert_eq!(before, after);
        fs::write(directory.path().join("common/__init__.py"), "changed").unwrap();
        let changed = SourceFolder::new(&directory.path().join("trainer")).unwrap().read().unwrap().digest();
        assert_ne!(before, changed);
    }

    #[test]
    fn folder_without_package_is_rejected_with_the_reason() {
        let directory = folder(&["project/trainer/__init__.py", "my-trainer/__init__.py", "file", "empty/file"]);
        let message = |path: &str| SourceFolder::new(&directory.path().join(path)).unwrap_err().to_string();
        assert!(message("project").contains("it has no __init__.py; did you mean `"), "{}", message("project"));
        assert!(message("project").ends_with("project/trainer`?"));
        assert!(message("empty").ends_with("it has no __init__.py"));
        assert!(message("absent").ends_with("it does not exist"));
        assert!(message("file").ends_with("it is not a folder"));
        assert!(
            message("my-trainer").ends_with("`my-trainer` cannot be imported: use letters, digits and underscores")
        );
    }
}
