//! Runs the code blocks of the README and of the guide, page by page, each in an empty folder.
//!
//! `CONTRIBUTING.md` describes the marks of the blocks.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use tunesmith_testing::documents::assert_current;
use tunesmith_testing::python::{
    FRAMEWORKS, MCP_CLIENT, MODEL_PACKAGES, REPORTERS, STANDARD_WEBHOOKS, TRACKERS, VIZIER_CLIENTS, interpreter,
    lay_package,
};
use tunesmith_testing::server::Server;
use tunesmith_testing::slurm::{Cluster, Shape};
use tunesmith_testing::{Finished, Workspace, finished};

use super::{files, read, root};

/// The address that pages show for a server.
const SHOWN_ADDRESS: &str = "127.0.0.1:8080";
/// Environment of a block, kept for the next one.
const STATE: &str = ".shell_state";

/// Makes one test of each page, with the number of its blocks marked `no-run` and the Python packages it needs.
macro_rules! pages {
    ($($name:ident: $path:literal, $no_run:literal, $requirements:expr;)+) => {
        const PAGES: &[&str] = &[$($path),+];
        $(
            #[test]
            fn $name() {
                run($path, $no_run, $requirements);
            }
        )+
    };
}

pages! {
    readme: "README.md", 2, &[];
    agents: "docs/guide/agents.md", 0, &MCP_CLIENT;
    benchmark_your_optimizer: "docs/guide/benchmark-your-optimizer.md", 1, &[];
    built_in_algorithms: "docs/guide/built-in-algorithms.md", 0, &[];
    conditional_spaces: "docs/guide/conditional-spaces.md", 0, &[];
    console: "docs/guide/console.md", 3, &[];
    early_stopping: "docs/guide/early-stopping.md", 0, &[];
    filters: "docs/reference/filters.md", 0, &[];
    first_hour: "docs/guide/first-hour.md", 0, &[];
    first_tuning_job: "docs/guide/first-tuning-job.md", 2, &[];
    mlflow_and_tensorboard: "docs/guide/mlflow-and-tensorboard.md", 2, &TRACKERS;
    notifications: "docs/guide/notifications.md", 2, &STANDARD_WEBHOOKS;
    postgresql: "docs/guide/postgresql.md", 3, &[];
    prediction: "docs/guide/prediction.md", 3, &MODEL_PACKAGES;
    priors_and_warm_start: "docs/guide/priors-and-warm-start.md", 0, &[];
    python: "docs/guide/python.md", 1, &FRAMEWORKS;
    reading_explain: "docs/guide/reading-explain.md", 0, &[];
    security: "docs/guide/security.md", 2, &[];
    scikit_learn: "docs/guide/scikit-learn.md", 1, &FRAMEWORKS;
    several_metrics: "docs/guide/several-metrics.md", 0, &[];
    server_configuration: "docs/guide/server-configuration.md", 4, &[];
    server_for_a_team: "docs/guide/server-for-a-team.md", 9, &[];
    from_ai_platform: "docs/guide/from-ai-platform.md", 1, &[];
    from_oss_vizier: "docs/guide/from-oss-vizier.md", 0, &VIZIER_CLIENTS;
    from_vertex_ai: "docs/guide/from-vertex-ai.md", 1, &VIZIER_CLIENTS;
    slurm: "docs/guide/slurm.md", 1, &[];
    ray: "docs/guide/ray.md", 1, &[];
    // `clients/python/tests/ray_tune` and `clients/hydra/tests` run the examples of these.
    ray_tune: "docs/guide/ray-tune.md", 2, &[];
    hydra: "docs/guide/hydra.md", 3, &[];
    // `clients/python/tests/optuna_storage` runs the examples of this one.
    optuna_storage: "docs/guide/optuna-storage.md", 4, &[];
    kubernetes: "docs/guide/kubernetes.md", 4, &[];
    suggest_and_report: "docs/guide/suggest-and-report.md", 0, &["google-api-python-client==2.202.0"];
    optuna: "docs/guide/optuna.md", 5, &[];
    import: "docs/guide/import.md", 2, &[];
    isolation: "docs/guide/isolation.md", 1, &[];
    training_loops: "docs/guide/training-loops.md", 3, &FRAMEWORKS;
    troubleshooting: "docs/guide/troubleshooting.md", 0, &[];
    your_own_trainer: "docs/guide/your-own-trainer.md", 0, &REPORTERS;
}

#[test]
fn every_page_of_the_guide_is_run() {
    for page in files("docs/guide", "md") {
        assert!(PAGES.iter().any(|known| Path::new(known) == page), "{} is not in the list of pages", page.display());
    }
}

/// A fenced code block.
struct Block {
    /// Line of its first fence, from 1.
    line: usize,
    language: String,
    marks: Vec<String>,
    body: String,
}

impl Block {
    fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|found| found == mark)
    }

    /// The exit code of its commands.
    fn exit_code(&self) -> i32 {
        self.value("exit").map_or(0, |code| code.parse().unwrap())
    }

    /// The value of the mark `key=value`.
    fn value(&self, key: &str) -> Option<&str> {
        self.marks
            .iter()
            .find_map(|mark| mark.split_once('=').filter(|(found, _)| *found == key).map(|(_, value)| value))
    }
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is_open = false;
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            is_open = !is_open;
            if is_open {
                let mut words = info.split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                blocks.push(Block { line: index + 1, language, marks: words.collect(), body: String::new() });
            }
        } else if is_open && let Some(block) = blocks.last_mut() {
            let _ = writeln!(block.body, "{line}");
        }
    }
    assert!(!is_open, "the last code block has no end");
    blocks
}

/// Runs the blocks of the page `path` in order.
fn run(path: &str, no_run: usize, requirements: &[&str]) {
    let text = read(path);
    let mut session = Session::new(requirements);
    session.cluster = (path == "docs/guide/slurm.md").then(|| Cluster::start(&Shape::default()));
    let mut updated = text.clone();
    let mut skipped = 0;
    for block in blocks(&text) {
        let place = format!("{path}, line {}", block.line);
        if block.is("no-run") {
            skipped += 1;
        } else if let Some(name) = block.value("file") {
            let file = session.workspace.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, &block.body).unwrap();
        } else if block.is("serve") {
            session.serve(&block.body);
        } else if block.is("test") {
            let code = block.exit_code();
            let mut command = session.command(&block.language, &block.body);
            let done = finished(command.output().unwrap());
            assert_eq!(done.code, Some(code), "{place}\nstdout:\n{}\nstderr:\n{}", done.stdout, done.stderr);
        } else if block.language == "console" {
            let actual = session.console(&block, &place);
            if actual != block.body {
                updated = updated.replacen(&block.body, &actual, 1);
            }
        } else {
            assert!(matches!(&*block.language, "text" | "json"), "{place}: mark the block as test, file= or no-run");
        }
    }
    assert_eq!(skipped, no_run, "{path}: blocks marked no-run");
    assert_current(path, &updated);
}

/// One page being run.
struct Session {
    workspace: Workspace,
    server: Option<Server>,
    path: String,
    /// The Slurm cluster of the page.
    cluster: Option<Cluster>,
}

impl Session {
    fn new(requirements: &[&str]) -> Self {
        let workspace = Workspace::new("");
        for folder in ["benches", "clients", "examples"] {
            symlink(root().join(folder), workspace.path().join(folder)).unwrap();
        }
        let programs = workspace.path().join(".bin");
        std::fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_tunesmith"), programs.join("tunesmith")).unwrap();
        lay_package(&workspace.path().join(".python"));
        let mut path = vec![programs];
        if !requirements.is_empty() {
            path.push(interpreter(requirements).parent().unwrap().to_owned());
        }
        path.extend(std::env::split_paths(tunesmith_testing::environment::path()));
        let path = std::env::join_paths(path).unwrap().into_string().unwrap();
        Self { workspace, server: None, path, cluster: None }
    }

    /// Starts the server of a block `tunesmith serve ...` on a free port, with the workspace's data folder `data`.
    fn serve(&mut self, command: &str) {
        let mut words = command.split_whitespace().skip(2);
        let mut arguments = Vec::new();
        while let Some(word) = words.next() {
            match word {
                "--listen" | "--data-dir" => {
                    words.next();
                }
                word => arguments.push(word),
            }
        }
        assert!(self.server.is_none(), "a page has one server");
        self.server = Some(Server::start(&self.workspace, &arguments));
    }

    /// The command that runs `body`, not started yet.
    fn command(&self, language: &str, body: &str) -> Command {
        let body = match &self.server {
            Some(server) => body.replace(SHOWN_ADDRESS, &server.address.to_string()),
            None => body.to_owned(),
        };
        let mut command = match language {
            "python" => tunesmith_testing::program("python3"),
            _ => tunesmith_testing::program("bash"),
        };
        let script = match language {
            "python" => body,
            // What a block exports is there for the next one, as in one terminal.
            _ => format!("[ ! -f {STATE} ] || . ./{STATE}\nset -euo pipefail\ntrap 'export -p > {STATE}' EXIT\n{body}"),
        };
        command.arg("-c").arg(script).current_dir(self.workspace.path()).stdin(Stdio::null());
        for variable in ["TUNESMITH_SERVER", "TUNESMITH_ACCESS_TOKEN", "TUNESMITH_PROJECT", "TUNESMITH_LOG"] {
            command.env_remove(variable);
        }
        command.env("PATH", &self.path).env("PYTHONDONTWRITEBYTECODE", "1").env("COLUMNS", "100");
        command.envs(self.cluster.iter().map(|cluster| ("SLURM_CONF", cluster.configuration())));
        command.env("PYTHONPATH", self.workspace.path().join(".python"));
        command
    }

    /// Runs each command of a `console` block, and returns the block with the actual output where it differs from the
    /// expected one.
    fn console(&self, block: &Block, place: &str) -> String {
        let mut actual = String::new();
        let mut lines = block.body.lines().peekable();
        while let Some(line) = lines.next() {
            let command = line.strip_prefix("$ ").unwrap_or_else(|| panic!("{place}: {line:?} follows no command"));
            let mut expected = String::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
                let _ = writeln!(expected, "{line}");
            }
            let output = self.command("sh", &format!("{{ {command}\n}} 2>&1")).output().unwrap();
            let Finished { code, stdout, .. } = finished(output);
            assert_eq!(code, Some(block.exit_code()), "{place}: {command}\n{stdout}");
            let stdout: String = stdout.lines().map(|line| format!("{}\n", line.trim_end())).collect();
            let _ = writeln!(actual, "$ {command}");
            let is_expected = match block.is("numbers-vary") {
                true => matches(&without_numbers(&expected), &without_numbers(&stdout)),
                false => matches(&expected, &stdout),
            };
            actual.push_str(if is_expected { &expected } else { &stdout });
        }
        actual
    }
}

/// `text` with `0` for each number, and without the bars of plots and the spaces that align columns.
fn without_numbers(text: &str) -> String {
    let is_bar = |letter: char| ('▁'..='█').contains(&letter);
    let word = |word: &str| {
        let mut numbers = String::new();
        for letter in word.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }) {
            // `1e-5`, `0.25` and `7` are alike.
            let is_part = numbers.ends_with('0') && matches!(letter, '0' | '.' | 'e' | '-');
            if !is_part {
                numbers.push(letter);
            }
        }
        numbers
    };
    // A short duration is `< 0.1 s`.
    let line = |line: &str| {
        let line = line.replace(is_bar, " ");
        line.split_whitespace().filter(|word| *word != "<").map(word).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(|text| format!("{}\n", line(text))).collect()
}

/// Whether `actual` is `expected`, where a line `...` stands for any lines.
fn matches(expected: &str, actual: &str) -> bool {
    let mut parts = expected.split("...\n");
    let Some(mut rest) = parts.next().and_then(|first| actual.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, inner)) = parts.split_last() else { return rest.is_empty() };
    for part in inner {
        let Some(position) = rest.find(part) else { return false };
        rest = &rest[position + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn an_ellipsis_stands_for_any_lines() {
    assert!(matches("a\nb\n", "a\nb\n") && matches("a\n...\nd\n", "a\nb\nc\nd\n") && matches("...\n", "a\n"));
    let numbers = |text: &str| without_numbers(text);
    assert_eq!(numbers("x  0.25 1e-5 -7 ▁▂ ▇ 12% trial-3\n...\n"), "x 0 0 -0 0% trial-0\n...\n");
    assert_eq!(numbers("< 0.1 s"), numbers("12 s"));
    assert!(!matches("a\n", "a\nb\n") && !matches("a\n...\nd\n", "b\nd\n") && !matches("...\nd\n", "d\ne\n"));
}
