//! Packages staged in a folder for another machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::fetch::{self, Fetched};
use super::{Environments, Package, PackageError, PackedFolder, Step, unblock};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedPackage {
    /// SHA-256 of the bytes as 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// File name accepted by installers.
    pub file_name: String,
}

impl StagedPackage {
    /// Path below the staging folder.
    pub fn relative_path(&self) -> PathBuf {
        Path::new(&self.sha256).join(&self.file_name)
    }
}

impl Environments {
    /// Copies `packages` into `folder`, created on demand, each to [`StagedPackage::relative_path`]. Keeps existing
    /// packages. Calls `observer` before each potentially slow step.
    ///
    /// # Errors
    /// [`PackageError`] if a package cannot be read or is not one, `requirements` are refused, or a file cannot be
    /// written.
    pub async fn stage(
        &self,
        packages: &[Package],
        requirements: &[String],
        folder: &Path,
        observer: &(dyn Fn(Step) + Send + Sync),
    ) -> Result<Vec<StagedPackage>, PackageError> {
        self.check_requirements(requirements)?;
        let root = self.make_root(None)?;
        let mut staged = Vec::with_capacity(packages.len());
        for package in packages {
            let folder = folder.to_owned();
            staged.push(match package {
                Package::Archive(source) => {
                    observer(Step::Fetching { uri: source.to_string() });
                    keep(fetch::fetch(source, None, &root, &self.variables, &self.rules).await?, folder).await?
                }
                Package::Local(archive) => keep(fetch::read_local(archive).await?, folder).await?,
                Package::Folder(source) => {
                    let source = source.clone();
                    unblock(move || keep_packed(&source.pack()?, &folder)).await?
                }
                Package::Packed(packed) => {
                    let packed = packed.clone();
                    unblock(move || keep_packed(&packed, &folder)).await?
                }
            });
        }
        Ok(staged)
    }
}

fn keep_packed(packed: &PackedFolder, folder: &Path) -> Result<StagedPackage, PackageError> {
    let one = StagedPackage { sha256: packed.sha256(), file_name: packed.file_name.clone() };
    let place = folder.join(&one.sha256);
    fs::create_dir_all(&place).map_err(PackageError::io("create", &place))?;
    let unfinished = tempfile::tempdir_in(folder).map_err(PackageError::io("create a folder in", folder))?;
    let written = packed.write_into(unfinished.path())?;
    persist(&written, &folder.join(one.relative_path()))?;
    Ok(one)
}

async fn keep(fetched: Fetched, folder: PathBuf) -> Result<StagedPackage, PackageError> {
    let one = StagedPackage { sha256: hex::encode(fetched.digest), file_name: fetched.file_name.clone() };
    let place = folder.join(&one.sha256);
    unblock(move || {
        fs::create_dir_all(&place).map_err(PackageError::io("create", &place))?;
        let unfinished = tempfile::tempdir_in(&folder).map_err(PackageError::io("create a folder in", &folder))?;
        let written = fetched.write_into(unfinished.path())?;
        persist(&written, &folder.join(one.relative_path()))?;
        Ok(one)
    })
    .await
}

/// Moves the complete file `from` to `to`, which may already have the same bytes.
fn persist(from: &Path, to: &Path) -> Result<(), PackageError> {
    let synced = File::open(from).and_then(|file| file.sync_all());
    synced.map_err(PackageError::io("sync", from))?;
    fs::rename(from, to).map_err(PackageError::io("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFolder;

    #[tokio::test]
    async fn packages_are_staged_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("trainer");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("__init__.py"), "").unwrap();
        fs::write(source.join("task.py"), "print(1)").unwrap();
        let archive = folder.path().join("extra-1.0.tar.gz");
        let packed = SourceFolder::new(&source).unwrap().pack().unwrap();
        fs::write(&archive, &packed.bytes).unwrap();
        let packages = [
            Package::Archive(archive.to_str().unwrap().parse().unwrap()),
            Package::Folder(SourceFolder::new(&source).unwrap()),
        ];
        let environments = Environments::new(folder.path().join("environments"));
        let stage = folder.path().join("stage");
        for _ in 0..2 {
            let staged = environments.stage(&packages, &[], &stage, &|_| {}).await.unwrap();
            let names: Vec<&str> = staged.iter().map(|one| one.file_name.as_str()).collect();
            assert_eq!(names, ["extra-1.0.tar.gz", "trainer.tar.gz"]);
            for one in &staged {
                assert_eq!(one.sha256, packed.sha256());
                assert_eq!(fs::read(stage.join(one.relative_path())).unwrap(), packed.bytes);
            }
            assert_eq!(fs::read_dir(&stage).unwrap().count(), 1, "nothing unfinished is left");
        }
        let missing = [Package::Archive("/nowhere/x-1.0.tar.gz".parse().unwrap())];
        let error = environments.stage(&missing, &[], &stage, &|_| {}).await.unwrap_err();
        assert!(matches!(error, PackageError::NotFound { .. }), "{error}");
    }
}
