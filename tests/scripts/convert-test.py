#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""`topoopt convert`: a round trip loses nothing that the target can hold, and says what it dropped. Google's protobuf
library is the witness of Chakra files: what it writes we read, what we write it reads. Its schema is built here."""
import collections
import json
import os
import random
import sys
import unittest

sys.dont_write_bytecode = True
import cli_fixture as fixture
import chakra_files as chakra
from cli_fixture import ProgramTest, basic_trace
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

OWN = os.path.join(fixture.SOURCE, "traces")
SCALARS = ["double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32",
           "sfixed64", "bool", "string", "bytes"]
INTEGERS = SCALARS[2:12]


def schema():
    """Message classes GlobalMetadata and Node: numbers and types as the format's description states them."""
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="witness.proto", package="witness", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, label, kind, key in fields:
            one = made.field.add(name=key, number=number,
                                 label=types.LABEL_REPEATED if label == "*" else types.LABEL_OPTIONAL)
            if hasattr(types, "TYPE_" + kind.upper()):
                one.type = getattr(types, "TYPE_" + kind.upper())
            else:
                one.type = types.TYPE_MESSAGE
                one.type_name = ".witness." + kind
        return made

    attribute = [(1, "", "string", "name"), (2, "", "string", "doc_string")]
    for index, kind in enumerate(SCALARS):
        message(kind.capitalize() + "List", (1, "*", kind, "values"))
        attribute += [(3 + 2 * index, "", kind, kind + "_val"),
                      (4 + 2 * index, "", kind.capitalize() + "List", kind + "_list")]
    made = message("AttributeProto", *attribute)
    made.oneof_decl.add(name="value")
    for one in made.field[2:]:
        one.oneof_index = 0
    message("IOInfo", (1, "", "string", "values"), (2, "", "string", "shapes"), (3, "", "string", "types"))
    message("GlobalMetadata", (1, "", "string", "version"), (2, "*", "AttributeProto", "attr"))
    # The node type is an enum, which is a varint like an int32.
    message("Node", (1, "", "uint64", "id"), (2, "", "string", "name"), (3, "", "int32", "type"),
            (4, "*", "uint64", "ctrl_deps"), (5, "*", "uint64", "data_deps"), (6, "", "uint64", "start_time_micros"),
            (7, "", "uint64", "duration_micros"), (8, "", "IOInfo", "inputs"), (9, "", "IOInfo", "outputs"),
            (10, "*", "AttributeProto", "attr"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName("witness." + name)) for name in ("GlobalMetadata", "Node")]


Metadata, Node = schema()


def split(data):
    """The records of a file."""
    records = []
    at = 0
    while at < len(data):
        size = shift = 0
        while True:
            byte = data[at]
            size |= (byte & 0x7F) << shift
            at += 1
            shift += 7
            if byte < 0x80:
                break
        if at + size > len(data):
            raise ValueError("the file ends inside a record")
        records.append(data[at:at + size])
        at += size
    return records


class ConvertTest(ProgramTest):
    def inspect(self, path, **options):
        words = [f"--option={key}={value}" for key, value in options.items()]
        return json.loads(self.run_ok("inspect", "--json", path, *words).out)

    def convert(self, source, target, *dropped, **options):
        """Converts; the lines that say what was dropped are exactly those that begin with @p dropped."""
        words = [f"--option={key}={value}" for key, value in options.items()]
        result = self.run_ok("convert", source, target, *words)
        said = [line[len("dropped: "):] for line in result.err.splitlines() if line.startswith("dropped: ")]
        self.assertEqual(len(said), len(dropped), result.err)
        for line, expected in zip(sorted(said), sorted(dropped)):
            self.assertEqual(line.split(":")[0][:len(expected)], expected)
        return result

    def same(self, one, two, *but):
        """Two summaries are equal, files, names of formats and what is listed in @p but aside."""
        for key in sorted(set(one) | set(two)):
            if key not in ("files", "format", "facts", "lists", "warnings") + but:
                self.assertEqual(one[key], two[key], key)

    def wire(self, shown):
        return {(p["src"], p["dst"]): p["bytes"] for p in shown["wire"]["pairs"]}


class Witness(ConvertTest):
    def test_we_read_what_protobuf_writes(self):
        for seed in range(40):
            with self.subTest(seed):
                self.one_random_trace(random.Random(seed))

    def one_random_trace(self, rng):
        ranks = rng.randint(1, 4)
        directory = f"w{rng.randint(0, 10**9)}"
        groups = {"3": rng.sample(range(ranks), rng.randint(1, ranks)), "": list(range(ranks))}
        groups["3"].sort()
        calls = [(rng.choice(["3", ""]), rng.choice(["all_reduce", "all_gather", "all_to_all", "barrier"]),
                  rng.randint(1, 10**6) * 12) for _ in range(rng.randint(0, 6))]
        micros = collections.Counter()
        counts = collections.defaultdict(collections.Counter)
        sizes = collections.defaultdict(collections.Counter)
        for rank in range(ranks):
            nodes = []
            ids = rng.sample(range(1, 1000), 40)
            last = []
            for group, kind, size in calls:
                for _ in range(rng.randint(0, 2)):
                    node = Node(id=ids.pop(), name="c", type=chakra.COMP, duration_micros=rng.randint(0, 99),
                                data_deps=last, ctrl_deps=[5, 5])
                    node.attr.add(name="num_ops", double_val=1.5)
                    node.attr.add(name="sizes", int64_list={"values": [1, -2, 3]})
                    node.inputs.values = "[[1, 2]]"
                    micros[rank] += node.duration_micros
                    nodes.append(node)
                    last = [node.id] * rng.randint(1, 2)
                if rank in groups[group]:
                    node = Node(id=ids.pop(), name=kind, type=chakra.COLL, data_deps=last)
                    node.attr.add(name="comm_type", **{rng.choice(INTEGERS) + "_val": chakra.KINDS[kind]})
                    node.attr.add(name="comm_size", **{rng.choice(INTEGERS) + "_val": size})
                    if group or rng.random() < 0.5:
                        node.attr.add(name="pg_name", string_val=group)
                    if rng.random() < 0.5:
                        node.attr.add(name="is_cpu_op", **rng.choice([{"bool_val": False}, {"int32_val": 0}]))
                    nodes.append(node)
                    last = [node.id]
                    counts[rank][kind] += 1
                    sizes[rank][kind] += size if kind != "barrier" else 0
            rng.shuffle(nodes)
            records = [Metadata(version=rng.choice(["", "0.0.4"]))] + nodes
            texts = [message.SerializeToString() for message in records]
            self.write(f"{directory}/x.{rank}.et", b"".join(map(chakra.record, texts)))
        self.write(f"{directory}/comm_group.json", json.dumps({"3": groups["3"]}))
        shown = self.inspect(directory)
        for rank in range(ranks):
            self.assertEqual(shown["per_rank"][rank]["collectives"], counts[rank])
            self.assertEqual(shown["per_rank"][rank]["collective_bytes"], sizes[rank])
            self.assertEqual(shown["per_rank"][rank]["compute_time_ps"], micros[rank] * 10**6)
        self.assertEqual(sum(row["calls"] for row in shown["collectives"]), len(calls))

    def test_protobuf_reads_what_we_write(self):
        self.convert(os.path.join(OWN, "dlrm-8gpu"), "out/d.et", "element sizes of collectives",
                     "uneven all_to_allv, written as sends and receives")
        kinds = collections.Counter()
        for rank in range(8):
            with open(self.path(f"out/d.{rank}.et"), "rb") as handle:
                records = split(handle.read())
            self.assertNotEqual(Metadata.FromString(records[0]).version, "")
            seen = set()
            for text in records[1:]:
                node = Node.FromString(text)
                self.assertEqual(len(node.SerializeToString()), len(text), "nothing unknown, nothing twice")
                self.assertEqual(node.UnknownFields().__len__() if hasattr(node, "UnknownFields") else 0, 0)
                self.assertNotIn(node.id, seen)
                self.assertTrue(set(node.data_deps) <= seen, "written in order")
                seen.add(node.id)
                attributes = {a.name: a for a in node.attr}
                self.assertEqual(attributes["is_cpu_op"].WhichOneof("value"), "bool_val")
                if node.type == chakra.COLL:
                    self.assertEqual(attributes["comm_type"].WhichOneof("value"), "int64_val")
                    self.assertEqual(attributes["comm_size"].WhichOneof("value"), "int64_val", "what ASTRA-sim reads")
                    kinds[attributes["comm_type"].int64_val] += 1
                if node.type in (chakra.SEND, chakra.RECV):
                    mine = attributes["comm_src" if node.type == chakra.SEND else "comm_dst"]
                    self.assertEqual(mine.int32_val, rank)
                    kinds["send" if node.type == chakra.SEND else "recv"] += 1
        # Per rank 3 AllReduces and 4 even exchanges; the fifth exchange is uneven.
        self.assertEqual(kinds, {0: 8 * 3, 6: 8 * 4, "send": 56, "recv": 56})
        with open(self.path("out/comm_group.json"), encoding="utf-8") as handle:
            self.assertEqual(json.load(handle), {"1": list(range(8))})


class RoundTrip(ConvertTest):
    def every_collective(self):
        def step(kind, size, **more):
            return {"comms": kind, "in_msg_size": size, "dtype": "byte", **more}
        steps = [step("all_reduce", 70), step("reduce", 70, root=1), step("broadcast", 70, root=1),
                 step("all_gather", 70, out_msg_size=210), step("gather", 70, root=2),
                 step("scatter", 210, out_msg_size=70, root=0), step("reduce_scatter", 210, out_msg_size=70),
                 step("all_to_all", 210), {"comms": "barrier"}]
        return [steps] * 3

    def test_chakra_holds_collectives_messages_and_computation(self):
        groups = {"5": [1, 0]}
        ranks = [[chakra.collective(9, "all_gather", 4000, [4], "5"), chakra.compute(4, 10),
                  chakra.send(6, 0, 1, 77, [9], 3), chakra.send(7, 0, 1, 78, [6], 3),
                  chakra.collective(12, "all_reduce", 8001, [9])],
                 [chakra.collective(2, "all_gather", 4000, [], "5"), chakra.recv(3, 0, 1, 77, [2], 3),
                  chakra.recv(5, 0, 1, 78, [3], 3), chakra.collective(12, "all_reduce", 8001, [2])]]
        for rank, nodes in enumerate(ranks):
            self.write(f"in/x.{rank}.et", chakra.METADATA + b"".join(nodes))
        self.write("in/comm_group.json", chakra.groups(groups))
        self.convert("in", "one/y.et")
        self.same(self.inspect("in"), self.inspect("one"), "groups")
        self.assertIn({"members": [1, 0], "name": "5"}, self.inspect("one")["groups"], "a number stays")
        self.convert("one", "two/y.et")
        for name in sorted(os.listdir(self.path("one"))):
            with open(self.path("one", name), "rb") as a, open(self.path("two", name), "rb") as b:
                self.assertEqual(a.read(), b.read(), "written again it is the same file")

    def test_every_collective_survives_both_ways(self):
        self.write_trace(self.every_collective())
        before = self.inspect("trace")
        self.assertEqual(len(before["collectives"]), 9)
        self.run_ok("convert", "trace", "et", "--format", "chakra")
        self.same(before, self.inspect("et"), "groups")
        self.run_ok("convert", "et", "back", "--format", "param-basic")
        self.same(before, self.inspect("back"), "groups")

    def test_names_that_are_lost_are_counted(self):
        for rank in (0, 1):
            self.write(f"in/x.{rank}.et", chakra.METADATA + chakra.collective(1, "all_reduce", 8, name="bucket 3", group="tp")
                       + chakra.collective(2, "all_reduce", 8, [1]))
        self.write("in/comm_group.json", chakra.groups({"tp": [0, 1]}))
        # "n2" is a name, too; both ranks have one of each.
        self.convert("in", "p/x.json", "names of groups", "names of operations")
        self.convert("in", "e/x.et", "names of groups")
        said = self.convert("in", "x.txt", "collectives, written", "dependencies", "names of operations").err
        self.assertIn("names of operations: 4", said)

    def test_param_basic_says_that_it_holds_no_computation(self):
        self.write("in/x.0.et", chakra.METADATA + chakra.compute(1, 5) + chakra.compute(2, 5, [1]))
        self.convert("in", "out.json", "computations")
        self.assertEqual(self.inspect("rank-0.json")["per_rank"][0]["computes"], 0)

    def test_flow_lists(self):
        self.write("f.txt", "3\n0 1 3 100 5368709120 2.000000000001\n1 2 3 100 7 2.5\n2 0 3 100 1 3\n")
        before = self.inspect("f.txt")
        for target in ("g.txt", "g.cm"):
            self.convert("f.txt", target, *(["sizes of 2 GiB and more in htsim"] if target == "g.cm" else []))
            self.same(before, self.inspect(target, **({"start_unit": "ps"} if target == "g.cm" else {})), "options")
        self.convert("g.cm", "h.txt", start_unit="ps")
        with open(self.path("g.txt"), encoding="utf-8") as a, open(self.path("h.txt"), encoding="utf-8") as b:
            self.assertEqual(a.read(), b.read(), "to the picosecond")
        self.convert("f.txt", "et/x.et", "digits of starts below 1 us")
        self.assertEqual(self.wire(self.inspect("et")), self.wire(before))
        # An option of the reader, and what it did.
        said = self.convert("f.txt", "half.txt", scale_bytes="0.5", max_ops="2")
        self.assertIn("options: max_ops=2 scale_bytes=0.5", said.err)
        self.assertEqual(self.inspect("half.txt")["facts"]["bytes"], 5368709120 // 2 + 4)

    def test_triggers_are_dependencies(self):
        self.write("m.cm", "Nodes 4\nConnections 4\nTriggers 2\n0->1 id 1 start 0 size 100 send_done_trigger 1\n"
                           "1->2 id 2 trigger 1 size 200 send_done_trigger 2\n2->3 id 3 trigger 1 size 300 "
                           "send_done_trigger 2\n3->0 id 4 trigger 2 size 400\ntrigger id 1 oneshot\n"
                           "trigger id 2 barrier count 2\n")
        self.convert("m.cm", "n.cm")
        self.convert("n.cm", "o.cm")
        with open(self.path("n.cm"), encoding="utf-8") as a, open(self.path("o.cm"), encoding="utf-8") as b:
            text = a.read()
            self.assertEqual(text, b.read())
        self.assertIn("barrier count 2", text)
        self.convert("m.cm", "n.txt", "dependencies")
        self.assertEqual(self.wire(self.inspect("n.txt")), self.wire(self.inspect("m.cm")))

    def test_collectives_in_flow_lists(self):
        self.write_trace(basic_trace(4))
        before = self.inspect("trace")
        for target in ("t.txt", "t.cm"):
            # Joins of waits, one barrier.
            dropped = ["barriers", "collectives, written as their messages"]
            self.convert("trace", target, *dropped, *(["dependencies"] if target == "t.txt" else []))
            self.assertEqual(self.wire(self.inspect(target)), self.wire(before))

    def test_drawn_flows(self):
        self.write("sizes.txt", "0 0\n1000 50\n100000 100\n")
        options = {"load": "0.2", "duration": "1ms", "servers": "8", "seed": "7"}
        self.convert("sizes.txt", "a.txt", **options)
        self.convert("sizes.txt", "b.txt", **options)
        self.convert("sizes.txt", "c.txt", **{**options, "seed": "8"})
        texts = []
        for name in "abc":
            with open(self.path(name + ".txt"), encoding="utf-8") as handle:
                texts.append(handle.read())
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        shown = self.inspect("a.txt")
        # 8 servers of 100 Gb/s at 0.2 for 1 ms are 20 MB; one seed is within a third of it.
        self.assertTrue(13e6 < shown["facts"]["bytes"] < 27e6, shown["facts"])
        self.assertEqual(self.inspect("sizes.txt", **options)["wire"], shown["wire"])
        # The same arrivals as a scenario's.
        self.scenario(servers="{count: 8}", stop="1s",
                      workload="{flows: {cdf: sizes.txt, load: 0.2, duration: 1ms}}")
        self.run_ok("convert", "s.yaml", "d.txt")
        self.convert("sizes.txt", "e.txt", **{**options, "seed": "1"})
        with open(self.path("d.txt"), encoding="utf-8") as a, open(self.path("e.txt"), encoding="utf-8") as b:
            self.assertEqual(a.read(), b.read())

    def test_task_graphs(self):
        source = os.path.join(OWN, "reference-small.fbuf")
        self.run_ok("convert", source, "et", "--format", "chakra")
        self.run_ok("convert", source, "t.cm")
        chakra_side, flows = self.inspect("et"), self.inspect("t.cm")
        self.assertGreater(chakra_side["wire"]["bytes"], 0)
        self.assertEqual(chakra_side["wire"]["bytes"], flows["wire"]["bytes"])

    def test_plans_and_scenarios(self):
        self.scenario(servers="{count: 4, nics: 2}", workload="{model: resnet50}", fabrics="[topoopt]",
                      strategy="{search: mcmc, budget: 20}")
        self.run_ok("plan", "s.yaml", "-o", "plan.yaml", "--quiet", timeout=300)
        self.run_ok("convert", "plan.yaml", "plan/p.et")
        shown = self.inspect("plan")
        self.assertEqual((shown["format"], shown["ranks"]), ("chakra", 4))
        self.assertGreater(shown["wire"]["bytes"], 0)
        self.assertGreater(shown["per_rank"][0]["compute_time_ps"], 0)
        # A plan of ours as a trace, run on the same fabric, moves what the plan moves.
        self.run_ok("run", "plan.yaml", "-o", "a", "--quiet")
        self.scenario("t.yaml", servers="{count: 4, nics: 2}", workload="{trace: plan}", stop="1000s")
        self.run_ok("run", "t.yaml", "-o", "b", "--quiet")
        moved = [fixture.summary(self.path(name))["runs"][0]["demand_bytes"] for name in "ab"]
        self.assertEqual(moved[0], moved[1])
        self.scenario("m.yaml", servers="{count: 4, nics: 2}", workload="{model: resnet50}", strategy="data-parallel")
        self.run_ok("convert", "m.yaml", "model/m.et")
        self.assertEqual({c["kind"] for c in self.inspect("model")["collectives"]}, {"all_reduce"})


class Refused(ConvertTest):
    def test_what_cannot_be_converted(self):
        self.write_trace(basic_trace(2))
        self.write("m.json", '{"matrix": {"inner": [[1, 2], [3, 4]]}}')
        self.write("top.txt", "3 1 2\n0\n1 0 1Gbps 1us 0\n2 0 1Gbps 1us 0\n")
        self.write("sizes.txt", "0 0\n1000 100\n")
        for source, target, parts in [("trace", "x.zip", ["x.zip", "no known suffix", "chakra (.et)"]),
                                      ("none", "x.et", ["none", "no such file"]),
                                      ("m.json", "x.et", ["m.json", "a traffic matrix"]),
                                      ("top.txt", "x.et", ["top.txt", "a topology"]),
                                      ("sizes.txt", "x.txt", ["sizes.txt", "load", "duration"])]:
            self.refused(["convert", source, target], *parts)
        self.refused(["convert", "trace", "x", "--format", "chakrra"], "chakrra", "expected chakra")
        self.refused(["convert", "trace", "x.et", "--option=ranks"], "KEY=VALUE")
        self.refused(["convert", "trace", "x.et", "--option=timming=kept"], "timming", "timing")
        self.write("file", "")
        self.refused(["convert", "trace", "file/x.et"], "file")
        self.scenario()
        self.refused(["convert", "s.yaml", "x.et", "--option=max_ops=1"], "s.yaml", "max_ops")
        for name in ("x.et", "x.0.et", "x.txt", "x"):
            self.assertFalse(os.path.exists(self.path(name)))


if __name__ == "__main__":
    fixture.ready()
    unittest.main(verbosity=1)
