"""Real TLS libraries on both sides where the server asks again (HelloRetryRequest), and where the guest sends data early."""
import subprocess
import threading

import pytest
from guest import SOURCE, Forwarder, Person, needs
from lab import wait_for
from test_clients import NODE, gnutls, nss, openssl

RULES = "allow https://script.test as rare\nallow https://script.test:444 as usual\n"
ASK = "GET / HTTP/1.0\r\n\r\n"
PAGE = "s_server"  # what its status page names


class Server:
    """openssl s_server with `words`; what it saw of the handshakes is in its log."""

    def __init__(self, lab, folder, port, *words):
        self.log = folder / f"s_server.{port}"
        self.out = open(self.log, "w", encoding="utf-8")
        self.process = lab.net.popen("origin", "openssl", "s_server", "-accept", f"{lab.net.SCRIPTED4}:{port}", "-cert", lab.folder / "origin.pem",
                                     "-key", lab.folder / "origin.key", "-msg", "-tls1_3", *words, stdout=self.out, stderr=self.out, stdin=subprocess.PIPE)
        wait_for(lambda: "ACCEPT" in self.said())

    def said(self):
        return self.log.read_text(errors="replace")

    def hellos(self):
        return self.said().count("ClientHello")

    def close(self):
        self.process.kill()
        self.process.communicate()
        self.out.close()


@pytest.fixture
def start(lab, tmp_path):
    running = []

    def one(*words):
        running.append(Server(lab, tmp_path, *words))
        return running[-1]
    yield one
    for server in running:
        server.close()


@pytest.fixture
def rare(start):
    """A server that only knows a group for which no client sends a share unasked."""
    return start(443, "-groups", "P-521", "-www")


@pytest.fixture
def person(lab, tmp_path):
    return Person(lab, tmp_path)


@pytest.fixture
def e(egress):
    return egress(leases={"person.policy": SOURCE + RULES})


@pytest.mark.parametrize("client", [pytest.param(openssl, marks=needs("openssl")), pytest.param(gnutls, marks=needs("gnutls-cli")),
                                    pytest.param(nss, marks=needs("tstclnt"))])
def test_a_library_that_is_asked_again_is_served(lab, e, person, rare, client):
    with Forwarder(lab, "script.test", 443) as f:
        said = person.talks(*client(person, f.port, "script.test"), say=ASK, until=PAGE)
    assert PAGE in said, said
    assert rare.hellos() == 2, rare.said()
    assert e.wait_record(activity_id=1)["status_code"] == "allowed"


def test_curl_is_asked_again_and_served(e, person, rare):
    done = person.curl("https://script.test/")
    assert PAGE in done.stdout, done.stderr
    assert rare.hellos() == 2


@needs("node")
def test_node_is_asked_again_and_served(e, person, rare):
    (person.home / "get.js").write_text(NODE)
    done = person.types("node", "get.js", "script.test", 443, person.ca)
    assert PAGE in done.stdout, done.stderr
    assert rare.hellos() == 2


def visit(lab, person, port, *words, stays):
    """One orderly visit of openssl's client, as long as `stays(client)` takes: what it printed."""
    with Forwarder(lab, "script.test", port) as f:
        words = [w for w in openssl(person, f.port, "script.test") if w != "-ign_eof"] + ["-tls1_3", *words]
        client = lab.net.popen("guest", *words, text=True, cwd=person.home, env=person.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)
        watchdog = threading.Timer(30, client.kill)
        watchdog.start()
        said = stays(client) or ""
        said += client.communicate("Q\n")[0]  # leaves in order, so that the session may be used again
        watchdog.cancel()
        return said


def hears_of_early_data(client):
    said = ""
    while "Early data was" not in said and (line := client.stdout.readline()):
        said += line
    return said


@pytest.mark.parametrize("port, group, words, hellos", [
    pytest.param(444, "X25519", "Early data was accepted", 1, id="behind-the-hello"),
    pytest.param(443, "P-521", "Early data was rejected", 2, id="between-two-hellos"),
])
def test_early_data_passes(lab, e, person, start, port, group, words, hellos):
    server = start(port, "-groups", group, "-early_data", "-max_early_data", "16384")
    visit(lab, person, port, "-sess_out", "session", stays=lambda _: wait_for(lambda: (person.home / "session").exists() and (person.home / "session").stat().st_size > 500) and "")
    before = server.hellos()
    (person.home / "early").write_text("early words\n")
    said = visit(lab, person, port, "-sess_in", "session", "-early_data", "early", stays=hears_of_early_data)
    assert words in said, said + server.said()
    assert server.hellos() == before + hellos
    if hellos == 1:
        wait_for(lambda: "early words" in server.said())
    wait_for(lambda: len(e.records(activity_id=2)) == 2)
    assert {r["status_code"] for r in e.records()} == {"allowed"}
