//! Environments are built by the real installer, from archives created by the tests and served over HTTP.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tempfile::TempDir;
use tunesmith_packages::{EnvironmentRequest, Environments, Package, PackageError, PackageRules, SourceFolder};
use tunesmith_testing::python::MAKE_WHEEL;

type Variables = BTreeMap<OsString, OsString>;

/// A folder of wheels and a folder of environments.
struct Fixture {
    directory: TempDir,
    variables: Variables,
}

impl Fixture {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            variables: tunesmith_testing::variables().into_iter().collect(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn wheel(&self, name: &str) -> PathBuf {
        let path = self.path(&format!("{name}-1.0-py3-none-any.whl"));
        let made = tunesmith_testing::program("python3").args(["-c", MAKE_WHEEL, name]).arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    fn environments(&self) -> Environments {
        let rules = PackageRules { allow_private_addresses: true, ..PackageRules::default() };
        Environments::with_variables(self.path("environments"), self.variables.clone()).with_rules(rules)
    }

    /// Replaces a program by a script and sets `PATH` to its folder.
    fn stub(&mut self, program: &str, script: &str) {
        let folder = self.path("bin");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self.variables.insert("PATH".into(), folder.into());
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }
}

fn archive(uri: &str) -> Package {
    Package::Archive(uri.parse().unwrap())
}

fn local(path: &Path) -> Package {
    archive(path.to_str().unwrap())
}

fn request(packages: Vec<Package>) -> EnvironmentRequest {
    EnvironmentRequest { packages, ..EnvironmentRequest::default() }
}

async fn failure(fixture: &Fixture, package: Package) -> PackageError {
    fixture.environments().prepare(&request(vec![package])).await.unwrap_err()
}

fn python(python: &Path, code: &str) -> String {
    let output = tunesmith_testing::program(python).args(["-c", code]).env_remove("PYTHONPATH").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Returns the path of the real interpreter behind wrappers of version managers.
fn real_python() -> String {
    python(Path::new("python3"), "import sys; print(sys.executable)")
}

/// Serves the files of `folder` under every path that ends with their name. Below `/signed` and in the bucket `private`
/// requests need a credential.
async fn serve(folder: PathBuf) -> SocketAddr {
    async fn answer(State(folder): State<PathBuf>, uri: Uri, headers: HeaderMap) -> Response {
        let private = uri.path().starts_with("/private/") && !headers.contains_key(header::AUTHORIZATION);
        let unsigned = uri.path().starts_with("/signed/") && uri.query() != Some("token=secret");
        if private || unsigned {
            return StatusCode::FORBIDDEN.into_response();
        }
        let path = percent_decode_str(uri.path()).decode_utf8().unwrap();
        let name = path.rsplit('/').next().unwrap();
        match fs::read(folder.join(name)) {
            Ok(bytes) => {
                let headers = [(header::ETAG, "\"1\""), (header::LAST_MODIFIED, "Wed, 21 Oct 2015 07:28:00 GMT")];
                (headers, bytes).into_response()
            }
            Err(_) => (StatusCode::NOT_FOUND, "<!DOCTYPE html>").into_response(),
        }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = Router::new().fallback(answer).with_state(folder);
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

#[tokio::test]
async fn packages_from_all_sources_are_installed_together() {
    let mut fixture = Fixture::new();
    let names = ["from_path", "from_uri", "from_web", "from_s3", "from_gs"];
    let wheels = names.map(|name| fixture.wheel(name));
    let server = serve(fixture.path("")).await;
    let endpoint = format!("http://{server}");
    fixture.set("AWS_ENDPOINT", &endpoint);
    fixture.set("AWS_ALLOW_HTTP", "true");
    fixture.set("AWS_ACCESS_KEY_ID", "key");
    fixture.set("AWS_SECRET_ACCESS_KEY", "secret");
    fixture.set("GOOGLE_BASE_URL", &endpoint);
    fixture.set("GOOGLE_SKIP_SIGNATURE", "true");

    let request = request(vec![
        local(&wheels[0]),
        archive(&format!("file://{}", wheels[1].display())),
        archive(&format!("{endpoint}/signed/from_web-1.0-py3-none-any.whl?token=secret")),
        archive("s3://private/some/folder/from_s3-1.0-py3-none-any.whl"),
        archive("gs://bucket/some/folder/from_gs-1.0-py3-none-any.whl"),
    ]);
    let environment = fixture.environments().prepare(&request).await.unwrap();
    for name in names {
        let code = format!("import {name}; print({name}.WHERE)");
        assert_eq!(python(&environment.python, &code), format!("{name} is installed"));
    }
    let log = fs::read_to_string(&environment.log).unwrap();
    assert!(log.contains("from_gs"), "{log}");

    // A second instance, as in another process, finds the environment and installs nothing.
    fs::write(&environment.log, "untouched").unwrap();
    assert_eq!(fixture.environments().prepare(&request).await.unwrap(), environment);
    assert_eq!(fs::read_to_string(&environment.log).unwrap(), "untouched");

    // Without its marker the environment is incomplete and is built again.
    fs::remove_file(environment.log.with_file_name("ready")).unwrap();
    fs::write(environment.log.with_file_name("left-over"), "").unwrap();
    assert_eq!(fixture.environments().prepare(&request).await.unwrap(), environment);
    assert!(fs::read_to_string(&environment.log).unwrap().contains("from_gs"));
    assert!(!environment.log.with_file_name("left-over").exists());
}

#[tokio::test]
async fn source_folder_is_built_with_its_data() {
    let fixture = Fixture::new();
    let package = fixture.path("project/trainer");
    fs::create_dir_all(package.join("data")).unwrap();
    fs::write(package.join("__init__.py"), "").unwrap();
    fs::write(package.join("task.py"), "print(__import__('pkgutil').get_data('trainer', 'data/words').decode())")
        .unwrap();
    fs::write(package.join("data/words"), "first").unwrap();
    let prepare = async || {
        let folder = Package::Folder(SourceFolder::new(&package).unwrap());
        fixture.environments().prepare(&request(vec![folder])).await.unwrap()
    };

    let first = prepare().await;
    assert_eq!(python(&first.python, "import trainer.task"), "first");
    fs::write(package.join("data/words"), "second").unwrap();
    let second = prepare().await;
    assert_eq!(python(&second.python, "import trainer.task"), "second");
    assert_eq!(python(&first.python, "import trainer.task"), "first");
}

#[tokio::test]
async fn concurrent_callers_build_one_environment() {
    let mut fixture = Fixture::new();
    let wheel = fixture.wheel("shared");
    let calls = fixture.path("calls");
    let wrapper = format!("echo \"$*\" >> '{}'\nexec '{}' \"$@\"", calls.display(), real_python());
    fixture.stub("python3", &wrapper);
    let request = request(vec![local(&wheel)]);
    let (left, right) = (fixture.environments(), fixture.environments());
    let (left, right) = tokio::join!(left.prepare(&request), right.prepare(&request));
    assert_eq!(left.unwrap(), right.unwrap());
    let calls = fs::read_to_string(calls).unwrap();
    assert_eq!(calls.lines().filter(|line| line.contains("-m venv")).count(), 1, "{calls}");
}

#[tokio::test]
async fn failed_installation_is_reported_with_the_output() {
    let fixture = Fixture::new();
    let requirements = vec!["not a requirement".to_owned()];
    let request = EnvironmentRequest { requirements, ..EnvironmentRequest::default() };
    let error = fixture.environments().prepare(&request).await.unwrap_err();
    let PackageError::InstallFailed { output, log, .. } = &error else { panic!("{error}") };
    assert!(output.contains("not a requirement"), "{output}");
    assert!(log.is_file());
    assert!(error.to_string().contains(log.to_str().unwrap()), "{error}");
}

#[tokio::test]
async fn error_of_a_bucket_is_printed_once() {
    let mut fixture = Fixture::new();
    let server = serve(fixture.path("")).await;
    fixture.set("GOOGLE_BASE_URL", format!("http://{server}"));
    fixture.set("GOOGLE_SKIP_SIGNATURE", "true");
    let error = failure(&fixture, archive("gs://private/from_gs-1.0-py3-none-any.whl")).await;
    let text = format!("{:#}", anyhow::Error::from(error));
    assert!(text.starts_with("package `gs://private/from_gs-1.0-py3-none-any.whl` could not be fetched: "), "{text}");
    assert_eq!(text.matches("403 Forbidden").count(), 1, "{text}");
    assert!(text.ends_with("403 Forbidden"), "{text}");
}

#[tokio::test]
async fn package_that_cannot_be_fetched_is_named_with_the_reason() {
    let mut fixture = Fixture::new();
    let server = serve(fixture.path("")).await;
    let endpoint = format!("http://{server}");
    fixture.set("AWS_ENDPOINT", &endpoint);
    fixture.set("AWS_ALLOW_HTTP", "true");
    fixture.set("AWS_SKIP_SIGNATURE", "true");
    fs::write(fixture.path("page-1.tar.gz"), "<!DOCTYPE html>").unwrap();
    let folder = fixture.path("");

    for (uri, expected) in [
        (format!("{endpoint}/absent-1.tar.gz"), "was not found: the server answered 404 Not Found"),
        ("s3://bucket/absent-1.tar.gz".to_owned(), "was not found: the bucket has no such object"),
        ("/absent/absent-1.tar.gz".to_owned(), "was not found: there is no such file"),
        (format!("{endpoint}/page-1.tar.gz"), "is not a gzip file; it begins with `<!DOCT`"),
        (folder.display().to_string(), "it is a folder; pass the folder of a package as --package-path"),
        (format!("{endpoint}/signed/page-1.tar.gz?token=wrong"), "could not be fetched"),
        ("http://127.0.0.1:1/page-1.tar.gz".to_owned(), "could not be fetched"),
    ] {
        let error = failure(&fixture, archive(&uri)).await.to_string();
        assert!(error.contains(expected), "{uri}: {error}");
        assert!(!error.contains("token"), "{error}");
    }
}

#[tokio::test]
async fn missing_python_is_reported_with_installation_advice() {
    let mut fixture = Fixture::new();
    let wheel = fixture.wheel("unused");
    fixture.set("PATH", "/absent");
    let error = failure(&fixture, local(&wheel)).await;
    assert!(matches!(error, PackageError::PythonMissing), "{error}");

    fixture.stub("python3", "echo cpython 3 11; echo False");
    let error = failure(&fixture, local(&wheel)).await;
    assert!(matches!(error, PackageError::VenvMissing { .. }), "{error}");
    assert!(error.to_string().contains("the package python3-venv"), "{error}");

    fixture.stub("python3", "echo broken >&2; exit 1");
    let error = failure(&fixture, local(&wheel)).await;
    assert!(error.to_string().ends_with("does not work: exit status: 1: broken"), "{error}");
}
