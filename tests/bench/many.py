"""Policy of very many leases: the files of a policy root, and the signed documents that become of them."""
import base64
import hashlib
import json
import struct
import time

from authority import b64, payload_of

RULES = ["tcp://93.184.215.14:7000", "tcp://93.184.216.50:7000", "tcp://slow.test:7000", "https://held.test:7000"]
LIMITS = {"connections": 20000, "connects_per_s": 100000, "names": 500, "lookups_per_s": 10000}


def lease_name(number):
    return f"ls_{number:06}"


def token(lease):
    return "v1." + b64(hashlib.sha256(b"bench " + lease.encode()).digest())


def digest(lease):
    return hashlib.sha256(token(lease).encode()).hexdigest()


def preset(number, rules):
    return "".join(f"allow https://h{k}.p{number}.test\n" for k in range(rules))


def lease_text(lease, presets):
    """A lease as a .policy file."""
    return (f"lease {lease}\ntenant bench run r class code\nguest require token\nguest token sha256:{digest(lease)}\nmode allowlist\n"
            + "".join(f"use {name}\n" for name in presets) + "".join(f"allow {rule}\n" for rule in RULES)
            + "limit " + " ".join(f"{key} {value}" for key, value in LIMITS.items()) + "\n")


def lease_json(lease, **members):
    """A lease as a payload; local ones may leave out what a signed one must say."""
    return {"typ": "egress.lease/1", "lease": lease, "state": "active", "guest": {"require": ["token"], "tokens": [{"id": "t1", "sha256": digest(lease)}]},
            "network": {"mode": "allowlist", "rules": [{"id": f"r{i}", "allow": rule} for i, rule in enumerate(RULES)]}, "limits": LIMITS, **members}


def packed(value):
    return json.dumps(value, separators=(",", ":")).encode()


def fill(root, leases, presets=200, rules=100, uses=2, as_json=0):
    """Write that many leases that share presets of that many rules; the first `as_json` are payloads without presets."""
    names = [f"p{i:03}" for i in range(presets)]
    for i, name in enumerate(names):
        (root / "presets" / f"{name}.policy").write_text(preset(i, rules))
    for i in range(leases):
        lease = lease_name(i)
        if i < as_json:
            (root / "leases" / f"{lease}.json").write_bytes(packed(lease_json(lease)))
        else:
            mine = [names[(i * uses + k) % presets] for k in range(uses)] if presets else []
            (root / "leases" / f"{lease}.policy").write_text(lease_text(lease, mine))


def group_of(cell):
    return hashlib.sha256(cell.encode()).digest()[0] % 32


class Cell:
    """The documents of one cell, and what changes them: each change has its lease, its manifest and a beat, signed before any clock runs."""

    def __init__(self, authority, documents, cell=None):
        """Of a cell that the authority has signed; or of an empty one, when `documents` has nothing but the keyset."""
        self.authority, self.cell = authority, cell or authority.cell
        self.payloads, self.entries = {}, {}
        for key, envelope in documents.items():
            if key.startswith("l/"):
                self.keep(key[2:], payload_of(envelope))
        keyset = json.loads(payload_of(documents["keyset"]))
        self.keyset, self.epoch, self.beat_seq = keyset["ver"], keyset["epoch_min"], int(time.time() * 1000)
        self.manifest = payload_of(documents.get("m", b"\n"))
        self.seq = json.loads(self.manifest)["seq"] if self.manifest else self.beat_seq

    def add(self, lease):
        """A lease that was not there before, signed."""
        doc = lease_json(lease, epoch=self.epoch, cell=self.cell, rev=self.seq, nbf_ms=self.seq - 60000, exp_ms=self.seq + 86400000)
        doc["network"].update(claimed_scope="declared", enforcement="enforce", rulesets=[])
        self.keep(lease, packed(doc))
        return self.authority.envelope("egress.lease/1", self.payloads[lease], "lease-1")

    def keep(self, lease, payload):
        self.payloads[lease] = payload
        self.entries[lease] = struct.pack(">Q", json.loads(payload)["rev"]) + hashlib.sha256(payload).digest()

    def lease(self, lease, edit):
        """The next revision of a lease, signed."""
        doc = json.loads(self.payloads[lease])
        doc["rev"] += 1
        edit(doc)
        self.keep(lease, packed(doc))
        return self.authority.envelope("egress.lease/1", self.payloads[lease], "lease-1")

    def without(self, lease):
        del self.payloads[lease], self.entries[lease]

    def named(self):
        """The manifest of what is held now, signed."""
        root = hashlib.sha256(b"".join(name.encode() + b"\0" + self.entries[name] for name in sorted(self.entries))).digest()
        self.seq += 1
        self.manifest = packed({"typ": "egress.manifest/1", "epoch": self.epoch, "cell": self.cell, "seq": self.seq,
                                "iat_ms": int(time.time() * 1000), "leases": len(self.entries), "root": b64(root)})
        return self.authority.envelope("egress.manifest/1", self.manifest, "manifest-1")

    def said(self):
        """What a beat says of this cell."""
        return [self.seq, b64(hashlib.sha256(self.manifest).digest())]

    def beat(self):
        self.beat_seq += 1
        return beat(self.authority, group_of(self.cell), self.beat_seq, {self.cell: self.said()}, self.epoch, self.keyset)


def beat(authority, group, seq, cells, epoch, keyset):
    now = int(time.time() * 1000)
    return authority.envelope("egress.beat/1", packed({
        "typ": "egress.beat/1", "epoch": epoch, "group": group, "seq": seq, "iat_ms": now, "exp_ms": now + 30000, "keyset": keyset, "cells": cells}), "beat-1")
