use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use tunesmith_contract::samples;
use tunesmith_domain::JobPlan;

use super::*;
use crate::packages::Packages;

/// A data folder, two model folders, and a link to one of those.
struct Disk {
    folder: TempDir,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["data", "models/vision", "other"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        symlink("models", folder.path().join("alias")).unwrap();
        Self { folder }
    }

    fn at(&self, name: &str) -> String {
        fs::canonicalize(self.folder.path()).unwrap().join(name).display().to_string()
    }

    fn allow(&self, listed: &[&str]) -> Result<AllowedFolders, AllowedFolderError> {
        let listed = listed.iter().map(|text| text.replace('~', &self.at("")).replace("//", "/").parse());
        let listed: Result<Vec<AllowedFolder>, _> = listed.collect();
        AllowedFolders::new(listed?, &self.folder.path().join("data"), Box::new(|| true))
    }
}

fn resolve(allowed: &AllowedFolders, project: &str, job_dir: &str, is_here: bool) -> Result<JobFolder, NotAllowed> {
    let plan = JobPlan { job_dir: Some(job_dir.to_owned()), ..samples::plan() };
    allowed.job_folder(project, &plan, None, is_here, &|path| path.starts_with("/volume"))
}

fn path_of(folder: Result<JobFolder, NotAllowed>) -> String {
    match folder {
        Ok(JobFolder::Here(folder)) => {
            assert!(folder.is_without_links);
            folder.of(None).path().display().to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_name_folders_below_those_that_are_listed() {
    let disk = Disk::new();
    let allowed = disk.allow(&["~/alias", "vision=~/other"]).unwrap();
    let local = |project: &str, name: &str| resolve(&allowed, project, &disk.at(name), true);
    assert_eq!(path_of(local("p", "alias/a")), disk.at("models/a"), "the link of the operator is followed once");
    assert_eq!(path_of(local("p", "models")), disk.at("models"));
    assert_eq!(path_of(local("p", "models//a/./b/")), disk.at("models/a/b"));
    assert_eq!(path_of(local("vision", "other/a")), disk.at("other/a"));
    assert_eq!(path_of(resolve(&allowed, "p", &format!("file://{}", disk.at("models/a")), true)), disk.at("models/a"));
    assert_eq!(path_of(local("p", "data/job-dirs/p/a")), disk.at("data/job-dirs/p/a"));
    for outside in [
        "",
        "data",
        "data/tokens.json",
        "data/job-dirs",
        "data/job-dirs/q",
        "data/job-dirs/p2",
        "other",
        "models2",
        "models/../data",
        "alias/../data",
        "data/job-dirs/p/../q",
        "models/a\0b",
    ] {
        let refused = local("p", outside).unwrap_err();
        assert_eq!(refused.allowed, [disk.at("data/job-dirs/p"), disk.at("alias")], "{outside}");
    }
    for outside in ["/", "/etc", "/proc/self/cwd", "models", "./x", "..", "file://models", "file:///etc"] {
        assert!(resolve(&allowed, "p", outside, true).is_err(), "{outside}");
    }
    let refused = resolve(&allowed, "p", "/etc", true).unwrap_err().to_string();
    let expected = format!(
        "\"/etc\" is not allowed on this server: allowed are {}, {}, and what is below; other folders and buckets are allowed by its \
         operator, with --allowed-folder or allowedFolders in the server configuration",
        disk.at("data/job-dirs/p"),
        disk.at("alias")
    );
    assert_eq!(refused, expected);
}

#[test]
fn where_programs_run_elsewhere_the_server_uses_no_folder() {
    let disk = Disk::new();
    let (none, some) = (disk.allow(&[]).unwrap(), disk.allow(&["~/models"]).unwrap());
    for name in ["data/job-dirs/p/a", "data", "models"] {
        let refused = resolve(&none, "p", &disk.at(name), false).unwrap_err().to_string();
        assert!(refused.contains("no folder and no bucket is allowed for this job"), "{refused}");
    }
    assert_eq!(resolve(&some, "p", &disk.at("models/a"), false), Ok(JobFolder::Elsewhere));
    assert_eq!(resolve(&none, "p", "/volume/a", false), Ok(JobFolder::Elsewhere));
    assert!(resolve(&none, "p", "/volume/../etc", false).is_err());
    assert!(resolve(&none, "p", "/volume/a", true).is_err(), "a volume of pods is not one of this machine");
    assert_eq!(resolve(&AllowedFolders::default(), "p", "/etc", false), Ok(JobFolder::Elsewhere));
    assert_eq!(resolve(&none, "p", "hdfs://host/x", false), Ok(JobFolder::Elsewhere));
}

#[test]
fn jobs_name_buckets_and_folders_in_them_that_are_listed() {
    let disk = Disk::new();
    let allowed = disk.allow(&[]).unwrap();
    let listed = ["gs://models", "vision=s3://shared/vision"].map(|text| text.parse().unwrap());
    let data = disk.folder.path().join("data");
    let some = AllowedFolders::new(listed.into(), &data, Box::new(|| true)).unwrap();
    assert_eq!(resolve(&some, "p", "gs://models/a", true), Ok(JobFolder::Objects("gs://models/a".to_owned())));
    assert!(resolve(&some, "vision", "s3://shared/vision/a", false).is_ok());
    for (allowed, project, address) in [
        (&allowed, "p", "gs://models/a"),
        (&some, "p", "s3://models/a"),
        (&some, "p", "s3://shared/vision/a"),
        (&some, "vision", "s3://shared/visions"),
        (&some, "vision", "s3://shared"),
    ] {
        assert!(resolve(allowed, project, address, true).is_err(), "{project} {address}");
    }
}

#[test]
fn folders_with_files_of_the_server_or_of_other_projects_cannot_be_listed() {
    let disk = Disk::new();
    symlink("data", disk.folder.path().join("link-to-data")).unwrap();
    for (listed, expected) in [
        (&["~/data"][..], "could read and change the store, the tokens and the audit log"),
        (&["~/data/projects"], "could read and change the store"),
        (&["p=~/link-to-data/x"], "could read and change the store"),
        (&["~"], "could read and change the store"),
        (&["/"], "could read and change the store"),
        (&["/proc/1"], "it shows processes and devices"),
        (&["/dev"], "it shows processes and devices"),
        (&["~/models", "vision=~/models/vision"], "models/vision cannot be allowed for another scope than "),
        (&["vision=~/models", "~/alias/vision"], "alias/vision cannot be allowed for another scope than "),
        (&["a=~/models", "b=~/alias"], "name separate folders"),
        (&["models"], "\"models\" is not an allowed folder: expected [PROJECT=]/FOLDER"),
        (&["~/models/../data"], "is not an allowed folder"),
        (&[""], "is not an allowed folder"),
        (&["=~/models"], "is not an allowed folder"),
        (&["p q=~/models"], "is not an allowed folder"),
    ] {
        let error = disk.allow(listed).err().unwrap_or_else(|| panic!("{listed:?}")).to_string();
        assert!(error.contains(expected), "{listed:?}: {error}");
    }
    let error = "gs://b b/x".parse::<AllowedFolder>().unwrap_err().to_string();
    assert!(error.contains("has no valid name"), "{error}");
    disk.allow(&["~/models", "~/other", "~/not/yet/there", "~/models/vision", "/dev/shm"]).unwrap();
}

#[test]
fn restriction_applies_from_the_first_token_on() {
    let disk = Disk::new();
    let has_tokens = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&has_tokens);
    let applies = Box::new(move || flag.load(Ordering::Relaxed));
    let allowed = AllowedFolders::new(vec![], &disk.folder.path().join("data"), applies).unwrap();
    assert!(matches!(resolve(&allowed, "p", "/etc", true), Ok(JobFolder::Here(_))));
    assert_eq!(allowed.base("p"), None);
    has_tokens.store(true, Ordering::Relaxed);
    assert!(resolve(&allowed, "p", "/etc", true).is_err());
    assert_eq!(allowed.base("p").unwrap().display().to_string(), disk.at("data/job-dirs/p"));
}

#[test]
fn packages_are_those_of_listed_folders_and_the_uploads_of_the_project() {
    let disk = Disk::new();
    let allowed = disk.allow(&["~/models"]).unwrap();
    let packages = Packages::new(disk.at("data/packages").into(), 1);
    let reader = PackageReader { packages: &packages, project: "p", user: None, is_here: true };
    let package = |uri: &str| allowed.package(&uri.replace('~', disk.at("").trim_end_matches('/')), reader);
    let sha = "0".repeat(64);
    for uri in [format!("~/data/packages/p/{sha}/a-1.whl"), "~/models/a-1.whl".into(), "file://~/models/a-1.whl".into()]
    {
        assert!(matches!(package(&uri), Ok(tunesmith_packages::Package::Local(_))), "{uri}");
    }
    assert!(package("https://example.com/a-1.whl").is_ok());
    for uri in [
        format!("~/data/packages/q/{sha}/a-1.whl"),
        format!("~/data/packages/p/../q/{sha}/a-1.whl"),
        "~/data/packages/p/a-1.whl".into(),
        "~/models/../data/a-1.whl".into(),
        "/root/a-1.tar.gz".into(),
        "a-1.tar.gz".into(),
        "gs://bucket/a-1.whl".into(),
    ] {
        let error = package(&uri).unwrap_err().to_string();
        assert!(error.contains("is not allowed on this server") && error.contains("--package-path"), "{error}");
    }
    let error = allowed.package_folder(disk.folder.path()).unwrap_err().to_string();
    assert!(error.contains("a server with tokens reads no package from a folder"), "{error}");
}

#[test]
fn area_of_a_project_is_created_privately() {
    use std::os::unix::fs::PermissionsExt;

    let disk = Disk::new();
    let allowed = disk.allow(&[]).unwrap();
    let restriction = allowed.restriction().unwrap();
    restriction.prepare("p", &restriction.areas.join("p/job"), None).unwrap();
    restriction.prepare("q", Path::new("/elsewhere"), None).unwrap();
    for folder in ["data/job-dirs", "data/job-dirs/p"] {
        assert_eq!(fs::metadata(disk.at(folder)).unwrap().permissions().mode() & 0o777, 0o700, "{folder}");
    }
    assert!(!Path::new(&disk.at("data/job-dirs/q")).exists());
}

#[test]
fn data_folder_under_another_path_is_closed() {
    let disk = Disk::new();
    let mut allowed = disk.allow(&["~/models"]).unwrap();
    let local = |allowed: &AllowedFolders, name: &str| resolve(allowed, "p", &disk.at(name), true);
    assert_eq!(path_of(local(&allowed, "models/vision/a")), disk.at("models/vision/a"));
    // Simulates a mount of the data folder there.
    let mounted = DataFolder::new(disk.at("models/vision").into()).unwrap();
    allowed.restriction.as_mut().unwrap().data_folder = mounted;
    for inside in ["models/vision", "models/vision/a"] {
        assert_eq!(local(&allowed, inside).unwrap_err().value, disk.at(inside));
    }
    let Ok(JobFolder::Here(above)) = local(&allowed, "models") else { panic!("it is allowed") };
    assert!(above.of(None).entries().is_ok());
    assert!(matches!(above.of(None).join("vision").entries(), Err(tunesmith_files::OpenError::NotRegular)));
}
