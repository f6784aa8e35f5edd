"""Real clients, as people start them: what passes, and what they print when it does not."""
import hashlib
import json
import subprocess
import tarfile
import zipfile

import pytest
from guest import SOURCE, Forwarder, Person, Shop, needs
from netns import run
from shop import CLEAR_PORT, TLS_PORT

PROXY = "10.200.0.1:1080"
SOCKS5H = "socks5h://" + PROXY
RULES = f"""allow https://allowed.test as web
allow http://plain.test as clear
allow https://*.wild.test:{TLS_PORT} as shop
allow http://*.wild.test:{CLEAR_PORT} as clear-shop
allow tcp://plain.test:81 as nobody-listens
allow https://private.test as inside
allow https://nx.test as no-such-name
allow tcp://allowed.test:7000 as raw
deny blocked.wild.test as never
"""


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


# --- curl ---

def test_curl_fetches_over_https_and_http(e, person):
    assert person.curl("https://allowed.test/a").stdout == "https /a\n"
    assert person.curl("http://plain.test/b").stdout == "http /b\n"


def test_curl_may_offer_http2_on_clear_http(e, person):
    done = person.curl("http://plain.test/c", "--http2", "-v")
    assert done.stdout == "http /c\n" and "Upgrade: h2c" in done.stderr and "HTTP/1.1 200" in done.stderr


def test_curl_talks_http2_over_https(e, person, shop):
    (shop.folder / "page").write_text("a page\n")
    done = person.curl(shop.tls("www", "page"), "--http2", "-v")
    assert done.stdout == "a page\n" and "ALPN: offers h2" in done.stderr, done.stderr


@pytest.mark.parametrize("url, exit_code, said, reason", [
    ("https://evil.test/", 97, "(97) Can't complete SOCKS5 connection to evil.test. (2)", "no_rule"),
    (f"https://blocked.wild.test:{TLS_PORT}/", 97, "(97) Can't complete SOCKS5 connection to blocked.wild.test. (2)", "rule_deny"),
    ("https://allowed.test:8443/", 97, "(97) Can't complete SOCKS5 connection to allowed.test. (2)", "port_not_allowed"),
    ("https://private.test/", 97, "(97) Can't complete SOCKS5 connection to private.test. (2)", "special_address"),
    ("https://nx.test/", 97, "(97) Can't complete SOCKS5 connection to nx.test. (4)", "dns_nxdomain"),
    ("http://plain.test:81/", 97, "(97) Can't complete SOCKS5 connection to plain.test. (5)", "upstream_refused"),
    ("http://allowed.test:443/", 22, "(22) The requested URL returned error: 403", "scheme_mismatch"),
    ("https://plain.test:80/", 35, "alert access denied", "scheme_mismatch"),
])
def test_curl_says_that_it_was_refused(e, person, url, exit_code, said, reason):
    done = person.curl(url, "--fail")
    assert done.returncode == exit_code and said in done.stderr, done
    assert e.wait_record(status_code=reason)


def test_curl_shows_the_body_of_a_refusal_in_clear_http(e, person):
    done = person.curl("http://plain.test/", "-H", "Host: evil.test")
    said = json.loads(done.stdout)
    assert said["reason"] == "http_host_mismatch"
    assert e.wait_record(status_code="http_host_mismatch")["metadata"]["uid"].startswith(said["decision"])


def test_curl_with_prior_knowledge_of_http2_is_refused_in_clear(e, person):
    done = person.curl("http://plain.test/", "--http2-prior-knowledge")
    assert done.returncode != 0, done
    assert e.wait_record(status_code="http_malformed")


@pytest.mark.parametrize("where, passes", [("http://plain.test/there", True), ("http://evil.test/", False)])
def test_curl_follows_a_redirect_that_is_allowed_and_no_other(e, person, shop, where, passes):
    done = person.curl(shop.clear("www", "to/" + where), "-L")
    if passes:
        assert done.stdout == "http /there\n", done.stderr
    else:
        assert json.loads(done.stdout)["reason"] == "redirect_denied"
        assert e.wait_record(status_code="redirect_denied")


# --- git ---

@pytest.fixture
def repository(shop, tmp_path):
    """A bare repository of the shop with one commit, made anew."""
    bare, work = shop.folder / "git" / (tmp_path.name + ".git"), tmp_path / "work"
    run("git", "init", "-q", "--bare", "-b", "main", bare)
    run("git", "init", "-q", "-b", "main", work)
    (work / "README").write_text("what was committed\n")
    who = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    run("git", *who, "add", "README", cwd=work)
    run("git", *who, "commit", "-q", "-m", "first", cwd=work)
    run("git", "push", "-q", bare, "main", cwd=work)
    return "git/" + bare.name


def git(person, *words):
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return person.types("git", "-c", "http.proxy=" + SOCKS5H, "-c", f"http.sslCAInfo={person.ca}", *words, env=env)


@pytest.mark.parametrize("where", [Shop.tls, Shop.clear])
def test_git_clones_and_pushes(e, person, shop, repository, where):
    done = git(person, "clone", where("git", repository), "copy")
    assert done.returncode == 0 and (person.home / "copy/README").read_text() == "what was committed\n", done.stderr
    (person.home / "copy/big").write_bytes(b"".join(hashlib.sha512(b"%d" % i).digest() for i in range(40000)))  # past http.postBuffer: sent in chunks
    who = ["-C", "copy", "-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    assert git(person, *who, "add", "big").returncode == 0
    assert git(person, *who, "commit", "-q", "-m", "second").returncode == 0
    done = git(person, *who, "push", "-q")
    assert done.returncode == 0, done.stderr
    assert run("git", "-C", shop.folder / repository, "log", "--format=%s", "main").stdout == "second\nfirst\n"


def test_git_says_that_it_was_refused(e, person, repository):
    done = git(person, "clone", f"https://git.evil.test/{repository}", "copy")
    assert done.returncode == 128 and "Can't complete SOCKS5 connection to git.evil.test. (2)" in done.stderr, done.stderr


# --- apt ---

@pytest.fixture(scope="module")
def archive(shop, tmp_path_factory):
    """A Debian archive of one package."""
    root, out = tmp_path_factory.mktemp("deb") / "tinything", shop.folder / "apt"
    (root / "DEBIAN").mkdir(parents=True)
    out.mkdir()
    (root / "DEBIAN/control").write_text(
        "Package: tinything\nVersion: 1.0\nArchitecture: all\nMaintainer: tests <tests@localhost>\nDescription: nothing\n")
    run("dpkg-deb", "--build", "--root-owner-group", root, out / "tinything_1.0_all.deb")
    (out / "Packages").write_text(run("apt-ftparchive", "packages", ".", cwd=out).stdout)
    (out / "Release").write_text(run("apt-ftparchive", "release", ".", cwd=out).stdout)
    return out


def apt(person, source, *words):
    """apt with everything of its own, so that the machine's stays as it is."""
    home = person.home
    for folder in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "status").write_text("")
    (home / "sources.list").write_text(f"deb [trusted=yes] {source} ./\n")
    (home / "apt.conf").write_text(
        f'Dir::Etc "{home}/etc";\nDir::Etc::sourcelist "{home}/sources.list";\nDir::Etc::sourceparts "-";\nDir::State "{home}/state";\n'
        f'Dir::State::status "{home}/status";\nDir::Cache "{home}/cache";\nAPT::Sandbox::User "root";\nAcquire::Retries "0";\n'
        f'Acquire::http::Proxy "{SOCKS5H}";\nAcquire::https::Proxy "{SOCKS5H}";\nAcquire::https::CaInfo "{person.ca}";\n')
    return person.types("apt-get", *words, env={"APT_CONFIG": str(home / "apt.conf")})


@pytest.mark.parametrize("where", [Shop.tls, Shop.clear])
def test_apt_updates_and_downloads(e, person, archive, where):
    source = where("deb", "apt")
    done = apt(person, source, "update")
    assert done.returncode == 0 and "W:" not in done.stderr, done
    done = apt(person, source, "download", "tinything")
    assert done.returncode == 0, done
    assert (person.home / "tinything_1.0_all.deb").read_bytes() == (archive / "tinything_1.0_all.deb").read_bytes()


def test_apt_says_that_it_was_refused(e, person, archive):
    done = apt(person, "https://deb.evil.test/apt", "update")
    assert "SOCKS proxy socks5h://10.200.0.1:1080 could not connect to deb.evil.test" in done.stderr, done
    assert "due to: connection not allowed by ruleset (2)" in done.stderr, done


# --- pip ---

@pytest.fixture(scope="module")
def index(shop):
    """A simple index (PEP 503) of one wheel, made by hand."""
    folder = shop.folder / "pip/simple/tinything"
    folder.mkdir(parents=True)
    wheel = "tinything-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel, "w") as z:
        z.writestr("tinything.py", "ANSWER = 42\n")
        z.writestr("tinything-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        z.writestr("tinything-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("tinything-1.0.dist-info/RECORD", "tinything.py,,\ntinything-1.0.dist-info/METADATA,,\n"
                   "tinything-1.0.dist-info/WHEEL,,\ntinything-1.0.dist-info/RECORD,,\n")
    (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{wheel}">{wheel}</a></body></html>')


def pip(person, url):
    if person.types("/usr/bin/python3", "-m", "pip", "--version").returncode != 0:
        pytest.skip("no pip for /usr/bin/python3 here")
    return person.types("/usr/bin/python3", "-m", "pip", "install", "--isolated", "--target", "here", "--no-cache-dir", "--disable-pip-version-check",
                        "--retries", "1", "--proxy", SOCKS5H, "--cert", person.ca, "--index-url", url, "tinything")


def test_pip_installs(e, person, shop, index):
    done = pip(person, shop.tls("pypi", "pip/simple"))
    assert done.returncode == 0 and (person.home / "here/tinything.py").read_text() == "ANSWER = 42\n", done


def test_pip_says_that_it_was_refused(e, person, index):
    done = pip(person, "https://pypi.evil.test/simple")
    assert done.returncode == 1 and "0x02: Connection not allowed by ruleset" in done.stderr + done.stdout, done


# --- npm ---

@pytest.fixture(scope="module")
def registry(shop, tmp_path_factory):
    """A package document and its tarball: all of a registry that an install asks for."""
    source, out = tmp_path_factory.mktemp("npm") / "package.json", shop.folder / "npm"
    out.mkdir()
    about = {"name": "tinything", "version": "1.0.0", "description": "nothing"}
    source.write_text(json.dumps(about))
    with tarfile.open(out / "tinything-1.0.0.tgz", "w:gz") as tar:
        tar.add(source, "package/package.json")
    shasum = hashlib.sha1((out / "tinything-1.0.0.tgz").read_bytes()).hexdigest()
    dist = {"tarball": shop.tls("npm", "npm/tinything-1.0.0.tgz"), "shasum": shasum}
    (out / "tinything").write_text(json.dumps({"name": "tinything", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {**about, "dist": dist}}}))


def npm(person, url, proxy):
    return person.types("npm", "install", "tinything", "--registry", url, "--proxy", proxy, "--https-proxy", proxy, "--cafile", person.ca,
                        "--cache", person.home / "cache", "--userconfig", "/dev/null", "--no-audit", "--no-fund", "--fetch-retries", "0",
                        "--no-update-notifier")


@needs("npm")
def test_npm_installs(e, person, shop, registry):
    done = npm(person, shop.tls("npm", "npm/"), SOCKS5H)
    assert done.returncode == 0, done
    assert json.loads((person.home / "node_modules/tinything/package.json").read_text())["version"] == "1.0.0"


@needs("npm")
def test_npm_with_socks5_asks_its_own_resolver_and_never_comes(e, person, shop, registry):
    done = npm(person, shop.tls("npm", "npm/"), "socks5://" + PROXY)
    assert done.returncode != 0 and "getaddrinfo EAI_AGAIN npm.wild.test" in done.stderr, done
    assert not e.records()


@needs("npm")
def test_npm_says_that_it_was_refused(e, person, registry):
    done = npm(person, "https://npm.evil.test/", SOCKS5H)
    assert done.returncode != 0 and "NotAllowed" in done.stderr, done


# --- TLS where a rule says http ---

@pytest.mark.parametrize("client, said", [
    (lambda p, url: git(p, "clone", url + "x.git"), "Access was denied"),
    (lambda p, url: apt(p, url, "update"), "A TLS fatal alert has been received"),
    (pip, "TLSV1_ALERT_ACCESS_DENIED"),
    pytest.param(lambda p, url: npm(p, url, SOCKS5H), "ERR_SSL_TLSV1_ALERT_ACCESS_DENIED", marks=needs("npm")),
], ids=["git", "apt", "pip", "npm"])
def test_a_stream_of_another_scheme_shows_as_an_alert(e, person, client, said):
    done = client(person, "https://plain.test:80/")
    assert said in done.stdout + done.stderr, done
    assert e.wait_record(status_code="scheme_mismatch")


# --- what people write themselves ---

def test_nc_ends_when_it_was_refused_though_its_input_stays_open(lab, e):
    client = lab.net.popen("guest", "nc", "-X", "5", "-x", PROXY, "plain.test", "80", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        client.stdin.write("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        client.stdin.flush()
        client.wait(20)  # it stays for our end alone, and goes at a reset
        assert '"reason":"http_host_mismatch"' in client.stdout.read()
    finally:
        client.kill()
        client.communicate()


PYTHON = """
import socks, ssl, sys
host, port, ca = sys.argv[1], int(sys.argv[2]), sys.argv[3]
s = socks.socksocket()
s.set_proxy(socks.SOCKS5, "10.200.0.1", 1080, rdns=True)
s.settimeout(20)
s.connect((host, port))
s = ssl.create_default_context(cafile=ca).wrap_socket(s, server_hostname=host)
s.sendall(b"GET /python HTTP/1.0\\r\\nHost: " + host.encode() + b"\\r\\n\\r\\n")
print(s.makefile("rb").read().split(b"\\r\\n\\r\\n")[1].decode(), end="")
"""


def test_python_with_pysocks(e, person):
    done = person.types("/usr/bin/python3", "-c", PYTHON, "allowed.test", "443", person.ca)
    assert done.stdout == "https /python\n", done.stderr
    done = person.types("/usr/bin/python3", "-c", PYTHON, "evil.test", "443", person.ca)
    assert "0x02: Connection not allowed by ruleset" in done.stderr


JAVA = """
import java.net.*;
public class Get {
    public static void main(String[] words) throws Exception {
        HttpURLConnection c = (HttpURLConnection) new URL(words[0]).openConnection();
        c.setConnectTimeout(20000);
        c.setReadTimeout(20000);
        System.out.print(new String(c.getInputStream().readAllBytes()));
    }
}
"""
# Somewhere a lease wants a token, so a password is asked for wherever a client offers one.
TOKEN_LEASE = "lease ls_other\nguest require token\nguest token sha256:" + "ab" * 32 + "\nmode allowlist\nallow https://allowed.test\n"


@needs("java")
def test_java_and_its_user_with_an_empty_password(egress, person):
    e = egress(leases={"person.policy": SOURCE + RULES, "other.policy": TOKEN_LEASE})
    (person.home / "Get.java").write_text(JAVA)
    run("keytool", "-importcert", "-noprompt", "-alias", "tests", "-file", person.ca, "-keystore", person.home / "trust", "-storepass", "changeit")

    def get(url):
        return person.types("java", "-XX:TieredStopAtLevel=1", "-DsocksProxyHost=10.200.0.1", "-DsocksProxyPort=1080", "-Duser.name=somebody",
                            f"-Djavax.net.ssl.trustStore={person.home}/trust", "-Djavax.net.ssl.trustStorePassword=changeit", "Get.java", url)
    assert get("http://plain.test/java").stdout == "http /java\n"
    done = get("https://allowed.test/java")
    assert done.stdout == "https /java\n", done.stderr
    assert e.wait_record(status_code="allowed", rule="web")["policy"]["uid"] == "ls_person"
    done = get("https://evil.test/")
    assert done.returncode == 1 and "java.net.SocketException: SOCKS: Connection not allowed by ruleset" in done.stderr, done.stderr


NODE = """
const net = require("net"), tls = require("tls"), fs = require("fs");
const [host, port, ca] = process.argv.slice(2);
const s = net.connect(1080, "10.200.0.1");
let held = Buffer.alloc(0), step = 0;
s.on("connect", () => s.write(Buffer.from([5, 1, 0])));
s.on("error", (e) => { console.error(e.message); process.exit(1); });
s.on("data", function taken(data) {
  held = Buffer.concat([held, data]);
  if (step === 0 && held.length >= 2) {
    step = 1;
    held = held.subarray(2);
    const p = Buffer.alloc(2);
    p.writeUInt16BE(+port);
    s.write(Buffer.concat([Buffer.from([5, 1, 0, 3, host.length]), Buffer.from(host), p]));
  }
  if (step === 1 && held.length >= 10) {
    if (held[1] !== 0) { console.error("reply " + held[1]); process.exit(1); }
    s.removeListener("data", taken);
    const t = tls.connect({ socket: s, servername: host, ca: fs.readFileSync(ca) }, () => t.write("GET /node HTTP/1.0\\r\\nHost: " + host + "\\r\\n\\r\\n"));
    let text = "";
    t.on("data", (d) => { text += d; });
    t.on("end", () => process.stdout.write(text.split("\\r\\n\\r\\n")[1]));
    t.on("error", (e) => { console.error(e.message); process.exit(1); });
  }
});
"""


@needs("node")
def test_node_with_its_own_tls(e, person):
    (person.home / "get.js").write_text(NODE)
    done = person.types("node", "get.js", "allowed.test", 443, person.ca)
    assert done.stdout == "https /node\n", done.stderr
    done = person.types("node", "get.js", "evil.test", 443, person.ca)
    assert done.returncode == 1 and done.stderr == "reply 2\n"


# --- three TLS libraries, each with the name it is told ---

ASK = "GET /tls HTTP/1.1\r\nHost: allowed.test\r\n\r\n"


def openssl(person, port, name):
    return ("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", name, "-CAfile", person.ca, "-verify_return_error", "-ign_eof")


def gnutls(person, port, name):
    return ("gnutls-cli", "--port", port, "--x509cafile", person.ca, "--sni-hostname", name, "--verify-hostname", name, "127.0.0.1")


def nss(person, port, name):
    store = person.home / "nss"
    if not store.exists():
        store.mkdir()
        run("certutil", "-N", "-d", f"sql:{store}", "--empty-password")
        run("certutil", "-A", "-d", f"sql:{store}", "-n", "tests", "-t", "C,,", "-i", person.ca)
    return ("tstclnt", "-h", "127.0.0.1", "-p", port, "-a", name, "-d", f"sql:{store}", "-o", "-V", "tls1.2:tls1.3")


@pytest.mark.parametrize("client, alert", [
    pytest.param(openssl, "unrecognized name", marks=needs("openssl")),
    pytest.param(gnutls, "The server name sent was not recognized", marks=needs("gnutls-cli")),
    pytest.param(nss, "SSL_ERROR_UNRECOGNIZED_NAME_ALERT", marks=needs("tstclnt")),
])
def test_a_tls_library_passes_with_the_name_and_hears_an_alert_with_another(lab, e, person, client, alert):
    with Forwarder(lab, "allowed.test", 443) as f:
        said = person.talks(*client(person, f.port, "allowed.test"), say=ASK, until="https /tls")
        assert said.endswith("https /tls\n"), said
        said = person.talks(*client(person, f.port, "evil.test"), say="", until="https /tls")
        assert "https /tls" not in said and alert in said, said
    assert e.wait_record(status_code="tls_sni_mismatch")
