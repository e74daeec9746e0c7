//! Discovery of the interpreter and installer, and the commands that build an environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use super::PackageError;
use super::process::InstallerProcess;

/// Prints the identity of an interpreter and whether it can create virtual environments.
const PROBE: &str = "
import sys
from importlib.util import find_spec
print(sys.implementation.name, *sys.version_info, sys.base_prefix)
print(all(find_spec(name) for name in ('venv', 'ensurepip')))
";

/// Variables that would expose packages outside the environment to it or to pip.
const FOREIGN: [&str; 4] = ["PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX"];

pub(super) struct Installer {
    python: PathBuf,
    python_version: String,
    uv: Option<PathBuf>,
    variables: BTreeMap<OsString, OsString>,
}

impl Installer {
    /// Uses `python`, or `python3` from the `PATH` in `variables`, and `uv` if installed, otherwise venv and pip.
    pub(super) async fn find(
        variables: &BTreeMap<OsString, OsString>,
        python: Option<&Path>,
    ) -> Result<Self, PackageError> {
        let search = variables.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
        let python = python.map(Path::to_owned).or_else(|| find_program("python3", search));
        let python = python.ok_or(PackageError::PythonMissing)?;
        let uv = find_program("uv", search);
        let mut variables = variables.clone();
        variables.retain(|name, _| !FOREIGN.iter().any(|foreign| name == foreign));

        let output = Command::new(&python)
            .args(["-I", "-c", PROBE])
            .env_clear()
            .envs(&variables)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .map_err(PackageError::io("start", &python))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let mut lines = answer.lines();
        let (Some(version), Some(makes_environments), true) = (lines.next(), lines.next(), output.status.success())
        else {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(PackageError::PythonBroken {
                python,
                detail: format!("{}: {}", output.status, message.trim()),
            });
        };
        if uv.is_none() && makes_environments != "True" {
            return Err(PackageError::VenvMissing { python });
        }
        Ok(Self { python, python_version: version.to_owned(), uv, variables })
    }

    /// `uv` or `pip`.
    pub(super) fn name(&self) -> &'static str {
        if self.uv.is_some() { "uv" } else { "pip" }
    }

    /// Implementation, version and prefix of the interpreter. An environment works only with the same one.
    pub(super) fn python_version(&self) -> &str {
        &self.python_version
    }

    /// Major and minor version.
    pub(super) fn short_version(&self) -> String {
        let mut parts = self.python_version.split(' ').skip(1);
        format!("{}.{}", parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
    }

    /// Runs an embedded script with the arguments `path` and `more`, and returns its output.
    pub(super) async fn script(&self, script: &str, path: &Path, more: &[String]) -> Result<Output, PackageError> {
        let mut command = Command::new(&self.python);
        command.args(["-I", "-c", script]).arg(path).args(more).env_clear().envs(&self.variables);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command.output().await.map_err(PackageError::io("start", &self.python))
    }

    /// Creates the environment `target` and installs `packages` and `requirements` into it.
    pub(super) async fn install(
        &self,
        process: &InstallerProcess,
        target: &Path,
        packages: &[PathBuf],
        requirements: &[String],
    ) -> Result<(), PackageError> {
        let target_python = target.join("bin/python");
        let (make, mut install): (Vec<&OsStr>, Vec<&OsStr>) = match &self.uv {
            Some(uv) => (
                vec![uv.as_ref(), "venv".as_ref(), "--python".as_ref(), self.python.as_ref(), target.as_ref()],
                vec![uv.as_ref(), "pip".as_ref(), "install".as_ref(), "--python".as_ref(), target_python.as_ref()],
            ),
            None => (
                vec![self.python.as_ref(), "-I".as_ref(), "-m".as_ref(), "venv".as_ref(), target.as_ref()],
                vec![
                    target_python.as_ref(),
                    "-I".as_ref(),
                    "-m".as_ref(),
                    "pip".as_ref(),
                    "install".as_ref(),
                    "--no-input".as_ref(),
                    "--disable-pip-version-check".as_ref(),
                ],
            ),
        };
        process.run(self.name(), &owned(&make), &self.variables).await?;
        if packages.is_empty() && requirements.is_empty() {
            return Ok(());
        }
        // After `--`, a requirement that begins with a dash is an invalid requirement, not an option.
        install.push("--".as_ref());
        install.extend(packages.iter().map(AsRef::<OsStr>::as_ref));
        install.extend(requirements.iter().map(AsRef::<OsStr>::as_ref));
        process.run(self.name(), &owned(&install), &self.variables).await
    }
}

fn owned(arguments: &[&OsStr]) -> Vec<OsString> {
    arguments.iter().map(|&argument| argument.to_owned()).collect()
}

fn find_program(name: &str, search: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(search).map(|folder| folder.join(name)).find(|path| {
        path.is_absolute()
            && path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    })
}
