"""Rules about what may include, call or name what: layers, homes of third-party headers, fences."""

import re

from tree import Finding

CONTROL_SOCKETS = ["src/control/channel.c", "src/control/client.c"]
PURE_FOLDERS = {"base", "facts", "decision", "wire", "metrics", "config", "image", "lease", "policy", "judge", "document",
                "compiler"}

# header pattern, the only files that may include it
HOMES = [
    (r"event2/.*|event\.h", ["src/net/loop.c"]),
    (r"ares(_\w+)?\.h", ["src/net/ares_link.c"]),
    (r"curl/.*", ["src/store/http.c"]),
    (r"zlib\.h", ["src/store/gzip.c"]),
    (r"openssl/(ssl|tls1|bio|x509\w*|pem|err)\.h", ["src/serve/serve_tls.c"]),
    (r"openssl/(?!(?:ssl|tls1|bio|x509\w*|pem|err)\.h).*", ["src/base/crypto.c"]),
    (r"maxminddb.*\.h", ["src/facts/geoip.c"]),
    (r"jansson.*\.h", ["src/document/json.c"]),
    (r"libpsl\.h", ["src/compiler/pattern.c"]),
    (r"idn2\.h|idna\.h|unistr\.h", ["src/compiler/idna.c"]),
    (r"seccomp\.h", ["src/sandbox/seccomp.c"]),
]

# called names, files that may call them (src/ only), what to do instead
FENCES = [
    (["connect"], ["src/net/connector.c", "src/net/ares_link.c"] + CONTROL_SOCKETS,
     "only net/connector.c dials upstream, and only with a permit"),
    (["malloc", "calloc", "realloc", "reallocarray", "free", "strdup", "strndup", "asprintf", "vasprintf", "getline",
      "posix_memalign", "aligned_alloc"], ["src/base/alloc.c"], "use base/alloc, which tests can make fail"),
    (["time", "clock_gettime", "gettimeofday"], ["src/base/clock.c"], "use base/clock, which tests replace"),
    (["gmtime", "gmtime_r", "localtime", "localtime_r", "mktime", "timegm", "strftime"], [],
     "these open the time zone file, which the sandbox forbids; use base/clock"),
    (["getaddrinfo", "gethostbyname", "gethostbyname2", "gethostbyaddr", "getnameinfo"], [],
     "names are resolved by net/resolver alone"),
    (["strcpy", "strcat", "sprintf", "vsprintf", "gets", "strtok", "alloca", "system", "popen"], [],
     "use base/sink, snprintf or no shell at all"),
]
SOCKET_CALLS = ["socket", "bind", "listen", "accept", "accept4", "send", "sendto", "sendmsg", "recv", "recvfrom", "recvmsg",
                "poll", "epoll_wait", "select"]


def read_layers(tree):
    """Folder to the set of folders it may include, from src/LAYERS; with what is wrong in it."""
    layers, findings = {}, []
    for number, line in enumerate(tree.text_of("src/LAYERS").split("\n"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, _, below = line.partition(":")
        for name in below.split():
            if name not in layers:
                findings.append(Finding("src/LAYERS", number, "layers",
                                        f"{folder} may include {name}, which stands in no line above it: reorder"))
        layers[folder] = set(below.split())
    return layers, findings


def layers(tree):
    allowed, findings = read_layers(tree)
    for file in tree.in_src(".c", ".h", ".def"):
        if file.folder not in allowed:
            findings.append(Finding(file.path, 1, "layers", f"give folder {file.folder} a line in src/LAYERS"))
            continue
        for line, header, quoted in file.includes():
            target = header.split("/")[0]
            if not quoted and target in allowed and tree.has("src/" + header):
                findings.append(Finding(file.path, line, "layers", f'write "{header}" with quotes: it is ours'))
            if not quoted or header == "config.h":
                continue
            if "/" not in header or target not in allowed:
                findings.append(Finding(file.path, line, "layers", f'include "{header}" as "folder/file.h" from src/'))
            elif target != file.folder and target not in allowed[file.folder]:
                findings.append(Finding(file.path, line, "layers",
                                        f"{file.folder} may not include {target}; it may include: "
                                        f"{' '.join(sorted(allowed[file.folder])) or 'nothing'}"))
            elif header.endswith("_internal.h") and target != file.folder:
                findings.append(Finding(file.path, line, "internal", f"{header} is for src/{target} alone"))
    return findings


def internal(tree):
    """Internal headers stay in their folder; its own unit tests may look inside."""
    findings = []
    for file in tree.c_files():
        if file.folder is not None:
            continue
        for line, header, quoted in file.includes():
            owner = header.split("/")[0]
            if header.endswith("_internal.h") and not file.path.startswith(f"tests/unit/{owner}/"):
                findings.append(Finding(file.path, line, "internal", f"{header} is for src/{owner} and its unit tests alone"))
    return findings


def homes(tree):
    findings = []
    for file in tree.in_src(".c", ".h", ".def"):
        for line, header, quoted in file.includes():
            for pattern, home in HOMES:
                if not quoted and re.fullmatch(pattern, header) and file.path not in home:
                    findings.append(Finding(file.path, line, "home",
                                            f"<{header}> has one home, {home[0]}: call what that file offers"))
    return findings


def fences(tree):
    findings = []
    for file in tree.in_src(".c", ".h", ".def"):
        for names, may, instead in FENCES:
            if file.path in may:
                continue
            for line, name in file.calls(names):
                findings.append(Finding(file.path, line, "fence", f"{name}() may not be called here: {instead}"))
        if file.folder in PURE_FOLDERS:
            for line, name in file.calls(SOCKET_CALLS):
                findings.append(Finding(file.path, line, "pure", f"{name}() in a folder without sockets: move it to src/net"))
        findings += permit_fence(file) + match_fence(file)
    return findings


def permit_fence(file):
    """A permit is filled in policy/match.c alone; elsewhere it may only be empty, copied or read."""
    if file.path == "src/policy/match.c":
        return []
    patterns = [r"\(\s*(?:const\s+)?struct\s+permit\s*(?:\[\w*\]\s*)?\)\s*\{(?!\s*0?\s*\})",
                r"struct\s+permit\s+\w+\s*(?:\[\w*\])?\s*=\s*\{(?!\s*0?\s*\})",
                r"permits?(?:\[\w+\])?(?:\.|->)(?:to|slot|generation|snapshot)(?:\.\w+)*\s*=(?!=)"]
    return [Finding(file.path, file.line_at(m.start()), "fence", "only policy/match.c makes permits")
            for p in patterns for m in re.finditer(p, file.code)]


def match_fence(file):
    if file.path in ("src/judge/judge.c", "src/policy/match.c", "src/policy/match.h"):
        return []
    return [Finding(file.path, line, "fence", "policy_match() is called by judge/judge.c alone: call judge()")
            for line, _ in file.calls(["policy_match"])]


RULES = [layers, internal, homes, fences]
