//! The program of workers, and of predictions without a server.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::records::Framework;

/// Source of the program, for `python -c`. Its argument is [`RunnerSettings`] as JSON.
pub const RUNNER: &str = concat!(
    include_str!("../runner/errors.py"),
    include_str!("../runner/models.py"),
    include_str!("../runner/requests.py"),
    include_str!("../runner/pod.py"),
    include_str!("../runner/worker.py"),
);

/// Argument of the program.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunnerSettings {
    /// Folder with the files of the model.
    pub model_dir: PathBuf,
    /// `FRAMEWORK_UNSPECIFIED` is guessed from the files.
    #[serde(skip_serializing_if = "Framework::is_unspecified")]
    pub framework: Framework,
    /// Class of a custom prediction routine, `module.Class`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prediction_class: String,
    /// Packages as named by the user, for messages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub package_uris: Vec<String>,
    /// Folders searched for modules first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathBuf>,
    /// Answers one request, from standard input to standard output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

impl RunnerSettings {
    /// Arguments of the interpreter.
    pub fn arguments(&self) -> [String; 3] {
        // A structure of texts and lists always has a JSON form.
        let settings = serde_json::to_string(self).unwrap_or_default();
        ["-c".to_owned(), RUNNER.to_owned(), settings]
    }
}

/// Command of the worker in a pod, whose settings come from the server.
pub(crate) fn pod_command() -> Vec<String> {
    ["python3", "-c", RUNNER, r#"{"inPod": true}"#].map(str::to_owned).into()
}

/// Report of a worker on the load of its model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadReport {
    /// Framework of the loaded model; `CUSTOM_CLASS` for a custom prediction routine.
    pub framework: String,
    /// Version of Python.
    pub python: String,
    /// Versions of the packages that the model uses.
    pub versions: std::collections::BTreeMap<String, String>,
    /// Warnings while the model was loaded, such as about the version of scikit-learn that wrote it.
    pub warnings: Vec<String>,
}

/// Failure to load a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoadFailure {
    /// Text of AI Platform.
    pub(crate) error: String,
    pub(crate) traceback: String,
}
