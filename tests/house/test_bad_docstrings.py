"""The measure of docstrings is tried on first sentences of which one knows the worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.house import generator

MEASURE = generator("house_measures/docstrings")

GOOD = [
    # imperatives
    "Return whether the epoch history differs from the one on disk.",
    "Return (problem, remedy) for a text that no setting may hold, and None for any other.",
    "Wait until ``offset`` is committed, or raise why it will not be.",
    "Hand on the answer, or make one of an error code.",
    "Count a partition whose leader is another one, or gone.",
    "Never write below the log end.",
    "Stop listening.",
    "Stop.",
    "Tell of a run that is stopped, and of one that fails.",
    "Open the connection to a broker.",
    "See ``CoordinatorEngine.write_all``.",
    "Set ``peer`` (another row) beside the row ``name``, if both were measured.",
    "Serve one fetch; answers now, or when there is news, or after ``max_wait_ms``.",
    "Set keys of topics to new values.",
    "Close overdue connections; a silent leader is not waited for.",
    # a subject and a verb
    "It is pending no more; harmless when it was not.",
    "A flusher syncs files, one round at a time.",
    "It serves CreateTopics and CreatePartitions.",
    "This module declares the settings of one broker.",
    "A transactional producer stands in a phase; a table says which may follow.",
    "Errors and time-outs are reported per partition.",
    "A sync failed: what is unsynced now never will be synced.",
    "[D9]: the replicas there stop, and the controller takes their roles from them.",
    "The disk of a directory says where the logs in it begin.",
    "Every order names its controller and all live brokers.",
    "Consumers wait at every partition of two topics; in one of them a transaction is open.",
    "``value`` None resets the key to its default.",
    "All that counted under the broker's registrations is here.",
    "A database connection (PEP 249) has at least this.",
    "The step that moves a leader is retried until the broker answers.",
    "A broker that is about to stop asks to have its leaderships moved.",
    "Told everything again, a broker answers for each replica that it cannot serve.",
    "A client lives on one event loop of one process.",
    "The coordinator refused these partitions of a commit.",
    "An assignor decides which member of a group reads which partitions.",
    "It says what one look found.",
    "These tests read lines from files, pipes and devices.",
    # a clause as the subject, or before the main clause
    "What was synced does not hold.",
    "What a handler returns for the log continues the trace.",
    "Whoever waits for it is told to start over.",
    "When the session has ended, nothing is sent any more.",
    "If there is room, take it.",
    "How a rebalance begins is decided here.",
]

BAD = [
    # no verb at all
    "The settings of one broker.",
    "The settings of one broker: names, types, defaults.",
    "Log lines of the server: names, texts, fields (see ``oncelog_runtime.logs``).",
    "Of one partition's state.",
    "Records taken and not acknowledged (nor failed) yet.",
    "For /config/topics/T and /config/brokers/N.",
    "Serves CreateTopics.",
    "One run of a pipeline.",
    "Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH",
    '``{"orders": [0, 1]}``',
    # verbs of subordinate clauses alone
    "Whether writes are pending.",
    "Whether it is closed, or has failed.",
    "Whether the epoch history is another one than on the disk.",
    "Who is controller, None for nobody, without running for it; ``watch`` fires when it changes.",
    "Whose partitions are offline.",
    "What a caller is told when an append was refused; COORDINATOR_NOT_AVAILABLE by default.",
    "What stood before it came.",
    "What to write.",
    "How many of the producer's remembered batches came after this one.",
    "How a broker starts, stops and recovers.",
    "Where the group that shows the query's progress stands.",
    "Which records of transactions are read.",
    "Which batches belong to transactions that were aborted: by producer, in order.",
    "Of the batches that were sent, those that failed.",
    "As the wire names a broker, or all of them.",
    "The partitions whose offsets have had their time.",
    "The batches that may wait or fail.",
    "The in-sync replicas of a partition, as its leader holds them.",
    "The change it has asked for.",
    "A log that cannot be compacted, though nothing is wrong with its bytes.",
    "One record as an application reads it.",
    "Answered when what can be committed is.",
    "Called once it is committed.",
    "Before a poll: what is each partition's share now, and who is above it.",
    "The log end: what a reader must see committed to have seen nothing that may be lost.",
    "A decoded record; ``saved`` None takes it back.",
    "Which batch a record goes to; what waiting for room may find when it is over.",
    "Where the first undecided transaction begins.",
    "What this process keeps by ``key``.",
    "The members, who owns what, and how late records are.",
    # a verb without its subject
    "Publishes a port as the name says.",
    "Answers a request that was parked.",
    "Cuts, encodes and waits, for one producer.",
    "Is called when the log has ended.",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_sentence_passes(text: str) -> None:
    assert MEASURE.is_sentence(text)


@pytest.mark.parametrize("text", BAD)
def test_a_fragment_is_found(text: str) -> None:
    assert not MEASURE.is_sentence(text)


def test_only_the_first_sentence_is_judged() -> None:
    text = "Return ``a.b``, e.g. 3.5 or\n    so. Of what follows nothing counts.\n\nNor this."
    assert MEASURE.first_sentence(text) == "Return ``a.b``, e.g. 3.5 or so"
    assert MEASURE.first_sentence("A title\n\nIt is not read.") == "A title"
    assert MEASURE.first_sentence("Of a log.\n:raises ValueError: it is none.") == "Of a log"
    assert MEASURE.first_sentence("Of a log\n:raises ValueError: it is none.") == "Of a log"


def test_a_text_below_an_attribute_may_be_a_noun_and_no_fragment(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'A = 1\n"""The size in bytes."""\nB: int = 2\n"""In bytes."""\n\n\n'
        'class Thing:\n    c = 3\n    """What it holds is counted here."""\n'
        '    d: int\n    """Of the last one."""\n'
    )
    found = MEASURE.measure(tmp_path, ["a.py"])
    assert [(each.line, each.sentence) for each in found] == [
        (4, "In bytes"),
        (11, "Of the last one"),
    ]


def test_docstrings_of_modules_classes_and_functions_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "room/pkg").mkdir(parents=True)
    (tmp_path / "room/pkg/a.py").write_text(
        '"""Of a module."""\n\n\nclass Thing:\n    """It is a thing."""\n\n'
        '    async def work(self) -> None:\n        """Whether it works."""\n\n'
        "    def silent(self) -> None: ...\n"
    )
    found = MEASURE.measure(tmp_path, ["room"])
    assert [(f.path, f.line, f.name, f.sentence) for f in found] == [
        ("room/pkg/a.py", 1, "the module", "Of a module"),
        ("room/pkg/a.py", 8, "work", "Whether it works"),
    ]
    assert MEASURE.measure(tmp_path, ["room/pkg/a.py"]) == found
