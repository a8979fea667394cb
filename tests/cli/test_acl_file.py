"""What is exported can be applied, and a file that is wrong says where."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog import AclBinding
from oncelog_cli.acl_file import read_acls, write_acls

WRITE = AclBinding("TOPIC", "LITERAL", "orders", "User:app", "*", "WRITE", "ALLOW")
names = st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=1, max_size=20)


def acls() -> st.SearchStrategy[AclBinding]:
    printable = names.filter(str.isprintable)
    return st.builds(
        AclBinding,
        st.sampled_from(["GROUP", "TRANSACTIONAL_ID"]),
        st.sampled_from(["LITERAL", "PREFIXED"]),
        printable,
        printable.map("User:{}".format),
        st.sampled_from(["*", "10.0.0.0/8", "2001:db8::1"]),
        st.sampled_from(["DESCRIBE", "ALL"]),
        st.sampled_from(["ALLOW", "DENY"]),
    )


@given(st.lists(acls(), max_size=8, unique=True))
def test_a_file_has_what_was_written(found: list[AclBinding]) -> None:
    assert set(read_acls(write_acls(found))) == set(found)


def test_the_words_are_those_of_the_command() -> None:
    cluster = AclBinding("CLUSTER", "LITERAL", "oncelog-cluster", "User:ops", "*", "ALTER", "DENY")
    prefixed = replace(WRITE, pattern_type="PREFIXED", host="10.0.0.1", operation="DESCRIBE")
    text = write_acls([prefixed, cluster, WRITE, replace(prefixed, operation="READ")])
    assert text == (
        '[[acls]]\nallow = "User:app"\noperations = ["WRITE"]\ntopic = "orders"\n'
        '\n[[acls]]\nallow = "User:app"\noperations = ["READ", "DESCRIBE"]\ntopic = "orders"\n'
        'prefix = true\nhost = "10.0.0.1"\n'
        '\n[[acls]]\ndeny = "User:ops"\noperations = ["ALTER"]\ncluster = true\n'
    )


def test_no_acls() -> None:
    assert read_acls(write_acls([])) == read_acls("") == []


def test_a_person_may_write_it_their_way() -> None:
    text = '[[acls]]\nallow = "User:app"\ntopic = "orders"\noperations = ["write", "write"]\n'
    assert read_acls(text) == [WRITE]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('alow = "User:app"', "unknown key alow; did you mean allow"),
        ('topic = "t"', "give one of allow, deny"),
        ('allow = "User:a"', "give one of topic, group, transactional_id, cluster"),
        ('allow = "User:a"\ntopic = "t"\ngroup = "g"', "give one of topic"),
        ('allow = "User:a"\ntopic = "t"', "operations must be a list of words"),
        ('allow = "User:a"\ntopic = "t"\noperations = [1]', "operations must be a list of words"),
        ('allow = "User:a"\ntopic = 5\noperations = ["READ"]', "topic must be text"),
        ('allow = "User:a"\ntopic = "t"\nprefix = "yes"', "prefix must be true or false"),
        ('allow = "User:a"\ncluster = false\noperations = ["ALTER"]', "leave it out"),
        ('allow = "User:a"\ntopic = "t*"\noperations = ["READ"]', "has a '*' within it"),
        ('allow = "a"\ntopic = "t"\noperations = ["READ"]', "'a' is no principal"),
        ('allow = "User:a"\ngroup = "g"\noperations = ["WRITE"]', "'WRITE' is no operation"),
    ],
)
def test_a_table_that_is_wrong(table: str, said: str) -> None:
    good = '[[acls]]\nallow = "User:app"\ntopic = "orders"\noperations = ["WRITE"]\n'
    with pytest.raises(ValueError, match="number 2: ") as told:
        read_acls(f"{good}\n[[acls]]\n{table}\n")
    assert said in str(told.value)


@pytest.mark.parametrize("text", ["acls = 5", "acls = [1]", "other = 1", "[[acls"])
def test_a_file_that_is_no_such_file(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_acls(text)
