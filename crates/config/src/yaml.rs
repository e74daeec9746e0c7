//! YAML parser that builds a tree with locations. JSON is a subset of YAML.
//!
//! Aliases and merge keys (`<<`) are resolved within a limit. Tags other than those of YAML itself are rejected.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};

use super::diagnostic::Finding;

/// Maximum nesting. The deepest published field has six levels.
const MAX_DEPTH: usize = 64;

/// Maximum number of nodes. Counts each use of an alias, since nested aliases grow exponentially.
const MAX_NODES: usize = 200_000;

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

/// Parses the only document in `text`. Returns its tree, if available, and the errors.
pub(super) fn compose(text: &str) -> (Option<Node>, Vec<Finding>) {
    let mut composer = Composer {
        open: Vec::new(),
        anchors: HashMap::new(),
        nodes: 0,
        documents: 0,
        root: None,
        findings: Vec::new(),
    };
    // Indentation inside flow collections and quoted scalars is free, and the last line of a block scalar stays as it
    // is, as in PyYAML and ruamel.yaml, the parsers of gcloud and published tools.
    let options = granit_parser::options! { emit_comments: false, block_scalar_eof_without_line_feed: true };
    for event in Parser::new_from_str_with_options(text, options) {
        let fatal = match event {
            Ok((event, span)) => composer.event(event, &span).err(),
            Err(error) => Some(syntax_error(text, &error)),
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

fn syntax_error(text: &str, error: &ScanError) -> Finding {
    let at = byte(error.marker()).min(text.len());
    // The parser's own limit may apply first, due to lookahead.
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        return too_deep(at..at);
    }
    let tab = text[..at].ends_with('\t') || text[at..].starts_with('\t');
    let allowed = match error.kind() {
        ErrorKind::FlowMappingValueAdjacentCollection => "a space after the colon",
        _ if tab => "indent with spaces, not with tabs",
        _ => "YAML or JSON",
    };
    Finding::error("", at..at, format!("cannot be parsed: {}", error.info()), allowed)
}

fn too_deep(span: Range<usize>) -> Finding {
    Finding::error("", span, "the nesting is too deep", format!("at most {MAX_DEPTH} levels"))
}

/// Unfinished list or mapping.
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
    open: Vec<Open>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
    findings: Vec<Finding>,
}

impl Composer {
    /// Processes one event; an error ends the composition.
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Finding> {
        let tag_span = bytes(&span.tag_span().unwrap_or(*span));
        let span = bytes(span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Finding::error("", span, "a second document begins here", "one document per file"));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_tag = self.tag_is_text(tag.as_deref(), &tag_span);
                let plain = style == ScalarStyle::Plain && !text_tag;
                // The parser writes `~` for an omitted value or key.
                let text = if plain && span.is_empty() { String::new() } else { text.into_owned() };
                let node = Node { span, content: Content::Scalar { text, plain } };
                self.close(node, anchor)?;
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.tag_is_text(tag.as_deref(), &tag_span);
                self.open(span, anchor, Collection::List(Vec::new()))?;
            }
            Event::MappingStart(_, anchor, tag) => {
                self.tag_is_text(tag.as_deref(), &tag_span);
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
            // Document ends; the options exclude all other events.
            _ => {}
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

    /// Whether `tag` declares a scalar as text, like `!!str`. Reports unknown tags. The non-specific tag `!` has no
    /// effect, as in PyYAML.
    fn tag_is_text(&mut self, tag: Option<&Tag>, span: &Range<usize>) -> bool {
        let Some(tag) = tag else { return false };
        if tag.original() == "!" {
            return false;
        }
        let Some(name) = tag.core_suffix() else {
            let message = format!("the tag `{tag}` is not known");
            self.findings.push(Finding::error("", span.clone(), message, "no tags"));
            return false;
        };
        name == "str"
    }
}

fn bytes(span: &Span) -> Range<usize> {
    byte(&span.start)..byte(&span.end)
}

fn byte(marker: &Marker) -> usize {
    // A parser of a `str` knows the byte of every marker.
    marker.byte_offset().unwrap_or(marker.index())
}
