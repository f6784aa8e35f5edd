"""Roots that name changes only, from a sidecar in the tests' hands: what is taken, what is told, and which connections end."""
import random

import pytest
from publisher import Publisher, ceiling, lease
from socks import NOT_ALLOWED, OK, Socks

TARGET = "93.184.215.14", 7000


@pytest.fixture
def publisher(lab, egress):
    e = egress(leases={}, autostart=False)
    e.start_daemon()
    one = Publisher(e)
    one.lab, one.egress = lab, e
    yield one
    one.close()


def guest(publisher, name):
    """A connection by the lease's token, and what became of the request; None: nobody comes by tokens, or this one was refused."""
    s = Socks(publisher.lab, to=publisher.door)
    if s.greet(b"\x02") != b"\x05\x02" or s.login(name, "secret-" + name) != b"\x01\x00":
        s.close()
        return s, None
    return s, s.request(*TARGET)


def outcome(publisher, name):
    s, code = guest(publisher, name)
    s.close()
    return code


def tunnel(publisher, name):
    s, code = guest(publisher, name)
    assert code == OK
    return s


def echoes(s):
    s.send(b"ping")
    return s.take(4) == b"ping"


def ended(s):
    return s.rest() in (b"", b"RESET")


def allowed(name, rev=1):
    return lease(name, "secret-" + name, rev, TARGET)


def shut(name, rev=1):
    return lease(name, "secret-" + name, rev, None)


def test_changes_are_taken_over_the_newest_and_only_they_are_told(publisher):
    assert publisher.publish({name: allowed(name) for name in ("a", "b", "c")}) is None
    assert sorted(publisher.told) == ["a", "b", "c"]
    slots = dict(publisher.slots)
    assert publisher.publish({"b": shut("b"), "d": allowed("d")}) is None
    assert sorted(publisher.told) == ["b", "d"]
    assert {name: publisher.slots[name] for name in slots} == slots
    assert publisher.publish({"a": None, "c": allowed("c")}) is None
    assert publisher.told == ["c"]
    assert [outcome(publisher, name) for name in "abcd"] == [None, NOT_ALLOWED, OK, OK]
    listed = publisher.egress.ctl("leases").stdout.splitlines()[1:]
    assert [line.split()[0] for line in listed] == ["b", "c", "d"]
    assert publisher.publish({"c": allowed("c"), "e": allowed("e")}, base=0) is None
    assert sorted(publisher.told) == ["c", "e"]
    assert [outcome(publisher, name) for name in "abcde"] == [None, None, OK, None, OK]


def test_another_base_is_refused_in_the_words_that_ask_for_a_complete_root(publisher):
    publisher.version = 6
    assert publisher.publish({"a": allowed("a")}) == "its base is not held"  # nothing is held yet
    assert publisher.publish({"a": allowed("a"), "b": allowed("b")}, base=0) is None
    with tunnel(publisher, "a") as s:
        for base in (publisher.version - 1, publisher.version + 1):
            assert publisher.publish({"a": None}, base=base) == "its base is not held"
        assert echoes(s) and outcome(publisher, "a") == OK
        assert publisher.publish({"b": None}) is None
        assert echoes(s) and outcome(publisher, "b") is None


def test_a_change_ends_what_it_forbids_and_nothing_else(publisher):
    assert publisher.publish({name: allowed(name) for name in "abcdefgh"}) is None
    held = {name: tunnel(publisher, name) for name in "abcdefgh"}
    assert publisher.publish({"a": shut("a"), "b": None, "c": allowed("c", rev=2)}) is None
    assert ended(held.pop("a")) and ended(held.pop("b"))
    assert all(echoes(s) for s in held.values())
    assert publisher.publish({"b": allowed("b"), "d": None}) is None
    assert ended(held.pop("d"))
    held["b"] = tunnel(publisher, "b")
    assert all(echoes(s) for s in held.values())
    assert publisher.publish({}, over=ceiling(is_open=False)) is None
    assert all(ended(s) for s in held.values())


def test_a_root_that_fails_anywhere_changes_nothing(publisher):
    assert publisher.publish({name: allowed(name) for name in "ab"}) is None
    with tunnel(publisher, "a") as s:
        assert publisher.publish({"a": shut("a", rev=77), "b": None}, send=False) == "a named segment is missing"
        assert publisher.publish({"a": None, "c": allowed("another")}) == "a lease segment is of another lease"
        assert publisher.publish({"a": None, "c": ceiling()}) == "a named segment is of another kind"
        assert echoes(s) and outcome(publisher, "b") == OK
        assert publisher.publish({"b": shut("b")}) is None
        assert publisher.told == ["b"]
        assert echoes(s) and outcome(publisher, "b") == NOT_ALLOWED


def test_a_lease_that_left_and_came_back_is_another_life(publisher):
    assert publisher.publish({name: allowed(name) for name in "ab"}) is None
    before = publisher.slots["a"]
    with tunnel(publisher, "a") as s:
        assert publisher.publish({"a": None}) is None
        assert ended(s)
    assert publisher.publish({"a": allowed("a")}) is None
    slot, generation = publisher.slots["a"]
    assert (slot, generation) == (before[0], before[1] + 1) or slot != before[0]
    with tunnel(publisher, "a") as s:
        assert publisher.publish({"b": shut("b")}) is None
        assert echoes(s)
        assert publisher.publish({"a": shut("a")}) is None
        assert ended(s)


def test_any_row_of_changes_ends_where_it_says(publisher):
    """Who is let through, and who stays, after each of many random changes."""
    chance, names, model, revs, held = random.Random(7), "abcdefghij", {}, {}, {}
    for step in range(80):
        changes = {name: chance.choice((None, allowed(name, step), allowed(name, step), shut(name, step)))
                   for name in chance.sample(names, chance.randint(0, 3))}
        model.update(changes)
        revs.update((name, step) for name in changes)
        over = [name for name, data in model.items() if data is not None]
        if step == 0 or chance.random() < 0.1:
            assert publisher.publish({name: model[name] for name in over}, base=0) is None
            for name in [name for name in publisher.slots if name not in over]:
                publisher.set_slot(name, 0)
                del publisher.slots[name]
        else:
            assert publisher.publish(changes) is None
        is_open = {name for name in over if model[name] != shut(name, revs[name])}
        for name in [name for name in held if name not in is_open]:
            assert ended(held.pop(name))
        assert all(echoes(s) for s in held.values())
        for name in chance.sample(names, 2):
            if name in over:
                assert outcome(publisher, name) == (OK if name in is_open else NOT_ALLOWED), (step, name)
            elif step % 20 == 0:  # each wrong token makes the next one slower
                assert outcome(publisher, name) is None, (step, name)
            if name in is_open and name not in held:
                held[name] = tunnel(publisher, name)
        publisher.stay_live()
    for s in held.values():
        s.close()
