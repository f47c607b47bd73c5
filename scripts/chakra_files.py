# SPDX-License-Identifier: GPL-2.0-only
"""Chakra execution traces byte by byte, from the published schema alone: for generators and for test inputs that share
no code with the program."""
import json


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append((value & 0x7F) | (0x80 if value > 0x7F else 0))
        value >>= 7
        if not value:
            return bytes(out)


def field(number, value):
    """A protobuf field: a number, or bytes or text behind their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(message):
    return varint(len(message)) + message


METADATA = record(field(1, "0.0.4"))
COMP, SEND, RECV, COLL = 4, 5, 6, 7
KINDS = {"all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5, "all_to_all": 6,
         "reduce_scatter": 7, "barrier": 9}


def node(number, kind, deps=(), start=0, duration=0, name=None, **attributes):
    """One record. Attributes: numbers as int64 (ranks and tags as int32), flags as bool, texts as string."""
    message = field(1, number) + field(2, name or f"n{number}") + field(3, kind)
    if deps:
        message += field(5, b"".join(varint(dep) for dep in deps))
    if start:
        message += field(6, start)
    if duration:
        message += field(7, duration)
    attributes.setdefault("is_cpu_op", False)
    for key, value in attributes.items():
        if isinstance(value, bool):
            encoded = field(27, int(value))
        elif isinstance(value, str):
            encoded = field(29, value)
        else:
            encoded = field(7 if key in ("comm_src", "comm_dst", "comm_tag", "root") else 9, value)
        message += field(10, field(1, key) + encoded)
    return record(message)


def compute(number, micros, deps=(), **more):
    return node(number, COMP, deps, duration=micros, **more)


def collective(number, kind, size, deps=(), group="", **more):
    named = {"pg_name": group} if group else {}
    return node(number, COLL, deps, comm_type=KINDS[kind], comm_size=size, **named, **more)


def send(number, src, dst, size, deps=(), tag=0, **more):
    return node(number, SEND, deps, comm_src=src, comm_dst=dst, comm_tag=tag, comm_size=size, **more)


def recv(number, src, dst, size, deps=(), tag=0, **more):
    return node(number, RECV, deps, comm_src=src, comm_dst=dst, comm_tag=tag, comm_size=size, **more)


def groups(lists):
    """Content of comm_group.json: name -> ranks."""
    return json.dumps(lists)
