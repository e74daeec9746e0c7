//! Search for the job that crashes the server.
//!
//! A death of the server is evidence against the jobs that it handled, but weak for each of many: another job or a kill
//! may be the cause. After [`PATIENCE`] consecutive deaths, the next process starts these jobs one by one. Each is
//! handled alone until it has ended a trial or survived its probation. Jobs on trial at the last death come first, so
//! the culprit soon leads the list. Programs continue to run meanwhile; only their reports wait.
//!
//! Even a death with one job alone need not be its fault. As a control, the next process suspends that job for longer
//! than its predecessor lived and handles no other; if it dies too, the job is cleared. A job is set aside after
//! [`MAX_ALONE`] deaths alone without such a counterexample ([`Record`]).

use std::time::Duration;

use tokio::time::Instant;

use super::handling::{HandlingFile, Phase, Record};
use super::slots::SlotKind;
use super::{Jobs, State};
use tunesmith_domain::JobId;

/// Consecutive deaths before jobs start one by one.
const PATIENCE: u32 = 2;

/// Deaths alone before a job is set aside. A guess.
const MAX_ALONE: u32 = 3;

/// Initial probation before the next job starts; doubles with each further death among other jobs, for jobs that
/// take longer to crash the server. A guess.
const PROBATION: Duration = Duration::from_secs(5);

/// Maximum doublings of [`PROBATION`]: ten minutes in total.
const MAX_DOUBLINGS: u32 = 7;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    pub(super) phase: Phase,
    /// Exclusive time before other jobs start; `None` for no restriction.
    pub(super) probation: Option<Duration>,
    /// Deaths of earlier processes, if counted.
    pub(super) record: Option<Record>,
}

impl Start {
    pub(super) const TOGETHER: Self = Self { phase: Phase::Together, probation: None, record: None };

    /// Deaths for which the job is set aside instead of started.
    pub(super) fn blamed(&self) -> Option<Record> {
        self.record.filter(|record| record.alone >= MAX_ALONE)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Start(JobId, SlotKind, Start),
    /// Idle until another event or this time.
    Wait(Option<Instant>),
}

/// Jobs suspected of crashing earlier processes, in start order.
#[derive(Debug)]
pub(super) struct Suspects {
    begin: Instant,
    waiting: Vec<Suspect>,
    /// End of the control period that suspends the first suspect and all other jobs.
    held_until: Option<Instant>,
}

#[derive(Debug)]
struct Suspect {
    job: JobId,
    record: Record,
}

impl Record {
    fn probation(&self) -> Duration {
        let doublings = self.deaths.saturating_sub(self.alone).saturating_sub(PATIENCE);
        PROBATION * 2_u32.pow(doublings.min(MAX_DOUBLINGS))
    }
}

impl Suspects {
    /// Suspects among jobs in queue order; each record is given as left by the last process, and with its death
    /// counted.
    fn new(records: Vec<(JobId, Record, Record)>, begin: Instant) -> Self {
        let mut suspects: Vec<_> = records.into_iter().filter(|(.., counted)| counted.deaths >= PATIENCE).collect();
        // Jobs that were not on trial come last; the sort is stable.
        suspects.sort_by_key(|(_, left, counted)| (matches!(left.phase, Phase::Passed | Phase::Idle), counted.alone));
        let held_until = suspects.first().and_then(|(_, left, counted)| match left.phase {
            Phase::Alone(uptime_secs) if counted.alone < MAX_ALONE => {
                Some(begin + Duration::from_secs(uptime_secs) + counted.probation())
            }
            _ => None,
        });
        let waiting = suspects.into_iter().map(|(job, _, record)| Suspect { job, record }).collect();
        Self { begin, waiting, held_until }
    }

    /// Consecutive deaths, if they make jobs start one by one.
    pub(super) fn deaths(&self) -> Option<u32> {
        self.waiting.iter().map(|suspect| suspect.record.deaths).max()
    }

    /// Next step with `running` jobs and the slots for which `has_free` holds.
    pub(super) fn next(
        &mut self,
        state: &mut State,
        running: usize,
        has_free: impl Fn(SlotKind) -> bool,
        now: Instant,
    ) -> Next {
        // Drops jobs cancelled meanwhile or run by another server.
        self.waiting.retain(|suspect| state.queue.position(&suspect.job).is_some());
        if state.on_probation.is_some() {
            return Next::Wait(None);
        }
        let Some(first) = self.waiting.first() else {
            return match state.start_next(has_free) {
                Some((job, slot)) => Next::Start(job, slot, Start::TOGETHER),
                None => Next::Wait(None),
            };
        };
        if let Some(until) = self.held_until.filter(|until| now < *until) {
            return Next::Wait(Some(until));
        }
        let (job, record) = (first.job.clone(), first.record);
        let Some(slot) = state.queue.slot(&job).filter(|slot| has_free(*slot)) else { return Next::Wait(None) };
        let phase = match running {
            // Set aside; its programs are not handled.
            _ if record.alone >= MAX_ALONE => Phase::Idle,
            0 => Phase::Alone(now.duration_since(self.begin).as_secs()),
            _ => Phase::Together,
        };
        self.waiting.remove(0);
        self.held_until = None;
        state.queue.remove(&job);
        state.starting.insert(job.clone());
        state.on_probation = Some(job.clone());
        Next::Start(job, slot, Start { phase, probation: Some(record.probation()), record: Some(record) })
    }
}

impl Jobs {
    /// Determines which queued jobs were being handled when earlier processes died.
    pub(super) async fn suspects(&self) -> Suspects {
        let queued: Vec<JobId> = self.state().queue.jobs().map(|(job, _)| job.clone()).collect();
        let files: Vec<(JobId, HandlingFile)> =
            queued.into_iter().map(|job| (job.clone(), HandlingFile::of(&(self.services.directory)(&job)))).collect();
        let begin = Instant::now();
        let reading = tokio::task::spawn_blocking(move || {
            let read = |(job, file): &(JobId, HandlingFile)| Some((job.clone(), file.read()?, file.count()?));
            let suspects = Suspects::new(files.iter().filter_map(read).collect(), begin);
            if let (Some(first), Some(_)) = (suspects.waiting.first(), suspects.held_until)
                && let Some((_, file)) = files.iter().find(|(job, _)| *job == first.job)
            {
                file.write(Record { phase: Phase::Held, ..first.record });
            }
            suspects
        });
        let suspects = reading.await.unwrap_or_else(|_| Suspects::new(Vec::new(), begin));
        if let Some(deaths) = suspects.deaths() {
            let jobs = suspects.waiting.iter().map(|suspect| suspect.job.as_str()).collect::<Vec<_>>().join(", ");
            tracing::warn!(
                jobs,
                deaths,
                "the server died several times in a row while it handled these jobs, which it starts one by one"
            );
        }
        suspects
    }

    /// Lets the next job start if `job` is on probation.
    pub(super) fn end_probation(&self, job: &JobId) {
        let mut state = self.state();
        if state.on_probation.as_ref() == Some(job) {
            state.on_probation = None;
            drop(state);
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::queue::Moment;
    use tunesmith_contract::samples;
    use tunesmith_domain::{Job, JobFields};

    /// Simulated server whose processes die and leave records of its jobs.
    struct Server {
        records: Vec<(JobId, Record)>,
        begin: Instant,
    }

    /// One process, at a time since its start.
    struct Process {
        state: State,
        suspects: Suspects,
        running: Vec<JobId>,
        begin: Instant,
        uptime_secs: u64,
        passes_at: Option<Instant>,
    }

    impl Server {
        fn new(jobs: &[&str]) -> Self {
            let records = jobs.iter().map(|id| (id.parse().unwrap(), Record::default())).collect();
            Self { records, begin: Instant::now() }
        }

        fn record(&mut self, id: &JobId) -> &mut Record {
            self.records.iter_mut().find(|(known, _)| known == id).map(|(_, record)| record).unwrap()
        }

        fn start(&mut self) -> Process {
            let (mut state, begin) = (State::default(), self.begin);
            let mut records = Vec::new();
            for (number, (id, record)) in (0..).zip(&mut self.records) {
                let fields = JobFields { create_time: samples::at(number), ..(*samples::job(id.as_str())).clone() };
                let now = Moment { time: samples::at(0), instant: begin };
                state.queue.push(&Job::restore(fields), &samples::plan(), SlotKind::Local, now, None);
                let left = *record;
                *record = record.after_death();
                records.push((id.clone(), left, *record));
            }
            let suspects = Suspects::new(records, begin);
            if suspects.held_until.is_some() {
                let first = suspects.waiting[0].job.clone();
                self.record(&first).phase = Phase::Held;
            }
            Process { state, suspects, running: Vec::new(), begin, uptime_secs: 0, passes_at: None }
        }

        /// Advances `process` by one second; returns the jobs set aside.
        fn tick(&mut self, process: &mut Process) -> Vec<JobId> {
            let (now, mut aside) = (process.begin + Duration::from_secs(process.uptime_secs), Vec::new());
            process.uptime_secs += 1;
            if process.passes_at.is_some_and(|at| at <= now)
                && let Some(job) = process.state.on_probation.take()
            {
                self.record(&job).phase = Phase::Passed;
            }
            loop {
                let running = process.running.len();
                let Next::Start(job, _, start) = process.suspects.next(&mut process.state, running, |_| true, now)
                else {
                    return aside;
                };
                if start.blamed().is_some() {
                    process.state.on_probation = None;
                    self.records.retain(|(known, _)| *known != job);
                    aside.push(job);
                    continue;
                }
                self.record(&job).phase = start.phase;
                process.passes_at = start.probation.map(|probation| now + probation);
                process.running.push(job);
            }
        }

        /// Runs a process that dies after `secs`; returns the jobs handled and those set aside.
        fn die_after(&mut self, secs: u64) -> (Vec<String>, Vec<JobId>) {
            let mut process = self.start();
            let aside = (0..=secs).flat_map(|_| self.tick(&mut process)).collect();
            (process.running.iter().map(ToString::to_string).collect(), aside)
        }
    }

    #[test]
    fn killed_server_blames_no_job_however_often_it_is_killed() {
        for lifetime in [0, 1, 2, 4, 6, 11, 30] {
            for jobs in [&["a"][..], &["a", "b", "c"]] {
                let mut server = Server::new(jobs);
                for death in 0..50 {
                    assert_eq!(server.die_after(lifetime).1, [], "{death} deaths after {lifetime} s");
                }
            }
        }
    }

    #[test]
    fn jobs_are_started_one_by_one_after_two_deaths() {
        let mut server = Server::new(&["a", "b", "c"]);
        for _ in 0..2 {
            assert_eq!(server.die_after(2).0, ["a", "b", "c"]);
        }
        assert_eq!(server.die_after(2).0, ["a"]);
        // Not yet evidence: the next process runs the control, for longer.
        assert_eq!(server.die_after(4).0, [""; 0]);
        let mut process = server.start();
        assert!((0..300).all(|_| server.tick(&mut process).is_empty()));
        assert_eq!((process.running.len(), process.suspects.deaths()), (3, None), "those that survive run together");
    }

    #[test]
    fn job_that_ends_the_server_is_found_among_others() {
        // Time from its start to the crash.
        for fuse_secs in [0, 2, 7, 60, 200] {
            let mut server = Server::new(&["a", "fatal", "b", "c"]);
            let mut aside = Vec::new();
            for death in 1.. {
                assert!(death < 40, "{fuse_secs}: {:?}", server.records);
                let (mut process, mut left) = (server.start(), fuse_secs);
                while aside.is_empty() {
                    aside = server.tick(&mut process);
                    if process.running.iter().any(|job| job.as_str().ends_with("fatal")) {
                        if left == 0 {
                            break;
                        }
                        left -= 1;
                    }
                }
                if !aside.is_empty() {
                    break;
                }
            }
            assert_eq!(aside, ["fatal".parse().unwrap()], "{fuse_secs}");
        }
    }
}
