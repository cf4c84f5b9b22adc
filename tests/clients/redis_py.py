#!/usr/bin/env python3
"""Bloomgate through redis-py: what an application does with it, RESP2 or RESP3, each answer compared.

    redis_py.py --port PORT --guarded-port PORT --password TEXT --protocol 2|3

Prints one line for each group of checks. Ends with code 1 at the first answer that is not as expected, after it
said what was sent, what was expected and what came.
"""

import argparse
import asyncio
import sys
import threading
import traceback

import redis
import redis.asyncio


class Wrong(Exception):
    """An answer that is not as expected."""


def check(sent, got, expected):
    """The answer is equal, and of the same sort: True is no 1 and "1" is no 1."""
    if got != expected or shape(got) != shape(expected):
        raise Wrong(f"sent      {sent}\nexpected  {expected!r}\ngot       {got!r}")


def shape(value):
    """The types of a value, through lists and dicts."""
    if isinstance(value, (list, tuple)):
        return [shape(item) for item in value]
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return type(value)


def holds(sent, fact, got):
    """Something about an answer that has no single value."""
    if not fact:
        raise Wrong(f"sent      {sent}\ngot       {got!r}, which cannot be")


def refused(sent, kind, words, call):
    """The command is refused with this class of error and these words."""
    try:
        got = call()
    except redis.RedisError as error:
        # The class exactly: ResponseError is the parent of many, and a client tells them apart.
        if type(error) is not kind or words not in str(error):
            raise Wrong(
                f"sent      {sent}\nexpected  {kind.__name__}: {words}\ngot       {type(error).__name__}: {error}"
            ) from error
        return
    raise Wrong(f"sent      {sent}\nexpected  {kind.__name__}: {words}\ngot       {got!r}")


class Scene:
    """One run: where the server is and in which protocol it is spoken to."""

    def __init__(self, args):
        self.port = args.port
        self.guarded_port = args.guarded_port
        self.password = args.password
        self.protocol = args.protocol
        # Yes and no, as this protocol writes them and redis-py hands them on.
        self.yes, self.no = (1, 0) if args.protocol == 2 else (True, False)

    def client(self, **options):
        """A client; not one decoded text is assumed unless asked for."""
        options.setdefault("port", self.port)
        return redis.Redis(host="127.0.0.1", protocol=self.protocol, **options)

    def empty(self):
        """A client of an empty server, with texts decoded."""
        client = self.client(decode_responses=True)
        client.flushall()
        return client


def connection(scene):
    client = scene.client(decode_responses=True, client_name="caller", single_connection_client=True)
    check("PING", client.ping(), True)
    check("ECHO hello", client.echo("hello"), "hello")
    check("CLIENT GETNAME", client.client_getname(), "caller")
    info = client.client_info()
    check("CLIENT INFO, name", info["name"], "caller")
    # Sent on connect by CLIENT SETINFO.
    check("CLIENT INFO, lib-name", info["lib-name"], "redis-py")
    check("CLIENT INFO, lib-ver", info["lib-ver"], redis.__version__)
    check("CLIENT INFO, resp", info["resp"], str(scene.protocol))
    check("CLIENT ID", client.client_id(), int(info["id"]))
    ids = [int(row["id"]) for row in client.client_list()]
    holds("CLIENT LIST", int(info["id"]) in ids, ids)
    check("SELECT 0", client.select(0), True)
    refused("SELECT 1", redis.ResponseError, "DB index is out of range", lambda: client.select(1))
    hello = client.execute_command("HELLO", scene.protocol)
    hello = hello if isinstance(hello, dict) else dict(zip(hello[::2], hello[1::2]))
    check("HELLO, proto", hello["proto"], scene.protocol)
    check("HELLO, mode", hello["mode"], "standalone")
    refused("HELLO 4", redis.ResponseError, "unsupported protocol version", lambda: client.execute_command("HELLO", 4))
    check("ACL WHOAMI", client.acl_whoami(), "default")
    check("PING after all that", client.ping(), True)


def password(scene):
    refused(
        "HELLO or BF.ADD without AUTH",
        redis.AuthenticationError,
        "Authentication required" if scene.protocol == 2 else "HELLO must be called with the client already authenticated",
        lambda: scene.client(port=scene.guarded_port).execute_command("BF.ADD", "f", "x"),
    )
    refused(
        "AUTH with a wrong password",
        redis.AuthenticationError,
        "invalid username-password pair",
        lambda: scene.client(port=scene.guarded_port, password="wrong").ping(),
    )
    for user in (None, "default"):
        client = scene.client(port=scene.guarded_port, username=user, password=scene.password)
        check("PING after AUTH", client.ping(), True)
    # HELLO 3 AUTH names the user "default", who is let in with any password where none is set, as in Redis.
    if scene.protocol == 2:
        refused(
            "AUTH where there is no password",
            redis.AuthenticationError,
            "called without any password configured",
            lambda: scene.client(password="needless").ping(),
        )


def bloom(scene):
    client, yes, no = scene.empty(), scene.yes, scene.no
    bf = client.bf()
    check("BF.RESERVE f 0.01 1000", bf.reserve("f", 0.01, 1000), True)
    check("BF.ADD f a", bf.add("f", "a"), yes)
    check("BF.ADD f a, again", bf.add("f", "a"), no)
    check("BF.MADD f a b c", bf.madd("f", "a", "b", "c"), [no, yes, yes])
    check("BF.EXISTS f a", bf.exists("f", "a"), yes)
    check("BF.EXISTS f z", bf.exists("f", "z"), no)
    check("BF.MEXISTS f a z", bf.mexists("f", "a", "z"), [yes, no])
    check("BF.CARD f", bf.card("f"), 3)
    check("BF.INSERT g", bf.insert("g", ["a", "b", "a"], capacity=50, error=0.001, expansion=4), [yes, yes, no])
    check("BF.INSERT g NOCREATE", bf.insert("g", ["c"], noCreate=True), [yes])
    # A client on which no bf() was called hands replies on as they came.
    plain = scene.client(decode_responses=True)
    info = plain.execute_command("BF.INFO", "g")
    info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2]))
    names = ["Capacity", "Size", "Number of filters", "Number of items inserted", "Expansion rate"]
    check("BF.INFO g, names in order", list(info), names)
    holds("BF.INFO g, size", isinstance(info.pop("Size"), int), info)
    check("BF.INFO g", info, dict(zip([names[0], *names[2:]], [50, 1, 3, 4])))
    check(
        "BF.INFO g CAPACITY",
        plain.execute_command("BF.INFO", "g", "CAPACITY"),
        [50] if scene.protocol == 2 else {"Capacity": 50},
    )
    # Names that do not exist.
    check("BF.EXISTS nothing a", bf.exists("nothing", "a"), no)
    check("BF.CARD nothing", bf.card("nothing"), 0)
    # A filter grows past its capacity and forgets nothing.
    check("BF.RESERVE small 0.01 10", bf.reserve("small", 0.01, 10), True)
    bf.madd("small", *range(500))
    check("BF.MEXISTS small of all 500", bf.mexists("small", *range(500)), [yes] * 500)
    grown = plain.execute_command("BF.INFO", "small", "FILTERS")
    grown = grown[0] if scene.protocol == 2 else grown["Number of filters"]
    holds("BF.INFO small FILTERS", grown > 1, grown)


def cuckoo(scene):
    client, yes, no = scene.empty(), scene.yes, scene.no
    cf = client.cf()
    check("CF.RESERVE f 1000", cf.reserve("f", 1000), True)
    check("CF.ADD f a", cf.add("f", "a"), yes)
    check("CF.ADD f a, a second copy", cf.add("f", "a"), yes)
    check("CF.ADDNX f a", cf.addnx("f", "a"), no)
    check("CF.ADDNX f b", cf.addnx("f", "b"), yes)
    check("CF.COUNT f a", cf.count("f", "a"), 2)
    check("CF.INSERT f c d", cf.insert("f", ["c", "d"]), [yes, yes])
    # Integers in both protocols.
    check("CF.INSERTNX f d e", cf.insertnx("f", ["d", "e"]), [0, 1])
    check("CF.MEXISTS f a b c d e z", cf.mexists("f", *"abcdez"), [yes] * 5 + [no])
    check("CF.DEL f a", cf.delete("f", "a"), yes)
    check("CF.EXISTS f a, one copy left", cf.exists("f", "a"), yes)
    check("CF.DEL f a, the last", cf.delete("f", "a"), yes)
    check("CF.EXISTS f a, none left", cf.exists("f", "a"), no)
    check("CF.DEL f a, none left", cf.delete("f", "a"), no)
    info = scene.client(decode_responses=True).execute_command("CF.INFO", "f")
    info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2]))
    names = ["Size", "Number of buckets", "Number of filters", "Number of items inserted", "Number of items deleted"]
    check("CF.INFO f, names in order", list(info), [*names, "Bucket size", "Expansion rate", "Max iterations"])
    check("CF.INFO f", [info[names[3]], info[names[4]]], [4, 2])
    check("CF.COUNT nothing a", cf.count("nothing", "a"), 0)
    # Everything that was added and not deleted is there, also after growing.
    check("CF.RESERVE small 64", cf.reserve("small", 64, expansion=2), True)
    check("CF.INSERT small of 2000", cf.insert("small", list(range(2000))), [yes] * 2000)
    for item in range(0, 2000, 2):
        check(f"CF.DEL small {item}", cf.delete("small", item), yes)
    odd = list(range(1, 2000, 2))
    check("CF.MEXISTS small of what is left", cf.mexists("small", *odd), [yes] * len(odd))


def bytes_of_any_sort(scene):
    client, yes, no = scene.client(), scene.yes, scene.no
    client.flushall()
    items = [b"", b"\x00", b"\r\n", b"\xff\xfe", "größer ☃".encode(), bytes(range(256)), b"x" * 65_536]
    check("BF.MADD of strange items", client.bf().madd(b"k\r\n\x00", *items), [yes] * len(items))
    check("BF.MEXISTS of strange items", client.bf().mexists(b"k\r\n\x00", *items), [yes] * len(items))
    check("BF.EXISTS of another", client.bf().exists(b"k\r\n\x00", b"\x00\x00"), no)
    check("KEYS *", client.keys("*"), [b"k\r\n\x00"])


def pipelines(scene):
    client, yes, no = scene.empty(), scene.yes, scene.no
    pipe = client.pipeline(transaction=False)
    for item in range(2000):
        pipe.execute_command("BF.ADD", f"f{item % 3}", item)
        pipe.execute_command("BF.EXISTS", f"f{item % 3}", item)
    answers = pipe.execute()
    holds("pipeline, BF.ADD", sum(map(bool, answers[::2])) > 1950, answers[:10])
    check("pipeline, BF.EXISTS right after BF.ADD", answers[1::2], [yes] * 2000)
    # An error in the midst does not stop the rest.
    pipe = client.pipeline(transaction=False)
    pipe.execute_command("BF.ADD", "f0", "in")
    pipe.execute_command("BF.ADD", "f0")
    pipe.execute_command("BF.EXISTS", "f0", "in")
    before, error, after = pipe.execute(raise_on_error=False)
    check("pipeline around an error", [before, after], [yes, yes])
    check("pipeline, the error", str(error), "wrong number of arguments for 'bf.add' command")
    # The typed commands on a pipeline.
    pipe = client.pipeline(transaction=False)
    pipe.bf().add("own", "a")
    pipe.bf().madd("own", "a", "b")
    pipe.bf().card("own")
    check("pipeline of bf()", pipe.execute(), [yes, [no, yes], 2])


def transactions(scene):
    client, yes, no = scene.empty(), scene.yes, scene.no
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("BF.RESERVE", "f", 0.01, 1000)
    pipe.execute_command("BF.ADD", "f", "a")
    pipe.execute_command("BF.MADD", "f", "a", "b")
    pipe.execute_command("BF.EXISTS", "f", "b")
    pipe.exists("f", "g")
    pipe.ping()
    check("MULTI … EXEC", pipe.execute(), ["OK", yes, [no, yes], yes, 1, True])
    # A command that fails while it runs: the others count.
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("BF.ADD", "f", "c")
    pipe.execute_command("BF.RESERVE", "f", 0.01, 1000)
    pipe.execute_command("BF.ADD", "f", "d")
    answers = pipe.execute(raise_on_error=False)
    check("EXEC with an error within", [answers[0], str(answers[1]), answers[2]], [yes, "item exists", yes])
    check("BF.MEXISTS f c d", client.bf().mexists("f", "c", "d"), [yes, yes])
    # A command that is refused while it is queued: none of them counts.
    pipe = client.pipeline(transaction=True)
    pipe.execute_command("BF.ADD", "f", "e")
    pipe.execute_command("BF.ADD", "f")
    refused("EXEC after a bad command", redis.ResponseError, "wrong number of arguments", pipe.execute)
    raw = scene.client(single_connection_client=True)
    raw.execute_command("MULTI")
    refused("BF.NOSUCH within MULTI", redis.ResponseError, "unknown command", lambda: raw.execute_command("BF.NOSUCH"))
    refused("EXEC", redis.exceptions.ExecAbortError, "Transaction discarded", lambda: raw.execute_command("EXEC"))
    check("BF.EXISTS f e", client.bf().exists("f", "e"), no)
    refused("EXEC alone", redis.ResponseError, "EXEC without MULTI", lambda: raw.execute_command("EXEC"))
    # DISCARD.
    raw.execute_command("MULTI")
    check("BF.ADD f g within MULTI", raw.execute_command("BF.ADD", "f", "g"), b"QUEUED")
    check("DISCARD", raw.execute_command("DISCARD"), b"OK")
    check("BF.EXISTS f g", client.bf().exists("f", "g"), no)


def watching(scene):
    client, yes, no = scene.empty(), scene.yes, scene.no
    other = scene.client(decode_responses=True)

    def attempt(names, meanwhile):
        with client.pipeline() as pipe:
            pipe.watch(*names)
            meanwhile()
            pipe.multi()
            pipe.execute_command("BF.ADD", "target", "t")
            return pipe.execute()

    other.bf().add("seen", "a")
    check("EXEC, nobody wrote", attempt(["seen", "absent"], lambda: None), [yes])
    check("EXEC, only looked up", attempt(["seen"], lambda: other.bf().exists("seen", "a")), [no])
    check("EXEC, only a repeat", attempt(["seen"], lambda: other.bf().add("seen", "a")), [no])
    changes = {
        "an item was added": lambda: other.bf().add("seen", "b"),
        "a name came": lambda: other.bf().add("absent", "a"),
        "it was deleted": lambda: other.delete("seen"),
        "another was renamed onto it": lambda: (other.bf().add("new", "n"), other.rename("new", "seen")),
        "all was deleted": other.flushall,
    }
    for what, change in changes.items():
        refused(f"EXEC, {what}", redis.WatchError, "Watched variable changed", lambda: attempt(["seen", "absent"], change))
    with client.pipeline() as pipe:
        pipe.watch("seen")
        other.bf().add("seen", "c")
        pipe.unwatch()
        pipe.multi()
        pipe.execute_command("BF.EXISTS", "seen", "c")
        check("EXEC after UNWATCH", pipe.execute(), [yes])
    # The loop that redis-py offers, two writers at once: every one of the 100 numbers is taken once.
    other.delete("numbers", "taken")
    taken = []

    def take():
        mine = scene.client(decode_responses=True)

        def next_number(pipe):
            number = mine.bf().card("numbers")
            pipe.multi()
            pipe.execute_command("BF.INSERT", "numbers", "CAPACITY", 1000, "ERROR", "0.000001", "ITEMS", number)
            return number

        for _ in range(50):
            taken.append(mine.transaction(next_number, "numbers", value_from_callable=True))

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("100 transactions by two writers", sorted(taken), list(range(100)))


def dumps(scene):
    """SCANDUMP and LOADCHUNK copy a filter of either family, and show nothing of it before all is there."""
    client, yes, no = scene.client(), scene.yes, scene.no
    client.flushall()
    for family, fill, ask in (
        (client.bf(), lambda items: client.bf().madd("from", *items), client.bf().mexists),
        (client.cf(), lambda items: client.cf().insert("from", items), client.cf().mexists),
    ):
        family.reserve("from", 0.001, 50_000) if family.__class__.__name__ == "BFBloom" else family.reserve("from", 100_000)
        items = [f"item{n}" for n in range(50_000)]
        for first in range(0, len(items), 5_000):
            fill(items[first : first + 5_000])
        chunks, iterator = [], 0
        while True:
            iterator, chunk = family.scandump("from", iterator)
            if iterator == 0:
                break
            chunks.append((iterator, chunk))
        holds("SCANDUMP, chunks", len(chunks) >= 2, [position for position, _ in chunks])
        for position, chunk in chunks[:-1]:
            check("LOADCHUNK", family.loadchunk("to", position, chunk), b"OK")
            holds("EXISTS of a name that is being loaded", client.exists("to") == 0, client.exists("to"))
        check("LOADCHUNK, the last", family.loadchunk("to", *chunks[-1]), b"OK")
        check("MEXISTS in the copy", ask("to", *items), [yes] * len(items))
        probes = [f"probe{n}" for n in range(50_000)]
        check("MEXISTS in the copy of items never added", ask("to", *probes), ask("from", *probes))
        # A flipped bit is noticed, and what it would have become is not there.
        spoiled = bytearray(chunks[-1][1])
        spoiled[len(spoiled) // 2] ^= 1
        client.delete("to")
        for position, chunk in chunks[:-1]:
            family.loadchunk("to", position, chunk)
        try:
            family.loadchunk("to", chunks[-1][0], bytes(spoiled))
        except redis.ResponseError:
            pass
        else:
            raise Wrong("sent      LOADCHUNK with a flipped bit\nexpected  ResponseError\ngot       OK")
        check("EXISTS after a spoiled load", client.exists("to"), 0)
        client.flushall()


def pools(scene):
    """Many threads over one pool: nothing is lost and nothing is answered to somebody else."""
    client, yes = scene.empty(), scene.yes
    client.bf().reserve("shared", 0.0001, 20_000)
    shared = redis.Redis.from_pool(
        redis.BlockingConnectionPool(host="127.0.0.1", port=scene.port, protocol=scene.protocol, max_connections=8)
    )
    problems = []

    def work(number):
        items = [f"{number}-{n}" for n in range(500)]
        try:
            for first in range(0, 500, 10):
                shared.bf().madd("shared", *items[first : first + 10])
                check(f"ECHO {number}-{first}", shared.echo(f"{number}-{first}"), f"{number}-{first}".encode())
            check(f"BF.MEXISTS of thread {number}", shared.bf().mexists("shared", *items), [yes] * 500)
        except Exception as error:  # told by the main thread
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]
    card = shared.bf().card("shared")
    # 8,000 items at 0.01 %: the chance that 10 or more of them are taken for known is below 1e-9.
    holds("BF.CARD shared", 7_990 <= card <= 8_000, card)


def refusals(scene):
    client = scene.empty()
    bf, cf = client.bf(), client.cf()
    bf.add("bloom", "a")
    cf.add("cuckoo", "a")
    wrong_type = "Operation against a key holding the wrong kind of value"
    for sent, words, call in (
        ("BF.ADD cuckoo a", wrong_type, lambda: bf.add("cuckoo", "a")),
        ("CF.ADD bloom a", wrong_type, lambda: cf.add("bloom", "a")),
        ("BF.INFO nothing", "not found", lambda: bf.info("nothing")),
        ("BF.INSERT nothing NOCREATE", "not found", lambda: bf.insert("nothing", ["a"], noCreate=True)),
        ("BF.RESERVE bloom", "item exists", lambda: bf.reserve("bloom", 0.01, 100)),
        ("BF.RESERVE x 2 100", "error rate must be in the range", lambda: bf.reserve("x", 2, 100)),
        ("BF.RESERVE x y 100", "bad error rate", lambda: bf.reserve("x", "y", 100)),
        ("BF.RESERVE x 0.01 0", "capacity must be in the range", lambda: bf.reserve("x", 0.01, 0)),
        ("BF.RESERVE x 0.01 z", "bad capacity", lambda: bf.reserve("x", 0.01, "z")),
        (
            "BF.RESERVE x 0.01 10 EXPANSION 2 NONSCALING",
            "Nonscaling filters cannot expand",
            lambda: bf.reserve("x", 0.01, 10, expansion=2, noScale=True),
        ),
        ("CF.RESERVE cuckoo 100", "item exists", lambda: cf.reserve("cuckoo", 100)),
        ("CF.DEL nothing a", "Not found", lambda: cf.delete("nothing", "a")),
        ("SET a b", "unknown command 'SET'", lambda: client.set("a", "b")),
        ("CMS.INITBYDIM a 1 1", "unknown command 'CMS.INITBYDIM'", lambda: client.cms().initbydim("a", 1, 1)),
        ("RENAME nothing x", "no such key", lambda: client.rename("nothing", "x")),
    ):
        refused(sent, redis.ResponseError, words, call)
    # A full filter that may not grow: one answer for each item, and what was there is still found.
    bf.reserve("full", 0.01, 4, noScale=True)
    answers = bf.madd("full", *range(200))
    check("BF.MADD full, answers", len(answers), 200)
    errors = [str(answer) for answer in answers if isinstance(answer, redis.ResponseError)]
    holds("BF.MADD full, errors", len(errors) > 100 and set(errors) == {"non scaling filter is full"}, set(errors))
    added = [item for item, answer in enumerate(answers) if answer is scene.yes or answer == 1]
    check("BF.MEXISTS full", bf.mexists("full", *added), [scene.yes] * len(added))
    # Refused before anything is allocated.
    refused(
        "BF.RESERVE huge 0.01 1000000000000",
        redis.ResponseError,
        "capacity must be in the range",
        lambda: bf.reserve("huge", 0.01, 1_000_000_000_000),
    )
    refused(
        "BF.ADD of an item that is too long",
        redis.ResponseError,
        "65537 bytes, at most 65536 are allowed",
        lambda: bf.add("bloom", "x" * 65_537),
    )
    check("PING after all that", client.ping(), True)


def names(scene):
    client = scene.empty()
    for number in range(300):
        client.bf().add(f"user:{number}", "x")
    client.cf().add("cuckoo", "x")
    check("DBSIZE", client.dbsize(), 301)
    check("KEYS user:29?", sorted(client.keys("user:29?")), [f"user:{number}" for number in range(290, 300)])
    check("SCAN", sorted(client.scan_iter(count=7)), sorted([f"user:{n}" for n in range(300)] + ["cuckoo"]))
    check("SCAN MATCH TYPE", list(client.scan_iter(match="c*", _type="MBbloomCF")), ["cuckoo"])
    check("TYPE user:0", client.type("user:0"), "MBbloom--")
    check("TYPE cuckoo", client.type("cuckoo"), "MBbloomCF")
    check("TYPE nothing", client.type("nothing"), "none")
    check("EXISTS cuckoo cuckoo nothing", client.exists("cuckoo", "cuckoo", "nothing"), 2)
    check("RENAME cuckoo moved", client.rename("cuckoo", "moved"), True)
    check("CF.EXISTS moved x", client.cf().exists("moved", "x"), scene.yes)
    check("RENAMENX user:0 user:1", client.renamenx("user:0", "user:1"), False)
    check("COPY user:0 copy", client.copy("user:0", "copy"), True)
    client.bf().add("copy", "y")
    check("BF.EXISTS copy x", client.bf().exists("copy", "x"), scene.yes)
    check("BF.EXISTS user:0 y", client.bf().exists("user:0", "y"), scene.no)
    check("TTL user:0", client.ttl("user:0"), -1)
    check("EXPIRE user:0 100", client.expire("user:0", 100), True)
    holds("TTL user:0", 98 <= client.ttl("user:0") <= 100, client.ttl("user:0"))
    check("PERSIST user:0", client.persist("user:0"), True)
    check("PTTL user:0", client.pttl("user:0"), -1)
    check("PEXPIRE user:0 -1", client.pexpire("user:0", -1), True)
    check("EXISTS user:0", client.exists("user:0"), 0)
    check("DEL user:1 user:2 nothing", client.delete("user:1", "user:2", "nothing"), 2)
    check("UNLINK user:3", client.unlink("user:3"), 1)
    holds("MEMORY USAGE user:4", client.memory_usage("user:4") > 100, client.memory_usage("user:4"))
    check("MEMORY USAGE nothing", client.memory_usage("nothing"), None)
    check("FLUSHDB", client.flushdb(), True)
    check("DBSIZE", client.dbsize(), 0)


def server(scene):
    client = scene.empty()
    client.bf().add("f", "a")
    info = client.info()
    for field in ("redis_version", "arch_bits", "uptime_in_seconds", "connected_clients", "used_memory"):
        holds("INFO", field in info, sorted(info))
    check("INFO, cluster_enabled", info["cluster_enabled"], 0)
    check("INFO, redis_mode", info["redis_mode"], "standalone")
    check("INFO, loading", info["loading"], 0)
    modules = [module for module in info["modules"] if module["name"] == "bf"]
    holds("INFO, modules", len(modules) == 1 and modules[0]["ver"] >= 20_400, info["modules"])
    listed = client.module_list()
    holds("MODULE LIST", "bf" in str(listed), listed)
    check("INFO keyspace", client.info("keyspace")["db0"]["keys"], 1)
    holds("CONFIG GET max*", "max-memory" in client.config_get("max*"), client.config_get("max*"))
    check("CONFIG GET nothing", client.config_get("nothing"), {})
    check("SAVE", client.save(), True)
    holds("LASTSAVE", client.lastsave().year >= 2024, client.lastsave())
    # redis-py makes True of it in RESP2.
    check("BGSAVE", client.bgsave(), True if scene.protocol == 2 else "Background saving started")
    holds("COMMAND COUNT", client.command_count() > 90, client.command_count())
    known = client.command()["bf.add"]
    check("COMMAND, bf.add", [known["arity"], known["first_key_pos"], sorted(known["flags"])], [3, 1, ["denyoom", "write"]])
    check("COMMAND GETKEYS BF.ADD f a", client.command_getkeys("BF.ADD", "f", "a"), ["f"])
    check("SLOWLOG RESET", client.slowlog_reset(), True)
    holds("SLOWLOG GET", isinstance(client.slowlog_get(), list), client.slowlog_get())
    holds("LATENCY LATEST", client.latency_latest() == [], client.latency_latest())
    holds("TIME", client.time()[0] > 1_700_000_000, client.time())
    client.connection_pool.disconnect()
    check("BF.EXISTS f a over a new connection", client.bf().exists("f", "a"), scene.yes)


def asyncio_client(scene):
    async def run():
        client = redis.asyncio.Redis(
            port=scene.port, protocol=scene.protocol, decode_responses=True, max_connections=1000
        )
        await client.flushall()
        added = await asyncio.gather(*(client.bf().add("f", n) for n in range(200)))
        holds("200 BF.ADD at once", sum(map(bool, added)) >= 190, added)
        found = await asyncio.gather(*(client.bf().exists("f", n) for n in range(200)))
        check("200 BF.EXISTS at once", found, [scene.yes] * 200)
        async with client.pipeline(transaction=True) as pipe:
            pipe.execute_command("BF.ADD", "g", "a")
            pipe.execute_command("BF.CARD", "g")
            check("MULTI … EXEC", await pipe.execute(), [scene.yes, 1])
        await client.aclose()

    asyncio.run(run())


GROUPS = [
    connection,
    password,
    bloom,
    cuckoo,
    bytes_of_any_sort,
    pipelines,
    transactions,
    watching,
    dumps,
    pools,
    refusals,
    names,
    server,
    asyncio_client,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--guarded-port", type=int, required=True)
    parser.add_argument("--password", required=True)
    parser.add_argument("--protocol", type=int, choices=(2, 3), required=True)
    parser.add_argument("groups", nargs="*", help="some groups of checks; all of them unless said")
    args = parser.parse_args()
    scene = Scene(args)
    for group in GROUPS:
        name = group.__name__.replace("_", " ")
        if args.groups and group.__name__ not in args.groups:
            continue
        try:
            group(scene)
        except Exception as error:  # whatever it is, it is told in the same form
            kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
            ours = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
            line = [frame for frame in ours if frame.name not in ("check", "holds", "refused")][-1].lineno
            print(f"redis-py, RESP{args.protocol}: {name}: FAILED at line {line}\n{kind}{error}", flush=True)
            sys.exit(1)
        print(f"redis-py, RESP{args.protocol}: {name}: ok", flush=True)


if __name__ == "__main__":
    main()
