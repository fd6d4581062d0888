#!/usr/bin/env python3
"""A snapshot that a child writes has what the pool held at the fork, while the server goes on.

usage: snapshot_test.py --plain SERVER --durable SERVER --pool FILE
Exit codes: 0 the plain server finds in the snapshot what was there, 1 not.
"""
import argparse
import os
import sys
import tempfile
import time

from kill_test import Connection, Server

KEYS = 20000
FILL = """for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k' .. i, ('v'):rep(100) .. i) end
for i = 1, 500 do redis.call('ZADD', 'z', i, 'm' .. i) redis.call('HSET', 'h', 'f' .. i, i) redis.call('RPUSH', 'l', i) end"""


def main():
    parser = argparse.ArgumentParser()
    for name in ("plain", "durable", "pool"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    if os.path.exists(options.pool):
        os.unlink(options.pool)
    with tempfile.TemporaryDirectory() as folder:
        server = Server(options.durable, folder, "durable", {"REDIS_POOL": options.pool})
        redis = Connection(server.path)
        redis.call("EVAL", FILL, 0, KEYS)
        redis.call("SET", "mark", "before")
        wanted = redis.call("DEBUG", "DIGEST")
        redis.call("BGSAVE")
        for i in range(300):
            redis.call("SET", "mark", f"after {i}")
            redis.call("DEL", f"k{i + 1}")
            redis.call("RPUSH", "l", "late")
        until = time.monotonic() + 60
        while b"rdb_bgsave_in_progress:0" not in redis.call("INFO", "persistence"):
            if time.monotonic() > until:
                sys.exit("snapshot_test: the snapshot does not end")
            time.sleep(0.02)
        after = redis.call("DEBUG", "DIGEST")
        server.kill()
        if not os.path.exists(os.path.join(folder, "dump.rdb")):
            sys.exit("snapshot_test: there is no snapshot")
        plain = Server(options.plain, folder, "plain", {})  # reads dump.rdb
        digest = Connection(plain.path).call("DEBUG", "DIGEST")
        plain.kill()
        again = Server(options.durable, folder, "again", {"REDIS_POOL": options.pool})
        kept = Connection(again.path).call("DEBUG", "DIGEST")
        again.kill()
    os.unlink(options.pool)
    if digest != wanted:
        sys.exit("snapshot_test: the snapshot has not what was there at the fork")
    if kept != after:
        sys.exit("snapshot_test: the pool has not what was answered")
    print(f"a snapshot of {KEYS} keys while 900 commands changed them: what was there before the first")
    return 0


if __name__ == "__main__":
    sys.exit(main())
