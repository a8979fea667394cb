"""The interpreter itself is tested: what it reads, what it refuses, and what it says about both."""

from __future__ import annotations

import pytest

from scenarios import interpreter
from scenarios.grammar import COMMANDS, CommandError, parse_call
from scenarios.interpreter import check, rewrite
from scenarios.transcript import ScenarioError, Transcript

STORY = """\
# A cluster of one.
cluster brokers=1 min_insync_replicas=1
create t replicas=1
----
ok

# It takes a record.
produce t-0 a
state t-0
----
a@0
leader 1; epoch 0; isr 1
"""


def parse(text: str) -> Transcript:
    return Transcript.parse("story.txt", text)


def failure(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        check(parse(text))
    return str(caught.value)


def test_a_story_that_holds() -> None:
    check(parse(STORY))


def test_rewriting_changes_outputs_and_nothing_else() -> None:
    wrong = STORY.replace("a@0\nleader 1", "nonsense").replace("----\nok", "----")
    assert rewrite(parse(wrong)) == STORY
    assert rewrite(parse(STORY + "\n# An end.\n")) == STORY + "\n# An end.\n"


def test_an_output_that_differs_is_shown_with_its_line_and_commands() -> None:
    told = failure(STORY.replace("isr 1\n", "isr 1,2\n"))
    assert told.splitlines()[:9] == [
        "story.txt:8: the output differs",
        "  produce t-0 a",
        "  state t-0",
        "  --- expected",
        "  +++ got",
        "  @@ -1,2 +1,2 @@",
        "   a@0",
        "  -leader 1; epoch 0; isr 1,2",
        "  +leader 1; epoch 0; isr 1",
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("explode 1", "unknown command 'explode'; known are cluster, kill, "),
        ("wait luck", "wait leader PARTITION is WORD [within=TIME]"),
        ("kill x", "kill x: 'x' is not a broker"),
        ("kill", "BROKERS is missing"),
        ("kill 1 2", "'2' is too much"),
        ("produce t0 a", "'t0' is not a partition such as t-0"),
        ("produce t-0 a acks=2", "acks: '2' is none of all, 1, 0"),
        ("produce t-0 a ack=1", "there is no option 'ack'"),
        ("create u", "replicas= is missing"),
        ("advance 5", "'5' is not a time such as 5s or 300ms"),
        ("consume t-0 at 0", "'at' instead of 'from'"),
        ("consume t-0 from x", "'x' is not a number"),
        ("zookeeper explode", "'explode' is none of stop, start"),
    ],
)
def test_a_command_that_is_none_is_refused_before_anything_runs(line: str, told: str) -> None:
    text = failure(STORY + f"\n{line}\n----\n")
    assert text.startswith(f"story.txt:14: {line}: ")
    assert told in text


def test_the_usage_is_told_with_what_is_wrong() -> None:
    with pytest.raises(CommandError, match="usage: consume PARTITION from OFFSET"):
        parse_call("consume t-0")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("kill 7", "broker 7 does not run"),
        ("start 1", "broker 1 runs already"),
        ("wipe 1", "broker 1 runs"),
        ("state u-0", "there is no partition u-0"),
        ("cluster brokers=1", "there is a cluster already"),
        ("poll r", "there is no reader 'r'"),
        ("end x", "'x' was not begun"),
        ("begin x advance 9s", "'x' was begun and not ended"),
        ("wait isr t-0 is 1,2 within=1s", "t-0: isr 1,2: not within 1 s"),
    ],
)
def test_a_command_that_does_not_work_fails_the_scenario(lines: str, told: str) -> None:
    text = failure(STORY + f"\n{lines}\n----\nok\n")
    assert text.startswith("story.txt:14: ")
    assert told in text
    with pytest.raises(ScenarioError):
        rewrite(parse(STORY + f"\n{lines}\n----\n"))


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("colour=red", "there is no setting 'colour'"),
        ("brokers=many", "brokers: 'many' is no int"),
        ("unclean_election=1", "unclean_election: '1' is no bool"),
    ],
)
def test_settings_are_checked(setting: str, told: str) -> None:
    assert told in failure(f"cluster {setting}\n----\n")


def test_a_cluster_comes_first() -> None:
    assert "begin with the command cluster" in failure("topics\n----\n")


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("", 1, "there is no step in it"),
        ("# Only words.\n", 1, "there is no step in it"),
        ("----\n", 1, "---- without a command above it"),
        ("topics\n\nok\n", 2, "a command must be followed by ----"),
        ("topics\n", 1, "---- is missing behind the command"),
        ("topics\n----\nnone\n\nnone\n", 5, "---- is missing behind the command"),
    ],
)
def test_the_form_is_checked(text: str, line: int, told: str) -> None:
    with pytest.raises(ScenarioError, match=told) as caught:
        parse(text)
    assert caught.value.line == line


LOSS = """\
cluster brokers=3 min_insync_replicas=1 controller=3
create t replicas=1,2
cut 2 from 1
produce t-0 a within=5s
kill 1
heal
wait brokers are 2,3
elect unclean t-0
wait leader t-0 is 2
----
"""


def test_a_loss_must_be_told() -> None:
    text = rewrite(parse(f"{LOSS}\nlost\n----\n"))
    assert text.endswith("lost\n----\nt-0\n")
    with pytest.raises(ScenarioError, match="does not ask what is lost"):
        rewrite(parse(LOSS))


def test_every_command_says_what_it_does() -> None:
    assert [usage.text for usage in COMMANDS if not usage.handler.__doc__] == []
    assert len({usage.text for usage in COMMANDS}) == len(COMMANDS)
    assert interpreter.VOCABULARIES
