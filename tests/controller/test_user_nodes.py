"""The nodes of users hold what was written, and garbage in them is told as such."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_controller import security_nodes, user_nodes
from oncelog_controller.security import ClusterSecurity, StoredUser
from oncelog_controller.store import Create, Delete, SetData
from oncelog_controller.znodes import CorruptNodeError
from oncelog_protocol.sasl.user import ScramUser
from support.sasl import CREDENTIALS, SECRET, SHA_256, SHA_512

APP = ScramUser("app@host", 3, (CREDENTIALS[SHA_256], CREDENTIALS[SHA_512]))
PATH = user_nodes.user_path(APP.name)
DATA = user_nodes.encode_user(APP)


def test_a_user_comes_back() -> None:
    for user in (APP, replace(APP, disabled=True), replace(APP, credentials=())):
        assert user_nodes.decode_user(PATH, user_nodes.encode_user(user)) == user
    assert user_nodes.user_of(PATH) == "app@host"
    assert b'"mechanism":"SCRAM-SHA-256"' in DATA


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":2}',
        b'{"version":1}',
        b'{"version":1,"generation":1,"disabled":false,"credentials":[{}]}',
        b'{"version":1,"generation":1,"disabled":false,"credentials":[[]]}',
        b'{"version":1,"generation":1,"disabled":false,"credentials":7}',
        DATA.replace(b'"generation":3', b'"generation":"3"'),
        DATA.replace(b'"disabled":false', b'"disabled":0'),
        DATA.replace(b"SCRAM-SHA-256", b"SCRAM-SHA-1"),
        DATA.replace(b"SCRAM-SHA-256", b"SCRAM-SHA-512"),
        DATA.replace(b'"iterations":4096', b'"iterations":4096.0'),
        DATA.replace(b'"iterations":4096', b'"iterations":1'),
        DATA.replace(b'"salt":"', b'"salt":"!'),
        DATA.replace(b'"stored_key":"', b'"stored_key":"AAAA'),
    ],
)
def test_garbage_is_not_taken_for_a_user(data: bytes) -> None:
    with pytest.raises(CorruptNodeError, match=PATH) as caught:
        user_nodes.decode_user(PATH, data)
    for each in DATA.split(b'"'):
        if len(each) > 40:
            assert each.decode() not in str(caught.value), "a key"


@pytest.mark.parametrize("name", ["%", "a", "_w", "YQ==", "YR", "YSBi", "w6Q"])
def test_a_node_whose_name_is_no_user(name: str) -> None:
    with pytest.raises(CorruptNodeError, match="name"):
        user_nodes.user_of(f"{user_nodes.USERS}/{name}")


def test_the_secret_comes_back() -> None:
    assert user_nodes.decode_secret(user_nodes.encode_secret(SECRET)) == SECRET
    for data in (b"", b'{"version":1}', b'{"version":1,"secret":7}', b'{"version":1,"secret":"!"}'):
        with pytest.raises(CorruptNodeError, match="/security/secret"):
            user_nodes.decode_secret(data)
    with pytest.raises(CorruptNodeError, match="has 3 bytes"):
        user_nodes.decode_secret(user_nodes.encode_secret(b"abc"))


def test_what_was_written_is_what_is_known() -> None:
    security = ClusterSecurity(5, secret=SECRET)
    other = replace(APP, name="other")
    version, *ops = user_nodes.write_users(security, {APP.name: APP, "other": other})
    assert version == SetData("/security/version", security_nodes.encode_version(6), 5)
    assert ops == [
        Create(PATH, DATA),
        Create(user_nodes.user_path("other"), user_nodes.encode_user(other)),
    ]
    security.take_users({APP.name: APP, "other": other})
    disabled = replace(APP, disabled=True)
    _, *ops = user_nodes.write_users(security, {APP.name: disabled, "other": None})
    assert ops == [
        SetData(PATH, user_nodes.encode_user(disabled), 0),
        Delete(user_nodes.user_path("other"), 0),
    ]
    security.take_users({APP.name: disabled, "other": None})
    assert security.version == 7
    assert security.users == {APP.name: StoredUser(disabled, 1)}
    assert security.usable_users() == [disabled]
    security.users["spoilt"] = StoredUser(ScramUser("spoilt", 0, ()), 4)
    assert security.usable_users() == [disabled]
    assert repr(SECRET) not in repr(security)
