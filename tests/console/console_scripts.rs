//! The scripts of the console are checked by TypeScript and ESLint, and its pages by HTML-validate.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use tunesmith_testing::{Finished, finished, installer};

/// A folder with the programs, which is made once. One process at a time uses it.
pub(crate) struct Checker {
    folder: PathBuf,
    _lock: File,
}

impl Checker {
    pub(crate) fn new() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("scripts");
        fs::create_dir_all(&folder).unwrap();
        let lock = File::create(folder.join("lock")).unwrap();
        lock.lock().unwrap();
        let wanted = fs::read(root.join("tests/data/scripts/package-lock.json")).unwrap();
        for name in ["package.json", "package-lock.json", "eslint.config.js", "html-validate.mjs", "tsconfig.json"] {
            fs::copy(root.join("tests/data/scripts").join(name), folder.join(name)).unwrap();
        }
        let done = folder.join("installed.json");
        if fs::read(&done).ok().as_deref() != Some(&wanted[..]) {
            let install = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
            let installed = finished(installer("npm").args(install).current_dir(&folder).output().unwrap());
            assert_eq!(installed.code, Some(0), "{}{}", installed.stdout, installed.stderr);
            fs::write(done, wanted).unwrap();
        }
        Self { folder, _lock: lock }
    }

    /// The empty folder `name`.
    pub(crate) fn empty(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir(&folder).unwrap();
        folder
    }

    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Finished {
        let program = self.folder.join("node_modules/.bin").join(program);
        finished(tunesmith_testing::program(program).args(arguments).current_dir(&self.folder).output().unwrap())
    }
}

#[test]
fn scripts_of_the_console_have_correct_types_and_no_findings() {
    let checker = Checker::new();
    let assets = checker.empty("assets");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/console/assets")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "js") {
            fs::copy(&path, assets.join(path.file_name().unwrap())).unwrap();
        }
    }
    let types = checker.run("tsc", &["--project", "tsconfig.json"]);
    assert_eq!((types.code, types.stdout.as_str()), (Some(0), ""));
    let findings = checker.run("eslint", &["--max-warnings", "0", "assets"]);
    assert_eq!((findings.code, findings.stdout.as_str()), (Some(0), ""));
    // Both find what is wrong.
    fs::write(checker.folder.join("assets/wrong.js"), "export const a = 1 + document.body;\nvar b = 2;\n").unwrap();
    let types = checker.run("tsc", &["--project", "tsconfig.json"]);
    assert!(types.code != Some(0) && types.stdout.contains("assets/wrong.js(1,18): error TS2365"), "{}", types.stdout);
    let findings = checker.run("eslint", &["assets"]);
    assert!(findings.code == Some(1) && findings.stdout.contains("no-var"), "{}", findings.stdout);
}
