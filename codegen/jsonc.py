"""JSON with // comments, read so that one mistake does not hide the next.

``parse`` never raises and never stops early: what it can guess (a comma, a colon, a bracket that
was left out) it puts in place, what it cannot read it marks as invalid, and for each it writes one
diagnostic at the place where a person would mend it. It reads a text once from left to right, in
time linear in its length, and nests at most ``DEPTH_MAX`` deep.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kraftspec.codegen.diagnostics import Diagnostic, Pointer

DEPTH_MAX: Final = 64  # Kafka's deepest spec needs 8; more than 64 is not written by a person.
DIGITS_MAX: Final = 400  # A double has at most 309 digits before its point.
SHOWN_CHARS_MAX: Final = 40  # Of a piece of text in a message.
SHOWN_BRACKETS_MAX: Final = 4  # As many places as fit a line.

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    | (?P<blank>[^\S \t\r\n]+)
    | (?P<comment>//[^\n]*)
    | (?P<block>/\*(?s:.*?\*/|.*))
    | (?P<punct>[{}\[\],:])
    | (?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    | (?P<broken>"[^\n]*)
    | (?P<single>'[^'\n]*')
    | (?P<ellipsis>\.\.\.+|…)
    | (?P<number>[-+]?\.?[0-9][0-9A-Za-z_.+-]*)
    | (?P<word>/?[^\s"'{}\[\],:/]+|.)
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|[\x00-\x1f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_OTHER_WORDS = {"True": "true", "False": "false", "None": "null", "NULL": "null"}
_STRINGS = ("string", "single", "bare", "broken")
_BARE = ("word", "number")
_VALUES = (*_STRINGS, "number", "word", "{", "[")

Plain = dict[str, "Plain"] | list["Plain"] | str | int | float | bool | None


@dataclass(slots=True)
class Node:
    """A JSON value and its place: offsets into the text, ``end`` being one past it."""

    start: int
    end: int = 0
    value: str | int | float | bool | None = None
    members: dict[str, tuple[int, Node]] | None = None  # key -> (offset of the key, value)
    items: list[Node] | None = None
    invalid: bool = False  # It could not be read; ``value`` is None.
    partial: bool = False  # An object of which something could not be read.

    def plain(self) -> Plain:
        """Return the value as Python has it."""
        if self.members is not None:
            return {key: node.plain() for key, (_, node) in self.members.items()}
        return self.value if self.items is None else [node.plain() for node in self.items]


@dataclass(slots=True)
class Document:
    """A text, its readable value (``root``), and its mistakes as JSON."""

    text: str
    label: str
    root: Node | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # the offset at which each line begins

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and column of an offset, both counted from 1."""
        line = bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    def place(self, pointer: Pointer, *, key: bool = False) -> tuple[int, int]:
        """Return the place of a value (``key``: of its key), or of the nearest value around it."""
        offset, node = 0, self.root
        for step in (None, *pointer):
            if step is None:
                child, at = node, node.start if node else 0
            elif node is not None and isinstance(step, str) and node.members is not None:
                at, child = node.members.get(step, (0, None))
            elif node is not None and isinstance(step, int) and node.items is not None:
                child = node.items[step] if step < len(node.items) else None
                at = 0 if child is None else child.start
            else:
                child = None
            if child is None:
                break
            node, offset = child, at if key else child.start
        return self.position(offset)

    def nodes(self) -> Iterator[tuple[Pointer, Node]]:
        """Yield every value with its pointer, the outer before the inner."""
        pending: list[tuple[Pointer, Node]] = [((), self.root)] if self.root else []
        while pending:
            pointer, node = pending.pop()
            yield pointer, node
            pending += [((*pointer, i), child) for i, child in enumerate(node.items or ())]
            members = (node.members or {}).items()
            pending += [((*pointer, name), child) for name, (_, child) in members]


def parse(text: str, label: str = "") -> Document:
    """Read a text; ``label`` names it in the diagnostics, which come in order of place."""
    document = Document(text, label, lines=[0, *(m.end() for m in re.finditer("\n", text))])
    parser = _Parser(document)
    document.root = parser.document()
    document.diagnostics.sort()
    return document


class _Parser:
    """One walk over the tokens. ``at`` is the next token; a token is (kind, start, end)."""

    def __init__(self, document: Document) -> None:
        self.out = document
        self.text = document.text
        self.tokens: list[tuple[str, int, int]] = []
        self.at = 0
        self.open: list[tuple[str, int]] = []  # brackets around the next token: (kind, offset)
        self.guessed = False  # The last object was closed by guess, its comma being used up.
        self.lost = False  # After something unreadable; what is missing next is no news.
        self.ended = False  # The end of the text was reported inside a bracket.
        self._scan()

    def _scan(self) -> None:
        at = 0
        while match := _TOKEN.match(self.text, at):
            kind, at = match.lastgroup or "", match.end()
            if kind in ("space", "comment"):
                continue
            start, last = match.start(), self.tokens[-1] if self.tokens else ("", -1, -1)
            if kind == "block":
                mend = "begin each line of it with //"
                self.report("json-comment", start, "a comment in /* */", mend)
                continue
            if kind == "blank":
                message = f"U+{ord(match[0][0]):04X} is not white space in JSON"
                self.report("json-space", start, message, "write a plain space")
                continue
            if kind in _BARE and last[0] == "string" and last[2] == start:
                kind, start = "broken", self.tokens.pop()[1]  # "name: "X" lacks a quote before.
            elif kind in ("string", "broken") and last[0] in _BARE and last[2] == start:
                kind, at = "bare", start + 1  # name": lacks the quote before it.
                start = self.tokens.pop()[1]
            if kind == "broken":
                at = self.end_of_broken(start)
            self.tokens.append((match[0] if kind == "punct" else kind, start, at))
        self.tokens.append(("end", self.tokens[-1][2] if self.tokens else 0, len(self.text)))

    def end_of_broken(self, start: int) -> int:
        """Return where a string without its closing quote ends: before what closes its line."""
        newline = self.text.find("\n", start)
        line = self.text[start : newline if newline >= 0 else len(self.text)]
        return start + max(1, len(line.rstrip("}], \t\r")))

    def report(self, rule: str, offset: int, message: str, mend: str) -> None:
        line, column = self.out.position(offset)
        self.out.diagnostics.append(Diagnostic(self.out.label, line, column, rule, message, mend))

    def missing(self, rule: str, message: str, mend: str) -> None:
        """Report what should stand right after the last token, unless the reader is lost."""
        if not self.lost:
            self.report(rule, self.tokens[self.at - 1][2], message, mend)
        self.lost = False

    def kind(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.tokens[index][0] if index < len(self.tokens) else "end"

    def source(self) -> str:
        """Return the text of the next token, shortened if it is too long to show."""
        _, start, end = self.tokens[self.at]
        return self.text[start : min(end, start + SHOWN_CHARS_MAX)]

    # Values.

    def document(self) -> Node | None:
        if self.kind() == "end":
            mend = "write a message: { … }"
            self.report("json-empty", 0, "there is nothing in it", mend)
            return None
        root = self.value()
        while self.kind() != "end" and root.members is not None and self.reopens():
            self.reopen(root)
        if self.kind() != "end":
            mend = "leave it out; a file holds one message"
            message = f"{self.source()} follows the end of the message"
            if not self.lost:
                self.report("json-trailing", self.tokens[self.at][1], message, mend)
        return root

    def value(self) -> Node:
        kind, start, end = self.tokens[self.at]
        if kind in ("{", "["):
            return self.container(kind, start)
        node = Node(start, end)
        if kind == "string":
            node.value = self.string(start, end)
        elif kind == "single":
            self.report("json-string", start, "a string in single quotes", "use double quotes")
            node.value = self.text[start + 1 : end - 1]
        elif kind == "bare":
            node.value = self.bare(start, end)
        elif kind == "number":
            self.number(node)
        elif kind == "word" and self.text[start:end] in _WORDS:
            node.value = _WORDS[self.text[start:end]]
        else:
            self.unreadable(node, kind)
        self.lost = kind == "broken"
        self.at += 1
        return node

    def bare(self, start: int, end: int) -> str:
        mend = 'begin it with "'
        self.report("json-string", start, "a string without its opening quote", mend)
        return self.text[start : end - 1]

    def unreadable(self, node: Node, kind: str) -> None:
        node.invalid = True
        if kind == "broken":
            mend = 'end it with " on the same line'
            self.report("json-string", node.start, "a string without its closing quote", mend)
        elif kind == "ellipsis":
            self.ellipsis()
        else:
            word = self.source()
            if kind not in ("word", "number"):
                self.report("json-value", node.start, f"{word} is not a JSON value", "leave it out")
                return
            mend = (
                f"write {_OTHER_WORDS[word]}"
                if word in _OTHER_WORDS
                else f'write the value, or "{word}" if a string is meant'
            )
            self.report("json-value", node.start, f"{word} is not a JSON value", mend)

    def ellipsis(self) -> None:
        mend = "write out what it stands for, or leave it out"
        self.report("json-ellipsis", self.tokens[self.at][1], f"{self.source()} is not JSON", mend)

    def number(self, node: Node) -> None:
        text = self.text[node.start : node.end]
        shown = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:20]}…"
        match = _NUMBER.fullmatch(text)
        if match is None:
            mend = f'write a string, "{shown}"' if "x" in text else "write a decimal number"
            self.report("json-number", node.start, f"{shown} is not a JSON number", mend)
        elif len(text) > DIGITS_MAX or float(text) in (float("inf"), float("-inf")):
            self.report("json-number", node.start, f"{shown} is too large", "correct the number")
        else:
            node.value = float(text) if match[2] or match[3] else int(text)
            return
        node.invalid = True

    def string(self, start: int, end: int) -> str:
        text = self.text[start + 1 : end - 1]
        if "\\" not in text and text.isprintable():
            return text
        try:
            decoded = str(json.loads(self.text[start:end]))
        except ValueError:
            decoded = _ESCAPE.sub(lambda match: self.escape(match, start + 1), text)
        if _SURROGATE.search(decoded):
            mend = r"write the character itself, or both halves of its \u pair"
            self.report("json-escape", start, "half of a surrogate pair", mend)
            decoded = _SURROGATE.sub("\ufffd", decoded)
        return decoded

    def escape(self, match: re.Match[str], base: int) -> str:
        at, text = base + match.start(), match[0]
        if match[1]:
            return chr(int(match[1], 16))
        if text[0] != "\\":
            escaped = json.dumps(text)[1:-1]
            self.report("json-string", at, "a control character in a string", f"write {escaped}")
        elif match[2] not in _ESCAPES:
            mend = rf"write \\{match[2]} if a backslash is meant"
            self.report("json-escape", at, f"{text} is not an escape", mend)
        return _ESCAPES.get(match[2] or "", text)

    # Objects and arrays.

    def container(self, kind: str, start: int) -> Node:
        self.at += 1
        node = Node(start)
        if len(self.open) == DEPTH_MAX:
            mend = "a message is never nested so deep"
            self.report("json-depth", start, f"more than {DEPTH_MAX} brackets deep", mend)
            self.skip()
            node.invalid = True
            return node
        if kind == "{":
            node.members = {}
            self.members(node)
        else:
            node.items = []
            self.elements(node)
        return node

    def skip(self) -> None:
        """Go past the bracket that matches the one just read."""
        depth = 1
        while depth and self.kind() != "end":
            depth += (self.kind() in ("{", "[")) - (self.kind() in ("}", "]"))
            self.at += 1

    def closes(self, node: Node, own: str, comma: int | None) -> bool:
        """Whether the next token ends the bracket that is open, rightly or by guess."""
        kind, start, end = self.tokens[self.at]
        opener, opened = self.open[-1]
        if kind == own:
            if comma is not None:
                text = f"a comma before the closing {own}"
                self.report("json-comma", comma, text, "leave it out")
            self.at += 1
            node.end = end
            self.lost = False
            return True
        if kind == "end":
            if not self.ended:
                self.ended = True
                self.unclosed_at_end(start)
            return True
        if kind == "}" and own == "]" and self.kind(1) == "," and self.kind(3) == ":":
            line, column = self.out.position(opened)
            message = f"the [ of {line}:{column} is closed by }}"
            self.report("json-unclosed", start, message, "write ] instead")
            self.at += 1
            return True
        outer = "{" if kind == "}" else "["
        if kind in ("}", "]") and any(bracket == outer for bracket, _ in self.open):
            self.unclosed(opener, opened, own, kind)
            return True
        if kind == "{" and own == "}" and len(self.open) > 1 and self.open[-2][0] == "[":
            self.unclosed(opener, opened, own, kind)
            self.guessed = True
            return True
        return False

    def unclosed(self, opener: str, opened: int, own: str, before: str) -> None:
        line, column = self.out.position(opened)
        message = f"the {opener} of {line}:{column} is not closed before this {before}"
        offset = self.tokens[self.at][1]
        self.report("json-unclosed", offset, message, f"write {own} before it")

    def unclosed_at_end(self, offset: int) -> None:
        places = ["{} of {}:{}".format(kind, *self.out.position(at)) for kind, at in self.open]
        more = " and more" if len(places) > SHOWN_BRACKETS_MAX else ""
        shown = ", ".join(reversed(places[-SHOWN_BRACKETS_MAX:])) + more
        closing = "".join("}" if kind == "{" else "]" for kind, _ in reversed(self.open))
        message = f"at the end of the text {shown} {'is' if len(places) == 1 else 'are'} not closed"
        self.report("json-unclosed", offset, message, f"end with {closing}")

    def comma(self, separated: bool) -> int:
        start = self.tokens[self.at][1]
        if separated and not self.lost:
            self.report("json-comma", start, "a comma with nothing before it", "leave it out")
        self.lost = False
        self.at += 1
        return start

    def members(self, node: Node) -> None:
        """Read members up to the end of an object, whose bracket was just read."""
        self.open.append(("{", node.start))
        separated, comma = True, None
        while not self.closes(node, "}", comma):
            kind = self.kind()
            if kind == ",":
                comma, separated = self.comma(separated), True
                continue
            if kind == "ellipsis":
                self.ellipsis()
                self.at += 1
                comma, separated = None, True
                continue
            if not separated and kind not in (":", "]"):
                self.missing("json-comma", "a comma is missing", "write , here")
            if kind == "{" and node.members:
                self.unopened_list(node.members)
            else:
                self.member(node)
            comma, separated = None, False
        self.open.pop()

    def unopened_list(self, members: dict[str, tuple[int, Node]]) -> None:
        """Read on in a list whose first element was taken for the value of the last member."""
        key, (at, first) = next(reversed(members.items()))
        if first.members is None:
            self.no_member("{", self.tokens[self.at][1])
            return
        self.report(
            "json-unopened", first.start, f'the list of "{key}" is not opened', "write [ before it"
        )
        items = Node(first.start, items=[first])
        members[key] = (at, items)
        self.elements(items)

    def member(self, node: Node) -> None:
        kind, start, end = self.tokens[self.at]
        if kind in ("single", "word", "number") and self.kind(1) == ":":
            key = self.text[start:end].strip("'")
            self.report("json-key", start, f"the key {key} is not in quotes", f'write "{key}"')
        elif kind in ("string", "bare") and (self.kind(1) == ":" or self.lacks_colon()):
            key = self.string(start, end) if kind == "string" else self.bare(start, end)
        else:
            self.no_member(kind, start)
            node.partial = True
            return
        self.at += 1
        if self.kind() == ":":
            self.at += 1
        else:
            self.missing("json-colon", f'a colon is missing after "{key}"', "write : here")
        assert node.members is not None
        if self.kind() not in (*_VALUES, "ellipsis"):
            value = Node(start, end, invalid=True)
            self.missing("json-value", f'"{key}" has no value', "write one, or leave the key out")
        else:
            value = self.value()
        if key in node.members:
            line, column = self.out.position(node.members[key][0])
            message = f'the key "{key}" is there already, at {line}:{column}'
            self.report("json-duplicate-key", start, message, "leave one of them out")
        node.members[key] = (start, value)

    def lacks_colon(self) -> bool:
        """Whether the string ahead and what follows are key and value without a colon."""
        return self.kind(1) in _VALUES and self.kind(2) != ":"

    def no_member(self, kind: str, start: int) -> None:
        """Go past something in an object that is no member."""
        shown = self.source()
        if kind == "broken":
            mend = 'end it with "'
            self.report("json-string", start, "a string without its closing quote", mend)
        elif not self.lost:
            mend = 'write "key": value, or leave it out'
            self.report("json-key", start, f"{shown} is neither a key nor a value here", mend)
        self.at += 1
        if kind in ("{", "["):
            self.skip()
        self.lost = True

    def elements(self, node: Node) -> None:
        """Read elements up to the end of an array, whose bracket was just read."""
        assert node.items is not None
        self.open.append(("[", node.start))
        separated, comma = True, None
        while not self.closes(node, "]", comma):
            kind, start, _ = self.tokens[self.at]
            if kind == ",":
                comma, separated = self.comma(separated), True
                continue
            if kind == "ellipsis":
                self.ellipsis()
                self.at += 1
                comma, separated = None, True
                continue
            if self.reopens() and self.kind() != ",":
                self.object_without_opening(node.items)
            elif kind in (":", "}"):
                self.report("json-value", start, f"{kind} is not a JSON value", "leave it out")
                self.at += 1
            else:
                if not separated:
                    self.missing("json-comma", "a comma is missing", "write , here")
                node.items.append(self.value())
            comma, separated, self.guessed = None, self.guessed, False
        self.open.pop()

    def object_without_opening(self, items: list[Node]) -> None:
        """Read members in a list: of the object that ended too early, or of one without a {."""
        _, start, end = self.tokens[self.at]
        last = items[-1] if items else Node(start)
        if last.members is not None and self.text[start + 1 : end - 1] not in last.members:
            self.reopen(last)
            return
        mend = "write { before it"
        self.report("json-unopened", start, "an object begins without {", mend)
        items.append(Node(start, members={}))
        self.members(items[-1])

    def reopens(self) -> bool:
        """Whether a member follows, with or without a comma, where an object just ended."""
        ahead = int(self.kind() == ",")
        return self.kind(ahead) == "string" and self.kind(ahead + 1) == ":"

    def reopen(self, node: Node) -> None:
        """Read on in an object that was closed too early."""
        self.at += self.kind() == ","
        key, closed = self.source(), max(node.start, node.end - 1)
        message = f"the object is closed here, before its member {key}"
        self.report("json-closed-early", closed, message, "write , instead of }")
        self.members(node)
