use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use super::*;

fn text(place: &RootedPath) -> String {
    String::from_utf8(place.read(100).unwrap()).unwrap()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, OpenError>) {
    assert!(matches!(result, Err(OpenError::NotRegular)), "{result:?}");
}

#[test]
fn only_regular_files_below_the_folder_are_opened() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("real");
    fs::create_dir_all(folder.join("inner")).unwrap();
    fs::write(folder.join("inner/file"), "content").unwrap();
    fs::write(temporary.path().join("secret"), "secret").unwrap();
    symlink(temporary.path().join("secret"), folder.join("link")).unwrap();
    symlink("file", folder.join("inner/near")).unwrap();
    symlink(temporary.path(), folder.join("out")).unwrap();
    symlink("/dev/zero", folder.join("zero")).unwrap();
    assert!(Command::new("mkfifo").arg(folder.join("pipe")).status().unwrap().success());
    // The trusted folder itself may be reached through a link.
    symlink(&folder, temporary.path().join("alias")).unwrap();

    let root = RootedPath::new(temporary.path().join("alias"), "");
    assert_eq!(text(&root.join("inner/file")), "content");
    for name in ["link", "inner/near", "out/secret", "zero", "pipe", "inner", "../secret", "/etc/passwd"] {
        refused(root.join(name).open());
        refused(root.join(name).read(10));
        refused(root.join(name).read_tail(10));
        refused(root.join(name).append());
        refused(root.join(name).read_write());
    }
    refused(root.join("out").entries());
    assert!(root.join("absent").open().unwrap_err().is_not_found());
    assert!(root.join("absent/file").open().unwrap_err().is_not_found());
    assert_eq!(fs::read(temporary.path().join("secret")).unwrap(), b"secret");
    assert!(root.join("link").metadata().unwrap().is_symlink());

    let mut entries = root.entries().unwrap();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    let kinds: Vec<(&str, bool, bool)> =
        entries.iter().map(|entry| (entry.name.to_str().unwrap(), entry.is_file, entry.is_folder)).collect();
    let other = |name| (name, false, false);
    assert_eq!(kinds, [("inner", false, true), other("link"), other("out"), other("pipe"), other("zero")]);
}

#[test]
fn reads_are_bounded() {
    let temporary = tempfile::tempdir().unwrap();
    let place = RootedPath::from(temporary.path().join("file"));
    fs::write(place.path(), "0123456789").unwrap();
    assert_eq!(place.read(10).unwrap(), b"0123456789");
    assert!(matches!(place.read(9), Err(OpenError::TooLarge { limit: 9 })));
    assert_eq!(place.read_tail(3).unwrap(), b"789");
    assert_eq!(place.read_tail(30).unwrap(), b"0123456789");
}

#[test]
fn replaced_files_are_private_and_links_are_not_followed() {
    let temporary = tempfile::tempdir().unwrap();
    let victim = temporary.path().join("victim");
    fs::write(&victim, "kept").unwrap();
    let place = RootedPath::from(temporary.path().join("file"));
    symlink(&victim, place.path()).unwrap();
    symlink(&victim, temporary.path().join(format!("file.{}.tmp", std::process::id()))).unwrap();
    for durable in [true, false] {
        place.replace(b"new", durable).unwrap();
        assert_eq!(text(&place), "new");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"kept");
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn whole_path_without_links_is_followed_from_the_root() {
    let temporary = tempfile::tempdir().unwrap();
    let real = fs::canonicalize(temporary.path()).unwrap();
    fs::create_dir(real.join("models")).unwrap();
    fs::write(real.join("models/file"), "content").unwrap();
    symlink(real.join("models"), real.join("alias")).unwrap();
    assert_eq!(text(&RootedPath::without_links(&real.join("models/file"))), "content");
    refused(RootedPath::without_links(&real.join("alias/file")).open());
    refused(RootedPath::without_links(&real.join("models/../models/file")).open());
    // A link replaces the folder after the path was determined.
    let place = RootedPath::without_links(&real.join("models"));
    fs::rename(real.join("models"), real.join("moved")).unwrap();
    symlink("/etc", real.join("models")).unwrap();
    refused(place.join("passwd").open());
    refused(place.entries());
    refused(place.join("new").create_folder());
}

#[test]
fn folders_are_created_beneath_without_following_links() {
    let temporary = tempfile::tempdir().unwrap();
    let place = RootedPath::new(temporary.path(), "");
    symlink("/etc", temporary.path().join("out")).unwrap();
    fs::write(temporary.path().join("file"), "").unwrap();
    place.join("a/b").create_folder().unwrap();
    place.join("a/b").create_folder().unwrap();
    assert!(temporary.path().join("a/b").is_dir());
    for name in ["out/tunesmith-test", "out", "file/x", "../x"] {
        refused(place.join(name).create_folder());
    }
    assert!(!std::path::Path::new("/etc/tunesmith-test").exists());
}

#[test]
fn impossible_names_are_not_found() {
    let temporary = tempfile::tempdir().unwrap();
    let place = RootedPath::new(temporary.path(), "");
    for name in ["a\0b".to_owned(), "n".repeat(5000), "a\0/b".to_owned()] {
        let error = place.join(&name).open().unwrap_err();
        assert!(matches!(error, OpenError::ImpossibleName) && error.is_not_found(), "{error:?}");
        assert!(matches!(place.join(&name).create_folder(), Err(OpenError::ImpossibleName)));
    }
}

#[test]
fn paths_do_not_lead_through_a_closed_folder() {
    let root = tempfile::tempdir().unwrap();
    let closed = root.path().join("a/closed");
    fs::create_dir_all(closed.join("inner")).unwrap();
    fs::write(closed.join("secret"), "s").unwrap();
    fs::write(root.path().join("a/open"), "o").unwrap();
    let metadata = fs::metadata(&closed).unwrap();
    let place = |below: &str| RootedPath::new(root.path(), below).outside_of([(metadata.dev(), metadata.ino())].into());
    assert_eq!(place("a/open").read(9).unwrap(), b"o");
    let is_closed = |error: OpenError| matches!(error, OpenError::NotRegular);
    assert!(is_closed(place("a/closed/secret").open().unwrap_err()));
    assert!(is_closed(place("a/closed").entries().unwrap_err()));
    assert!(is_closed(place("a").join("closed/inner").entries().unwrap_err()));
    assert!(is_closed(place("a/closed/new").create_folder().unwrap_err()));
    assert!(!closed.join("new").exists());
}
