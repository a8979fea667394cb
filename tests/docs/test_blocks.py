"""The finder of code blocks finds what it should, and refuses what it must not overlook."""

from __future__ import annotations

import pytest

from docs.blocks import PageError, blocks_of

PAGE = """\
# A page

<!-- test
given: oncelog topics create orders
    oncelog topics create bills
until printed: 42
-->
```python
print(42)
```

1. an item
   <!-- test
   exit: 1
   given: true
       true
   -->
   ```console
   $ true
   ```

<!-- hidden
file: job.toml
```toml
name = "x"
```
-->
"""


def test_blocks_come_with_their_place_their_text_and_their_instructions() -> None:
    python, console, toml = blocks_of("a.md", PAGE)
    assert (python.where, python.language, python.text) == ("a.md:8", "python", "print(42)\n")
    assert python.get("given").splitlines() == [
        "oncelog topics create orders",
        "oncelog topics create bills",
    ]
    assert python.get("until printed") == "42"
    assert python.get("exit") == ""
    assert (console.where, console.text) == ("a.md:18", "$ true\n")
    assert (console.get("exit"), console.get("given")) == ("1", "true\ntrue")
    assert (toml.language, toml.get("file"), toml.text) == ("toml", "job.toml", 'name = "x"\n')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\ntrue\n```\n", "a.md:1: language '' is none of"),
        ("```perl\n1\n```\n", "language 'perl'"),
        ("```python\n1\n", "a.md:1: the block does not end"),
        ("<!-- test\ngiven: true\n", "a.md:1: the comment does not end"),
        ("<!-- test\ngivn: true\n-->\n", "no such instruction: 'givn: true'"),
        ("<!-- test\nnot run: no\n-->\n\nprose\n", "a.md:1: instructions must stand right before"),
        ("<!-- test\nnot run: no\n-->\n", "instructions must stand right before"),
        ("text\n\n    make sim\n", "a.md:3: an indented block"),
        ("<!-- hidden\n```sh\ntrue\n```\n", "a hidden comment ends right after its block"),
    ],
)
def test_what_would_escape_the_tests_is_refused(text: str, said: str) -> None:
    with pytest.raises(PageError) as raised:
        blocks_of("a.md", text)
    assert said in str(raised.value)


def test_lists_may_be_indented() -> None:
    assert blocks_of("a.md", "- one\n\n    more of it\n\nprose\n") == []
