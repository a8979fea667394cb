"""This program makes the development environment: ``python3 tools/setup_venv.py .venv``.

``python3 tools/setup_venv.py .venv unit`` makes a light one, with only what `make quick` needs.
Quiet, and done in milliseconds when nothing changed: a stamp in the environment holds a digest of
pyproject.toml, of the interpreter, of the extra and of the checkout's place. Needs nothing but
Python 3.11.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)


EVERYTHING = "dev"


def digest(extra: str) -> str:
    """Return what the stamp holds when the environment has this extra."""
    words = (sys.version, str(ROOT), extra)
    parts = [(ROOT / "pyproject.toml").read_bytes(), *(word.encode() for word in words)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def run(*command: str) -> None:
    """Run a step; its output is shown only when it fails."""
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"setup failed: {' '.join(command)}")


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit("setup needs Python 3.11 or newer: make setup PYTHON=python3.12")
    venv = (ROOT / sys.argv[1]).absolute()
    stamp = venv / ".set-up"
    extra = sys.argv[2] if len(sys.argv) > 2 else EVERYTHING
    if stamp.exists() and stamp.read_text() in (digest(extra), digest(EVERYTHING)):
        return
    print(f"setting up {venv.name}; once, a few minutes", file=sys.stderr)
    python = venv / "bin" / "python"
    stamp.unlink(missing_ok=True)
    if python.exists():
        version = "import sys; sys.exit(sys.version != " + repr(sys.version) + ")"
        if subprocess.run([python, "-c", version], check=False).returncode != 0:
            shutil.rmtree(venv)
    if not python.exists():
        run(sys.executable, "-m", "venv", str(venv))
    install = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, "--editable", f".[{extra}]")
    stamp.write_text(digest(extra))


if __name__ == "__main__":
    main()
