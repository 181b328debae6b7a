"""The commands of the shell: a line in, lines out. Nothing here knows of a terminal.

Words, usage and messages are those of ``org.apache.kafka.shell.command``; ``reload`` and ``--json``
are not in Kafka's. Lines are given as they are: who prints them escapes control characters.
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import islice
from typing import Any, Final, NamedTuple

from kraftspec.reference.tools.shell import paths
from kraftspec.reference.tools.shell.load import Loaded, Source
from kraftspec.reference.tools.shell.tree import Directory, Leaf, Node, root_of

HISTORY_MAX: Final = 10_000
JSON_OPTION: Final = "--json"
_INDENT: Final = "  "
_GAP: Final = 2
_MANY: Final = 1 << 30
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")


class Status(IntEnum):
    """How a command ended; the numbers are exit codes."""

    DONE = 0
    FAILED = 1  # Something that was named is not there.
    WRONG_USAGE = 2


class CommandError(ValueError):
    """A command found nothing to do, or (``WRONG_USAGE``) a line is none."""

    def __init__(self, text: str, status: Status = Status.FAILED) -> None:
        super().__init__(text)
        self.status = status


class Command(NamedTuple):
    """What is known of a command: Kafka's description, and its arguments.

    ``arguments`` is (name, help, least count, greatest count); ``in_shell`` says that it is of use
    only within a session.
    """

    name: str
    description: str
    arguments: tuple[str, str, int, int] | None = None
    in_shell: bool = False
    has_json: bool = False

    @property
    def is_of_paths(self) -> bool:
        """Whether its arguments are paths of the tree."""
        return self.has_json or self.name == "cd"

    @property
    def usage(self) -> str:
        """The command line, as Kafka writes usage."""
        words = self.name
        if self.has_json:
            words += f" [{JSON_OPTION}]"
        if self.arguments is None:
            return words
        name, _, least, most = self.arguments
        if most == 1:
            return f"{words} {name}" if least else f"{words} [{name}]"
        rest = f"[{name} ...]"
        return f"{words} {name} {rest}" if least else f"{words} [{name} {rest}]"


COMMANDS: Final = {
    command.name: command
    for command in (
        Command(
            "cat", "Show the contents of metadata files.",
            ("targets", "The metadata files to display.", 1, _MANY), has_json=True,
        ),
        Command(
            "cd", "Set the current working directory.",
            ("target", "The directory to change to.", 0, 1), in_shell=True,
        ),
        Command("exit", "Exit the metadata shell.", in_shell=True),
        Command(
            "find", "Search for nodes in the directory hierarchy.",
            ("paths", "The paths to start at.", 0, _MANY), has_json=True,
        ),
        Command("help", "Display this help message.", in_shell=True),
        Command(
            "history", "Print command history.",
            ("numEntriesToShow", "The number of entries to show.", 0, 1), in_shell=True,
        ),
        Command(
            "ls", "List metadata nodes.",
            ("targets", "The metadata node paths to list.", 0, _MANY), has_json=True,
        ),
        Command(
            "man", "Show the help text for a specific command.",
            ("cmd", "The command to get help text for.", 1, 1),
        ),
        Command("pwd", "Print the current working directory.", in_shell=True),
        Command(
            "reload", "Read the log again: what has been appended since is there.", in_shell=True
        ),
        Command(
            "tree", "Show the contents of metadata nodes in a tree structure.",
            ("targets", "The metadata nodes to display.", 1, _MANY), has_json=True,
        ),
    )
}  # fmt: skip


class Shell:
    """A session: what was loaded, where one is, and what was typed.

    ``out`` takes a line, ``err`` a line that says what is wrong, ``out_json`` a value to report.
    ``width`` is how many columns ``ls`` may use; None for one name a line.
    """

    def __init__(
        self,
        source: Source,
        version: str,
        *,
        out: Callable[[str], None],
        err: Callable[[str], None],
        out_json: Callable[[Any], None],
        width: Callable[[], int | None] = lambda: None,
        as_json: bool = False,
    ) -> None:
        self.source = source
        self.is_over = False
        self.history: deque[str] = deque(maxlen=HISTORY_MAX)
        self.loaded: Loaded
        self._version = version
        self._typed_count = 0
        self._out, self._err, self._out_json = out, err, out_json
        self._width = width
        self._always_json = as_json
        self._as_json = as_json
        self._working: tuple[str, ...] = ()
        self._has_failed = False

    def load(
        self, advance: Callable[[str, int, int], None] = lambda what, number, count: None
    ) -> None:
        """Read the source; problems are told. Raises what ``Source.load`` does."""
        self.loaded = self.source.load(advance)
        self.root = root_of(self.loaded, self._version)
        for problem in self.loaded.problems:
            self._err(problem)

    def run_line(self, line: str) -> Status:
        """Run a line that was typed; an empty one does nothing."""
        try:
            words = shlex.split(line)
        except ValueError as error:
            self._err(f"{error}: {line}")
            return Status.WRONG_USAGE
        if not words:
            return Status.DONE
        self.history.append(line)
        self._typed_count += 1
        return self.run(words)

    def run(self, words: Sequence[str], *, in_shell: bool = True) -> Status:
        """Run a command and return how it ended. Errors are told, not raised."""
        self._has_failed = False
        self._as_json = self._always_json
        try:
            name, arguments = self._parse(words, in_shell)
            runs: dict[str, Callable[[list[str]], None]] = {
                "cat": self._cat, "cd": self._cd, "exit": self._exit, "find": self._find,
                "help": self._help, "history": self._history, "ls": self._ls, "man": self._man,
                "pwd": self._pwd, "reload": self._reload, "tree": self._tree,
            }  # fmt: skip
            runs[name](arguments)
        except CommandError as error:
            self._err(str(error))
            return error.status
        return Status.FAILED if self._has_failed else Status.DONE

    def _fail(self, text: str) -> None:
        self._has_failed = True
        self._err(text)

    def _parse(self, words: Sequence[str], in_shell: bool) -> tuple[str, list[str]]:
        """Return a command and its arguments; CommandError in the words of Kafka's parser."""
        known = [name for name, each in COMMANDS.items() if in_shell or not each.in_shell]
        command = COMMANDS.get(words[0])
        if command is None or command.name not in known:
            choices = ", ".join(f"'{name}'" for name in known)
            raise _usage(f"invalid choice: '{words[0]}' (choose from {choices})")
        arguments: list[str] = []
        for at, word in enumerate(words[1:], 1):
            if word == "--":
                arguments += words[at + 1 :]
                break
            if word == JSON_OPTION and command.has_json:
                self._as_json = True
            elif word.startswith("-") and len(word) > 1 and _number(word) is None:
                raise _usage(f"unrecognized arguments: '{word}'")
            else:
                arguments.append(word)
        _, _, least, most = command.arguments or ("", "", 0, 0)
        if len(arguments) < least:
            raise _usage(f"too few arguments: {command.usage}")
        if len(arguments) > most:
            raise _usage(f"unrecognized arguments: '{arguments[most]}'")
        return command.name, arguments

    def find(self, target: str) -> list[paths.Found]:
        """Return the nodes that a path, absolute or not, matches."""
        return list(paths.find(self.root, target, self._working))

    def _ls(self, arguments: list[str]) -> None:
        files: list[paths.Found] = []
        directories: list[tuple[paths.Found, list[str]]] = []
        for target in _effective(arguments):
            matches = self.find(target)
            if not matches:
                self._fail(f"ls: {target}: no such file or directory.")
            for one in matches:
                if isinstance(one.node, Directory):
                    directories.append((one, one.node.names()))
                else:
                    files.append(one)
        if self._as_json:
            listed: dict[str, Any] = {one.path: None for one in files}
            listed |= {one.path: names for one, names in directories}
            self._out_json(listed)
            return
        self._columns([one.names[-1] for one in files])
        has_titles = bool(files) or len(directories) > 1
        is_first = not files
        for one, names in directories:
            if has_titles and names:
                if not is_first:
                    self._out("")
                self._out(f"{one.names[-1] if one.names else '/'}:")
            is_first = is_first and not names
            self._columns(names)

    def _columns(self, names: list[str]) -> None:
        for line in in_columns(names, self._width()):
            self._out(line)

    def _cat(self, arguments: list[str]) -> None:
        values: dict[str, Any] = {}
        for target in _effective(arguments):
            matches = self.find(target)
            if not matches:
                self._fail(f"cat: {target}: No such file or directory.")
            for one in matches:
                if isinstance(one.node, Directory):
                    self._fail(f"cat: {target}: Is a directory")
                elif self._as_json:
                    values[one.path] = one.node.value
                else:
                    for line in one.node.text.split("\n"):
                        self._out(line)
        if self._as_json:
            self._out_json(values)

    def _tree(self, arguments: list[str]) -> None:
        values: dict[str, Any] = {}
        for target in _effective(arguments):
            matches = self.find(target)
            if not matches:
                self._fail(f"tree: {target}: No such file or directory.")
            for one in matches:
                if self._as_json:
                    values[one.path] = _value_of(one.node)
                elif isinstance(one.node, Leaf):
                    self._out(one.node.text)
                else:
                    for line in _lines_of(one.node, ""):
                        self._out(line)
        if self._as_json:
            self._out_json(values)

    def _find(self, arguments: list[str]) -> None:
        listed: list[str] = []
        for target in _effective(arguments):
            matches = self.find(target)
            if not matches:
                self._fail(f"find: {target}: no such file or directory.")
            is_one = len(matches) == 1 and len(matches[0].names) == len(
                paths.parts_of(target, self._working)
            )
            for one in matches:
                # One that was named is told as it was named; of a glob's, which they are.
                start = target if is_one and not _is_glob(target, one) else one.path
                for path in _paths_below(one.node, start):
                    if self._as_json:
                        listed.append(path)
                    else:
                        self._out(path)
        if self._as_json:
            self._out_json(listed)

    def _cd(self, arguments: list[str]) -> None:
        target = arguments[0] if arguments else "/"
        matches = self.find(target)
        if not matches:
            raise CommandError(f"cd: {target}: no such directory.")
        for one in matches:
            if isinstance(one.node, Directory):
                self._working = one.names
            else:
                self._fail(f"cd: {target}: not a directory.")

    def _pwd(self, arguments: list[str]) -> None:
        self._out(paths.path_of(self._working))

    def _exit(self, arguments: list[str]) -> None:
        self.is_over = True

    def _reload(self, arguments: list[str]) -> None:
        before = self.loaded.image.end_offset
        try:
            self.load()
        except (OSError, ValueError) as error:
            raise CommandError(f"reload: {error}; what was read before is still here") from error
        self._has_failed = bool(self.loaded.problems)
        self._out(f"end offset {before} -> {self.loaded.image.end_offset}")

    def _history(self, arguments: list[str]) -> None:
        count = self._typed_count
        if arguments:
            given = _number(arguments[0])
            if given is None:
                raise _usage(
                    f"argument numEntriesToShow: could not convert '{arguments[0]}' to Integer"
                )
            count = max(given, 0)
        kept = len(self.history)
        first = max(kept - count, 0)
        for at, line in enumerate(islice(self.history, first, None), first):
            self._out(f"{self._typed_count - kept + at:5d}  {line}")

    def _man(self, arguments: list[str]) -> None:
        command = COMMANDS.get(arguments[0])
        if command is None:
            raise CommandError(
                f"man: unknown command {arguments[0]}. Type help to get a list of commands."
            )
        self._out(f"{command.name}: {command.description}")
        self._out("")
        self._out(f"usage: {command.usage}")
        if command.arguments is not None:
            name, description, _, _ = command.arguments
            self._out("")
            self._out("positional arguments:")
            self._out(f"  {name:22} {description}")
        if command.has_json:
            self._out("")
            self._out("optional arguments:")
            self._out(f"  {JSON_OPTION:22} Report as JSON.")

    def _help(self, arguments: list[str]) -> None:
        self._out("The metadata shell. Paths may have globs; Tab completes them.")
        self._out("")
        for command in COMMANDS.values():
            self._out(f"  {command.name:8} {command.description}")

    def complete(self, line: str) -> tuple[int, list[tuple[str, str]]]:
        """Return what the last word of a line may become: where it begins, and (word, name) pairs.

        The word is written so that it can be typed, the name is as it is; a directory's word ends
        in a slash.
        """
        words, last, start = _words_so_far(line)
        if not words or words == ["man"]:
            return start, [(name, name) for name in COMMANDS if name.startswith(last)]
        command = COMMANDS.get(words[0])
        if command is None or command.arguments is None or not command.is_of_paths:
            return start, []
        above, typed = _parent_of(last)
        within = next(iter(self.find(above or ".")), None)
        if within is None or not isinstance(within.node, Directory):
            return start, []
        offered: list[tuple[str, str]] = []
        for name in within.node.names():
            written = paths.escape(name)
            if written.startswith(typed) or name.startswith(typed):
                is_directory = isinstance(within.node.child(name), Directory)
                word = shlex.quote(above + written) if _needs_quotes(written) else above + written
                offered.append((f"{word}/" if is_directory else word, name))
        return start, offered


def _usage(text: str) -> CommandError:
    return CommandError(text, Status.WRONG_USAGE)


def _effective(arguments: list[str]) -> list[str]:
    return [each for each in arguments if each] or ["."]


def _number(word: str) -> int | None:
    return int(word) if _NUMBER.fullmatch(word) else None


def _is_glob(target: str, match: paths.Found) -> bool:
    """Whether a target is another name than that of what it found, by its last part."""
    last = paths.parts_of(target, ())[-1:]
    return bool(last) and bool(match.names) and last[0] not in (
        match.names[-1], paths.escape(match.names[-1])
    )  # fmt: skip


def _lines_of(directory: Directory, indent: str) -> Iterator[str]:
    for name in directory.names():
        node = directory.child(name)
        yield f"{indent}{name}:"
        if isinstance(node, Directory):
            yield from _lines_of(node, indent + _INDENT)
        elif node is not None:
            yield f"{indent}{_INDENT}{node.text}"


def _value_of(node: Node) -> Any:
    if isinstance(node, Leaf):
        return node.value
    children = ((name, node.child(name)) for name in node.names())
    return {name: _value_of(child) for name, child in children if child is not None}


def _paths_below(node: Node, path: str) -> Iterator[str]:
    yield path
    if isinstance(node, Directory):
        for name in node.names():
            child = node.child(name)
            if child is not None:
                yield from _paths_below(child, f"{path.rstrip('/')}/{paths.escape(name)}")


def in_columns(names: Sequence[str], width: int | None) -> Iterable[str]:
    """Return lines with names in as many columns as fit in ``width``; sorted down the columns."""
    if width is None or not names:
        return names
    for count in range(min(len(names), width // (_GAP + 1)), 1, -1):
        rows = -(-len(names) // count)
        columns = [names[at : at + rows] for at in range(0, len(names), rows)]
        widths = [max(map(len, column)) for column in columns]
        if sum(widths) + _GAP * (len(columns) - 1) <= width:
            return [
                "".join(
                    column[row].ljust(size + _GAP)
                    for column, size in zip(columns, widths, strict=True)
                    if row < len(column)
                ).rstrip()
                for row in range(rows)
            ]
    return names


def _words_so_far(line: str) -> tuple[list[str], str, int]:
    """Return the words of a line before its last, what there is of the last, and where it begins.

    As ``shlex.split`` has them, but a quote may still be open, or a backslash the end.
    """
    words: list[str] = []
    word, start, quote, is_word = "", len(line), "", False
    letters = iter(enumerate(line))
    for at, letter in letters:
        if not quote and letter.isspace():
            if is_word:
                words.append(word)
            word, is_word = "", False
            continue
        if not is_word:
            start, is_word = at, True
        if letter == quote:
            quote = ""
        elif letter in "'\"" and not quote:
            quote = letter
        elif letter == "\\" and quote != "'":
            _, following = next(letters, (0, ""))
            word += following if not quote or following in ('"', "\\") else f"\\{following}"
        else:
            word += letter
    return words, word, start if is_word else len(line)


def _parent_of(path: str) -> tuple[str, str]:
    """Return a path up to and with its last slash that parts names, and the rest."""
    end = len(path)
    while (at := path.rfind("/", 0, end)) >= 0:
        before = path[:at]
        if (at - len(before.rstrip("\\"))) % 2 == 0:
            return path[: at + 1], path[at + 1 :]
        end = at
    return "", path


def _needs_quotes(word: str) -> bool:
    """Whether a line cannot have a word as it is."""
    return not word.isprintable() or any(letter in " '\"\\" for letter in word)
