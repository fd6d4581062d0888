#!/usr/bin/env python3
"""A year of a service in minutes: contents whose sizes, keys and threads drift, kills, growth to the limit and back.

usage: soak.py --build DIR [--minutes M] [--rounds N] [--subjects NAME,...] [--json FILE] [--plot FILE] [--seed N]

Each subject is a pool with a service of its own (service.cpp; nv-memcached for `server`).  A round is the same for all:
values of five sizes, one after the other, other keys each time, more and fewer threads, until the pool is full once; in
the middle the service is killed.  At the end of a round the service keeps as much as at the end of the one before, so
file and memory should be what they were: that is the result.  A pool is checked after the last round.

Exit code 0: what each subject takes (TAKEN), at the end of the last round, is at most 1.1 times that at the end of the
second, and the pool was full with no less than 1/1.1 of what it held then; 1: not so, or a value was found that was
not stored, or a check found something; 2: wrong use.
"""

import argparse
import json
import os
import pathlib
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
GROWTH_MAX = 1.1
CAPACITY_MIB, LIVE_MIB = 96, 24
SIZES = (200, 3000, 64, 20_000, 700)  # bytes of a phase's largest values
THREADS = (2, 4, 1, 3, 6)
# Of the machine, and inside of the pool: bytes of its pages that are not free for each byte of its values, and bytes of
# addresses that engine log has given out.  None: the subject does not say it.
TAKEN = ("file", "resident", "spread", "addresses")
SUBJECTS = {
    "kv-undo": dict(kind="kv", engine="undo", medium="shm"),
    "kv-redo": dict(kind="kv", engine="redo", medium="shm"),
    "kv-log": dict(kind="kv", engine="log", medium="shm"),
    "kv-ssd": dict(kind="kv", engine="any", medium="ssd"),
    "kv-log-ssd": dict(kind="kv", engine="log", medium="ssd"),
    "objects-undo": dict(kind="objects", engine="undo", medium="shm"),
    "objects-ssd": dict(kind="objects", engine="any", medium="ssd"),
    "structure-undo": dict(kind="structure", engine="undo", medium="shm"),
    "structure-ssd": dict(kind="structure", engine="any", medium="ssd"),
    "compiled": dict(kind="compiled", engine="undo", medium="shm"),
    "server": dict(kind="server", medium="shm"),
}


class Failed(Exception):
    pass


def resident_bytes(pid):
    """(all, of it not of files) of a process; (0, 0) when it has gone."""
    try:
        fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
        return tuple(int(fields[name].split()[0]) * 1024 for name in ("VmRSS", "RssAnon"))
    except (OSError, KeyError):
        return 0, 0


def file_bytes(path):
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


class Service:
    """soak-service on a pool, started again after a kill."""

    def __init__(self, build, pool, settings, seed):
        self.command = [str(build / "bench" / "bench-soak-service"), str(pool), "--kind", settings["kind"], "--engine",
                        settings["engine"], "--medium", settings["medium"], "--capacity", str(CAPACITY_MIB)]
        self.seed = seed
        self.process = None
        self.told = {}
        self.slowest = []

    def start(self):
        self.seed += 1
        self.process = subprocess.Popen([*self.command, "--seed", str(self.seed)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.line(120)
        if not line.get("ready"):
            raise Failed(f"the service did not start: {self.complaint()}")

    def line(self, seconds):
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            raise Failed(f"the service says nothing: {self.complaint()}")
        told = json.loads(line)
        if "failed" in told:
            raise Failed(told["failed"])
        return told

    def complaint(self):
        if self.process.poll() is None:
            self.process.kill()
        return f"exit code {self.process.wait()}: {self.process.stderr.read().strip()}"

    def tell(self, phase):
        self.process.stdin.write("phase {bytes} {threads} {first} {keys} {live}\n".format(**phase))
        self.process.stdin.flush()

    def run(self, phase, seconds, sample, until=lambda told: False):
        self.tell(phase)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.told = self.line(60)
            sample(self.told, self.process.pid)
            if until(self.told):
                break

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self):
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        out, complaint = self.process.communicate(timeout=120)
        if self.process.returncode != 0:
            raise Failed(f"exit code {self.process.returncode}: {complaint.strip()} {out[-200:]}")


class Server:
    """nv-memcached, which a client of this process asks and fills."""

    def __init__(self, build, pool, _settings, seed):
        self.program, self.pool, self.chance = build / "src" / "server" / "nv-memcached", pool, random.Random(seed)
        self.process = self.socket = None

    def start(self):
        path = f"{self.pool}.socket"
        pathlib.Path(path).unlink(missing_ok=True)
        self.process = subprocess.Popen([str(self.program), "--pool", str(self.pool), "-s", path, "-m", str(LIVE_MIB),
                                         "-t", "2"], stderr=subprocess.PIPE, text=True)
        for _ in range(600):
            try:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.connect(path)
                self.reader = self.socket.makefile("rb")
                return
            except OSError:
                if self.process.poll() is not None:
                    raise Failed(f"nv-memcached: {self.process.stderr.read().strip()}")
                time.sleep(0.1)
        raise Failed("nv-memcached does not listen")

    def value(self, key, largest):
        chance = random.Random(key)
        return bytes([key % 256]) * chance.randrange(largest // 2, largest + 1)

    def run(self, phase, seconds, sample, until=lambda told: False):
        end = time.monotonic() + seconds
        at_a_time = max(1, min(32, 200_000 // phase["bytes"]))
        while time.monotonic() < end:
            begun, operations, times = time.monotonic(), 0, []
            while time.monotonic() < begun + 0.25:
                keys = [phase["first"] + self.chance.randrange(phase["keys"]) for _ in range(at_a_time)]
                asked = time.monotonic()
                self.socket.sendall(b"".join(b"get k%d\r\n" % k for k in keys))
                missing = [k for k in keys if not self.found(k, phase["bytes"])]
                parts = []
                for k in missing:
                    value = self.value(k, phase["bytes"])
                    parts.append(b"set k%d %d 0 %d\r\n%s\r\n" % (k, phase["bytes"], len(value), value))
                self.socket.sendall(b"".join(parts))
                for k in missing:
                    answer = self.reader.readline()
                    if answer != b"STORED\r\n":
                        raise Failed(f"a set of {phase['bytes']} bytes: {answer!r}")
                times.append((time.monotonic() - asked) / at_a_time)
                operations += len(keys) + len(missing)
            times.sort()
            sample({"operations": operations, "p50_us": 1e6 * times[len(times) // 2],
                    "p99_us": 1e6 * times[len(times) * 99 // 100], "live": 0, "full": 0}, self.process.pid)

    def found(self, key, largest):
        line = self.reader.readline()
        if line == b"END\r\n":
            return False
        words = line.split()
        if len(words) != 4 or words[0] != b"VALUE":
            raise Failed(f"a get of key {key}: {line!r}")
        value = self.reader.read(int(words[3]))
        self.reader.read(2)
        self.reader.readline()
        if int(words[2]) == largest and value != self.value(key, largest):
            raise Failed(f"key {key} has another value than was stored")
        return True

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.socket.close()

    def end(self):
        self.socket.close()
        self.process.terminate()
        if self.process.wait(timeout=120) != 0:
            raise Failed(f"nv-memcached: exit code {self.process.returncode}")


def phases_of(round_number):
    """Each with new keys; the last one keeps LIVE_MIB of the first one's size."""
    live = LIVE_MIB * MIB
    first = round_number * 10_000_000
    for i, (largest, threads) in enumerate(zip(SIZES + SIZES[:1], THREADS + THREADS[:1])):
        keys = max(16, 2 * live // (largest * 3 // 4))
        yield dict(bytes=largest, threads=threads, first=first + i * 1_000_000, keys=keys, live=live)


def soak(name, build, folder, seconds, rounds, seed, say):
    settings = SUBJECTS[name]
    pool = folder / f"{name}.nvm"
    chance = random.Random(seed)
    service = (Server if settings["kind"] == "server" else Service)(build, pool, settings, seed * 1000)
    begun = time.monotonic()
    samples, ends, kills = [], [], 0

    def sample(told, pid):
        everything, own = resident_bytes(pid)
        samples.append({"s": round(time.monotonic() - begun, 2), "file": file_bytes(pool), "resident": everything,
                        "own": own, "spread": round(told["used"] / told["live"], 3) if told["live"] else None,
                        "addresses": told.get("addresses") or None,
                        **{k: told[k] for k in ("operations", "p50_us", "p99_us", "live", "full")}})

    service.start()
    each = seconds / rounds / 8  # six phases, one of them twice, and a full pool
    for number in range(rounds):
        phases = list(phases_of(number))
        killed_in = chance.randrange(1, len(phases) - 1)
        filled = 0
        for i, phase in enumerate(phases):
            if i == killed_in:
                service.run(phase, each * chance.uniform(0.2, 0.9), sample)
                service.kill()
                kills += 1
                service.start()
            if i == 3 and settings["kind"] != "server":
                fill = dict(phase, live=0, keys=phase["keys"] * 16)
                before = service.told["full"]
                service.run(fill, each * 4 + 60, sample, until=lambda told: told["full"] > before)
                filled = samples[-1]["live"]
            service.run(phase, each, sample)
        # Until it has what the round before had at its end.
        if settings["kind"] != "server":
            last = phases[-1]
            service.run(last, each + 60, sample, until=lambda told: not told["older_left"] and
                        abs(told["live"] - last["live"]) < 0.05 * last["live"])
        ends.append({**samples[-1], "filled": filled})
        say(f"{name}: round {number + 1} of {rounds}: file {samples[-1]['file'] / MIB:.1f} MiB, memory "
            f"{samples[-1]['resident'] / MIB:.1f} MiB; full with {filled / MIB:.1f} MiB")
    service.end()
    closed = file_bytes(pool)
    check = subprocess.run([str(build / "src" / "cli" / "holdfast"), "--quiet", "check", str(pool)],
                           capture_output=True, text=True, check=False)
    if check.returncode != 0:
        raise Failed(f"the check of {name}: exit code {check.returncode}: {check.stderr.strip()}")
    return {"subject": name, "kills": kills, "seconds": round(time.monotonic() - begun, 1), "closed_file": closed,
            "rounds": ends, "samples": samples}


def judge(result):
    """Ratios of the end of the last round to that of the second."""
    ends = result["rounds"]
    second, last = ends[min(1, len(ends) - 1)], ends[-1]
    result["growth"] = {what: round(last[what] / max(0.1, second[what]), 3) for what in TAKEN if last[what] is not None}
    result["growth"]["filled"] = round(last["filled"] / second["filled"], 3) if second["filled"] else 1.0
    result["flat"] = all(g <= GROWTH_MAX for what, g in result["growth"].items() if what != "filled") and \
        result["growth"]["filled"] >= 1 / GROWTH_MAX
    return result["flat"]


def plot(results, path):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    lines = (("file", "file, MiB", MIB), ("resident", "resident memory, MiB", MIB), ("addresses", "addresses, MiB", MIB),
             ("spread", "bytes taken for a byte of values", 1), ("p99_us", "p99, us", 1))
    figure, all_axes = pyplot.subplots(len(results), len(lines), figsize=(20, 2 * len(results)), squeeze=False)
    for row, result in zip(all_axes, results):
        for axes, (what, label, unit) in zip(row, lines):
            said = [s for s in result["samples"] if s[what] is not None]
            if not said:
                axes.set_axis_off()
                continue
            axes.plot([s["s"] for s in said], [s[what] / unit for s in said], linewidth=0.7)
            axes.set_title(f"{result['subject']}: {label}", fontsize=8)
            axes.tick_params(labelsize=7)
            if what == "p99_us":
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/measure"))
    parser.add_argument("--minutes", type=float, default=10, help="for all subjects together")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--subjects", default=",".join(SUBJECTS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", default="/dev/shm", help="of pools on shared memory; others go to --disk")
    parser.add_argument("--disk", default="/var/tmp")
    given = parser.parse_args()
    names = given.subjects.split(",")
    unknown = [n for n in names if n not in SUBJECTS]
    if unknown or given.rounds < 1:
        parser.error(f"no subject {unknown[0]}; there are {', '.join(SUBJECTS)}" if unknown else "--rounds: at least 1")

    results, failed = [], False
    for name in names:
        parent = given.disk if SUBJECTS[name]["medium"] == "ssd" else given.folder
        folder = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-soak-", dir=parent))
        try:
            result = soak(name, given.build, folder, 60 * given.minutes / len(names), given.rounds, given.seed,
                          lambda text: print(text, flush=True))
            flat = judge(result)
            failed = failed or not flat
            growth = ", ".join(f"{what} {times}" for what, times in result["growth"].items() if what != "filled")
            print(f"{name}: {'flat' if flat else 'NOT FLAT'}: {growth}, what a full pool holds "
                  f"{result['growth']['filled']} times that of the second round; {result['kills']} kills")
            results.append(result)
        except (Failed, OSError, subprocess.TimeoutExpired) as e:
            failed = True
            print(f"{name}: FAILED: {e}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps({"arguments": vars(given), "results": results}, default=str, indent=1))
    if given.plot and results:
        plot(results, given.plot)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
