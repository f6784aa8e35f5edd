#!/usr/bin/env python3
"""
Wherever our reader of HTTP/1 says that a message is in order, Node's and h11's must see the same method, target, Host, status, Location,
body and next message, or refuse it themselves. test_http1.py [COUNT [SEED]]: COUNT requests and as many responses.
"""
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

from generate import frames

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("EGRESS_BUILDDIR", "."))
READERS = {
    "ours": [BUILD / "tests/differential/read_http1"],
    "node": ["node", "--no-deprecation", HERE / "read_node.js"],
    "h11": ["/usr/bin/python3", HERE / "read_h11.py"],
}
COMPARED = ("method", "target", "host", "status", "location")
CHUNKED = 2


def read_all(name, stream):
    done = subprocess.run([str(w) for w in READERS[name]], input=stream, stdout=subprocess.PIPE, timeout=500)
    assert done.returncode == 0, f"{name} ended with {done.returncode}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def data_of(message):
    """The body without its chunk lines; ours is as it was on the wire."""
    raw, data = bytes.fromhex(message["body"]), b""
    if message.get("framing") != CHUNKED:
        return raw
    while True:
        line, raw = raw.split(b"\r\n", 1)
        size = int(line.split(b";")[0], 16)
        if size == 0:
            return data
        data, raw = data + raw[:size], raw[size + 2:]


def differs(ours, theirs):
    """What the two readings of one message do not share; None: nothing."""
    for key in COMPARED:
        if ours.get(key) != theirs.get(key):
            return key
    if not ours["whole"] or theirs.get("upgrade"):
        return None  # the end is not there, or belongs to another protocol
    if not theirs["whole"]:
        return "end"
    return None if data_of(ours) == bytes.fromhex(theirs["body"]) else "body"


def compare(ours, theirs):
    """The first thing that two readers see differently, where ours sees a message in order; and whether they refuse it."""
    for i, message in enumerate(ours["messages"]):
        if i >= len(theirs["messages"]):
            return (None, True) if theirs["bad"] or closed(theirs) else (f"message {i} is not there", False)
        what = differs(message, theirs["messages"][i])
        if what == "end" and theirs["bad"]:
            return None, True
        if what is not None:
            return f"{what} of message {i}", False
        if theirs["messages"][i].get("upgrade"):
            return None, False
    more = len(theirs["messages"]) > len(ours["messages"]) and not ours["bad"] and (not ours["messages"] or ours["messages"][-1]["whole"])
    last_asks = ours["messages"] and ours["messages"][-1].get("upgrade")
    return ("a message more", False) if more and not last_asks else (None, False)


def closed(theirs):
    """Did it stop because the last message ends the connection?"""
    return bool(theirs["messages"]) and theirs["messages"][-1]["whole"] or not theirs["messages"]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    inputs = frames(seed, count)
    stream = b"".join(kind + asked + struct.pack(">I", len(data)) + data for kind, asked, data in inputs)
    read = {name: read_all(name, stream) for name in READERS}
    faults, taken, refused = [], 0, dict.fromkeys(READERS, 0)
    for i, (kind, asked, data) in enumerate(inputs):
        ours = read["ours"][i]
        taken += bool(ours["messages"]) and ours["messages"][0]["whole"]
        for name in ("node", "h11"):
            what, refuses = compare(ours, read[name][i])
            refused[name] += refuses
            if what is not None:
                faults.append(f"{name}: {what}\n  {data!r} (asked {asked!r})\n  ours: {ours}\n  {name}: {read[name][i]}")
    print("\n".join(faults[:10]))
    print(f"{len(inputs)} messages, {taken} in order; of those node refuses {refused['node']}, h11 {refused['h11']}; {len(faults)} seen differently")
    # A comparison of refusals alone would prove nothing.
    assert taken > len(inputs) // 5 and max(refused.values()) < taken // 2, "too little was compared"
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
