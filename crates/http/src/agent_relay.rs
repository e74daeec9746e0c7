//! Requests of agents that reach another server than the one that runs their job: they are passed on through the database, so that
//! any server answers them. The server that runs the job applies them as its own, with the same checks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::status::{ApiError, Code};
use tunesmith_api::agent::{SyncAnswer, SyncRequest, run_id, run_name};
use tunesmith_domain::JobId;
use tunesmith_service::{AgentError, AgentReports, AuthorizedRun};
use tunesmith_store::{Asked, Relay};

/// Limit of the time for an answer. Agents wait 30 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Number of bytes of a package in an answer.
const PACKAGE_PIECE: usize = 2 << 20;

/// The first byte of an answer with a piece of a package, after which more follow, and of the last one.
const PIECE: u8 = 1;
const LAST_PIECE: u8 = 2;
/// The first byte of an answer in JSON.
const JSON: u8 = 0;

/// Interval at which requests are looked for whose notice was missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// A request that is passed on.
#[derive(Debug, Serialize, Deserialize)]
struct Passed {
    job: String,
    run: String,
    token: String,
    wanted: Wanted,
}

#[derive(Debug, Serialize, Deserialize)]
enum Wanted {
    Sync(Box<SyncRequest>),
    Package { sha256: String, file_name: String, offset: u64 },
}

/// An answer other than a piece of a package.
#[derive(Debug, Serialize, Deserialize)]
enum Answered {
    Sync(SyncAnswer),
    Refused { code: String, message: String },
}

/// One agent's request, for the case that another server runs its job.
pub(super) struct Sender<'a> {
    pub(super) run: &'a AuthorizedRun,
    pub(super) token: &'a str,
}

impl Sender<'_> {
    /// Passes a report to the server that runs the job. Fails with `error` if that one does not answer.
    pub(super) async fn sync(
        &self,
        relay: &dyn Relay,
        request: SyncRequest,
        error: AgentError,
    ) -> Result<SyncAnswer, ApiError> {
        let answer = self.ask(relay, Wanted::Sync(Box::new(request)), &error).await?;
        match parsed(&answer)? {
            Answered::Sync(answer) => Ok(answer),
            refused @ Answered::Refused { .. } => Err(refusal(refused)),
        }
    }

    /// Gets a package from the server that runs the job, as a file without a name. Fails with `error` if that one does not answer.
    pub(super) async fn package(
        &self,
        relay: &dyn Relay,
        sha256: &str,
        file_name: &str,
        error: AgentError,
    ) -> Result<File, ApiError> {
        let failed = |error: std::io::Error| {
            tracing::error!(%error, "a package of another server cannot be kept");
            ApiError::new(Code::Unavailable, "the package cannot be kept; see the server's log")
        };
        let mut file = tempfile::tempfile().map_err(failed)?;
        let mut offset = 0;
        loop {
            let (sha256, file_name) = (sha256.to_owned(), file_name.to_owned());
            let answer = self.ask(relay, Wanted::Package { sha256, file_name, offset }, &error).await?;
            match answer.split_first() {
                Some((&kind @ (PIECE | LAST_PIECE), piece)) => {
                    file.write_all(piece).map_err(failed)?;
                    offset += piece.len() as u64;
                    if kind == LAST_PIECE {
                        file.seek(SeekFrom::Start(0)).map_err(failed)?;
                        return Ok(file);
                    }
                }
                _ => return Err(refusal(parsed(&answer)?)),
            }
        }
    }

    async fn ask(&self, relay: &dyn Relay, wanted: Wanted, error: &AgentError) -> Result<Vec<u8>, ApiError> {
        let id = self.run.id();
        let (job, run, token) = (id.job.as_str().to_owned(), run_name(id), self.token.to_owned());
        let request = serde_json::to_vec(&Passed { job, run, token, wanted }).map_err(|error| foreign(&error))?;
        let answer = relay.ask(&id.job, request, ANSWER_LIMIT).await?;
        answer.ok_or_else(|| ApiError::new(Code::Unavailable, error.to_string()))
    }
}

fn parsed(answer: &[u8]) -> Result<Answered, ApiError> {
    let text = answer.strip_prefix(&[JSON]).unwrap_or_default();
    serde_json::from_slice(text).map_err(|error| foreign(&error))
}

fn refusal(answered: Answered) -> ApiError {
    match answered {
        Answered::Refused { code, message } => ApiError::new(Code::of_name(&code), message),
        Answered::Sync(_) => ApiError::new(Code::Unavailable, "another server has answered something else"),
    }
}

fn foreign(error: &serde_json::Error) -> ApiError {
    tracing::error!(%error, "a request to another server, or its answer, cannot be read");
    ApiError::new(Code::Unavailable, "the answer of another server cannot be read; its version may differ")
}

/// Answers the requests that other servers pass to this one. Never completes, unless there is no other server.
pub async fn answer_other_servers(reports: AgentReports) {
    let Some(relay) = reports.relay() else { return };
    let mut asked = relay.asked();
    loop {
        match relay.take().await {
            Ok(requests) => {
                for Asked { id, request } in requests {
                    let (reports, relay) = (reports.clone(), Arc::clone(&relay));
                    tokio::spawn(async move {
                        let answer = answer(&reports, &request).await;
                        if let Err(error) = relay.answer(id, answer).await {
                            tracing::warn!(error = &error as &dyn std::error::Error, "another server gets no answer");
                        }
                    });
                }
            }
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the requests of other servers cannot be read"
                );
            }
        }
        // Without a notice, it looks by itself. The sender lives as long as the relay.
        let _ = tokio::time::timeout(LOOK_INTERVAL, asked.changed()).await;
    }
}

/// The answer to `request` in the form of [`Relay`].
async fn answer(reports: &AgentReports, request: &[u8]) -> Vec<u8> {
    let answered = match apply(reports, request).await {
        Ok(Applied::Piece(bytes)) => return bytes,
        Ok(Applied::Sync(answer)) => Answered::Sync(answer),
        Err(error) => Answered::Refused { code: error.code().name().to_owned(), message: error.message().to_owned() },
    };
    let mut bytes = vec![JSON];
    match serde_json::to_writer(&mut bytes, &answered) {
        Ok(()) => bytes,
        Err(error) => {
            tracing::error!(%error, "the answer to another server cannot be written");
            Vec::new()
        }
    }
}

enum Applied {
    Sync(SyncAnswer),
    Piece(Vec<u8>),
}

async fn apply(reports: &AgentReports, request: &[u8]) -> Result<Applied, ApiError> {
    let Passed { job, run, token, wanted } = serde_json::from_slice(request).map_err(|error| foreign(&error))?;
    let job: JobId = job.parse().map_err(|_| ApiError::invalid("name", format!("{job:?} is not a job")))?;
    let id = run_id(job, &run).ok_or_else(|| ApiError::invalid("name", format!("{run:?} is not a run")))?;
    let run = reports.authorize(&id, &token).await?;
    match wanted {
        Wanted::Sync(request) => {
            let answer = reports.receive(&run, request.into_report()?).await?;
            Ok(Applied::Sync(answer.into()))
        }
        Wanted::Package { sha256, file_name, offset } => {
            let file = reports.package(&run, &sha256, &file_name).await?;
            let read = tokio::task::spawn_blocking(move || piece_of(file, offset)).await;
            let piece = read.unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let piece = piece.map_err(|source| ApiError::from(AgentError::Files { id, source }))?;
            Ok(Applied::Piece(piece))
        }
    }
}

/// The piece of `file` at `offset`, after the byte that states whether it is the last one.
fn piece_of(mut file: File, offset: u64) -> std::io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![LAST_PIECE];
    (&file).take(PACKAGE_PIECE as u64).read_to_end(&mut bytes)?;
    if offset + (bytes.len() as u64 - 1) < file.metadata()?.len() {
        bytes[0] = PIECE;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_is_read_in_pieces() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..PACKAGE_PIECE + 5).map(|index| index as u8).collect();
        file.write_all(&content).unwrap();
        let first = piece_of(file.try_clone().unwrap(), 0).unwrap();
        assert_eq!((first[0], &first[1..]), (PIECE, &content[..PACKAGE_PIECE]));
        let last = piece_of(file.try_clone().unwrap(), PACKAGE_PIECE as u64).unwrap();
        assert_eq!((last[0], &last[1..]), (LAST_PIECE, &content[PACKAGE_PIECE..]));
        assert_eq!(piece_of(tempfile::tempfile().unwrap(), 0).unwrap(), [LAST_PIECE], "an empty file");
    }

    #[test]
    fn refusals_keep_their_code() {
        for code in
            [Code::InvalidArgument, Code::FailedPrecondition, Code::Unauthenticated, Code::NotFound, Code::Unavailable]
        {
            let refused = Answered::Refused { code: code.name().to_owned(), message: "why".to_owned() };
            assert_eq!(refusal(refused), ApiError::new(code, "why"));
        }
    }
}
