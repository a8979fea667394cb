"""Write the classes of Kafka's messages from Kafka's own schemas.

    python tools/kafka_messages.py                    write the classes
    python tools/kafka_messages.py --check            say which are out of date, exit 1 if any
    python tools/kafka_messages.py --from-jar FILE    take the schemas anew from Kafka's jar

The schemas are files of Apache Kafka, under the Apache License 2.0, as they lie in the jar
``org.apache.kafka:kafka-clients:4.1.0`` of Maven Central, below ``common/message``. Those of the
APIs that are spoken here are kept in ``tools/kafka_schemas``, unchanged. An API is added by its
name in ``APIS``, and by taking the schemas anew. The classes stand in
``broker/oncelog_broker/kafka/wire/messages``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.generated import write_or_check  # noqa: E402

SCHEMAS = ROOT / "tools/kafka_schemas"
MESSAGES = ROOT / "broker/oncelog_broker/kafka/wire/messages"
DECLARATION = "oncelog_broker.kafka.wire.declaration"

APIS = (
    "SaslHandshake", "SaslAuthenticate", "DescribeAcls", "CreateAcls", "DeleteAcls",
    "DescribeClientQuotas", "AlterClientQuotas", "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch", "FindCoordinator",
    "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "DescribeGroups", "ListGroups",
    "ApiVersions", "CreateTopics", "DeleteTopics", "InitProducerId",
    "CreatePartitions", "DeleteRecords", "ElectLeaders", "DeleteGroups", "OffsetDelete",
    "DescribeConfigs", "IncrementalAlterConfigs",
    "DescribeCluster", "DescribeTopicPartitions", "DescribeLogDirs", "OffsetForLeaderEpoch",
    "AlterPartitionReassignments", "ListPartitionReassignments", "AlterReplicaLogDirs",
    "EndTxn", "TxnOffsetCommit", "WriteTxnMarkers", "DescribeProducers", "DescribeTransactions",
    "ListTransactions", "AddPartitionsToTxn", "AddOffsetsToTxn",
)  # fmt: skip
DATA = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
"""These travel within the opaque bytes of groups."""

HINTS = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "uint32", "int64"), "int"),
    "bool": "bool", "string": "str", "bytes": "bytes", "uuid": "bytes", "records": "Span",
    "float64": "float",
}  # fmt: skip
DEFAULTS = {
    "bool": "False", "str": '""', "bytes": 'b""', "float": "0.0", "int": "0", "Span": "None",
}  # fmt: skip
NO_UUID = "NO_UUID"
LINE_MAX = 100
SECRETS = {"AuthBytes", "SaltedPassword"}
"""These fields may be a password, or as good as one: they are in no ``repr`` [S7]."""


def schema_of(name: str) -> dict[str, Any]:
    """Return one schema; its comments, which JSON does not know, are left out."""
    text = (SCHEMAS / f"{name}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return loaded


def snake(name: str) -> str:
    """Return a name of Kafka as one of Python."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def versions_in(text: str) -> tuple[int | None, int | None]:
    """Return (first, last) of a range of Kafka's; last None is "and later", first None is none."""
    if text == "none":
        return None, None
    if text.endswith("+"):
        return int(text[:-1]), None
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def docstring(sentence: str) -> list[str]:
    """Return the docstring of a class, in two lines where it is too long for one."""
    line = f'    """{sentence}"""'
    if len(line) <= LINE_MAX:
        return [line]
    first, comma, rest = sentence.rpartition(", ")
    return [f'    """{first}{comma.rstrip()}', f'    {rest}"""']


class Message:
    """It writes the classes of one schema."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema
        self.name: str = schema["name"]
        self.api = re.sub(r"(Request|Response)$", "", self.name)
        self.common = {each["name"]: each for each in schema.get("commonStructs", ())}

    def class_name(self, struct: str) -> str:
        """Return the name of a class within this message; no two messages have one in common."""
        for prefix in (self.name, self.api):
            struct = re.sub(rf"^{prefix}(?=[A-Z]|$)", "", struct)
        return f"Kafka{self.name}{struct}"

    def structs(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        """Yield (name, fields) of every structure, inner ones first."""
        yield from self._structs_in(self.schema["fields"], set())

    def _structs_in(
        self, fields: list[dict[str, Any]], seen: set[str]
    ) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for field in fields:
            kind = field["type"].removeprefix("[]")
            inner = field.get("fields") or self.common.get(kind, {}).get("fields")
            if inner and kind not in seen:
                seen.add(kind)
                yield from self._structs_in(inner, seen)
                yield kind, inner

    def field(self, field: dict[str, Any]) -> str:
        """Return the line that declares one field."""
        array = field["type"].startswith("[]")
        kind = field["type"].removeprefix("[]")
        hint = HINTS.get(kind) or self.class_name(kind)
        first, last = versions_in(field["versions"])
        assert field.get("taggedVersions", field["versions"]) == field["versions"], field
        words = [f'"{"[]" if array else ""}{kind if kind in HINTS else "struct"}"', str(first)]
        words += [] if last is None else [str(last)]
        nullable = versions_in(field.get("nullableVersions", "none"))[0]
        tag = field.get("tag")
        default = self._default(field, hint, array)
        words.append(default)
        optional = nullable is not None or default == "default=None"
        words += [] if nullable is None else [f"nullable={nullable}"]
        words += [] if tag is None else [f"tag={tag}"]
        words += ["ignorable=True"] if field.get("ignorable") else []
        words += ["secret=True"] if field["name"] in SECRETS else []
        hint = f"list[{hint}]" if array else hint
        hint += " | None" if optional else ""
        return f"    {snake(field['name'])}: {hint} = wire({', '.join(words)})"

    @staticmethod
    def _default(field: dict[str, Any], hint: str, array: bool) -> str:
        given = str(field["default"]) if "default" in field else None
        if given == "null":
            return "default=None"
        if array:
            return "factory=list"
        if hint not in DEFAULTS:
            # A structure with a tag is left out while nobody sets it; Kafka's own default is an
            # empty one, which means the same.
            absent = "tag" in field or "nullableVersions" in field
            return "default=None" if absent else f"factory={hint}"
        if field["type"] == "uuid":
            return f"default={NO_UUID}"
        if given is None or hint == "Span":
            return f"default={DEFAULTS[hint]}"
        if hint == "bool":
            return f"default={given.capitalize()}"
        if hint == "int":
            return f"default={int(given, 0)}"
        return f'default="{given}"'

    def text(self, api_key: int | None = None, response: str = "") -> str:
        """Return all classes of the message."""
        parts = []
        for name, fields in self.structs():
            lines = ["@dataclass(slots=True)", f"class {self.class_name(name)}:"]
            lines += [*docstring(f"It is part of Kafka's {self.name}, where it is {name}."), ""]
            parts.append("\n".join([*lines, *map(self.field, fields)]))
        first, last = versions_in(self.schema["validVersions"])
        flexible, _ = versions_in(self.schema["flexibleVersions"])
        base = "KafkaMessage" if api_key is None else "KafkaRequest"
        lines = ["@dataclass(slots=True)", f"class {self.class_name('')}({base}):"]
        lines += [f'    """It is Kafka\'s {self.name}."""', ""]
        if api_key is not None:
            lines += [f"    api_key: ClassVar[int] = {api_key}"]
            lines += [f"    response: ClassVar[type[KafkaMessage]] = {response}"]
        lines += [f"    versions: ClassVar[tuple[int, int]] = ({first}, {last})"]
        lines += [
            f"    flexible_since: ClassVar[int] = {'NEVER' if flexible is None else flexible}"
        ]
        parts.append("\n".join([*lines, "", *map(self.field, self.schema["fields"])]))
        return "\n\n\n".join(parts)


def module(title: str, body: str) -> str:
    """Return the text of one module, with the imports that its body needs."""
    names = ["KafkaMessage", "KafkaRequest", "NEVER", NO_UUID, "wire"]
    used = [name for name in names if re.search(rf"\b{name}\b", body)]
    imports = [
        "from __future__ import annotations",
        "from dataclasses import dataclass\nfrom typing import ClassVar",
        f"from {DECLARATION} import {', '.join(used)}",
    ]
    if "Span" in body:
        imports[-1] += "\nfrom oncelog_protocol.schema import Span"
    note = "Generated by tools/kafka_messages.py from the schemas of Apache Kafka. Do not edit."
    text = f'"""{title}\n\n{note}\n"""\n\n' + "\n\n".join(imports) + "\n\n\n" + body + "\n"
    return formatted(text)


def formatted(text: str) -> str:
    """Return a module as the formatter of the house writes it, its imports in order."""
    ruff = (sys.executable, "-m", "ruff")
    as_if = ("--stdin-filename", str(MESSAGES / "message.py"), "-")
    for step in (("check", "--quiet", "--fix-only", "--select", "I"), ("format", "--quiet")):
        done = subprocess.run(
            [*ruff, *step, *as_if], cwd=ROOT, input=text, capture_output=True, text=True, check=True
        )
        text = done.stdout
    return text


def api_module(api: str) -> str:
    """Return the module of one API: its answer, then its request."""
    request, response = Message(schema_of(f"{api}Request")), Message(schema_of(f"{api}Response"))
    key = request.schema["apiKey"]
    body = [response.text(), request.text(key, response.class_name(""))]
    return module(
        f"Messages of Kafka's {api} (API key {key}) are declared here.", "\n\n\n".join(body)
    )


def table_module() -> str:
    """Return the module that lists all requests."""
    imports = [
        f"from oncelog_broker.kafka.wire.messages.{snake(api)} import Kafka{api}Request"
        for api in sorted(APIS)
    ]
    listed = ", ".join(f"Kafka{api}Request" for api in APIS)
    doc = """The classes of all requests of Kafka that are known here stand in one table.

Generated by tools/kafka_messages.py. Do not edit."""
    return formatted(
        f'"""{doc}\n"""\n\nfrom __future__ import annotations\n\n'
        f"from {DECLARATION} import KafkaRequest\n" + "\n".join(imports) + "\n\n"
        f"REQUESTS: dict[int, type[KafkaRequest]] = {{each.api_key: each for each in ({listed})}}\n"
        '"""They stand here by API key."""\n'
    )


def outputs() -> dict[Path, str]:
    """Return the content of each generated file."""
    files = {MESSAGES / f"{snake(api)}.py": api_module(api) for api in APIS}
    for name in DATA:
        title = f"Kafka's {name} is declared here."
        files[MESSAGES / f"{snake(name)}.py"] = module(title, Message(schema_of(name)).text())
    return {**files, MESSAGES / "table.py": table_module()}


def take_schemas(jar: Path) -> None:
    """Keep the schemas of ``APIS`` and ``DATA`` as they lie in Kafka's jar."""
    names = [f"{api}{half}" for api in APIS for half in ("Request", "Response")]
    with zipfile.ZipFile(jar) as archive:
        for name in (*names, *DATA):
            text = archive.read(f"common/message/{name}.json")
            (SCHEMAS / f"{name}.json").write_bytes(text)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--from-jar"]:
        take_schemas(Path(sys.argv[2]))
        sys.argv[1:] = []
    sys.exit(write_or_check(__doc__, outputs))
