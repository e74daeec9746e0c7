//! Specification of a custom container, and the environment that AI Platform defines for it.

use serde::{Deserialize, Serialize};
use tunesmith_domain::Refusal;

/// Port of containers without `ports`; of AI Platform.
pub const DEFAULT_PORT: u16 = 8080;

/// Folder with a copy of `deploymentUri` in the container.
pub(crate) const MODEL_FOLDER: &str = "/mnt/models";

/// Maximum number of environment variables. A guess.
const MAX_VARIABLES: usize = 100;

/// Maximum total length of command, arguments and environment in bytes. A guess, below the limit of Linux.
const MAX_TEXT: usize = 100_000;

/// Custom container of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// Names and values.
    pub env: Vec<(String, String)>,
    pub port: u16,
    /// Path for predictions.
    pub predict_route: String,
    /// Path for health checks.
    pub health_route: String,
}

/// Command and environment after the expansion of variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) command: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

impl Container {
    /// Checks everything that can be told without the engine.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if !is_image(&self.image) {
            let text =
                format!("{:?} is not the name of an image, such as registry.example.com/models/iris:3", self.image);
            return Err(Refusal::invalid("container.image", text));
        }
        if self.env.len() > MAX_VARIABLES {
            let text = format!("has {} variables; allowed: up to {MAX_VARIABLES}", self.env.len());
            return Err(Refusal::invalid("container.env", text));
        }
        for (index, (name, _)) in self.env.iter().enumerate() {
            let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
            let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !starts || !is_plain || name.starts_with("AIP_") {
                let text = format!(
                    "{name:?} is not allowed: letters, digits and _, not beginning with a digit or with AIP_, whose variables \
                     the service sets"
                );
                return Err(Refusal::invalid(&format!("container.env[{index}].name"), text));
            }
        }
        for (field, route) in [("routes.predict", &self.predict_route), ("routes.health", &self.health_route)] {
            let is_path = route.bytes().all(|byte| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(&byte));
            if !route.starts_with('/') || !is_path {
                let text = format!("{route:?} is not a path, such as /predict");
                return Err(Refusal::invalid(field, text));
            }
        }
        let texts = self.command.iter().chain(&self.args).chain(self.env.iter().map(|(_, value)| value));
        if texts.clone().any(|text| text.contains('\0')) {
            return Err(Refusal::invalid("container", "has a text with the character NUL, which is not allowed"));
        }
        let total: usize = texts.map(String::len).sum();
        if total > MAX_TEXT {
            let text = format!("command, args and env have {total} bytes; allowed: up to {MAX_TEXT}");
            return Err(Refusal::invalid("container", text));
        }
        Ok(())
    }

    /// Command and environment of a container with the variables `own` of the service.
    pub(crate) fn expanded(&self, own: Vec<(String, String)>) -> Expanded {
        let mut env = own;
        for (name, value) in &self.env {
            let value = expand(value, &env);
            env.retain(|(earlier, _)| earlier != name);
            env.push((name.clone(), value));
        }
        let all = |texts: &[String]| texts.iter().map(|text| expand(text, &env)).collect();
        Expanded { command: all(&self.command), args: all(&self.args), env }
    }
}

/// Whether `name` can only be an image of a registry, or a local one: neither an option nor a transport with a path.
fn is_image(name: &str) -> bool {
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte));
    let mut folders = name.rsplit('/').skip(1);
    // Before the last component, a colon is followed by the port of a registry.
    let has_ports = folders.all(|folder| {
        let port = folder.split_once(':').map_or("1", |(_, port)| port);
        !folder.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    starts && is_plain && has_ports && name.len() <= 1000 && !name.ends_with('/')
}

/// Replaces `$(NAME)` by the value of a variable, and `$$` by `$`. References to other names stay, as in Kubernetes.
fn expand(text: &str, variables: &[(String, String)]) -> String {
    let (mut expanded, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let reference = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        let known = reference.and_then(|(name, after)| {
            let value = variables.iter().find(|(known, _)| known == name).map(|(_, value)| value)?;
            Some((value, after))
        });
        match known {
            Some((value, after)) => {
                expanded.push_str(value);
                rest = after;
            }
            None => expanded.push('$'),
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(image: &str) -> Container {
        Container {
            image: image.to_owned(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            port: DEFAULT_PORT,
            predict_route: "/p".to_owned(),
            health_route: "/h".to_owned(),
        }
    }

    #[test]
    fn options_and_local_archives_are_not_images() {
        for image in ["a", "localhost/a:1", "localhost:5000/a/b:v-1.2", "quay.io/a/b@sha256:12ab", "a:latest"] {
            container(image).check().unwrap();
        }
        for image in
            ["", "--privileged", "dir:/etc", "oci-archive:/a/b", "docker://a/b", "oci:a/b", "a b", "a/", "/a", "a,b"]
        {
            assert!(container(image).check().is_err(), "{image}");
        }
    }

    #[test]
    fn variables_and_routes_are_checked() {
        let with = |name: &str| Container { env: vec![(name.to_owned(), "v".to_owned())], ..container("a") };
        with("A_1").check().unwrap();
        for name in ["", "1A", "A-B", "AIP_MODE", "A*"] {
            let refusal = with(name).check().unwrap_err();
            assert!(format!("{refusal:?}").contains("container.env[0].name"), "{refusal:?}");
        }
        let routed = |route: &str| Container { predict_route: route.to_owned(), ..container("a") };
        routed("/v1/models/m:predict?a=b").check().unwrap();
        for route in ["", "predict", "/a b", "/a#b", "/a\n"] {
            assert!(routed(route).check().is_err(), "{route}");
        }
        let long = Container { args: vec!["x".repeat(MAX_TEXT + 1)], ..container("a") };
        assert!(long.check().unwrap_err().message.contains("100001 bytes"));
    }

    #[test]
    fn references_to_earlier_variables_are_expanded() {
        let text = |text: &str| text.to_owned();
        let spec = Container {
            command: vec![text("$(PORT) $(A) $$(A) $(NONE) $ $(A")],
            args: vec![text("$(B)$(B)"), text("ü$$$$")],
            env: vec![(text("A"), text("<$(PORT)>")), (text("B"), text("$(A)$(C)")), (text("C"), text("c"))],
            ..container("a")
        };
        let expanded = spec.expanded(vec![(text("PORT"), text("80"))]);
        assert_eq!(expanded.command, ["80 <80> $(A) $(NONE) $ $(A"]);
        assert_eq!(expanded.args, ["<80>$(C)<80>$(C)", "ü$$"]);
        assert_eq!(expanded.env[2], (text("B"), text("<80>$(C)")));
    }
}
