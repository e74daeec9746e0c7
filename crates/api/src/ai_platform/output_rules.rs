//! Rules for arguments that name an output folder or file of a program.

use super::violations::Violations;
use super::{ReplicaConfig, TrainingInput};

/// Placeholder for the trial's number in arguments.
const PLACEHOLDER: &str = "{trial}";

/// Last words of flags whose value is a path.
const PATH_WORDS: [&str; 7] = ["dir", "directory", "folder", "path", "file", "root", "prefix"];

/// First words of flags whose path is written to.
const OUTPUT_WORDS: [&str; 6] = ["output", "out", "save", "checkpoint", "checkpoints", "ckpt"];

/// Warns about arguments of `input` that name the same output for every trial, and about a `tunesmith.jobDirFlag` equal
/// to the name of a parameter.
pub(super) fn check_outputs(input: &TrainingInput, violations: &mut Violations) {
    let Some(hyperparameters) = &input.hyperparameters else { return };
    let flag = input.tunesmith.job_dir_flag.as_deref();
    if let Some(flag) = flag
        && hyperparameters.params.iter().any(|parameter| parameter.parameter_name == flag)
    {
        violations.error("tunesmith.jobDirFlag", format_args!("{flag:?} is also a parameter"), "another name");
    }
    if hyperparameters.max_trials.is_none_or(|trials| trials <= 1) {
        return;
    }
    check_arguments("args", &input.args, flag, violations);
    for (name, config) in [
        ("masterConfig", &input.master_config),
        ("workerConfig", &input.worker_config),
        ("parameterServerConfig", &input.parameter_server_config),
        ("evaluatorConfig", &input.evaluator_config),
    ] {
        let Some(ReplicaConfig { container_command, container_args, .. }) = config else { continue };
        check_arguments(&format!("{name}.containerCommand"), container_command, flag, violations);
        check_arguments(&format!("{name}.containerArgs"), container_args, flag, violations);
    }
}

/// Warns about `arguments` that name the same output for every trial, except the flag `job_dir_flag`, which is repeated
/// after them.
pub(super) fn check_arguments(
    field: &str,
    arguments: &[String],
    job_dir_flag: Option<&str>,
    violations: &mut Violations,
) {
    for (index, argument) in arguments.iter().enumerate() {
        let Some((name, value)) = flag(argument, arguments.get(index + 1)) else { continue };
        if job_dir_flag == Some(name) || !is_output(name) || !is_path(value) {
            continue;
        }
        violations.warning(
            format_args!("{field}[{index}]"),
            format_args!("--{name} is {value:?} in every trial, so that trials overwrite each other's files"),
            format_args!(
                "recommended: a path with {PLACEHOLDER}, such as {}/{PLACEHOLDER}, or tunesmith.jobDirFlag: {name}",
                value.trim_end_matches('/')
            ),
        );
    }
}

/// Name and value of the flag `argument`, whose value may be the `next` argument.
fn flag<'a>(argument: &'a str, next: Option<&'a String>) -> Option<(&'a str, &'a str)> {
    let text = argument.strip_prefix("--")?;
    match text.split_once('=') {
        Some(pair) => Some(pair),
        None => Some((text, next.filter(|next| !next.starts_with('-'))?)),
    }
}

fn is_output(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let words: Vec<&str> = name.split('-').collect();
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return false };
    let is_path = words.len() == 1 || PATH_WORDS.contains(last);
    let is_log_folder = first.starts_with("log") && (name.ends_with("dir") || *last == "directory");
    let is_fused = ["outdir", "outputdir", "savedir", "modeldir"].contains(&name.as_str());
    (OUTPUT_WORDS.contains(first) && is_path) || is_log_folder || is_fused || name == "model-dir"
}

/// Whether `value` may be a path common to all trials.
fn is_path(value: &str) -> bool {
    let is_setting =
        value.parse::<f64>().is_ok() || ["true", "false", "none", "null"].contains(&&*value.to_lowercase());
    let is_constant = !value.contains(PLACEHOLDER) && !value.contains('$');
    !value.is_empty() && !is_setting && is_constant && !value.starts_with("/dev/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(arguments: &[&str]) -> Vec<String> {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut violations = Violations::default();
        check_arguments("args", &arguments, Some("save-dir"), &mut violations);
        violations
            .into_vec()
            .into_iter()
            .map(|one| format!("{}: {}; {}", one.field, one.message, one.allowed))
            .collect()
    }

    #[test]
    fn constant_output_paths_are_named() {
        assert_eq!(
            warned(&["--epochs", "3", "--output-dir", "out/"]),
            [
                "args[2]: --output-dir is \"out/\" in every trial, so that trials overwrite each other's files; recommended: a \
                 path with {trial}, such as out/{trial}, or tunesmith.jobDirFlag: output-dir"
            ]
        );
        for argument in [
            "--output=x",
            "--output_dir=x",
            "--checkpoint=best.pkl",
            "--checkpoint-path=a/b",
            "--save-path=x",
            "--log-dir=x",
            "--logdir=x",
            "--logging_dir=x",
            "--model-dir=x",
            "--model_dir=x",
            "--out=x",
            "--output-file=x.csv",
        ] {
            assert_eq!(warned(&[argument]).len(), 1, "{argument}");
        }
        for argument in [
            "--output-dir=out/{trial}",
            "--save-dir=x",
            "--output-size=64",
            "--output-activation=relu",
            "--save-every=10",
            "--save=true",
            "--checkpoint-every=5",
            "--log-level=info",
            "--model=x",
            "--data-dir=x",
            "--model-path=x.pt",
            "--out=$OUT",
            "--output=/dev/null",
            "--output=",
            "-o=x",
            "output=x",
        ] {
            assert_eq!(warned(&[argument]), [""; 0], "{argument}");
        }
        assert_eq!(warned(&["--output-dir", "--epochs"]), [""; 0]);
    }
}
