"""Who is asking: by listener, source and token in all combinations, by the states of leases, and what guessing and leaking would find."""
import hashlib
import json
import time

import pytest
from lab import wait_for
from socks import NOT_ALLOWED, OK, request

RULES = "mode allowlist\nallow tcp://allowed.test:7000\n"
NET = "10.200.1."
TOKENS = {name: "v1." + (name * 43)[:43] for name in ("ls_tok", "ls_stok", "ls_ltok", "ls_all", "ls_two_a", "ls_two_b", "ls_late")}
OPTIONS = "connects_per_s = 100000\n"


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


def lease(name, *guest, rules=RULES, before=""):
    return f"lease {name}\n{before}" + "".join(f"guest {line}\n" for line in guest) + rules


LEASES = {
    "ls_src": ("require source", f"source {NET}10/32"),
    "ls_lst": ("require listener", "listener solo"),
    "ls_pair": ("require source listener", f"source {NET}11/32", "listener pair"),
    "ls_tok": ("require token", "token sha256:" + digest(TOKENS["ls_tok"])),
    "ls_stok": ("require source token", f"source {NET}12/32 source {NET}16/30", "token sha256:" + digest(TOKENS["ls_stok"])),
    "ls_ltok": ("require listener token", "listener vault", "token sha256:" + digest(TOKENS["ls_ltok"])),
    "ls_all": ("require listener source token", f"source {NET}13/32", "listener all", "token sha256:" + digest(TOKENS["ls_all"])),
    "ls_amb1": ("require source", f"source {NET}14/32"),
    "ls_amb2": ("require source", f"source {NET}14/32"),
    "ls_two": ("require token", "token sha256:" + digest(TOKENS["ls_two_a"]), "token sha256:" + digest(TOKENS["ls_two_b"])),
}
PORTS = {"main": 1300, "solo": 1301, "pair": 1302, "vault": 1303, "all": 1304}


@pytest.fixture(scope="module")
def sources(lab):
    """More addresses for the second guest: .10 to .29."""
    for i in range(10, 30):
        lab.net.run("guest2", "ip", "addr", "add", f"{NET}{i}/32", "dev", "g1")
    yield
    for i in range(10, 30):
        lab.net.run("guest2", "ip", "addr", "del", f"{NET}{i}/32", "dev", "g1")


@pytest.fixture(scope="module")
def e(module_egress, sources):
    return module_egress(leases={f"{name}.policy": lease(name, *guest) for name, guest in LEASES.items()}, daemon=OPTIONS,
                         listeners={name: f"tcp:10.200.1.1:{port}" for name, port in PORTS.items()})


def arrive(e, source, listener="main"):
    return e.guest("guest2", to=("10.200.1.1", PORTS[listener]), source=f"{NET}{source}")


ARRIVALS = [
    # source, listener, credentials, whose lease or why not
    (10, "main", None, "ls_src"), (10, "pair", None, "ls_src"), (10, "main", ("root", ""), "ls_src"), (10, "main", ("", ""), "ls_src"),
    (10, "main", ("ls_src", "anything"), "ls_src"), (10, "main", ("nobody", "x"), "ls_src"), (20, "solo", None, "ls_lst"),
    (20, "solo", ("root", ""), "ls_lst"), (11, "pair", None, "ls_pair"),
    (20, "main", ("ls_tok", TOKENS["ls_tok"]), "ls_tok"), (20, "main", ("ls_tok/build-7", TOKENS["ls_tok"]), "ls_tok"),
    (20, "main", ("ls_tok/a/b c", TOKENS["ls_tok"]), "ls_tok"), (20, "main", ("ls_two", TOKENS["ls_two_a"]), "ls_two"),
    (20, "main", ("ls_two", TOKENS["ls_two_b"]), "ls_two"),
    (12, "main", ("ls_stok", TOKENS["ls_stok"]), "ls_stok"), (17, "main", ("ls_stok", TOKENS["ls_stok"]), "ls_stok"),
    (20, "vault", ("ls_ltok", TOKENS["ls_ltok"]), "ls_ltok"), (13, "all", ("ls_all", TOKENS["ls_all"]), "ls_all"),
    # right token, another's way of arrival
    (20, "main", ("ls_stok", TOKENS["ls_stok"]), "identity_mismatch"), (20, "main", ("ls_ltok", TOKENS["ls_ltok"]), "identity_mismatch"),
    (13, "main", ("ls_all", TOKENS["ls_all"]), "identity_mismatch"), (20, "all", ("ls_all", TOKENS["ls_all"]), "identity_mismatch"),
    (12, "vault", ("ls_ltok", TOKENS["ls_ltok"]), "identity_mismatch"), (12, "main", ("ls_tok", TOKENS["ls_tok"]), "identity_mismatch"),
    (10, "main", ("ls_tok", TOKENS["ls_tok"]), "identity_mismatch"), (20, "solo", ("ls_tok", TOKENS["ls_tok"]), "identity_mismatch"),
    (20, "vault", ("ls_tok", TOKENS["ls_tok"]), "identity_mismatch"),
    # several fit
    (14, "main", None, "lease_ambiguous"), (10, "solo", None, "lease_ambiguous"),
]


def test_each_way_of_arrival_has_its_lease_or_its_reason(e):
    wrong = []
    for source, listener, credentials, expected in ARRIVALS:
        before = e.decisions()
        with arrive(e, source, listener) as s:
            reply = s.open("allowed.test", 7000, *(credentials or ()))
            got = [reason for reason, count in e.decisions().items() if count != before[reason]]
            if got == ["allowed"]:
                got = [e.record_of(s)["policy"]["uid"]]
            if got != [expected] or reply != (OK if expected.startswith("ls_") else NOT_ALLOWED):
                wrong.append((source, listener, credentials, expected, reply, got))
    assert not wrong


@pytest.mark.parametrize("source, listener", [(20, "main"), (11, "main"), (12, "main"), (13, "all"), (15, "main")])
def test_where_only_a_token_could_help_no_password_is_answered_with_ff(e, source, listener):
    with e.decides("auth_required"), arrive(e, source, listener) as s:
        assert s.greet(b"\x00") == b"\x05\xff"
        assert s.rest() == b""


LOGINS = [
    ("ls_tok", "wrong"), ("ls_tok", ""), ("ls_tok", TOKENS["ls_tok"] + "\n"), ("ls_tok", TOKENS["ls_tok"][:-1]), ("ls_tok", TOKENS["ls_tok"].lower().upper()),
    ("ls_tok", digest(TOKENS["ls_tok"])), ("ls_tok", "sha256:" + digest(TOKENS["ls_tok"])), ("nobody", TOKENS["ls_tok"]), ("ls_stok", TOKENS["ls_tok"]),
    (b"ls_tok\0", TOKENS["ls_tok"]), (b"ls_tok\0x", TOKENS["ls_tok"]), (b"ls_tok", TOKENS["ls_tok"].encode() + b"\0"), ("LS_TOK", TOKENS["ls_tok"]),
    (" ls_tok", TOKENS["ls_tok"]), ("ls_tok ", TOKENS["ls_tok"]), ("ls_to", TOKENS["ls_tok"]), ("", TOKENS["ls_tok"]), ("/ls_tok", TOKENS["ls_tok"]),
    ("ls_tok/" + "x" * 33, TOKENS["ls_tok"]), (b"ls_tok/\x1b[2J", TOKENS["ls_tok"]), (b"ls_tok/\xc3\xa9", TOKENS["ls_tok"]), ("x" * 255, "y" * 255),
    ("ls_src", ""), ("ls_amb1", "x"),
]


def test_a_login_that_fits_no_lease_fails_and_says_no_more(e):
    source = 21
    for i, (user, password) in enumerate(LOGINS):
        if i % 4 == 0:
            source += 1  # a few each, so that nobody is slowed down
        with e.decides("auth_failed"), arrive(e, source) as s:
            assert s.greet(b"\x02") == b"\x05\x02"
            assert s.login(user, password) == b"\x01\x01", (user, password)
            assert s.rest() == b""


@pytest.mark.parametrize("message", [b"\x05\x01\x00\x03\x0callowed.test\x1b\x58", b"\x00", b"\x02\x01a\x01b"])
def test_what_is_no_login_where_one_was_agreed_fails(e, message):
    with e.decides("auth_failed"), arrive(e, 20) as s:
        assert s.greet(b"\x02") == b"\x05\x02"
        s.send(message)
        assert s.rest() == b"\x01\x01"


def test_a_login_and_request_in_one_segment_are_served(e):
    token = TOKENS["ls_tok"].encode()
    with arrive(e, 20) as s:
        s.send(b"\x05\x01\x02\x01\x06ls_tok" + bytes([len(token)]) + token + request("allowed.test", 7000) + b"hi")
        assert s.take(16) == b"\x05\x02\x01\x00\x05\x00\x00\x01" + bytes(6) + b"hi"


def test_a_login_cut_at_every_byte_is_served(e):
    token = TOKENS["ls_tok"].encode()
    message = b"\x05\x01\x02\x01\x06ls_tok" + bytes([len(token)]) + token + request("allowed.test", 7000)
    with arrive(e, 20) as s:
        s.send(message, one_by_one=True)
        assert s.take(14) == b"\x05\x02\x01\x00\x05\x00\x00\x01" + bytes(6)


def test_guessing_is_slowed_down_and_the_right_token_is_not(e):
    begun = time.monotonic()
    for _ in range(9):
        with arrive(e, 28) as s:
            s.greet(b"\x02")
            assert s.login("ls_tok", "guess") == b"\x01\x01"
    assert time.monotonic() - begun >= 1.4  # 100 + 200 + 400 + 800 ms
    with arrive(e, 28) as s:
        assert s.open("allowed.test", 7000, "ls_tok", TOKENS["ls_tok"]) == OK


def test_many_guesses_at_once_are_closed_and_leave_nothing(e):
    before = e.descriptors()
    held = [arrive(e, 29) for _ in range(80)]
    for s in held:
        s.greet(b"\x02")
        s.send(b"\x01\x06ls_tok\x05guess")
    with arrive(e, 29) as s:
        assert s.open("allowed.test", 7000, "ls_tok", TOKENS["ls_tok"]) == OK
    answers = [s.rest() for s in held]
    for s in held:
        s.close()
    assert set(answers) == {b"\x01\x01", b""}
    wait_for(lambda: e.descriptors() <= before)


def test_an_unknown_source_is_closed_at_accept_when_no_token_could_help(egress, sources):
    e = egress(leases={"src.policy": lease("ls_src", *LEASES["ls_src"])}, daemon=OPTIONS)
    with e.decides("lease_unknown"), e.guest("guest2", source=NET + "20") as s:
        assert s.rest() == b""
    assert f"(no lease)  lease_unknown  from {NET}20:" in e.ctl("why").stdout and e.ctl("why", "ls_src").stdout == ""
    with e.guest("guest2", source=NET + "10") as s:
        assert s.open("allowed.test", 7000) == OK


def test_without_any_lease_everybody_is_unknown(egress):
    e = egress(leases={}, daemon=OPTIONS)
    for guest in ("guest", "guest2"):
        with e.decides("lease_unknown"), e.guest(guest) as s:
            assert s.rest() == b""


# --- states ---

def document(name, network=None, **members):
    doc = {"typ": "egress.lease/1", "lease": name, "state": "active", "guest": {"require": ["token"], "tokens": [{"id": "t", "sha256": digest(TOKENS["ls_late"])}]},
           "network": network or {"mode": "allowlist", "rules": [{"id": "r", "allow": "tcp://allowed.test:7000"}]}}
    doc.update(members)
    return json.dumps(doc)


def tokens(*ends):
    return {"require": ["token"], "tokens": [{"id": f"t{i}", "sha256": digest(token), "exp_ms": int(time.time() * 1000) + ms} for i, (token, ms) in enumerate(ends)]}


def test_leases_and_tokens_in_every_state_answer_for_themselves(egress):
    now = int(time.time() * 1000)
    rows = {
        "active": (document("active"), None),
        "ended": (document("ended", exp_ms=now - 1000), "lease_expired"),
        "later": (document("later", nbf_ms=now + 3600000), "lease_not_yet"),
        "suspended": (document("suspended", state="suspended"), "lease_suspended"),
        "revoked": (document("revoked", state="revoked"), "lease_revoked"),
        "nothing": (document("nothing", {"mode": "deny_all", "rules": []}), "scope_none"),
        "claimed": (document("claimed", {"mode": "allowlist", "claimed_scope": "none", "rules": [{"id": "r", "allow": "tcp://allowed.test:7000"}]}), "scope_none"),
        "unknown": (document("unknown", {"mode": "whatever", "rules": []}), "scope_undeclared"),
        "faulty": (document("faulty", {"mode": "allowlist", "rules": [{"id": "r", "allow": "https://*"}]}), "policy_invalid"),
        "spent": (document("spent", guest=tokens((TOKENS["ls_late"], -1000))), "auth_failed"),
        "rolled": (document("rolled", guest=tokens((TOKENS["ls_two_a"], -1000), (TOKENS["ls_late"], 3600000))), None),
    }
    e = egress(leases={f"{name}.json": text for name, (text, _) in rows.items()}, daemon=OPTIONS)
    for name, (_, reason) in rows.items():
        with e.decides(reason or "allowed"), e.guest() as s:
            s.greet(b"\x02")
            status = s.login(name, TOKENS["ls_late"])
            if reason == "auth_failed":
                assert status == b"\x01\x01", name
                continue
            assert status == b"\x01\x00", name
            assert s.request("allowed.test", 7000) == (NOT_ALLOWED if reason else OK), name


def test_a_token_ends_in_its_hour_and_leaves_what_it_opened(egress):
    e = egress(leases={"a.json": document("a", guest=tokens((TOKENS["ls_late"], 2500)))}, daemon=OPTIONS)
    with e.guest() as s:
        assert s.open("allowed.test", 7000, "a", TOKENS["ls_late"]) == OK
        time.sleep(3)
        with e.guest() as late:
            late.greet(b"\x02")
            assert late.login("a", TOKENS["ls_late"]) == b"\x01\x01"
        s.send(b"still")
        assert s.take(5) == b"still"


def test_a_token_that_is_taken_away_opens_nothing_from_then_on(egress):
    first, second = ("token sha256:" + digest(TOKENS[t]) for t in ("ls_two_a", "ls_two_b"))
    e = egress(leases={"two.policy": lease("ls_two", "require token", first, second)}, daemon=OPTIONS)
    e.publish("leases/two.policy", lease("ls_two", "require token", second))
    with e.guest() as s:
        s.greet(b"\x02")
        assert s.login("ls_two", TOKENS["ls_two_a"]) == b"\x01\x01"
    with e.guest() as s:
        assert s.open("allowed.test", 7000, "ls_two", TOKENS["ls_two_b"]) == OK


def test_a_fresh_token_of_the_tool_is_taken_with_its_digest(egress):
    e = egress(leases={}, daemon=OPTIONS)
    made = json.loads(e.ctl("token", "new", "--json", socket_option=False).stdout)
    token, sha256 = made["token"], made["sha256"]
    assert token.startswith("v1.") and len(token) == 46
    e.publish("leases/new.policy", lease("ls_new", "require token", f"token {sha256 if sha256.startswith('sha256:') else 'sha256:' + sha256}"))
    with e.guest() as s:
        assert s.open("allowed.test", 7000, "ls_new", token) == OK


def test_no_secret_stands_in_any_log_record_report_or_metric(e):
    with arrive(e, 20) as s:
        assert s.open("allowed.test", 7000, "ls_tok", TOKENS["ls_tok"]) == OK
        with arrive(e, 20) as late:
            late.greet(b"\x02")
            late.login("ls_tok", "a-secret-guess")
        wait_for(lambda: e.records(status_code="auth_failed"))
        seen = [e.log(), e.log("egress-sidecar"), e.records_file.read_text(), e.admin("/metrics")[1]]
        for words in (("why",), ("sessions",), ("leases",), ("health",), ("pins",), ("sidecar",), ("why", "--json"), ("sessions", "--json")):
            done = e.ctl(*words)
            seen.append(done.stdout + done.stderr)
    for text in seen:
        for secret in [*TOKENS.values(), *map(digest, TOKENS.values()), "a-secret-guess"]:
            assert secret not in text
