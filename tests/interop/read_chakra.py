#!/usr/bin/env python3
"""read_chakra.py PREFIX ANSWER: reads PREFIX.RANK.et and replays all ranks.

ANSWER is what `simulate --json` printed. The schema is that of MLCommons Chakra (schema/protobuf/et_def.proto), by its
numbers of fields; files are framed as its protolib.py has it, a varint before each message. The replay is that of
its feeder and of ASTRA-sim: a node can begin when its data_deps have ended; a message needs both sides, with the same
source, destination and tag; a collective all members of its process group, whose collectives come in the order in
which they become free. Here each lasts as long as its node says.
"""

import collections
import glob
import json
import re
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

PACKAGE = "ChakraProtoMsg"
SCALARS = ["double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64",
           "sfixed32", "sfixed64", "bool", "string", "bytes"]
NODE_TYPES = ["INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL"]
COLLECTIVES = ["ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST", "ALL_TO_ALL", "REDUCE_SCATTER",
               "REDUCE_SCATTER_BLOCK", "BARRIER"]


def add_field(message, name, number, kind, repeated=False, of=None, oneof=None):
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    field.type = getattr(descriptor_pb2.FieldDescriptorProto, "TYPE_" + kind.upper())
    if of:
        field.type_name = f".{PACKAGE}.{of}"
    if oneof is not None:
        field.oneof_index = oneof


def schema():
    """Classes of the messages."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package=PACKAGE, syntax="proto3")
    attribute = file.message_type.add(name="AttributeProto")
    add_field(attribute, "name", 1, "string")
    add_field(attribute, "doc_string", 2, "string")
    attribute.oneof_decl.add(name="value")
    for place, kind in enumerate(SCALARS):
        values = kind.capitalize() + "List"
        add_field(file.message_type.add(name=values), "values", 1, kind, repeated=True)
        add_field(attribute, kind + "_val", 3 + 2 * place, kind, oneof=0)
        add_field(attribute, kind + "_list", 4 + 2 * place, "message", of=values, oneof=0)
    metadata = file.message_type.add(name="GlobalMetadata")
    add_field(metadata, "version", 1, "string")
    add_field(metadata, "attr", 2, "message", repeated=True, of="AttributeProto")
    types = file.enum_type.add(name="NodeType")
    for number, name in enumerate(NODE_TYPES):
        types.value.add(name=name + "_NODE", number=number)
    values = file.message_type.add(name="IOInfo")
    for number, name in enumerate(["values", "shapes", "types"], 1):
        add_field(values, name, number, "string")
    node = file.message_type.add(name="Node")
    add_field(node, "id", 1, "uint64")
    add_field(node, "name", 2, "string")
    add_field(node, "type", 3, "enum", of="NodeType")
    add_field(node, "ctrl_deps", 4, "uint64", repeated=True)
    add_field(node, "data_deps", 5, "uint64", repeated=True)
    add_field(node, "start_time_micros", 6, "uint64")
    add_field(node, "duration_micros", 7, "uint64")
    add_field(node, "inputs", 8, "message", of="IOInfo")
    add_field(node, "outputs", 9, "message", of="IOInfo")
    add_field(node, "attr", 10, "message", repeated=True, of="AttributeProto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
            for name in ("GlobalMetadata", "Node")]


def framed(data):
    """The messages of a file, as bytes."""
    place = 0
    while place < len(data):
        size = shift = 0
        while True:
            byte = data[place]
            place += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        if place + size > len(data):
            raise ValueError("the last message is cut off")
        yield data[place:place + size]
        place += size


def has_unknown_fields(message):
    if len(UnknownFieldSet(message)):
        return True
    return any(has_unknown_fields(each)
               for field, value in message.ListFields() if field.message_type
               for each in (value if isinstance(value, collections.abc.Iterable) else [value]))


# The fields that Chakra's feeder (et_feeder_node.cpp) reads of an attribute.
READ_AS = {"is_cpu_op": "bool_val", "num_ops": "int64_val", "tensor_size": "uint64_val", "comm_type": "int64_val",
           "comm_size": "int64_val", "comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val",
           "pg_name": "string_val"}


class Node:
    def __init__(self, message):
        self.id, self.name = message.id, message.name
        self.type = NODE_TYPES[message.type]
        self.after = list(message.data_deps) + list(message.ctrl_deps)
        self.begin, self.lasts = message.start_time_micros, message.duration_micros
        self.values = message.inputs.values
        self.attributes = {}
        for attribute in message.attr:
            field = READ_AS[attribute.name]
            assert attribute.WhichOneof("value") == field, f"{attribute.name} is no {field}"
            self.attributes[attribute.name] = getattr(attribute, field)


def read(prefix):
    metadata_class, node_class = schema()
    ranks = {}
    for path in glob.glob(glob.escape(prefix) + ".*.et"):
        rank = int(re.fullmatch(r".*\.(\d+)\.et", path)[1])
        with open(path, "rb") as file:
            messages = framed(file.read())
            metadata = metadata_class.FromString(next(messages))
            assert metadata.version == "0.0.4", metadata.version
            nodes = []
            for data in messages:
                message = node_class.FromString(data)
                assert not has_unknown_fields(message), f"{path}: node {message.id} has unknown fields"
                nodes.append(Node(message))
        ranks[rank] = nodes
    assert sorted(ranks) == list(range(len(ranks))), "a file for every rank"
    return ranks


def groups_of(nodes, ranks):
    """As ASTRA-sim reads them: what is between the first and the last two characters is JSON."""
    groups = {}
    for node in nodes:
        if node.type == "METADATA":
            for group in json.loads(node.values[2:-2]):
                groups[group["pg_name"]] = group["ranks"] or list(range(ranks))
    return groups


def replay(ranks):
    """When the last node of all ranks ends, in microseconds."""
    groups = {rank: groups_of(nodes, len(ranks)) for rank, nodes in ranks.items()}
    waits, dependents, ready = {}, collections.defaultdict(list), collections.deque()
    free, count = {}, 0
    for rank, nodes in ranks.items():
        known = set()
        for node in nodes:
            assert set(node.after) <= known, f"rank {rank}: {node.name} depends on a node that does not come before"
            known.add(node.id)
            waits[rank, node.id] = len(node.after)
            free[rank, node.id] = 0
            for other in node.after:
                dependents[rank, other].append(node)
            if not node.after:
                ready.append((rank, node))
        assert len(known) == len(nodes), f"rank {rank}: ids are not unique"
        count += len(nodes)
    done, last = 0, 0
    halves, meetings = {}, collections.defaultdict(lambda: collections.defaultdict(collections.deque))

    def end(rank, node, time):
        nonlocal done, last
        done, last = done + 1, max(last, time)
        for other in dependents[rank, node.id]:
            key = rank, other.id
            free[key] = max(free[key], time)
            waits[key] -= 1
            if not waits[key]:
                ready.append((rank, other))

    def end_all(members):
        begin = max(free[rank, node.id] for rank, node in members)
        for rank, node in members:
            end(rank, node, begin + node.lasts)

    while ready:
        rank, node = ready.popleft()
        attributes = node.attributes
        if node.type in ("COMM_SEND", "COMM_RECV"):
            key = attributes["comm_src"], attributes["comm_dst"], attributes["comm_tag"], attributes["comm_size"]
            assert key[0 if node.type == "COMM_SEND" else 1] == rank
            if key in halves and halves[key][1].type != node.type:
                end_all([halves.pop(key), (rank, node)])
            else:
                assert key not in halves, f"two messages are alike: {key}"
                halves[key] = rank, node
        elif node.type == "COMM_COLL":
            members = groups[rank][attributes["pg_name"]]
            waiting = meetings[attributes["pg_name"]]
            waiting[rank].append((rank, node))
            if all(waiting[member] for member in members):
                met = [waiting[member].popleft() for member in members]
                assert len({each.attributes["comm_type"] for _, each in met}) == 1, "members do different collectives"
                end_all(met)
        else:
            end(rank, node, free[rank, node.id] + node.lasts)
    assert done == count, f"{count - done} of {count} nodes never began"
    return last


def main():
    prefix, answer = sys.argv[1:]
    ranks = read(prefix)
    with open(answer) as file:
        step = json.load(file)["step_time_s"] * 1e6
    kinds, collectives, flops = collections.Counter(), collections.Counter(), 0
    for nodes in ranks.values():
        for node in nodes:
            kinds[node.type] += 1
            flops += node.attributes.get("num_ops", 0)
            if node.type == "COMM_COLL":
                collectives[COLLECTIVES[node.attributes["comm_type"]]] += node.attributes["comm_size"]
    end = replay(ranks)
    print(f"{prefix.rsplit('/', 1)[-1]}: {len(ranks)} ranks, " +
          ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    print("    " + ", ".join(f"{kind} {size / 2**20:.0f} MiB" for kind, size in sorted(collectives.items())) +
          f"; {flops / 1e12:.1f} TFLOP; replayed {end / 1e3:.3f} ms, predicted {step / 1e3:.3f} ms")
    # Times of nodes are rounded to microseconds, and launches by the host are not nodes, so replays
    # are shorter than steps.
    assert end <= step * 1.01 + 2, "the replay takes longer than the step"
    assert end >= step * 0.7, "the replay is far shorter than the step"


if __name__ == "__main__":
    main()
