use super::*;

const CONTENT: &[u8] = b"\x1f\x8b\x08 a package";

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn upload(packages: &Packages, name: &PackageName, bytes: &[u8]) -> Result<u64, PackagesError> {
    let mut upload = packages.begin(name.clone())?;
    for chunk in bytes.chunks(3) {
        upload.write(chunk)?;
    }
    upload.finish()
}

/// Every file and folder below `folder`.
fn below(folder: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(folder).min_depth(1).into_iter().map(|entry| entry.unwrap().into_path()).collect()
}

#[tokio::test]
async fn package_is_found_by_its_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let packages = Packages::new(folder.path().join("packages"), 100);
    let name = PackageName::new("p", &sha256(CONTENT), "trainer.tar.gz").unwrap();
    assert!(matches!(packages.find(&name), Err(PackagesError::NotFound(_))));
    for _ in 0..2 {
        assert_eq!(upload(&packages, &name, CONTENT).unwrap(), CONTENT.len() as u64);
    }
    let path = packages.resolve("p", &name.uri()).await.unwrap();
    assert_eq!(fs::read(&path).unwrap(), CONTENT);
    assert_eq!(PackageName::parse(&name.uri()).unwrap(), Some(name.clone()));
    assert!(matches!(packages.resolve("q", &name.uri()).await, Err(PackagesError::OtherProject(_))));
    assert_eq!(packages.resolve("q", "gs://bucket/a-1.whl").await.unwrap(), "gs://bucket/a-1.whl");
    let other = PackageName::new("p", &sha256(CONTENT), "other.tar.gz").unwrap();
    assert!(matches!(packages.resolve("p", &other.uri()).await, Err(PackagesError::NotFound(_))));
}

#[test]
fn refused_or_aborted_upload_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let packages = Packages::new(folder.path().to_owned(), 20);
    let name = |sha256: &str, file: &str| PackageName::new("p", sha256, file).unwrap();
    let error = upload(&packages, &name(&sha256(b"other"), "a.tar.gz"), CONTENT).unwrap_err();
    assert!(matches!(error, PackagesError::OtherContent { .. }), "{error}");
    let error = upload(&packages, &name(&sha256(b"text"), "a.tar.gz"), b"text").unwrap_err();
    assert!(matches!(error, PackagesError::NotAPackage(_)), "{error}");
    let error = upload(&packages, &name(&sha256(&[0; 21]), "a.tar.gz"), &[0; 21]).unwrap_err();
    assert!(matches!(error, PackagesError::TooLarge(20)), "{error}");
    let mut unfinished = packages.begin(name(&sha256(CONTENT), "a.tar.gz")).unwrap();
    unfinished.write(CONTENT).unwrap();
    drop(unfinished);
    assert_eq!(below(folder.path()), [folder.path().join("p")]);
    // Left behind by `kill -9`.
    fs::write(folder.path().join("p/.uploading-1"), CONTENT).unwrap();
    packages.remove_unfinished().unwrap();
    assert_eq!(below(folder.path()), [folder.path().join("p")]);
}

#[test]
fn invalid_names_are_refused() {
    let good = sha256(CONTENT);
    for (project, sha256, file_name) in [
        ("..", good.as_str(), "a.whl"),
        (".", &good, "a.whl"),
        ("p/q", &good, "a.whl"),
        ("", &good, "a.whl"),
        ("p", "..", "a.whl"),
        ("p", &good.to_uppercase(), "a.whl"),
        ("p", &good[1..], "a.whl"),
        ("p", &good, ".."),
        ("p", &good, ".uploading-1"),
        ("p", &good, "a/b.whl"),
        ("p", &good, "a\\b.whl"),
        ("p", &good, "a\0.whl"),
        ("p", &good, ""),
        ("p", &good, &"a".repeat(129)),
    ] {
        assert!(PackageName::new(project, sha256, file_name).is_err(), "{project} {sha256} {file_name}");
    }
    for uri in ["tunesmith://projects/p/packages/x", "tunesmith://../../etc/passwd", "tunesmith://"] {
        assert!(PackageName::parse(uri).is_err(), "{uri}");
    }
}
