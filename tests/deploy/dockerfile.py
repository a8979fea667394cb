"""It reads the Dockerfile: stages, and their instructions in order.

Only what the file uses is understood; anything else is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["Instruction", "Stage", "context_files", "parse"]

KNOWN = {
    "ARG",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "RUN",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
}


@dataclass(frozen=True)
class Instruction:
    """An instruction keeps its flags (``--mount=...``) apart from the rest."""

    keyword: str
    flags: dict[str, str]
    rest: str

    def words(self) -> list[str]:
        """Return the rest, which is a JSON list or is split as a shell does."""
        if self.rest.startswith("["):
            parsed = json.loads(self.rest)
            assert isinstance(parsed, list)
            return [str(word) for word in parsed]
        return shlex.split(self.rest)

    def pairs(self) -> dict[str, str]:
        """Return ``KEY=VALUE ...`` of ENV and LABEL."""
        return dict(word.split("=", 1) for word in self.words())


@dataclass(frozen=True)
class Stage:
    """A stage is what follows one FROM."""

    name: str
    base: str
    instructions: tuple[Instruction, ...]

    def last(self, keyword: str) -> Instruction:
        """Return the instruction of this keyword that counts."""
        return [i for i in self.instructions if i.keyword == keyword][-1]


def parse(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile, build arguments at their defaults."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Instruction]]] = []
    for instruction in _instructions(path.read_text(encoding="utf-8")):
        if instruction.keyword == "ARG" and not stages:
            name, _, default = instruction.rest.partition("=")
            arguments[name] = default
        elif instruction.keyword == "FROM":
            base, *named = instruction.rest.split()
            for name, value in arguments.items():
                base = base.replace("${" + name + "}", value)
            stages.append((named[1] if named else "", base, []))
        else:
            assert instruction.keyword != "ARG", "arguments of stages are not understood here"
            stages[-1][2].append(instruction)
    return [Stage(name, base, tuple(found)) for name, base, found in stages]


def _instructions(text: str) -> list[Instruction]:
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        keyword, _, rest = line.partition(" ")
        assert keyword in KNOWN, f"an instruction that is not understood here: {line!r}"
        flags: dict[str, str] = {}
        rest = rest.strip()
        while keyword in ("COPY", "HEALTHCHECK", "RUN") and rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            name, _, value = flag.removeprefix("--").partition("=")
            flags[name] = value
            rest = rest.strip()
        found.append(Instruction(keyword, flags, rest))
    return found


def context_files(root: Path, ignore: Path) -> list[Path]:
    """Return the files below ``root`` that .dockerignore lets through: as Docker has it, the last
    pattern that fits a file or a folder above it decides."""
    rules = []
    for line in ignore.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            keep = line.startswith("!")
            rules.append((keep, _pattern(line.removeprefix("!"))))
    kept_tops = {p.name for p in root.iterdir() if _is_kept(PurePosixPath(p.name), rules)}
    return [
        path
        for top in sorted(kept_tops)
        for path in ([root / top] if (root / top).is_file() else sorted((root / top).rglob("*")))
        if path.is_file() and _is_kept(PurePosixPath(path.relative_to(root).as_posix()), rules)
    ]


def _is_kept(path: PurePosixPath, rules: list[tuple[bool, re.Pattern[str]]]) -> bool:
    kept = True
    names = [path, *path.parents]
    for keep, pattern in rules:
        if any(pattern.fullmatch(str(name)) for name in names if str(name) != "."):
            kept = keep
    return kept


def _pattern(glob: str) -> re.Pattern[str]:
    """Translate Go's filepath.Match, with ``**/`` for any folders."""
    translated = ""
    for part in re.split(r"(\*\*/|\*|\[[^]]*\]|\?)", glob):
        translated += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(
            part, part if part.startswith("[") else re.escape(part)
        )
    return re.compile(translated)
