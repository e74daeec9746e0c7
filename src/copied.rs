//! Unfinished jobs of a copied data folder, which the original may run, too.

use std::pin::pin;

use anyhow::bail;
use futures::TryStreamExt;

use tunesmith_data_dir::{DataDir, StoreKind};
use tunesmith_domain::{Job, JobId, JobState};
use tunesmith_store::Store;
use tunesmith_store::pages;

/// Maximum number of jobs named in a message.
const NAMED: usize = 3;

/// Adopts a copied folder, unless it has unfinished jobs selected by `runs` and `resumes` does not permit running
/// them.
///
/// # Errors
/// If the jobs must not be run, or the store or the folder cannot be used.
pub(crate) async fn settle(
    data_dir: &DataDir,
    store: &dyn Store,
    resumes: bool,
    runs: impl Fn(&Job) -> bool,
) -> anyhow::Result<()> {
    let Some(original) = data_dir.original() else { return Ok(()) };
    // Jobs in a database have one owner, regardless of folders.
    if !resumes && data_dir.kind() != StoreKind::Postgres {
        let (mut unfinished, mut has_others) = (Vec::new(), false);
        let mut jobs = pin!(pages::jobs(store, None));
        while let Some(job) = jobs.try_next().await? {
            if job.state.is_final() || job.state == JobState::Cancelling {
                continue;
            }
            if runs(&job) { unfinished.push(job.id.clone()) } else { has_others = true }
        }
        if let Some(first) = unfinished.first() {
            let more = unfinished.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let folder = data_dir.path().display();
            let cancel = match first.parts() {
                (JobId::LOCAL_PROJECT, id) => id.to_owned(),
                (project, id) => format!("{id} --project {project}"),
            };
            bail!(
                "data folder {folder} is a copy of {} on {}, which may run its unfinished jobs as well: {}{more}; give \
                 --resume-copied to run them here once the original is not used any more, or cancel them in the copy: \
                 tunesmith jobs cancel {cancel} --data-dir {folder}",
                original.path.display(),
                original.host,
                unfinished.iter().take(NAMED).map(JobId::as_str).collect::<Vec<_>>().join(", "),
            );
        }
        if has_others {
            return Ok(());
        }
    }
    tracing::info!(
        data.path = %data_dir.path().display(), original.path = %original.path.display(), original.host,
        "the data folder is a copy"
    );
    Ok(data_dir.settle()?)
}
