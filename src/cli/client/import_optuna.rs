//! `tunesmith import optuna`: creates a study with the trials of a study of Optuna.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::folder::Purpose;
use super::target::{LocationArgs, TargetArgs};
use crate::cli::BAD_INPUT;
use crate::cli::output::notice;
use tunesmith_api::ai_platform::optimizer::TrialRequest;
use tunesmith_domain::StudyId;
use tunesmith_importers::optuna::{ImportedStudy, OptunaStudy, journal, optuna};

/// Beginning of a SQLite database.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Maximum size of a journal in bytes.
const MAX_JOURNAL_BYTES: u64 = 1 << 30;

/// Maximum length of the ID of a study made from a name.
const MAX_ID: usize = 128;

#[derive(Debug, Args)]
pub(in crate::cli) struct OptunaArgs {
    /// A journal file or SQLite database of Optuna, such as journal.log, study.db or sqlite:///study.db. It is only read.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// Name of the study in Optuna; needed if there are several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Name of the study to create. By default, the study's, with other characters than letters, digits, `_`, `-` and `.`
    /// replaced by `_`.
    #[arg(long, value_name = "STUDY")]
    study_id: Option<String>,
    /// Accept that trials without a counterpart are left out. Without it, they are errors.
    #[arg(long)]
    accept_losses: bool,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    location: LocationArgs,
}

pub(super) async fn run(args: &OptunaArgs) -> anyhow::Result<ExitCode> {
    let path = PathBuf::from(args.source.strip_prefix("sqlite:///").unwrap_or(&args.source));
    let studies = read(&path).with_context(|| format!("{} cannot be imported", path.display()))?;
    let study = selected(&studies, args.study.as_deref())?;
    let imported = optuna(study).map_err(anyhow::Error::msg)?;
    let ImportedStudy { config, trials, losses, notes } = imported;
    if !losses.is_empty() && !args.accept_losses {
        for loss in &losses {
            notice(&format!("error: {loss}"));
        }
        notice("--accept-losses imports the other trials");
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let id = args.study_id.clone().unwrap_or_else(|| id_of(&study.name));
    StudyId::new("p", &args.location.region, &id).context("--study-id")?;
    let requests: Vec<TrialRequest> = trials
        .into_iter()
        .map(serde_json::from_value)
        .collect::<Result<_, _>>()
        .context("a trial cannot be imported")?;
    let service = args.target.service(Purpose::Add).await?;
    service.create_study(&args.location.region, &id, &json!({ "studyConfig": config })).await?;
    let client = service.study(&args.location.region, &id);
    for (index, request) in requests.iter().enumerate() {
        if let Err(error) = client.create_trial(request).await {
            // Nothing is left half done.
            let deleted = client.delete().await;
            let left =
                deleted.err().map(|error| format!("; the study {id} is incomplete, and cannot be deleted: {error}"));
            let text =
                format!("trial {} of {} cannot be created{}", index + 1, requests.len(), left.unwrap_or_default());
            return Err(anyhow::Error::from(error).context(text));
        }
    }
    for loss in &losses {
        notice(&format!("warning: left out: {loss}"));
    }
    for note in &notes {
        notice(&format!("note: {note}"));
    }
    notice(&format!("created the study {id} with {} trials", requests.len()));
    Ok(ExitCode::SUCCESS)
}

/// Studies of a journal or database.
fn read(path: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    let mut file = File::open(path)?;
    if !file.metadata()?.is_file() {
        bail!("it is not a file");
    }
    let mut start = Vec::with_capacity(DATABASE.len());
    (&mut file).take(DATABASE.len() as u64).read_to_end(&mut start)?;
    if start == DATABASE {
        return database(path);
    }
    let mut rest = Vec::new();
    file.take(MAX_JOURNAL_BYTES + 1).read_to_end(&mut rest)?;
    if rest.len() as u64 > MAX_JOURNAL_BYTES {
        bail!("it is larger than 1 GiB");
    }
    start.extend(rest);
    let text = String::from_utf8(start).context("it is neither a SQLite database nor UTF-8 text")?;
    Ok(journal(&text))
}

#[cfg(feature = "sqlite")]
fn database(path: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    Ok(tunesmith_importers::optuna::database(path)?)
}

#[cfg(not(feature = "sqlite"))]
fn database(_: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    bail!("it is a SQLite database, and this program was built without the feature sqlite")
}

fn selected<'a>(studies: &'a [OptunaStudy], name: Option<&str>) -> anyhow::Result<&'a OptunaStudy> {
    let names = || studies.iter().map(|study| format!("{:?}", study.name)).collect::<Vec<_>>().join(", ");
    match (name, studies) {
        (_, []) => bail!("the source has no studies"),
        (None, [study]) => Ok(study),
        (None, _) => bail!("the source has several studies; give --study with one of {}", names()),
        (Some(name), _) => studies
            .iter()
            .find(|study| study.name == name)
            .with_context(|| format!("--study {name:?}: there is no such study; allowed: {}", names())),
    }
}

/// ID of a study made from its name.
fn id_of(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let id: String = name.chars().take(MAX_ID).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if id.is_empty() { "optuna".to_owned() } else { id }
}
