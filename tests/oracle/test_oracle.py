#!/usr/bin/env python3
"""Asks `egressctl explain --batch` and the oracle the same questions; any difference fails and is printed with what is needed to ask it
again. Questions: generated policies (seeded; `--roots N --seed S` for more) and every `.expect` table of the tree."""
import argparse
import ipaddress
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import addresses  # noqa: E402
import generate  # noqa: E402
from oracle import Oracle, Target  # noqa: E402
from policy_text import Invalid, Root  # noqa: E402

SOURCE = pathlib.Path(os.environ.get("EGRESS_SRCDIR", HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get("EGRESS_BUILDDIR", "."))
TABLES = addresses.Tables(SOURCE / "policy" / "addresses")
SHOWN = 10
NEXT_DOOR = {"scheme_mismatch": "scheme_not_allowed"}  # explain shows the word of the bytes, tables that of the request


class Differences:
    def __init__(self):
        self.count = self.asked = self.roots = 0
        self.reasons = {}

    def note(self, *lines):
        self.count += 1
        if self.count <= SHOWN:
            print("DIFFERENCE", *lines, sep="\n  ")


def configuration(folder, report, own, nat64):
    path = folder / "egressd.conf"
    path.write_text("[daemon]\nreport_allowed = %s\n%s%s[listener main]\nbind = tcp:127.0.0.1:1080\n[sidecar]\nsource = file:%s\ntrust = local\n" % (
        "on" if report else "off", "nat_addresses = %s\n" % ",".join(own) if own else "",
        "nat64 = %s\n" % ",".join(nat64) if nat64 else "", folder))
    return path


def ask_product(folder, config, questions):
    # addresses go as text that the product reads itself; an empty list is left out
    lines = "".join(json.dumps({k: v for k, v in q.items() if v != []}) + "\n" for q in questions)
    done = subprocess.run([BUILD / "egressctl", "explain", "--batch", "--root", folder, "--config", config], input=lines,
                          capture_output=True, text=True, timeout=300)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(questions):
        sys.exit(f"{folder}: {len(questions)} questions, {len(answers)} answers\n{done.stderr}")
    return answers


def compare(differences, where, oracle, question, answer):
    differences.asked += 1
    try:
        expected = oracle.decide(question["lease"], question["target"], question["addresses"])
    except Invalid:
        differences.reasons["(no target)"] = differences.reasons.get("(no target)", 0) + 1
        if "error" not in answer:
            differences.note(where, json.dumps(question), "the oracle reads no target here", json.dumps(answer)[:300])
        return None
    said = (answer.get("allow"), NEXT_DOOR.get(answer.get("reason"), answer.get("reason")), answer.get("would_deny"))
    meant = (expected.allow, expected.reason, expected.would_deny)
    differences.reasons[expected.reason] = differences.reasons.get(expected.reason, 0) + 1
    if said != meant:
        differences.note(where, json.dumps(question), f"oracle  {meant}", f"product {said} {answer.get('error', '')}")
    elif expected.rules is not None and answer["rule"] is not None and answer["rule"] not in {r.id for r in expected.rules}:
        differences.note(where, json.dumps(question), f"the named rule {answer['rule']} does not apply")
    return expected


def run_generated(differences, seed, roots, leases, per_root):
    for number in range(roots):
        rng = random.Random(f"{seed}/{number}")
        report = rng.random() < 0.35
        own = rng.sample(["93.184.1.0/24", "2600:1406::2/128", "8.8.8.9/32"], rng.randint(0, 2))
        nat64 = rng.sample(["64:ff9b::/96", "2600:64::/96"], rng.randint(0, 1))
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            ids = generate.write_root(rng, folder, leases, report)
            questions = [generate.question(rng, ids) for _ in range(per_root)]
            config = configuration(folder, report, own, nat64)
            oracle = Oracle(Root(folder, report), TABLES, addresses.Site(own, nat64))
            for question, answer in zip(questions, ask_product(folder, config, questions)):
                compare(differences, f"--seed {seed}, root {number}", oracle, question, answer)
        differences.roots += 1


def table_lines(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        answers = words.pop(2)[1:].split(",") if words[2].startswith("@") else []
        yield f"{path}:{number}", words[0], words[1], answers, words[2], words[3]


def stand_in(path, target):
    """The rule of the lease that `-` means in the table of a preset, or of the ceiling."""
    if path.parent.name == "presets":
        return f"use {path.stem}"
    Target(target)
    return f"allow {target}"


def run_tables(differences, root):
    """Every `.expect` table of one root: product, oracle and table must agree."""
    report = (root / "report_allowed").exists()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "root"
        shutil.copytree(root, folder)
        questions, rows = [], []
        for path in sorted(root.rglob("*.expect")):
            for where, lease, target, answers, action, reason in table_lines(path):
                if lease == "-":
                    lease = f"oracle-{len(rows)}"
                    (folder / "leases" / f"{lease}.policy").write_text(
                        f"lease {lease}\nguest require source\nguest source 198.51.100.1\nmode allowlist\n"
                        f"{stand_in(path, target)}\n")
                questions.append({"lease": lease, "target": target, "addresses": answers})
                rows.append((where, action, reason))
        config = configuration(folder, report, [], [])
        oracle = Oracle(Root(folder, report), TABLES, addresses.Site())
        for question, row, answer in zip(questions, rows, ask_product(folder, config, questions)):
            where, action, reason = row
            expected = compare(differences, where, oracle, question, answer)
            if expected is not None and (("allow" if expected.allow else "deny"), expected.reason) != (action, reason):
                differences.note(where, json.dumps(question), f"the table says {action} {reason}, the oracle {expected.reason}")
        differences.roots += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", default="1")
    parser.add_argument("--roots", type=int, default=40)
    parser.add_argument("--leases", type=int, default=60)
    parser.add_argument("--questions", type=int, default=400, help="for each root")
    options = parser.parse_args()
    differences = Differences()
    tables = [SOURCE / "policy"] + sorted(p for p in (SOURCE / "tests" / "tables" / "roots").iterdir() if p.is_dir())
    for root in tables:
        run_tables(differences, root)
    run_generated(differences, options.seed, options.roots, options.leases, options.questions)
    reasons = ", ".join(f"{word} {count}" for word, count in sorted(differences.reasons.items()))
    print(f"{differences.asked} questions to {differences.roots} roots, {differences.count} differences\n{reasons}")
    if differences.asked < 100 or len(differences.reasons) < 10:
        sys.exit("too little was asked to mean anything")
    sys.exit(1 if differences.count else 0)


if __name__ == "__main__":
    main()
