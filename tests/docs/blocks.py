"""It finds code blocks of Markdown pages; a hidden comment before a block says how to run it.

    <!-- test
    given: oncelog topics create orders
    until printed: 42
    -->
    ```python
    ...
    ```

A block that readers need not see stands in a comment itself, ``<!-- hidden``, after its
instructions.

A block is named by its language, which it must have:

``console``
    commands after ``$ `` and, below each, what it prints. Run in the page's one bash.
``sh``
    a script for that bash.
``python``
    run in the page's one namespace, ``await`` allowed; a whole program (one that calls
    ``asyncio.run``) in a namespace of its own.
``toml``, ``yaml``, ``json``, ``csv``, ``sql``, ``ini``, ``dockerfile``
    a file, written under the name that ``file:`` gives; without a name it is only read.
``text``
    what the block before it printed.

Instructions, one a line, longer ones indented on the lines below:

``given``, ``then``
    commands before and after the block; all must succeed.
``broker``
    a broker with this id is started before the block, as one more of the page's cluster.
``before``, ``after``
    Python before and after a Python block, in its namespace and its loop.
``until``, ``until printed``
    the block does not end by itself: it is interrupted (Ctrl+C) when the command succeeds, or when
    the text has been printed.
``goes on``
    the block runs on beside the blocks that follow, which begin when this command succeeds.
``stops``
    before this block, Ctrl+C ends the one that goes on; so does the end of the page.
``any order``
    lines may come in any order (say why).
``settles``
    a command that shows something else is asked again for some seconds (say what settles).
``exit``
    the exit code of a console block's last command, if not 0.
``varies``
    a regular expression for what is different in each run.
``file``
    the name under which the block is saved.
``in``
    ``repository``: run in the checkout.
``elsewhere``
    run by the test that is named, and not with its page.
``rehearsed``
    only ``make -n``: why.
``not run``
    not run at all: why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["FILES", "Block", "PageError", "blocks_of"]

FILES = ("toml", "yaml", "json", "csv", "sql", "ini", "dockerfile")
LANGUAGES = ("console", "sh", "python", "text", *FILES)
INSTRUCTIONS = (
    "given",
    "then",
    "broker",
    "before",
    "after",
    "until",
    "until printed",
    "goes on",
    "stops",
    "any order",
    "settles",
    "exit",
    "varies",
    "file",
    "in",
    "elsewhere",
    "rehearsed",
    "not run",
)

FENCE = re.compile(r"^( *)(`{3,}|~{3,})\s*([^`]*)$")
INSTRUCTION = re.compile(r"^([a-z]+(?: [a-z]+)?):\s*(.*)$")


class PageError(AssertionError):
    """A page cannot be tested as it is written; the text begins with its name and line."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block has a place, a language, a text, and instructions."""

    page: str
    line: int
    """Line of the opening fence, from 1."""
    language: str
    text: str
    instructions: dict[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """Return ``page:line``, as editors understand it."""
        return f"{self.page}:{self.line}"

    def get(self, instruction: str) -> str:
        return self.instructions.get(instruction, "")


def blocks_of(page: str, markdown: str) -> list[Block]:
    """Return every code block of a page, in order.

    :raises PageError: a block without a language or with one that nobody runs, one that is indented
        and not fenced, an instruction that does not exist, or one that is before no block.
    """
    return list(_Parser(page, markdown.splitlines()).blocks())


class _Parser:
    def __init__(self, page: str, lines: list[str]) -> None:
        self.page = page
        self.lines = lines
        self.at = 0
        self.pending: dict[str, str] = {}
        self.pending_line = 0

    def blocks(self) -> Iterator[Block]:
        blank = True
        listed = False
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if line.strip() == "<!-- test":
                self.comment("-->")
            elif line.strip() == "<!-- hidden":
                yield self.hidden()
            elif FENCE.match(line):
                yield self.block()
            else:
                if line.strip() and self.pending:
                    raise self.error(
                        "instructions must stand right before a block", self.pending_line
                    )
                if re.match(r"^(\* |- |\d+\. )", line):
                    listed = True
                elif line.strip() and not line.startswith(" "):
                    listed = False
                if blank and line.startswith("    ") and not listed:
                    raise self.error("an indented block: fence it, so that it is tested")
                blank = not line.strip() or line.startswith("    ")
            self.at += 1
        if self.pending:
            raise self.error("instructions must stand right before a block", self.pending_line)

    def hidden(self) -> Block:
        self.comment("```")
        found = self.block()
        self.at += 1
        if self.at == len(self.lines) or self.lines[self.at].strip() != "-->":
            raise self.error("a hidden comment ends right after its block")
        return found

    def comment(self, end: str) -> None:
        self.pending_line = self.at
        opening = self.lines[self.at]
        indent = opening[: len(opening) - len(opening.lstrip())]  # in a list
        name = ""
        while True:
            self.at += 1
            if self.at == len(self.lines):
                raise self.error("the comment does not end", self.pending_line)
            line = self.lines[self.at].removeprefix(indent)
            if line.startswith(end):
                return
            found = INSTRUCTION.match(line)
            if found and found[1] in INSTRUCTIONS:
                name = found[1]
                self.pending[name] = found[2]
            elif name and (not line.strip() or line.startswith("    ")):
                self.pending[name] = f"{self.pending[name]}\n{line[4:]}".removeprefix("\n")
            else:
                raise self.error(f"no such instruction: {line.strip()!r}")

    def block(self) -> Block:
        start = self.at
        opening = FENCE.match(self.lines[start])
        assert opening is not None
        indent, fence, language = opening.groups()
        text = []
        while True:
            self.at += 1
            if self.at == len(self.lines):
                raise self.error("the block does not end", start)
            line = self.lines[self.at]
            if line.strip() == fence:
                break
            text.append(line.removeprefix(indent))
        instructions, self.pending = self.pending, {}
        if language.strip() not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            raise self.error(f"language {language.strip()!r} is none of {known}", start)
        return Block(self.page, start + 1, language.strip(), "\n".join(text) + "\n", instructions)

    def error(self, reason: str, line: int | None = None) -> PageError:
        return PageError(f"{self.page}:{(self.at if line is None else line) + 1}: {reason}")
