"""OpenSSH through the proxy: a real client behind `nc -X 5`, a real sshd among the origins."""
import os
import subprocess

import pytest
from lab import wait_for
from netns import run

SOURCE = "lease ls_ssh\nguest require source\nguest source 10.200.0.2/32\nmode allowlist\n"
PORT = 2222


class Sshd:
    """sshd on the origins' port 2222, with keys of its own; root may log in by `self.key` only."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        os.makedirs("/run/sshd", exist_ok=True)  # where sshd changes its root to before login
        self.key = folder / "user"
        for name in ("host", "user", "stranger"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
        (folder / "authorized").write_text((folder / "user.pub").read_text())
        kind, blob = (folder / "host.pub").read_text().split()[:2]
        self.known = folder / "known"
        self.known.write_text(f"[allowed.test]:{PORT} {kind} {blob}\n")
        (folder / "sshd_config").write_text(
            f"Port {PORT}\nHostKey {folder}/host\nPidFile none\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\n"
            "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n")
        (folder / "ssh_config").write_text("")
        self.log = open(folder / "sshd.log", "w", encoding="utf-8")
        self.process = lab.net.popen("origin", "/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config",
                                     stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        wait_for(self.listens)

    def listens(self):
        assert self.process.poll() is None, self.said()
        return "listening" in self.said()

    def said(self):
        return (self.folder / "sshd.log").read_text()

    def ssh(self, proxy, *command, key="user", stdin=""):
        """Run `command` on the origin as a guest would type it."""
        host, port = proxy
        return self.lab.net.run(
            "guest", "ssh", "-F", self.folder / "ssh_config", "-o", f"ProxyCommand=nc -X 5 -x {host}:{port} %h %p",
            "-o", f"UserKnownHostsFile={self.known}", "-o", "GlobalKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
            "-o", "IdentityAgent=none", "-o", "ConnectTimeout=15", "-i", self.folder / key, "-T", "-p", PORT, "root@allowed.test", *command,
            check=False, timeout=30, input=stdin)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


@pytest.fixture(scope="module")
def sshd(lab, tmp_path_factory):
    one = Sshd(lab, tmp_path_factory.mktemp("sshd"))
    yield one
    one.close()


def test_a_command_runs_under_an_ssh_rule(egress, sshd):
    e = egress(leases={"ssh.policy": SOURCE + f"allow ssh://allowed.test:{PORT} as shell\n"})
    done = sshd.ssh(e.main, "echo", "$((6 * 7))", ";", "exit", "3")
    assert (done.stdout, done.returncode) == ("42\n", 3), done.stderr
    assert e.wait_record(status_code="allowed", activity_id=1)["firewall_rule"]["uid"] == "shell"
    assert e.wait_record(activity_id=2)["traffic"]["bytes_in"] > 0


def test_half_closes_and_many_bytes_pass_both_ways(egress, sshd):
    e = egress(leases={"ssh.policy": SOURCE + f"allow ssh://allowed.test:{PORT}\n"})
    text = "".join(f"line {i} of what is sent\n" for i in range(50000))
    done = sshd.ssh(e.main, "cat", stdin=text)  # cat ends only when the end of the input came through
    assert done.returncode == 0 and done.stdout == text, done.stderr


def test_the_origin_still_says_who_may_log_in(egress, sshd):
    e = egress(leases={"ssh.policy": SOURCE + f"allow ssh://allowed.test:{PORT}\n"})
    done = sshd.ssh(e.main, "true", key="stranger")
    assert done.returncode == 255 and "Permission denied (publickey)" in done.stderr
    assert e.wait_record(status_code="allowed", activity_id=1)


def test_no_rule_no_connection(egress, sshd):
    e = egress(leases={"ssh.policy": SOURCE + "allow ssh://only4.test\n"})
    done = sshd.ssh(e.main, "true")
    assert done.returncode == 255 and "SOCKSv5 error: Connection not allowed by ruleset" in done.stderr, done.stderr
    assert e.wait_record(status_code="no_rule")


@pytest.mark.parametrize("rules", [
    f"allow https://allowed.test:{PORT}\n",
    f"allow https://allowed.test:{PORT}\nallow tcp://allowed.test:{PORT}\n",  # the typed rule counts
    f"allow http://allowed.test:{PORT}\n",
], ids=["https", "https-and-tcp", "http"])
def test_ssh_on_a_rule_of_another_scheme_shows_why(egress, sshd, rules):
    e = egress(leases={"ssh.policy": SOURCE + rules})
    before = len(sshd.said())
    done = sshd.ssh(e.main, "true")
    assert done.returncode == 255 and "timed out" not in done.stderr, done.stderr
    record = e.wait_record(status_code="scheme_mismatch", activity_id=5)
    line = next(line for line in done.stderr.splitlines() if "egress: refused (scheme_mismatch): " in line)
    assert line.startswith("Received disconnect from ") and line.endswith("; decision " + record["metadata"]["uid"].removesuffix("-stream")), line
    assert "Accepted" not in sshd.said()[before:]


def test_ssh_passes_a_tcp_rule_alone(egress, sshd):
    e = egress(leases={"ssh.policy": SOURCE + f"allow tcp://allowed.test:{PORT} as raw\n"})
    done = sshd.ssh(e.main, "echo", "here")
    assert (done.stdout, done.returncode) == ("here\n", 0), done.stderr
    assert e.wait_record(status_code="allowed", activity_id=1)["firewall_rule"]["uid"] == "raw"
