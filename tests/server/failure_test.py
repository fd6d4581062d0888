"""nv-memcached when its device fails, when its memory limit is met, and at its first start.

usage: failure_test.py <nv-memcached> <failing_calls.so> [unittest arguments]
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SERVER = FAILING = None
FAILED = 5
EIO, ENOSPC = "5", "28"
# On a file system behind a page cache, where the pool is synced; /dev/shm for what needs no sync.
DISK = os.environ.get("HOLDFAST_TEST_DISK", "/var/tmp")

NEEDS_THE_POOL = ["get a", "gets a", "gat 0 a", "set d 0 0 1\r\nx", "add d 0 0 1\r\nx", "replace a 0 0 1\r\nx",
                  "append a 0 0 1\r\nx", "cas a 0 0 1 1\r\nx", "delete a", "touch a 0", "incr a 1", "decr a 1",
                  "flush_all", "flush_all 100", "mg a v", "ms a 1\r\nx", "md a", "ma a", "me a", "stats items",
                  "stats slabs", "stats sizes", "stats cachedump 1 1", "lru_crawler crawl all"]


def a_free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, folder, *options, failing=None):
        self.pool = pathlib.Path(folder) / "items.nvm"
        self.port = a_free_port()
        environment = dict(os.environ)
        if failing is not None:
            environment |= {"LD_PRELOAD": FAILING, "HOLDFAST_FAILING": str(failing)}
        self.process = subprocess.Popen(
            [SERVER, "-p", str(self.port), "-t", "1", "--pool", str(self.pool), *options],
            env=environment, stderr=subprocess.PIPE)

    def client(self):
        for _ in range(1000):
            try:
                s = socket.create_connection(("127.0.0.1", self.port), timeout=30)
                return s, s.makefile("rb")
            except OSError:
                if self.process.poll() is not None:
                    raise
                time.sleep(0.01)
        raise AssertionError("the server does not listen")

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(60)
        said = self.process.stderr.read().decode()
        self.process.stderr.close()
        return self.process.returncode, said


def ask(client, text):
    """The first line of the answer; empty when the server hangs up."""
    connection, file = client
    try:
        connection.sendall(text.encode() + b"\r\n")
        return file.readline().decode().strip()
    except OSError:
        return ""


class Failures(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir=DISK)
        self.addCleanup(self.folder.cleanup)
        self.failing = pathlib.Path(self.folder.name) / "failing"
        self.failing.mkdir()

    def begin_failing(self, call, code=EIO):
        (self.failing / call).write_text(code)

    def stop_failing(self):
        for file in self.failing.iterdir():
            file.unlink()

    def found_after_restart(self, *keys):
        self.stop_failing()
        server = Server(self.folder.name)
        connection, file = server.client()
        connection.sendall(b"get " + " ".join(keys).encode() + b"\r\n")
        found = set()
        while (line := file.readline()) != b"END\r\n":
            words = line.split()
            found.add(words[1].decode())
            file.read(int(words[3]) + 2)
        connection.close()
        self.assertEqual(server.end()[0], 0)
        return found

    def test_answer_an_error_to_all_that_needs_the_pool_until_the_server_is_stopped(self):
        for call in ("fdatasync", "pwrite"):
            with self.subTest(call):
                server = Server(self.folder.name, "--on-failure", "stay", failing=self.failing)
                first = server.client()
                self.assertEqual(ask(first, "set a 0 0 1\r\nx"), "STORED")
                self.begin_failing(call)
                self.assertEqual(ask(first, "set b 0 0 1\r\nx"), "", "what is not durable is not acknowledged")
                second = server.client()
                for command in NEEDS_THE_POOL:
                    self.assertEqual(ask(second, command), "SERVER_ERROR the pool has failed", command)
                self.assertEqual(ask(second, "mn"), "MN")
                self.assertTrue(ask(second, "version").startswith("VERSION 1.6.18"))
                second[0].sendall(b"stats\r\n")
                lines = []
                while (line := second[1].readline()) != b"END\r\n":
                    lines.append(line)
                self.assertIn(b"STAT pool_failed 1\r\n", lines)
                code, said = server.end()
                self.assertEqual(code, FAILED)
                self.assertIn("the pool has failed, nothing more is acknowledged", said)
                self.assertIn("a", self.found_after_restart("a", "b", "d"))
                self.assertNotIn("d", self.found_after_restart("a", "b", "d"))

    def test_end_the_server_with_a_code_of_their_own(self):
        server = Server(self.folder.name, failing=self.failing)
        client = server.client()
        self.assertEqual(ask(client, "set a 0 0 1\r\nx"), "STORED")
        self.begin_failing("fdatasync")
        self.assertEqual(ask(client, "delete a"), "")
        self.assertEqual(server.process.wait(60), FAILED)
        server.process.stderr.close()
        self.found_after_restart("a")  # there or not: nothing was said

    def test_of_a_growth_acknowledge_nothing_that_the_next_start_does_not_find(self):
        for call, code in (("growth", EIO), ("fdatasync", EIO), ("fallocate", EIO), ("fallocate", ENOSPC)):
            with self.subTest(call=call, code=code):
                server = Server(self.folder.name, "-m", "1024", "-M", failing=self.failing)  # nothing is evicted
                connection, file = server.client()
                value = b"v" * 1000000
                connection.sendall(b"set first 0 0 1\r\nx\r\n")
                self.assertEqual(file.readline(), b"STORED\r\n")
                self.begin_failing(call, code)
                told = {"first"}
                try:
                    for i in range(200):
                        keys = [f"s{i}", f"b{i}"]
                        connection.sendall(b"set s%d 0 0 1\r\nx\r\nset b%d 0 0 %d\r\n%s\r\n" % (i, i, len(value), value))
                        answers = [file.readline() for _ in keys]
                        told |= {k for k, a in zip(keys, answers) if a == b"STORED\r\n"}
                        if answers[-1] != b"STORED\r\n":
                            break
                except OSError:
                    pass
                else:
                    self.assertNotEqual(answers[-1], b"STORED\r\n", "the pool never had to grow")
                connection.close()
                server.process.kill()
                server.process.wait()
                server.process.stderr.close()
                missing = told - self.found_after_restart(*sorted(told))
                self.assertEqual(missing, set())
                (pathlib.Path(self.folder.name) / "items.nvm").unlink()


class MemoryLimit(unittest.TestCase):
    def fill(self, *options):
        """Sets twice the limit of small items; those that were not stored."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            server = Server(folder, "-m", "8", *options)
            connection, file = server.client()
            refused = []
            for begin in range(0, 40000, 500):
                connection.sendall(b"".join(b"set k%d 0 0 400\r\n%s\r\n" % (begin + i, b"v" * 400) for i in range(500)))
                refused += [line for line in (file.readline() for _ in range(500)) if line != b"STORED\r\n"]
            connection.close()
            self.assertEqual(server.end()[0], 0)
            return refused

    def test_is_met_by_evicting_from_the_first_set_on(self):
        self.assertEqual(self.fill(), [])

    def test_is_told_where_nothing_may_be_evicted(self):
        refused = self.fill("-M")
        self.assertGreater(len(refused), 10000)
        self.assertEqual(set(refused), {b"SERVER_ERROR out of memory storing object\r\n"})


class Starts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(self.folder.cleanup)
        self.pool = pathlib.Path(self.folder.name) / "items.nvm"

    def run_server(self, *options):
        return subprocess.run([SERVER, "--pool", str(self.pool), *options], capture_output=True, text=True, timeout=60)

    def test_of_a_second_server_on_a_port_make_no_pool(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.run_server("-p", str(taken.getsockname()[1]))
        self.assertEqual(done.returncode, 3)
        self.assertFalse(self.pool.exists())

    def test_refuse_the_binary_protocol_with_the_reason(self):
        done = self.run_server("-p", "-1", "-B", "binary")
        self.assertEqual(done.returncode, 2)
        self.assertIn("the binary protocol is not spoken here", done.stderr)
        self.assertFalse(self.pool.exists())

    def test_write_a_log_that_a_signal_opens_again(self):
        log = pathlib.Path(self.folder.name) / "log"
        server = Server(self.folder.name, "--log", str(log), "-o", "hashpower=20")
        client = server.client()
        self.assertEqual(ask(client, "set a 0 0 1\r\nx"), "STORED")
        log.rename(log.with_suffix(".1"))
        server.process.send_signal(signal.SIGHUP)
        for _ in range(1000):
            if log.exists():
                break
            time.sleep(0.01)
        self.assertTrue(log.exists())
        self.assertEqual(ask(client, "get a"), "VALUE a 0 1")
        self.assertEqual(server.end()[0], 0)

    def test_tell_a_service_manager_when_clients_are_served(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            path = str(pathlib.Path(self.folder.name) / "notify")
            manager.bind(path)
            manager.settimeout(60)
            os.environ["NOTIFY_SOCKET"] = path
            try:
                server = Server(self.folder.name)
            finally:
                del os.environ["NOTIFY_SOCKET"]
            self.assertEqual(manager.recv(100), b"READY=1")
            self.assertEqual(ask(server.client(), "version")[:7], "VERSION")
            self.assertEqual(server.end()[0], 0)
            self.assertEqual(manager.recv(100), b"STOPPING=1")


if __name__ == "__main__":
    SERVER, FAILING = sys.argv[1], sys.argv[2]
    # Sockets of clients end with the test that made them.
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], warnings="ignore")
