#!/usr/bin/env python3
"""Other people's tests of the memcached protocol against nv-memcached: ./dev protocol calls this.

  memcached   memcached's own suite, from its Debian source package: the files that memcached_tests.txt names
  pymemcache  that client's integration tests, from its Debian package
  libmemcached  memccapable, which comes with that client, and a session of pylibmc, which is built on it

Nothing of them is in this tree: the source package is fetched, which needs a network the first time.

usage: run.py [--store volatile|POOL_FOLDER] [memcached|pymemcache|libmemcached]... [FILE.t]...
Exit codes: 0 all as listed, 1 not, 2 something that is needed is missing.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
WORK = TOP / "build" / "protocol"
VERSION = "1.6.18"


def missing(what):
    print(f"protocol: {what}", file=sys.stderr)
    sys.exit(2)


# ---- memcached's suite ----------------------------------------------------------------------------------------------

def read_list():
    """{file: (run|part|out, [subtests that fail])} of memcached_tests.txt."""
    found = {}
    for line in (HERE / "memcached_tests.txt").read_text().splitlines():
        if match := re.match(r"(run|part|out) (\S+)$", line):
            found[match[2]] = (match[1], [])
            last = match[2]
        elif match := re.match(r"  - (.*)", line):
            found[last][1].append(match[1])
    return found


def fetch():
    fetched = WORK / "fetched"
    fetched.mkdir(parents=True, exist_ok=True)
    want, name = (HERE / "SHA256SUMS").read_text().split()
    archive = fetched / name
    if not archive.exists():
        print(f"fetching the Debian source package memcached {VERSION}")
        if subprocess.run([TOP / "tools" / "setup.sh", "--sources"], check=False).returncode != 0:
            missing("package sources cannot be had")
        subprocess.run(["apt-get", "-q", "source", "--download-only", "memcached"], cwd=fetched, check=False,
                       stdout=subprocess.DEVNULL)
        if not archive.exists():
            missing(f"the source package memcached {VERSION} cannot be had")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != want:
        missing(f"{archive} is not the one that we know")
    return archive


def prepare(server, store):
    """The folder that the suite runs in: its tests, timedrun, and ours in memcached's place."""
    folder = WORK / "suite"
    if not (folder / "timedrun").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        subprocess.run(["tar", "-xf", fetch(), "--strip-components=1", "-C", folder], check=True)
        # Without its configuration there is nothing in it that depends on the system.
        (folder / "config.h").write_text("")
        subprocess.run(["cc", "-O1", "-w", "-o", folder / "timedrun", folder / "timedrun.c"], check=True)
    # Each server that the suite starts gets a pool of its own; they are removed with the folder.
    pools = tempfile.mkdtemp(prefix="protocol-", dir=None if store == "volatile" else store)
    where = "--volatile" if store == "volatile" else f'--pool "{pools}/$$.nvm"'
    shim = folder / "memcached-debug"
    shim.write_text(f'#!/bin/sh\nexec "{server}" {where} -o debug_commands "$@"\n')
    shim.chmod(0o755)
    return folder, pools


def run_file(folder, name):
    """(subtests that passed, subtests that failed, trouble) of one test file."""
    done = subprocess.run(["perl", f"t/{name}"], cwd=folder, capture_output=True, text=True, errors="replace",
                          timeout=400, check=False)
    passed = len(re.findall(r"^ok \d+", done.stdout, re.M))
    failed = re.findall(r"^not ok \d+(?: - (.*))?$", done.stdout, re.M)
    trouble = ""
    if re.search(r"^1\.\.0 # skip", done.stdout, re.M | re.I):
        trouble = "skipped"
    elif passed + len(failed) == 0 or (done.returncode != 0 and not failed):
        trouble = f"ended with {done.returncode}: {done.stderr[-300:]}"
    elif (plan := re.search(r"^1\.\.(\d+)$", done.stdout, re.M)) is None or int(plan[1]) != passed + len(failed):
        trouble = f"stopped early: {done.stderr[-300:]}"
    return passed, failed, trouble


def memcached_suite(server, store, only):
    listed = read_list()
    folder, pools = prepare(server, store)
    good = True
    there = {p.name for p in (folder / "t").glob("*.t")}
    if there != set(listed):
        print(f"not as listed: {sorted(there ^ set(listed))}")
        good = False
    names = [n for n, (verdict, _) in listed.items() if verdict != "out"] if not only else only
    # Two at a time: most of them sleep most of the time.
    total = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, (passed, failed, trouble) in zip(names, pool.map(lambda n: run_file(folder, n), names)):
            expected = collections.Counter(listed.get(name, ("run", []))[1])
            unexpected = list((collections.Counter(failed) - expected).elements())
            repaired = list((expected - collections.Counter(failed)).elements())
            total += passed
            right = not trouble and not unexpected and not repaired
            good = good and right
            print(f"{'ok  ' if right else 'FAIL'} {name}: {passed} passed"
                  + (f", {len(failed)} failed as listed" if right and failed else ""))
            for subtest in unexpected:
                print(f"       failed: {subtest}")
            for subtest in repaired:
                print(f"       listed as failing, and does not: {subtest}")
            if trouble:
                print(f"       {trouble}")
    shutil.rmtree(pools, ignore_errors=True)
    left_out = sum(verdict == "out" for verdict, _ in listed.values())
    print(f"memcached {VERSION}: {len(names)} files, {total} subtests passed; {left_out} files left out, see "
          "tests/protocol/memcached_tests.txt")
    return good


# ---- clients --------------------------------------------------------------------------------------------------------

class Server:
    """nv-memcached on a port of its own."""

    def __init__(self, server, store):
        self.folder = tempfile.TemporaryDirectory(prefix="protocol-", dir=None if store == "volatile" else store)
        ports = pathlib.Path(self.folder.name) / "ports"
        where = ["--volatile"] if store == "volatile" else ["--pool", f"{self.folder.name}/pool.nvm"]
        self.process = subprocess.Popen([server, *where, "-p", "-1"],
                                        env=dict(os.environ, MEMCACHED_PORT_FILENAME=str(ports)))
        for _ in range(500):
            if ports.exists():
                break
            time.sleep(0.02)
        self.port = int(ports.read_text().split()[-1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()


def pymemcache_suite(server, store):
    try:
        import pymemcache.test  # pylint: disable=import-outside-toplevel
        import pytest  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError as error:
        missing(f"{error}; install python3-pymemcache and python3-pytest")
    folder = pathlib.Path(pymemcache.test.__file__).parent
    with Server(server, store) as at:
        # Its tests of TLS want certificates and a server that has them.
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-k", "not tls",
             "--server", "127.0.0.1", "--port", str(at.port), "test_integration.py"],
            cwd=folder, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"), check=False)
    return done.returncode == 0


def pylibmc_session(port):
    """What a service does with its cache, by way of libmemcached; says what is wrong, or nothing."""
    import pylibmc  # pylint: disable=import-outside-toplevel
    client = pylibmc.Client([f"127.0.0.1:{port}"], behaviors={"cas": True, "tcp_nodelay": True})
    wrong = []

    def want(what, got, expected):
        if got != expected:
            wrong.append(f"{what}: {got!r}, expected {expected!r}")

    want("set", client.set("a", "text"), True)
    want("get", client.get("a"), "text")
    want("add", client.add("a", "other"), False)
    want("replace", client.replace("a", b"\x00\xff\r\n"), True)
    want("bytes", client.get("a"), b"\x00\xff\r\n")
    want("structure", (client.set("s", {"k": [1, 2.5, None]}), client.get("s")), (True, {"k": [1, 2.5, None]}))
    want("large", (client.set("l", "x" * 900_000), client.get("l")), (True, "x" * 900_000))
    want("many", client.set_multi({f"m{i}": i for i in range(500)}), [])
    want("many back", client.get_multi([f"m{i}" for i in range(500)]), {f"m{i}": i for i in range(500)})
    want("numbers", (client.set("n", 10), client.incr("n", 5), client.decr("n", 20)), (True, 15, 0))
    value, cas = client.gets("a")
    want("cas", (client.cas("a", "new", cas), client.get("a")), (True, "new"))
    want("old cas", client.cas("a", "newer", cas), False)
    client.set("j", "b")
    want("joined", (client.append("j", "c"), client.prepend("j", "a"), client.get("j")), (True, True, "abc"))
    want("touch", client.touch("j", 100), True)
    want("delete", (client.delete("j"), client.get("j")), (True, None))
    client.set("short", "x", time=1)
    time.sleep(2.1)
    want("expired", client.get("short"), None)
    want("flush", (client.flush_all(), client.get("a")), (True, None))
    del value
    return wrong


def libmemcached_suite(server, store):
    capable = shutil.which("memccapable") or shutil.which("memcapable")
    if capable is None:
        missing("no memccapable; install libmemcached-tools")
    good = True
    with Server(server, store) as at:
        done = subprocess.run([capable, "-h", "127.0.0.1", "-p", str(at.port), "-a"], check=False)
        good = done.returncode == 0
        try:
            wrong = pylibmc_session(at.port)
        except ImportError as error:
            missing(f"{error}; install python3-pylibmc")
    for line in wrong:
        print(f"pylibmc: {line}")
    print(f"pylibmc: {'as it should be' if not wrong else 'not as it should be'}")
    return good and not wrong


SUITES = {"memcached": None, "pymemcache": pymemcache_suite, "libmemcached": libmemcached_suite}


def main():
    parser = argparse.ArgumentParser(description="Other people's tests of the protocol against nv-memcached.")
    parser.add_argument("--server", default=os.environ.get("HOLDFAST_BUILD", str(TOP / "build/release"))
                        + "/src/server/nv-memcached")
    parser.add_argument("--store", default="volatile", help="volatile, or a folder for pools")
    parser.add_argument("what", nargs="*")
    given = parser.parse_args()
    server = str(pathlib.Path(given.server).resolve())
    if not os.access(server, os.X_OK):
        missing(f"{server} is not built: it needs CLI11 and libevent")
    files = [w for w in given.what if w.endswith(".t")]
    suites = [w for w in given.what if w not in files] or ([] if files else list(SUITES))
    if unknown := set(suites) - set(SUITES):
        parser.error(f"unknown {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}, and files of memcached's")
    if files and "memcached" not in suites:
        suites.append("memcached")
    results = {}
    for suite in suites:
        print(f"\n== {suite}", flush=True)
        results[suite] = (memcached_suite(server, given.store, files) if suite == "memcached"
                          else SUITES[suite](server, given.store))
    print()
    for suite, good in results.items():
        print(f"{suite:<14}{'as listed' if good else 'NOT AS LISTED'}")
    sys.exit(0 if all(results.values()) else 1)


if __name__ == "__main__":
    main()
