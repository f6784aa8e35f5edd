"""Fixtures: one laboratory for the session, one egressd for each test that asks."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))

from lab import Egress, Lab  # noqa: E402


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


@pytest.fixture
def egress(lab, tmp_path):
    """egress(leases=…, …) starts one; all are stopped and searched for sanitizer reports at the end."""
    running = []
    os.chmod(tmp_path, 0o755)

    def start(wait=True, autostart=True, **options):
        folder = tmp_path / f"e{len(running)}"
        folder.mkdir()
        one = Egress(lab, folder, **options)
        running.append(one)
        return one.start(wait) if autostart else one

    yield start
    for one in running:
        one.stop()
