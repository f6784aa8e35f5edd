"""Fixtures: one laboratory for the session, one egressd for each test that asks."""
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lab import Egress, Lab  # noqa: E402
from nameserver import NameServer  # noqa: E402


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.fail("system tests make network namespaces: run them as root")
    one = Lab(tmp_path_factory.mktemp("lab"))
    try:
        one.up()
        yield one
    finally:
        one.down()


class Starter:
    """start(leases=…, …) starts an egressd with its sidecar; all are stopped and searched for sanitizer reports at the end."""

    def __init__(self, lab, port):
        self.lab, self.port, self.running = lab, port, []
        # Not pytest's: nobody special passes through that one, and that is who the programs become.
        self.folder = Path(tempfile.mkdtemp(prefix="egress-system-"))
        os.chmod(self.folder, 0o755)

    def __call__(self, wait=True, autostart=True, **options):
        folder = self.folder / f"e{len(self.running)}"
        folder.mkdir()
        one = Egress(self.lab, folder, port=self.port + len(self.running), **options)
        self.running.append(one)
        return one.start(wait) if autostart else one

    def stop(self):
        try:
            for one in self.running:
                one.stop()
        finally:
            if "EGRESS_KEEP" not in os.environ:
                shutil.rmtree(self.folder)


@pytest.fixture
def egress(lab):
    starter = Starter(lab, 1080)
    yield starter
    starter.stop()


@pytest.fixture(scope="module")
def module_egress(lab):
    """As egress, for a whole file of tests; on ports of their own, for equal ones would share their guests (SO_REUSEPORT)."""
    starter = Starter(lab, 1180)
    yield starter
    starter.stop()


@pytest.fixture(scope="module")
def names(lab):
    """A name server whose every answer is the test's; on 93.184.215.16."""
    server = NameServer(lab)
    yield server
    server.close()
