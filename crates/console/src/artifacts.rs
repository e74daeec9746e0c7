//! Artifacts: files in a program's job folder, as a page section.

use super::console::Console;
use super::errors::PageError;
use super::format::{Size, Time, encoded};
use super::trial::shell_word;
use tunesmith_algorithms::problem::TrialId;
use tunesmith_domain::JobId;
use tunesmith_jobs::artifacts::{ArtifactError, Artifacts};

const MOST: usize = 200;

pub(crate) struct ArtifactList {
    /// Path or URL of the folder.
    pub(crate) folder: String,
    pub(crate) files: Vec<ArtifactRow>,
    /// Whether the list is truncated.
    pub(crate) has_more: bool,
    /// Reason for a missing list; otherwise empty.
    pub(crate) problem: String,
    /// Command to list an object store with the visitor's credentials; empty for other folders.
    pub(crate) command: String,
    /// URL of the list method; empty if unsupported.
    pub(crate) method: String,
}

pub(crate) struct ArtifactRow {
    pub(crate) name: String,
    pub(crate) size: Size,
    pub(crate) modified: Time,
    /// URL of the read method.
    pub(crate) address: String,
}

impl Console {
    /// Artifacts of a job or of one of its trials; `None` for a job without a folder.
    pub(crate) async fn artifacts(&self, id: &JobId, trial: Option<u64>) -> Result<Option<ArtifactList>, PageError> {
        let (project, job) = id.parts();
        let method = format!("/v1/projects/{project}/jobs/{job}/artifacts");
        let of_trial = |before: &str| trial.map(|trial| format!("{before}trial={trial}")).unwrap_or_default();
        let address = |name: &str| format!("{method}:download?file={}{}", encoded(name), of_trial("&"));
        let without_files = |folder: String, problem: String, command: String| {
            Ok(Some(ArtifactList {
                folder,
                files: Vec::new(),
                has_more: false,
                problem,
                command,
                method: String::new(),
            }))
        };
        match self.jobs.artifacts(id, trial.map(TrialId)).await {
            Ok(Artifacts { folder, files, is_complete }) => Ok(Some(ArtifactList {
                folder: folder.display().to_string(),
                has_more: !is_complete || files.len() > MOST,
                files: files
                    .into_iter()
                    .take(MOST)
                    .map(|file| ArtifactRow {
                        address: address(&file.name),
                        size: Size(file.size_bytes),
                        modified: Time(file.modified),
                        name: file.name,
                    })
                    .collect(),
                problem: String::new(),
                command: String::new(),
                method: format!("{method}{}", of_trial("?")),
            })),
            Err(ArtifactError::NoFolder(_)) => Ok(None),
            Err(ArtifactError::Elsewhere { address, .. }) => {
                let command = listing(&address);
                let problem = if command.is_empty() {
                    "The files are where the programs of the job run, and the server does not read them."
                } else {
                    "The files are in an object store. The server does not list them, since it would read with its own \
                     credentials, which its visitors need not have. List them with yours:"
                };
                without_files(address, problem.to_owned(), command)
            }
            Err(error @ ArtifactError::NotAllowed { .. }) => {
                without_files(String::new(), error.to_string(), String::new())
            }
            Err(error @ ArtifactError::Unreadable { .. }) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "artifacts cannot be listed");
                without_files(String::new(), error.to_string(), String::new())
            }
            Err(ArtifactError::Store(error)) => Err(error.into()),
            Err(error @ (ArtifactError::NotFound { .. } | ArtifactError::TooLarge { .. })) => {
                Err(PageError::NotFound(error.to_string()))
            }
        }
    }
}

/// Cloud vendor's command to list `address`; empty for an unknown scheme.
fn listing(address: &str) -> String {
    let folder = shell_word(&format!("{}/", address.trim_end_matches('/')));
    match address.split_once("://") {
        Some(("gs", _)) => format!("gcloud storage ls --long --recursive {folder}"),
        Some(("s3", _)) => format!("aws s3 ls --recursive {folder}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::listing;

    #[test]
    fn files_of_object_stores_are_listed_by_the_client_of_the_cloud() {
        assert_eq!(listing("gs://b/out/1"), "gcloud storage ls --long --recursive gs://b/out/1/");
        assert_eq!(listing("s3://b/it's $(x)/1/"), r"aws s3 ls --recursive 's3://b/it'\''s $(x)/1/'");
        assert_eq!(listing("hdfs://b"), "");
    }
}
