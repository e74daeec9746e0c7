//! Delivery of the program's output and measurements.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};

use super::AgentSettings;
use super::client::{Client, Sent};
use super::outbox::Outbox;
use tunesmith_api::agent::{EndMessage, SyncRequest, SyncResponse};
use tunesmith_executor::logs::{LogName, logs, read_bytes};
use tunesmith_executor::remote::{AgentCommand, AgentEnd, AgentReport, LogPiece, LogPosition};
use tunesmith_executor::reports::Reports;
use tunesmith_executor::{ExecutorJobId, StopMode, host_name};

/// Maximum number of log bytes per report; base64 encoded, far below the server's request limit.
const MAX_LOG_BYTES: usize = 512 << 10;
/// Maximum number of measurements per report.
const MAX_MEASUREMENTS: usize = 1000;
/// Time limit for one report.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum time limit for a report, when the server is close to out of reach.
const LEAST_TIMEOUT: Duration = Duration::from_millis(100);

/// Request of the server, or consequence of its absence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// First response of the server, which wants the attempt to run.
    Wanted,
    /// The program must stop.
    Stop(StopMode),
    /// The server has superseded the attempt.
    Superseded,
    /// The server was unreachable for too long.
    OutOfReach,
}

/// Inputs of a [`Shipper`].
pub(super) struct Shipping<'a> {
    pub(super) client: Client,
    pub(super) reports: Box<dyn Reports>,
    /// Local folder of the job's files.
    pub(super) job: PathBuf,
    pub(super) id: ExecutorJobId,
    pub(super) ended: watch::Receiver<Option<AgentEnd>>,
    pub(super) preempted: watch::Receiver<Option<String>>,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) outbox: Arc<Outbox>,
    /// Present for an attempt with several agents.
    pub(super) rendezvous: Option<Rendezvous>,
    pub(super) settings: &'a AgentSettings,
}

/// Exchange of addresses between the agents of an attempt.
#[derive(Debug)]
pub(super) struct Rendezvous {
    /// Task of this agent's replica.
    pub(super) task: String,
    /// Address of this agent's replica.
    pub(super) address: SocketAddr,
    /// Addresses of all replicas, once known.
    pub(super) addresses: Arc<OnceLock<Vec<String>>>,
}

/// Delivers the reports of one attempt.
pub(super) struct Shipper {
    client: Client,
    reports: Option<Box<dyn Reports>>,
    job: PathBuf,
    id: ExecutorJobId,
    ended: watch::Receiver<Option<AgentEnd>>,
    preempted: watch::Receiver<Option<String>>,
    events: mpsc::UnboundedSender<Event>,
    out_of_reach: Duration,
    interval: Duration,
    outbox: Arc<Outbox>,
    rendezvous: Option<Rendezvous>,
    /// Bytes of each log received by the server.
    delivered: Vec<(LogName, u64)>,
    sent_tags: BTreeSet<String>,
    sent_problems: usize,
    asked: AgentCommand,
    reached: Instant,
    was_wanted: bool,
    is_reachable: bool,
}

impl Shipper {
    pub(super) fn new(shipping: Shipping<'_>) -> Self {
        let Shipping { client, reports, job, id, ended, preempted, events, outbox, rendezvous, settings } = shipping;
        Self {
            client,
            reports: Some(reports),
            job,
            id,
            ended,
            preempted,
            events,
            out_of_reach: settings.out_of_reach,
            interval: settings.interval,
            outbox,
            rendezvous,
            delivered: Vec::new(),
            sent_tags: BTreeSet::new(),
            sent_problems: 0,
            asked: AgentCommand::Continue,
            reached: Instant::now(),
            was_wanted: false,
            is_reachable: true,
        }
    }

    /// Delivers until the server has the end, refuses the attempt, or is unreachable for too long.
    pub(super) async fn run(mut self) {
        loop {
            let end = self.ended.borrow_and_update().clone();
            let notice = self.preempted.borrow_and_update().clone();
            match self.report(end, notice).await {
                Ok(Progress::More) => continue,
                Ok(Progress::Idle) => {}
                Ok(Progress::Done) => return,
                Err(error) => tracing::error!(%error, "the reports of the program cannot be read or spooled"),
            }
            if self.reached.elapsed() >= self.out_of_reach {
                self.emit(Event::OutOfReach);
                return;
            }
            let interval = self.interval;
            let changed = async {
                tokio::select! {
                    Ok(()) = self.ended.changed() => {}
                    Ok(()) = self.preempted.changed() => {}
                    else => std::future::pending().await,
                }
            };
            // No back-off for an unreachable server: an agent sends little.
            let _ = tokio::time::timeout(interval, changed).await;
        }
    }

    /// Sends one report.
    async fn report(&mut self, end: Option<AgentEnd>, notice: Option<String>) -> io::Result<Progress> {
        let is_over = end.is_some();
        self.collect(is_over).await?;
        let mut request = self.next_request(notice)?;
        let has_more = !request.measurements.is_empty() || !request.logs.is_empty();
        // The end follows everything else.
        request.end = end.as_ref().filter(|_| !has_more).map(EndMessage::from);
        // An unresponsive network must not keep the program running beyond its limit.
        let left = self.out_of_reach.saturating_sub(self.reached.elapsed());
        let limit = SEND_TIMEOUT.min(left.max(LEAST_TIMEOUT));
        let sent = tokio::time::timeout(limit, self.client.send(&request)).await;
        match sent.unwrap_or_else(|_| Sent::Unreached(format!("no answer within {} s", limit.as_secs_f64()))) {
            Sent::Answered(answer) => self.answered(&request, &answer, has_more),
            Sent::Superseded(message) => {
                tracing::warn!(message, "the server does not want this attempt any more");
                self.emit(Event::Superseded);
                Ok(Progress::Done)
            }
            Sent::Unreached(message) => {
                if std::mem::replace(&mut self.is_reachable, false) {
                    tracing::warn!(message, "the server cannot be reached; reports are kept");
                }
                Ok(Progress::Idle)
            }
        }
    }

    fn answered(&mut self, request: &SyncRequest, answer: &SyncResponse, has_more: bool) -> io::Result<Progress> {
        self.reached = Instant::now();
        if !std::mem::replace(&mut self.is_reachable, true) {
            tracing::info!("the server is back");
        }
        self.outbox.spool().confirm(u64::try_from(answer.next_measurement.0).unwrap_or(0))?;
        for (name, delivered) in &mut self.delivered {
            if let Some(end) = answer.log_end(&name.task, name.stream) {
                *delivered = end;
            }
        }
        self.sent_tags.extend(request.seen_tags.iter().cloned());
        self.sent_problems += request.problems.len();
        let asked = answer.asked();
        if asked != self.asked {
            self.outbox.set_stopping();
            self.asked = asked;
            match asked {
                AgentCommand::Continue => {}
                AgentCommand::Stop => self.emit(Event::Stop(StopMode::Graceful)),
                AgentCommand::Kill => self.emit(Event::Stop(StopMode::Immediate)),
            }
        }
        let mut is_complete = true;
        if let Some(rendezvous) = &self.rendezvous {
            if !answer.addresses.is_empty() {
                rendezvous.addresses.get_or_init(|| answer.addresses.clone());
            }
            is_complete = rendezvous.addresses.get().is_some();
        }
        if is_complete && !std::mem::replace(&mut self.was_wanted, true) && asked == AgentCommand::Continue {
            self.emit(Event::Wanted);
        }
        Ok(match (answer.ended, has_more) {
            (true, _) => Progress::Done,
            (false, true) => Progress::More,
            (false, false) => Progress::Idle,
        })
    }

    /// Spools new measurements; all remaining ones if the program `is_over`.
    async fn collect(&mut self, is_over: bool) -> io::Result<()> {
        // A read may block.
        let Some(mut reports) = self.reports.take() else {
            return Err(io::Error::other("the reader of the reports failed"));
        };
        let reading = tokio::task::spawn_blocking(move || {
            let mut found = reports.poll();
            if is_over && found.is_empty() {
                found = reports.finish();
            }
            (reports, found)
        });
        let (reports, found) = reading.await?;
        self.reports = Some(reports);
        self.outbox.spool().append(&found)
    }

    fn next_request(&mut self, notice: Option<String>) -> io::Result<SyncRequest> {
        let (first, measurements) = self.outbox.spool().next(MAX_MEASUREMENTS)?;
        let mut left = MAX_LOG_BYTES;
        let mut pieces = Vec::new();
        for log in logs(&self.job, self.id.trial.map(|trial| trial.0))? {
            if log.name.attempt != self.id.attempt || left == 0 {
                continue;
            }
            let known = self.delivered.iter().find(|(name, _)| *name == log.name).map(|(_, delivered)| *delivered);
            let offset = known.unwrap_or(0);
            if known.is_none() {
                self.delivered.push((log.name.clone(), 0));
            }
            if known.is_some() && log.size_bytes <= offset {
                continue;
            }
            let (start, bytes) = read_bytes(&self.job, &log.name, offset, left)?.unwrap_or((offset, Vec::new()));
            left -= bytes.len();
            let position = LogPosition { task: log.name.task, stream: log.name.stream, offset: start };
            pieces.push(LogPiece { position, removed: start - offset, bytes });
        }
        let (mut tags, problems) = match &self.reports {
            Some(reports) => (reports.seen_tags(), reports.problems()),
            None => Default::default(),
        };
        tags.extend(self.outbox.tags());
        let rendezvous = self.rendezvous.as_ref();
        let report = AgentReport {
            task: rendezvous.map(|rendezvous| rendezvous.task.clone()),
            address: rendezvous
                .filter(|rendezvous| rendezvous.addresses.get().is_none())
                .map(|rendezvous| rendezvous.address),
            node: (!self.was_wanted).then(host_name),
            logs: pieces,
            first_measurement: first,
            seen_tags: tags.difference(&self.sent_tags).cloned().collect(),
            problems: problems.get(self.sent_problems..).unwrap_or_default().to_vec(),
            preempted: notice,
            ..AgentReport::default()
        };
        Ok(SyncRequest { measurements, ..SyncRequest::from(&report) })
    }

    fn emit(&self, event: Event) {
        // The agent drops the receiver when it ends.
        let _ = self.events.send(event);
    }
}

/// Result of a report.
enum Progress {
    /// More may be sent immediately.
    More,
    /// Nothing to send at the moment.
    Idle,
    /// Nothing more to send, ever.
    Done,
}
