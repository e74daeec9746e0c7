//! The Python client of `clients/python`: its own tests against real servers, its types, and its form.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::python::interpreter;

/// What checks the client, and the frameworks of its adapters; the client itself needs nothing.
const TOOLS: [&str; 6] =
    ["pytest==9.2.0", "trustme==1.2.1", "mypy==2.4.1", "ruff==0.17.6", "optuna==5.0.0", "optunahub==0.5.0"];

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join("python")
}

/// `python -m module`, which leaves nothing in the source folder and has `folder` for what it keeps.
fn tool(folder: &Path, module: &str, arguments: &[&str]) -> Command {
    let mut command = crate::support::program(interpreter(&TOOLS));
    command.arg("-m").arg(module).args(arguments).current_dir(package()).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("MYPY_CACHE_DIR", folder).env("RUFF_CACHE_DIR", folder);
    for variable in ["PYTHONPATH", "TUNESMITH_SERVER", "TUNESMITH_ACCESS_TOKEN", "TUNESMITH_LOG"] {
        command.env_remove(variable);
    }
    command
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}\n{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_python_client_passes_its_tests_as_it_is_installed() {
    let folder = TempDir::new().unwrap();
    let installed = folder.path().join("installed");
    let source = package();
    let install = ["install", "--quiet", "--disable-pip-version-check", "--target"];
    succeed(tool(folder.path(), "pip", &install).arg(&installed).arg(&source));
    // Nothing comes with it, and type checkers see that it is typed.
    let mut names: Vec<String> =
        std::fs::read_dir(&installed).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let [name, about] = &names[..] else { panic!("{names:?}") };
    assert!(name == "tunesmith" && about.ends_with(".dist-info"), "{names:?}");
    assert!(installed.join("tunesmith").join("py.typed").exists());
    let summary = succeed(
        tool(folder.path(), "pytest", &["-q"])
            .env("PYTHONPATH", &installed)
            .env("TUNESMITH_BINARY", env!("CARGO_BIN_EXE_tunesmith")),
    );
    assert!(summary.contains(" passed in ") && !summary.contains("skipped"), "{summary}");
}

#[test]
fn the_python_client_and_its_example_are_typed_and_in_form() {
    let folder = TempDir::new().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join("suggest_report").join("tune.py");
    let example = example.to_str().unwrap();
    succeed(&mut tool(folder.path(), "mypy", &["src", "tests", example]));
    succeed(&mut tool(folder.path(), "ruff", &["check", "src", "tests"]));
    succeed(&mut tool(folder.path(), "ruff", &["format", "--check", "--line-length", "120", "src", "tests", example]));
}
