//! Packages that are refused: hostile archives, endless downloads, addresses that are not public.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use tempfile::TempDir;
use tunesmith_packages::{EnvironmentRequest, Environments, Package, PackageError, PackageRules};

/// Writes an archive: the entries of a kind that the first argument names.
const MAKE: &str = r#"
import io, sys, tarfile, zipfile, stat
kind, path = sys.argv[1:]

def add(archive, name, size=1, **fields):
    entry = tarfile.TarInfo(name)
    entry.size = size
    for field, value in fields.items():
        setattr(entry, field, value)
    archive.addfile(entry, io.BytesIO(b"x" * size) if entry.isfile() else None)

if path.endswith(".whl"):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if kind == "above":
            archive.writestr("../evil.py", "x")
        elif kind == "link":
            entry = zipfile.ZipInfo("module.py")
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, "/etc/passwd")
        else:
            archive.writestr("module.py", "x" * 100_000)
else:
    with tarfile.open(path, "w:" + path.rsplit(".", 1)[1]) as archive:
        if kind == "above":
            add(archive, "a-1/../../evil.py")
        elif kind == "absolute":
            add(archive, "/tmp/evil.py")
        elif kind == "link":
            add(archive, "a-1/link", 0, type=tarfile.SYMTYPE, linkname="../../..")
        elif kind == "hard link":
            add(archive, "a-1/link", 0, type=tarfile.LNKTYPE, linkname="/etc/passwd")
        elif kind == "through":
            add(archive, "a-1/link", 0, type=tarfile.SYMTYPE, linkname="deep/folder")
            add(archive, "a-1/link/evil.py")
        elif kind == "pipe":
            add(archive, "a-1/pipe", 0, type=tarfile.FIFOTYPE)
        elif kind == "many":
            for number in range(20):
                add(archive, f"a-1/{number}")
        else:
            add(archive, "a-1/large", 100_000)
"#;

struct Fixture(TempDir);

impl Fixture {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn archive(&self, kind: &str, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        let made = tunesmith_testing::program("python3").args(["-c", MAKE, kind]).arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    /// Returns the URI and the rule of the refusal of the package at `uri`.
    async fn refusal(&self, uri: &str, rules: PackageRules) -> String {
        let environments = Environments::new(self.0.path().join("environments")).with_rules(rules);
        let packages = vec![Package::Archive(uri.parse().unwrap())];
        let request = EnvironmentRequest { packages, ..EnvironmentRequest::default() };
        match environments.prepare(&request).await {
            Err(PackageError::Refused { uri: named, detail }) if named == uri => detail,
            other => panic!("{uri}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn archives_whose_entries_leave_their_folder_are_refused_before_they_are_unpacked() {
    let fixture = Fixture::new();
    for (kind, name, rule) in [
        ("above", "a-1.tar.gz", "its entry 'a-1/../../evil.py' leads out of its folder"),
        ("above", "a-1.tar.bz2", "its entry 'a-1/../../evil.py' leads out of its folder"),
        ("above", "a-1.tar.xz", "its entry 'a-1/../../evil.py' leads out of its folder"),
        ("absolute", "b-1.tar.gz", "its entry '/tmp/evil.py' leads out of its folder"),
        ("link", "c-1.tar.gz", "its entry 'a-1/link' is a link out of its folder"),
        ("hard link", "d-1.tar.gz", "its entry 'a-1/link' is a link out of its folder"),
        ("through", "e-1.tar.gz", "its entry 'a-1/link/evil.py' leads through a link"),
        ("pipe", "f-1.tar.gz", "its entry 'a-1/pipe' is not a file, a folder or a link"),
        ("above", "a-1-py3-none-any.whl", "its entry '../evil.py' leads out of its folder"),
        ("link", "b-1-py3-none-any.whl", "its entry 'module.py' is a link"),
    ] {
        let path = fixture.archive(kind, name);
        assert_eq!(fixture.refusal(path.to_str().unwrap(), PackageRules::default()).await, rule, "{name}");
    }
    let evil = tunesmith_testing::program("find").arg(fixture.0.path()).args(["-name", "evil.py"]).output().unwrap();
    assert_eq!(String::from_utf8(evil.stdout).unwrap(), "");
    assert!(!Path::new("/tmp/evil.py").exists());
}

#[tokio::test]
async fn archives_that_unpack_to_too_much_are_refused() {
    let fixture = Fixture::new();
    let rules = PackageRules { max_unpacked_bytes: 50_000, max_entries: 10, ..PackageRules::default() };
    for (kind, name, rule) in [
        ("large", "a-1.tar.gz", "its entries have more than 50000 bytes"),
        ("large", "a-1-py3-none-any.whl", "its entries have more than 50000 bytes"),
        ("many", "b-1.tar.gz", "it has more than 10 entries"),
    ] {
        let path = fixture.archive(kind, name);
        assert_eq!(fixture.refusal(path.to_str().unwrap(), rules).await, rule, "{name}");
    }
}

/// Serves an endless archive under `/endless` and one that never begins under `/silent`.
async fn serve() -> String {
    let endless = || async {
        let chunk = Bytes::from_static(&[0; 65536]);
        Body::from_stream(futures::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone())))
    };
    let silent = || async { Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()) };
    let app = Router::new()
        .route("/endless/{name}", axum::routing::get(endless))
        .route("/silent/{name}", axum::routing::get(silent));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    format!("http://{address}")
}

#[tokio::test]
async fn downloads_are_bounded_in_size_and_time() {
    let fixture = Fixture::new();
    let server = serve().await;
    let rules = PackageRules { allow_private_addresses: true, max_archive_bytes: 1 << 20, ..PackageRules::default() };
    let endless = fixture.refusal(&format!("{server}/endless/a-1.tar.gz"), rules).await;
    assert_eq!(endless, "it has more than 1048576 bytes");
    let rules = PackageRules { max_download_time: Duration::from_secs(1), ..rules };
    let silent = fixture.refusal(&format!("{server}/silent/a-1.tar.gz"), rules).await;
    assert_eq!(silent, "its download takes longer than 1 s");
}

#[tokio::test]
async fn private_addresses_are_refused_alike_whether_a_service_listens_or_not() {
    let fixture = Fixture::new();
    let server = serve().await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let rule = "its address is not public; the operator may allow it with --allow-private-package-addresses";
    let by_name = server.replace("127.0.0.1", "localhost");
    for base in [server, closed, by_name, "http://169.254.169.254".to_owned(), "http://[::1]:1".to_owned()] {
        assert_eq!(
            fixture.refusal(&format!("{base}/endless/a-1.tar.gz"), PackageRules::default()).await,
            rule,
            "{base}"
        );
    }
}

#[tokio::test]
async fn requirements_that_name_addresses_or_paths_are_refused() {
    let fixture = Fixture::new();
    for requirement in ["a @ http://127.0.0.1:1/a-1.tar.gz", "/etc", "git+ssh://host/a", "."] {
        let environments = Environments::new(fixture.0.path().join("environments"));
        let requirements = vec!["numpy".to_owned(), requirement.to_owned()];
        let request = EnvironmentRequest { requirements, ..EnvironmentRequest::default() };
        let error = environments.prepare(&request).await.unwrap_err();
        assert!(matches!(&error, PackageError::Refused { uri, .. } if uri == requirement), "{error:?}");
    }
}
