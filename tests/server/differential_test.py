"""nv-memcached beside memcached 1.6.18: random commands, sound ones and garbage, are answered byte for byte alike, but
for the differences that docs/nv-memcached.md lists.

usage: differential_test.py <nv-memcached> [--commands N] [--seed S] [--all] [--pool PATH]

Commands go in batches, each over a connection of its own, which is then closed for writing; all that comes is compared.
A batch that differs is made as small as it can be. --all goes on after that. Exit codes: 0 alike, 1 not, 77 there is no
memcached 1.6.18.
"""

import argparse
import base64
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

BATCH = 40
LONGEST = 1000
# Has memcached send what waits, so that no reply refers to an item any more.
BARRIER = b"\r\nmn\r\n"
BINARY_KEYS = [b"b\0", b"b 1", b"b\xff2"]
KEYS = [b"k0", b"k1", b"k2", b"k3"]
STRANGE_KEYS = [b"x" * 250, b"y" * 251, b"a\tb", b"\xff\xfe", b"0", b"noreply", b"b"]
NUMBERS = [b"0", b"1", b"7", b"10", b"-1", b"-0", b"+5", b"0012", b"+-3", b"--1", b"4294967295", b"4294967296",
           b"4294967297", b"18446744073709551615", b"18446744073709551616", b"-18446744073709551615",
           b"-18446744073709551616", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
           b"2147483647", b"2147483648", b"-2147483648", b"99999999999999999999999", b"1x", b"x", b"1\t", b"\t1", b"0x10",
           b"1e3", b"1.5", b"-", b"+"]
EXPIRIES = [b"0", b"0", b"0", b"100", b"-1", b"2592000", b"2592001", b"2000000000", b"4294967296", b"4294967396"]
VALUES = [b"", b"0", b"1", b"5", b"9", b"10", b"99", b"13", b" 13", b"13\0", b"13\0x", b"13 ", b"13 x", b"+3", b"-1",
          b"-0", b"abc", b"18446744073709551615", b"18446744073709551616", b"x" * 30, b"a\r\nb", b"v" * 500]
# What is known to differ, as docs/nv-memcached.md says; such commands are not compared.
DIFFERENCES = [
    (rb"^ *(watch|extstore|refresh_certs|shutdown|verbosity|cache_memlimit|quit|slabs +reassign)\b", "not in here"),
    (rb"^ *lru_crawler +(metadump|mgdump|crawl)\b", "memcached has a thread for it"),
    (rb"^ *stats\b(?! +(reset|cachedump)\b)", "figures"),
    (rb"^ *stats +cachedump +\S+ +\S", "order of items"),
    (rb"^ *m[ga] .* O[^ \n]{32,}", "a command that is refused changes nothing"),
    (rb"^ *ma .* T", "the expiry is that of the new item where a number gets longer"),
    (rb"^ *m[ga] .*(\bb\b.* N|N.*\bb\b)", "keys in base64 are told so also when mg and ma have made the item"),
    (rb"^ *(ma (?=.* b\b)|ms (?=.* b\b).* M[AP])", "and when a new item is made of an old one"),
]


class Server:
    def __init__(self, command, folder, name):
        self.path = folder / name
        self.process = subprocess.Popen([*command, "-s", str(self.path)], stderr=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{command} does not listen")

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(30)
        try:
            client.connect(str(self.path))
        except OSError:
            client.close()
            raise
        return client

    def talk(self, batch):
        """Everything that comes for these commands, and the cas id before them."""
        prologue = b"".join(b"delete %s\r\n" % key for key in KEYS + STRANGE_KEYS)
        prologue += b"".join(b"md %s b\r\n" % base64.b64encode(key) for key in BINARY_KEYS) + b"mn\r\n"
        with self.connect() as client:
            client.sendall(b"ms base 0 c\r\n\r\nmn\r\n" + prologue)
            received = b""
            while received.count(b"MN\r\n") < 2:
                received += client.recv(1 << 16)
            base = int(re.match(rb"HD c(\d+)", received)[1])
            data = b"".join(re.sub(rb"\{cas([+-]\d+)\}", lambda m: b"%d" % max(base + int(m[1]), 0), c) for c in batch)
            data += BARRIER * 200  # for a value that waits for more: until then memcached keeps its replies
            received = b""
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                while piece := client.recv(1 << 16):
                    received += piece
            except (ConnectionResetError, BrokenPipeError):
                received += b"<reset>"
        return received, base

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def plain(received, base):
    """Without what may differ: cas ids are told from the first, what depends on sizes and on the uptime is left out."""
    received = received.replace(b"<reset>", b"")
    received = re.sub(rb"(^VALUE [^ ]+ \d+ \d+ )(\d+)\r", lambda m: m[1] + b"cas%d\r" % (int(m[2]) - base), received,
                      flags=re.M)
    received = re.sub(rb"^((?:HD|VA \d+|EX|NS|NF)\b.*? c)([1-9]\d*)\b", lambda m: m[1] + b"%d" % (int(m[2]) - base),
                      received, flags=re.M)
    received = re.sub(rb" cas=(\d+)", lambda m: b" cas=%d" % (int(m[1]) - base), received)
    received = re.sub(rb" cls=\d+ size=\d+", b"", received)
    return received


def seconds(received):
    """What is told of time, and the rest."""
    pattern = rb"(?<= t)\d+|(?<= exp=)-?\d+|(?<= l)\d+|(?<= la=)\d+"
    times = [int(t) for t in re.findall(pattern, received)]
    return re.sub(pattern, b"#", received), times


def alike(ours, theirs):
    (a, a_times), (b, b_times) = seconds(plain(*ours)), seconds(plain(*theirs))
    def near(x, y):
        negative = x >= 1 << 31 and y >= 1 << 31
        return abs(x - y) <= (10 if not negative else 1000)
    return a == b and len(a_times) == len(b_times) and all(near(x, y) for x, y in zip(a_times, b_times))


def waits_long(command):
    """Whether it announces a value that does not come: until then memcached keeps the replies before it."""
    for line in command.split(b"\n"):
        found = re.match(rb" *(?:(?:set|add|replace|append|prepend|cas) +\S+ +\S+ +\S+|ms +\S+) +\s*[+-]?(\d+)", line)
        if found and LONGEST < int(found[1]) % (1 << 32) < 1 << 31 and len(command) < LONGEST:
            return True
    return False


class Generator:
    def __init__(self, seed):
        self.chance = random.Random(seed)

    def key(self):
        return self.chance.choice(KEYS if self.chance.random() < 0.93 else STRANGE_KEYS)

    def number(self):
        if self.chance.random() < 0.7:
            return b"%d" % self.chance.choice((0, 1, 2, 3, 5, 9, 90, 100))
        return self.chance.choice(NUMBERS)

    def expiry(self):
        return self.chance.choice(EXPIRIES if self.chance.random() < 0.9 else NUMBERS)

    def cas(self):
        return b"{cas%+d}" % self.chance.randrange(-2, 40) if self.chance.random() < 0.8 else self.number()

    def value(self):
        return self.chance.choice(VALUES)

    def length(self, value):
        what = self.chance.random()
        if what < 0.9:
            return b"%d" % len(value)
        if what < 0.95:
            return b"%d" % max(0, len(value) + self.chance.choice((-2, -1, 1, 2)))
        if what < 0.97:
            return b"%d" % (len(value) + (1 << 32))
        return self.number()

    def noreply(self):
        return self.chance.choice((b" noreply", b" noreply", b" noreplY", b" 0")) if self.chance.random() < 0.15 else b""

    def flags(self, letters):
        """Flags of a meta command, mostly some of those that it has."""
        words = []
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 3, 4, 6))):
            letter = self.chance.choice(letters if self.chance.random() < 0.95 else "bcfhIklOPqstuvCDEFJMNRSTZ~\xff9")
            argument = b""
            if letter in "NTR":
                argument = self.expiry()
            elif letter in "FJD":
                argument = self.number()
            elif letter == "C":
                argument = self.cas()
            elif letter == "M":
                argument = self.chance.choice((b"S", b"A", b"P", b"E", b"R", b"I", b"D", b"+", b"-", b"", b"XX", b"x"))
            elif letter == "O":
                argument = b"o" * self.chance.choice((0, 1, 5, 31, 32, 40))
            elif self.chance.random() < 0.05:
                argument = self.number()
            words.append(b" " + letter.encode("latin-1") + argument)
        return b"".join(words)

    def meta_key(self):
        if self.chance.random() < 0.1:
            return base64.b64encode(self.chance.choice(BINARY_KEYS)) + b"%s", b" b"
        return self.key() + b"%s", b""

    def classic(self):
        c = self.chance.choice
        kind = c(("store", "store", "store", "get", "get", "delete", "arithmetic", "arithmetic", "touch", "cas", "gat",
                  "other"))
        if kind == "store":
            value = self.value()
            verb = c((b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend"))
            return b"%s %s %s %s %s%s\r\n%s\r\n" % (verb, self.key(), self.number(), self.expiry(), self.length(value),
                                                    self.noreply(), value)
        if kind == "cas":
            value = self.value()
            return b"cas %s %s %s %s %s%s\r\n%s\r\n" % (self.key(), self.number(), self.expiry(), self.length(value),
                                                        self.cas(), self.noreply(), value)
        if kind == "get":
            # A key that is too long comes first: after others, memcached throws away the replies of earlier commands.
            keys = b" ".join([self.key(), *(c(KEYS) for _ in range(c((0, 0, 0, 1, 2, 29))))])
            return b"%s %s\r\n" % (c((b"get", b"get", b"gets", b"bget")), keys)
        if kind == "gat":
            keys = b" ".join([self.key(), *(c(KEYS) for _ in range(c((0, 0, 1))))])
            return b"%s %s %s\r\n" % (c((b"gat", b"gats")), self.expiry(), keys)
        if kind == "delete":
            return b"delete %s%s%s\r\n" % (self.key(), c((b"", b"", b"", b" 0", b" 1")), self.noreply())
        if kind == "arithmetic":
            return b"%s %s %s%s\r\n" % (c((b"incr", b"incr", b"decr")), self.key(), self.number(), self.noreply())
        if kind == "touch":
            return b"touch %s %s%s\r\n" % (self.key(), self.expiry(), self.noreply())
        return c((b"flush_all\r\n", b"flush_all 0\r\n", b"flush_all -5\r\n", b"flush_all x\r\n", b"flush_all noreply\r\n",
                  b"version\r\n", b"version x\r\n", b"lru mode flat\r\n", b"lru mode segmented\r\n", b"lru mode x\r\n",
                  b"lru\r\n", b"lru tune 10 20 0.5 2\r\n", b"lru tune 50 40 1 1\r\n", b"lru tune 1 1 0 1\r\n",
                  b"lru tune a b c d\r\n", b"lru temp_ttl 5\r\n", b"lru temp_ttl -1\r\n", b"lru temp_ttl\r\n",
                  b"lru mode flat noreply\r\n", b"lru_crawler\r\n", b"lru_crawler enable\r\n", b"lru_crawler disable\r\n",
                  b"lru_crawler tocrawl 5\r\n", b"lru_crawler sleep 5\r\n", b"lru_crawler sleep 5000000\r\n",
                  b"lru_crawler sleep x\r\n", b"slabs automove 0\r\n", b"slabs automove 3\r\n", b"slabs automove x\r\n",
                  b"slabs automove ratio 0.8\r\n", b"slabs automove ratio x\r\n", b"slabs automove ratio\r\n",
                  b"slabs automove 1 noreply\r\n", b"slabs\r\n", b"stats reset\r\n", b"stats cachedump\r\n",
                  b"stats cachedump 1\r\n", b"mn x\r\n", b"mx\r\n", b"m\r\n", b"\r\n", b"\n", b" \r\n", b"get\r\n",
                  b"set\r\n", b"incr a\r\n", b"GET k0\r\n", b"HTTP/1.0\r\n", b"get k0 HTTP/1.1\r\n"))

    def meta(self):
        c = self.chance.choice
        key, binary = self.meta_key()
        kind = c("gggsssddaaae")
        if kind == "s":
            value = self.value()
            return b"ms " + key % b"" + b" " + self.length(value) + binary + self.flags("bcCFIkMOqTq") + b"\r\n" + \
                value + b"\r\n"
        if kind == "e":
            return b"me " + key % b"" + binary + self.flags("bk") + b"\r\n"
        letters = {"g": "cfhklNOqRsTtuv", "d": "CIkOqT", "a": "CcDJkMNOqTtv"}[kind]
        return b"m" + kind.encode() + b" " + key % b"" + binary + self.flags(letters) + b"\r\n"

    def garbled(self, command):
        data = bytearray(command)
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            at = self.chance.randrange(len(data) + 1)
            what = self.chance.random()
            if what < 0.35:
                data[at:at] = self.chance.choice((b" ", b"\0", b"\r", b"\n", b"x", b"-", b"\t", b"  ", b"9", b"\x80"))
            elif what < 0.7:
                del data[at:at + 1]
            else:
                data[at:at + 1] = bytes([self.chance.randrange(1, 256)])
        return bytes(data)

    def large(self):
        size = self.chance.choice((1 << 20, (1 << 20) + 1, 1_100_000))
        head = self.chance.choice((b"set k0 0 0 %d\r\n", b"set k0 0 0 %d noreply\r\n", b"add k0 0 0 %d\r\n",
                                   b"ms k0 %d q\r\n", b"append k0 0 0 %d\r\n"))
        return head % size + b"v" * size + b"\r\n"

    def command(self):
        what = self.chance.random()
        if what < 0.001:
            return self.large()
        if what < 0.003:
            return b"get " + b"z" * self.chance.choice((2000, 2100, 3000)) + b" k0\r\n"
        made = self.classic() if what < 0.5 else self.meta()
        return self.garbled(made) if self.chance.random() < 0.15 else made

    def batch(self):
        commands = []
        while len(commands) < BATCH:
            command = self.command()
            if any(re.search(d, line) for d, _ in DIFFERENCES for line in re.split(rb"\n", command)):
                continue
            if waits_long(command):
                continue
            # These end with the replies before them, as far as memcached has not sent them.
            if re.search(rb"HTTP/|[^ ]{251}|^[^\n]{2049}", command):
                command = BARRIER + BARRIER + command
            commands.append(command + b"mn\r\n")
        return commands


def smallest(batch, differs):
    """Some commands of the batch that still differ, none of which can be left out."""
    step = len(batch) // 2
    while step:
        at = 0
        while at < len(batch):
            rest = batch[:at] + batch[at + step:]
            if rest and differs(rest):
                batch = rest
            else:
                at += step
        step //= 2
    return batch


def shown(data):
    return repr(data if len(data) < 1500 else data[:700] + b"..." + data[-700:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server")
    parser.add_argument("--commands", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--pool")
    given = parser.parse_args()
    memcached = shutil.which("memcached")
    if memcached is None or "1.6.18" not in subprocess.run([memcached, "-V"], capture_output=True, text=True,
                                                           check=False).stdout:
        print("there is no memcached 1.6.18")
        return 77
    folder = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-"))
    user = ["-u", "root"] if os.getuid() == 0 else []
    store = ["--pool", given.pool or str(folder / "items.nvm")]
    servers = []
    different = 0
    try:
        servers.append(Server([given.server, "-t", "1", *store], folder, "ours"))
        servers.append(Server([memcached, "-t", "1", *user], folder, "theirs"))
        ours, theirs = servers
        generator = Generator(given.seed)
        for number in range((given.commands + BATCH - 1) // BATCH):
            batch = generator.batch()
            def differs(some):
                return not alike(ours.talk(some), theirs.talk(some))
            # Again, for a second may have passed between the two.
            if not differs(batch) or not differs(batch):
                continue
            few = smallest(batch, differs)
            print(f"batch {number} of seed {given.seed} differs:")
            for command in few:
                print("   ", shown(command))
            print("  ours  ", shown(plain(*ours.talk(few))))
            print("  theirs", shown(plain(*theirs.talk(few))), flush=True)
            different += 1
            if not given.all:
                break
        for s in servers:
            if s.process.poll() is not None:
                print(s.process.args[0], "has ended")
                different += 1
    finally:
        for s in servers:
            s.stop()
        shutil.rmtree(folder)
    print(f"{different} of {number + 1} batches of {BATCH} commands differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
