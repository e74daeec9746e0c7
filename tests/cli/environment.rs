//! The environment of the programs that tests start.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tunesmith_testing::environment::{path, path_of};
use tunesmith_testing::{Workspace, program, temporary_folder};

#[test]
fn programs_of_tests_depend_on_nothing_of_the_user() {
    let workspace = Workspace::new("");
    let output = program("env").current_dir(workspace.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<&str> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let allowed = [
        "HOME",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "LLVM_PROFILE_FILE",
        "LOGNAME",
        "PATH",
        "RUST_BACKTRACE",
        "TMPDIR",
        "TUNESMITH_TEST_HOME",
        "TZ",
        "USER",
    ];
    assert!(names.iter().all(|name| allowed.contains(name)), "{names:?}");
    let home = text.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(std::path::Path::new(home).starts_with(temporary_folder()), "{home}");
    assert!(text.lines().any(|line| line == format!("PATH={}", path())), "{text}");
    // The product gets the same.
    let command = workspace.command();
    let given: BTreeSet<&str> = command.get_envs().filter_map(|(name, _)| name.to_str()).collect();
    assert!(given.iter().all(|name| allowed.contains(name)), "{given:?}");
}

#[test]
fn programs_that_the_user_has_first_on_the_path_are_not_those_of_tests() {
    let planted = tempfile::tempdir().unwrap();
    let names = ["python3", "node", "npm", "uv", "tar", "sh", "env", "mkfifo", "sbatch", "podman", "nvidia-smi"];
    for name in names {
        let script = planted.path().join(name);
        std::fs::write(&script, "#!/bin/sh\necho planted\n").unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let user = std::env::join_paths([planted.path(), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    // A process of tests of a user with this `PATH`.
    let mut tests = Command::new(std::env::current_exe().unwrap());
    let tests = tests.args(["--exact", "environment::programs_without_the_planted_ones", "--nocapture"]);
    let output = tests.env("PATH", &user).env(PLANTED, planted.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    std::fs::remove_dir_all(path_of(&user).split_once(':').unwrap().0).unwrap();
}

/// The folder of planted programs, for the process that the test above starts.
const PLANTED: &str = "TUNESMITH_TEST_PLANTED";

/// Not a test: the body of that process.
#[test]
fn programs_without_the_planted_ones() {
    let Some(planted) = std::env::var_os(PLANTED) else { return };
    assert!(!path().contains(planted.to_str().unwrap()), "{}", path());
    let answer = |name: &str, arguments: &[&str]| {
        let output = program(name).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(answer("python3", &["-c", "print(6 * 7)"]), "42\n");
    assert_eq!(answer("sh", &["-c", "mkfifo; tar --version; echo done"]).lines().last(), Some("done"));
    assert!(answer("tar", &["--version"]).starts_with("tar (GNU tar)"));
    // The product, and the programs that it starts.
    let workspace = Workspace::new("tunesmith: {metricFromStdout: true}\n");
    let script = "python3 -c 'print(\"acc=0.5\")'; for name in sh env mkfifo tar; do command -v $name; done";
    let run = workspace.run(["--", "sh", "-c", script]).expect(0);
    assert!(run.stdout.contains("acc=0.5") && !run.stdout.contains("planted"), "{}", run.stdout);
    let doctor = tunesmith_testing::finished(workspace.command().args(["doctor"]).output().unwrap());
    assert!(doctor.stdout.contains("no nvidia-smi on the PATH"), "{}", doctor.stdout);
    // Code in this process starts programs by wrappers.
    let wrapper = workspace.path().join("wrapper");
    tunesmith_testing::write_wrapper(&wrapper, "sh", &[("MORE", Path::new("it's more"))]);
    assert_eq!(answer(wrapper.to_str().unwrap(), &["-c", "python3 -c 'print(1)'; echo $MORE"]), "1\nit's more\n");
}

#[test]
fn tests_start_no_program_with_the_environment_of_the_user() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut left = vec![folder];
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension() == Some(OsStr::new("rs")) && !path.ends_with("environment.rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines =
                text.lines().filter(|line| line.contains("Command::new(") || line.contains("(\"PATH\").unwrap"));
            found.extend(lines.map(|line| format!("{}: {}", path.display(), line.trim())));
        }
    }
    found.sort();
    // `program`, `installer`, and those of pods of trials and of workers, which set every variable.
    let (kubelet, node) = ("executors/kubernetes/kubelet.rs", "executors/kubernetes/workers_node.rs");
    let names = [kubelet, node, "testing/src/workspace.rs", "testing/src/workspace.rs"];
    assert_eq!(found.len(), names.len(), "use tunesmith_testing::program: {found:#?}");
    assert!(found.iter().zip(names).all(|(line, name)| line.contains(&format!("tests/{name}: "))), "{found:#?}");
}
