//! Preflight checks of a plan, before its job is created.
//!
//! The locations in a plan are checked for every job ([`named`]). Problems on this machine are looked for
//! ([`problems`]) only if programs run as this process's user, or elsewhere: otherwise error messages would reveal
//! files that the job may not see. Passing is no guarantee, since files may change before the run. Containers and
//! commands of other machines are not checked.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::allowed_folders::{AllowedFolders, HostFolder, JobFolder, NotAllowed, PackageReader};
use tunesmith_domain::{JobPlan, MachineNotice, ProgramPlan};
use tunesmith_files::create_folder_for_user;
use tunesmith_objects::Buckets;
use tunesmith_packages::{LocalArchive, Package};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanProblem {
    pub part: PlanPart,
    /// Human-readable description.
    pub message: String,
}

impl fmt::Display for PlanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanPart {
    Command,
    Packages,
    /// Folder for models and events.
    JobDir,
}

impl PlanPart {
    /// Path in a training input.
    pub fn field(self) -> &'static str {
        match self {
            Self::Command => "masterConfig.containerCommand",
            Self::Packages => "packageUris",
            Self::JobDir => "jobDir",
        }
    }
}

/// Search path used by `execvp` when `PATH` is unset.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Permitted packages and job folder of a plan.
#[derive(Debug)]
pub(super) struct Named {
    packages: Vec<Package>,
    folder: JobFolder,
}

/// Resolves the packages of `plan` and its job folder `folder`, and returns forbidden locations and invalid addresses
/// as problems. No I/O, except for a folder of `--package-path`.
pub(super) fn named(
    plan: &JobPlan,
    folder: Result<JobFolder, NotAllowed>,
    allowed: &AllowedFolders,
    reader: PackageReader<'_>,
) -> (Named, Vec<PlanProblem>) {
    let (mut packages, mut found) = (Vec::new(), Vec::new());
    for package in allowed.packages(plan, reader) {
        match package {
            Ok(package) => packages.push(package),
            Err(error) => found.push(PlanProblem { part: PlanPart::Packages, message: error.to_string() }),
        }
    }
    let folder = folder.unwrap_or_else(|error| {
        found.push(PlanProblem { part: PlanPart::JobDir, message: format!("the job folder {error}") });
        JobFolder::None
    });
    (Named { packages, folder }, found)
}

/// Finds problems of `plan` and its `named` locations on this machine, where its programs run if `is_here`. Creates the
/// folder for models and events, after `prepare` has created its parents.
pub(super) fn problems(
    plan: &JobPlan,
    named: &Named,
    is_here: bool,
    prepare: impl FnOnce(&HostFolder) -> io::Result<()>,
) -> Vec<PlanProblem> {
    let programs = plan.replicas.iter().filter_map(|replicas| replicas.program.as_ref());
    let programs = std::iter::once(&plan.program).chain(programs).filter(|_| is_here);
    let mut found: Vec<PlanProblem> =
        programs.filter_map(|program| program_problem(program, &plan.working_directory)).collect();
    let packages = named.packages.iter().filter_map(archive_problem);
    found.extend(packages.map(|message| PlanProblem { part: PlanPart::Packages, message }));
    found
        .extend(job_dir_problem(&named.folder, prepare).map(|message| PlanProblem { part: PlanPart::JobDir, message }));
    found
}

/// Reports an image of `plan` without a command, for executors that do not start entry points.
pub(super) fn entry_point_problem(plan: &JobPlan) -> Option<PlanProblem> {
    let programs = plan.replicas.iter().filter_map(|replicas| replicas.program.as_ref());
    std::iter::once(&plan.program).chain(programs).find_map(|program| match program {
        ProgramPlan::Container { image, command, .. } if command.is_empty() => Some(PlanProblem {
            part: PlanPart::Command,
            message: format!(
                "the image {image} has no command: this executor does not know its entry point; state it in containerCommand, \
                 or after -- on the command line"
            ),
        }),
        _ => None,
    })
}

/// Replaces containers by processes that run their commands, for an executor without containers.
///
/// # Errors
/// An image without a command.
pub(super) fn run_as_processes(plan: &mut JobPlan) -> Result<(), PlanProblem> {
    let others = plan.replicas.iter_mut().filter_map(|group| group.program.as_mut());
    for program in std::iter::once(&mut plan.program).chain(others) {
        let ProgramPlan::Container { image, command, args } = program else { continue };
        if command.is_empty() {
            let message =
                format!("the image {image} has no command, and this executor runs no containers: state its command");
            return Err(PlanProblem { part: PlanPart::Command, message });
        }
        let description =
            format!("has no effect: this executor runs no containers, and starts the command of {image} as a process");
        let argv = command.drain(..).chain(args.drain(..)).collect();
        *program = ProgramPlan::Command { argv };
        let notice = MachineNotice { field: "masterConfig.imageUri".to_owned(), description };
        if !plan.machines.notices.contains(&notice) {
            plan.machines.notices.push(notice);
        }
    }
    Ok(())
}

fn program_problem(program: &ProgramPlan, working_directory: &Path) -> Option<PlanProblem> {
    let ProgramPlan::Command { argv } = program else { return None };
    let name = argv.first().map(String::as_str).unwrap_or_default();
    let search_path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let message = command_problem(name, working_directory, &search_path)?;
    Some(PlanProblem { part: PlanPart::Command, message })
}

fn archive_problem(package: &Package) -> Option<String> {
    let (uri, metadata) = match package {
        Package::Archive(source) => (source, fs::metadata(source.local_path()?)),
        Package::Local(LocalArchive { source, place }) => (source, place.metadata().map_err(io::Error::from)),
        Package::Folder(_) | Package::Packed(_) => return None,
    };
    match metadata {
        Ok(file) if file.is_dir() => Some(format!("package {uri} is a folder, not a wheel or source archive")),
        Ok(_) => None,
        Err(error) => Some(format!("package {uri} cannot be read: {error}")),
    }
}

/// Why program `name` cannot be started in `working_directory`; names without a slash are looked up in `search_path`.
fn command_problem(name: &str, working_directory: &Path, search_path: &OsStr) -> Option<String> {
    if name.is_empty() {
        return Some("the command is empty".to_owned());
    }
    if !working_directory.is_dir() {
        return Some(format!("the working directory {} is not a folder", working_directory.display()));
    }
    let here = working_directory.join(name);
    if name.contains('/') {
        return file_problem(name, &here);
    }
    let mut folders = env::split_paths(search_path).map(|folder| working_directory.join(folder));
    if folders.any(|folder| file_problem(name, &folder.join(name)).is_none()) {
        return None;
    }
    let hint = if here.is_file() { format!("; did you mean \"./{name}\"?") } else { String::new() };
    Some(format!("the command {name:?} is not on the PATH of this machine{hint}"))
}

/// Why the file `path`, named `name`, cannot be executed.
fn file_problem(name: &str, path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("the command {name:?} does not exist: there is no file {}", path.display()))
        }
        Err(error) => Some(format!("the command {name:?} cannot be read: {error}")),
        Ok(file) if file.is_dir() => Some(format!("the command {name:?} is a folder")),
        Ok(file) if file.permissions().mode() & 0o111 == 0 => Some(format!(
            "the command {name:?} is not executable: run `chmod +x` on it, or put its interpreter in front of it"
        )),
        Ok(_) => None,
    }
}

/// Why an object-store folder for models and events is not writable.
pub(super) async fn object_problem(named: &Named, buckets: &Buckets) -> Option<PlanProblem> {
    let JobFolder::Objects(url) = &named.folder else { return None };
    let probed = match buckets.folder(url) {
        Ok(folder) => folder.probe().await,
        Err(error) => Err(error),
    };
    let error = probed.err()?;
    Some(PlanProblem { part: PlanPart::JobDir, message: format!("the job folder {error}") })
}

/// Creates a local folder for models and events, and tests that it is writable.
fn job_dir_problem(folder: &JobFolder, prepare: impl FnOnce(&HostFolder) -> io::Result<()>) -> Option<String> {
    let JobFolder::Here(folder) = folder else { return None };
    let (place, path) = (folder.of(None), folder.of(None).path());
    let created = if folder.is_without_links {
        prepare(folder).and_then(|()| Ok(place.create_folder()?))
    } else {
        create_folder_for_user(&path)
    };
    if let Err(error) = created {
        return Some(format!("the job folder {} cannot be created: {error}", path.display()));
    }
    let written = place.check_writable().map_err(io::Error::from);
    written.err().map(|error| format!("the job folder {} cannot be written to: {}", path.display(), error.kind()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use tempfile::TempDir;
    use tunesmith_contract::samples;

    use super::*;
    use crate::packages::Packages;

    /// A folder with an executable file, a non-executable file, and a folder.
    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        for (name, mode) in [("run.sh", 0o755), ("data.csv", 0o644)] {
            let path = folder.path().join(name);
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::create_dir(folder.path().join("sub")).unwrap();
        folder
    }

    #[test]
    fn command_is_found_on_the_search_path_or_by_its_path() {
        let folder = folder();
        let problem = |name: &str, path: &str| command_problem(name, folder.path(), OsStr::new(path));
        assert_eq!(problem("run.sh", folder.path().to_str().unwrap()), None);
        assert_eq!(problem("./run.sh", ""), None);
        assert_eq!(problem("run.sh", "sub/.."), None, "relative folders are those of the program");
        assert_eq!(problem(folder.path().join("run.sh").to_str().unwrap(), ""), None);
    }

    #[test]
    fn command_that_cannot_be_started_is_a_problem_with_its_reason() {
        let folder = folder();
        let problem = |name: &str| command_problem(name, folder.path(), OsStr::new("/usr/bin")).unwrap();
        assert_eq!(problem(""), "the command is empty");
        assert_eq!(problem("no-such"), "the command \"no-such\" is not on the PATH of this machine");
        assert!(problem("run.sh").ends_with("; did you mean \"./run.sh\"?"));
        assert!(problem("./rum.sh").starts_with("the command \"./rum.sh\" does not exist: there is no file /"));
        assert!(problem("./data.csv").starts_with("the command \"./data.csv\" is not executable"));
        assert_eq!(problem("./sub"), "the command \"./sub\" is a folder");
        assert!(problem("run.sh/x").starts_with("the command \"run.sh/x\" cannot be read: "));
    }

    #[test]
    fn all_problems_of_a_plan_are_found_and_containers_have_none() {
        let folder = folder();
        let (allowed, packages) = (AllowedFolders::default(), Packages::new(folder.path().join("packages"), 1));
        let reader = PackageReader { packages: &packages, project: "p", user: None, is_here: true };
        let problems = |plan: &JobPlan| {
            let job_folder = allowed.job_folder("p", plan, None, true, &|_| false);
            let (named, mut found) = named(plan, job_folder, &allowed, reader);
            found.extend(problems(plan, &named, true, |_| Ok(())));
            found
        };
        let program = ProgramPlan::PythonModule {
            package_uris: vec!["gs://bucket/far-1.tar.gz".into(), "s3://b b/far.whl".into(), "./near-1.tar.gz".into()],
            package_path: Some(folder.path().join("sub")),
            requirements: vec![],
            module: "m".into(),
            args: vec![],
        };
        let job_dir = |path: &str| Some(folder.path().join(path).display().to_string());
        let plan = JobPlan { program, replicas: vec![], job_dir: job_dir("data.csv/models"), ..samples::plan() };
        let parts: Vec<PlanPart> = problems(&plan).into_iter().map(|problem| problem.part).collect();
        assert_eq!(parts, [PlanPart::Packages, PlanPart::Packages, PlanPart::Packages, PlanPart::JobDir]);
        let program = ProgramPlan::Container { image: "i".into(), command: vec!["no-such".into()], args: vec![] };
        let plan = JobPlan { program, replicas: vec![], job_dir: job_dir("new/models"), ..samples::plan() };
        assert_eq!(problems(&plan), []);
        let made = PathBuf::from(plan.job_dir.unwrap());
        assert_eq!(fs::read_dir(made).unwrap().count(), 0, "the folder was created, and nothing is left in it");
    }
}
