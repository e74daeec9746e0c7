//! Help of `run` and `serve`: grouped flags, with rarely needed ones only in `--help-all`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory};

use super::Cli;

const HELP_ALL: &str = "--help-all";

/// Headings with their flags.
type Groups = &'static [(&'static str, &'static [&'static str])];

/// Commands with a short and a complete help.
const COMMANDS: [(&str, Groups); 2] = [("run", RUN), ("serve", SERVE)];

/// Groups of `run`'s short help.
const RUN: Groups = &[
    ("Trainer", &["config", "package_path", "module_name", "job_dir", "parallel", "seed"]),
    ("Job", &["job_id", "retry", "trials", "data_dir", "executor", "server_config"]),
    ("Output", &["output", "export", "mlflow", "mlflow_experiment", "tensorboard", "follow", "wide", "columns"]),
];

/// Groups of `serve`'s short help.
const SERVE: Groups = &[
    ("Address", &["listen", "tls_certificate", "tls_key", "tls_self_signed", "public_url", "allowed_host"]),
    ("Data", &["data_dir", "store", "retention"]),
    (
        "Jobs",
        &["job_slots", "executor", "server_config", "run_as", "allow_unisolated_programs", "drain", "stop_trials"],
    ),
];

/// Groups of the complete help, by flag prefix. The first match wins.
const ALL: [(&str, &[&str]); 10] = [
    ("Slurm", &["slurm_"]),
    ("Ray", &["ray_"]),
    ("Kubernetes", &["kubernetes_"]),
    ("Optuna and Vertex AI", &["grpc_", "optuna_", "vertex_"]),
    ("Prediction", &["prediction_"]),
    ("Store", &["store", "job_lease", "resume_copied"]),
    ("Programs", &["options", "run_options", "pass_environment", "log_quota", "allow"]),
    ("Limits", &["remote_job_slots", "request_", "concurrent_suggestions", "memory", "connections", "idle_timeout"]),
    ("Logs and audit", &["job_log_quota", "project_log_quota", "log_retention", "data_access_log", "on_audit_failure"]),
    ("AI Platform: flags of gcloud ai-platform jobs submit training", &[""]),
];

/// The command line and the arguments to parse. `--help-all` becomes the help of a command without hidden flags.
pub(super) fn command_and_arguments(arguments: impl Iterator<Item = OsString>) -> (Command, Vec<OsString>) {
    let mut arguments: Vec<OsString> = arguments.collect();
    // Words after `--` belong to the trainer.
    let own = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let is_command = arguments.iter().skip(1).any(|argument| COMMANDS.iter().any(|(name, _)| argument == name));
    let asked = arguments[..own].iter().position(|argument| argument == HELP_ALL).filter(|_| is_command);
    if let Some(at) = asked {
        arguments[at] = "--help".into();
    }
    (command(asked.is_some()), arguments)
}

/// The command line; rarely needed flags are hidden unless `all` is set.
pub(super) fn command(all: bool) -> Command {
    COMMANDS.into_iter().fold(Cli::command(), |command, (name, groups)| {
        command.mut_subcommand(name, |command| {
            let command = command.mut_args(|arg| grouped(arg, groups, all)).disable_help_flag(true);
            // Both help flags print the compact form.
            let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort);
            command
                .arg(help.help("Print the usual flags"))
                .arg(Arg::new("help_all").long("help-all").action(ArgAction::SetTrue).help("Print all flags"))
                .after_help(match all {
                    true => String::new(),
                    false => format!(
                        "More flags, for stores, containers, Slurm, Ray, Kubernetes: tunesmith {name} {HELP_ALL}"
                    ),
                })
        })
    })
}

fn grouped(arg: Arg, groups: Groups, all: bool) -> Arg {
    if arg.is_positional() || arg.is_global_set() {
        return arg;
    }
    let id = arg.get_id().as_str().to_owned();
    if let Some((heading, _)) = groups.iter().find(|(_, names)| names.contains(&id.as_str())) {
        return arg.help_heading(*heading);
    }
    let group = ALL.iter().find(|(_, starts)| starts.iter().any(|start| id.starts_with(start)));
    let arg = arg.hide(!all);
    match group {
        Some((heading, _)) => arg.help_heading(*heading),
        None => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(arguments: &[&str]) -> String {
        let arguments = ["tunesmith"].iter().chain(arguments).map(OsString::from);
        let (command, arguments) = command_and_arguments(arguments);
        command.term_width(80).try_get_matches_from(arguments).unwrap_err().to_string()
    }

    #[test]
    fn help_fits_three_screens_and_the_complete_one_has_all_flags() {
        for (name, groups) in COMMANDS {
            let short = help(&[name, "--help"]);
            let lines = short.lines().count();
            assert!(lines <= 72, "{name} has {lines} lines\n{short}");
            assert_eq!(short, help(&[name, "-h"]));
            for flag in groups.iter().flat_map(|(_, names)| *names) {
                assert!(short.contains(&format!("--{}", flag.replace('_', "-"))), "{flag}\n{short}");
            }
            for flag in ["--slurm-qos", "--ray-address", "--kubernetes-image", "--pass-environment"] {
                assert!(!short.contains(flag), "{flag}\n{short}");
                assert!(help(&[name, HELP_ALL]).contains(flag), "{flag}");
            }
        }
        assert!(help(&["run", HELP_ALL]).contains("--scale-tier"));
        // A new flag that matches a prefix by accident would start a group.
        assert!(!help(&["serve", HELP_ALL]).contains("AI Platform: flags"));
    }
}
