#!/usr/bin/python3
"""Seeds of fuzz targets, written as text: seeds.py [--write]

TARGET.seeds tells each seed in lines; `seed NAME ID…` begins one, the IDs being the given cases that it plays. Lines with `=` say what must happen
then, word for word and in order; `!` is a beginning of lines that must not be among them. Without --write, checks that fuzz/corpus/TARGET/NAME holds
just these bytes, that the target says so of them, and that every id in `cases` has a seed or a target's file and the tests that stand behind it.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FUZZ = HERE.parent
BUILD = Path(os.environ.get("EGRESS_BUILDDIR", ".")).resolve()


def table(source, name):
    """The strings of a C table, first of each row."""
    text = re.search(rf"{name}\[\] = \{{(.*?)\n?\}};", (FUZZ / source).read_text(), re.S)[1]
    rows = re.findall(r'\{ ("[^"]*"|\w+)|("[^"]*"|\b\d+\b)', text)
    return [(a or b).strip('"') for a, b in rows]


def number(words, key, otherwise=0):
    """What stands behind `key` among words; both are taken out."""
    if key not in words:
        return otherwise
    at = words.index(key)
    value = int(words[at + 1], 0)
    del words[at:at + 2]
    return value


class Session:
    """Steps of fuzz_session.c."""
    SOURCE = "fuzz_session.c"

    def __init__(self):
        self.names, self.ports = table(self.SOURCE, "names"), [int(p) for p in table(self.SOURCE, "ports")]
        self.places, self.places6 = table(self.SOURCE, "places"), table(self.SOURCE, "places6")

    def begin(self):
        return b""

    def line(self, word, rest, first):
        return getattr(self, "do_" + word)(rest, first)

    def do_policy(self, rest, first):
        return bytes([int(rest[0])]) if first else bytes([9, int(rest[0])])

    def do_guest(self, rest, _):
        return bytes([0, self.names.index(rest[0]) | self.ports.index(int(rest[1])) << 3])

    def do_asks(self, rest, _):
        """A guest whose handshake is given whole: any name."""
        name = rest[0].encode("ascii")
        raw = b"\5\1\0\5\1\0\3" + bytes([len(name)]) + name + int(rest[1]).to_bytes(2, "big")
        return bytes([0, 0x80, len(raw)]) + raw

    def do_answer(self, rest, _):
        name, kind, act = rest[:3]
        acts = ["answer", "nxdomain", "servfail", "silent", "stranger", "closed"]
        rest = rest[3:]
        after, ttl = number(rest, "after"), number(rest, "ttl", 60)
        which = []
        for place in rest:
            own = self.places[:8] if kind == "A" else self.places[8:]
            which.append(own.index(place) if place in own else 0x40 | self.places6.index(place))
        return bytes([3, self.names.index(name) | (8 if kind == "AAAA" else 0) | acts.index(act) << 4, len(which), after // 4, ttl, *which])

    def do_origin(self, rest, _):
        faults = ["connects", "refuses", "unreachable", "no-descriptor"]
        place, port, fault = rest[:3]
        after = 63 if "mute" in rest else number(rest, "after") // 20
        return bytes([5, self.places.index(place) | self.ports.index(int(port)) << 4, faults.index(fault) | after << 2])

    def do_say(self, rest, _):
        if rest[1] in ("http", "other"):
            return bytes([2, int(rest[0]), ["http", "other"].index(rest[1])])
        raw = bytes.fromhex("".join(rest[1:]))
        return bytes([2, int(rest[0]), 2, len(raw)]) + raw

    def do_speak(self, rest, _):
        raw = bytes.fromhex("".join(rest[1:]))
        return bytes([6, int(rest[0]), len(raw)]) + raw

    def do_gate(self, rest, _):
        return bytes([7, sum({"generation": 1, "revoked": 2, "order": 4, "flush": 8}[word] for word in rest)])

    def do_leave(self, rest, _):
        return bytes([8, int(rest[0])])

    def do_wait(self, rest, _):
        ms, steps = int(rest[0]), b""
        while ms > 255:
            step = min(ms // 100, 255)
            steps += bytes([11, step])
            ms -= step * 100
        return steps + (bytes([10, ms]) if ms else b"")


class Resolver:
    """Steps of fuzz_resolver.c. In the end nothing more is asked: what a callback reads then is `7`, an act without effect."""
    SOURCE = "fuzz_resolver.c"
    ACTS = ("answer nxdomain no_data servfail refused formerr truncated wrong_id wrong_question lower_case reflect empty short garbage "
            "records chain raw_id raw end").split()

    def __init__(self):
        self.names = table(self.SOURCE, "names")

    def begin(self):
        return bytes([5, 0])

    def line(self, word, rest, first):
        return getattr(self, "do_" + word)(rest, first)

    def do_servers(self, rest, first):
        return (b"" if first else b"\5") + bytes([int(rest[0], 0)])

    def do_faults(self, rest, _):
        return bytes([6, int(rest[0], 0)])

    def do_server(self, rest, _):
        """server N ACT …, ACT …: how this one replies to each query."""
        replies = [part.split() for part in " ".join(rest[1:]).split(",") if part.strip()]
        return bytes([2, int(rest[0]), len(replies)]) + b"".join(self.reply(words) for words in replies)

    def reply(self, words):
        act = self.ACTS.index(words[0])
        head = bytes([act, number(words, "chunk"), number(words, "step"), number(words, "after") // 8, number(words, "lie")])
        body = b"".join(self.link(w) for w in words[1:]) if words[0] == "chain" else bytes.fromhex("".join(words[1:]))
        return head + (bytes([len(body)]) + body if 14 <= act < 18 else b"")

    def link(self, text):
        """OWNER:TYPE:TARGET, a target being a name or the last octet of an address; @ is the asked name."""
        owner, kind, target = text.split(":")
        which = {"A": 0, "AAAA": 1, "CNAME": 2}[kind]
        return bytes([which << 6 | self.name(owner), 0, self.name(target) if kind == "CNAME" else int(target)])

    def name(self, text):
        return 7 if text == "@" else self.names.index(text)

    def do_ask(self, rest, _):
        return bytes([0, self.names.index(rest[0]) | (8 if rest[1] == "AAAA" else 0) | number(rest, "owner") << 5])

    def do_cancel(self, rest, _):
        return bytes([4, int(rest[0])])

    def do_wait(self, rest, _):
        """wait MS DONE: so many lookups end in this time, and each reads two bytes."""
        return bytes([3, int(rest[0]) // 10]) + bytes([0, 7]) * (int(rest[1]) if len(rest) > 1 else 0)


class Answer:
    """fuzz_dns_answer.c: a whole message to a question, or sections behind an echo of it."""
    SOURCE = "fuzz_dns_answer.c"

    def __init__(self):
        self.names = table(self.SOURCE, "names")
        self.asked = ("", "")

    def begin(self):
        return b""

    def line(self, word, rest, first):
        return getattr(self, "do_" + word)(rest, first)

    def do_message(self, rest, _):
        return bytes([self.names.index(rest[0]) | (4 if rest[1] == "AAAA" else 0) | 8]) + bytes.fromhex("".join(rest[2:]))

    def do_sections(self, rest, _):
        """sections NAME TYPE COUNTS RECORD…: three counts; a record is OWNER:TYPE:DATA."""
        counts = [int(c) for c in rest[2].split("/")]
        flags = bytes([0x80, 0x80, 0, 0]) + b"".join(c.to_bytes(2, "big") for c in counts)
        return bytes([self.names.index(rest[0]) | (4 if rest[1] == "AAAA" else 0)]) + flags + b"".join(record(r) for r in rest[3:])


def wire(name):
    return b"\xc0\x0c" if name == "@" else b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


def record(text):
    owner, kind, data = text.split(":", 2)
    kinds = {"A": 1, "CNAME": 5, "AAAA": 28, "HTTPS": 65}
    data = wire(data) if kind == "CNAME" else bytes.fromhex(data)
    return wire(owner) + kinds[kind].to_bytes(2, "big") + b"\0\1" + b"\0\0\0\x3c" + len(data).to_bytes(2, "big") + data


TARGETS = {"session": Session, "resolver": Resolver, "dns_answer": Answer}


class Seed:
    def __init__(self, target, words):
        self.target, self.name, self.ids = target, words[0], words[1:]
        self.writer, self.bytes, self.expected, self.never, self.first = TARGETS[target](), b"", [], [], True
        self.bytes = self.writer.begin()

    def take(self, line):
        if line.startswith("= "):
            self.expected.append(line[2:])
        elif line.startswith("! "):
            self.never.append(line[2:])
        else:
            word, *rest = line.split()
            self.bytes += self.writer.line(word, rest, self.first)
            self.first = False

    @property
    def file(self):
        return FUZZ / "corpus" / self.target / self.name

    def faults(self):
        """What is wrong with it."""
        if not self.file.exists() or self.file.read_bytes() != self.bytes:
            yield "its file holds other bytes (seeds.py --write)"
            return
        done = subprocess.run([BUILD / f"fuzz_{self.target}", self.file], text=True, capture_output=True, timeout=60, check=False,
                              env={**os.environ, "EGRESS_FUZZ_TELL": "1", "LOCALDOMAIN": "corp.test", "RES_OPTIONS": "ndots:15"})
        if done.returncode != 0:
            yield f"it ends with {done.returncode}: {done.stderr[-2000:]}"
        said = done.stdout.splitlines()[:-1]
        for line in said:
            if any(line.startswith(never) for never in self.never):
                yield f"must not say: {line}"
        if [line for line in said if not line.startswith("asked")] != self.expected:
            yield "says:\n" + "\n".join("  = " + line for line in said if not line.startswith("asked"))


def read_seeds():
    for target in TARGETS:
        seed = None
        for line in (HERE / f"{target}.seeds").read_text().splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("seed "):
                if seed is not None:
                    yield seed
                seed = Seed(target, line.split()[1:])
            else:
                seed.take(line)
        yield seed


def case_faults(seeds):
    """Lines of `cases`: ID and what else plays it: files of corpora, and PATH:WORDS for a test in which the words stand."""
    played = {i for seed in seeds for i in seed.ids}
    listed = set()
    for line in (HERE / "cases").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        case, *others = [part.strip() for part in line.split(" | ")]
        listed.add(case)
        corpus = [o for o in others if o.startswith("corpus/")]
        tests = [o for o in others if not o.startswith("corpus/")]
        for name in corpus:
            if not (FUZZ / name).exists():
                yield f"{case}: there is no fuzz/{name}"
        for test in tests:
            path, _, words = test.partition(":")
            if not (FUZZ.parent / path).exists() or words not in (FUZZ.parent / path).read_text(errors="replace"):
                yield f"{case}: {path} has no '{words}'"
        if case not in played and not corpus:
            yield f"{case}: no seed plays it"
        if not tests:
            yield f"{case}: no test stands behind it"
    for case in sorted(played - listed):
        yield f"{case}: a seed plays it, `cases` does not list it"


def main():
    seeds, bad = list(read_seeds()), 0
    if "--write" in sys.argv:
        for seed in seeds:
            seed.file.write_bytes(seed.bytes)
    for seed in seeds:
        for fault in seed.faults():
            print(f"{seed.target}.seeds: {seed.name}: {fault}")
            bad += 1
    for fault in case_faults(seeds):
        print("cases: " + fault)
        bad += 1
    print(f"{len(seeds)} seeds, {bad} faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
