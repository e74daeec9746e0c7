//! Relay of agent requests through the database: agents may reach any server, and the server that runs the job handles
//! their requests like its own, with the same checks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::response::error::{ApiError, Code};
use tunesmith_api::agent::{SyncRequest, SyncResponse, run_id, run_name};
use tunesmith_domain::JobId;
use tunesmith_jobs::{AgentError, AgentReports, AuthorizedRun};
use tunesmith_store::{Asked, Relay};

/// Time limit of a response. Agents wait 30 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Number of package bytes per response.
const PACKAGE_PIECE: usize = 2 << 20;

/// First byte of a response with a package chunk that is not the last, and of the last one.
const PIECE: u8 = 1;
const LAST_PIECE: u8 = 2;
/// First byte of a JSON response.
const JSON: u8 = 0;

/// Polling interval, in case a notification was missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

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

/// Response other than a package chunk.
#[derive(Debug, Serialize, Deserialize)]
enum RelayResponse {
    Sync(SyncResponse),
    Refused { code: String, message: String },
}

/// Agent request to be relayed if another server runs the job.
pub(crate) struct Sender<'a> {
    pub(crate) run: &'a AuthorizedRun,
    pub(crate) token: &'a str,
}

impl Sender<'_> {
    /// Relays a report to the server that runs the job. Fails with `error` if that server does not respond.
    pub(crate) async fn sync(
        &self,
        relay: &dyn Relay,
        request: SyncRequest,
        error: AgentError,
    ) -> Result<SyncResponse, ApiError> {
        let answer = self.ask(relay, Wanted::Sync(Box::new(request)), &error).await?;
        match parsed(&answer)? {
            RelayResponse::Sync(answer) => Ok(answer),
            refused @ RelayResponse::Refused { .. } => Err(refusal(refused)),
        }
    }

    /// Fetches a package from the server that runs the job into an unnamed file. Fails with `error` if that server does
    /// not respond.
    pub(crate) async fn package(
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

fn parsed(answer: &[u8]) -> Result<RelayResponse, ApiError> {
    let text = answer.strip_prefix(&[JSON]).unwrap_or_default();
    serde_json::from_slice(text).map_err(|error| foreign(&error))
}

fn refusal(answered: RelayResponse) -> ApiError {
    match answered {
        RelayResponse::Refused { code, message } => {
            ApiError::new(Code::named(&code).unwrap_or(Code::Unavailable), message)
        }
        RelayResponse::Sync(_) => ApiError::new(Code::Unavailable, "another server has answered something else"),
    }
}

fn foreign(error: &serde_json::Error) -> ApiError {
    tracing::error!(%error, "a request to another server, or its answer, cannot be read");
    ApiError::new(Code::Unavailable, "the answer of another server cannot be read; its version may differ")
}

/// Handles requests relayed by other servers. Never completes unless there are no other servers.
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
        // Polls in case a notification was missed. The sender outlives this loop.
        let _ = tokio::time::timeout(LOOK_INTERVAL, asked.changed()).await;
    }
}

/// Handles `request` and encodes the response for [`Relay`].
async fn answer(reports: &AgentReports, request: &[u8]) -> Vec<u8> {
    let answered = match apply(reports, request).await {
        Ok(Applied::Piece(bytes)) => return bytes,
        Ok(Applied::Sync(answer)) => RelayResponse::Sync(answer),
        Err(error) => {
            let refusal = error.refusal();
            RelayResponse::Refused { code: refusal.code.name().to_owned(), message: refusal.message.clone() }
        }
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
    Sync(SyncResponse),
    Piece(Vec<u8>),
}

async fn apply(reports: &AgentReports, request: &[u8]) -> Result<Applied, ApiError> {
    let Passed { job, run, token, wanted } = serde_json::from_slice(request).map_err(|error| foreign(&error))?;
    let job: JobId = job.parse().map_err(|_| ApiError::invalid("name", format!("{job:?} is not a job")))?;
    let id = run_id(job, &run).ok_or_else(|| ApiError::invalid("name", format!("{run:?} is not a run")))?;
    let run = reports.authorize(&id, &token).await?;
    match wanted {
        Wanted::Sync(request) => {
            let answer = reports.receive(&run, request.into_report(run.id().attempt)?).await?;
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

/// Chunk of `file` at `offset`, prefixed with the byte that marks the last one.
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
            let refused = RelayResponse::Refused { code: code.name().to_owned(), message: "why".to_owned() };
            assert_eq!(refusal(refused), ApiError::new(code, "why"));
        }
    }
}
