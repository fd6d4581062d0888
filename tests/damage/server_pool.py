"""Pools of nv-memcached, made, read and worked on by the server itself, as its clients do."""
import collections
import contextlib
import hashlib
import resource
import signal
import socket
import subprocess
import time

ITEMS = 120
CONTENT = "memcached"
WAIT = 20  # seconds that a start or an answer may take, whatever else the machine does


def key_of(i):
    return f"key-{1000 + i * 17}" + "k" * (i * 5 % 60)


def value_of(i):
    size = (1 + i * 37 % 180, 400 + i * 11, 3000 + i, 20000)[0 if i % 4 else i // 4 % 4]
    return bytes(97 + (i * 7 + at * 3) % 26 for at in range(size))


class Ended(Exception):
    """The server ended by itself, or did not answer: its exit code, None: it takes too long."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Server:
    """The server on a pool, and a connection to it."""

    def __init__(self, program, pool, medium=None, cpu=5):
        at = pool.with_name("socket")
        at.unlink(missing_ok=True)
        size = () if medium is None else ("--pool-size", "4m", "--medium", medium)
        self.process = subprocess.Popen([str(program), "-s", str(at), "-t", "1", "--pool", str(pool), *size],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, (cpu, cpu + 1))
        try:
            self.connect(at)
        except BaseException:
            self.end()
            raise

    def connect(self, at):
        until = time.monotonic() + WAIT
        while time.monotonic() < until:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.settimeout(WAIT)
                self.socket.connect(str(at))
                self.file = self.socket.makefile("rb")
                return
            self.socket.close()
            if self.process.poll() is not None:
                raise Ended(self.process.returncode)
            time.sleep(0.002)
        raise Ended(None)

    def end(self, how=signal.SIGKILL):
        """Its exit code, if it has ended before that, or by SIGTERM; None: it takes too long."""
        code = self.process.poll()
        if code is None:
            self.process.send_signal(how)
            try:
                code = self.process.wait(WAIT)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                return None
            code = 0 if how == signal.SIGKILL else code
        return None if code in (-signal.SIGXCPU, -signal.SIGKILL) else code

    def say(self, data, answers):
        """As many lines as the commands have answers."""
        try:
            self.socket.sendall(data)
            lines = [self.file.readline() for _ in range(answers)]
        except TimeoutError:
            self.end()
            raise Ended(None) from None
        except OSError:
            lines = [b""]
        if b"" in lines:
            raise Ended(self.process.wait(WAIT))
        return lines

    def set(self, i):
        value = value_of(i)
        # Some for ever, some for longer than a campaign takes.
        expiry = 0 if i % 3 else 1000000
        return self.say(f"set {key_of(i)} {i * 7} {expiry} {len(value)}\r\n".encode() + value + b"\r\n", 1)[0]

    def delete(self, i):
        return self.say(f"delete {key_of(i)}\r\n".encode(), 1)[0]

    def get(self, i):
        """A line as those of damage_pool: the key, the bytes, and a sum of these, of the flags; None: a miss."""
        head = self.say(f"mg {key_of(i)} f v k\r\n".encode(), 1)[0].decode(errors="replace").split()
        if not head or head[0] != "VA":
            return None
        value = self.file.read(int(head[1]) + 2)[:-2]
        fields = {word[0]: word[1:] for word in head[2:]}
        digest = hashlib.sha256(value + fields.get("f", "0").encode()).hexdigest()[:16]
        return f"{CONTENT} {fields.get('k')} {len(value)} {digest}"


def make(program, path, medium, state):
    server = Server(program, path, medium)
    for i in range(ITEMS + 20):
        assert server.set(i) == b"STORED\r\n"
        if i % 10 == 9:
            assert server.set(i - 5) == b"STORED\r\n"
    for i in range(ITEMS, ITEMS + 20):
        assert server.delete(i) == b"DELETED\r\n"
    server.end(signal.SIGKILL if state == "killed" else signal.SIGTERM)


def look(program, path, cpu):
    """Exit code as of Run.process(), every item that the server gives out."""
    seen = collections.Counter()
    try:
        server = Server(program, path, cpu=cpu)
        seen.update(line for line in map(server.get, range(ITEMS + 20)) if line is not None)
        return server.end(), seen
    except Ended as ended:
        return of_end(ended), seen


def halve(program, path):
    server = Server(program, path)
    for i in range(0, ITEMS, 2):
        server.delete(i)
    server.end(signal.SIGTERM)


def use(program, path, cpu):
    try:
        server = Server(program, path, cpu=cpu)
        for i in range(0, ITEMS, 3):
            server.get(i)
            server.set(i if i % 2 == 0 else 2 * ITEMS + i)
            server.delete(i + 1)
        return server.end(signal.SIGTERM)
    except Ended as ended:
        return of_end(ended)


def of_end(ended):
    return None if ended.code in (None, -signal.SIGXCPU, -signal.SIGKILL) else ended.code
