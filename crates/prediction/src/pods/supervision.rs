//! The task of a group: keeps the number of pods, and notices ends that workers cannot report.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tunesmith_executor::{WorkerEnd, WorkerPod};

use super::connection::{Connection, Phase};
use super::{FailedStart, Group, GroupState, UnexplainedEnd};

/// Time for which a pod is kept after its lease, since the next lease often follows at once.
const LINGER: Duration = Duration::from_secs(2);

/// Bounds of the pause after a failed request to the cluster.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Interval of looking for silent workers.
const TICK: Duration = Duration::from_secs(10);

/// Time without contact after which an idle worker is replaced: three of its requests.
const SILENCE: Duration = Duration::from_secs(60);

/// Time after which the cluster shows a new object.
const UNLISTED: Duration = Duration::from_secs(30);

/// Time within which the cluster tells how a container has ended.
const EXPLAINED: Duration = Duration::from_secs(2);

/// Failures that no start has waited for are dropped above this number.
const MAX_FAILED_STARTS: usize = 64;

/// Attempts to remove the objects of a group. The regular sweep follows.
const REMOVALS: u32 = 5;

/// Number of pods that the cluster was asked for, and the next attempt to change it.
struct Applied {
    pods: usize,
    since: Instant,
    /// Whether the cluster has shown the group since then.
    is_shown: bool,
    retry: Option<Instant>,
    pause: Duration,
    /// Since when fewer pods are needed.
    lower_since: Option<Instant>,
}

impl Group {
    /// Runs until the group is closed.
    pub(super) async fn supervise(self: Arc<Self>) {
        let (mut changed, mut seen) = (self.changed.subscribe(), self.engine.changes(&self.spec.id));
        let mut applied = Applied {
            pods: 0,
            since: Instant::now(),
            is_shown: false,
            retry: None,
            pause: FIRST_PAUSE,
            lower_since: None,
        };
        let mut is_used = false;
        loop {
            changed.mark_unchanged();
            seen.begin();
            self.observe(&mut applied);
            let (wanted, is_closed) = {
                let state = self.state.lock();
                (state.leases, state.is_closed)
            };
            if *self.closing.borrow() {
                // The end of the server removes all pods.
                return;
            }
            if is_closed {
                break;
            }
            if wanted >= applied.pods {
                self.kill_condemned().await;
            }
            let due = applied.due(wanted);
            if due.is_some_and(|due| due <= Instant::now()) {
                is_used = true;
                self.apply(&mut applied, wanted).await;
                continue;
            }
            let tick = self.next_tick();
            tokio::select! {
                _ = changed.changed() => {}
                () = seen.changed() => {}
                () = tokio::time::sleep_until(due.unwrap_or(tick).min(tick)) => {}
            }
        }
        if is_used {
            self.remove().await;
        }
    }

    /// Time of the next look for silent workers and unexplained ends.
    fn next_tick(&self) -> Instant {
        let unexplained = self.state.lock().unexplained.iter().map(|end| end.since + EXPLAINED).min();
        let tick = Instant::now() + TICK;
        unexplained.map_or(tick, |explained| explained.min(tick))
    }

    async fn remove(&self) {
        let mut pause = FIRST_PAUSE;
        for _ in 0..REMOVALS {
            match self.engine.remove(&self.spec.id).await {
                Ok(()) => return,
                Err(error) => tracing::debug!(version = self.spec.title, %error, "the pods of a version remain"),
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        tracing::warn!(version = self.spec.title, "the pods of a version remain in the cluster for now");
    }

    async fn apply(&self, applied: &mut Applied, wanted: usize) {
        let result = match wanted < applied.pods {
            true => self.prefer_free_pods().await,
            false => Ok(()),
        };
        let result = match result {
            Ok(()) => self.engine.apply(&self.spec, wanted).await,
            Err(error) => Err(error),
        };
        let mut state = self.state.lock();
        match result {
            Ok(()) => {
                (applied.pods, applied.since) = (wanted, Instant::now());
                (applied.retry, applied.pause, applied.lower_since) = (None, FIRST_PAUSE, None);
                state.refusal = None;
            }
            Err(error) => {
                tracing::debug!(version = self.spec.title, %error, "the number of pods cannot be changed");
                applied.retry = Some(Instant::now() + applied.pause);
                applied.pause = (applied.pause * 2).min(LONGEST_PAUSE);
                let before = state.refusal.take().map_or(0, |(_, times)| times);
                state.refusal = Some((error, before + 1));
            }
        }
        drop(state);
        // For the starts, and for this task, which continues anyway.
        self.notify();
    }

    /// Has the cluster remove pods without a lease first.
    async fn prefer_free_pods(&self) -> Result<(), tunesmith_executor::WorkerPodsError> {
        let connections: Vec<Arc<Connection>> = self.state.lock().connections.values().cloned().collect();
        for connection in connections {
            let is_free = {
                let state = connection.state.lock();
                let is_free = !state.is_leased && state.phase != Phase::Loading;
                if is_free == state.is_preferred_for_removal {
                    continue;
                }
                is_free
            };
            self.engine.prefer_removal(&connection.pod, is_free).await?;
            connection.state.lock().is_preferred_for_removal = is_free;
        }
        Ok(())
    }

    /// Compares connections with the pods of the cluster.
    fn observe(&self, applied: &mut Applied) {
        let (seen, now) = (self.seen(), Instant::now());
        if self.state.lock().explain_late(now) {
            self.notify();
        }
        let Some(pods) = seen.pods else { return };
        applied.is_shown |= seen.exists;
        if applied.pods > 0 && !seen.exists && (applied.is_shown || now > applied.since + UNLISTED) {
            // Someone else has removed it.
            tracing::warn!(
                version = self.spec.title,
                "the workers of a version were removed from the cluster; creating them again"
            );
            (applied.pods, applied.since, applied.is_shown) = (0, now, false);
        }
        let mut guard = self.state.lock();
        let (state, mut is_changed) = (&mut *guard, false);
        for pod in &pods {
            is_changed |= state.observe(pod);
        }
        let connections: Vec<Arc<Connection>> = state.connections.values().cloned().collect();
        for connection in connections {
            let is_listed = pods.iter().any(|pod| pod.name == connection.pod);
            let (last_contact, is_waiting, is_busy, is_ready, was_listed) = {
                let mut state = connection.state.lock();
                let was_listed = state.was_listed;
                state.was_listed |= is_listed;
                let is_ready = matches!(state.phase, Phase::Ready(_));
                (state.last_contact, state.waiting > 0, state.outstanding.is_some(), is_ready, was_listed)
            };
            // The list may lag behind.
            let is_gone = !is_listed && (was_listed || (!is_busy && now > last_contact + UNLISTED));
            if is_gone && !is_waiting {
                let status = "its pod was removed from the cluster".to_owned();
                state.note_end(&connection, WorkerEnd { status, output: String::new() });
                state.connections.remove(&connection.pod);
                state.noticed_ends.remove(&connection.pod);
                is_changed = true;
            } else if is_ready && !is_busy && !is_waiting && now > last_contact + SILENCE {
                let status = format!("it has not contacted the server for {} s", SILENCE.as_secs());
                state.note_end(&connection, WorkerEnd { status, output: String::new() });
                connection.state.lock().is_condemned = true;
                is_changed = true;
            }
        }
        state
            .noticed_ends
            .retain(|name, _| state.connections.contains_key(name) || pods.iter().any(|pod| pod.name == *name));
        if state.leases == 0 {
            state.failed_starts.clear();
        }
        let excess = state.failed_starts.len().saturating_sub(MAX_FAILED_STARTS);
        state.failed_starts.drain(..excess);
        drop(guard);
        if is_changed {
            self.notify();
        }
    }

    /// Kills pods whose process is of no use, which the cluster replaces.
    async fn kill_condemned(&self) {
        let connections: Vec<Arc<Connection>> = self.state.lock().connections.values().cloned().collect();
        for connection in connections {
            {
                let state = connection.state.lock();
                if !state.is_condemned || state.is_killed {
                    continue;
                }
            }
            match self.engine.kill(&connection.pod).await {
                Ok(()) => {
                    connection.state.lock().is_killed = true;
                    connection.end("its pod was removed", "");
                }
                Err(error) => {
                    tracing::warn!(version = self.spec.title, kubernetes.pod = connection.pod, %error, "a pod cannot be removed");
                }
            }
        }
    }
}

impl Applied {
    /// Time to change the number of pods to `wanted`; `None` if it has not changed.
    fn due(&mut self, wanted: usize) -> Option<Instant> {
        let now = Instant::now();
        let due = match wanted.cmp(&self.pods) {
            std::cmp::Ordering::Equal => {
                (self.lower_since, self.retry) = (None, None);
                return None;
            }
            std::cmp::Ordering::Greater => {
                self.lower_since = None;
                now
            }
            std::cmp::Ordering::Less => *self.lower_since.get_or_insert(now) + LINGER,
        };
        Some(due.max(self.retry.unwrap_or(now)))
    }
}

impl GroupState {
    /// Applies the state of `pod` in the cluster. Returns whether a worker has ended.
    fn observe(&mut self, pod: &WorkerPod) -> bool {
        let is_told = |end: &mut UnexplainedEnd| {
            end.connection.pod == pod.name && pod.ends >= end.connection.start && pod.last_end.is_some()
        };
        let told: Vec<UnexplainedEnd> = self.unexplained.extract_if(.., is_told).collect();
        let is_explained = !told.is_empty();
        for end in told {
            self.explain(&end, pod.last_end.clone().unwrap_or_default());
        }
        self.observe_end(pod) || is_explained
    }

    fn observe_end(&mut self, pod: &WorkerPod) -> bool {
        let noticed = self.noticed_ends.entry(pod.name.clone()).or_default();
        let connection = self.connections.get(&pod.name).cloned();
        if pod.ends > *noticed {
            *noticed = pod.ends;
            let end = pod.last_end.clone().unwrap_or_default();
            match connection {
                Some(connection) if connection.start <= pod.ends => self.note_end(&connection, end),
                // The next process has already contacted this server.
                Some(_) => return false,
                None => self.failed_starts.push_back(FailedStart::Ended(end)),
            }
            return true;
        }
        match connection {
            Some(connection) if pod.is_leaving && connection.ended().is_none() => {
                let status = "its pod was removed from its node".to_owned();
                {
                    let mut state = connection.state.lock();
                    (state.is_condemned, state.is_killed) = (true, true);
                }
                // A replacement follows: no start fails.
                connection.end(&status, &pod.last_end.clone().unwrap_or_default().output);
                true
            }
            _ => false,
        }
    }

    /// Ends a connection whose reason the cluster is about to tell.
    pub(super) fn note_unexplained(&mut self, connection: Arc<Connection>) {
        if connection.ended().is_none() {
            let was_loading = connection.state.lock().phase == Phase::Loading;
            connection.end("", "");
            self.unexplained.push(UnexplainedEnd { connection, was_loading, since: Instant::now() });
        }
    }

    /// Gives up waiting for reasons. Returns whether there were some.
    fn explain_late(&mut self, now: Instant) -> bool {
        let late: Vec<UnexplainedEnd> = self.unexplained.extract_if(.., |end| now >= end.since + EXPLAINED).collect();
        for end in &late {
            let status = "its container was restarted".to_owned();
            self.explain(end, WorkerEnd { status, output: String::new() });
        }
        !late.is_empty()
    }

    fn explain(&mut self, unexplained: &UnexplainedEnd, end: WorkerEnd) {
        unexplained.connection.explain(&end.status, &end.output);
        if unexplained.was_loading {
            self.failed_starts.push_back(FailedStart::Ended(end));
        }
    }

    /// Ends a connection. The end of a process that was loading fails a start.
    pub(super) fn note_end(&mut self, connection: &Connection, end: WorkerEnd) {
        let is_loading = connection.state.lock().phase == Phase::Loading;
        connection.end(&end.status, &end.output);
        if is_loading {
            self.failed_starts.push_back(FailedStart::Ended(end));
        }
    }
}
