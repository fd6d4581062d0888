"""The document of object stores: HEAPO's figure 4 measured again, attaching among many others, opening, names. Used by
report.py."""

import json

from report_parts import machine_lines, merge, number, table

CALLS = {"create": "created, durable", "attach": "attached, until its root has been read", "first": "first object of 64 bytes",
         "expand": "an object of 256 KiB, for which it has no room", "shrink": "that is freed, its room given back",
         "detach": "given up"}
FILE_SYSTEMS = ("tmpfs", "ext4", "xfs", "overlay", "btrfs")


def spread(s):
    w = s["wall_ns"]
    return f"{number(w['median'] / 1e3, 1)} ({number(w['min'] / 1e3, 1)} to {number(w['max'] / 1e3, 1)})"


def ratio(b, subject, peer):
    found = (r["wall"]["median"] for r in b["ratios"] if r["subject"] == subject and r["peer"] == peer)
    return number(next(found, None), 2)


def figure_4(benchmarks):
    rows = []
    for b in benchmarks:
        call, _, where = b["name"].partition("-")
        if call not in CALLS or where not in FILE_SYSTEMS:
            continue
        by_name = {s["name"]: s for s in b["systems"]}
        rows.append([f"{where}: {CALLS[call]}"] + [spread(by_name[n]) if n in by_name else "" for n in
                                                   ("store", "pool file", "libpmemobj file")]
                    + [ratio(b, "store", "pool file"), ratio(b, "store", "libpmemobj file")])
    if not rows:
        return []
    return ["## Figure 4", "",
            "Microseconds of one call by the wall clock, median with the smallest and the largest, of stores of 1 MiB; and how many "
            "times as fast a store is. The paper, beside files mapped by the kernel: create 1.3, attach 4.5 times as fast. On a disk "
            "ours are of the medium ssd, where a commit is a sync; libpmemobj writes back by instructions there as well, which makes "
            "nothing durable on such a file system. Its pools do not grow, and no pool file gives room back.", ""
            ] + table(["", "store", "pool file", "libpmemobj file", "x pool file", "x libpmemobj"], rows)


def beside_others(benchmarks):
    rows = []
    for b in benchmarks:
        call, _, where = b["name"].partition("-")
        if call not in ("attach", "first", "detach") or not where.endswith(("-small", "-large")):
            continue
        others, size = where.split("-")
        by_name = {s["name"]: s for s in b["systems"]}
        rows.append([f"{call}, {int(others):,} others, {size}"]
                    + [spread(by_name[n]) for n in ("store", "store, unprotected", "pool file")]
                    + [ratio(b, "store", "pool file")])
    if not rows:
        return []
    return ["## Among many others", "",
            "A store of 1 MiB in a pool that has so many others, and may grow to what they take (small) or to 16 GiB (large); "
            "microseconds. The price of page protection is the difference of the first two columns; the pool file has 1 MiB and "
            "nothing else.", ""
            ] + table(["", "protected", "unprotected", "pool file", "x pool file"], rows)


def opening(benchmarks):
    rows = [[b["name"].removeprefix("open-")] + [spread(s) for s in b["systems"]] + [ratio(b, "with stores", "without")]
            for b in benchmarks if b["name"].startswith("open-")]
    if not rows:
        return []
    return ["## Opening", "", "A pool with so many stores, and the same without; microseconds.", ""
            ] + table(["stores", "with", "without", "times as fast"], rows)


def names(benchmarks):
    rows = []
    for b in benchmarks:
        if not b["name"].startswith("names-"):
            continue
        p = b["parameters"]
        rows.append([f"{p['names']:,}"] + [spread(s) for s in b["systems"]]
                    + [number(p[k], 1) for k in ("text_bytes", "trie_bytes", "trie_bytes_beyond_text", "tree_bytes")])
    if not rows:
        return []
    return ["## Names", "",
            "Microseconds of a look-up in random order, warm; bytes a name. The trie is read as it lies, the tree by `nvm_kv_get()`, a "
            "transaction each, whose records have checksums.", ""
            ] + table(["names", "trie", "kv B+tree", "text", "trie, text included", "beyond the text", "tree, text and value included"], rows)


def write(results_directory, out):
    """Writes stores.md from stores*.json; its path, or nothing where there are no results."""
    report = None
    for source in sorted(results_directory.glob("stores*.json")):
        report = merge(report, json.loads(source.read_text()))
    if report is None:
        return []
    b = report["benchmarks"]
    lines = ["# Object stores", ""] + machine_lines(report, "./dev bench stores")
    lines += figure_4(b) + beside_others(b) + opening(b) + names(b)
    out.mkdir(parents=True, exist_ok=True)
    (out / "stores.md").write_text("\n".join(lines).rstrip() + "\n")
    return [str(out / "stores.md")]
