#!/usr/bin/env python3
"""Proof that each lint rule can fail: plants one violation at a time in a copy of the tree and wants a new finding.

Only the findings that the plant adds count, so this says nothing about the tree itself; lint.py does.
"""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import lint
import rules_form
import rules_structure
from tree import Tree

TOP = "/* A planted file. */\n"


def header(name, body):
    guard = f"EGRESS_{name.upper().replace('/', '_').replace('.', '_')}"
    return f"{TOP}#ifndef {guard}\n#define {guard}\n{body}\n#endif\n"


def long_function(lines):
    return TOP + "void planted(void)\n{\n" + "\t;\n" * (lines - 3) + "}\n"


# path, text (None: remove the file; "+...": append), rule that must find it, word that the finding must hold
PLANTS = [
    ("src/base/planted.c", TOP + '#include "net/loop.h"\n', "layers", "may not include net"),
    ("src/policy/planted.c", TOP + '#include "judge/judge.h"\n', "layers", "may not include judge"),
    ("src/daemon/planted.c", TOP + '#include "compiler/ast.h"\n', "layers", "may not include compiler"),
    ("src/daemon/planted.c", TOP + '#include "document/json.h"\n', "layers", "may not include document"),
    ("src/proxy/planted.c", TOP + '#include "control/channel.h"\n', "layers", "may not include control"),
    ("src/base/planted.c", TOP + '#include "text.h"\n', "layers", "folder/file.h"),
    ("src/base/planted.c", TOP + "#include <base/text.h>\n", "layers", "quotes"),
    ("src/planted/planted.c", TOP, "layers", "LAYERS"),
    ("src/LAYERS", "+base2: sidecar2\n", "layers", "no line above"),
    ("src/wire/planted.c", TOP + '#include "base/planted_internal.h"\n', "internal", "src/base alone"),
    ("tests/unit/wire/planted.c", TOP + '#include "base/planted_internal.h"\n', "internal", "unit tests alone"),
    ("src/net/planted.c", TOP + "#include <event2/event.h>\n", "home", "src/net/loop.c"),
    ("src/net/planted.c", TOP + "#include <ares.h>\n", "home", "src/net/ares_link.c"),
    ("src/sidecar/planted.c", TOP + "#include <curl/curl.h>\n", "home", "src/store/http.c"),
    ("src/sidecar/planted.c", TOP + "#include <openssl/ssl.h>\n", "home", "src/serve/serve_tls.c"),
    ("src/sidecar/planted.c", TOP + "#include <openssl/evp.h>\n", "home", "src/base/crypto.c"),
    ("src/facts/planted.c", TOP + "#include <maxminddb.h>\n", "home", "src/facts/geoip.c"),
    ("src/document/planted.c", TOP + "#include <jansson.h>\n", "home", "src/document/json.c"),
    ("src/compiler/planted.c", TOP + "#include <libpsl.h>\n", "home", "src/compiler/pattern.c"),
    ("src/compiler/planted.c", TOP + "#include <idn2.h>\n", "home", "src/compiler/idna.c"),
    ("src/daemon/planted.c", TOP + "#include <seccomp.h>\n", "home", "src/sandbox/seccomp.c"),
    ("src/proxy/planted.c", TOP + "int f(void)\n{\n\treturn connect(1, 0, 0);\n}\n", "fence", "connect()"),
    ("src/proxy/planted.c", TOP + "void *f(void)\n{\n\treturn malloc(1);\n}\n", "fence", "malloc()"),
    ("src/proxy/planted.c", TOP + "void f(void *p)\n{\n\tfree(p);\n}\n", "fence", "free()"),
    ("src/proxy/planted.c", TOP + "long f(void)\n{\n\treturn time(0);\n}\n", "fence", "time()"),
    ("src/net/planted.c", TOP + "int f(void *p)\n{\n\treturn clock_gettime(1, p);\n}\n", "fence", "clock_gettime()"),
    ("src/net/planted.c", TOP + "void f(void)\n{\n\tgetaddrinfo(0, 0, 0, 0);\n}\n", "fence", "getaddrinfo()"),
    ("src/base/planted.c", TOP + "void f(void *p)\n{\n\tgmtime_r(p, p);\n}\n", "fence", "gmtime_r()"),
    ("src/base/planted.c", TOP + 'void f(char *p)\n{\n\tstrcpy(p, "x");\n}\n', "fence", "strcpy()"),
    ("src/net/planted.c", TOP + "void f(void)\n{\n\tstruct permit p = { .slot = 1 };\n}\n", "fence", "permits"),
    ("src/net/planted.c", TOP + "void f(void)\n{\n\tuse((struct permit){ x });\n}\n", "fence", "permits"),
    ("src/judge/planted.c", TOP + "void f(void)\n{\n\tpermit->to.port = 1;\n}\n", "fence", "permits"),
    ("src/proxy/planted.c", TOP + "void f(void)\n{\n\tpolicy_match(0);\n}\n", "fence", "policy_match()"),
    ("src/policy/planted.c", TOP + "void f(void)\n{\n\tsocket(1, 2, 3);\n}\n", "pure", "socket()"),
    ("src/base/planted.c", long_function(101), "size", "101 lines"),
    ("tests/unit/base/planted.c", long_function(101), "size", "101 lines"),
    ("src/base/planted.c", TOP + "\n" * 800, "size", "801 lines"),
    ("src/base/util.c", TOP, "name", "util"),
    ("src/net/helper.h", header("net/helper.h", "int x;"), "name", "helper"),
    ("src/base/planted.c", TOP + "void handle_it(void)\n{\n}\n", "name", "on_<event>"),
    ("src/base/planted.c", TOP + "typedef struct planted planted_t;\n", "name", "typedef"),
    ("src/base/planted.c", "int x;\n", "comment", "begin with"),
    ("src/base/planted.c", "/*\n" + " * x\n" * 9 + " */\n", "comment", "10 lines"),
    ("src/base/planted.c", TOP + "/* TO" + "DO later */\n", "comment", "issue"),
    ("src/base/planted.c", TOP + "/* SP" + "DX-License-Identifier: MIT */\n", "comment", "licence"),
    ("src/base/planted.h", TOP + "#ifndef X_H\n#define X_H\n#endif\n", "header", "EGRESS_BASE_PLANTED_H"),
    ("src/base/planted.h", header("base/planted.h", '#include "base/text.h"'), "header", "umbrella"),
    ("src/base/README.md", None, "readme", "promise"),
    ("src/base/README.md", "x\n" * 21, "readme", "20 lines"),
    ("src/base/planted.c", TOP + "void planted(void)\n{\n}\n", "test", "tests/unit/base/test_planted.c"),
    ("src/wire/planted.h", header("wire/planted.h", "enum parsed planted(void);"), "fuzz", "fuzz_planted.c"),
    ("fuzz/fuzz_planted.c", TOP, "fuzz", "seeds"),
    ("fuzz/fuzz_planted.c", TOP, "fuzz", "FUZZ_TARGETS"),
    ("src/base/planted.c", TOP, "built", "makefile"),
    ("tests/unit/base/test_planted.c", TOP, "built", "makefile"),
    ("src/metrics/metrics.def", '+METRIC(X, "x", COUNTER, "", "", "")\n', "table", "sentence"),
    ("src/config/daemon_options.def", '+OPTION(x, TEXT, 0, 0, "", "", LIVE, "")\n', "table", "sentence"),
    ("src/base/planted.c", TOP + "/* /" + "work/x */\n", "machine", "machine"),
    ("README.md", "+https://me:" + "s3cret@host.corp/\n", "secret", "credentials"),
    ("configure.ac", "+# https://registry.npmjs" + ".org\n", "host", "registry"),
]

# What must not be found: the same words where they are harmless.
HARMLESS = [
    ("src/net/connector.c", "+/* connect( malloc( time( */\n"),
    ("src/base/err.c", '+static const char *const planted_text = "malloc(1) time(0) getaddrinfo(";\n'),
    ("src/net/connector.c", "+static void planted_f(void)\n{\n\tstruct permit p = { 0 };\n\tp2 = p;\n}\n"),
    ("src/base/err.c", "+static long planted_f(void)\n{\n\treturn idle_time(0) + a->time(0) + conn_free(1);\n}\n"),
]


def write(root, path, text):
    full = os.path.join(root, path)
    if text is None:
        os.remove(full)
        return
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "a" if text.startswith("+") else "w", encoding="utf-8") as stream:
        stream.write(text[1:] if text.startswith("+") else text)


def findings(tree):
    return {str(f): f for rule in rules_structure.RULES + rules_form.RULES for f in rule(tree)}


def found_with(clean, original, path, text):
    """All findings once `text` is planted at `path`; the copy is put back afterwards."""
    copy = clean.root
    is_new = not os.path.exists(os.path.join(original, path))
    write(copy, path, text)
    found = findings(Tree(copy, {p: f for p, f in clean.by_path.items() if p != path}))
    if not is_new:
        shutil.copyfile(os.path.join(original, path), os.path.join(copy, path))
    else:
        os.remove(os.path.join(copy, path))
    return found


def check_alone(copy):
    """A header that leans on what others include does not compile alone."""
    write(copy, "src/base/planted.h", header("base/planted.h", "uint32_t planted(void);"))
    tree = Tree(copy)
    tree.files = [f for f in tree.files if f.path == "src/base/planted.h"]
    found = lint.alone(tree)
    os.remove(os.path.join(copy, "src/base/planted.h"))
    return bool(found) and "uint32_t" in found[0].what


def check_linked(scratch):
    """Any program that links a JSON library will do as a daemon; this one is made of a shell script named ldd."""
    write(scratch, "egressd", "")
    write(scratch, "bin/ldd", "#!/bin/sh\necho 'libjansson.so.4 => somewhere'\n")
    os.chmod(os.path.join(scratch, "bin/ldd"), 0o755)
    kept = dict(os.environ)
    os.environ.update(EGRESS_BUILDDIR=scratch, PATH=f"{scratch}/bin:{kept['PATH']}")
    try:
        return len(lint.linked(None)) == 1
    finally:
        os.environ.clear()
        os.environ.update(kept)


def main():
    original = os.environ.get("EGRESS_SRCDIR", os.path.join(HERE, "..", ".."))
    failed = []
    with tempfile.TemporaryDirectory(prefix="egress-lint.") as scratch:
        copy = os.path.join(scratch, "tree")
        shutil.copytree(original, copy, ignore=shutil.ignore_patterns(".git", "build*", "autom4te.cache", "__pycache__"))
        clean = Tree(copy)
        before = findings(clean)
        for path, text, rule, word in PLANTS:
            new = [f for key, f in found_with(clean, original, path, text).items() if key not in before]
            if not any(f.rule == rule and word in str(f) for f in new):
                failed.append(f"{path}: planted for '{rule}' ({word}), found only: {[str(f) for f in new]}")
        for path, text in HARMLESS:
            new = [key for key in found_with(clean, original, path, text) if key not in before]
            if new:
                failed.append(f"{path}: harmless, and yet: {new}")
        if not check_alone(copy):
            failed.append("a header that does not compile alone was not found")
        if not check_linked(os.path.join(scratch, "build")):
            failed.append("a daemon that links a JSON library was not found")
    for line in failed:
        print(line)
    total = len(PLANTS) + len(HARMLESS) + 2
    print(f"lint selftest: {total - len(failed)} of {total} plants judged rightly")
    build = os.environ.get("EGRESS_BUILDDIR")
    if build:
        os.makedirs(os.path.join(build, "tests/counts"), exist_ok=True)
        with open(os.path.join(build, "tests/counts/lint_selftest"), "w", encoding="ascii") as counts:
            counts.write(f"{total} {total - len(failed)} {len(failed)} 0\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
