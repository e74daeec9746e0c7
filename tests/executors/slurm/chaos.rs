//! Breaks a cluster, its jobs, their supervisors and the server at random while trials run, each with a checkpoint.
//!
//! `TUNESMITH_SLURM_EVENTS` sets the number of events, 40 by default, with two trials for each. If it is set, the
//! places must be busy for 90% of the time, otherwise for 75%: other tests run beside this one then.

#![expect(clippy::print_stdout, reason = "the campaign prints its figures")]
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use tunesmith_testing::slurm::{Cluster, Shape};
use tunesmith_testing::{Workspace, processes_with};

/// Steps of a trial, each of about a second and with a checkpoint. Slurm takes up to a second to give a free place to the next
/// job, which is a small part of a trial.
const STEPS: u64 = 14;

/// Processors of the two nodes, and the number of trials that the server submits at once: some always wait in Slurm.
const SLOTS: usize = 24;
const PARALLEL: usize = 40;

/// The states of nodes that jobs are given.
const USABLE: [&str; 4] = ["idle", "mixed", "allocated", "completing"];

/// Time between two events, at most.
const LONGEST_PAUSE_MS: u64 = 1_600;

/// Goes on from its checkpoint, and records every step in the job's folder. A file `hang` with the ID of its job makes it
/// sleep for longer than Slurm needs to enforce a time limit, and it does not end while there is a file `hold`.
const TRAINER: &str = r#"
for argument in "$@"; do case $argument in --job-dir=*) folder=${argument#--job-dir=};; esac; done
note() { echo "$TUNESMITH_ATTEMPT_TOKEN $*" >> "$folder/log"; }
step=$(cat "$folder/checkpoint" 2>/dev/null || echo 0)
note start "$step"
while [ "$step" -lt 14 ]; do
    sleep 1
    if [ "$(cat "$folder/hang" 2>/dev/null)" = "$SLURM_JOB_ID" ]; then rm "$folder/hang"; sleep 60; fi
    step=$((step + 1))
    echo "$step" > "$folder/checkpoint.new"
    mv "$folder/checkpoint.new" "$folder/checkpoint"
    note step "$step"
done
while [ -e "$folder/hold" ]; do sleep 1; done
note done
echo "score=$step step=$step"
"#;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Requeue,
    Notice,
    Preemption,
    TimeLimit,
    NodeKilledShortly,
    NodeLost,
    ControllerRestarted,
    ControllerKilled,
    ServerKilled,
    SupervisorKilled,
}

/// The events with their weights.
const EVENTS: [(Event, u32); 10] = [
    (Event::Requeue, 24),
    (Event::Notice, 12),
    (Event::Preemption, 6),
    (Event::TimeLimit, 10),
    (Event::NodeKilledShortly, 6),
    (Event::NodeLost, 4),
    (Event::ControllerRestarted, 6),
    (Event::ControllerKilled, 2),
    (Event::ServerKilled, 12),
    (Event::SupervisorKilled, 18),
];

struct Chaos {
    cluster: Cluster,
    workspace: Workspace,
    trials: usize,
    server: Child,
    random: StdRng,
    counts: BTreeMap<Event, u32>,
    /// The node that is down, and since when.
    down: Option<(&'static str, Instant, bool)>,
    /// When the controller is started again.
    controller_back: Option<Instant>,
    busy: u64,
    capacity: u64,
    /// The states of the nodes whenever more than two processors were idle.
    idle: Vec<String>,
}

#[test]
fn trials_survive_what_happens_on_a_cluster() {
    let stated = std::env::var("TUNESMITH_SLURM_EVENTS").ok();
    let events: u32 = stated.as_ref().map_or(40, |text| text.parse().unwrap());
    let trials = usize::try_from(events.max(40)).unwrap() * 2;
    let cluster = Cluster::start(&Shape {
        cpus: u32::try_from(SLOTS / 2).unwrap(),
        slurmd_timeout: 6,
        lines: "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\nPriorityType=priority/basic\n\
                PartitionName=urgent Nodes=n1,n2 PriorityTier=10 MaxTime=INFINITE DefMemPerCPU=1 PreemptMode=OFF"
            .to_owned(),
    });
    let workspace = Workspace::new(&format!(
        "
jobDir: jobs
hyperparameters:
  goal: MAXIMIZE
  hyperparameterMetricTag: score
  maxTrials: {trials}
  maxParallelTrials: {PARALLEL}
  algorithm: RANDOM_SEARCH
  params: [{{parameterName: x, type: DOUBLE, minValue: 0, maxValue: 1}}]
tunesmith: {{metricFromStdout: true, maxLostAttempts: 1000, seed: 1}}
"
    ));
    workspace.write("train.sh", TRAINER);
    let server = serve(&workspace, &cluster);
    let random = StdRng::seed_from_u64(15);
    let mut chaos = Chaos {
        cluster,
        workspace,
        trials,
        server,
        random,
        counts: BTreeMap::new(),
        down: None,
        controller_back: None,
        busy: 0,
        capacity: 0,
        idle: Vec::new(),
    };
    let begin = Instant::now();
    chaos.run(events);
    let share = chaos.check(begin.elapsed());
    let least = if stated.is_some() { 0.9 } else { 0.75 };
    assert!(share >= least, "slots were busy {:.1}% of the time:\n{}", share * 100.0, chaos.idle.join("\n"));
}

/// Starts the command, which resumes its job.
fn serve(workspace: &Workspace, cluster: &Cluster) -> Child {
    workspace.write("server.yaml", "slurm: {submitRate: 100, pollInterval: 0.5s, fileDelay: 1s, lease: 6s}\n");
    let arguments =
        ["--job-id", "chaos", "--executor", "slurm", "--server-config", "server.yaml", "--", "sh", "train.sh"];
    let log = std::fs::File::options().create(true).append(true).open(workspace.path().join("run.log")).unwrap();
    let mut command = workspace.run_command(arguments);
    command.env("SLURM_CONF", cluster.configuration()).stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap()
}

impl Chaos {
    /// Breaks things until all events have happened and the job has ended, for which its last trial waits.
    fn run(&mut self, events: u32) {
        let hold = self.job_dir(self.trials as u64).join("hold");
        std::fs::create_dir_all(hold.parent().unwrap()).unwrap();
        std::fs::write(&hold, "").unwrap();
        let mut next = Instant::now() + Duration::from_secs(3);
        let mut done = 0;
        loop {
            self.repair();
            let unfinished = self.trials - self.finished();
            if unfinished > SLOTS {
                self.sample();
            }
            if let Some(status) = self.server.try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", self.workspace.read("run.log"));
                assert_eq!(done, events, "events before the end of the job");
                return;
            }
            if done < events && Instant::now() >= next {
                let event = self.draw();
                if self.cause(event) {
                    *self.counts.entry(event).or_default() += 1;
                    done += 1;
                    if done == events {
                        std::fs::remove_file(&hold).unwrap();
                    }
                    next = Instant::now() + Duration::from_millis(self.random.random_range(0..LONGEST_PAUSE_MS));
                }
            }
            std::thread::sleep(Duration::from_millis(150));
        }
    }

    fn draw(&mut self) -> Event {
        let total: u32 = EVENTS.iter().map(|(_, weight)| weight).sum();
        let mut drawn = self.random.random_range(0..total);
        for (event, weight) in EVENTS {
            if drawn < weight {
                return event;
            }
            drawn -= weight;
        }
        Event::Requeue
    }

    /// Returns whether the event happened: some need a job that runs, or a controller.
    fn cause(&mut self, event: Event) -> bool {
        let cluster = &self.cluster;
        match event {
            Event::Requeue => self.running().is_some_and(|(job, _)| self.cluster.requeue(&job)),
            Event::Notice => self.running().is_some_and(|(job, _)| {
                self.cluster.output("scancel", &["--signal=TERM", "--batch", &job]).status.success()
            }),
            Event::Preemption => {
                let arguments = ["--partition=urgent", "--cpus-per-task=2", "--mem=10", "--output=/dev/null"];
                let arguments = [&arguments[..], &["--job-name=urgent", "--wrap=sleep 2"]].concat();
                cluster.output("sbatch", &arguments).status.success()
            }
            Event::TimeLimit => self.running().is_some_and(|(job, trial)| {
                let limit = ["update", &format!("JobId={job}"), "EndTime=now+1"];
                let is_limited = self.cluster.output("scontrol", &limit).status.success();
                if is_limited {
                    std::fs::write(self.job_dir(trial).join("hang"), &job).unwrap();
                }
                is_limited
            }),
            Event::NodeKilledShortly | Event::NodeLost => {
                if self.down.is_some() || self.controller_back.is_some() {
                    return false;
                }
                let node = if self.random.random() { "n1" } else { "n2" };
                self.cluster.kill_node(node);
                self.down = Some((node, Instant::now(), event == Event::NodeLost));
                true
            }
            Event::ControllerRestarted | Event::ControllerKilled => {
                if self.controller_back.is_some() || self.down.is_some() {
                    return false;
                }
                let signal = if event == Event::ControllerKilled { Signal::KILL } else { Signal::TERM };
                cluster.stop_controller(signal);
                self.controller_back = Some(Instant::now() + Duration::from_secs(1));
                true
            }
            Event::ServerKilled => {
                self.server.kill().unwrap();
                self.server.wait().unwrap();
                self.server = serve(&self.workspace, &self.cluster);
                true
            }
            Event::SupervisorKilled => {
                let supervisors = self.supervisors();
                if supervisors.is_empty() {
                    return false;
                }
                let (pid, _) = supervisors[self.random.random_range(0..supervisors.len())];
                // It may have ended meanwhile.
                kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).is_ok()
            }
        }
    }

    /// Starts what is down again in time, and what Slurm took out of service.
    fn repair(&mut self) {
        if self.controller_back.is_some_and(|at| Instant::now() >= at) {
            self.cluster.start_controller();
            self.controller_back = None;
        }
        if let Some((node, since, is_lost)) = self.down {
            let is_due = if is_lost { self.cluster.node_state(node).starts_with("down") } else { true };
            if is_due && since.elapsed() > Duration::from_secs(1) {
                self.cluster.start_node(node);
                self.down = None;
            }
        } else if self.controller_back.is_none() {
            for node in ["n1", "n2"] {
                // The controller drains a node that runs a job which it does not know.
                let state = self.cluster.node_state(node);
                if state.starts_with("drain") || state.starts_with("down") {
                    self.cluster.output("scontrol", &["update", &format!("NodeName={node}"), "State=RESUME"]);
                }
            }
        }
    }

    /// Adds the processors that jobs have, of those on nodes that are up and answer: no other node starts a program. Slurm marks
    /// them by an asterisk, those that were just killed only after a while.
    fn sample(&mut self) {
        let output = self.cluster.output("sinfo", &["--noheader", "--Node", "--partition=main", "--format=%N|%T|%C"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (mut busy, mut capacity) = (0, 0);
        for line in text.lines() {
            let fields: Vec<&str> = line.trim().split('|').collect();
            let [node, state, counts] = fields[..] else { continue };
            if self.down.is_some_and(|(down, ..)| down == node) {
                continue;
            }
            let counts: Vec<u64> = counts.split('/').filter_map(|count| count.parse().ok()).collect();
            if let (true, [allocated, .., total]) = (USABLE.contains(&state), &counts[..]) {
                busy += allocated;
                capacity += total;
            }
        }
        if busy + 2 < capacity {
            self.idle.push(text.replace('\n', " "));
        }
        self.busy += busy;
        self.capacity += capacity;
    }

    /// A job of ours that runs, at random, and its trial.
    fn running(&mut self) -> Option<(String, u64)> {
        let rows = self.cluster.jobs("%i %T %j");
        let running: Vec<(String, u64)> = rows
            .iter()
            .filter_map(|row| {
                let mut fields = row.split(' ');
                let (job, state, name) = (fields.next()?, fields.next()?, fields.next()?);
                let trial = name.split("-trial-").nth(1)?.split('-').next()?.parse().ok()?;
                (state == "RUNNING").then(|| (job.to_owned(), trial))
            })
            .collect();
        if running.is_empty() {
            return None;
        }
        Some(running[self.random.random_range(0..running.len())].clone())
    }

    fn job_dir(&self, trial: u64) -> PathBuf {
        self.workspace.path().join("jobs").join(trial.to_string())
    }

    fn supervisors(&self) -> Vec<(u32, String)> {
        let folder = self.workspace.path().display().to_string();
        processes_with(&folder).into_iter().filter(|(_, line)| line.contains("__supervise-shared")).collect()
    }

    /// The number of trials whose program has come to its last line.
    fn finished(&self) -> usize {
        let logs = (1..=self.trials as u64).map(|trial| self.job_dir(trial).join("checkpoint"));
        logs.filter(|path| std::fs::read_to_string(path).is_ok_and(|text| text.trim() == STEPS.to_string())).count()
    }

    /// Checks that nothing was lost or done twice. Returns the share of the places that were busy while trials waited.
    fn check(&self, elapsed: Duration) -> f64 {
        let trials = self.workspace.trials();
        let ids: HashSet<&str> = trials.iter().map(|trial| trial["trial_id"].as_str()).collect();
        assert_eq!((trials.len(), ids.len()), (self.trials, self.trials), "every trial ended once");
        for trial in &trials {
            assert_eq!(trial["state"], "SUCCEEDED", "no trial failed: {trial:?}");
            assert_eq!(trial["objective_value"].parse::<f64>().unwrap(), STEPS as f64);
        }
        let mut starts = 0;
        for trial in 1..=self.trials as u64 {
            starts += check_steps(&self.job_dir(trial).join("log"));
        }
        let marker = self.workspace.path().display().to_string();
        // Slurm may go on completing a job whose node was killed; its processes are looked for, too. Those of the last jobs
        // are still ending when Slurm reports the end.
        let begin = Instant::now();
        loop {
            let rows = self.cluster.jobs("%j %T %r");
            let is_open =
                |row: &&String| row.starts_with("ts-") && (row.contains(" PENDING ") || row.contains(" RUNNING "));
            let open: Vec<&String> = rows.iter().filter(is_open).collect();
            let processes = processes_with(&marker);
            if open.is_empty() && processes.is_empty() {
                break;
            }
            let limit = Duration::from_secs(90);
            assert!(begin.elapsed() < limit, "jobs {open:?} and processes {processes:?} are left");
            std::thread::sleep(Duration::from_millis(500));
        }
        let share = self.busy as f64 / self.capacity as f64;
        let text: Vec<String> = self.counts.iter().map(|(event, count)| format!("{count} {event:?}")).collect();
        println!(
            "figures: {} trials, {starts} starts of programs, {} events ({}), slots busy {:.1}% while work waited, {} s",
            self.trials,
            self.counts.values().sum::<u32>(),
            text.join(", "),
            share * 100.0,
            elapsed.as_secs()
        );
        share
    }
}

/// Checks that each start of a program goes on from the last checkpoint, and that no two programs wrote at once. Returns the
/// number of starts.
fn check_steps(log: &Path) -> usize {
    let text = std::fs::read_to_string(log).unwrap();
    let mut last = 0;
    let mut starts = 0;
    let mut attempts: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = || words[2].parse::<u64>().unwrap();
        match words[1] {
            "start" => {
                assert!(!attempts.contains(&words[0]), "an attempt started twice:\n{text}");
                attempts.push(words[0]);
                starts += 1;
                // A program may be killed between its checkpoint and the line about it.
                assert!(number() == last || number() == last + 1, "steps were lost:\n{text}");
                last = number();
            }
            "step" => {
                assert_eq!(attempts.last(), Some(&words[0]), "an earlier attempt still ran:\n{text}");
                assert_eq!(number(), last + 1, "{text}");
                last = number();
            }
            "done" => assert_eq!(last, STEPS, "{text}"),
            other => panic!("{other}"),
        }
    }
    assert_eq!(last, STEPS, "{text}");
    starts
}
