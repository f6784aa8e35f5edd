"""Print "passed failed" of a JUnit file: count.py FILE. A file that is missing or has no test counts as one failure."""
import sys
import xml.etree.ElementTree as tree


def count(path):
    try:
        suites = list(tree.parse(path).getroot().iter("testsuite"))
    except (OSError, tree.ParseError):
        return 0, 1
    total, bad, skipped = (sum(int(s.get(key, 0)) for s in suites) for key in ("tests", "failures", "skipped"))
    bad += sum(int(s.get("errors", 0)) for s in suites)
    return (total - bad - skipped, bad) if total else (0, 1)


print(*count(sys.argv[1]))
