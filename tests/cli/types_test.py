#!/usr/bin/env python3
"""types, and dump with types."""

import json
import pathlib
import subprocess

import cli_testing
from cli_testing import GOOD, MEDIA, NEGATIVE, PoolTest, main, run


def id_of(name):
    """NVM_TYPE_ID."""
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value & 0x3FFFFFFF | 0x40000000


class Types(PoolTest):
    def typed_pool(self, medium, name="typed.nvm"):
        path = self.path(medium, name)
        maker = pathlib.Path(cli_testing.MAKER).with_name("cli_typed_pool_maker")
        subprocess.run([maker, path, medium], check=True, timeout=60)
        return path

    def test_are_listed_with_their_fields(self):
        for medium in MEDIA:
            path = self.typed_pool(medium)
            with self.unchanged(path):
                answer = self.answer("types", path)
            self.assertEqual(answer["path"], str(path))
            types = {t["name"]: t for t in answer["types"]}
            self.assertEqual([t["id"] for t in answer["types"]], sorted(map(id_of, ("choice", "flags", "node", "struct node", "table"))))
            self.assertEqual(types["struct node"],
                             {"name": "struct node", "id": id_of("struct node"), "alias_of": id_of("node")})
            node = types["node"]
            self.assertEqual((node["size_bytes"], node["alignment"]), (32, 8))
            self.assertRegex(node["fingerprint"], "^[0-9a-f]{16}$")
            self.assertEqual(node["fields"][0], {"name": "next", "offset": 0, "kind": "pointer", "element_bytes": 8,
                                                 "count": 1, "target": id_of("node")})
            self.assertEqual(types["table"]["fields"][0], {"name": "slots", "offset": 0, "kind": "structure",
                                                           "element_bytes": 16, "count": 2, "inner": 2})
            self.assertEqual(answer["undescribed"],
                             [{"id": id_of("choice"), "objects": 1, "visitor_of": id_of("seen")}])
            _, up, u, _, to, seen, _ = types["choice"]["fields"]
            self.assertEqual((up["kind"], up["target"]), ("weak pointer", id_of("node")))
            self.assertEqual((u["kind"], u["inner"], u["tag"], to["name"]), ("union", 2, "s4@0", "u.to"))
            self.assertEqual((seen["kind"], seen["inner"], seen["target"]), ("by visitor", 1, id_of("seen")))
            self.assertEqual(run("check", path).returncode, GOOD)

    def test_are_printed(self):
        path = self.typed_pool("shm")
        text = run("types", path).stdout
        self.assertIn(f"node  type id {id_of('node')} (0x{id_of('node'):08x}), 32 bytes, aligned to 8\n", text)
        self.assertIn("struct node  type id", text)
        self.assertIn("another name of node\n", text)
        lines = [line.split(None, 2) for line in text.splitlines() if line.startswith(" ")]
        self.assertIn(["8", "name", "12 x char"], lines)
        self.assertIn(["0", "slots.first", "pointer to node"], lines)
        self.assertIn(["16", "u", "union of 8 by (s4@0)"], lines)
        self.assertIn(["8", "up", "weak pointer to node"], lines)
        self.assertIn(["24", "seen", f"by visitor of 0x{id_of('seen'):08x}"], lines)
        self.assertIn(["0", "kind:0+3|references:32+29", "bytes of 8"], lines)
        self.assertIn(["36", "more", "any number of unsigned 16"], lines)

    def test_of_a_pool_without_any(self):
        path, content = self.used_pool("shm")
        undescribed = [{"id": kind, "objects": count} for kind, _, count in content]
        self.assertEqual(self.answer("types", path), {"path": str(path), "types": [], "undescribed": undescribed, "statics": []})
        text = run("types", path).stdout
        self.assertIn("no types", text)
        self.assertIn("0x00000001  not described: 160 objects, no layout\n", text)

    def test_name_objects_and_their_fields(self):
        for medium in MEDIA:
            path = self.typed_pool(medium)
            dump = self.answer("dump", path, "--fields")
            objects = {o.get("type_name"): o for o in dump["objects"]}
            self.assertEqual(set(objects), {"choice", "flags", "node", "struct node", "table", "char"})
            self.assertNotIn("fields", objects["char"])
            self.assertEqual(objects["node"]["fields"], {"next": None, "name": "first", "number": -5, "weight": 0.25})
            first, second = objects["struct node"]["fields"]
            self.assertEqual(first, {"next": None, "name": "", "number": 0, "weight": 0.0})
            self.assertEqual((second["next"], second["number"]), (objects["node"]["address"], 7))
            self.assertEqual(objects["table"]["fields"],
                             {"slots": [{"first": None, "used": False},
                                        {"first": objects["node"]["address"], "used": True}],
                              "either": "04030201", "more": [60000, 2, 0]})
            node = objects["node"]["address"]
            self.assertEqual(objects["choice"]["fields"],
                             {"kind": 1, "up": node, "u": {"number": int(node, 16), "to": node}, "seen": {"word": 3}})
            self.assertEqual(objects["flags"]["fields"], {"kind": 5, "references": (1 << 28) + 3})
            self.assertNotIn("fields", self.answer("dump", path)["objects"][0])
            summary = self.answer("dump", path, "--summary")["by_type"]
            self.assertEqual({t.get("type_name") for t in summary}, set(objects))

    def test_name_objects_in_text(self):
        path = self.typed_pool("shm")
        lines = run("dump", path, "--fields").stdout.splitlines()
        self.assertEqual(sum(line.endswith("  table  root") for line in lines), 1)
        for line in ('  name = "first"', "  number = -5", '  either = "04030201"'):
            self.assertIn(line, lines)

    def test_documented_fields_are_those_that_are_printed(self):
        path = self.typed_pool("shm")
        for line in (("types", path), ("dump", path, "--fields", "--hex", 1), ("dump", path, "--summary")):
            documented = {f["name"] for f in json.loads(run(line[0], "--help", "--json").stdout)["fields"]}
            for name in cli_testing.names_in(self.answer(*line)):
                # Of a list that is empty only the name is there.
                known = any(name == d or name.startswith((d + ".", d + "[")) or d.startswith(name + ".")
                            for d in documented)
                self.assertTrue(known, name)

    def test_damage_is_found_and_keeps_nobody_from_the_objects(self):
        path = self.typed_pool("shm")
        data = bytearray(path.read_bytes())
        at = data.rindex(b"HTYPEMAP")
        data[at + 50] ^= 1
        path.write_bytes(data)
        self.assertIn("type map: checksum", run("check", path).stdout)
        self.assertEqual(run("check", path).returncode, NEGATIVE)
        self.assert_fails(("types", path), cli_testing.UNAVAILABLE, "NVM_E_CORRUPT", "type map: checksum")
        self.assertEqual(len(self.answer("dump", path, "--fields")["objects"]), 6)


if __name__ == "__main__":
    main()
