//! `tunesmith import optuna` and `tunesmith import vizier`: create a study with the trials of a study of another tool.

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
use tunesmith_importers::ImportedStudy;
use tunesmith_importers::optuna::{OptunaStudy, journal, optuna};

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
    #[command(flatten)]
    study: StudyArgs,
}

#[cfg(feature = "vizier")]
#[derive(Debug, Args)]
pub(in crate::cli) struct VizierArgs {
    /// A SQLite database of OSS Vizier's service, such as vizier.db or sqlite:///vizier.db; or a study or
    /// HyperparameterTuningJob of Vertex AI with its trials, in JSON or YAML. It is only read.
    #[arg(value_name = "SOURCE")]
    source: String,
    #[command(flatten)]
    study: StudyArgs,
}

#[derive(Debug, Args)]
struct StudyArgs {
    /// Name of the study in the source; needed if there are several.
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

pub(super) async fn from_optuna(args: &OptunaArgs) -> anyhow::Result<ExitCode> {
    let path = path_of(&args.source);
    let studies = read_optuna(&path).with_context(|| format!("{} cannot be imported", path.display()))?;
    let study = selected(&studies, |study| &study.name, args.study.study.as_deref())?;
    create(&args.study, &study.name, optuna(study).map_err(anyhow::Error::msg)?).await
}

#[cfg(feature = "vizier")]
pub(super) async fn from_vizier(args: &VizierArgs) -> anyhow::Result<ExitCode> {
    use tunesmith_importers::vizier::{VizierStudy, description};

    let path = path_of(&args.source);
    let cannot = || format!("{} cannot be imported", path.display());
    if is_database(&path).with_context(cannot)? {
        let studies = vizier_database(&path).with_context(cannot)?;
        let study = selected(&studies, VizierStudy::name, args.study.study.as_deref())?;
        let name = study.name().rsplit('/').next().unwrap_or_default();
        return create(&args.study, name, study.convert().map_err(anyhow::Error::msg)?).await;
    }
    if args.study.study.is_some() {
        bail!("--study: a description has one study; only a database may have several");
    }
    match tunesmith_config::Document::load(&path).and_then(|document| description(&document)) {
        Ok((name, imported)) => create(&args.study, &name, imported).await,
        Err(errors) => {
            notice(&errors.to_string());
            Ok(ExitCode::from(BAD_INPUT))
        }
    }
}

fn path_of(source: &str) -> PathBuf {
    PathBuf::from(source.strip_prefix("sqlite:///").unwrap_or(source))
}

/// Creates the study `imported`, called `name` in its source.
async fn create(args: &StudyArgs, name: &str, imported: ImportedStudy) -> anyhow::Result<ExitCode> {
    let ImportedStudy { config, trials, losses, notes } = imported;
    if !losses.is_empty() && !args.accept_losses {
        for loss in &losses {
            notice(&format!("error: {loss}"));
        }
        notice("--accept-losses imports the others");
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let id = args.study_id.clone().unwrap_or_else(|| id_of(name));
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

/// Whether the file at `path` is a SQLite database.
fn is_database(path: &Path) -> anyhow::Result<bool> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        bail!("it is not a file");
    }
    let mut start = Vec::with_capacity(DATABASE.len());
    file.take(DATABASE.len() as u64).read_to_end(&mut start)?;
    Ok(start == DATABASE)
}

/// Studies of a journal or database of Optuna.
fn read_optuna(path: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    if is_database(path)? {
        return optuna_database(path);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_JOURNAL_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_JOURNAL_BYTES {
        bail!("it is larger than 1 GiB");
    }
    let text = String::from_utf8(bytes).context("it is neither a SQLite database nor UTF-8 text")?;
    Ok(journal(&text))
}

#[cfg(feature = "sqlite")]
fn optuna_database(path: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    Ok(tunesmith_importers::optuna::database(path)?)
}

#[cfg(all(feature = "sqlite", feature = "vizier"))]
fn vizier_database(path: &Path) -> anyhow::Result<Vec<tunesmith_importers::vizier::VizierStudy>> {
    Ok(tunesmith_importers::vizier::database(path)?)
}

#[cfg(not(feature = "sqlite"))]
fn optuna_database(_: &Path) -> anyhow::Result<Vec<OptunaStudy>> {
    bail!("{WITHOUT_SQLITE}")
}

#[cfg(all(not(feature = "sqlite"), feature = "vizier"))]
fn vizier_database(_: &Path) -> anyhow::Result<Vec<tunesmith_importers::vizier::VizierStudy>> {
    bail!("{WITHOUT_SQLITE}")
}

#[cfg(not(feature = "sqlite"))]
const WITHOUT_SQLITE: &str = "it is a SQLite database, and this program was built without the feature sqlite";

/// The study called `name`, or the only one.
fn selected<'a, T>(studies: &'a [T], name_of: impl Fn(&T) -> &str, name: Option<&str>) -> anyhow::Result<&'a T> {
    let names = || studies.iter().map(|study| format!("{:?}", name_of(study))).collect::<Vec<_>>().join(", ");
    match (name, studies) {
        (_, []) => bail!("the source has no studies"),
        (None, [study]) => Ok(study),
        (None, _) => bail!("the source has several studies; give --study with one of {}", names()),
        (Some(name), _) => studies
            .iter()
            .find(|study| name_of(study) == name)
            .with_context(|| format!("--study {name:?}: there is no such study; allowed: {}", names())),
    }
}

/// ID of a study made from its name.
fn id_of(name: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let id: String = name.chars().take(MAX_ID).map(|c| if is_allowed(c) { c } else { '_' }).collect();
    if id.is_empty() { "imported".to_owned() } else { id }
}
