//! Source folder packed as an archive, for installation on another machine.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use tar::{Builder, Header};

use super::{PackageError, SourceFolder};

/// Source archive in memory. Reproducible: equal sources give equal bytes on every machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedFolder {
    /// File name accepted by installers.
    pub file_name: String,
    /// Gzipped tar file.
    pub bytes: Vec<u8>,
}

impl PackedFolder {
    /// SHA-256 of the bytes as 64 lower-case hexadecimal digits.
    pub fn sha256(&self) -> String {
        hex::encode(Sha256::digest(&self.bytes))
    }

    /// Writes the archive to `folder` under its name and returns the path.
    pub(super) fn write_into(&self, folder: &Path) -> Result<PathBuf, PackageError> {
        let path = folder.join(&self.file_name);
        let write = File::create(&path).and_then(|mut file| file.write_all(&self.bytes));
        write.map_err(PackageError::io("write", &path))?;
        Ok(path)
    }
}

impl SourceFolder {
    /// Packs the files that [`SourceFolder`] selects below one top-level folder, as in source archives.
    ///
    /// # Errors
    /// [`PackageError::Io`] if a file cannot be read.
    pub fn pack(&self) -> Result<PackedFolder, PackageError> {
        let content = self.read()?;
        let name = self.name();
        let bytes = archive(name, content.files()).map_err(PackageError::io("pack", self.path()))?;
        // The name has no version; installers use the one in `setup.py`.
        Ok(PackedFolder { file_name: format!("{name}.tar.gz"), bytes })
    }
}

pub(super) fn archive<'a>(root: &str, files: impl Iterator<Item = (&'a Path, &'a [u8])>) -> io::Result<Vec<u8>> {
    let compressed: GzEncoder<Vec<u8>> = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    let mut builder = Builder::new(compressed);
    for (path, bytes) in files {
        let mut header = Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        builder.append_data(&mut header, Path::new(root).join(path), bytes)?;
    }
    let mut compressed = builder.into_inner()?;
    compressed.flush()?;
    compressed.finish()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;

    use super::*;

    #[test]
    fn equal_sources_in_different_folders_give_equal_archives() {
        let pack = |text: &str| {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir_all(directory.path().join("trainer/data")).unwrap();
            fs::write(directory.path().join("trainer/__init__.py"), "").unwrap();
            fs::write(directory.path().join("trainer/data/words.txt"), text).unwrap();
            SourceFolder::new(&directory.path().join("trainer")).unwrap().pack().unwrap()
        };
        let packed = pack("one");
        assert_eq!(packed, pack("one"));
        assert_ne!(packed.sha256(), pack("two").sha256());
        assert_eq!((packed.file_name.as_str(), packed.sha256().len()), ("trainer.tar.gz", 64));

        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.bytes.as_slice()));
        let mut files = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            files.push((entry.path().unwrap().display().to_string(), text));
        }
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["trainer/trainer/__init__.py", "trainer/trainer/data/words.txt", "trainer/setup.py"]);
        assert_eq!(files[1].1, "one");
        assert!(files[2].1.contains("find_packages"));
    }
}
