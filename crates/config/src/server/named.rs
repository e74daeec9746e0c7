use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::executor::{EXECUTORS, ExecutorConfig, NamedExecutor};
use super::file::ExecutorFile;
use super::rules::Rules;

/// Maximum length of a name, which is also a folder name, in characters.
const MAX_NAME: usize = 40;

impl Rules<'_> {
    /// Adds the executors of a file to `config`, which has the settings by kind. Reports and omits invalid ones.
    ///
    /// An entry named after a kind has the settings of that kind.
    pub(super) fn add_named(&mut self, files: BTreeMap<String, ExecutorFile>, config: &mut ExecutorConfig) {
        for (name, file) in files {
            let field = format!("executors.{name}");
            if !is_name(&name) {
                let allowed =
                    format!("at most {MAX_NAME} lower case letters, digits and hyphens, the first one a letter");
                self.report(&field, format!("{name:?} is not a name"), allowed);
                continue;
            }
            if !EXECUTORS.contains(&file.kind.as_str()) {
                self.unknown(&format!("{field}.kind"), &file.kind, "a kind of executor", &EXECUTORS);
                continue;
            }
            let sections = [
                ("slurm", file.slurm.is_some()),
                ("ray", file.ray.is_some()),
                ("kubernetes", file.kubernetes.is_some()),
            ];
            for (section, _) in sections.into_iter().filter(|(section, is_given)| *is_given && *section != file.kind) {
                let text = format!("has no effect on an executor of the kind {}", file.kind);
                self.report(&format!("{field}.{section}"), text, format!("only with the kind {section}"));
            }
            config
                .max_running_trials
                .extend(file.max_running_trials.and_then(NonZeroU32::new).map(|most| (name.clone(), most)));
            if EXECUTORS.contains(&name.as_str()) {
                self.add_kind(&field, &name, file, config);
                continue;
            }
            let executor = NamedExecutor {
                kind: file.kind,
                slurm: file.slurm.unwrap_or_default(),
                ray: file.ray.unwrap_or_default(),
                kubernetes: file.kubernetes.unwrap_or_default(),
            };
            config.named.insert(name, executor);
        }
    }

    /// Adds the entry of the kind `name`.
    fn add_kind(&mut self, field: &str, name: &str, file: ExecutorFile, config: &mut ExecutorConfig) {
        if name != file.kind {
            let text = format!("is {}, and the name of the executor is that of another kind", file.kind);
            self.report(&format!("{field}.kind"), text, format!("{name}, or another name for the executor"));
            return;
        }
        let mut is_double = false;
        replace(&mut config.slurm, file.slurm, &mut is_double);
        replace(&mut config.ray, file.ray, &mut is_double);
        replace(&mut config.kubernetes, file.kubernetes, &mut is_double);
        if is_double {
            let text = format!("is given together with {name} at the top of the file");
            self.report(&format!("{field}.{name}"), text, "one of the two");
        }
    }
}

/// Sets `known` to `given`, and `is_double` if it was already set.
fn replace<T: Default + PartialEq>(known: &mut T, given: Option<T>, is_double: &mut bool) {
    if let Some(given) = given {
        *is_double |= *known != T::default();
        *known = given;
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.len() <= MAX_NAME
        && name.chars().all(is_allowed)
}
