//! Rules of HTTP for methods, in the syntax of `google.api.http`.

use std::fmt;

use axum::http::Method as Verb;
use percent_encoding::percent_decode_str;

/// A request over HTTP: verb, path and body.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HttpRule {
    pub(crate) verb: Verb,
    segments: Vec<Segment>,
    /// Text after the colon of the last segment.
    custom: Option<&'static str>,
    /// Field whose value is in the path.
    pub(crate) variable: &'static str,
    pub(crate) body: Body,
    text: &'static str,
    is_beta: bool,
}

/// First segments of the paths of `v1` and of `v1beta1`.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Part of the message in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// The message, without the field in the path.
    Message,
    Field(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    /// `*` for any text.
    pattern: &'static str,
    is_in_variable: bool,
}

impl HttpRule {
    /// Parses `VERB PATH [BODY]`; `None` if it is malformed.
    pub(crate) fn parse(text: &'static str) -> Option<Self> {
        let mut parts = text.split(' ');
        let (verb, path) = (parts.next()?, parts.next()?);
        let body = match parts.next() {
            None => Body::None,
            Some("*") => Body::Message,
            Some(field) => Body::Field(field),
        };
        let (before, rest) = path.split_once('{')?;
        let (variable, after) = rest.split_once('}')?;
        let (variable, pattern) = variable.split_once('=')?;
        let (after, custom) = after.split_once(':').map_or((after, None), |(after, custom)| (after, Some(custom)));
        let fixed = |pattern| Segment { pattern, is_in_variable: false };
        let mut segments: Vec<Segment> = before.split('/').filter(|it| !it.is_empty()).map(fixed).collect();
        segments.extend(pattern.split('/').map(|pattern| Segment { pattern, is_in_variable: true }));
        segments.extend(after.split('/').filter(|it| !it.is_empty()).map(fixed));
        Some(Self { verb: verb.parse().ok()?, segments, custom, variable, body, text, is_beta: false })
    }

    /// The same request of `v1beta1`.
    pub(crate) fn in_beta(&self) -> Self {
        let [v1, v1beta1] = VERSIONS;
        let mut rule = self.clone();
        for segment in rule.segments.iter_mut().filter(|segment| segment.pattern == v1) {
            segment.pattern = v1beta1;
        }
        Self { is_beta: true, ..rule }
    }

    /// Value of the variable in `path`; `None` if the path is another one.
    pub(crate) fn value(&self, path: &str) -> Option<String> {
        let path = path.strip_prefix('/')?;
        // Most rules are of other lengths or versions.
        if path.split('/').count() != self.segments.len() || !path.starts_with(self.segments.first()?.pattern) {
            return None;
        }
        let mut given: Vec<&str> = path.split('/').collect();
        if let Some(custom) = self.custom {
            let (last, method) = given.pop()?.rsplit_once(':')?;
            if method != custom {
                return None;
            }
            given.push(last);
        }
        let mut values = Vec::new();
        for (segment, given) in self.segments.iter().zip(given) {
            let given = percent_decode_str(given).decode_utf8().ok()?;
            let matches = if segment.pattern == "*" { !given.is_empty() } else { given == segment.pattern };
            if !matches || given.contains('/') {
                return None;
            }
            if segment.is_in_variable {
                values.push(given);
            }
        }
        let is_custom = self.custom.is_none() && self.segments.last().is_some_and(|last| last.pattern == "*");
        // Without a method of its own, a colon begins the name of another one.
        let names_method = is_custom && values.last().is_some_and(|last| last.contains(':'));
        (!names_method).then(|| values.join("/"))
    }
}

impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.text.split(' ');
        let (verb, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match path.strip_prefix("/v1/").filter(|_| self.is_beta) {
            Some(rest) => write!(f, "{verb} /{}/{rest}", VERSIONS[1]),
            None => write!(f, "{verb} {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_matched_as_published() {
        let rule = HttpRule::parse("POST /v1/{parent=projects/*/locations/*/studies/*}/trials:suggest *").unwrap();
        assert_eq!((rule.variable, rule.body), ("parent", Body::Message));
        let value = rule.value("/v1/projects/p/locations/l/studies/a%20b/trials:suggest");
        assert_eq!(value.as_deref(), Some("projects/p/locations/l/studies/a b"));
        for other in
            ["/v1/projects/p/locations/l/studies/s/trials", "/v1/projects/p/locations/l/studies//trials:suggest"]
        {
            assert_eq!(rule.value(other), None, "{other}");
        }
        let get = HttpRule::parse("GET /v1/{name=projects/*/locations/*/studies/*}").unwrap();
        assert_eq!(
            get.value("/v1/projects/p/locations/l/studies/7").as_deref(),
            Some("projects/p/locations/l/studies/7")
        );
        assert_eq!(get.value("/v1/projects/p/locations/l/studies/7:lookup"), None);
        assert_eq!(get.value("/v1/projects/p%2Fq/locations/l/studies/7"), None);
        let beta = get.in_beta();
        assert_eq!(beta.to_string(), "GET /v1beta1/{name=projects/*/locations/*/studies/*}");
        assert_eq!(beta.value("/v1/projects/p/locations/l/studies/7"), None);
        assert_eq!(
            beta.value("/v1beta1/projects/p/locations/l/studies/7").as_deref(),
            Some("projects/p/locations/l/studies/7")
        );
    }
}
