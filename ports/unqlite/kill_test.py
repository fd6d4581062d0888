#!/usr/bin/env python3
"""Kills a program that uses durable UnQLite over and over; nothing that was done is lost, and nothing else is there.

Method: a child makes calls that are drawn from a seed (records, documents of a collection by Jx9, transactions that are
committed or rolled back) and writes the number of each after it has returned.  It is killed, and the next goes on over the
same pool.  Plain UnQLite, in memory here, gets the same calls: keys, values and documents must be as after the calls that
had returned, or after one more.

usage: kill_test.py --plain FOLDER --durable FOLDER --pool FILE [--kills N] [--seed N]
FOLDERs have unqlite.so.  Exit codes: 0 all as it should be, 1 not.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time


def text(draw):
    return "".join(draw.choice("abcdefgh") for _ in range(20)) * draw.choice((1, 2, 5, 50, 500))


def change(db, draw):
    key = f"k{draw.randrange(400)}"
    kind = draw.random()
    if kind < 0.45:
        db.store(key, text(draw))
    elif kind < 0.7:
        db.append(key, text(draw)[:200])
    elif kind < 0.85:
        if db.exists(key):
            db.delete(key)
    else:
        db.store(f"new{draw.randrange(1 << 40)}", text(draw)[:100])  # the table grows


def operate(db, number, seed):
    """One call, or one transaction; plain UnQLite has none in memory, and makes its changes or leaves them."""
    draw = random.Random(f"{seed} {number}")
    kind = draw.random()
    memory = db.filename == ":mem:"
    if kind < 0.7:
        change(db, draw)
    elif kind < 0.8:
        documents = db.collection("c")
        if not documents.exists():
            documents.create()
        documents.store({"n": number, "text": text(draw)[:300]})
    elif kind < 0.87:
        documents = db.collection("c")
        if documents.exists() and documents.last_record_id() > 5:
            documents.delete(draw.randrange(documents.last_record_id()))
    elif kind < 0.95:
        if not memory:
            db.begin()
        for _ in range(draw.randrange(1, 12)):
            change(db, draw)
        if not memory:
            db.commit()
    elif not memory:
        db.begin()
        for _ in range(draw.randrange(1, 12)):
            change(db, draw)
        db.rollback()


def state(db):
    documents = db.collection("c")
    found = {k: v.hex() for k, v in db.items() if k.startswith(("k", "new"))}
    found[""] = documents.all() if documents.exists() else None
    return found


def child(arguments):
    what, pool, seed, first = arguments
    from unqlite import UnQLite
    db = UnQLite("pool:" + pool)
    if what == "dump":
        json.dump(state(db), sys.stdout)
        return
    number = int(first)
    while True:
        operate(db, number, seed)
        number += 1
        os.write(1, b"%d\n" % number)


def run(options, what, first):
    return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", what, options.pool, str(options.seed),
                             str(first)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": options.durable})


def killed(options, draw, first):
    """The number of calls that had returned."""
    with run(options, "run", first) as process:
        done = process.stdout.readline()
        if not done:
            sys.exit("kill_test: the program does not run")
        time.sleep(draw.uniform(0, 0.3))
        if process.poll() is not None:
            sys.exit(f"kill_test: the program has ended by itself, {process.returncode}")
        process.kill()
        rest = process.stdout.read()
    lines = (done + rest).split(b"\n")
    return int(lines[-2])


def main():
    if sys.argv[1:2] == ["--child"]:
        return child(sys.argv[2:])
    parser = argparse.ArgumentParser()
    for name in ("plain", "durable", "pool"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    sys.path.insert(0, options.plain)
    from unqlite import UnQLite
    twin = UnQLite(":mem:")
    draw = random.Random(options.seed)
    if os.path.exists(options.pool):
        os.unlink(options.pool)
    begun = time.time()
    done = 0
    for kill in range(options.kills):
        returned = killed(options, draw, done)
        with run(options, "dump", 0) as process:
            found = json.load(process.stdout)
        while done < returned:
            operate(twin, done, options.seed)
            done += 1
        if state(twin) != found:
            operate(twin, done, options.seed)
            done += 1
        wanted = state(twin)
        if wanted != found:
            differ = [k for k in set(wanted) | set(found) if wanted.get(k) != found.get(k)]
            for k in differ[:5]:
                print(f"{k or 'documents'}: durable {str(found.get(k))[:100]}, plain {str(wanted.get(k))[:100]}",
                      file=sys.stderr)
            sys.exit(f"kill_test: kill {kill + 1}: neither as after the {returned} calls that had returned, nor after one "
                     f"more; seed {options.seed}")
    os.unlink(options.pool)
    print(f"{options.kills} kills, {done} calls, nothing that was done is lost; {time.time() - begun:.0f} s, "
          f"seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
