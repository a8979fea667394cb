"""Settings: where they come from, and what is said about mistakes (RELIABILITY 8.8/105)."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError, ListenerConfig, load_config

GOOD = 'broker_id = 1\nlog_dirs = ["/data"]\n'


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return str(path)


def test_defaults_are_safe(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert config.flush == "commit"
    assert not config.unclean_leader_election_enable
    assert not config.auto_create_topics_enable
    assert [listener.name for listener in config.listeners] == ["internal", "external"]
    assert config.topic_default_texts()["min_insync_replicas"] == "1"


def test_arguments_go_before_environment_before_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, GOOD + 'rack = "file"\nnum_partitions = 2\nlog_level = "error"\n')
    monkeypatch.setenv("ONCELOG_RACK", "env")
    monkeypatch.setenv("ONCELOG_NUM_PARTITIONS", "3")
    config = load_config(path, num_partitions=4)
    assert (config.rack, config.num_partitions, config.log_level) == ("env", 4, "error")


def test_a_config_is_built_without_looking_at_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONCELOG_RACK", "env")
    assert BrokerConfig(broker_id=1, log_dirs=["/d"]).rack is None


MISTAKES = [
    ("unknown key", GOOD + "log_dir = 1\n", "log_dir", "Did you mean 'log_dirs'?"),
    ("unknown key of a listener", GOOD + '[[listeners]]\nname = "internal"\nprot = 1\n',
     "listeners.0.prot", "Did you mean 'port'?"),
    ("no such word at all", GOOD + "zzzzqqqq = 1\n", "zzzzqqqq", "Remove it"),
    ("text for a number", 'broker_id = "1"\nlog_dirs = ["/d"]\n', "broker_id", "integer"),
    ("number for text", "broker_id = 1\nlog_dirs = [1]\n", "log_dirs.0", "string"),
    ("float for a number", GOOD + "num_partitions = 1.5\n", "num_partitions", "integer"),
    ("truth for a number", GOOD + "num_partitions = true\n", "num_partitions", "integer"),
    ("number for truth", GOOD + "auto_create_topics_enable = 1\n",
     "auto_create_topics_enable", "boolean"),
    ("a date", GOOD + "rack = 2020-01-01\n", "", "no setting is a date"),
    ("required", 'log_dirs = ["/d"]\n', "broker_id", "Add broker_id"),
    ("negative id", 'broker_id = -1\nlog_dirs = ["/d"]\n', "broker_id", "0"),
    ("port out of range", GOOD + '[[listeners]]\nname = "internal"\nport = 70000\n',
     "listeners.0.port", "65535"),
    ("not one of", GOOD + 'flush = "sometimes"\n', "flush", "'commit' or 'interval'"),
    ("identical directories", 'broker_id = 1\nlog_dirs = ["/d", "/d/"]\n', "log_dirs", "once"),
    ("no directory", "broker_id = 1\nlog_dirs = []\n", "log_dirs", "at least 1"),
    ("empty directory", 'broker_id = 1\nlog_dirs = [" "]\n', "log_dirs", "path"),
    ("duplicate listener", GOOD + '[[listeners]]\nname = "internal"\n[[listeners]]\n'
     'name = "internal"\n', "listeners", "its own name"),
    ("one port twice", GOOD + '[[listeners]]\nname = "internal"\nport = 9\n[[listeners]]\n'
     'name = "external"\nport = 9\n', "listeners", "its own port"),
    ("inter broker listener", GOOD + 'inter_broker_listener = "third"\n',
     "inter_broker_listener", "Name one of them"),
    ("advertises every address", GOOD + '[[listeners]]\nname = "internal"\nhost = "0.0.0.0"\n',
     "listeners.0", "advertised_host"),
    ("advertised as every address", GOOD + '[[listeners]]\nname = "internal"\n'
     'advertised_host = "0.0.0.0"\n', "listeners.0", "peers can reach"),
    ("topic setting unknown", GOOD + "[topic_defaults]\nretention = 5\n",
     "topic_defaults", "not a setting"),
    ("topic setting value", GOOD + "[topic_defaults]\nretention_ms = -2\n", "topic_defaults", "-1"),
    ("topic setting by listener", GOOD + "[topic_defaults]\nsegment_bytes = 0\n",
     "topic_defaults", "1024"),
    ("session time-outs", GOOD + "group_max_session_timeout_ms = 999\n",
     "group_min_session_timeout_ms", "Lower it"),
    ("too many partitions of the internal topic", GOOD + "offsets_topic_num_partitions = 101\n",
     "offsets_topic_num_partitions", "100"),
    ("too many partitions of transactions", GOOD + "transaction_state_log_num_partitions = 101\n",
     "transaction_state_log_num_partitions", "100"),
    ("no time for transactions", GOOD + "transaction_max_timeout_ms = 0\n",
     "transaction_max_timeout_ms", "1"),
    ("not TOML", "broker_id = \n", "", "line 1"),
    ("not text", "\x00\x01", "", "TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "key", "says"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_mistakes_name_key_file_and_remedy(
    tmp_path: Path, name: str, text: str, key: str, says: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert caught.value.key == key
    assert says in message
    assert "\n" not in message


def test_a_file_that_is_not_there_or_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(str(tmp_path / "none.toml"))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(str(tmp_path))


def test_a_bad_environment_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_NUM_PARTITIONS", "many")
    with pytest.raises(ConfigError, match="num_partitions"):
        load_config(write(tmp_path, GOOD))
    monkeypatch.delenv("ONCELOG_NUM_PARTITIONS")
    monkeypatch.setenv("ONCELOG_LOG_DIRS", "not json")
    with pytest.raises(ConfigError, match="log_dirs"):
        load_config(write(tmp_path, GOOD))


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 more mistake"):
        load_config(write(tmp_path, GOOD + "a = 1\nb = 2\n"))


def test_topic_defaults_take_numbers_and_truths() -> None:
    config = BrokerConfig(
        broker_id=1,
        log_dirs=["/d"],
        min_insync_replicas=2,
        topic_defaults={"retention_ms": 5, "unclean_leader_election_enable": True},
    )
    texts = config.topic_default_texts()
    assert texts["retention_ms"] == "5"
    assert texts["unclean_leader_election_enable"] == "true"
    assert texts["min_insync_replicas"] == "2"
    assert config.listener("external") == ListenerConfig(name="external")
