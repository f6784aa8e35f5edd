"""A real browser through the proxy: pages, redirects and a WebSocket, seen in the document it ends with."""
import json

import pytest
from guest import SOURCE, Person, Shop, needs
from shop import CLEAR_PORT, TLS_PORT

RULES = f"""allow https://page.wild.test:{TLS_PORT} as page
allow http://clear.wild.test:{CLEAR_PORT} as clear
allow http://plain.test as there
allow ws://sock.wild.test:{CLEAR_PORT} as socket
"""
pytestmark = needs("chromium")


@pytest.fixture(scope="module")
def shop(lab, tmp_path_factory):
    one = Shop(lab, tmp_path_factory.mktemp("shop"))
    yield one
    one.close()


@pytest.fixture
def person(lab, tmp_path):
    return Person(lab, tmp_path)


@pytest.fixture
def e(egress):
    return egress(leases={"person.policy": SOURCE + RULES})


def browse(person, url, *flags):
    """The document when all of it is loaded, as HTML."""
    done = person.types(
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={person.home}/profile",
        "--proxy-server=socks5://10.200.0.1:1080", "--ignore-certificate-errors", "--dump-dom", *flags, url)
    assert done.returncode == 0, done
    return done.stdout


def test_a_page_over_https(e, person, shop):
    (shop.folder / "page.html").write_text(
        "<!DOCTYPE html><body><p id=p></p><script>document.getElementById('p').textContent = 'answer ' + 6 * 7</script></body>")
    assert "answer 42" in browse(person, shop.tls("page", "page.html"))
    assert e.wait_record(status_code="allowed", rule="page")


def errors_of(log, url):
    """The names of the errors that requests for `url` ended with, from Chromium's own log."""
    names = {number: name for name, number in log["constants"]["netError"].items()}
    ids = {event["source"]["id"] for event in log["events"] if event.get("params", {}).get("url") == url}
    return {names[e["params"]["net_error"]] for e in log["events"] if e["source"]["id"] in ids and "net_error" in e.get("params", {})}


def test_a_name_without_a_rule(e, person):
    assert browse(person, "https://evil.test/", f"--log-net-log={person.home}/net.json") == ""
    assert errors_of(json.loads((person.home / "net.json").read_text()), "https://evil.test/") == {"ERR_SOCKS_CONNECTION_FAILED"}
    assert e.wait_record(status_code="no_rule", host="evil.test")


# The picture keeps the page from being loaded until the script has seen all it waits for.
FETCH = """<!DOCTYPE html><body><p id=a></p><p id=b></p><img src=/hold/fetch><script>
const ask = (id, url) => fetch(url, { mode: "no-cors" }).then(() => "came", (fault) => fault.name).then((said) => { document.getElementById(id).textContent = said; });
Promise.all([ask("a", "https://page.wild.test:%d/page.html"), ask("b", "https://evil.test/")]).then(() => fetch("/let-go/fetch"));
</script></body>"""


def test_a_script_asks_for_what_is_allowed_and_for_what_is_not(e, person, shop):
    (shop.folder / "fetch.html").write_text(FETCH % TLS_PORT)
    page = browse(person, shop.tls("page", "fetch.html"))
    assert '<p id="a">came</p><p id="b">TypeError</p>' in page, page
    assert e.wait_record(status_code="no_rule", host="evil.test")


def test_a_page_over_http_and_a_redirect_that_is_allowed(e, person, shop):
    assert "http /there" in browse(person, shop.clear("clear", "to/http://plain.test/there"))
    assert e.wait_record(status_code="allowed", rule="clear") and e.wait_record(status_code="allowed", rule="there")


def test_a_redirect_that_is_refused_shows_our_reason(e, person, shop):
    page = browse(person, shop.clear("clear", "to/http://evil.test/"))
    assert "redirect_denied" in page and "network_destination_denied" in page
    assert e.wait_record(status_code="redirect_denied")
    assert not e.records(host="evil.test", status_code="no_rule")  # it never asked there


SOCKET = """<!DOCTYPE html><body><p id=p>waits</p><img src=/hold/{host}><script>
const done = (said) => {{ document.getElementById("p").textContent = said; fetch("/let-go/{host}"); }};
const s = new WebSocket("ws://{host}.wild.test:{port}/echo");
s.onopen = () => s.send("x".repeat(300));
s.onmessage = (m) => {{ done("echoed " + m.data.length); s.close(); }};
s.onerror = () => done("failed");
</script></body>"""


@pytest.mark.parametrize("host, shown", [("sock", "echoed 300"), ("clear", "failed"), ("other", "failed")])
def test_a_websocket_needs_a_ws_rule(e, person, shop, host, shown):
    (shop.folder / f"{host}.html").write_text(SOCKET.format(host=host, port=CLEAR_PORT))
    assert f"<p id=\"p\">{shown}</p>" in browse(person, shop.clear("clear", f"{host}.html"))
    if host == "sock":
        assert e.wait_record(status_code="allowed", rule="socket")
    else:
        assert e.wait_record(status_code={"clear": "http_upgrade", "other": "no_rule"}[host])
