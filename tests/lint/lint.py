#!/usr/bin/env python3
"""Checks of the tree itself: `tests/lint/lint.py [ROOT]`. Prints file:line: rule: what to do; fails if there is any.

Rules of src/LAYERS and of the README at the top are in rules_structure.py and rules_form.py; here are the two that need
tools: every header compiles alone, and the daemon links neither a JSON nor an HTTP library.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rules_form
import rules_structure
from tree import Finding, Tree

NOT_IN_DAEMON = ["libjansson", "libcurl", "libz", "libpsl", "libidn2"]


def compile_header(tree, header, compiler, build):
    source = f'#include "{header}"\n#include "{header}"\n'
    command = compiler.split() + ["-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror",
                                  "-I", os.path.join(tree.root, "src"), "-xc", "-"]
    if os.path.exists(os.path.join(build, "config.h")):
        command[-2:-2] = ["-I", os.path.join(build, "src"), "-include", os.path.join(build, "config.h")]
    else:
        command[-2:-2] = ["-D_GNU_SOURCE"]
    run = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        return []
    first = next((line for line in run.stderr.split("\n") if "error" in line), run.stderr.strip())
    return [Finding("src/" + header, 1, "alone", f"it must compile alone: {first}")]


def alone(tree):
    """Every header compiles alone, and twice."""
    compiler = os.environ.get("CC", "cc")
    build = os.environ.get("EGRESS_BUILDDIR", tree.root)
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(compile_header, tree, f.path[len("src/"):], compiler, build) for f in tree.in_src(".h")]
        return [finding for job in jobs for finding in job.result()]


def linked(_tree):
    """What the daemon must not be able to do is not even linked into it."""
    daemon = os.path.join(os.environ.get("EGRESS_BUILDDIR", "."), "egressd")
    if not os.path.exists(daemon):
        return []
    run = subprocess.run(["ldd", daemon], capture_output=True, text=True, check=False)
    return [Finding("src/daemon/local.mk", 1, "linked", f"egressd links {library}: drop it from egressd_LDADD")
            for library in NOT_IN_DAEMON if library in run.stdout]


RULES = rules_structure.RULES + rules_form.RULES + [alone, linked]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("EGRESS_SRCDIR", os.path.join(here, "..", ".."))
    tree = Tree(os.path.realpath(root))
    broken = 0
    for rule in RULES:
        findings = rule(tree)
        broken += bool(findings)
        for finding in findings:
            print(finding)
    build = os.environ.get("EGRESS_BUILDDIR")
    if build:
        os.makedirs(os.path.join(build, "tests/counts"), exist_ok=True)
        with open(os.path.join(build, "tests/counts/lint"), "w", encoding="ascii") as counts:
            counts.write(f"{len(RULES)} {len(RULES) - broken} {broken} 0\n")
    print(f"lint: {len(tree.files)} files, {len(RULES)} rules, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
