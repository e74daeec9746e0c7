//! Cluster token, from the same sources as Ray.
//!
//! Order of Ray's `AuthenticationTokenLoader`: `RAY_AUTH_TOKEN`, the file named by `RAY_AUTH_TOKEN_PATH`,
//! `~/.ray/auth_token`. The first non-empty one wins. As in Ray, `RAY_AUTH_MODE=disabled` turns all of them off.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// A token and the sources searched for it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RayToken {
    value: Option<String>,
    /// Each source with its result, for messages.
    sources: Vec<String>,
}

impl fmt::Debug for RayToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RayToken").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl RayToken {
    /// Reads the token from the variable `own` alone.
    pub fn of_variable(own: &str, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut token = Self::default();
        token.look_at_variable(own, &variable);
        token
    }

    /// Reads the token from the variable `own`, then from Ray's sources.
    pub fn of_environment(own: &str, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let mut token = Self::of_variable(own, &variable);
        if variable("RAY_AUTH_MODE").is_some_and(|mode| mode == "disabled") {
            token.sources.push("not those of Ray, since RAY_AUTH_MODE is disabled".to_owned());
            return token;
        }
        token.look_at_variable("RAY_AUTH_TOKEN", &variable);
        match variable("RAY_AUTH_TOKEN_PATH").filter(|path| !path.is_empty()) {
            None if token.value.is_none() => token.note("RAY_AUTH_TOKEN_PATH", "not set"),
            None => {}
            Some(path) => token.look_at_file("RAY_AUTH_TOKEN_PATH: ", Path::new(&path)),
        }
        if let Some(home) = variable("HOME").filter(|home| !home.is_empty()) {
            token.look_at_file("", &PathBuf::from(home).join(".ray/auth_token"));
        }
        token
    }

    pub(crate) fn value(&self) -> Option<&str> {
        self.value.as_deref()
    }

    /// Sources searched, for the message of a cluster that rejects the token.
    pub(crate) fn sources(&self) -> String {
        self.sources.join(", ")
    }

    fn look_at_variable(&mut self, name: &str, variable: &impl Fn(&str) -> Option<OsString>) {
        if self.value.is_some() {
            return;
        }
        match variable(name).map(OsString::into_string) {
            Some(Ok(value)) if !value.trim().is_empty() => self.take(name, &value),
            Some(Err(_)) => self.note(name, "not UTF-8"),
            _ => self.note(name, "not set"),
        }
    }

    fn look_at_file(&mut self, prefix: &str, path: &Path) {
        if self.value.is_some() {
            return;
        }
        let place = format!("{prefix}{}", path.display());
        match std::fs::read_to_string(path) {
            Ok(text) => match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
                Some(line) => self.take(&place, line),
                None => self.note(&place, "its first line is empty"),
            },
            Err(error) => self.note(&place, &error.to_string()),
        }
    }

    fn take(&mut self, place: &str, value: &str) {
        self.value = Some(value.trim().to_owned());
        self.note(place, "used");
    }

    fn note(&mut self, place: &str, found: &str) {
        self.sources.push(format!("{place} ({found})"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_the_order_of_ray_and_are_named() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".ray")).unwrap();
        let file = home.path().join("other");
        let look = |set: &[(&str, &str)]| {
            let set: Vec<(String, OsString)> =
                set.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
            let home = home.path().as_os_str().to_owned();
            RayToken::of_environment("OWN", move |name| match name {
                "HOME" => Some(home.clone()),
                name => set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()),
            })
        };
        let none = look(&[]);
        let default = home.path().join(".ray/auth_token");
        let missing = format!("{} (No such file or directory (os error 2))", default.display());
        assert_eq!(none.value(), None);
        assert_eq!(
            none.sources(),
            format!("OWN (not set), RAY_AUTH_TOKEN (not set), RAY_AUTH_TOKEN_PATH (not set), {missing}")
        );
        std::fs::write(&default, " of-home \nsecond line\n").unwrap();
        assert_eq!(look(&[]).value(), Some("of-home"));
        std::fs::write(&file, "of-file\n").unwrap();
        let path = ("RAY_AUTH_TOKEN_PATH", file.to_str().unwrap());
        assert_eq!(look(&[path]).value(), Some("of-file"));
        assert_eq!(look(&[path, ("RAY_AUTH_TOKEN", "of-variable")]).value(), Some("of-variable"));
        let own = look(&[path, ("RAY_AUTH_TOKEN", "of-variable"), ("OWN", "own")]);
        assert_eq!((own.value(), own.sources().as_str()), (Some("own"), "OWN (used)"));
        assert!(!format!("{own:?}").contains("own\""), "the token is not in logs: {own:?}");
        assert_eq!(look(&[path, ("RAY_AUTH_MODE", "disabled")]).value(), None);
        assert_eq!(RayToken::of_variable("OWN", |name| (name != "OWN").then(|| "x".into())).value(), None);
    }
}
