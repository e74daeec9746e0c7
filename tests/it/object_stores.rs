//! Job folders in object stores, on a real server of the S3 protocol (PyPI `moto`). Google Cloud Storage is requested by the XML
//! interface, which has the same requests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tunesmith_objects::{EventMirror, ObjectError, ObjectFolder};

use super::python;

/// A server with the bucket `models`.
pub(crate) struct Objects {
    process: Child,
    pub(crate) endpoint: String,
}

impl Objects {
    /// Starts a server on a free port. It refuses unknown keys if `checks_keys` is set.
    pub(crate) fn start(checks_keys: bool) -> Self {
        let python = python::interpreter(&["moto[server]==5.2.5"]);
        let mut command = Command::new(python.with_file_name("moto_server"));
        command.args(["-H", "127.0.0.1", "-p", "0"]).stdout(Stdio::null()).stderr(Stdio::piped());
        if checks_keys {
            // One request is free: the one that creates the bucket.
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", "1");
        }
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let endpoint = lines
            .by_ref()
            .find_map(|line| Some(line.unwrap().split_once("Running on ")?.1.trim().to_owned()))
            .expect("the server prints its address");
        // The server stops if its output is not read.
        std::thread::spawn(move || lines.for_each(drop));
        // It fails if one is installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let objects = Self { process, endpoint };
        objects.request(reqwest::Method::PUT, "models", "");
        objects
    }

    /// The variables by which clients find this server.
    pub(crate) fn variables(&self) -> BTreeMap<OsString, OsString> {
        let variables = [
            ("AWS_ENDPOINT_URL", self.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("STORAGE_EMULATOR_HOST", &self.endpoint),
        ];
        variables.map(|(name, value)| (name.into(), value.into())).into()
    }

    /// Writes the object `path` of the form `BUCKET/NAME`.
    pub(crate) fn put(&self, path: &str, body: &str) {
        self.request(reqwest::Method::PUT, path, body);
    }

    /// The names of all objects below `prefix` in the bucket `models`, as the server lists them.
    pub(crate) fn list(&self, prefix: &str) -> String {
        self.request(reqwest::Method::GET, &format!("models?list-type=2&prefix={prefix}"), "")
    }

    fn request(&self, method: reqwest::Method, path: &str, body: &str) -> String {
        let (url, body) = (format!("{}/{path}", self.endpoint), body.to_owned());
        let request = async move {
            let request = reqwest::Client::new().request(method, url).bearer_auth("test").body(body);
            let response = request.send().await.unwrap();
            assert!(response.status().is_success(), "{response:?}");
            response.text().await.unwrap()
        };
        // A runtime of its own, since tests with and without one use this.
        std::thread::scope(|scope| {
            let run = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(request)
            };
            scope.spawn(run).join().unwrap()
        })
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn probe_of_a_folder_leaves_nothing() {
    let objects = Objects::start(false);
    for url in ["s3://models/runs/a", "gs://models/runs/a", "s3://models"] {
        ObjectFolder::open(url, &objects.variables()).unwrap().probe().await.unwrap();
    }
    let listed = objects.list("");
    assert!(listed.contains("<KeyCount>0</KeyCount>"), "{listed}");
}

#[tokio::test]
async fn probe_names_the_missing_bucket() {
    let objects = Objects::start(false);
    for (url, scheme) in [("s3://absent/runs", "s3"), ("gs://absent/runs", "gs")] {
        let error = ObjectFolder::open(url, &objects.variables()).unwrap().probe().await.unwrap_err();
        let expected = format!(
            "{scheme}://absent/runs cannot be written: the bucket \"absent\" does not exist, or is in another region"
        );
        assert_eq!(error.to_string(), expected);
        assert!(!error.is_temporary());
    }
}

#[tokio::test]
async fn probe_names_the_refused_credentials() {
    let objects = Objects::start(true);
    let error = ObjectFolder::open("s3://models/runs", &objects.variables()).unwrap().probe().await.unwrap_err();
    let expected = "s3://models/runs cannot be written: access is denied; \
                    set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that may write there";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn unreachable_store_is_a_temporary_error() {
    let mut variables = Objects::start(false).variables();
    // The server has ended.
    variables.remove(&OsString::from("STORAGE_EMULATOR_HOST"));
    let error = ObjectFolder::open("s3://models/runs", &variables).unwrap().probe().await.unwrap_err();
    assert!(matches!(&error, ObjectError::Failed { operation: "written", .. }) && error.is_temporary(), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn mirror_copies_what_was_added_to_event_files() {
    let objects = Objects::start(false);
    for scheme in ["s3", "gs"] {
        let copies = tempfile::tempdir().unwrap();
        let folder = ObjectFolder::open(&format!("{scheme}://models/{scheme}"), &objects.variables()).unwrap();
        let mirror = EventMirror::new(folder.join("7").unwrap(), copies.path().join("events"));
        assert!(!mirror.update().await.unwrap(), "there is nothing");
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "first");
        objects.put(&format!("models/{scheme}/7/model.ckpt"), "a checkpoint");
        objects.put(&format!("models/{scheme}/77/events.out.tfevents.1"), "of another trial");
        assert!(mirror.update().await.unwrap());
        let copy = mirror.copies().join("logs%2Fevents.out.tfevents.1");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "first");
        assert_eq!(fs::read_dir(mirror.copies()).unwrap().count(), 1);
        assert!(!mirror.update().await.unwrap(), "nothing was added");
        // The beginning is not read again.
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "FIRST and second");
        assert!(mirror.update().await.unwrap());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "first and second");
        objects.put(&format!("models/{scheme}/7/logs/events.out.tfevents.1"), "new");
        assert!(mirror.update().await.unwrap());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "new");
        mirror.remove().unwrap();
        mirror.remove().unwrap();
        assert!(!mirror.copies().exists());
    }
}
