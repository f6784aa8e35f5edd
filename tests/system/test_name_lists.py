"""
The default budgets of DNS never hit honest clients: real ones install, clone, pull and browse over very many hosts; then the names that they asked
for, taken from the decision records, go through the budget once more, at the pace that was seen and at ten times it.
"""
import json
import os
import random
import subprocess

import pytest
from guest import Person, Shop, SOURCE, needs
from lab import BUILD, wait_for
from nameserver import NXDOMAIN
from registries import crates, debian_archive, expand, image, npm_packages, page, repository_of_parts, shape_list, shaped_names, wheels
from shop import CLEAR_PORT, TLS_PORT

SOCKS5H = "socks5h://10.200.0.1:1080"
RULES = f"allow https://*.wild.test:{TLS_PORT} as shop\nallow http://*.wild.test:{CLEAR_PORT} as clear-shop\n"
BELOW = ".wild.test"
FASTER = 10


@pytest.fixture
def shop(lab, tmp_path):
    one = Shop(lab, tmp_path)
    (one.folder / "dot.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>')
    yield one
    one.close()


@pytest.fixture
def person(lab, tmp_path):
    return Person(lab, tmp_path)


@pytest.fixture
def e(egress, names):
    """Nothing of the budgets is configured: what is in force are the defaults."""
    names.zone.clear()
    names.zone["*" + BELOW] = {"A": ["93.184.215.14"]}
    return egress(leases={"person.policy": SOURCE + RULES}, daemon="name_servers = 93.184.215.16\n")


def asked(e):
    """(when in ms, name, did it come to nothing) of every connection, in order."""
    first = {}
    for record in e.records():
        first.setdefault(record["metadata"]["correlation_uid"], record)
    rows = [(r["time"] - r.get("unmapped", {}).get("connect_ms", 0) - r.get("unmapped", {}).get("dns_ms", 0), r["dst_endpoint"]["hostname"],
             r["status_code"].startswith("dns_")) for r in first.values() if r["dst_endpoint"].get("hostname", "").endswith(BELOW)]
    start = min((when for when, _, _ in rows), default=0)
    return sorted((when - start, name, failed) for when, name, failed in rows)


def replay(config, rows, speed=1, *words):
    """What the budget says of such a list."""
    text = "".join(f"{when} {name} {len(name) - len(BELOW)} {int(failed)}\n" for when, name, failed in rows)
    done = subprocess.run([BUILD / "tests/system/budget_replay", config, str(speed), *words], input=text, text=True, capture_output=True, timeout=60, check=False,
                          env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tell(what, said):
    print(f"{what:24} " + ", ".join(f"{key} {said[key + used]} of {said[key + '_max']}" for key, used in
                                   (("names", ""), ("bits", ""), ("again", ""), ("lookups", "_peak"), ("failures", "_peak"))) + f", {said['lookups']} lookups")


def stays_within(e, hosts):
    """Nothing was refused for a budget on the way, and nothing is when the same comes again, faster. At most half of what is counted by the hour is used."""
    wait_for(lambda: len({name for _, name, _ in asked(e)}) >= hosts)
    assert "dns_budget" not in {r["status_code"] for r in e.records()} and e.decisions().get("dns_budget", 0) == 0
    rows = asked(e)
    for speed in (1, FASTER):
        said = replay(e.config, rows, speed)
        tell(f"{len(rows)} connections, {speed}x", said)
        assert said["refused"] == 0, said
    assert all(said[key] <= said[key + "_max"] / 2 for key in ("names", "bits", "again")), said
    tell("each connection asks", replay(e.config, rows, 1, "--without-pins"))


@needs("npm")
def test_npm_with_a_lock_file_of_hundreds(e, person, shop):
    root = npm_packages(shop, 255, hosts=10)
    common = ("--registry", shop.tls("npm", "npm/"), "--proxy", SOCKS5H, "--https-proxy", SOCKS5H, "--cafile", person.ca, "--userconfig", "/dev/null",
              "--no-audit", "--no-fund", "--fetch-retries", "0", "--no-update-notifier", "--loglevel", "error")
    done = person.types("npm", "install", root, *common, "--cache", person.home / "cache", "--package-lock-only")
    assert done.returncode == 0, done
    lock = json.loads((person.home / "package-lock.json").read_text())
    assert len({p["resolved"] for p in lock["packages"].values() if "resolved" in p}) == 255
    done = person.types("npm", "ci", *common, "--cache", person.home / "other")
    assert done.returncode == 0 and (person.home / "node_modules/part-254/package.json").exists(), done
    stays_within(e, 11)


def test_pip_with_hashed_requirements(e, person, shop):
    if person.types("/usr/bin/python3", "-m", "pip", "--version").returncode != 0:
        pytest.skip("no pip for /usr/bin/python3 here")
    (person.home / "requirements.txt").write_text(wheels(shop, 60, hosts=60))
    done = person.types("/usr/bin/python3", "-m", "pip", "install", "--isolated", "--target", "here", "--no-cache-dir", "--disable-pip-version-check",
                        "--retries", "1", "--proxy", SOCKS5H, "--cert", person.ca, "--index-url", shop.tls("index", "simple"), "--require-hashes",
                        "--no-deps", "-q", "-r", "requirements.txt")
    assert done.returncode == 0 and (person.home / "here/part59.py").exists(), done
    stays_within(e, 61)


@needs("cargo")
def test_cargo_fetches_what_its_lock_file_says(e, person, shop):
    env = {"RUSTUP_HOME": os.environ.get("RUSTUP_HOME", os.path.expanduser("~/.rustup")), "CARGO_HTTP_PROXY": SOCKS5H, "CARGO_HTTP_CAINFO": str(person.ca),
           "CARGO_NET_RETRY": "0", "CARGO_REGISTRIES_TESTS_INDEX": "sparse+" + shop.tls("index", "index/")}
    version = person.types("cargo", "--version", env=env)
    if version.returncode != 0 or [int(part) for part in version.stdout.split()[1].split(".")[:2]] < [1, 68]:
        pytest.skip("no cargo that reads a sparse index here")
    (person.home / "src").mkdir()
    (person.home / "src/lib.rs").write_text("")
    (person.home / "Cargo.toml").write_text('[package]\nname = "whole"\nversion = "1.0.0"\nedition = "2018"\n[dependencies]\n' + crates(shop, 80))
    for words in (("generate-lockfile",), ("fetch", "--locked")):
        done = person.types("cargo", *words, env=env)
        assert done.returncode == 0, done
    assert (person.home / "Cargo.lock").read_text().count("[[package]]") == 81
    stays_within(e, 81)


def test_apt_with_many_sources_and_mirrors(e, person, shop, tmp_path_factory):
    debian_archive(shop, tmp_path_factory.mktemp("deb"))
    home = person.home
    for folder in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d", "etc/preferences.d"):
        (home / folder).mkdir(parents=True)
    (home / "status").write_text("")
    (home / "sources.list").write_text("".join(f"deb [trusted=yes] {shop.tls(f'deb-{i}', 'apt')} ./\n" for i in range(20)) +
                                       "".join(f"deb [trusted=yes] {shop.clear(f'front-{i}', f'via/mirror-{i}/apt')} ./\n" for i in range(20)))
    (home / "apt.conf").write_text(
        f'Dir::Etc "{home}/etc";\nDir::Etc::sourcelist "{home}/sources.list";\nDir::Etc::sourceparts "-";\nDir::State "{home}/state";\n'
        f'Dir::State::status "{home}/status";\nDir::Cache "{home}/cache";\nAPT::Sandbox::User "root";\nAcquire::Retries "0";\n'
        f'Acquire::http::Proxy "{SOCKS5H}";\nAcquire::https::Proxy "{SOCKS5H}";\nAcquire::https::CaInfo "{person.ca}";\n')
    for words in (("update",), ("download", "tinything")):
        done = person.types("apt-get", *words, env={"APT_CONFIG": str(home / "apt.conf")})
        assert done.returncode == 0 and "W:" not in done.stderr, done
    stays_within(e, 60)


def test_git_with_submodules_on_many_hosts(e, person, shop, tmp_path_factory):
    path = repository_of_parts(shop, tmp_path_factory.mktemp("parts"), 40)
    done = person.types("git", "-c", "http.proxy=" + SOCKS5H, "-c", f"http.sslCAInfo={person.ca}", "clone", "-q", "--recurse-submodules", "--jobs", "8",
                        shop.tls("git", path), "copy", env={"GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"})
    assert done.returncode == 0 and (person.home / "copy/p39/.git").exists(), done
    stays_within(e, 41)


@needs("skopeo")
def test_a_container_image_whose_blobs_lie_elsewhere(e, person, shop):
    image(shop, 40)
    done = person.types("skopeo", "copy", "--insecure-policy", f"docker://registry{BELOW}:{TLS_PORT}/app:latest", "dir:" + str(person.home / "copy"),
                        env={"HTTPS_PROXY": "socks5://10.200.0.1:1080", "SSL_CERT_FILE": str(person.ca)})
    assert done.returncode == 0, done
    stays_within(e, 42)


PAGE_HOSTS, GONE_HOSTS = 140, 30


@needs("chromium")
def test_a_browser_on_a_page_of_very_many_hosts(e, person, shop, names):
    """Far more hosts than any page has that people read, of every shape, and some that are gone."""
    hosts = shaped_names(PAGE_HOSTS // len(shape_list()) + 1)[:PAGE_HOSTS]
    gone = [f"gone-{i}" for i in range(GONE_HOSTS)]
    names.zone.update({host + BELOW: NXDOMAIN for host in gone})
    mixed = [host for pair in zip(hosts, gone) for host in pair] + hosts[GONE_HOSTS:]
    page(shop, "many.html", mixed)
    done = person.types("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", f"--user-data-dir={person.home}/profile",
                        "--proxy-server=socks5://10.200.0.1:1080", "--dump-dom", shop.clear("page", "many.html"))
    assert done.returncode == 0 and "<title>many</title>" in done.stdout, done
    stays_within(e, PAGE_HOSTS + GONE_HOSTS)


def test_names_of_every_shape_fit_an_hour(e):
    """Ten a second: a browser's hour of names that look like chance. And no shape is so long that a hundred of it would be too many."""
    names_of_all = [name + BELOW for name in shaped_names(9)][:360]
    said = replay(e.config, [(100 * i, name, False) for i, name in enumerate(names_of_all)])
    tell("every shape", said)
    assert said["refused"] == 0 and said["names"] == 360
    for shape in shape_list():
        chance = random.Random(7)
        alike = dict.fromkeys(expand(shape, chance) + BELOW for _ in range(100))
        said = replay(e.config, [(100 * i, name, False) for i, name in enumerate(alike)])
        assert said["refused"] == 0, (shape, said)
