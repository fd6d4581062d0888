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
  after use  a pool that check found sound, or that was repaired, and then used, is not sound

"lenient" counts what is as for "silent" where contents carry no checks: bytes that a program has stored.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile

KV = ("kv-list", "kv-hash", "kv-btree", "kv-rbtree")
LOCKFREE = tuple(f"{of}-{kind}" for of in ("words", "bytes") for kind in ("list", "hash", "skip", "tree"))
ENGINES = ("undo", "redo", "mnemosyne", "log")
PAGE = 4096


def bases():
    """Content, engine, medium, state of each pool that is damaged."""
    for engine in ENGINES:
        media = ("shm",) if engine == "mnemosyne" else ("shm", "ssd")
        for medium in media:
            for content in ("objects",) + KV + (LOCKFREE if engine != "log" else ()):
                for state in ("closed", "killed"):
                    yield content, engine, medium, state


def is_strict(content, engine, checked):
    """Whether every byte that was stored is checked."""
    return engine == "log" or any(content.startswith(c) for c in checked)


class Run:
    def __init__(self, given, folder):
        self.given = given
        self.folder = folder
        self.made = {}

    def process(self, *command):
        """Exit code (negative: a signal, None: too much processor time), output."""
        limit = self.given.cpu

        def prepare():
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=prepare, check=False)
        code = None if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL) else done.returncode
        return code, done.stdout.decode(errors="replace")

    def base(self, which):
        if which not in self.made:
            content, engine, medium, state = which
            path = self.folder / "-".join(which)
            self.process(self.given.pools, "make", content, engine, medium, path, state)
            if not path.exists():
                raise SystemExit(f"{path}: could not be made")
            made = path.read_bytes()
            seen = self.look(content, path)
            if seen[0] != 0:
                raise SystemExit(f"{path}: cannot be read: {seen[1]}")
            self.made[which] = (made, seen[1])
        return self.made[which]

    def look(self, content, path):
        # A copy of a pool whose owner died is refused: it is the file itself that is opened, and put back.
        bytes_of = path.read_bytes()
        code, out = self.process(self.given.pools, "look", content, path)
        path.write_bytes(bytes_of)
        lines = [line for line in out.splitlines() if not line.startswith("refused")]
        return code, collections.Counter(lines)


def used_places(image):
    """Pages that are not all zero: what is damaged elsewhere is hardly worth a try."""
    zeros = bytes(PAGE)
    return [at for at in range(0, len(image), PAGE) if image[at:at + PAGE] != zeros[:len(image[at:at + PAGE])]]


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


def damage(rng, image):
    """Changes the image in one place; says how."""
    pages = used_places(image)
    page = rng.choice(pages)
    kind = rng.choices(("word", "junk", "zero page", "swap", "cut", "longer"), (70, 10, 7, 7, 3, 3))[0]
    if kind == "word":
        # Most words of a page are zero, and nothing is in them.
        at = page + rng.randrange(PAGE // 8) * 8
        for _ in range(20):
            if any(image[at:at + 8]):
                break
            at = page + rng.randrange(PAGE // 8) * 8
        return word_change(rng, image, at)
    if kind == "junk":
        at, n = page + rng.randrange(PAGE - 256), rng.randrange(9, 256)
        image[at:at + n] = rng.randbytes(n)
        return f"junk of {n} bytes at {at:#x}"
    if kind == "zero page":
        image[page:page + PAGE] = bytes(PAGE)
        return f"zeros in page {page:#x}"
    if kind == "swap":
        other = rng.choice(pages)
        image[page:page + PAGE], image[other:other + PAGE] = image[other:other + PAGE], image[page:page + PAGE]
        return f"pages {page:#x} and {other:#x} swapped"
    if kind == "cut":
        n = rng.randrange(len(image))
        del image[n:]
        return f"cut off at {n:#x}"
    image += rng.randbytes(rng.randrange(1, 3 * PAGE))
    return f"{len(image)} bytes long"


def judge(run, number, which, table):
    content, engine, _, state = which
    given = run.given
    image, stored = run.base(which)
    rng = random.Random(f"{given.seed} {number}")
    damaged = bytearray(image)
    how = damage(rng, damaged)
    path = run.folder / "-".join(which)
    out = path.with_name(path.name + ".repaired")
    out.unlink(missing_ok=True)
    path.write_bytes(damaged)
    faults = []

    def step(name, *command):
        code, text = run.process(*command)
        if code is None:
            faults.append(f"hang: {name}")
        elif code < 0:
            faults.append(f"signal: {name}: {signal.Signals(-code).name}")
        return code, text

    def look(name, at):
        code, seen = run.look(content, at)
        if code is None:
            faults.append(f"hang: {name}")
        elif code < 0:
            faults.append(f"signal: {name}: {signal.Signals(-code).name}")
        return code, seen

    strict = is_strict(content, engine, given.checked)
    check, _ = step("check", given.cli, "check", path)
    _, before = look("look", path)
    if check == 0 and before != stored:
        # The last record of a log of a killed pool may be like one that was never begun.
        one_less = state == "killed" and sum((stored - before).values()) <= 1
        if strict and not one_less:
            faults.append(f"silent: {sum((stored - before).values())} entries are not as stored, check is sound")
        elif not strict:
            table["lenient"] += 1
    repair, text = step("repair", given.cli, "repair", path, "--json")
    try:
        answer = json.loads(text)
        notes = [note["what"] for note in answer["lost"] + answer["kept"]]
    except (ValueError, KeyError):
        notes = []
    # Entries of stores that are damaged stay so, and are listed.
    in_store = any(what.startswith("key-value store") for what in notes)
    table["refused" if repair == 3 else "repaired" if out.exists() else "other"] += 1
    if repair in (0, 1) and out.exists():
        if step("check of the repaired", given.cli, "check", out)[0] != 0 and not in_store:
            faults.append("unsound: the repaired pool")
        _, after = look("look at the repaired", out)
        # What was read before may have been old, or wrong.
        gone = (before & stored) - after
        if gone:
            faults.append(f"worse: {sum(gone.values())} of {sum(before.values())} readable entries are not there")
        lost = sum((stored - after).values())
        table["entries lost"] += lost
        if lost > 0 and strict and not notes and state == "closed":
            faults.append(f"unlisted: {lost} entries are not as stored")
    used = out if out.exists() else path
    step("use", given.pools, "use", content, used)
    if check == 0 or out.exists():
        if step("check after use", given.cli, "check", used)[0] not in (0, None) and not in_store and (out.exists() or strict):
            faults.append("after use: not sound")
    table["tries"] += 1
    for f in faults:
        table[f.split(":")[0]] += 1
        print(f"{number}: {' '.join(which)}: {how}: {f}", flush=True)
    return not faults


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--cli", type=pathlib.Path, required=True, help="the program holdfast")
    parse.add_argument("--pools", type=pathlib.Path, required=True, help="the program damage_pool")
    parse.add_argument("--tries", type=int, default=1000)
    parse.add_argument("--first", type=int, default=0, help="number of the first try: goes on after so many")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--cpu", type=int, default=5, help="seconds of processor time that a process may take")
    parse.add_argument("--checked", nargs="*", default=["kv-"],
                       help="beginnings of the contents that carry checks by default")
    parse.add_argument("--only", default="", help="pools whose name contains this")
    parse.add_argument("--ledger", action="store_true", help="print the line for docs/explored.md")
    given = parse.parse_args()
    all_bases = [b for b in bases() if given.only in " ".join(b)]
    tables = collections.defaultdict(collections.Counter)
    good = True
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="holdfast-damage-", dir=place) as folder:
        run = Run(given, pathlib.Path(folder))
        for number in range(given.first, given.first + given.tries):
            which = all_bases[number % len(all_bases)]
            good = judge(run, number, which, tables[f"{which[1]}, {which[0]}"]) and good
    columns = ("tries", "repaired", "refused", "silent", "lenient", "unsound", "worse", "unlisted", "after use", "signal",
               "hang")
    total = collections.Counter()
    print("| engine, content | " + " | ".join(columns) + " |")
    for name in sorted(tables):
        total.update(tables[name])
        print(f"| {name} | " + " | ".join(str(tables[name][c]) for c in columns) + " |")
    print("| all | " + " | ".join(str(total[c]) for c in columns) + " |")
    if given.ledger:
        print(f"Damaged pools (`./dev explore damage --tries {given.tries} --first {given.first} --seed {given.seed}`): "
              f"{total['tries']} tries, {total['repaired']} repaired, {total['refused']} refused; silent "
              f"{total['silent']}, worse {total['worse']}, signals {total['signal']}, hangs {total['hang']}.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
