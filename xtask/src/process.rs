//! Programs that tasks start, and the folders that they share.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Prints and runs `command`, whose failure is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let line = line(command);
    println!("==> {line}");
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// The output of `command`, whose failure is an error.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let line = line(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.stdout)
}

/// The first line of the output of `command`.
pub(crate) fn first_line(command: &mut Command) -> Result<String> {
    let text = String::from_utf8(output(command)?).with_context(|| format!("`{}` printed no UTF-8", line(command)))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Whether the program `name` is in `PATH`.
pub(crate) fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The command line, with the program by its name.
fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// The folder of build outputs.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// The path of the program `name` of the crate `name` in `version`. It is installed below the folder of build outputs.
pub(crate) fn crate_tool(root: &Path, name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
    let tools = target(root).join("tools");
    let program = tools.join("bin").join(name);
    if !program.is_file() {
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "--quiet", "--locked", "--version", version]).args(options).arg("--root").arg(tools);
        // The tools would otherwise be compiled in the folder of the workspace, with its wrapper of the compiler.
        install.arg(name).env_remove("CARGO_TARGET_DIR").env_remove("RUSTC_WORKSPACE_WRAPPER");
        run(&mut install).with_context(|| format!("cannot install {name} {version}"))?;
    }
    Ok(program)
}

/// The folder of programs of a Python environment with `packages`, which is created below the folder of build outputs.
pub(crate) fn python_tools(root: &Path, packages: &[&str]) -> Result<PathBuf> {
    let environment = target(root).join("tools/python");
    let programs = environment.join("bin");
    if !programs.join("pip").is_file() {
        let mut create = Command::new("python3");
        run(create.args(["-m", "venv"]).arg(&environment)).context("install python3 and python3-venv")?;
    }
    let mut install = Command::new(programs.join("pip"));
    run(install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages))?;
    Ok(programs)
}
