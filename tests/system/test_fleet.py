"""deploy/fleet/demo, as a person would run it, with short bounds."""
import os
import subprocess

from lab import BUILD, HERE


def test_the_fleet_of_the_readme_shows_what_it_says_and_ends_clean():
    name = f"fl{os.getpid()}"
    environment = dict(os.environ, EGRESS_BUILD=str(BUILD), EGRESS_FLEET=name, EGRESS_BOUNDS="5 10", TMPDIR="/tmp")
    done = subprocess.run([HERE.parent.parent / "deploy/fleet/demo"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
    assert done.returncode == 0 and done.stdout.endswith("fleet: the demonstration is complete\n"), done.stdout[-4000:]
    for line in ('"reason":"no_rule"', "20 tunnels are open\nall were closed after ", "the five tunnels: all were closed after ", "control    "):
        assert line in done.stdout, line
    assert name not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
