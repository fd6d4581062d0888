#!/usr/bin/env python3
"""Kills durable Redis over and over; nothing that was answered is lost, and nothing else is there.

Method: four connections, each in a database of its own, send commands of all types of data, drawn from a seed, one
after the other; each loads, calls and deletes a library of functions of its own. The server is killed in between, and
started again over its pool. A plain Redis gets the same commands: each database must be as that one's after the
commands that were answered, or after one more, whose answer had not come. Digests of all keys are compared (DEBUG
DIGEST-VALUE), their number, and the library with its code.

usage: kill_test.py --plain SERVER --durable SERVER... --pool FILE [--kills N] [--seed N] [--pipeline N]
Exit codes: 0 all as it should be, 1 not.
"""
import argparse
import itertools
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

KEYS = 40


class Ended(Exception):
    """The server is gone."""


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, *commands):
        out = bytearray()
        for words in commands:
            out += b"*%d\r\n" % len(words)
            for word in words:
                word = word if isinstance(word, bytes) else str(word).encode()
                out += b"$%d\r\n%s\r\n" % (len(word), word)
        try:
            self.socket.sendall(out)
        except OSError as error:
            raise Ended from error

    def answer(self):
        try:
            line = self.file.readline()
        except OSError as error:
            raise Ended from error
        if not line.endswith(b"\r\n"):
            raise Ended
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-:":
            return line[:-2]
        if kind == b"$":
            count = int(rest)
            if count < 0:
                return None
            data = self.file.read(count + 2)
            if len(data) != count + 2:
                raise Ended
            return data[:-2]
        return [self.answer() for _ in range(int(rest))]

    def call(self, *words):
        self.send(words)
        return self.answer()


class Server:
    def __init__(self, program, folder, name, environment):
        self.path = os.path.join(folder, name + ".sock")
        self.log = os.path.join(folder, name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [program, "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", folder, "--databases", "8",
                 "--enable-debug-command", "yes"],
                stdout=log, stderr=log, env={**os.environ, **environment})
        for _ in range(3000):
            try:
                answer = Connection(self.path).call("PING")
                if answer == b"+PONG":
                    return
            except (OSError, Ended):
                pass
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        with open(self.log, encoding="utf-8", errors="replace") as log:
            print(log.read()[-3000:], file=sys.stderr)
        sys.exit(f"kill_test: {name} does not answer")

    def kill(self):
        self.process.kill()
        self.process.wait()
        os.unlink(self.path)


def text(draw):
    size = draw.choice((1, 5, 20, 44, 45, 100, 1000)) if draw.random() < 0.98 else draw.choice((20000, 70000))
    return bytes(draw.choice(b"abcdefgh") for _ in range(min(size, 40))) * (size // 40 + 1)


def function_command(draw, number, database, key):
    """Of the library of a database, whose code says the number of the command that loaded it."""
    code = (f"#!lua name=library{database}\nredis.register_function('function{database}', "
            f"function(keys) return redis.call('HSET', keys[1], 'number', {number}) end) --{'x' * draw.randrange(500)}")
    load, call = ("FUNCTION", "LOAD", "REPLACE", code), ("FCALL", f"function{database}", 1, key)
    return draw.choice((
        [load], [("FUNCTION", "LOAD", code)], [("FUNCTION", "DELETE", f"library{database}")], [call], [call],
        [("MULTI",), ("SET", f"s{number % KEYS}", number), load, call, ("EXEC",)]))


def command(draw, number, database):
    """A command, or several that are one (MULTI)."""
    key = lambda kind: f"{kind}{draw.randrange(KEYS)}"  # noqa: E731
    member = lambda: f"m{draw.randrange(300)}"  # noqa: E731
    kinds = {
        "string": lambda: draw.choice((
            ("SET", key("s"), text(draw)), ("SET", key("s"), draw.randrange(20000)), ("APPEND", key("s"), text(draw)),
            ("SETRANGE", key("s"), draw.randrange(200), "range"), ("GETSET", key("s"), text(draw)),
            ("INCR", key("n")), ("INCRBYFLOAT", key("f"), "1.5"), ("SETBIT", key("b"), draw.randrange(5000), 1),
            ("GET", key("s")), ("PFADD", key("p"), member()), ("SET", key("s"), "v", "EX", 100000))),
        "list": lambda: draw.choice((
            ("RPUSH", key("l"), text(draw), member()), ("LPUSH", key("l"), member()), ("LPOP", key("l")),
            ("RPOP", key("l"), 3), ("LREM", key("l"), 0, member()), ("LTRIM", key("l"), 0, 200),
            ("LINSERT", key("l"), "BEFORE", member(), "x"), ("LMOVE", key("l"), key("l"), "LEFT", "RIGHT"))),
        "hash": lambda: draw.choice((
            ("HSET", key("h"), member(), text(draw)), ("HDEL", key("h"), member()), ("HINCRBY", key("hn"), member(), 7),
            ("HSET", key("h"), *(x for i in range(30) for x in (f"f{i}", number))))),
        "set": lambda: draw.choice((
            ("SADD", key("t"), member(), draw.randrange(1000)), ("SREM", key("t"), member()),
            ("SMOVE", key("t"), key("t"), member()), ("SUNIONSTORE", key("t"), key("t"), key("t")))),
        "sorted": lambda: draw.choice((
            ("ZADD", key("z"), draw.random(), member()), ("ZREM", key("z"), member()),
            ("ZINCRBY", key("z"), 2, member()), ("ZREMRANGEBYRANK", key("z"), 200, -1),
            ("GEOADD", key("g"), draw.uniform(-50, 50), draw.uniform(-50, 50), member()))),
        "stream": lambda: draw.choice((
            ("XADD", key("x"), f"{number + 1}-1", "f", text(draw)), ("XTRIM", key("x"), "MAXLEN", 50),
            ("XGROUP", "CREATE", key("x"), "g", "0", "MKSTREAM"),
            ("XREADGROUP", "GROUP", "g", "c", "COUNT", 3, "STREAMS", key("x"), ">"))),
        "keys": lambda: draw.choice((
            ("DEL", key(draw.choice("slhtzx"))), ("UNLINK", key(draw.choice("lhtz"))),
            ("RENAME", key("s"), key("s")), ("COPY", key("h"), key("h"), "REPLACE"), ("PERSIST", key("s")))),
        "script": lambda: (
            "EVAL", "for i=1,20 do redis.call('hset',KEYS[1],i,ARGV[1]) end redis.call('incr',KEYS[2])", 2, key("h"),
            key("n"), text(draw)),
    }
    kind = draw.choice(("string",) * 4 + ("list", "hash", "set", "sorted", "stream", "keys", "script"))
    if draw.random() < 0.03:
        return [("MULTI",), kinds["string"](), kinds["hash"](), kinds["list"](), ("EXEC",)]
    if draw.random() < 0.03:
        return function_command(draw, number, database, key("h"))
    if draw.random() < 0.0005:
        return [("FLUSHDB", draw.choice(("SYNC", "ASYNC")))]
    return [kinds[kind]()]


class Client(threading.Thread):
    """Sends the commands of one database until the server is gone."""

    def __init__(self, path, database, seed, first, pipeline):
        super().__init__()
        self.connection = Connection(path)
        self.connection.call("SELECT", database)
        self.database, self.seed, self.first, self.pipeline = database, seed, first, pipeline
        self.answered = 0  # of `sent`
        self.sent = []

    def run(self):
        try:
            while True:
                numbers = [self.first + len(self.sent) + i for i in range(self.pipeline)]
                batch = [command(random.Random(f"{self.seed} {n}"), n, self.database) for n in numbers]
                self.sent += batch
                self.connection.send(*(words for c in batch for words in c))
                for c in batch:
                    for _ in c:
                        self.connection.answer()
                    self.answered += 1
        except Ended:
            pass


def digest(connection):
    keys = sorted(connection.call("KEYS", "*"))
    return keys, connection.call("DEBUG", "DIGEST-VALUE", *keys) if keys else []


def library(connection, database):
    return connection.call("FUNCTION", "LIST", "LIBRARYNAME", f"library{database}", "WITHCODE")


def apply(connection, c):
    connection.send(*c)
    for _ in c:
        connection.answer()


def as_far_as(twin, durable, client):
    """The twin goes on to where the durable one is; the number of commands that this one has."""
    for c in client.sent[:client.answered]:
        apply(twin, c)
    wanted = digest(durable), library(durable, client.database)
    for count in range(client.answered, len(client.sent) + 1):
        found = digest(twin), library(twin, client.database)
        if found == wanted:
            return count
        if count < len(client.sent):
            apply(twin, client.sent[count])
    return None


def tell_difference(twin, durable, database):
    """Of a durable database and of its twin after all commands."""
    if library(twin, database) != library(durable, database):
        print(f"functions: durable {library(durable, database)}, plain {library(twin, database)}", file=sys.stderr)
    found, wanted = (dict(zip(*digest(c))) for c in (durable, twin))
    for key in sorted(set(found) | set(wanted)):
        if found.get(key) != wanted.get(key):
            print(f"{key.decode()}: durable {durable.call('TYPE', key)} {found.get(key)}, "
                  f"plain {twin.call('TYPE', key)} {wanted.get(key)}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--durable", required=True, nargs="+", help="builds, in turns")
    for name in ("plain", "pool"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--pipeline", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    builds = itertools.cycle(options.durable)
    if os.path.exists(options.pool):
        os.unlink(options.pool)
    begun = time.time()
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        plain = Server(options.plain, folder, "plain", {})
        twins = [Connection(plain.path) for _ in range(4)]
        for i, twin in enumerate(twins):
            twin.call("SELECT", i)
        done = [0] * 4
        durable = Server(next(builds), folder, "durable", {"REDIS_POOL": options.pool})
        for kill in range(options.kills):
            clients = [Client(durable.path, i, f"{options.seed} {i}", done[i], options.pipeline) for i in range(4)]
            for c in clients:
                c.start()
            time.sleep(draw.uniform(0.02, 0.4))
            durable.kill()
            for c in clients:
                c.join()
            durable = Server(next(builds), folder, "durable", {"REDIS_POOL": options.pool})
            for i, c in enumerate(clients):
                now = Connection(durable.path)
                now.call("SELECT", i)
                count = as_far_as(twins[i], now, c)
                if count is None:
                    tell_difference(twins[i], now, i)
                    sys.exit(f"kill_test: kill {kill + 1}, database {i}: neither as after the {c.answered} commands "
                             f"that were answered, nor after any of the {len(c.sent)} that were sent; "
                             f"seed {options.seed}")
                done[i] += count
                total += count
        durable.kill()
        plain.kill()
    os.unlink(options.pool)
    print(f"{options.kills} kills, {total} commands, {len(options.durable)} builds in turns, nothing that was answered is "
          f"lost; {time.time() - begun:.0f} s, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
