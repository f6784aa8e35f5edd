"""What a process has used, and how times are told."""
import json
import os
import time
from pathlib import Path


def stat(pid):
    """Fields of /proc/PID/stat behind the name; None when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None


def pids_below(pid):
    """A process and all that it started, at any depth."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        fields = stat(path.name)
        if fields:
            parents[int(path.name)] = int(fields[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def cpu_s(pid):
    """CPU seconds of a process tree, those of children that have ended included."""
    ticks = 0
    for one in pids_below(pid):
        fields = stat(one)
        if fields:
            ticks += sum(int(x) for x in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def rss_kb(pids):
    total = 0
    for pid in pids:
        fields = stat(pid)
        total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE") // 1024 if fields else 0
    return total


def memory_mb(pid):
    """Resident memory of one process: all, and what no file or memfd stands behind."""
    rows = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return [round(int(rows[name].split()[0]) / 1024, 1) for name in ("VmRSS", "RssAnon")]


def wall_of_monotonic_ms():
    """What is to be added to the monotonic clock for the wall's; of many readings the one that nobody interrupted."""
    def read():
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        return after - before, wall - (before + after) / 2
    return min(read() for _ in range(100))[1] / 1e6


def spread(values):
    """Count, median, 99th of a hundred and worst; of fewer than a hundred the 99th is the worst."""
    values = sorted(values)
    if not values:
        return {"count": 0}
    at = min(len(values) - 1, -(-99 * len(values) // 100) - 1)
    return {"count": len(values), "p50": round(values[len(values) // 2], 2), "p99": round(values[at], 2), "max": round(values[-1], 2)}


class Report:
    """Rows of one table: shown as they come, and as JSON at the end when that is asked for."""

    def __init__(self, as_json):
        self.as_json, self.rows = as_json, []

    def row(self, what, **figures):
        self.rows.append({"what": what, **figures})
        if not self.as_json:
            print(f"{what:<58}" + "".join(f"  {name} {value}" for name, value in figures.items()), flush=True)

    def close(self):
        if self.as_json:
            print(json.dumps(self.rows, indent=1))
