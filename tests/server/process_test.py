"""nv-memcached as its clients see it: sockets, limits, signals, and what it says about itself.

usage: process_test.py <nv-memcached> [unittest arguments]
"""

import contextlib
import itertools
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))

SERVER = None
GOOD, USAGE, UNAVAILABLE = 0, 2, 3
AGAINST_HANGING = 120  # seconds; nothing but a hang takes as long


class Client:
    """A connection that is read line by line."""

    def __init__(self, where):
        if isinstance(where, int):
            self.socket = socket.create_connection(("127.0.0.1", where), timeout=AGAINST_HANGING)
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(AGAINST_HANGING)
            try:
                self.socket.connect(str(where))
            except OSError:
                self.socket.close()
                raise
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def line(self):
        return self.file.readline().decode("latin-1")

    def say(self, data):
        self.send(data)
        return self.line()

    def get(self, key):
        """The value, or None."""
        self.send(f"get {key}\r\n")
        head = self.line().split()
        if head == ["END"]:
            return None
        value = self.file.read(int(head[3]) + 2)[:-2]
        assert self.line() == "END\r\n"
        return value

    def stats(self, what=""):
        self.send(f"stats {what}\r\n")
        found = {}
        while (line := self.line()) != "END\r\n":
            _, name, value = line.rstrip("\r\n").split(" ", 2)
            found[name] = value
        return found

    def is_closed(self):
        """Whether the server has ended the connection, within some seconds."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.file.close()
        self.socket.close()


class ServerTest(unittest.TestCase):
    maxDiff = 2000
    store = ("--volatile",)
    environment = {}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nv-memcached-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.process = None
        self.clients = []

    def tearDown(self):
        for client in self.clients:
            client.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def start(self, *arguments, store=None):
        """Starts the server with a port of its own choice and waits until it listens; returns the port."""
        ports = self.folder / "ports"
        with contextlib.suppress(FileNotFoundError):
            ports.unlink()
        environment = dict(os.environ, MEMCACHED_PORT_FILENAME=str(ports), **self.environment)
        self.errors = open(self.folder / "errors", "w+", encoding="utf-8")
        self.addCleanup(self.errors.close)
        self.process = subprocess.Popen(
            [SERVER, "-p", "-1", "-t", "2", *(self.store if store is None else store), *map(str, arguments)],
            env=environment, stderr=self.errors)

        def listens():
            self.assertIn(self.process.poll(), (None, GOOD), self.said())  # a daemon's parent is soon done
            return ports.exists()
        self.wait_until(listens, "the server listens")
        lines = ports.read_text().split("\n")
        return int(lines[0].rsplit(" ", 1)[1]) if lines[0] else None

    def said(self):
        self.errors.flush()
        return (self.folder / "errors").read_text()

    def connect(self, where):
        self.clients.append(Client(where))
        return self.clients[-1]

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(timeout=AGAINST_HANGING)

    def wait_until(self, happens, what):
        end = time.monotonic() + AGAINST_HANGING
        while not happens():
            self.assertLess(time.monotonic(), end, f"waited in vain until {what}")
            time.sleep(0.02)


class Talk(ServerTest):
    def test_serves_on_tcp(self):
        client = self.connect(self.start())
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.get("a"), b"x")
        self.assertIsNone(client.get("b"))

    def test_serves_on_a_unix_socket_alone(self):
        path = self.folder / "socket"
        self.start("-s", path)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700)
        client = self.connect(path)
        self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(client.stats("settings")["domain_socket"], str(path))
        self.assertNotIn("LISTEN " + "tcp", self.said())
        self.assertEqual(self.stop(), GOOD)
        self.assertFalse(path.exists())

    def test_opens_the_unix_socket_to_whom_it_is_told(self):
        path = self.folder / "socket"
        self.start("-s", path, "-a", "770")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o770)

    def test_serves_on_both(self):
        path = self.folder / "socket"
        port = self.start("-s", path, "-l", "127.0.0.1")
        self.assertEqual(self.connect(path).say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        self.assertEqual(self.connect(port).get("a"), b"x")

    def test_tells_a_version_that_clients_take_for_memcacheds(self):
        client = self.connect(self.start())
        self.assertEqual(client.say("version\r\n"), "VERSION 1.6.18\r\n")
        self.assertEqual(client.stats()["version"], "1.6.18")
        self.assertRegex(client.stats("holdfast")["version"], r"^\d+\.\d+\.\d+$")

    def test_is_bound_to_loopback(self):
        client = self.connect(self.start())
        self.assertEqual(client.stats("settings")["inter"], "127.0.0.1")
        listening = [v for k, v in client.stats("conns").items() if k.endswith(":addr")]
        self.assertTrue(all(a.startswith("tcp:127.0.0.1:") for a in listening), listening)

    def test_answers_a_burst_in_order_and_in_one_message(self):
        client = self.connect(self.start())
        before = client.stats("holdfast")
        burst = "".join(f"set k{i} 0 0 2\r\n{i:02}\r\nget k{i}\r\n" for i in range(100))
        client.send(burst)
        for i in range(100):
            self.assertEqual(client.line(), "STORED\r\n")
            self.assertEqual(client.line(), f"VALUE k{i} 0 2\r\n")
            self.assertEqual(client.line(), f"{i:02}\r\n")
            self.assertEqual(client.line(), "END\r\n")
        after = client.stats("holdfast")
        self.assertLess(int(after["sends"]) - int(before["sends"]), 10)

    def test_takes_a_command_byte_by_byte(self):
        client = self.connect(self.start())
        for byte in "set slow 5 0 6\r\nab\r\ncd\r\nget slow\r\n":
            client.send(byte)
            time.sleep(0.002)
        self.assertEqual(client.line(), "STORED\r\n")
        self.assertEqual(client.line(), "VALUE slow 5 6\r\n")

    def test_stores_items_up_to_the_limit_and_says_when_they_are_too_large(self):
        client = self.connect(self.start())
        value = os.urandom(1024 * 1024 - 512)
        client.send(b"set big 0 0 %d\r\n%s\r\n" % (len(value), value))
        self.assertEqual(client.line(), "STORED\r\n")
        self.assertEqual(client.get("big"), value)
        client.send(b"set big 0 0 %d\r\n%s\r\n" % (2 * len(value), 2 * value))
        self.assertEqual(client.line(), "SERVER_ERROR object too large for cache\r\n")
        self.assertIsNone(client.get("big"))

    def test_stores_larger_items_by_option(self):
        client = self.connect(self.start("-I", "16m", "-m", "128"))
        value = os.urandom(15 << 20)
        client.send(b"set big 0 0 %d\r\n%s\r\n" % (len(value), value))
        self.assertEqual(client.line(), "STORED\r\n")
        self.assertEqual(client.get("big"), value)

    def test_keeps_serving_while_a_client_does_not_read(self):
        port = self.start("-m", "256")
        slow = self.connect(port)
        value = b"v" * (1000 * 1000)
        for i in range(20):
            slow.send(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(value), value))
            self.assertEqual(slow.line(), "STORED\r\n")
        keys = " ".join(f"k{i}" for i in range(20))
        slow.send(f"get {keys}\r\n" * 20)  # 400 MB of answers that nobody fetches
        time.sleep(0.5)
        other = self.connect(port)
        self.assertEqual(other.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        self.assertLess(resident, 200 * 1024)
        for _ in range(20):
            for i in range(20):
                self.assertEqual(slow.line(), f"VALUE k{i} 0 {len(value)}\r\n")
                self.assertEqual(slow.file.read(len(value) + 2), value + b"\r\n")
            self.assertEqual(slow.line(), "END\r\n")

    def test_carries_out_what_a_client_has_sent_before_it_ends(self):
        port = self.start()
        client, other = self.connect(port), self.connect(port)
        self.assertEqual(other.say("set n 0 0 1\r\n0\r\n"), "STORED\r\n")
        client.send("incr n 1 noreply\r\n" * 100_000)
        client.socket.shutdown(socket.SHUT_WR)
        self.assertTrue(client.is_closed())
        self.assertEqual(other.get("n"), b"100000")

    def test_answers_all_that_a_client_has_sent_before_it_ends(self):
        port = self.start()
        client = self.connect(port)
        self.assertEqual(client.say("set a 0 0 5000\r\n" + "v" * 5000 + "\r\n"), "STORED\r\n")
        commands = ("get a a a a a\r\n", "mn\r\n") * 2000 + ("get unfinished",)
        client.send("".join(commands))
        client.socket.shutdown(socket.SHUT_WR)
        answer = (f"VALUE a 0 5000\r\n{'v' * 5000}\r\n" * 5 + "END\r\nMN\r\n").encode()
        for _ in range(2000):
            self.assertEqual(client.file.read(len(answer)), answer)
        self.assertEqual(client.file.read(), b"")

    def test_hangs_up_on_what_is_no_protocol_and_serves_others(self):
        port = self.start()
        good = self.connect(port)
        for garbage in (b"GET / HTTP/1.0\r\n\r\n", b"x" * 5000, b"\x00" * 5000, os.urandom(1 << 16) + b"\r\nquit\r\n"):
            bad = self.connect(port)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                bad.send(garbage)
                while bad.socket.recv(65536):
                    pass
        self.assertEqual(good.say("version\r\n")[:8], "VERSION ")

    def test_shows_connections_and_their_states(self):
        port = self.start()
        waiting = self.connect(port)
        waiting.send("set foo 0 0 6\r\n")
        looking = self.connect(port)

        def states():
            return {v for k, v in looking.stats("conns").items() if k.endswith(":state")}
        expected = {"conn_listening", "conn_nread", "conn_parse_cmd"}
        self.wait_until(lambda: expected <= states(), f"{expected} are seen")


class Limits(ServerTest):
    def test_refuses_connections_beyond_the_limit_with_memcacheds_words(self):
        port = self.start("-c", "5")
        kept = [self.connect(port) for _ in range(5)]
        for client in kept:
            self.assertEqual(client.say("mn\r\n"), "MN\r\n")
        refused = self.connect(port)
        self.assertEqual(refused.line(), "ERROR Too many open connections\r\n")
        self.assertTrue(refused.is_closed())
        kept.pop().close()
        self.wait_until(lambda: kept[0].stats()["curr_connections"] == "4", "the server knows of the one that was closed")
        self.assertEqual(self.connect(port).say("mn\r\n"), "MN\r\n")
        self.assertEqual(kept[0].stats()["rejected_connections"], "1")

    def test_serves_a_thousand_connections(self):
        port = self.start("-c", "2000")
        clients = [self.connect(port) for _ in range(1000)]
        for i, client in enumerate(clients):
            client.send(f"set k{i} 0 0 4\r\n{i:04}\r\n")
        for client in clients:
            self.assertEqual(client.line(), "STORED\r\n")
        self.assertEqual(clients[0].stats()["curr_connections"], "1000")
        self.assertEqual(clients[-1].get("k7"), b"0007")

    def test_ends_idle_connections(self):
        port = self.start("-o", "idle_timeout=1")
        idle = self.connect(port)
        self.assertEqual(idle.say("mn\r\n"), "MN\r\n")
        late = 0  # connections that a busy machine has kept from talking for a second: they are idle, too
        while (kicks := self.kicks_told_to(self.connect(port), 1 + late)) is None:
            late += 1
        self.assertTrue(idle.is_closed())
        self.assertEqual(kicks, 1 + late)

    def kicks_told_to(self, client, expected):
        """What a connection is told that talks for some seconds, and until it is told of as many kicks as are expected.
        None: the server has hung up, since for a second it had nothing to do for the client."""
        begun = said = time.monotonic()
        kicks = 0
        while kicks < expected or time.monotonic() < begun + 4:
            before, said = said, time.monotonic()
            try:
                kicks = int(client.stats()["idle_kicks"])
            except (ConnectionError, ValueError):  # no line, or a part of one
                self.assertGreaterEqual(time.monotonic() - before, 1)
                return None
            time.sleep(0.1)
        return kicks

    def test_gives_every_connection_a_turn(self):
        client = self.connect(self.start("-R", "1"))
        client.send("mn\r\n" * 50)
        for _ in range(50):
            self.assertEqual(client.line(), "MN\r\n")
        self.assertGreaterEqual(int(client.stats()["conn_yields"]), 45)


class Life(ServerTest):
    def test_stops_gracefully_by_each_signal(self):
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            self.connect(self.start()).say("set a 0 0 1\r\nx\r\n")
            self.assertEqual(self.stop(how), GOOD)

    def test_stops_by_command_when_allowed(self):
        client = self.connect(self.start("-A"))
        self.assertEqual(client.say("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n")
        client.send("shutdown\r\n")
        self.assertEqual(self.process.wait(timeout=AGAINST_HANGING), GOOD)

    def test_answers_what_it_has_carried_out_before_it_stops(self):
        client = self.connect(self.start("-A"))
        client.send("set a 0 0 1\r\nx\r\nshutdown\r\n")
        self.assertEqual(client.line(), "STORED\r\n")

    def test_runs_as_a_daemon_and_tells_its_process_id(self):
        pid_file = self.folder / "pid"
        port = self.start("-d", "-P", pid_file)
        self.assertEqual(self.process.wait(timeout=AGAINST_HANGING), GOOD)
        self.wait_until(pid_file.exists, "the file is there")
        self.assertEqual(self.connect(port).say("mn\r\n"), "MN\r\n")  # signals are listened to before clients
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGTERM)
        self.wait_until(lambda: not pid_file.exists(), "the file has gone")

    def test_keeps_items_without_being_told_where(self):
        path = self.folder / "socket"
        environment = {k: v for k, v in os.environ.items() if k != "STATE_DIRECTORY"}
        environment["XDG_STATE_HOME"] = str(self.folder / "state")
        for expected in (None, b"x"):
            self.process = subprocess.Popen([SERVER, "-s", path], env=environment)
            self.wait_until(lambda: self.is_served(path), "the server listens")
            client = self.connect(path)
            self.assertEqual(client.get("a"), expected)
            self.assertEqual(client.say("set a 0 0 1\r\nx\r\n"), "STORED\r\n")
            self.stop(signal.SIGKILL)
        self.assertEqual(len(list((self.folder / "state" / "nv-memcached").glob("items-*.nvm"))), 1)

    def is_served(self, path):
        with contextlib.suppress(ConnectionError, FileNotFoundError):
            self.connect(path).close()
            return True
        return False

    def test_does_not_take_a_socket_from_a_living_server(self):
        path = self.folder / "socket"
        self.start("-s", path)
        second = subprocess.run([SERVER, *self.store, "-s", path], capture_output=True, text=True, timeout=AGAINST_HANGING,
                                check=False)
        self.assertEqual(second.returncode, UNAVAILABLE)
        self.assertIn("another server listens on it", second.stderr)
        self.assertEqual(self.connect(path).say("mn\r\n"), "MN\r\n")
        self.stop(signal.SIGKILL)
        self.assertTrue(path.exists())
        self.start("-s", path)
        self.assertEqual(self.connect(path).say("mn\r\n"), "MN\r\n")

    def test_leaves_other_files_alone(self):
        path = self.folder / "precious"
        path.write_text("text")
        refused = subprocess.run([SERVER, *self.store, "-s", path], capture_output=True, text=True, timeout=AGAINST_HANGING,
                                 check=False)
        self.assertEqual(refused.returncode, UNAVAILABLE)
        self.assertEqual(path.read_text(), "text")

    def test_says_when_a_port_is_taken(self):
        port = self.start()
        second = subprocess.run([SERVER, *self.store, "-p", str(port)], capture_output=True, text=True, timeout=AGAINST_HANGING,
                                check=False)
        self.assertEqual(second.returncode, UNAVAILABLE)
        self.assertIn("Address already in use", second.stderr)

    def test_goes_on_after_a_hang_up_and_opens_its_log_again(self):
        log, rotated = self.folder / "log", self.folder / "log.1"
        client = self.connect(self.start("-vv", "--log", log))
        client.say("get before\r\n")
        self.assertRegex(log.read_text(), r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ <\d+ get before$")
        log.rename(rotated)
        self.process.send_signal(signal.SIGHUP)
        keys = (f"after-{i}" for i in itertools.count())

        def is_logged():  # in a file that is there a moment before it is written to
            key = next(keys)
            self.assertEqual(client.say(f"get {key}\r\n"), "END\r\n")
            return log.exists() and f"get {key}\n" in log.read_text() and f"get {key}\n" not in rotated.read_text()
        self.wait_until(is_logged, "the log is there again")
        self.assertEqual(self.stop(), GOOD)

    def test_goes_on_after_a_hang_up_without_a_log(self):
        client = self.connect(self.start())
        self.process.send_signal(signal.SIGHUP)
        time.sleep(0.1)
        self.assertEqual(client.say("mn\r\n"), "MN\r\n")
        self.assertEqual(self.stop(), GOOD)

    def test_says_where_the_log_cannot_be(self):
        done = subprocess.run([SERVER, *self.store, "--log", self.folder / "none" / "log"], capture_output=True,
                              text=True, timeout=AGAINST_HANGING, check=False)
        self.assertEqual(done.returncode, UNAVAILABLE)
        self.assertIn("No such file or directory", done.stderr)

    def test_tells_prometheus(self):
        port = self.start("--metrics-port", "-1")
        self.connect(port).say("set a 0 0 1\r\nx\r\n")
        address = next(word for word in self.said().split() if word.startswith("http://127.0.0.1:"))
        with urllib.request.urlopen(address, timeout=10) as page:
            text = page.read().decode()
        self.assertIn('nv_memcached_commands_total{command="set",status="all"} 1\n', text)
        self.assertIn("# TYPE nv_memcached_items gauge\nnv_memcached_items 1\n", text)
        names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(names), len(set(names)))


class CommandLine(unittest.TestCase):
    def run_server(self, *arguments):
        return subprocess.run([SERVER, *arguments], capture_output=True, text=True, timeout=AGAINST_HANGING, check=False)

    def test_helps(self):
        helped = self.run_server("--help")
        self.assertEqual(helped.returncode, GOOD)
        for word in ("--unix-socket", "--pool", "--durability", "Exit codes"):
            self.assertIn(word, helped.stdout)
        self.assertEqual(self.run_server("-h").stdout, helped.stdout)
        self.assertTrue(self.run_server("-V").stdout.startswith("nv-memcached 1.6.18"))

    def test_refuses_wrong_use_with_its_code(self):
        for wrong in (("-c", "0"), ("-c", "-1"), ("-t", "0"), ("-B", "http"), ("-p", "70000"), ("-I", "1000"),
                      ("-I", "256m"), ("-I", "x"), ("-m", "0"), ("-m", "x"), ("-o", "bogus"), ("-o", "idle_timeout"),
                      ("-o", "idle_timeout=x"), ("-a", "9"), ("--bogus",), ("--durability", "none"), ("word",),
                      ("--pool", "x")):
            done = self.run_server("--volatile", *wrong)
            self.assertEqual(done.returncode, USAGE, wrong)
            self.assertTrue(done.stderr.startswith("nv-memcached: "), done.stderr)

    def test_refuses_the_binary_protocol_with_the_reason(self):
        done = self.run_server("--volatile", "-B", "binary")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("the binary protocol is not spoken here", done.stderr)
        for spoken in ("auto", "ascii"):
            done = self.run_server("--volatile", "-p", "-1", "-B", spoken, "-l", "no.such.host.invalid")
            self.assertEqual(done.returncode, UNAVAILABLE)

    def test_refuses_an_address_that_is_none(self):
        done = self.run_server("--volatile", "-p", "-1", "-l", "no.such.host.invalid")
        self.assertEqual(done.returncode, UNAVAILABLE)

    def test_warns_of_what_has_no_effect(self):
        done = self.run_server("--volatile", "-U", "11211", "-o", "hashpower=20,modern", "-l", "no.such.host.invalid")
        self.assertIn("-U has no effect: there is no UDP", done.stderr)
        self.assertIn("-o hashpower has no effect here", done.stderr)
        self.assertNotIn("modern", done.stderr)


if __name__ == "__main__":
    SERVER = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
