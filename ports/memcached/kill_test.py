#!/usr/bin/env python3
"""Kills durable memcached over and over; nothing that was answered is lost, and nothing else is there.

Method: four connections, each with keys of its own, send commands that are drawn from a seed.  The server is killed in
between, and started again over its pool.  A model of each connection's keys, here, gets the same commands: value, flags
and whether it expires must be, of all keys together, as after the commands that were answered, or after some more whose
answers had not come.  Each 25th kill a new pool begins, so that the table grows again.

With --keep FILE the pool is copied there after each kill, so that what a kill has left can be looked at when the server
refuses it.

With --full items are evicted, for there is too little memory, and because a fifth connection moves slab pages, which
evicts what has no room elsewhere: each key is as the model has it, or absent.

usage: kill_test.py --durable SERVER --pool FILE [--kills N] [--seed N] [--pipeline N] [--full] [--keep FILE]
Exit codes: 0 all as it should be, 1 not.
"""
import argparse
import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KEYS = 6000  # of a connection; four of them make a table of 8,192 buckets grow
KILLS_OF_A_POOL = 25


class Ended(Exception):
    """The server is gone."""


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Ended from error

    def line(self):
        try:
            line = self.file.readline()
        except OSError as error:
            raise Ended from error
        if not line.endswith(b"\r\n"):
            raise Ended
        return line[:-2]

    def value(self, line):
        """What follows a line that says how many bytes."""
        data = self.file.read(int(line.split()[-1]) + 2)
        if not data.endswith(b"\r\n"):
            raise Ended
        return data[:-2]

    def call(self, command):
        self.send(command + b"\r\n")
        return self.line()

    def items(self, keys):
        """{key: (value, flags, whether it expires)} of those that are there."""
        found = {}
        keys = list(keys)
        for i in range(0, len(keys), 100):
            some = keys[i:i + 100]
            self.send(b"".join(b"mg %s f t v\r\n" % k for k in some))
            for k in some:
                line = self.line()
                if line == b"EN":
                    continue
                words = line.split()
                if words[0] != b"VA":
                    sys.exit(f"kill_test: a wrong answer: {line!r}")
                data = self.file.read(int(words[1]) + 2)
                if not data.endswith(b"\r\n"):
                    raise Ended
                found[k] = (data[:-2], int(words[2][1:]), words[3] != b"t-1")
        return found


class Server:
    def __init__(self, program, folder, pool, full):
        self.path = os.path.join(folder, "durable.sock")
        self.log = os.path.join(folder, "log")
        memory = "32" if full else "192"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [program, "-s", self.path, "-u", "root", "-e", pool, "-m", memory, "-t", "4", "-R", "100",
                 "-o", "hashpower=13,slab_chunk_max=16384,slab_reassign"], stdout=log, stderr=log)
        atexit.register(self.process.kill)
        for _ in range(3000):
            try:
                if Connection(self.path).call(b"mn") == b"MN":
                    return
            except (OSError, Ended):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            print(log.read()[-3000:], file=sys.stderr)
        sys.exit("kill_test: the server does not answer")

    def kill(self, after=0.0):
        """By a process of its own: clients are threads of this one, which wait while it does anything else."""
        subprocess.run(["sh", "-c", f"sleep {after:.3f}; kill -9 {self.process.pid}"], check=False,
                       stderr=subprocess.DEVNULL)
        self.process.wait()
        if self.process.returncode != -signal.SIGKILL:
            with open(self.log, encoding="utf-8", errors="replace") as log:
                print(log.read()[-3000:], file=sys.stderr)
            sys.exit(f"kill_test: the server has ended by itself, {self.process.returncode}")
        if os.path.exists(self.path):
            os.unlink(self.path)


def text(draw):
    size = draw.choice((1, 10, 30, 80, 100, 500, 1000, 3000)) if draw.random() < 0.98 else draw.choice((20000, 100000))
    return (b"%x." % draw.getrandbits(64)) * (size // 12 + 1)


class Command:
    """Bytes to send, lines of the answer that begin values, and what becomes of the model."""

    def __init__(self, data, change, has_value=False):
        self.data, self.change, self.has_value = data, change, has_value
        self.refused = False  # it was answered that nothing has changed


def stored(key, verb, value, flags, expires):
    data = b"%s %s %d %d %d\r\n%s\r\n" % (verb, key, flags, 100000 if expires else 0, len(value), value)

    def change(model):
        old = model.get(key)
        if verb == b"set" or (verb == b"add") == (old is None) and verb in (b"add", b"replace"):
            model[key] = (value, flags, expires)
        elif verb in (b"append", b"prepend") and old is not None:
            model[key] = (old[0] + value if verb == b"append" else value + old[0], *old[1:])
    return Command(data, change)


def counted(key, verb, delta):
    def change(model):
        if key in model:
            now = int(model[key][0])
            now = (now + delta) % 2**64 if verb == b"incr" else max(0, now - delta)
            model[key] = (b"%d" % now, *model[key][1:])
    return Command(b"%s %s %d\r\n" % (verb, key, delta), change)


def touched(key, data, expires, has_value=False):
    def change(model):
        if key in model:
            model[key] = (*model[key][:2], expires)
    return Command(data, change, has_value)


def removed(key, data):
    return Command(data, lambda model: model.pop(key, None))


def draw_command(draw, client, full):
    text_key = b"t%d-%d" % (client, draw.randrange(KEYS - 100))
    short_key = b"s%d-%d" % (client, draw.randrange(50))
    number_key = b"n%d-%d" % (client, draw.randrange(50))
    roll = draw.random()
    expires = draw.random() < 0.2
    add = b"set" if full else b"add"  # what was evicted can be added, and the model does not know
    if roll < 0.45:
        verb = draw.choice((b"set", b"set", add, b"replace"))
        return stored(text_key, verb, text(draw), draw.choice((0, 7)), expires)
    if roll < 0.55:
        return stored(short_key, draw.choice((b"set", b"append", b"append", b"prepend")), text(draw)[:2000], 0, expires)
    if roll < 0.65:
        return stored(number_key, draw.choice((b"set", add)), b"%d" % draw.randrange(10**9), 0, False)
    if roll < 0.80:
        return counted(number_key, draw.choice((b"incr", b"decr")), draw.randrange(10**9))
    if roll < 0.86:
        return removed(text_key, b"delete %s\r\n" % text_key)
    if roll < 0.88:
        return removed(text_key, b"md %s\r\n" % text_key)
    if roll < 0.91:
        return touched(text_key, b"touch %s %d\r\n" % (text_key, 100000 if expires else 0), expires)
    if roll < 0.94:
        return touched(text_key, b"mg %s T%d v\r\n" % (text_key, 100000 if expires else 0), expires, True)
    if roll < 0.97:
        value = text(draw)

        def change(model):
            model[text_key] = (value, 3, expires)
        return Command(b"ms %s %d F3 T%d\r\n%s\r\n" % (text_key, len(value), 100000 if expires else 0, value), change)
    return Command(b"mg %s v\r\n" % text_key, lambda model: None, True)


class Client(threading.Thread):
    """Sends commands until the server is gone."""

    def __init__(self, path, number, seed, first, options):
        super().__init__()
        self.connection = Connection(path)
        self.number, self.seed, self.first = number, seed, first
        self.pipeline, self.full = options.pipeline, options.full
        self.answered = 0  # of `sent`
        self.sent = []
        self.refused = None

    def draw(self):
        return draw_command(random.Random(f"{self.seed} {self.first + len(self.sent)}"), self.number, self.full)

    def run(self):
        try:
            while True:
                batch = []
                for _ in range(self.pipeline):
                    batch.append(self.draw())
                    self.sent.append(batch[-1])
                self.connection.send(b"".join(c.data for c in batch))
                for c in batch:
                    line = self.connection.line()
                    if c.has_value and line.startswith(b"VA "):
                        data = self.connection.file.read(int(line.split()[1]) + 2)
                        if not data.endswith(b"\r\n"):
                            raise Ended
                    elif b"ERROR" in line:
                        self.refused = line
                        return
                    # For memcached may have too little memory, or may have evicted the item.
                    c.refused = line in (b"NOT_STORED", b"NOT_FOUND", b"NS", b"NF", b"EN")
                    self.answered += 1
        except (Ended, OSError):
            pass


class Mover(threading.Thread):
    """Moves pages from one slab class to another."""

    def __init__(self, path, seed):
        super().__init__()
        self.connection = Connection(path)
        self.draw = random.Random(seed)

    def run(self):
        try:
            while True:
                self.connection.call(b"slabs reassign -1 %d" % self.draw.randrange(1, 30))
                time.sleep(0.005)
        except (Ended, OSError):
            pass


def as_far_as(model, found, client, full):
    """The model goes on to where the server is; the number of commands that this has, None: it is nowhere."""
    def same():
        if full:
            return all(model.get(k) == v for k, v in found.items())
        return found == model
    for c in client.sent[:client.answered]:
        if not (full and c.refused):
            c.change(model)
    for count in range(client.answered, len(client.sent) + 1):
        if same():
            return count
        if count < len(client.sent):
            client.sent[count].change(model)
    return None


def is_number(key):
    return key.startswith(b"n")


def all_keys(client):
    return ([b"t%d-%d" % (client, i) for i in range(KEYS - 100)] + [b"s%d-%d" % (client, i) for i in range(50)] +
            [b"n%d-%d" % (client, i) for i in range(50)])


def found_items(connection, client):
    # A number that became shorter in its place ends with spaces.
    return {k: (v[0].rstrip(b" "), *v[1:]) if is_number(k) else v
            for k, v in connection.items(all_keys(client)).items()}


def tell_difference(model, found):
    told = 0
    for key in sorted(set(found) | set(model)):
        if found.get(key) != model.get(key) and told < 10:
            told += 1
            short = [None if v is None else (v[0][:40], len(v[0]), *v[1:]) for v in (found.get(key), model.get(key))]
            print(f"{key.decode()}: durable {short[0]}, model {short[1]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    for name in ("durable", "pool"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    begun = time.time()
    total = absent = 0
    with tempfile.TemporaryDirectory() as folder:
        server = None
        for kill in range(options.kills):
            if kill % KILLS_OF_A_POOL == 0:
                if server is not None:
                    server.kill()
                if os.path.exists(options.pool):
                    os.unlink(options.pool)
                server = Server(options.durable, folder, options.pool, options.full)
                models, done = [{} for _ in range(4)], [0] * 4
                pool_seed = draw.getrandbits(32)
            clients = [Client(server.path, i, f"{pool_seed} {i}", done[i], options) for i in range(4)]
            threads = [*clients, Mover(server.path, pool_seed)] if options.full else clients
            for c in threads:
                c.start()
            server.kill(after=draw.uniform(0.02, 0.4) if draw.random() < 0.85 else draw.uniform(1, 2))
            for c in threads:
                c.join()
            if options.keep is not None:
                shutil.copyfile(options.pool, options.keep)
            server = Server(options.durable, folder, options.pool, options.full)
            for i, c in enumerate(clients):
                if c.refused is not None:
                    sys.exit(f"kill_test: kill {kill + 1}, connection {i}: the server answered {c.refused!r}")
                found = found_items(Connection(server.path), i)
                count = as_far_as(models[i], found, c, options.full)
                if count is None:
                    tell_difference(models[i], found)
                    sys.exit(f"kill_test: kill {kill + 1}, connection {i}: neither as after the {c.answered} commands "
                             f"that were answered, nor after any of the {len(c.sent)} that were sent; "
                             f"seed {options.seed}")
                if options.full:
                    absent += len(models[i]) - len(found)
                    models[i] = dict(found)  # what was evicted is gone for good
                done[i] += count
                total += count
        server.kill()
    os.unlink(options.pool)
    evicted = f" {absent} keys evicted," if options.full else ""
    print(f"{options.kills} kills, {total} commands,{evicted} nothing that was answered is lost; "
          f"{time.time() - begun:.0f} s, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
