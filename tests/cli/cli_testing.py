"""What the tests of the command line share: the programs, pools in every state, a reader of the format.

Each test program is called with the paths of holdfast and of cli_pool_maker; further arguments are unittest's.
"""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from random_seed import seed_from_environment, takes_turns  # noqa: E402

HOLDFAST = MAKER = None
MEDIA = ("shm", "ssd")
DAYS_OF_A_MEDIUM = int(os.environ.get("HOLDFAST_DAYS_OF_A_MEDIUM", 0))
if DAYS_OF_A_MEDIUM and takes_turns():
    MEDIA = (MEDIA[seed_from_environment() // DAYS_OF_A_MEDIUM % len(MEDIA)],)

GOOD, NEGATIVE, USAGE, UNAVAILABLE, INTERNAL = range(5)


def main():
    """Runs the tests of the calling program."""
    global HOLDFAST, MAKER
    HOLDFAST, MAKER = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], module="__main__", verbosity=2)  # with reasons of skips


def run(*arguments, **more):
    """One run of holdfast: its exit code, standard output and standard error."""
    return subprocess.run([HOLDFAST, *map(str, arguments)], capture_output=True, text=True, timeout=60,
                          errors="surrogateescape", check=False, **more)


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class Layout:
    """Places in a pool file, read from its superblock and its page map as the format states them."""

    SUPERBLOCK = struct.Struct("<QIIIIII16sIIQQQQQQQQQ")
    RUN, FINE, COARSE, LOG = 1, 2, 3, 4

    def __init__(self, path):
        self.data = pathlib.Path(path).read_bytes()
        (_, _, _, _, _, _, page_shift, _, _, self.lane_count, self.lane_bytes, self.capacity_pages,
         self.page_map, self.log, self.log_bytes, self.data_at, _, _, self.size_pages) = \
            self.SUPERBLOCK.unpack_from(self.data)
        self.page = 1 << page_shift
        self.superblocks = (0, self.page)
        self.anchors = (512, self.page + 512)

    def word(self, offset):
        return struct.unpack_from("<Q", self.data, offset)[0]

    def entry(self, page):
        return self.page_map + 8 * page

    def pages(self, kind):
        """Data pages that the page map calls by this kind; 0: free."""
        found = []
        page = 0
        while page < self.size_pages:
            entry = self.word(self.entry(page))
            if entry >> 48 & 15 == kind:
                found.append(page)
            page += max(entry & 0xFFFFFFFF, 1)
        return found

    def extent(self, page, kind):
        """(place of the first words, their number, place of the length bytes, slot size, place of the extent)."""
        at = self.data_at + page * self.page
        slot = 16 if kind == self.FINE else 64
        slots = (1 if kind == self.FINE else 8) * self.page // slot
        words = -(-slots // 56)
        return at + 16, words, at + 16 + 8 * words, slot, at

    def first_object(self, page, kind):
        """(number of the slot in which the extent's first object begins)."""
        first, words, _, _, _ = self.extent(page, kind)
        for i in range(words):
            bits = self.word(first + 8 * i) & ((1 << 56) - 1)
            if bits:
                return 56 * i + (bits & -bits).bit_length() - 1
        raise AssertionError(f"no object in the extent of page {page}")


class PoolTest(unittest.TestCase):
    """Tests with a folder on each medium."""

    maxDiff = None

    def setUp(self):
        self._folders = {}

    def tearDown(self):
        for folder in self._folders.values():
            shutil.rmtree(folder)

    def path(self, medium, name="pool.nvm"):
        if medium not in self._folders:
            where = "/dev/shm" if medium == "shm" else None
            self._folders[medium] = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-cli-", dir=where))
        return self._folders[medium] / name

    def make(self, path, medium, action, expect=0):
        made = subprocess.run([MAKER, str(path), medium, action], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(made.returncode, expect, made.stderr)
        return made.stdout

    def used_pool(self, medium, name="pool.nvm"):
        """A closed pool with objects; also [(type, bytes, count)] of what is in it."""
        path = self.path(medium, name)
        lines = self.make(path, medium, "fill").splitlines()
        return path, [tuple(map(int, line.split())) for line in lines]

    def dead_pool(self, medium, name="pool.nvm"):
        """A used pool whose last owner died in a transaction."""
        path, kinds = self.used_pool(medium, name)
        self.make(path, medium, "die", expect=-signal.SIGKILL)
        return path, kinds

    @contextlib.contextmanager
    def held(self, path, medium, action="hold"):
        """While another process has the pool open, with "read" read-only; yields its pid."""
        with subprocess.Popen([MAKER, str(path), medium, action], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as owner:
            self.assertEqual(owner.stdout.readline(), "ready\n")
            yield owner.pid
            owner.stdin.close()
            self.assertEqual(owner.wait(timeout=60), 0)

    def answer(self, *arguments, expect=GOOD):
        """The JSON document of a command."""
        done = run(*arguments, "--json")
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def assert_fails(self, arguments, code, error, words=""):
        """The command fails with the exit code, in text and in JSON, and names error code, subject and reason."""
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        first = done.stderr.splitlines()[0]
        self.assertRegex(first, rf"^holdfast: .+: .*{words}.* \({error}\)$")
        done = run("--json", *arguments)
        self.assertEqual(done.returncode, code)
        document = json.loads(done.stdout)["error"]
        self.assertEqual((document["code"], document["exit_code"]), (error, code))
        self.assertIn(f"{document['subject']}: {document['message']} ({error})", first)

    @contextlib.contextmanager
    def unchanged(self, *paths):
        """Fails if the block changes one of the files, or when it was changed last."""
        before = [(digest(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths]
        yield
        after = [(digest(p), p.stat().st_mtime_ns, p.stat().st_size) for p in paths]
        self.assertEqual(before, after)


def names_in(value, prefix=""):
    """Names of all fields in a document, as the tool documents them: findings[].offset."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from names_in(inner, f"{prefix}.{name}" if prefix else name)
    elif isinstance(value, list):
        if not value:
            yield prefix + "[]"
        for inner in value:
            yield from names_in(inner, prefix + "[]")
    else:
        yield prefix
