#!/usr/bin/env python3
"""Damages pools in one place each, and judges what check, repair and the calls of the library make of them.

Each try has a number; it and the seed say which pool and which change, so that one is repeated by --first N --tries 1.
In processes of their own, each with a limit on its processor time: check, look, repair, check and look again, use,
check.  A try fails when

  signal     a process ends by a signal
  hang       a process takes more processor time than --cpu seconds
  silent     check finds nothing, and what can be read is not what was stored, where that is checked (STRICT)
  unsound    repair has written a pool in which check finds something
  worse      an entry that could be read before the repair is not there afterwards, or is another one
  unlisted   entries are lost, and repair says that nothing is lost or kept
  invented   a repaired pool has an entry that nobody stored, and repair says that nothing is lost or kept
  too much   repair of a key-value store has lost more than the entries of a node for one changed word
  another    one changed word has cost entries of more than one store or structure, or of one and plain objects
  after use  a pool that check found sound, or that was repaired, and then used, is not sound

"lenient" counts what is as for "silent" where contents carry no checks: bytes that a program has stored; "stale" the same
where a whole page is one of another time, whose checks hold; "found" what check finds; "harmless" damage that it does not
find and that changes nothing that can be read: it hit free places; "served" pools from which other bytes were read than
were stored: reading compares no checksums, but in key-value stores that are asked to.

A quarter of the tries damage what leads to everything else: "aimed"; with --aim all of them do.

With --state FILE a campaign is resumed: the file has the number of the next try, the table and the findings, and what
says which try has a number: the version of this program's draws, the seed and the pools.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

import server_pool

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
import random_seed

KV = ("kv-list", "kv-hash", "kv-btree", "kv-rbtree")
LOCKFREE = tuple(f"{of}-{kind}" for of in ("words", "bytes") for kind in ("list", "hash", "skip", "tree")) + tuple(
    f"volatile-{kind}" for kind in ("list", "hash", "skip"))
REGIONS = ("regions", "kv-regions", "mixed-regions")
# Parts of which is checked how long an entry is, and not its bytes.
SIZED = ("regions",)
# Parts of which nothing says how many entries there are, unless the pool was closed: pages that are called free are not
# missed (docs/care.md).
UNCOUNTED = ("regions", "kv-regions")
MIXED = {True: "mixed", False: "mixed-stores"}  # by whether the engine has lock-free structures
ENGINES = ("undo", "redo", "mnemosyne", "log")
WITH_REGIONS = ("undo", "redo")
PAGE = 4096
AIMS = ("superblock", "log", "map", "names")
AIMED_EVERY = 4
# Greater with every change of what a try of a number is.
STATE_VERSION = 3
ANCHOR_MASK = 2**56 - 1
NODE = 13  # entries that are in one node


def bases(with_server):
    """Content, engine, medium, state of each pool that is damaged."""
    if with_server:
        yield from ((server_pool.CONTENT, "undo", medium, state) for medium in ("shm", "ssd")
                    for state in ("closed", "killed"))
    for engine in ENGINES:
        media = ("shm",) if engine == "mnemosyne" else ("shm", "ssd")
        for medium in media:
            structures = engine != "log"
            # What users have: many things in one pool.
            regions = REGIONS if engine in WITH_REGIONS else ()
            for content in ("objects",) + KV + (LOCKFREE if structures else ()) + regions + (MIXED[structures],):
                for state in ("closed", "killed"):
                    yield content, engine, medium, state


def is_strict(part, engine, checked, state):
    """Whether every byte that was stored there is checked.  Nothing counts the nodes of volatile links before the close."""
    if part.startswith("volatile-") and state == "killed":
        return False
    return engine == "log" or any(part.startswith(c) for c in checked)


def by_part(entries):
    """The entries of each store and structure, and those of all objects."""
    parts = collections.defaultdict(collections.Counter)
    for line, n in entries.items():
        parts[line.split()[0]][line] = n
    return parts


def keys_in(entries):
    return {tuple(line.split()[:2]) for line in entries}


def missed(wanted, seen, state):
    """Without entries of UNCOUNTED that are not there at all, in a pool that was not closed."""
    if state == "closed":
        return wanted
    keys = keys_in(seen)
    return collections.Counter({line: n for line, n in wanted.items()
                                if line.split()[0] not in UNCOUNTED or tuple(line.split()[:2]) in keys})


def parts_in(entries):
    return ", ".join(f"{sum(of.values())} of {part}" for part, of in sorted(by_part(entries).items())) or "none"


class Run:
    def __init__(self, given, folder):
        self.given = given
        self.folder = folder
        self.made = {}
        self.bases = [b for b in bases(given.server is not None) if given.only in " ".join(b)]

    def which(self, number):
        return self.bases[number % len(self.bases)]

    def aims(self, number):
        """Parts of a pool that the try damages; none: any place of it."""
        if self.given.aim:
            return tuple(self.given.aim)
        # Of the tries of each pool, too.
        return AIMS if (number + number // len(self.bases)) % AIMED_EVERY == AIMED_EVERY - 1 else ()

    def process(self, *command):
        """Exit code (negative: a signal, None: too much processor time), output."""
        # Limits come after the start: a function in the child would make each start copy the page tables of this process.
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(done.pid, resource.RLIMIT_CPU, (self.given.cpu, self.given.cpu + 1))
            out, _ = done.communicate()
        code = None if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else done.returncode
        return code, out.decode(errors="replace")

    def base(self, which):
        if which not in self.made:
            content, engine, medium, state = which
            path = self.folder / "-".join(which)
            if content == server_pool.CONTENT:
                server_pool.make(self.given.server, path, medium, state)
            else:
                self.process(self.given.pools, "make", content, engine, medium, path, state)
            if not path.exists():
                raise SystemExit(f"{path}: could not be made")
            made = path.read_bytes()
            seen = self.look(content, path)
            if seen[0] != 0:
                raise SystemExit(f"{path}: cannot be read: {seen[1]}")
            # The same pool at another time, with half of the entries.
            if content == server_pool.CONTENT:
                server_pool.halve(self.given.server, path)
            else:
                self.process(self.given.pools, "halve", content, path)
            self.made[which] = (made, seen[1], path.read_bytes())
        return self.made[which]

    def look(self, content, path):
        # A copy of a pool whose owner died is refused: it is the file itself that is opened, and put back.
        bytes_of = path.read_bytes()
        if content == server_pool.CONTENT:
            code, seen = server_pool.look(self.given.server, path, self.given.cpu)
            path.write_bytes(bytes_of)
            return code, seen
        code, out = self.process(self.given.pools, "look", content, path)
        path.write_bytes(bytes_of)
        lines = [line for line in out.splitlines() if not line.startswith("refused")]
        return code, collections.Counter(lines)


def used_places(image):
    """Pages that are not all zero: what is damaged elsewhere is hardly worth a try."""
    zeros = bytes(PAGE)
    return [at for at in range(0, len(image), PAGE) if image[at:at + PAGE] != zeros[:len(image[at:at + PAGE])]]


def aimed_places(image, aims):
    """Pages of what leads to everything else: copies of the superblock with the anchors, logs, page map, directories."""
    page_map, log, log_bytes, data = struct.unpack_from("<QQQQ", image, 72)
    words = [struct.unpack_from("<Q", image, anchor + 8 * i)[0] & ANCHOR_MASK
             for anchor in (512, PAGE + 512) for i in (2, 3, 4)]
    names = {place // PAGE * PAGE + PAGE * more for place in words if place for more in range(2)}
    ranges = {"superblock": (0, 2 * PAGE), "map": (page_map, log), "log": (log, log + log_bytes)}
    places = [at for at in used_places(image)
              if any(begin <= at < end for begin, end in (ranges[a] for a in aims if a in ranges))
              or ("names" in aims and at >= data and at in names)]
    return places or used_places(image)


def word_change(rng, image, at):
    old = int.from_bytes(image[at:at + 8], "little")
    how = rng.choice(("bit", "random", "zero", "ones", "plus", "minus", "elsewhere"))
    pages = used_places(image)
    other = rng.choice(pages) + rng.randrange(PAGE // 8) * 8
    new = {"bit": old ^ 1 << rng.randrange(64), "random": rng.getrandbits(64), "zero": 0, "ones": 2**64 - 1,
           "plus": (old + 1) % 2**64, "minus": (old - 1) % 2**64,
           "elsewhere": int.from_bytes(image[other:other + 8], "little")}[how]
    image[at:at + 8] = new.to_bytes(8, "little")
    return f"{how} at {at:#x}: {old:#x} -> {new:#x}"


def junk(rng, image, page, _):
    at, n = page + rng.randrange(PAGE - 256), rng.randrange(9, 256)
    image[at:at + n] = rng.randbytes(n)
    return f"junk of {n} bytes at {at:#x}"


def zero_page(_, image, page, __):
    image[page:page + PAGE] = bytes(PAGE)
    return f"zeros in page {page:#x}"


def swap(rng, image, page, _):
    other = rng.choice(used_places(image))
    image[page:page + PAGE], image[other:other + PAGE] = image[other:other + PAGE], image[page:page + PAGE]
    return f"pages {page:#x} and {other:#x} swapped"


def double_page(rng, image, page, _):
    other = rng.choice(used_places(image))
    image[page:page + PAGE] = image[other:other + PAGE]
    return f"page {page:#x} is that of {other:#x}"


def stale_page(rng, image, page, other):
    """A page as it is at another time: what is left when a device loses a write."""
    changed = [at for at in used_places(image) if image[at:at + PAGE] != other[at:at + PAGE]]
    page = rng.choice(changed) if changed else page
    image[page:page + PAGE] = other[page:page + PAGE]
    return f"page {page:#x} is of another time"


def cut(rng, image, _, __):
    n = rng.randrange(len(image))
    del image[n:]
    return f"cut off at {n:#x}"


def longer(rng, image, _, __):
    image += rng.randbytes(rng.randrange(1, 3 * PAGE))
    return f"{len(image)} bytes long"


def word(rng, image, page, _):
    # Most words of a page are zero, and nothing is in them.
    at = page + rng.randrange(PAGE // 8) * 8
    for _ in range(20):
        if any(image[at:at + 8]):
            break
        at = page + rng.randrange(PAGE // 8) * 8
    return word_change(rng, image, at)


DAMAGES = {word: 64, junk: 10, zero_page: 6, swap: 6, double_page: 4, stale_page: 4, cut: 3, longer: 3}


def damage(rng, image, other_time, aims=()):
    """Changes the image in one place; the kind, and how."""
    page = rng.choice(aimed_places(image, aims) if aims else used_places(image))
    kind = rng.choices(list(DAMAGES), DAMAGES.values())[0]
    return kind, kind(rng, image, page, other_time)


class Try:
    """One damaged pool: what the programs say about it, and the faults that this shows."""

    def __init__(self, run, number, which, table):
        self.run, self.number, self.which, self.table = run, number, which, table
        self.content, self.engine, _, self.state = which
        self.given = run.given
        image, self.stored, other_time = run.base(which)
        rng = random.Random(f"{self.given.seed} {number}")
        damaged = bytearray(image)
        aims = run.aims(number)
        self.kind, self.how = damage(rng, damaged, other_time, aims)
        table[self.kind.__name__] += 1
        table["aimed"] += 1 if aims else 0
        self.path = run.folder / "-".join(which)
        self.out = self.path.with_name(self.path.name + ".repaired")
        self.out.unlink(missing_ok=True)
        self.path.write_bytes(damaged)
        self.strict = not self.only_strict(self.stored, False)
        self.faults = []

    def only_strict(self, entries, strict=True):
        """Those of parts of which every byte is checked, or those of the others; both have those of SIZED, without sums."""
        keep = collections.Counter()
        for part, of in by_part(entries).items():
            if part in SIZED:
                keep += collections.Counter(line.rsplit(" ", 1)[0] for line in of.elements())
            elif is_strict(part, self.engine, self.given.checked, self.state) == strict:
                keep += of
        return keep

    def ended(self, name, code):
        if code is None:
            self.faults.append(f"hang: {name}")
        elif code < 0:
            self.faults.append(f"signal: {name}: {signal.Signals(-code).name}")

    def step(self, name, *command):
        code, text = self.run.process(*command)
        self.ended(name, code)
        return code, text

    def look(self, name, at):
        code, seen = self.run.look(self.content, at)
        self.ended(name, code)
        return seen

    def check(self):
        """Exit code of the check, and the entries that can be read."""
        check, _ = self.step("check", self.given.cli, "check", self.path)
        before = self.look("look", self.path)
        if before - self.stored and self.kind is not stale_page:
            self.table["served"] += 1
        if check != 0:
            self.table["found"] += 1
        elif before == self.stored:
            self.table["harmless"] += 1
        if check == 0 and before != self.stored:
            seen = self.only_strict(before)
            wanted = missed(self.only_strict(self.stored), seen, self.state)
            missing = sum((wanted - seen).values())
            # The last record of a log of a killed pool may be like one that was never begun: it has removed an entry.
            one_less = self.state == "killed" and missing <= 1 and not keys_in(wanted - seen) & keys_in(seen - wanted)
            if self.kind is stale_page:
                self.table["stale"] += 1
            elif wanted == seen:
                self.table["lenient"] += 1
            elif not one_less:
                self.faults.append(f"silent: {missing} entries are not as stored, check is sound: "
                                   f"{parts_in(wanted - seen)}")
        return check, before

    def repair(self, before):
        """Repairs the pool; whether damage in a store was reported, which stays."""
        repair, text = self.step("repair", self.given.cli, "repair", self.path, "--json")
        try:
            answer = json.loads(text)
            notes = [note["what"] for note in answer["lost"] + answer["kept"]]
        except (ValueError, KeyError):
            notes = []
        # Entries of stores that are damaged stay so, and are listed.
        in_store = any(what.startswith("key-value store") for what in notes)
        self.table["refused" if repair == 3 else "repaired" if self.out.exists() else "other"] += 1
        if repair in (0, 1) and self.out.exists():
            if self.step("check of the repaired", self.given.cli, "check", self.out)[0] != 0 and not in_store:
                self.faults.append("unsound: the repaired pool")
            self.compare(before, self.look("look at the repaired", self.out), notes)
        return in_store

    def compare(self, before, after, notes):
        # What was read before may have been old, or wrong.
        gone = (before & self.stored) - after
        if gone:
            self.faults.append(f"worse: {sum(gone.values())} of {sum(before.values())} readable entries are not there: "
                               f"{parts_in(gone)}")
        lost = self.stored - after
        self.table["entries lost"] += sum(lost.values())
        now = self.only_strict(after)
        as_stored = missed(self.only_strict(self.stored), now, self.state)
        lost_strictly, wrong = as_stored - now, now - as_stored
        unexplained = not notes and self.state == "closed" and self.kind is not stale_page
        if wrong and unexplained:
            self.faults.append(f"invented: {parts_in(wrong)}: not what was stored, and nobody says so")
        one_word = self.kind is word and self.state == "closed"
        for part, of in by_part(lost).items():
            if one_word and part in KV and self.engine != "log" and sum(of.values()) > NODE:
                self.faults.append(f"too much: {parts_in(of)} are lost for one word")
        if one_word and len(by_part(lost)) > 1:
            self.faults.append(f"another: {parts_in(lost)} are lost for one word")
        if lost_strictly and unexplained:
            self.faults.append(f"unlisted: {parts_in(lost_strictly)} are not as stored")

    def use(self, check, in_store):
        used = self.out if self.out.exists() else self.path
        if self.content == server_pool.CONTENT:
            self.ended("use", server_pool.use(self.given.server, used, self.given.cpu))
        else:
            self.step("use", self.given.pools, "use", self.content, used)
        if check == 0 or self.out.exists():
            unseen = self.kind is stale_page or not (self.out.exists() or self.strict)
            after = self.step("check after use", self.given.cli, "check", used)[0]
            if after not in (0, None) and not in_store and not unseen:
                self.faults.append("after use: not sound")


def judge(run, number, which, table):
    one = Try(run, number, which, table)
    check, before = one.check()
    in_store = one.repair(before)
    one.use(check, in_store)
    table["tries"] += 1
    for f in one.faults:
        table[f.split(":")[0]] += 1
        if not run.given.json:
            print(f"{number}: {' '.join(which)}: {one.how}: {f}", flush=True)
    return [f"{number}: {' '.join(which)}: {one.how}: {f}" for f in one.faults]


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--cli", type=pathlib.Path, required=True, help="the program holdfast")
    parse.add_argument("--pools", type=pathlib.Path, required=True, help="the program damage_pool")
    parse.add_argument("--server", type=pathlib.Path, help="the program nv-memcached, whose pools take part then")
    parse.add_argument("--tries", type=int, default=1000)
    parse.add_argument("--first", type=int, default=0, help="number of the first try: goes on after so many")
    parse.add_argument("--turn-of", type=int, default=0, metavar="N",
                       help="begins at another of the first N tries each day, by NVM_EXPLORE_SEED")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--cpu", type=int, default=5, help="seconds of processor time that a process may take")
    parse.add_argument("--checked", nargs="*", default=["kv-", "bytes-", "words-", "volatile-", "memcached"],
                       help="beginnings of the contents that carry checks by default")
    parse.add_argument("--only", default="", help="pools whose name contains this")
    parse.add_argument("--aim", nargs="*", default=[], choices=AIMS,
                       help="all tries damage what leads to everything else: these parts of it")
    parse.add_argument("--ledger", action="store_true", help="print the line for docs/explored.md")
    parse.add_argument("--state", type=pathlib.Path, help="file to go on from, and to write to")
    parse.add_argument("--seconds", type=float, default=0, help="ends after so many, whatever --tries says; 0: never")
    parse.add_argument("--json", action="store_true", help="print one document")
    given = parse.parse_args()
    if given.turn_of:
        given.first = random_seed.seed_from_environment() * given.tries % given.turn_of
        print(f"from try {given.first} on", flush=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-damage-", dir=place) as folder:
        done = campaign(Run(given, pathlib.Path(folder)))
    report(given, done)
    return 1 if done["findings"] else 0


def state_of(run):
    """What a campaign of these arguments goes on from: what its file says, or nothing."""
    given = run.given
    new = {"version": STATE_VERSION, "seed": given.seed, "aim": given.aim, "pools": [" ".join(b) for b in run.bases],
           "next": given.first, "tables": {}, "findings": []}
    if not given.state or not given.state.exists():
        return new
    old = json.loads(given.state.read_text())
    version = old.get("version", 1)
    if version != STATE_VERSION:
        raise SystemExit(f"{given.state}: the state of a campaign of version {version}, whose tries are others than "
                         f"those of version {STATE_VERSION}: it cannot go on; name another file")
    for name, text in (("seed", "another seed"), ("aim", "another aim"), ("pools", "other pools")):
        if old[name] != new[name]:
            raise SystemExit(f"{given.state}: the state of a campaign with {text}: it cannot go on; name another file")
    return old


def campaign(run):
    """Next number, tables by engine and content, findings."""
    given = run.given
    done = state_of(run)
    tables = collections.defaultdict(collections.Counter)
    tables.update({name: collections.Counter(table) for name, table in done["tables"].items()})
    done["tables"] = tables
    begin = told = time.monotonic()
    while done["next"] < given.first + given.tries:
        now = time.monotonic()
        if given.seconds and now - begin > given.seconds:
            break
        if now - told > 10:
            told = now
            print(f"{done['next'] - given.first} of {given.tries}, {len(done['findings'])} findings", file=sys.stderr)
        which = run.which(done["next"])
        done["findings"] += judge(run, done["next"], which, tables[f"{which[1]}, {which[0]}"])
        done["next"] += 1
        if given.state and done["next"] % 20 == 0:
            given.state.write_text(json.dumps(done))
    if given.state:
        given.state.write_text(json.dumps(done))
    return done


def report(given, done):
    columns = ("tries", "aimed", "found", "harmless", "lenient", "stale", "served", "repaired", "refused",
               "entries lost", "silent", "unsound", "worse", "unlisted", "invented", "too much", "another", "after use",
               "signal", "hang")
    total = sum(done["tables"].values(), collections.Counter())
    if given.json:
        print(json.dumps({"seed": given.seed, "first": given.first, "total": total, **done}))
        return
    print("| engine, content | " + " | ".join(columns) + " |")
    for name in sorted(done["tables"]):
        print(f"| {name} | " + " | ".join(str(done["tables"][name][c]) for c in columns) + " |")
    print("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    if given.ledger:
        print(f"Damaged pools (`./dev explore damage --tries {given.tries} --first {given.first} --seed {given.seed}`): "
              + ", ".join(f"{c} {total[c]}" for c in columns) + "; "
              + ", ".join(f"{d.__name__} {total[d.__name__]}" for d in DAMAGES) + ".")


if __name__ == "__main__":
    sys.exit(main())
