#!/usr/bin/env python3
"""A guest that has real DAX, and whose power can be cut.

The guest is Debian's kernel with a few programs in memory, run by QEMU's own translator; its persistent memory is a file of
the host, so that everything it has stored there outlives it. It is started once, up to the moment before it mounts anything,
and its state is saved; each later life begins there. The last life is a cold start.

  tests   test programs of the library run on an ext4 file system mounted with dax=always
  cuts    banks (dax_bank.cpp), one an engine, live through --cuts kills of QEMU, each at a random moment of their work, of
          their recovery or of the mounting; after each everything that was acknowledged has to be there

usage: see dax.sh. Exit code: 0 all was right, 1 something was not, 77 this cannot run here.
"""

import argparse
import json
import os
import pathlib
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
KERNEL_PACKAGE = "linux-image-amd64"
MODULES = "crc32c_generic libcrc32c crc16 mbcache jbd2 ext4 libnvdimm nd_btt nd_pmem nfit".split()
ENGINES = ["undo", "undo-write-back", "redo", "redo-by-mark", "log"]
TESTS = ["dax_test", "media_direct_test", "platform_map_test", "pool_file_test", "pool_growth_test", "pool_open_pools_test",
         "pool_creation_crash_test", "tx_test", "tx_parked_lanes_test", "stm_test", "api_test"]
MEMORY_MIB = 514  # with 2 MiB of labels
START_SECONDS = 600
SAID_WITHIN_SECONDS = 120


class CannotRun(Exception):
    """Something is missing here."""


class Wrong(Exception):
    """The library, or the guest, did what it must not."""


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **more).stdout


# ---- what the guest is made of

def unpacked_kernel(folder):
    """Debian's kernel, unpacked below `folder` and not installed; its image and its modules' folder."""
    at = folder / "kernel"
    if not list(at.glob("boot/vmlinuz-*")):
        says = run("apt-cache", "depends", KERNEL_PACKAGE).decode()
        found = re.search(r"Depends: (linux-image-[\w.+-]+)", says)
        if not found:
            raise CannotRun("the package lists have no kernel: ./dev setup --dax")
        at.mkdir(exist_ok=True)
        run("apt-get", "-q", "download", found[1], cwd=at, stderr=subprocess.DEVNULL)
        for package in at.glob("*.deb"):
            run("dpkg-deb", "-x", package, at)
            package.unlink()
    return next(at.glob("boot/vmlinuz-*")), at / "lib" / "modules"


def put_program(source, root, place, strip=False):
    """The program, and the shared libraries that it needs."""
    to = root / place
    to.parent.mkdir(parents=True, exist_ok=True)
    if strip:
        run("strip", "-o", to, source)
    else:
        shutil.copy(source, to)
    linked = subprocess.run(["ldd", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    for library in re.findall(r"(?:=> )?(/\S+) \(0x", linked.stdout.decode()):
        at = root / library.lstrip("/")
        if not at.exists():
            at.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, at)


def made_archive(folder, build, modules):
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "modules"):
        (root / name).mkdir(parents=True)
    shutil.copy(HERE / "init", root / "init")
    put_program("/bin/busybox", root, "bin/busybox")
    put_program(shutil.which("ndctl"), root, "sbin/ndctl")
    put_program(shutil.which("mke2fs"), root, "sbin/mke2fs")
    (root / "bin" / "ndctl").symlink_to("/sbin/ndctl")
    for name in MODULES:
        shutil.copy(next(modules.rglob(name + ".ko*")), root / "modules" / (name + ".ko"))
    put_program(build / "tests" / "dax" / "dax_bank", root, "tests/dax_bank", strip=True)
    put_tests(build, root)
    archive = folder / "root.cpio.gz"
    run("sh", "-c", "find . | cpio -o -H newc --quiet | gzip -1 >" + str(archive), cwd=root)
    shutil.rmtree(root)
    return archive


def commands_of_tests(build):
    """What ctest runs: the program, which several tests may share, and its arguments."""
    known = json.loads(run("ctest", "--test-dir", build, "--show-only=json-v1"))
    return {test["name"]: test["command"] for test in known["tests"] if "command" in test}


def put_tests(build, root):
    commands = commands_of_tests(build)
    for test in TESTS:
        program, *arguments = commands[test]
        place = "programs/" + pathlib.Path(program).name
        if not (root / place).exists():
            put_program(program, root, place, strip=True)
        script = root / "tests" / test
        script.write_text(f'#!/bin/busybox sh\nexec {shlex.join(["/" + place, *arguments])} "$@"\n')
        script.chmod(0o755)


# ---- a guest

class Guest:
    """One life of the machine; what it says comes line by line."""

    def __init__(self, place, saved=None):
        self.place = place
        self.control = place.folder / "control"
        self.control.unlink(missing_ok=True)
        memory = ["-object", f"memory-backend-file,id=nv,share=on,mem-path={place.memory},size={MEMORY_MIB}M"]
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-machine", "pc,nvdimm=on",
                   "-smp", "2", "-m", "768M,slots=2,maxmem=2G", *memory,
                   "-device", "nvdimm,id=nv0,memdev=nv,label-size=2M", "-kernel", place.kernel,
                   "-initrd", place.archive, "-append", "console=ttyS0 quiet panic=-1 no_timer_check",
                   "-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio",
                   "-qmp", f"unix:{self.control},server=on,wait=off"]
        if saved:
            command += ["-incoming", "defer"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.unread = b""
        self.lines = []
        try:
            if saved:
                self.commands(LEAVE_SHARED, {"execute": "migrate-incoming", "arguments": {"uri": f"exec:cat {saved}"}})
                while self.commands({"execute": "query-status"})["status"] != "running":
                    time.sleep(0.01)
        except BaseException:
            self.cut_power()
            raise

    def tell(self, line):
        # What is half there of a line before is ended first.
        self.process.stdin.write(b"\n" + line.encode() + b"\n")
        self.process.stdin.flush()

    def read(self, seconds):
        """The next line that it says; None: nothing within that time, or it has ended."""
        until = time.monotonic() + seconds
        while b"\n" not in self.unread:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self.unread += more
        line, self.unread = self.unread.split(b"\n", 1)
        text = line.decode(errors="replace").strip()
        self.lines.append(text)
        if text.startswith("WRONG"):
            raise Wrong(text)
        if "Kernel panic" in text or "Oops" in text:
            raise Wrong("the guest's kernel: " + text)
        return text

    def wait_for(self, pattern, seconds):
        until = time.monotonic() + seconds
        while True:
            line = self.read(max(0.0, until - time.monotonic()))
            if line is None:
                raise Wrong(f"no '{pattern}' within {seconds} s; it said last: " + " | ".join(self.lines[-8:]))
            found = re.search(pattern, line)
            if found:
                return found

    def connect(self, control):
        until = time.monotonic() + SAID_WITHIN_SECONDS
        while True:
            try:
                return control.connect(str(self.control))
            except (FileNotFoundError, ConnectionRefusedError):
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def commands(self, *all_of_them):
        """Commands of QEMU's control socket, and the last one's answer."""
        with socket.socket(socket.AF_UNIX) as control:
            self.connect(control)
            stream = control.makefile("rw")
            stream.readline()
            answer = None
            for command in [{"execute": "qmp_capabilities"}, *all_of_them]:
                stream.write(json.dumps(command) + "\n")
                stream.flush()
                answer = json.loads(stream.readline())
                while "event" in answer:
                    answer = json.loads(stream.readline())
                if "error" in answer:
                    raise Wrong(f"QEMU: {command}: {answer['error']}")
            return answer["return"]

    def cut_power(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


# What is shared with a file is not part of a guest's saved state.
LEAVE_SHARED = {"execute": "migrate-set-capabilities",
                "arguments": {"capabilities": [{"capability": "x-ignore-shared", "state": True}]}}


class Place:
    """The files of a campaign."""

    def __init__(self, folder, build):
        self.folder = folder
        self.memory = folder / "memory"
        self.state = folder / "state"
        self.kernel, modules = unpacked_kernel(folder)
        self.archive = made_archive(folder, build, modules)
        self.memory.unlink(missing_ok=True)
        with open(self.memory, "wb") as f:
            f.truncate(MEMORY_MIB << 20)

    def start_and_save(self):
        """Seconds of a cold start."""
        begin = time.monotonic()
        guest = Guest(self)
        try:
            guest.wait_for("^READY", START_SECONDS)
            seconds = time.monotonic() - begin
            guest.commands(LEAVE_SHARED, {"execute": "migrate", "arguments": {"uri": f"exec:cat >{self.state}"}})
            while guest.commands({"execute": "query-migrate"}).get("status") != "completed":
                time.sleep(0.05)
        finally:
            guest.cut_power()
        return seconds

    def again(self):
        """A guest that goes on where the saved one was."""
        return Guest(self, saved=self.state)


def run_tests(place):
    print("tests on ext4 with dax=always:", flush=True)
    guest = place.again()
    good = True
    try:
        guest.tell("tests " + " ".join(TESTS))
        while True:
            line = guest.read(1200)
            if line is None:
                raise Wrong("a test does not end: " + " | ".join(guest.lines[-4:]))
            if line.startswith("TESTED"):
                return good
            result = re.match(r"TEST (\S+) (\d+) (\d+)", line)
            if result:
                good = good and result[2] in ("0", "77")
                print(f"  {result[1]:32} {'passed' if result[2] == '0' else 'exit code ' + result[2]}, {result[3]} s", flush=True)
            elif line and not line.startswith("tests "):
                print("    " + line, flush=True)
    finally:
        guest.cut_power()


def cut_campaign(place, how, chance):
    """Power cuts; a dictionary of counts."""
    counts = {"cuts": 0, "while opening": 0, "judged": 0, "transfers": 0}
    acknowledged = {}
    begin = time.monotonic()
    said = begin
    for number in range(how.cuts):
        engine = how.engine[number % len(how.engine)]
        guest = place.again()
        try:
            guest.tell(f"bank {engine} {chance.getrandbits(60)} {how.threads} {how.plant or ''}")
            # A fourth of the cuts come while it is mounted, made, looked at or recovered.
            early = chance.random() < 0.25
            working = False
            until = time.monotonic() + (chance.random() * how.early_seconds if early else SAID_WITHIN_SECONDS)
            while not working:
                line = guest.read(max(0.0, until - time.monotonic()))
                if line is None:
                    break
                looked = re.match(r"looked (\d+)", line)
                if looked:
                    counts["judged"] += 1
                    if int(looked[1]) < acknowledged.get(engine, 0):
                        raise Wrong(f"transfers: found {looked[1]}, expected {acknowledged[engine]}")
                    acknowledged[engine] = int(looked[1])
                working = line == "working"
                if line.startswith("ENDED"):
                    raise Wrong("the bank ended: " + " | ".join(guest.lines[-4:]))
            if not working and not early:
                raise Wrong("nothing is said: " + " | ".join(guest.lines[-8:]))
            if working:
                line = guest.read(chance.random() * how.work_seconds)
                if line is not None:
                    raise Wrong("said while working: " + line)
            else:
                counts["while opening"] += 1
        except Wrong as wrong:
            raise Wrong(f"engine {engine}, after {counts['cuts']} cuts: {wrong}") from wrong
        finally:
            guest.cut_power()
        counts["cuts"] += 1
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"  {said - begin:5.0f} s: {counts['cuts']} cuts, {counts['judged']} judged", flush=True)
    # After a cold start nothing is different.
    guest = Guest(place)
    try:
        guest.wait_for("^READY", START_SECONDS)
        for engine in how.engine[:1]:
            guest.tell(f"bank {engine} 1 {how.threads}")
            guest.wait_for("^working", SAID_WITHIN_SECONDS)
    finally:
        guest.cut_power()
    counts["transfers"] = sum(acknowledged.values())
    counts["seconds"] = time.monotonic() - begin
    return counts


def main():
    parser = argparse.ArgumentParser(prog="dax")
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--threads", type=int, choices=range(1, 9), default=4)
    parser.add_argument("--plant", choices=["no-syncs"])
    parser.add_argument("--work-seconds", type=float, default=0.5, help="at most, before a cut")
    parser.add_argument("--early-seconds", type=float, default=0.8, help="at most, before a cut that comes early")
    parser.add_argument("--keep", default=".", help="where the memory is kept when something is wrong")
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--folder", required=True, type=pathlib.Path, help="for the kernel, which stays there")
    how = parser.parse_args()
    how.engine = how.engine or ENGINES
    for tool in ("qemu-system-x86_64", "ndctl", "mke2fs", "cpio", "busybox"):
        if not shutil.which(tool, path=os.environ["PATH"] + ":/sbin:/usr/sbin"):
            print(f"dax: skipped: there is no {tool}: ./dev setup --dax", file=sys.stderr)
            return 77
    how.folder = how.folder.resolve()
    how.folder.mkdir(parents=True, exist_ok=True)
    print(f"seed {how.seed}, {how.threads} threads", flush=True)
    place = None
    try:
        place = Place(how.folder, how.build)
        print(f"cold start: {place.start_and_save():.1f} s", flush=True)
        good = how.no_tests or run_tests(place)
        if how.cuts:
            counts = cut_campaign(place, how, random.Random(how.seed))
            print(f"{counts['cuts']} power cuts, {counts['while opening']} of them while mounted, opened or looked at, "
                  f"{counts['transfers']} transfers; {counts['judged']} times judged, in {counts['seconds']:.0f} s "
                  f"({counts['cuts'] / counts['seconds']:.2f} a second): nothing lost")
        return 0 if good else 1
    except CannotRun as missing:
        print(f"dax: skipped: {missing}", file=sys.stderr)
        return 77
    except Wrong as wrong:
        print(f"WRONG: {wrong}")
        kept = pathlib.Path(how.keep) / f"dax-{how.seed}.memory"
        run("cp", "--sparse=always", place.memory, kept)
        print(f"  the memory is kept as {kept}")
        return 1
    finally:
        if place is not None:
            place.memory.unlink(missing_ok=True)
            place.state.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
