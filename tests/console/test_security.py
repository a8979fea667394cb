"""What is no request of a page of this console is refused, whatever it asks for."""

from __future__ import annotations

import pytest

from oncelog_console.security import HEADERS, is_own_name, refusal_of
from support.console import ORIGIN, PORT, Browser

HOSTS = {
    f"localhost:{PORT}": True,
    f"127.0.0.1:{PORT}": True,
    f"[::1]:{PORT}": True,
    f"LOCALHOST:{PORT}": True,
    "localhost": False,
    "localhost:1": False,
    f"evil.example:{PORT}": False,
    f"localhost.evil.example:{PORT}": False,
    f"127.0.0.1.evil.example:{PORT}": False,
    f"user@localhost:{PORT}": False,
    f"localhost:{PORT}/": False,
    "localhost:x": False,
    "[::1": False,
    "": False,
    "console.example": True,
    "console.example:443": True,
}


@pytest.mark.parametrize(("host", "own"), HOSTS.items(), ids=map(repr, HOSTS))
def test_only_names_of_this_server_are_its_own(host: str, own: bool) -> None:
    assert is_own_name(host, PORT, ["console.example"]) is own


POSTS = {
    "a page of this console": ({"origin": ORIGIN, "sec-fetch-site": "same-origin"}, True),
    "an old browser": ({"origin": ORIGIN}, True),
    "one that sends no origin": ({"sec-fetch-site": "same-origin"}, True),
    "no browser": ({}, False),
    "another site": ({"origin": "http://evil.example", "sec-fetch-site": "cross-site"}, False),
    "another port": ({"origin": "http://localhost:1", "sec-fetch-site": "same-site"}, False),
    "a forged origin": ({"origin": ORIGIN, "sec-fetch-site": "cross-site"}, False),
    "a forged site": ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, False),
    "a file": ({"origin": "null"}, False),
    "another scheme": ({"origin": ORIGIN.replace("http", "https")}, False),
}


@pytest.mark.parametrize(("headers", "passes"), POSTS.values(), ids=POSTS)
def test_a_post_comes_from_a_page_of_this_console(headers: dict[str, str], passes: bool) -> None:
    named = {"host": f"localhost:{PORT}", **headers}
    refusal = refusal_of("POST", "http", named, PORT, ())
    assert (refusal is None) == passes
    assert refusal is None or refusal.status == 403


def test_other_methods_are_refused() -> None:
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
        refusal = refusal_of(method, "http", {"host": f"localhost:{PORT}"}, PORT, ())
        assert refusal is not None
        assert refusal.status == 405


async def test_every_route_is_behind_the_checks(browser: Browser) -> None:
    for path in ("/", "/livez", "/static/console.css", "/topics", "/no/such/page", "/sign-in"):
        refused = await browser.request("GET", path, {"host": "evil.example"})
        assert refused.status == 421, path
    for path in ("/refresh", "/sign-in", "/sign-out"):
        refused = await browser.request("POST", path, {})
        assert refused.status == 403, path


async def test_every_answer_binds_the_browser(browser: Browser) -> None:
    for path in ("/", "/livez", "/static/console.css", "/no/such/page", "/topics?page=x"):
        answered = await browser.get(path)
        for name, value in HEADERS.items():
            assert answered.headers[name] == value, (path, name)
        assert "access-control-allow-origin" not in answered.headers
    assert "unsafe" not in HEADERS["content-security-policy"]
    assert (await browser.get("/")).headers["cache-control"] == "no-store"
