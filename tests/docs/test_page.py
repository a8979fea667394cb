"""A page that says what is not so fails, with the place and what was printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.blocks import blocks_of
from docs.page import BlockFailed, Page


@pytest.fixture
def page(tmp_path: Path, shims: Path) -> Iterator[Page]:
    page = Page(tmp_path, shims, "127.0.0.1:1")
    yield page
    page.close()


def run(page: Page, markdown: str) -> None:
    for block in blocks_of("a.md", markdown):
        page.run(block)
    page.end()


def test_a_page_that_is_so(page: Page) -> None:
    run(
        page,
        """
<!-- test
file: made/by.json
-->
```json
{"a": 1}
```

```console
$ export WORD=seen
$ cd made && cat by.json
{"a": 1}
$ echo "$WORD"; echo of no interest >&2
seen
```

<!-- test
before: base = 40
after: assert total == 42
-->
```python
import asyncio
total = base + await asyncio.sleep(0, 2)
print(total)
```

```text
42
```

```python
import asyncio


async def main() -> None:
    print("a program")


asyncio.run(main())
```

```python
await main()  # what a program defined is there
```

""",
    )


def test_commands_that_fail_or_are_not_run(page: Page) -> None:
    run(
        page,
        """
<!-- test
exit: 2
-->
```console
$ echo "what is wrong" >&2; oncelog topics lst 2>/dev/null
what is wrong
```

<!-- test
not run: false
-->
```console
$ false
```
""",
    )


def test_what_does_not_end_is_interrupted(page: Page) -> None:
    run(
        page,
        """
<!-- test
until printed: here
-->
```python
import asyncio

print("here")
try:
    await asyncio.Event().wait()
finally:
    print("and gone")
```

```text
here
and gone
```

<!-- test
until: test -e started
-->
```console
$ touch started; sleep 60
```

<!-- test
goes on: test -e beside
-->
```python
from pathlib import Path

Path("beside").touch()
await asyncio.Event().wait()
```

```console
$ ls beside
beside
```
""",
    )


@pytest.mark.parametrize(
    ("markdown", "said"),
    [
        ("```console\n$ echo a\nb\n```\n", "a.md:1: echo a\nshown:   b\nprinted: a"),
        ("```console\n$ false\n$ true\n```\n", "a.md:1: false\nexit code 1, not 0"),
        ("```sh\nfalse\ntrue\n```\n", "exit code 1, not 0"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```\n", "a.md:5: shown:   2\nprinted: 1"),
        ("```text\n2\n```\n", "no block before this one has printed anything"),
        ("<!-- test\nthen: false\n-->\n```sh\ntrue\n```\n", "a.md:4: then: false"),
        ("<!-- test\nafter: assert x\n-->\n```python\nx = 0\n```\n", "AssertionError"),
        ("```toml\na = \n```\n", "a.md:1: Invalid value"),
        ("```sh\nexit\n```\n", "the shell has ended"),
        ("<!-- test\nrehearsed: it is long\n-->\n```sh\nmake nothing-of-this-name\n```\n", "exit"),
    ],
)
def test_a_page_that_is_not_so(page: Page, markdown: str, said: str) -> None:
    with pytest.raises(BlockFailed) as raised:
        run(page, markdown)
    assert said in str(raised.value)


def test_names_on_the_page_mean_what_stood_in_their_place(page: Page) -> None:
    run(
        page,
        """
<!-- test
varies: (?<=pid )\\d+
-->
```console
$ sleep 60 & echo "pid $!"
pid 12345
$ kill 12345 && ! kill -0 99999999 2>/dev/null
```
""",
    )
