//! Package that ships the agent to the cluster.

use std::fs;
use std::io::{self, Cursor, Write};
use std::path::Path;

use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

pub(super) struct Packed {
    /// Content-addressed name.
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
}

/// Packs `file` as the executable `tunesmith`. Blocks.
///
/// # Errors
/// If the file cannot be read.
pub(super) fn pack(file: &Path) -> io::Result<Packed> {
    let program = fs::read(file)?;
    let name = format!("_ray_pkg_{}.zip", hex::encode(&Sha256::digest(&program)[..16]));
    let mut archive = ZipWriter::new(Cursor::new(Vec::with_capacity(program.len() / 2)));
    // Lowest level: higher ones take seconds for an executable of this size and gain little.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(1))
        .unix_permissions(0o755);
    archive.start_file("tunesmith", options)?;
    archive.write_all(&program)?;
    Ok(Packed { name, bytes: archive.finish()?.into_inner() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_contains_the_executable_and_is_named_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::write(&one, "program").unwrap();
        fs::write(&other, "another").unwrap();
        let packed = pack(&one).unwrap();
        assert_eq!(packed.name, pack(&one).unwrap().name);
        assert_ne!(packed.name, pack(&other).unwrap().name);
        let mut archive = zip::ZipArchive::new(Cursor::new(packed.bytes)).unwrap();
        let mut entry = archive.by_name("tunesmith").unwrap();
        assert_eq!(entry.unix_mode().unwrap() & 0o777, 0o755);
        assert_eq!(io::read_to_string(&mut entry).unwrap(), "program");
    }
}
