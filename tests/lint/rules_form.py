"""Rules about form: sizes, names, comments, tables, and that everything is built, tested and described."""

import os
import re

from tree import Finding

FUNCTION_LINES = 100
FILE_LINES = 800
README_LINES = 20
TOP_COMMENT_LINES = 10
BANNED_NAMES = {"util", "utils", "misc", "common", "helper", "helpers", "manager", "types", "defs"}
TESTED_FOLDERS = {"base", "facts", "decision", "wire", "metrics", "config", "sandbox", "image", "lease", "policy", "judge",
                  "document", "compiler"}


def sizes(tree):
    findings = []
    for file in tree.files:
        if file.path.endswith((".c", ".h", ".def", ".py", ".sh")) and len(file.lines) > FILE_LINES:
            findings.append(Finding(file.path, FILE_LINES + 1, "size", f"{len(file.lines)} lines; split it below {FILE_LINES}"))
    for file in tree.c_files():
        for first, last, name in file.functions():
            if last - first + 1 > FUNCTION_LINES:
                findings.append(Finding(file.path, first, "size",
                                        f"{name}() has {last - first + 1} lines; split it below {FUNCTION_LINES}"))
    return findings


def names(tree):
    findings = []
    for file in tree.files:
        if file.stem.lower() in BANNED_NAMES:
            findings.append(Finding(file.path, 1, "name", f"'{file.stem}' says nothing; name it after what it promises"))
    for file in tree.in_src(".c", ".h"):
        for first, _, name in file.functions():
            if re.match(r"(handle|do|process)_", name):
                findings.append(Finding(file.path, first, "name", f"{name}(): an order names its deed, a handler is on_<event>"))
        for match in re.finditer(r"\btypedef\b[^;]*;", file.code):
            if not re.search(r"\b\w+_fn\b", match.group(0)):
                findings.append(Finding(file.path, file.line_at(match.start()), "name",
                                        "no typedef but function types that end in _fn"))
    return findings


def comments(tree):
    findings = []
    for file in tree.in_src(".c", ".h", ".def"):
        match = re.match(r"\s*(/\*.*?\*/)", file.text, re.S)
        if not match:
            findings.append(Finding(file.path, 1, "comment", "begin with what it promises and refuses to know"))
        elif match.group(1).count("\n") + 1 > TOP_COMMENT_LINES:
            findings.append(Finding(file.path, 1, "comment", f"the first comment has at most {TOP_COMMENT_LINES} lines"))
    for file in tree.files:
        if not file.path.endswith((".c", ".h", ".def", ".py", ".sh", ".mk", ".am", ".ac")) or file.path.startswith("tests/lint/"):
            continue
        for number in file.lines_with(r"\b(TODO|FIXME|XXX)\b(?!.*#\d)"):
            findings.append(Finding(file.path, number, "comment", "name the issue (#123), or do it now"))
        for number in file.lines_with(r"SPDX-License|All rights reserved|Copyright \(c\)", re.I):
            findings.append(Finding(file.path, number, "comment", "no licence texts or headers"))
    return findings


def headers(tree):
    """Guards named after the path, and no header that is only a list of other headers."""
    findings = []
    for file in tree.in_src(".h"):
        guard = "EGRESS_" + re.sub(r"\W", "_", file.path[len("src/"):]).upper()
        if not re.search(rf"#ifndef {guard}\n#define {guard}\n", file.code):
            findings.append(Finding(file.path, 1, "header", f"guard it with {guard}"))
        rest = re.sub(r"^\s*#.*$", "", file.code, flags=re.M)
        defines = [d for d in re.findall(r"^\s*#\s*define\s+(\w+)", file.code, re.M) if d != guard]
        if not rest.strip() and not defines:
            findings.append(Finding(file.path, 1, "header", "no umbrella headers: include what is used where it is used"))
    return findings


def readmes(tree):
    findings = []
    for folder in tree.folders():
        path = f"src/{folder}/README.md"
        readme = tree.by_path.get(path)
        if readme is None:
            findings.append(Finding(path, 1, "readme", "write its promise, entry points and what it must never do"))
        elif len(readme.lines) > README_LINES:
            findings.append(Finding(path, README_LINES + 1, "readme", f"at most {README_LINES} lines"))
    return findings


def tests(tree):
    """Below net/ each file has its unit tests; a part without a header of its own shares those of the header it serves."""
    findings = []
    for file in tree.in_src(".c"):
        if file.folder not in TESTED_FOLDERS:
            continue
        stems = {file.stem}
        if not tree.has(f"src/{file.folder}/{file.stem}.h"):
            stems |= headers_served(tree, file)
        if not any(tree.has(f"tests/unit/{file.folder}/test_{stem}.c") for stem in stems):
            findings.append(Finding(file.path, 1, "test", f"write tests/unit/{file.folder}/test_{file.stem}.c"))
    return findings


def headers_served(tree, file):
    """Stems of whom this part serves: headers that declare what it defines; of an internal one, also the files that include it."""
    defined = {name for _, _, name in file.functions()}
    here = [f for f in tree.in_src(".c", ".h") if f.folder == file.folder]
    stems = set()
    for header in here:
        if not header.path.endswith(".h") or not any(re.search(rf"\b{name}\s*\(", header.code) for name in defined):
            continue
        stems.add(re.sub(r"_internal$", "", header.stem))
        if header.stem.endswith("_internal"):
            stems |= {f.stem for f in here if any(h == header.path[len("src/"):] for _, h, _ in f.includes())}
    return stems


def fuzz(tree):
    """Each parser of src/wire has a target, and each target is built and has seeds."""
    findings = []
    targets = {f.stem[len("fuzz_"):]: f for f in tree.files if re.fullmatch(r"fuzz/fuzz_\w+\.c", f.path)}
    for file in tree.in_src(".h"):
        if file.folder == "wire" and re.search(r"\benum parsed\s+\w+\s*\(", file.code) and file.stem not in targets:
            findings.append(Finding(file.path, 1, "fuzz", f"it parses; write fuzz/fuzz_{file.stem}.c and seeds"))
    makefiles = "".join(f.text for f in tree.files if f.path.startswith("fuzz/") and f.path.endswith(".mk"))
    for name, file in targets.items():
        corpus = os.path.join(tree.root, "fuzz/corpus", name)
        if not os.path.isdir(corpus) or not os.listdir(corpus):
            findings.append(Finding(file.path, 1, "fuzz", f"put seeds into fuzz/corpus/{name}/"))
        if not re.search(rf"^FUZZ_TARGETS \+= .*\bfuzz_{name}\b", makefiles, re.M):
            findings.append(Finding(file.path, 1, "fuzz", "add it to FUZZ_TARGETS in the folder's fuzz/*.mk"))
    return findings


def built(tree):
    """Whatever is not in a makefile is neither compiled nor shipped nor run."""
    findings = []
    makefiles = "".join(f.text for f in tree.files if f.path.endswith((".mk", ".am")))
    for file in tree.files:
        kind = re.fullmatch(r"src/\w+/\w+\.(c|h|def)|tests/unit/\w+/\w+\.[ch]|tests/fake/\w+\.[ch]|fuzz/\w+\.c", file.path)
        if kind and not re.search(rf"(?<![\w/]){re.escape(file.path)}(?!\w)", makefiles):
            findings.append(Finding(file.path, 1, "built", "list it in its folder's makefile part"))
    return findings


def tables(tree):
    """Every row of an option or metric table says what it is in its last column."""
    findings = []
    for file in tree.in_src(".def"):
        if not re.search(r"(_options|metrics|histograms)\.def$", file.path):
            continue
        for number, line in enumerate(file.lines, 1):
            if re.match(r"[A-Z_]+\(", line) and not re.search(r',\s*"[^"]{10,}"\)\s*$', line):
                findings.append(Finding(file.path, number, "table", "end the row with a sentence for people"))
    return findings


def places(tree):
    """Nothing in the tree knows the machine it was written on, or a secret."""
    findings = []
    machine = [r"(?<![\w.])/" + first + "/" for first in ("work", "tmp/w", "root", "home/[a-z]+")]
    secret = [r"://[^/\s:@\"']+:[^/\s@\"']+@(?![\w.-]*\b(?:example|test|invalid)\b)", "-----BEGIN [A-Z ]*PRIVATE KEY"]
    hosts = [re.escape(h) for h in ("registry.npmjs" + ".org", "files.pythonhosted" + ".org", "proxy.golang" + ".org",
                                    "deb.debian" + ".org", "static.crates" + ".io", "repo.maven.apache" + ".org")]
    for file in tree.files:
        checks = [("machine", p, "no paths of one machine") for p in machine]
        checks += [("secret", p, "no credentials; invented ones go to hosts below .example, .test or .invalid") for p in secret]
        if file.path.endswith((".ac", ".am", ".mk", ".sh")):
            checks += [("host", p, "the build asks no package registry") for p in hosts]
        findings += [Finding(file.path, number, rule, what) for rule, pattern, what in checks
                     for number in file.lines_with(pattern)]
    return findings


RULES = [sizes, names, comments, headers, readmes, tests, fuzz, built, tables, places]
