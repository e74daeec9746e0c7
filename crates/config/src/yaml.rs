//! Parser of YAML to a tree with locations. JSON is parsed as a subset of YAML.
//!
//! Aliases and merge keys (`<<`) are resolved within a limit. Tags other than those of YAML itself are rejected.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span, Tag};

use super::diagnostic::Finding;

/// Maximum nesting. The deepest published field has six levels.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes. Those of aliases count at each use, since nested aliases grow exponentially.
const MAX_NODES: usize = 200_000;

/// A value with its location.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Byte range in the text.
    pub(super) span: Range<usize>,
    pub(super) content: Content,
}

#[derive(Debug, Clone)]
pub(super) enum Content {
    /// `plain` if not quoted; only then may it be a number, boolean or null.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    /// Whether the node is a mapping with `key`.
    pub(super) fn has_key(&self, key: &str) -> bool {
        matches!(&self.content, Content::Mapping(entries) if entries.iter().any(|entry| entry.key == key))
    }

    /// Whether the node is null or empty.
    pub(super) fn is_null(&self) -> bool {
        let Content::Scalar { text, plain: true } = &self.content else { return false };
        matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }

    fn size(&self) -> usize {
        1 + match &self.content {
            Content::Scalar { .. } => 0,
            Content::List(items) => items.iter().map(Self::size).sum(),
            Content::Mapping(entries) => entries.iter().map(|entry| entry.value.size()).sum(),
        }
    }
}

/// Returns the tree of the only document in `text`, if it can be built, and the errors of the text.
pub(super) fn compose(text: &str) -> (Option<Node>, Vec<Finding>) {
    let (readable, bytes) = without_surrogates(text);
    let mut composer = Composer {
        bytes,
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        documents: 0,
        root: None,
        findings: Vec::new(),
    };
    for event in Parser::new_from_str(&readable) {
        let fatal = match event {
            Ok((event, span)) => composer.event(event, span).err(),
            Err(error) => Some(syntax_error(text, composer.byte(error.marker()), error.info())),
        };
        if let Some(finding) = fatal {
            composer.findings.push(finding);
            return (None, composer.findings);
        }
    }
    if composer.root.is_none() {
        composer.findings.push(Finding::error("", 0..0, "the file is empty", "at least `hyperparameters:`"));
    }
    (composer.root, composer.findings)
}

fn syntax_error(text: &str, at: usize, info: &str) -> Finding {
    // The parser has its own limit, which it can reach first by lookahead.
    if info.contains("recursion limit") {
        return too_deep(at..at);
    }
    let tab = text[..at].ends_with('\t') || text[at..].starts_with('\t');
    let allowed = if tab { "indent with spaces, not with tabs" } else { "YAML or JSON" };
    Finding::error("", at..at, format!("cannot be parsed: {info}"), allowed)
}

fn too_deep(span: Range<usize>) -> Finding {
    Finding::error("", span, "the nesting is too deep", format!("at most {MAX_DEPTH} levels"))
}

/// Returns `text` in valid YAML, and for each of its characters and its end the byte offset in `text`.
///
/// JSON writes characters beyond 16 bits as two escapes (`\ud83d\ude00`), which is not valid YAML. They are replaced by
/// one escape of YAML.
fn without_surrogates(text: &str) -> (Cow<'_, str>, Vec<usize>) {
    let mut bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
    if !text.trim_start().starts_with('{') || !text.contains("\\u") {
        return (Cow::Borrowed(text), bytes);
    }
    let mut readable = String::with_capacity(text.len());
    bytes.clear();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let (piece, length) = match surrogate_pair(rest) {
            Some(character) => (format!("\\U{:08x}", u32::from(character)), 12),
            // An escaped backslash is not the start of an escape.
            None if rest.starts_with("\\\\") => ("\\\\".to_owned(), 2),
            None => (first.to_string(), first.len_utf8()),
        };
        bytes.extend(piece.chars().enumerate().map(|(index, _)| at + index.min(length - 1)));
        readable.push_str(&piece);
        rest = &rest[length..];
    }
    bytes.push(text.len());
    (Cow::Owned(readable), bytes)
}

/// Returns the character of two escapes at the start of `text`.
fn surrogate_pair(text: &str) -> Option<char> {
    let escape = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let units = [escape(text)?, escape(text.get(6..)?)?];
    let mut characters = char::decode_utf16(units);
    match (characters.next(), characters.next()) {
        (Some(Ok(character)), None) => Some(character),
        _ => None,
    }
}

/// An unfinished list or mapping.
struct Open {
    start: usize,
    anchor: usize,
    collection: Collection,
}

enum Collection {
    List(Vec<Node>),
    Mapping { entries: Vec<Entry>, keys: HashSet<String>, key: Option<(String, Range<usize>)> },
}

struct Composer {
    /// Byte index of each character, and the length at the end.
    bytes: Vec<usize>,
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
    findings: Vec<Finding>,
}

impl Composer {
    /// Processes one event; an error ends the composition.
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Finding> {
        let span = self.byte(&span.start)..self.byte(&span.end);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Finding::error("", span, "a second document begins here", "one document per file"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = self.tag_is_text(tag.as_deref(), &span);
                let plain = style == ScalarStyle::Plain && !text_tag;
                let node = Node { span, content: Content::Scalar { text: text.into_owned(), plain } };
                self.close(node, anchor)?;
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag_is_text(tag.as_deref(), &span);
                self.open(span, anchor, Collection::List(Vec::new()))?;
            }
            Event::MappingStart(anchor, tag) => {
                self.tag_is_text(tag.as_deref(), &span);
                self.open(span, anchor, Collection::Mapping { entries: Vec::new(), keys: HashSet::new(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.open.pop() else { return Ok(()) };
                let content = match open.collection {
                    Collection::List(items) => Content::List(items),
                    Collection::Mapping { entries, .. } => Content::Mapping(self.merge(entries)),
                };
                self.close(Node { span: open.start..span.end.max(open.start), content }, open.anchor)?;
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    return Err(Finding::error("", span, "the alias is inside its own anchor", "a finite document"));
                };
                let node = Node { span: span.clone(), content: node.content.clone() };
                self.nodes += node.size();
                self.close(node, 0)?;
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        Ok(())
    }

    fn open(&mut self, span: Range<usize>, anchor: usize, collection: Collection) -> Result<(), Finding> {
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(span));
        }
        if self.awaits_key() {
            return Err(Finding::error("", span, "a list or mapping cannot be a key", "text as key"));
        }
        self.open.push(Open { start: span.start, anchor, collection });
        Ok(())
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { collection: Collection::Mapping { key: None, .. }, .. }))
    }

    /// Adds a finished node to its parent.
    fn close(&mut self, node: Node, anchor: usize) -> Result<(), Finding> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Finding::error("", node.span, "the document is too large", format!("{MAX_NODES} values")));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|open| &mut open.collection) {
            None => self.root = Some(node),
            Some(Collection::List(items)) => items.push(node),
            Some(Collection::Mapping { entries, keys, key }) => match key.take() {
                None => match node.content {
                    Content::Scalar { text, .. } => *key = Some((text, node.span)),
                    _ => {
                        return Err(Finding::error("", node.span, "a list or mapping cannot be a key", "text as key"));
                    }
                },
                Some((key, key_span)) => {
                    if !keys.insert(key.clone()) {
                        let message = format!("the key `{key}` comes twice in one mapping");
                        self.findings.push(Finding::error("", key_span, message, "each key once"));
                    } else {
                        entries.push(Entry { key, key_span, value: node });
                    }
                }
            },
        }
        Ok(())
    }

    /// Replaces `<<` by the entries of its mappings; existing keys take precedence.
    fn merge(&mut self, mut entries: Vec<Entry>) -> Vec<Entry> {
        let Some(index) = entries.iter().position(|entry| entry.key == "<<") else { return entries };
        let merged = entries.remove(index);
        let mut keys: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        let sources = match merged.value.content {
            Content::List(items) => items,
            content => vec![Node { span: merged.value.span, content }],
        };
        for source in sources {
            let Content::Mapping(more) = source.content else {
                let message = "`<<` merges mappings only";
                self.findings.push(Finding::error("", merged.key_span.clone(), message, "a mapping or a list of them"));
                continue;
            };
            entries.extend(more.into_iter().filter(|entry| keys.insert(entry.key.clone())));
        }
        entries
    }

    /// Whether `tag` declares a scalar as text. Unknown tags are reported.
    fn tag_is_text(&mut self, tag: Option<&Tag>, span: &Range<usize>) -> bool {
        let Some(tag) = tag else { return false };
        if !tag.is_yaml_core_schema() {
            let message = format!("the tag `{tag}` is not known");
            self.findings.push(Finding::error("", span.clone(), message, "no tags"));
            return false;
        }
        tag.suffix == "str"
    }

    fn byte(&self, marker: &Marker) -> usize {
        self.bytes.get(marker.index()).or(self.bytes.last()).copied().unwrap_or(0)
    }
}
