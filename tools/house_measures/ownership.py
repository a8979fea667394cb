"""The measure finds code that assigns another module's attributes, or reads its private ones.

The types come from mypy, so an object is known whatever the variable is called. These are allowed:

- an object of a class of the same module;
- ``self`` and ``cls``, also where a base class of another module declares the attribute;
- an object that the function itself has made, by calling its class or ``dataclasses.replace``;
- a message under construction (the classes of ``oncelog_protocol.messages``);
- an attribute of a library's object that its documentation says one sets;
- what Python documents in spite of its underscore (``os._exit``, ``NamedTuple._replace``).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mypy import build, nodes, types, version
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.options import Options

_MESSAGES = "oncelog_protocol.messages"
_NOT_CHILDREN = frozenset(
    ("node", "info", "type", "unanalyzed_type", "original_def", "analyzed", "typ", "metaclass_type",
     "mro", "special_alias", "fallback", "expanded", "deco_line", "type_args", "related")
)  # fmt: skip
_PLAIN = frozenset(
    ("__class__", "__match_args__", "line", "column", "end_line", "end_column", "name", "fullname",
     "_name", "_fullname", "kind", "arg_kinds", "arg_names", "docstring", "type_guard", "type_is",
     "def_var", "has_surrogates", "pos_only")
)  # fmt: skip
"""Attributes that hold no code, as those with ``is_`` before them: to ask for each takes time."""
_NO_CODE = (nodes.TypeInfo, nodes.MypyFile, nodes.Var)
_DOCUMENTED = frozenset(
    ("os._exit", "sys._getframe", "sys._current_frames", "_asdict", "_replace", "_fields")
)
_MAKERS = frozenset(("dataclasses.replace", "copy.copy", "copy.deepcopy"))
_TYPES = "mypy"
_SETTERS = frozenset(("setattr", "delattr", "__setattr__", "__delattr__"))


@dataclass(frozen=True, order=True)
class Finding:
    """A finding is one place where a module reaches into another one's object."""

    module: str
    line: int
    text: str
    """``object.attribute``."""
    owner: str
    """The class that declares the attribute, or the module for a module's own name."""

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.text} (of {self.owner})"

    @property
    def key(self) -> str:
        """Return what names it in a list of exceptions, whichever line it is on."""
        return f"{self.module}: {self.text}"


@dataclass(frozen=True)
class Report:
    """A report holds what was found in some modules."""

    writes: list[Finding] = field(default_factory=list)
    private_reads: list[Finding] = field(default_factory=list)
    unknown: list[Finding] = field(default_factory=list)
    """Writes to an object whose type mypy does not know."""

    @property
    def all(self) -> list[Finding]:
        """Return every finding, of whatever kind."""
        return [*self.writes, *self.private_reads, *self.unknown]

    def without(self, exceptions: Mapping[str, str]) -> Report:
        """Return what is left when the exceptions, by ``Finding.key``, are taken out."""
        kept = [
            [found for found in kind if found.key not in exceptions]
            for kind in (self.writes, self.private_reads, self.unknown)
        ]
        return Report(*kept)


def measure(
    root: Path, rooms: list[str], packages: tuple[str, ...], *, cache: Path | None = None
) -> Report:
    """Check all modules of ``packages``, found in the folders ``rooms`` under ``root``.

    :param cache: a folder that remembers the modules, so that the next call looks only at those
        that mypy has to check again; None: every module is looked at.
    :raises RuntimeError: the code has type errors.
    """
    # As the command does it, for what it remembers serves both (``check_types``).
    paths = [str(root / room) for room in rooms]
    sources, options = process_options([f"--config-file={root / 'pyproject.toml'}", *paths])
    options.export_types = options.preserve_asts = True
    options.incremental = cache is not None
    if cache is None:
        return _joined(_look(sources, packages, options, {}))
    with _locked(cache / _version()) as folder:
        return _joined(_remembered(sources, packages, options, folder))


def remembered_types(cache: Path) -> Path:
    """Return the folder in ``cache`` where mypy remembers types."""
    return cache / _version() / _TYPES


def _remembered(
    sources: list[BuildSource], packages: tuple[str, ...], options: Options, folder: Path
) -> dict[str, Report]:
    """Return the findings by module, and keep them in ``folder`` beside what mypy keeps there."""
    kept, types_folder = folder / "findings.json", folder / _TYPES
    options.cache_dir = str(types_folder)
    known = _read(kept)
    if not known:
        shutil.rmtree(types_folder, ignore_errors=True)
    # Without the file the modules that mypy checks in this call would be taken for known ones.
    kept.unlink(missing_ok=True)
    found = _look(sources, packages, options, known)
    kept.write_text(json.dumps({name: asdict(report) for name, report in found.items()}))
    return found


def _look(
    sources: list[BuildSource],
    packages: tuple[str, ...],
    options: Options,
    known: Mapping[str, Report],
) -> dict[str, Report]:
    """Return the findings of every module; ``known`` are those of modules that did not change."""
    result = build.build(sources, options)
    if result.errors:
        raise RuntimeError("make types fails:\n" + "\n".join(result.errors))
    found = {}
    for source in sources:
        name = source.module
        if not name.startswith(packages):
            continue
        if name in result.manager.rechecked_modules or name not in known:
            found[name] = Report()
            _Module(name, packages, result.types, found[name]).look(result.files[name])
        else:
            found[name] = known[name]
    return found


def _joined(reports: Mapping[str, Report]) -> Report:
    return Report(
        *(
            sorted(found for report in reports.values() for found in getattr(report, kind.name))
            for kind in fields(Report)
        )
    )


def _read(path: Path) -> dict[str, Report]:
    try:
        kept = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {
        name: Report(**{kind: [Finding(**each) for each in found] for kind, found in kinds.items()})
        for name, kinds in kept.items()
    }


def _version() -> str:
    """Return a name for what findings depend on beside the code: this module and mypy."""
    text = Path(__file__).read_bytes() + version.__version__.encode()
    return hashlib.sha256(text).hexdigest()[:16]


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Hold a folder against other processes that measure the same checkout."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


class _Module:
    def __init__(
        self, name: str, packages: tuple[str, ...], known: dict[Any, types.Type], report: Report
    ) -> None:
        self._name = name
        self._packages = packages
        self._types = known
        self._report = report

    def look(self, file: nodes.MypyFile) -> None:
        for node in _walk(file):
            if isinstance(node, nodes.ImportFrom):
                self._look_at_import(node)
        self._look_inside(file, frozenset())

    def _look_inside(self, scope: nodes.Node, made: frozenset[str]) -> None:
        """``made`` are the local names that hold what the function has made."""
        for node in _walk(scope, into_functions=False):
            if node is not scope and isinstance(node, nodes.FuncItem):
                self._look_inside(node, made | _made_in(node))
            elif isinstance(node, nodes.AssignmentStmt):
                for lvalue in node.lvalues:
                    self._look_at_targets(lvalue, made)
            elif isinstance(node, nodes.OperatorAssignmentStmt):
                self._look_at_targets(node.lvalue, made)
            elif isinstance(node, nodes.DelStmt):
                self._look_at_targets(node.expr, made)
            elif isinstance(node, nodes.ForStmt):
                self._look_at_targets(node.index, made)
            elif isinstance(node, nodes.WithStmt):
                for target in node.target:
                    if target is not None:
                        self._look_at_targets(target, made)
            elif isinstance(node, nodes.MemberExpr) and _is_private(node.name):
                self._look_at_private(node)
            elif isinstance(node, nodes.CallExpr) and _name(node.callee) in _SETTERS:
                self._look_at_setter(node, made)

    def _look_at_import(self, node: nodes.ImportFrom) -> None:
        for name, _ in node.names:
            if _is_private(name):
                found = Finding(self._name, node.line, name, node.id)
                self._report.private_reads.append(found)

    def _look_at_targets(self, target: nodes.Expression, made: frozenset[str]) -> None:
        if isinstance(target, nodes.TupleExpr | nodes.ListExpr):
            for item in target.items:
                self._look_at_targets(item, made)
        elif isinstance(target, nodes.StarExpr):
            self._look_at_targets(target.expr, made)
        elif isinstance(target, nodes.MemberExpr) and not _is_allowed(target.expr, made):
            text = f"{_text(target.expr)}.{target.name}"
            self._note_write(target.line, text, self._owners(target))

    def _look_at_setter(self, node: nodes.CallExpr, made: frozenset[str]) -> None:
        """Look at ``setattr(target, ...)`` or ``object.__setattr__(target, ...)``."""
        if isinstance(node.callee, nodes.MemberExpr) and _text(node.callee.expr) != "object":
            return
        base = node.args[0]
        if not _is_allowed(base, made):
            text = f"{_name(node.callee)}({_text(base)})"
            self._note_write(node.line, text, _classes(self._types.get(base)))

    def _note_write(self, line: int, text: str, owners: list[nodes.TypeInfo] | None) -> None:
        """Note a write to an object of these classes; None: nobody knows of which."""
        if owners is None:
            self._report.unknown.append(Finding(self._name, line, text, "?"))
        for owner in owners or ():
            module = owner.module_name
            ours = module.startswith(self._packages) and not module.startswith(_MESSAGES)
            if ours and module != self._name:
                self._report.writes.append(Finding(self._name, line, text, owner.fullname))

    def _look_at_private(self, node: nodes.MemberExpr) -> None:
        base = node.expr
        if _is_own(base) or _DOCUMENTED & {node.name, f"{_text(base)}.{node.name}"}:
            return
        if isinstance(base, nodes.RefExpr) and isinstance(base.node, nodes.MypyFile):
            self._report.private_reads.append(self._finding(node, base.node.fullname))
            return
        for owner in self._owners(node) or ():
            if owner.module_name != self._name:
                self._report.private_reads.append(self._finding(node, owner.fullname))

    def _finding(self, node: nodes.MemberExpr, owner: str) -> Finding:
        return Finding(self._name, node.line, f"{_text(node.expr)}.{node.name}", owner)

    def _owners(self, node: nodes.MemberExpr) -> list[nodes.TypeInfo] | None:
        """Return the classes that declare the attribute, or None for an unknown type."""
        kind = self._types.get(node.expr)
        if kind is None and isinstance(node.expr, nodes.RefExpr):
            declared = node.expr.node
            kind = declared.type if isinstance(declared, nodes.Var) else None
            if isinstance(declared, nodes.TypeInfo):
                return [_declaring(declared, node.name)]
        infos = _classes(kind)
        if infos is None:
            return None
        return [_declaring(info, node.name) for info in infos]


def _classes(kind: types.Type | None) -> list[nodes.TypeInfo] | None:
    """Return the classes of an object of this type; None for Any."""
    if kind is None:
        return []  # code that mypy knows to be unreachable
    kind = types.get_proper_type(kind)
    if isinstance(kind, types.AnyType):
        return None
    if isinstance(kind, types.UnionType):
        found = [_classes(item) for item in kind.items]
        return [info for infos in found for info in infos or ()]
    if isinstance(kind, types.TypeType):
        return _classes(kind.item)
    if isinstance(kind, types.TypeVarType):
        return _classes(kind.upper_bound)
    if isinstance(kind, types.TupleType):
        return [kind.partial_fallback.type]
    if isinstance(kind, types.CallableType):
        return [kind.type_object()] if kind.is_type_obj() else [kind.fallback.type]
    if isinstance(kind, types.Instance):
        return [kind.type]
    return []


def _declaring(info: nodes.TypeInfo, name: str) -> nodes.TypeInfo:
    for base in info.mro:
        if name in base.names:
            return base
    return info


def _made_in(function: nodes.FuncItem) -> frozenset[str]:
    found: set[str] = set()
    for node in _walk(function, into_functions=False):
        if isinstance(node, nodes.AssignmentStmt) and _makes(node.rvalue):
            found.update(item.name for item in node.lvalues if isinstance(item, nodes.NameExpr))
    return frozenset(found)


def _makes(expression: nodes.Expression) -> bool:
    if not isinstance(expression, nodes.CallExpr):
        return False
    callee = expression.callee
    if isinstance(callee, nodes.IndexExpr):
        callee = callee.base
    if isinstance(callee, nodes.MemberExpr) and callee.name == "__new__":
        return True
    if not isinstance(callee, nodes.RefExpr):
        return False
    return isinstance(callee.node, nodes.TypeInfo) or callee.fullname in _MAKERS


def _name(callee: nodes.Expression) -> str:
    return callee.name if isinstance(callee, nodes.NameExpr | nodes.MemberExpr) else ""


def _is_allowed(base: nodes.Expression, made: frozenset[str]) -> bool:
    return _is_own(base) or (isinstance(base, nodes.NameExpr) and base.name in made)


def _is_own(base: nodes.Expression) -> bool:
    if isinstance(base, nodes.SuperExpr):
        return True
    return isinstance(base, nodes.NameExpr) and base.name in ("self", "cls")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _text(node: nodes.Expression) -> str:
    if isinstance(node, nodes.NameExpr):
        return node.name
    if isinstance(node, nodes.MemberExpr):
        return f"{_text(node.expr)}.{node.name}"
    if isinstance(node, nodes.CallExpr):
        return f"{_text(node.callee)}(…)"
    if isinstance(node, nodes.IndexExpr):
        return f"{_text(node.base)}[…]"
    return "…"


def _walk(root: nodes.Node, *, into_functions: bool = True) -> Iterator[nodes.Node]:
    """Yield all statements and expressions under ``root``, itself included.

    With ``into_functions=False`` a function under ``root`` is given, and its body is not.
    """
    todo: list[nodes.Node] = [root]
    seen = set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if node is root or into_functions or not isinstance(node, nodes.FuncItem):
            todo.extend(_children(node))


def _children(node: nodes.Node) -> list[nodes.Node]:
    found: list[nodes.Node] = []
    for name in _child_names(type(node)):
        try:
            value = getattr(node, name)
        except (AttributeError, AssertionError):  # it is computed, and this node has none
            continue
        if isinstance(value, list | tuple):
            _add_nodes_in(value, found)
        elif isinstance(value, nodes.Node) and not isinstance(value, _NO_CODE):
            found.append(value)
    return found


def _add_nodes_in(values: Iterable[object], found: list[nodes.Node]) -> None:
    for value in values:
        if isinstance(value, list | tuple):
            _add_nodes_in(value, found)
        elif isinstance(value, nodes.Node) and not isinstance(value, _NO_CODE):
            found.append(value)


_names: dict[type, tuple[str, ...]] = {}


def _child_names(kind: type) -> tuple[str, ...]:
    if kind not in _names:
        found = {
            name
            for base in kind.__mro__
            for name, value in vars(base).items()
            if type(value).__name__ in ("getset_descriptor", "member_descriptor")
        }
        found -= _NOT_CHILDREN | _PLAIN
        _names[kind] = tuple(sorted(name for name in found if not name.startswith("is_")))
    return _names[kind]
