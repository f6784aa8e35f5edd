"""What one change costs the daemon as leases grow: tests/bench/deltas.py [--build DIR] [--leases N]... [--rounds N] [--json]

deltas.c is the sidecar: for each number of leases it publishes them whole to a fresh daemon, then one change after the other, and reads what
the kernel counted for the main thread and the workers."""
import subprocess
import tempfile
import time
from pathlib import Path

import bed

HERE = Path(__file__).resolve().parent
# Highest first, each twice: an archive may want what stands before it.
LIBRARIES = ("control", "net", "compiler", "document", "config", "lease", "image", "metrics", "wire", "decision", "facts", "base") * 2
SYSTEM = ("-levent_core", "-levent_pthreads", "-levent", "-lcares", "-lcrypto", "-ljansson", "-lpsl", "-lidn2", "-lmaxminddb", "-lpthread")


def compile_driver(build, folder):
    """deltas.c against the libraries of the build."""
    program = Path(folder) / "deltas"
    top = HERE.parent.parent
    subprocess.run(["gcc", "-O2", "-D_GNU_SOURCE", "-include", f"{build}/config.h", f"-I{top}/src", "-o", program, HERE / "deltas.c",
                    *(f"{build}/lib{name}.a" for name in LIBRARIES), *SYSTEM], check=True)
    return program


def measure(build, program, leases, rounds):
    """The row of one daemon."""
    with tempfile.TemporaryDirectory(prefix="deltas-") as folder:
        control, config = Path(folder) / "control.sock", Path(folder) / "egressd.conf"
        config.write_text(f"[daemon]\ncontrol = {control}\nworkers = 2\nleases_max = {leases + 2000}\n"
                          f"[listener main]\nbind = unix:{folder}/guests.sock\n[sidecar]\nsource = file:{folder}\ntrust = local\nstate = {folder}\n")
        with open(Path(folder) / "log", "w+", encoding="utf-8") as log, \
                subprocess.Popen([f"{build}/egressd", "--config", config], stdout=log, stderr=log) as daemon:
            try:
                until = time.monotonic() + 10
                while not control.exists():
                    if daemon.poll() is not None or time.monotonic() > until:
                        log.seek(0)
                        raise SystemExit(log.read())
                    time.sleep(0.01)
                out = subprocess.run([program, control, str(daemon.pid), str(leases), str(rounds)], check=True, timeout=300,
                                     stdout=subprocess.PIPE).stdout.decode().split()
            except subprocess.CalledProcessError:
                log.seek(0)
                raise SystemExit(log.read()) from None
            finally:
                daemon.terminate()
                try:
                    daemon.wait(10)
                except subprocess.TimeoutExpired:
                    daemon.kill()
    return out


def main():
    words = bed.arguments(__doc__)
    words.add_argument("--leases", action="append", type=int)
    words.add_argument("--rounds", type=int, default=600)
    chosen = bed.parse(words)
    from figures import Report
    report = Report(chosen.json)
    build = Path(chosen.build).resolve()
    with tempfile.TemporaryDirectory(prefix="deltas-") as folder:
        program = compile_driver(build, folder)
        for size in chosen.leases or (100, 1000, 10000, 50000):
            out = measure(build, program, size, chosen.rounds)
            pairs = list(zip(out[2::2], map(float, out[3::2])))
            names = [name for name, _ in pairs]
            one, end = names.index("change_p50_us"), names.index("all_changed_ms")
            report.row(f"{size} leases: sent whole", **dict(pairs[:one]))
            report.row(f"{size} leases: one change", **dict(pairs[one:end]))
            report.row(f"{size} leases: all changed at once", **dict(pairs[end:]))
    report.close()


if __name__ == "__main__":
    main()
