"""Writes YAML texts and PyYAML's reading of them: corpus.py SEED COUNT [damaged], one JSON object a line.

Each text is a mixture of block and flow collections, with line breaks, comments, anchors and quotes wherever YAML allows
them. A damaged text has one or two random changes, so that most are invalid. An object has `text` and either `value`, in
which scalars are text as they are written, or `problem`, the reason for which PyYAML refuses the text.
"""

import json
import random
import sys

import yaml

NULLS = ("", "~", "null", "Null", "NULL")
PLAIN = ["a", "linear", "rbf", "x y", "1", "0.5", "true", "null", "~", "a#b", "a:b", "http://x/y", "-1", "gs://b/c", "a-b",
         "n1-standard-4", "é", "日本", "1e-3", ".5", "k", "-x", "100%", "a*b", "a&b"]
SINGLE = PLAIN + ["it''s", '"', ": ", ", ", "[", "]", "#", "a # b", ""]
DOUBLE = PLAIN + ["\\n", '\\"', "'", ": ", ", ", "[", "]", "{", "}", "#", "a # b", "", "\\u00e9", "\\t", "\\ud83d\\ude00"]
NOISE = list("[]{},:\"'#-\n\t &*!|>%@`?") + ["\n---\n", "\n...\n"]


class Text:
    """One text. `indent` is the column of the block that contains a value."""

    def __init__(self, rng):
        self.rng = rng
        self.comments = rng.random() < 0.3
        # The column of continuation lines inside flow collections.
        self.column = rng.choice(["deeper", "key", "zero", "any"])
        self.line_breaks = rng.choice([0, 0.1, 0.4, 0.8])
        self.anchors = 0

    def gap(self, indent, at_least=0):
        rng = self.rng
        if rng.random() >= self.line_breaks:
            return " " * max(at_least, rng.choice([0, 0, 1, 2]))
        column = {"deeper": indent + 2, "key": indent, "zero": 0, "any": rng.randint(0, indent + 4)}[self.column]
        end = " " * rng.randint(0, 2)
        if self.comments and rng.random() < 0.4:
            end = " # " + rng.choice(["c", '"', "[", "]", "}", "it's", ": x", ","])
        breaks = rng.choice(["\n", "\n", "\n", "\n\n"])
        if self.comments and rng.random() < 0.1:
            breaks += " " * column + "# c\n"
        return end + breaks + " " * column

    def blank(self, indent):
        """A blank inside a scalar, which may be a line break but no comment."""
        comments, self.comments = self.comments, False
        blank = self.gap(indent, 1)
        self.comments = comments
        return blank

    def scalar(self, indent, is_key=False):
        rng = self.rng
        kind = rng.random()
        long = not is_key and rng.random() < 0.1
        if kind < 0.4:
            more = self.blank(indent) + rng.choice(["b", "c: d", "- e", "# f"]) if long else ""
            return '"' + rng.choice(DOUBLE) + more + '"'
        if kind < 0.55:
            return "'" + rng.choice(SINGLE) + "'"
        return rng.choice(PLAIN) + (self.blank(indent) + rng.choice(PLAIN[:10]) if long else "")

    def flow(self, indent, depth):
        rng = self.rng
        kind = rng.random()
        if self.anchors and rng.random() < 0.05:
            return "*a%d " % rng.randrange(self.anchors)
        if depth <= 0 or kind < 0.5:
            text = self.scalar(indent)
        elif kind < 0.75:
            text = self.items("[", "]", indent, depth - 1, self.item)
        else:
            text = self.items("{", "}", indent, depth - 1, self.pair)
        if rng.random() < 0.06:
            text = "&a%d %s" % (self.anchors, text)
            self.anchors += 1
        return text

    def items(self, start, end, indent, depth, item):
        rng = self.rng
        text, count = start, rng.choice([0, 1, 2, 2, 3, 4])
        for index in range(count):
            text += self.gap(indent) + item(indent, depth, index) + self.gap(indent)
            if index < count - 1 or rng.random() < 0.2:
                text += ","
        return text + self.gap(indent) + end

    def item(self, indent, depth, _):
        if self.rng.random() < 0.08:
            return self.scalar(indent, True) + ": " + self.flow(indent, depth - 1)
        return self.flow(indent, depth)

    def pair(self, indent, depth, index):
        rng = self.rng
        # Keys are distinct by their quoted number.
        key = rng.choice(['"%d"', "'%d'", "k%d", "%d"]) % index
        if rng.random() < 0.02:
            key = "? " + key
        if rng.random() < 0.07:
            return key
        gap = "" if key[0] in "\"'" and rng.random() < 0.3 else self.gap(indent, 1)
        return key + rng.choice(["", "", "", " "]) + ":" + gap + self.flow(indent, depth)

    def block(self, indent, depth):
        rng = self.rng
        if rng.random() < 0.6:
            rows = (" " * indent + "k%d:" % index + self.value(indent, depth - 1) for index in range(rng.randint(1, 3)))
        else:
            rows = (" " * indent + "-" + self.value(indent, depth - 1, True) for _ in range(rng.randint(1, 3)))
        return "".join(rows)

    def value(self, indent, depth, is_item=False):
        rng = self.rng
        if depth > 0 and rng.random() < 0.4:
            if is_item and rng.random() < 0.5:
                return " " + self.block(indent + 2, depth)[indent + 2:]
            if not is_item and rng.random() < 0.2:
                # The items of a list may stand in the column of its key.
                return "\n" + "".join(" " * indent + "-" + self.value(indent, depth - 1, True) for _ in range(rng.randint(1, 2)))
            return "\n" + self.block(indent + 2, depth)
        comment = " # e" if self.comments and rng.random() < 0.2 else ""
        before = "\n" + " " * (indent + rng.randint(1, 3)) if rng.random() < 0.1 else " "
        return before + self.flow(indent, 3) + comment + "\n"


def text_of(rng, damaged):
    text = Text(rng)
    result = text.block(0, rng.randint(1, 3)) if rng.random() < 0.8 else text.flow(0, 3) + "\n"
    if rng.random() < 0.1:
        result = "---\n" + result
    if rng.random() < 0.1:
        result = result.replace("\n", "\r\n")
    for _ in range(rng.randint(1, 2) if damaged else 0):
        at = rng.randrange(len(result))
        kind = rng.random()
        if kind < 0.4:
            result = result[:at] + result[at + 1:]
        elif kind < 0.8:
            result = result[:at] + rng.choice(NOISE) + result[at:]
        else:
            result = result[:at] + result[at:at + 5] + result[at:]
    return result


def value_of(node):
    if not node.tag.startswith("tag:yaml.org,2002:"):
        raise ValueError("could not determine a constructor for the tag %r" % node.tag)
    if isinstance(node, yaml.ScalarNode):
        return None if node.style is None and node.value in NULLS else node.value
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item) for item in node.value]
    pairs = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise ValueError("a key is no text")
        value_of(key)
        if key.value in pairs:
            raise ValueError("a key comes twice")
        pairs[key.value] = value_of(value)
    return pairs


def reading(text):
    try:
        node = yaml.compose(text)
        value = None if node is None else value_of(node)
        # PyYAML accepts half of a surrogate pair, and reads a pair as two characters.
        joined = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16")
        return {"value": json.loads(joined)}
    except yaml.MarkedYAMLError as error:
        return {"problem": error.problem or error.context}
    except (yaml.YAMLError, ValueError) as error:
        return {"problem": str(error)}


seed, count = int(sys.argv[1]), int(sys.argv[2])
for number in range(count):
    text = text_of(random.Random(seed + number), len(sys.argv) > 3)
    print(json.dumps({"text": text, **reading(text)}))
