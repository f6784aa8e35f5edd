"""The source tree as the lint rules see it: files, their code without comments and strings, their functions."""

import os
import re

SKIPPED_FOLDERS = {".git", "autom4te.cache", "build-aux", "__pycache__", ".pytest_cache", "corpus", "_build", "_inst"}


class Finding:
    """One broken rule at one place, with what to do about it."""

    def __init__(self, path, line, rule, what):
        self.path, self.line, self.rule, self.what = path, line, rule, what

    def __str__(self):
        return f"{self.path}:{self.line}: {self.rule}: {self.what}"


def blank(match):
    """Spaces in place of what matched, so that lines and columns stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''

    def keep_strings(match):
        return match.group(0) if match.group(0)[0] in "\"'" else blank(match)

    return re.sub(pattern, keep_strings, text, flags=re.S)


def without_strings(text):
    def blank_inside(match):
        whole = match.group(0)
        return whole[0] + " " * (len(whole) - 2) + whole[-1]

    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank_inside, text)


def is_built(path):
    """Is this a program or other product of a build in the source tree?"""
    with open(path, "rb") as stream:
        return b"\0" in stream.read(4096)


class File:
    """One file; `path` is relative to the root and uses slashes."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), "rb") as stream:
            self.text = stream.read().decode("utf-8", "replace")
        self.lines = self.text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        self._code = None
        self._functions = None
        self._includes = None
        self._calls = {}
        self._lines_with = {}

    @property
    def name(self):
        return os.path.basename(self.path)

    @property
    def stem(self):
        return self.name.rsplit(".", 1)[0]

    @property
    def folder(self):
        """The folder of src that it is in, or None."""
        parts = self.path.split("/")
        return parts[1] if parts[0] == "src" and len(parts) > 2 else None

    @property
    def code(self):
        """The text with comments and the insides of strings blanked, line by line as before."""
        if self._code is None:
            self._code = without_strings(without_comments(self.text))
        return self._code

    def includes(self):
        """(line, header, quoted?) of every include."""
        if self._includes is None:
            self._includes = []
            for number, line in enumerate(without_comments(self.text).split("\n"), 1):
                match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', line)
                if match:
                    self._includes.append((number, match.group(1) or match.group(2), match.group(1) is not None))
        return self._includes

    def calls(self, names):
        """(line, name) wherever one of the names is followed by an opening parenthesis."""
        key = tuple(names)
        if key not in self._calls:
            pattern = r"(?<![\w.>])(" + "|".join(names) + r")\s*\("
            self._calls[key] = [(self.line_at(m.start()), m.group(1)) for m in re.finditer(pattern, self.code)]
        return self._calls[key]

    def lines_with(self, pattern, flags=0):
        """Numbers of the lines in whose text (comments too) the pattern is found."""
        key = (pattern, flags)
        if key not in self._lines_with:
            self._lines_with[key] = sorted({self.text.count("\n", 0, m.start()) + 1
                                            for m in re.finditer(pattern, self.text, flags)})
        return self._lines_with[key]

    def line_at(self, offset):
        return self.code.count("\n", 0, offset) + 1

    def functions(self):
        """(first line, last line, name) of every function: its braces stand alone at the left edge."""
        if self._functions is None:
            self._functions = list(self.find_functions())
        return self._functions

    def find_functions(self):
        lines = self.code.split("\n")
        opened = None
        for number, line in enumerate(lines, 1):
            if line.rstrip() == "{":
                opened = number
            elif line.rstrip() == "}" and opened is not None:
                first = self.signature_start(lines, opened)
                signature = " ".join(lines[first - 1:opened - 1])
                match = re.search(r"(\w+)\s*\(", signature)
                if match:
                    yield first, number, match.group(1)
                opened = None

    @staticmethod
    def signature_start(lines, opened):
        first = opened
        while first > 1 and lines[first - 2].strip() and not lines[first - 2].rstrip().endswith((";", "}")) \
                and not lines[first - 2].startswith("#"):
            first -= 1
        return first


class Tree:
    """All text files below a root."""

    def __init__(self, root, known=None):
        """`known` are files of an earlier look at the same root that need not be read again."""
        self.root = root
        self.files = []
        known = known or {}
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("build")
                                and not os.path.exists(os.path.join(folder, f, "config.status")))
            for name in sorted(names):
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root).replace(os.sep, "/")
                if os.path.isfile(full) and not os.path.islink(full) and self.is_ours(path) and not is_built(full):
                    self.files.append(known.get(path) or File(root, path))
        self.by_path = {f.path: f for f in self.files}

    @staticmethod
    def is_ours(path):
        if path in ("configure", "configure~", "aclocal.m4", "config.h", "config.h.in", "config.h.in~", "Makefile", "Makefile.in"):
            return False
        known = (".c", ".h", ".def", ".py", ".sh", ".md", ".mk", ".am", ".ac", ".policy", ".expect", ".json", ".txt",
                 ".conf", ".service", ".socket", ".nft", ".yaml", ".yml", ".scn", ".dict", ".1", ".5", ".8")
        return path.endswith(known) or "." not in os.path.basename(path)

    def in_src(self, *ends):
        return [f for f in self.files if f.folder is not None and f.path.endswith(ends)]

    def c_files(self):
        """Every C file of ours: product, tests, fuzz targets."""
        return [f for f in self.files if f.path.endswith((".c", ".h")) and f.path.split("/")[0] in ("src", "tests", "fuzz")]

    def folders(self):
        """The folders of src that hold C."""
        return sorted({f.folder for f in self.in_src(".c", ".h")})

    def text_of(self, path):
        found = self.by_path.get(path)
        return found.text if found else ""

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))
