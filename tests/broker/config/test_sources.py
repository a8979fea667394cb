"""Settings come from several sources, and mistakes are explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog_broker.config import BrokerConfig, ConfigError, ListenerConfig, load, load_config

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


def test_arguments_go_before_environment_before_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + 'rack = "file"\nnum_partitions = 2\nlog_level = "error"\n')
    environment = {"ONCELOG_RACK": "env", "ONCELOG_NUM_PARTITIONS": "3"}
    loaded = load(path, environment=environment, arguments=["num_partitions=4"], required=())
    config, origin = loaded.config, loaded.layers.origin
    assert (config.rack, config.num_partitions, config.log_level) == ("env", 4, "error")
    assert str(origin(("rack",))) == "environment ONCELOG_RACK"
    assert str(origin(("num_partitions",))) == "flag --set num_partitions"
    assert str(origin(("log_level",))) == f"file {path}"
    assert str(origin(("flush",))) == "default"


def test_the_environment_is_only_what_was_handed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCELOG_RACK", "env")
    assert BrokerConfig(broker_id=1, log_dirs=["/d"]).rack is None
    assert load_config(write(tmp_path, GOOD)).rack is None


ALONE = {
    "ONCELOG_BROKER_ID": "3",
    "ONCELOG_LOG_DIRS": "/one, /two",
    "ONCELOG_ZOOKEEPER_CONNECT": "zookeeper:2181/x",
    "ONCELOG_LISTENERS__INTERNAL__HOST": "0.0.0.0",
    "ONCELOG_LISTENERS__INTERNAL__PORT": "9192",
    "ONCELOG_LISTENERS__INTERNAL__ADVERTISED_HOST": "broker-3",
    "ONCELOG_LISTENERS__EXTERNAL__PORT": "9092",
    "ONCELOG_TOPIC_DEFAULTS__RETENTION_MS": "1000",
    "ONCELOG_AUTO_CREATE_TOPICS_ENABLE": "true",
    "ONCELOG_RACK": "",
}


def test_the_environment_alone_is_enough() -> None:
    config = load(None, environment={**ALONE, "PATH": "/bin"}).config
    assert (config.broker_id, config.log_dirs) == (3, ["/one", "/two"])
    assert config.listeners == [
        ListenerConfig(name="internal", host="0.0.0.0", port=9192, advertised_host="broker-3"),
        ListenerConfig(name="external", port=9092),
    ]
    assert config.topic_default_texts()["retention_ms"] == "1000"
    assert config.auto_create_topics_enable
    assert config.rack is None


def test_without_anything_all_that_is_required_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        load(None)
    assert [each.key for each in caught.value.all] == ["zookeeper_connect", "broker_id", "log_dirs"]
    assert "ONCELOG_BROKER_ID" in caught.value.all[1].remedy


def test_listeners_are_laid_over_each_other_by_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        GOOD
        + 'inter_broker_listener = "inside"\n'
        + '[[listeners]]\nname = "Inside"\nport = 1\n[[listeners]]\nname = "inside"\nport = 2\n',
    )
    environment = {"ONCELOG_LISTENERS__CLIENTS__PORT": "3"}
    loaded = load(path, environment=environment, arguments=["listeners.inside.port=4"], required=())
    ports = [(each.name, each.port) for each in loaded.config.listeners]
    assert ports == [("Inside", 4), ("inside", 2), ("clients", 3)]
    origins = [str(loaded.layers.origin(("listeners", i, "port"))) for i in range(3)]
    assert origins == [
        "flag --set listeners.inside.port",
        f"file {path}",
        "environment ONCELOG_LISTENERS__CLIENTS__PORT",
    ]


@pytest.mark.parametrize("text", ["SCRAM-SHA-256, PLAIN", '["SCRAM-SHA-256", "PLAIN"]'])
def test_a_listeners_list_is_said_like_any_list(text: str) -> None:
    environment = {
        "ONCELOG_BROKER_ID": "1",
        "ONCELOG_LOG_DIRS": "/data",
        "ONCELOG_LISTENERS__EXTERNAL__SASL_MECHANISMS": text,
        "ONCELOG_LISTENERS__EXTERNAL__TLS_CERTIFICATE_FILE": "broker.pem",
        "ONCELOG_LISTENERS__EXTERNAL__TLS_KEY_FILE": "broker.key",
    }
    config = load_config(None, environment=environment)
    assert config.listener("external").sasl_mechanisms == ["SCRAM-SHA-256", "PLAIN"]


def test_a_whole_list_replaces_what_lay_below(tmp_path: Path) -> None:
    path = write(
        tmp_path, GOOD + "[listeners.internal]\nport = 1\n[topic_defaults]\nflush='commit'"
    )
    environment = {
        "ONCELOG_LISTENERS": '[{"name": "internal", "port": 5}]',
        "ONCELOG_TOPIC_DEFAULTS": '{"retention_ms": 7}',
        "ONCELOG_LOG_DIRS": '["/a", "/b,c"]',
    }
    config = load_config(path, environment=environment)
    assert config.listeners == [ListenerConfig(name="internal", port=5)]
    assert config.topic_defaults == {"retention_ms": 7}
    assert config.log_dirs == ["/a", "/b,c"]
    assert [each.port for each in load_config(path).listeners] == [1, 0]


def test_spellings_of_a_topic_setting_meet(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD + '[topic_defaults]\n"retention.ms" = 1\n')
    config = load_config(path, arguments=["topic_defaults.retention_ms=2"])
    assert config.topic_defaults == {"retention_ms": "2"}


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
    ("second listener between brokers", GOOD + 'inter_broker_listener_second = "third"\n',
     "inter_broker_listener_second", "Name one beside"),
    ("the same one twice", GOOD + 'inter_broker_listener_second = "internal"\n',
     "inter_broker_listener_second", "Name one beside"),
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


SLIPS = [
    ("no number", {"ONCELOG_NUM_PARTITIONS": "many"}, "num_partitions", "integer"),
    ("no JSON", {"ONCELOG_LOG_DIRS": "[1"}, "log_dirs", "is not JSON"),
    ("no list of tables", {"ONCELOG_LISTENERS": "3"}, "listeners", "list"),
    ("a near miss", {"ONCELOG_BROKERS_ID": "1"}, "brokers_id", "Did you mean ONCELOG_BROKER_ID?"),
    ("in a listener", {"ONCELOG_LISTENERS__INTERNAL__PROT": "1"}, "listeners.0.prot", "'port'"),
    ("too deep", {"ONCELOG_LISTENERS__A__B__C": "1"}, "listeners.a.b.c", "a part of a listener"),
    ("no parts", {"ONCELOG_RACK__A": "1"}, "rack.a", "rack has no parts"),
    ("of a topic", {"ONCELOG_TOPIC_DEFAULTS__RETENTION": "1"}, "topic_defaults", "not a setting"),
    ("a variable in a variable", {"ONCELOG_RACK": "${ZONE}"}, "rack", "not replaced"),
    ("a line break", {"ONCELOG_RACK": "a\nb"}, "rack", "line break"),
]


@pytest.mark.parametrize(("name", "given", "key", "says"), SLIPS, ids=[m[0] for m in SLIPS])
def test_mistakes_in_the_environment_name_the_variable(
    tmp_path: Path, name: str, given: dict[str, str], key: str, says: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, GOOD), environment=given)
    assert caught.value.key == key
    assert says in str(caught.value)
    assert next(iter(given)) in caught.value.source
    assert caught.value.others == ()


def test_other_variables_with_our_prefix_are_named_or_the_commands() -> None:
    environment = {
        **ALONE,
        "ONCELOG_BOOTSTRAP": "b:1",
        "ONCELOG_DIR": "/x",
        "ONCELOG_PROFILE": "p",
        "ONCELOG_OPTIONS": "a=1",
        "ONCELOG_SERVICE_HOST": "10.0.0.1",
    }
    assert load(None, environment=environment).ignored == ("ONCELOG_SERVICE_HOST",)


def test_mistakes_in_arguments(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    arguments = ["num_partition=1", "rack", "num_partitions=0"]
    with pytest.raises(ConfigError) as caught:
        load_config(path, arguments=arguments)
    texts = [each.message for each in caught.value.all]
    assert len(texts) == 3
    assert "--set num_partition: num_partition: there is no such setting. Did you" in texts[0]
    assert "--set rack: rack: has no value" in texts[1]
    assert "--set num_partitions: num_partitions: input should be greater" in texts[2]


def test_every_mistake_is_named_at_once_those_of_the_whole_too(tmp_path: Path) -> None:
    text = (
        'log_dirs = ["/d"]\nnum_partitions = "x"\ngroup_max_session_timeout_ms = 5\nzzzzqqqq = 1\n'
    )
    environment = {"ONCELOG_RACK": "${X}", "ONCELOG_INTER_BROKER_LISTENER": "third"}
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text), environment=environment)
    assert sorted(each.key for each in caught.value.all) == [
        "broker_id",
        "group_min_session_timeout_ms",
        "inter_broker_listener",
        "num_partitions",
        "rack",
        "zzzzqqqq",
    ]


def test_what_follows_from_a_mistake_is_not_a_second_one(tmp_path: Path) -> None:
    text = GOOD + 'inter_broker_listener = "third"\nlisteners = 3\n'
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert [each.key for each in caught.value.all] == ["listeners"]


def test_several_mistakes_are_counted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 more mistake"):
        load_config(write(tmp_path, GOOD + "a = 1\nb = 2\n"))


@pytest.mark.hostile(52)
@pytest.mark.cve("2024-31141")
def test_a_value_is_never_looked_up_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No setting reads files or the environment, as Kafka's providers do (CVE-2024-31141).
    A value that looks so is text, or is refused where somebody could believe it."""
    monkeypatch.setenv("SWORDFISH", "hush")
    secret = tmp_path / "secret"
    secret.write_text("hush")
    for text in (f"file:{secret}", f"file://{secret}", f"@{secret}", "$SWORDFISH", "%SWORDFISH%"):
        path = write(tmp_path, GOOD)
        assert load(path, environment={"ONCELOG_RACK": text}, required=()).config.rack == text
        assert (
            load(path, environment={}, arguments=[f"rack={text}"], required=()).config.rack == text
        )
        assert load_config(write(tmp_path, f'{GOOD}rack = "{text}"\n')).rack == text
    for text in ("${env:SWORDFISH}", f"${{file:{secret}:x}}", "${SWORDFISH}"):
        with pytest.raises(ConfigError, match="are not replaced") as caught:
            load_config(write(tmp_path, f'{GOOD}rack = "{text}"\n'))
        assert "hush" not in str(caught.value)
