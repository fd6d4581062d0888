"""What a check has passed, remembered for all clones of this tree that one user has.

A thing that was checked is known by a digest of all that it depends on, and of the compilers' versions. Each is an empty
file in $XDG_CACHE_HOME/holdfast/passed (~/.cache); those that nobody has asked for in thirty days go.
"""

import hashlib
import os
import pathlib
import subprocess
import time

DAYS_KEPT = 30


def folder():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "holdfast" / "passed"


def versions(*programs):
    """What these compilers say that they are; a digest without it would outlive an upgrade."""
    said = [subprocess.run([program, "--version"], capture_output=True, check=False).stdout for program in programs]
    return b"\0".join(said)


def digest(*parts):
    total = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def has(name):
    try:
        os.utime(folder() / name)
        return True
    except OSError:
        return False


def remember(name):
    """That it cannot be remembered is no fault: it is checked again."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        (folder() / name).touch()
        for old in folder().iterdir():
            if time.time() - old.stat().st_mtime > DAYS_KEPT * 86400:
                old.unlink(missing_ok=True)
    except OSError:
        pass
