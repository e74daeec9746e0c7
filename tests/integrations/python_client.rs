//! The Python package of `clients/python`: its own tests against real servers and with the engine, its types, and its form.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use tunesmith_testing::python::{FRAMEWORKS, TOOLS, interpreter};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join("python")
}

/// `python -m module`, which leaves nothing in the source folder and has `folder` for what it keeps.
fn tool(folder: &Path, module: &str, arguments: &[&str]) -> Command {
    let mut command = tunesmith_testing::program(interpreter(&TOOLS));
    command.arg("-m").arg(module).args(arguments).current_dir(package()).stdin(Stdio::null());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("MYPY_CACHE_DIR", folder).env("RUFF_CACHE_DIR", folder);
    for variable in ["PYTHONPATH", "TUNESMITH_SERVER", "TUNESMITH_ACCESS_TOKEN", "TUNESMITH_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// Adds the extension module to the package in `folder`.
fn add_engine(folder: &Path) {
    std::fs::copy(tunesmith_testing::python::engine(), folder.join("tunesmith").join("_core.abi3.so")).unwrap();
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
    add_engine(&installed);
    let summary = succeed(
        tool(folder.path(), "pytest", &["-q"])
            .env("PYTHONPATH", &installed)
            .env("TUNESMITH_BINARY", env!("CARGO_BIN_EXE_tunesmith")),
    );
    assert!(summary.contains(" passed in ") && !summary.contains("skipped"), "{summary}");
}

/// Makes one test for each folder of tests with packages of its own, below `clients`.
macro_rules! groups {
    ($($name:ident: $folder:literal, $requirements:expr;)+) => {
        $(
            #[test]
            fn $name() {
                pass($folder, $requirements);
            }
        )+
    };
}

groups! {
    plots_and_tables: "python/tests/plots", &FRAMEWORKS;
    processes_of_joblib: "python/tests/processes", &FRAMEWORKS;
    optuna: "python/tests/optuna", &FRAMEWORKS;
    scikit_learn: "python/tests/sklearn", &FRAMEWORKS;
    callbacks: "python/tests/callbacks", &FRAMEWORKS;
    sweeper_for_hydra: "hydra/tests", &FRAMEWORKS;
    tutorial_notebook: "python/tests/notebook", &FRAMEWORKS;
    ray_tune: "python/tests/ray_tune", &[TOOLS[0], "ray[tune]==2.60.0"];
    storage_of_optuna: "python/tests/optuna_storage", &[
        TOOLS[0], "grpcio==1.85.3", "optuna==5.0.0", "optuna-dashboard==0.21.0", "protobuf==7.36.2",
    ];
}

/// Runs the tests in `folder` with the engine and the `requirements`.
#[track_caller]
fn pass(folder: &str, requirements: &[&str]) {
    let work = TempDir::new().unwrap();
    tunesmith_testing::python::lay_package(work.path());
    let mut command = tunesmith_testing::program(interpreter(requirements));
    let (project, tests) = folder.split_once('/').unwrap();
    command.args(["-m", "pytest", "-q", tests]).current_dir(package().with_file_name(project));
    command.env("PYTHONPATH", work.path()).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
    let summary = succeed(command.env("TUNESMITH_BINARY", env!("CARGO_BIN_EXE_tunesmith")));
    assert!(summary.contains(" passed in ") && !summary.contains("skipped"), "{summary}");
}

#[test]
fn the_python_client_and_its_example_are_typed_and_in_form() {
    let folder = TempDir::new().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join("suggest_report").join("tune.py");
    let example = example.to_str().unwrap();
    // The tests of adapters use the types of their frameworks, which are not installed here.
    let mut tests: Vec<String> = std::fs::read_dir(package().join("tests"))
        .unwrap()
        .map(|entry| format!("tests/{}", entry.unwrap().file_name().into_string().unwrap()))
        .filter(|name| name.ends_with(".py"))
        .collect();
    tests.sort();
    let typed = [&["src", example][..], &tests.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    succeed(&mut tool(folder.path(), "mypy", &typed));
    let sources = ["src", "tests", "../hydra", "../../packaging"];
    succeed(&mut tool(folder.path(), "ruff", &[&["check"], &sources[..]].concat()));
    let format = ["format", "--check", "--line-length", "120", example];
    succeed(&mut tool(folder.path(), "ruff", &[&format[..], &sources[..]].concat()));
}
