//! Keys and texts within MLflow's limits.

use std::collections::{BTreeMap, BTreeSet};

use tunesmith_api::ai_platform::optimizer::PublishedNames;
use tunesmith_domain::Study;

/// Maximum length of a key in characters.
const MAX_KEY: usize = 250;
/// Maximum length of a parameter in characters.
pub(super) const MAX_PARAMETER: usize = 6000;
/// Maximum length of a tag in characters. The server's limit is 8,000.
pub(super) const MAX_TAG: usize = 5000;
/// Text at the end of a text that was cut.
const CUT: &str = "... (cut)";

/// Keys of the parameters and metrics of a study. A name that MLflow refuses gets another key.
#[derive(Debug, Default)]
pub(super) struct Names {
    keys: BTreeMap<String, String>,
    used: BTreeSet<String>,
}

impl Names {
    /// Keys of the names in `study`, in their order.
    pub(super) fn of(study: Option<&Study>) -> Self {
        let mut names = Self::default();
        if let Some(study) = study {
            let space = study.problem.search_space();
            let published = PublishedNames::of(space);
            for parameter in space.parameters() {
                // Siblings share a name, of which a trial has one.
                let name = published.published(parameter.name());
                let key = names.keys.get(name).cloned().unwrap_or_else(|| names.add(name));
                names.keys.insert(parameter.name().to_owned(), key);
            }
            for name in study.problem.value_names() {
                names.add(name);
            }
        }
        names
    }

    fn add(&mut self, name: &str) -> String {
        let base = valid_key(name);
        let mut key = base.clone();
        let mut number = 2;
        while self.used.contains(&key) {
            let suffix = format!("_{number}");
            key = format!("{}{suffix}", cut_to(&base, MAX_KEY - suffix.len()));
            number += 1;
        }
        self.used.insert(key.clone());
        self.keys.insert(name.to_owned(), key.clone());
        key
    }

    /// Key of `name`. Names that are not of the study are metrics that a trainer reports in addition.
    pub(super) fn key(&self, name: &str) -> String {
        self.keys.get(name).cloned().unwrap_or_else(|| valid_key(name))
    }

    /// Names with other keys, as a list for people; empty if there are none.
    pub(super) fn renamed(&self) -> String {
        let renamed = self.keys.iter().filter(|(name, key)| name != key && !is_sibling(name, key));
        renamed.map(|(name, key)| format!("{name:?} is {key:?}")).collect::<Vec<_>>().join(", ")
    }
}

/// Whether `name` is that of a sibling which has the key of the first one: `key#2`, `key#3` and so on.
fn is_sibling(name: &str, key: &str) -> bool {
    name.rsplit_once('#').is_some_and(|(first, _)| first == key)
}

/// `name` with the characters that MLflow accepts, and without parts that look like a path.
fn valid_key(name: &str) -> String {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-.:/ ".contains(c);
    let text: String = name.chars().map(|c| if is_valid(c) { c } else { '_' }).collect();
    let parts = text.split('/').map(|part| match part {
        "" | "." | ".." => "_",
        part => part,
    });
    cut_to(&parts.collect::<Vec<_>>().join("/"), MAX_KEY).to_owned()
}

/// The first `length` characters.
fn cut_to(text: &str, length: usize) -> &str {
    text.char_indices().nth(length).map_or(text, |(end, _)| &text[..end])
}

/// `text` with at most `length` characters; one that was cut ends with a note.
pub(super) fn within(text: &str, length: usize) -> String {
    if text.chars().count() <= length {
        return text.to_owned();
    }
    format!("{}{CUT}", cut_to(text, length - CUT.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mlflow_refuses_get_keys_of_their_own() {
        let mut names = Names::default();
        assert_eq!(names.add("learning rate"), "learning rate");
        assert_eq!(names.add("loss(a)"), "loss_a_");
        assert_eq!(names.add("loss[a]"), "loss_a__2");
        assert_eq!(names.add("../a//b"), "_/a/_/b");
        assert_eq!(names.add(&"é".repeat(300)), "_".repeat(250));
        assert_eq!((names.key("loss[a]"), names.key("accuracy%")), ("loss_a__2".to_owned(), "accuracy_".to_owned()));
        assert!(names.renamed().contains(r#""loss(a)" is "loss_a_""#), "{}", names.renamed());
    }

    #[test]
    fn cut_texts_say_so() {
        assert_eq!(within("abc", 3), "abc");
        let cut = within(&"é".repeat(20), 15);
        assert_eq!(cut, format!("{}... (cut)", "é".repeat(6)));
        assert_eq!(cut.chars().count(), 15);
    }
}
