//! A Python environment with real packages, installed once.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::{installer, root, temporary_folder};

/// The packages by which trainers report.
pub const REPORTERS: [&str; 2] = ["cloudml-hypertune==0.1.0.dev6", "tensorboardX==2.6.5"];

/// The frameworks with adapters, and the tools of their tests, in one environment: they share large packages.
pub const FRAMEWORKS: [&str; 18] = [
    "pytest==9.2.0",
    "hatchling==1.33.0",
    "hydra-core==1.3.8",
    "hydra-joblib-launcher==1.2.0",
    "ipykernel==7.4.0",
    "jax==0.10.2",
    "joblib==1.6.0",
    "keras==3.15.1",
    "lightgbm==4.7.0",
    "nbclient==0.11.0",
    "nbformat==5.11.1",
    "optuna==5.0.0",
    "optunahub==0.5.0",
    "pandas==3.1.1",
    "plotly==7.1.0",
    "scikit-learn==1.9.1",
    "transformers==5.24.0",
    "xgboost-cpu==3.2.0",
];

/// Packages of the models, with the published client.
pub const MODEL_PACKAGES: [&str; 5] = [
    "google-api-python-client==2.202.0",
    "joblib==1.6.0",
    "scikit-learn==1.9.1",
    "setuptools<81",
    "xgboost-cpu==3.2.0",
];

/// The client of the protocol.
pub const MCP_CLIENT: [&str; 1] = ["mcp==2.3.0"];

/// Tools that check the client; the client itself needs no package.
pub const TOOLS: [&str; 4] = ["pytest==9.2.0", "trustme==1.2.1", "mypy==2.4.1", "ruff==0.17.6"];

/// MLflow and TensorBoard in one environment: both are large, and share packages.
pub const TRACKERS: [&str; 3] = ["mlflow==3.17.2", "setuptools<81", "tensorboard==2.21.0"];

/// Writes a wheel with one module `name` that contains `WHERE = "<name> is installed"`.
pub const MAKE_WHEEL: &str = r#"
import sys, zipfile
name, path = sys.argv[1:]
info = f"{name}-1.0.dist-info"
with zipfile.ZipFile(path, "w") as wheel:
    wheel.writestr(f"{name}.py", f"WHERE = '{name} is installed'\n")
    wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
"#;

/// Clients of both protocols, unmodified.
pub const VIZIER_CLIENTS: [&str; 3] =
    ["google-api-python-client==2.202.0", "google-cloud-aiplatform==2.7.0", "google-vizier==0.1.24"];

/// The reference implementation for Python.
pub const STANDARD_WEBHOOKS: [&str; 1] = ["standardwebhooks==1.1.0"];

/// The interpreter of an environment in which `requirements`, lines as of `pip install`, are installed. It is kept
/// between runs, one for each text of requirements; processes that want the same one wait for each other.
pub fn interpreter(requirements: &[&str]) -> PathBuf {
    let text = requirements.join("\n");
    let key = hex::encode(&Sha256::digest(&text)[..8]);
    let folder = temporary_folder().join(format!("python-{key}"));
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let (environment, done) = (folder.join("environment"), folder.join("requirements.txt"));
    let python = environment.join("bin").join("python");
    if !done.exists() {
        run(installer("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run(installer(&python).args(["-m", "pip", "install", "--disable-pip-version-check"]).args(requirements));
        fs::write(done, text).unwrap();
    }
    python
}

/// Lays the package with its engine into `folder`, for `PYTHONPATH`: links to the sources and to the extension module that
/// was built with this program.
pub fn lay_package(folder: &Path) {
    let package = folder.join("tunesmith");
    fs::create_dir_all(&package).unwrap();
    let sources = root().join("clients/python/src/tunesmith");
    for entry in fs::read_dir(sources).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_none_or(|extension| extension != "so") {
            symlink(entry.path(), package.join(entry.file_name())).unwrap();
        }
    }
    symlink(engine(), package.join("_core.abi3.so")).unwrap();
}

/// The extension module that was built with this program.
pub fn engine() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("lib_core.so")
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
