"""`rl4jax serve`, asked over HTTP: right answers, reasons for every refusal, and clients that cannot disturb each other."""

import concurrent.futures
import contextlib
import email
import http.client
import json
import logging
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import jax
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import deploy
from rl4jax.core.errors import ConfigError
from rl4jax.deploy.http_json import Refused
from rl4jax.deploy.local_askers import check_asker, own_names
from rl4jax.deploy.policy import Policy
from rl4jax.deploy.server import Server, serve
from tests import fresh_process
from tests.cli.terminal import rl4jax, start
from tests.deploy.serve_load import NONSENSE, private_memory, questions, run_load


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Bundles by name, exported when they are first asked for."""
    folder = tmp_path_factory.mktemp("bundles")
    kinds = {"plain": ("CartPole", {}, {}), "gru": ("CartPole", {"core": "gru"}, {}), "sampling": ("CartPole", {}, {"sample": True})}
    kinds |= {"masked": ("GridWorld", {}, {"masked": True})}

    def get(name):
        env_name, network, how = kinds[name]
        if not (folder / name).exists():
            env = rl.VecEnv(rl.make(env_name), 4)
            model = rl.nn.ActorCritic(env, key=jax.random.key(0), hidden=(8,), **network)
            deploy.export(model, env, folder / name, about={"algorithm": "ppo", "env": env_name}, **how)
        return folder / name

    return get


@pytest.fixture(scope="module")
def server(bundle):
    """One for all that are asked in the usual way, however badly."""
    with Server(deploy.load(bundle("plain")), port=0, max_batch=64, max_body=400_000) as server:
        yield server


def ask(server, method, path, body=None, token=None):
    """Status, headers and JSON of an answer; a body that is no bytes becomes JSON."""
    body = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(server.url + path, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, response.headers, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.loads(error.read())


def act(server, body):
    status, _, said = ask(server, "POST", "/act", body)
    return status, said


def connect(server):
    address = server.url.removeprefix("http://").split(":")
    return socket.create_connection((address[0], int(address[1])), timeout=60)


def read_all(connection):
    """What comes until they hang up."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 16):
            data += more
    return data


def raw(server, sent, end=True):
    """The first status and the reason that bytes are answered with."""
    with connect(server) as connection:
        connection.sendall(sent)
        if end:
            connection.shutdown(socket.SHUT_WR)
        head, _, body = read_all(connection).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def as_lists(x):
    return None if x is None else {k: as_lists(v) for k, v in x.items()} if isinstance(x, dict) else np.asarray(x).tolist()


def stub(engine, obs=None, action=None, **changes):
    """A policy whose program is a function."""
    scalar = {"type": "Discrete", "port": "action", "shape": [], "dtype": "int32", "own_shape": [], "own_dtype": "int64", "n": 3}
    box = {
        "type": "Box",
        "port": "obs",
        "shape": [2],
        "dtype": "float32",
        "own_shape": [2],
        "own_dtype": "float32",
        "low": None,
        "high": None,
    }
    config = {"observation_space": obs or box, "action_space": action or scalar, "mask": None, "carry": [], "noise": [], "outputs": []}
    return Policy(config | changes, engine)


# Answers


@pytest.mark.parametrize("batch", [(), (1,), (5,)])
@pytest.mark.parametrize("name", ["plain", "gru", "masked"])
def test_answers_are_those_of_the_policy(name, batch, bundle):
    policy, rng = deploy.load(bundle(name)), np.random.default_rng(0)
    spec, size = policy.config["observation_space"], (policy.config["mask"] or {}).get("size")
    obs = rng.random((*batch, *spec["shape"])).astype(np.float32)
    mask = None if size is None else (np.arange(size) == rng.integers(size, size=batch)[..., None])
    wanted = policy.outputs(obs, mask=mask)
    with Server(policy, port=0) as server:
        status, said = act(server, {"obs": obs.tolist(), "carry": None, "mask": None if mask is None else mask.tolist()})
    assert status == 200
    assert said == as_lists(wanted)
    assert said.keys() >= {"action", "carry", "value", "logits"}
    assert np.shape(said["action"]) == batch
    assert np.shape(said["logits"]) == (*batch, policy.config["action_space"]["n"])
    if mask is not None:
        np.testing.assert_array_equal(said["action"], mask.argmax(-1), "the one that is allowed")


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_carry_goes_out_and_comes_back(batch, bundle):
    policy, rng = deploy.load(bundle("gru")), np.random.default_rng(1)
    carry = ours = None
    with Server(policy, port=0) as server:
        for t in range(4):
            obs = rng.normal(size=(*batch, 4)).astype(np.float32)
            wanted = policy.outputs(obs, ours)
            status, said = act(server, {"obs": obs.tolist(), "carry": carry})
            assert (status, said) == (200, as_lists(wanted)), t
            carry, ours = said["carry"], wanted["carry"]
    assert any(np.ptp(x) > 0 for x in carry.values())


def test_a_policy_that_samples_draws_for_each_request(bundle):
    with Server(deploy.load(bundle("sampling"), seed=0), port=0) as server:
        alone = [act(server, {"obs": [0, 0, 0, 0]})[1]["action"] for _ in range(40)]
        together = act(server, {"obs": [[0, 0, 0, 0]] * 40})[1]["action"]
    assert set(alone) == set(together) == {0, 1}


def test_observations_and_actions_may_have_parts():
    seen = []

    def engine(inputs, names):
        seen.append(inputs)
        return {"action.a": inputs["obs.place"] * 1, "action.b": inputs["obs.far"][:, None] * 2.0, "value": inputs["obs.far"]}

    leaf = {"shape": [], "dtype": "int32", "own_shape": [], "own_dtype": "int64"}
    far = leaf | {"type": "Box", "port": "obs.far", "dtype": "float32", "own_dtype": "float32", "low": None, "high": None}
    obs = {"type": "Dict", "spaces": {"place": leaf | {"type": "Discrete", "port": "obs.place", "n": 4, "start": 5}, "far": far}}
    go = {"type": "Box", "port": "action.b", "shape": [1], "dtype": "float32", "own_shape": [1], "own_dtype": "float32"}
    action = {"type": "Tuple", "spaces": [leaf | {"type": "Discrete", "port": "action.a", "n": 4, "start": 3}, go]}
    with Server(stub(engine, obs, action), port=0) as server:
        assert ask(server, "GET", "/")[2]["example"] == {"obs": {"place": 5, "far": 0.0}}
        assert act(server, {"obs": {"place": 7, "far": 0.5}}) == (200, {"action": [5, [1.0]], "carry": None, "value": 0.5})
        assert act(server, {"obs": {"place": [7, 5], "far": [0.5, 1]}})[1]["action"] == [[5, 3], [[1.0], [2.0]]]
        assert len(seen) == 2
        refused = {
            '{"place": 4, "far": 0}': "obs['place'] = 4 must be from 5 to 8",
            '{"place": 4294967301, "far": 0}': "obs['place'] = 4294967301 must be from 5 to 8",
            '{"place": 5.5, "far": 0}': "obs['place'] is of float64",
            '{"place": [5, 9], "far": [0, 0]}': "obs['place'][1] = 9 must be",
            '{"place": [5, 6], "far": [0]}': "batches of [1, 2]",
            '{"place": [5], "far": 0}': "some parts have a batch axis",
            '{"place": [], "far": []}': "obs['place'] is of float64",
            '{"place": [[5]], "far": [0]}': "obs['place'] has shape (1, 1)",
            '{"far": 0}': "it must be a dict of ['far', 'place']",
            "[5, 0]": "it must be a dict of",
        }
        for body, reason in refused.items():
            status, said = act(server, f'{{"obs": {body}}}'.encode())
            assert (status, reason in said["error"]) == (422, True), (body, said)
    assert len(seen) == 2, "none of those reached the program"


def test_a_mask_among_the_observations_is_found():
    leaf = {
        "type": "Box",
        "port": "obs",
        "shape": [],
        "dtype": "float32",
        "own_shape": [],
        "own_dtype": "float32",
        "low": None,
        "high": None,
    }
    policy = stub(
        lambda inputs, names: {"action": inputs["mask"].argmax(-1)},
        {"type": "Dict", "spaces": {"x": leaf}}, mask={"size": 3, "heads": [[0, 3]], "in_obs": True},
    )  # fmt: skip
    with Server(policy, port=0) as server:
        assert ask(server, "GET", "/")[2]["example"] == {"obs": {"x": 0.0, "action_mask": [True] * 3}}
        assert act(server, {"obs": {"x": 1, "action_mask": [0, 0, 1]}})[1]["action"] == 2
        assert act(server, {"obs": {"x": [1, 1], "action_mask": [[0, 0, 1], [0, 1, 1]]}})[1]["action"] == [2, 1]
        assert act(server, {"obs": {"x": 1}})[0] == 422


# Questions that are refused


REFUSED = {
    "a shorter observation": (b'{"obs": [1, 2, 3]}', 422, r"obs has shape \(3,\); it must be \(4,\), or \(B, 4\)"),
    "one axis more": (b'{"obs": [[[1, 2, 3, 4]]]}', 422, r"obs has shape \(1, 1, 4\)"),
    "a number": (b'{"obs": 3}', 422, r"obs has shape \(\)"),
    "nothing in it": (b'{"obs": []}', 422, r"obs has shape \(0,\)"),
    "NaN": (b'{"obs": [0, NaN, 0, 0]}', 422, r"obs has a number that is not finite.*: obs\[1\] = nan"),
    "infinity": (b'{"obs": [[0, 0, 0, 0], [0, 0, 0, -Infinity]]}', 422, r"not finite.*: obs\[1, 3\] = -inf"),
    "too large for a float": (b'{"obs": [1e999, 0, 0, 0]}', 422, r"not finite.*: obs\[0\] = inf"),
    "too large for 32 bits": (b'{"obs": [1e39, 0, 0, 0]}', 422, r"too large for float32: obs\[0\] = 1e\+39"),
    "many digits": (b'{"obs": [' + b"9" * 100 + b", 0, 0, 0]}", 422, r"too large for float32: obs\[0\] = 1e\+100"),
    "too many digits": (b'{"obs": [' + b"9" * 10_000 + b", 0, 0, 0]}", 400, "not JSON: Exceeds the limit"),
    "a text": (b'{"obs": "0, 0, 0, 0"}', 422, "obs has a text in it"),
    "a text among numbers": (b'{"obs": [0, 0, "0", 0]}', 422, "obs has a text in it"),
    "null": (b'{"obs": [0, 0, null, 0]}', 422, "obs has null"),
    "an object": (b'{"obs": {"x": 0}}', 422, "obs has an object in it"),
    "ragged": (b'{"obs": [[0, 0, 0, 0], [0]]}', 422, "obs is no array: .* inhomogeneous"),
    "a list beside numbers": (b'{"obs": [0, [0], 0, 0]}', 422, "a list beside numbers"),
    "true": (b'{"obs": [true, true, true, true]}', 422, "obs is of bool"),
    "no obs": (b'{"carry": null}', 422, r"obs is missing. Send it, as in .*\[0.0, 0.0, 0.0, 0.0\]"),
    "obs is null": (b'{"obs": null}', 422, "obs is missing"),
    "a wrong name": (b'{"observation": [0, 0, 0, 0]}', 422, "There is no argument 'observation'. Known: carry, mask, obs"),
    "a name twice": (b'{"obs": [0, 0, 0, 0], "obs": [1, 1, 1, 1]}', 400, "'obs' is given twice"),
    "a carry to one without": (b'{"obs": [0, 0, 0, 0], "carry": {"carry.0": [0]}}', 422, "carry was given, but the policy has no memory"),
    "a mask to one without": (b'{"obs": [0, 0, 0, 0], "mask": [true, true]}', 422, "mask was given, but the policy was exported without"),
    "a list": (b"[0, 0, 0, 0]", 422, "The body is a list; it must be an object"),
    "not JSON": (b"obs=1", 400, "The body is not JSON: Expecting value: line 1 column 1"),
    "nothing": (b"", 400, "The body is not JSON"),
    "not UTF-8": (b'{"obs": "\xff\xfe"}', 400, "The body is not JSON"),
    "cut off": (b'{"obs": [0, 0', 400, "The body is not JSON"),
    "deep": (b'{"obs": ' + b"[" * 150_000, 400, "nested too deep"),
    "deep enough to be read": (b'{"obs": ' + b"[" * 500 + b"]" * 500 + b"}", 422, "obs is nested too deep"),
    "a large batch": (json.dumps({"obs": [[0] * 4] * 65}).encode(), 413, "obs is a batch of 65; at most 64"),
    "a large body": (b" " * 400_001, 413, "Content-Length = 400001 is more than 400000 bytes"),
    "a text that NumPy would multiply": (b'{"obs": ["' + b"a" * 100_000 + b'", ' + b'"", ' * 60_000 + b'""]}', 422, "obs has a text"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_a_bad_question_gets_a_reason(what, server):
    body, wanted, reason = REFUSED[what]
    status, said = act(server, body)
    assert (status, list(said)) == (wanted, ["error"])
    assert re.search(reason, said["error"])
    assert len(said["error"]) < 600
    assert act(server, {"obs": [0, 0, 0, 0]})[0] == 200, "and the next one an answer"


def test_an_integer_may_have_more_digits_than_64_bits(server):
    status, said = act(server, b'{"obs": [100000000000000000000, 0, 0, 0]}')
    assert (status, said) == (200, act(server, {"obs": [1e20, 0, 0, 0]})[1])


def test_a_bad_carry_gets_a_reason(bundle):
    policy = deploy.load(bundle("gru"))
    obs, good = [0.0] * 4, as_lists(policy.outputs(np.zeros(4, np.float32))["carry"])
    name = min(good)
    wrong = {
        "a dict of": [[], {}, 3, good | {"more": [0]}, {name: good[name]}],
        "has shape": [good | {name: [0.0]}, {key: [x] for key, x in good.items()}],
        "not finite": [good | {name: [*good[name][1:], float("nan")]}, good | {name: [*good[name][1:], 1e300]}],
        "a text": [good | {name: "0"}],
    }
    with Server(policy, port=0) as server:
        for reason, carries in wrong.items():
            for carry in carries:
                status, said = act(server, {"obs": obs, "carry": carry})
                assert (status, reason in said["error"], "carry" in said["error"]) == (422, True, True), (carry, said)
        assert act(server, {"obs": [obs] * 2, "carry": good})[0] == 422, "one carry for two"
        assert act(server, {"obs": obs, "carry": good})[0] == 200


def test_a_bad_mask_gets_a_reason(bundle):
    policy = deploy.load(bundle("masked"))
    obs = np.zeros(policy.config["observation_space"]["shape"]).tolist()
    wrong = {
        "mask is missing": [None],
        "mask has shape": [[True], [[True] * 4], [[True] * 4] * 2],
        "mask allows no action": [[False] * 4],
        "mask[1] = 2 must be from 0 to 1": [[1, 2, 0, 0]],
        "mask has a text": [["yes"] * 4],
        "mask is of float64": [[0.5] * 4],
    }
    with Server(policy, port=0) as server:
        for reason, masks in wrong.items():
            for mask in masks:
                status, said = act(server, {"obs": obs, "mask": mask})
                assert (status, reason in said["error"]) == (422, True), (mask, said)
        assert act(server, ask(server, "GET", "/")[2]["example"])[0] == 200


def test_of_several_choices_each_must_be_left_one():
    nav = {
        "type": "MultiDiscrete",
        "port": "action",
        "shape": [2],
        "dtype": "int32",
        "own_shape": [2],
        "own_dtype": "int64",
        "nvec": [2, 3],
    }
    mask = {"size": 5, "heads": [[0, 2], [2, 5]], "in_obs": False}
    with Server(stub(lambda x, names: {"action": np.zeros((len(x["obs"]), 2))}, None, nav, mask=mask), port=0) as server:
        assert act(server, {"obs": [0, 0], "mask": [1, 0, 0, 0, 1]}) == (200, {"action": [0, 0], "carry": None})
        status, said = act(server, {"obs": [0, 0], "mask": [1, 1, 0, 0, 0]})
    assert (status, said["error"][:21]) == (422, "mask allows no action")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_never_sent(bad):
    policy = stub(lambda x, names: {"action": np.zeros(len(x["obs"])), "value": np.full(len(x["obs"]), bad)})
    with Server(policy, port=0) as server:
        status, said = act(server, {"obs": [3e38, 3e38]})
    assert status == 422
    assert "answers with a value that is not finite" in said["error"]


def test_a_program_that_fails_is_no_end(caplog):
    def engine(inputs, names):
        if inputs["obs"][0, 0] == 13:
            raise RuntimeError("a secret")
        return {"action": np.zeros(1)}

    with caplog.at_level(logging.ERROR), Server(stub(engine), port=0) as server:
        status, said = act(server, {"obs": [13, 0]})
        assert act(server, {"obs": [1, 0]})[0] == 200
    assert status == 500
    assert "secret" not in said["error"]
    assert "a secret" in caplog.text


def test_the_line_to_copy_is_one_command_whatever_the_bundle_says():
    leaf = {"type": "Box", "shape": [], "dtype": "float32", "own_shape": [], "own_dtype": "float32", "low": None, "high": None}
    names = ["it's", "'; touch owned; '", "$(touch owned)", '"; touch owned; "']
    policy = stub(
        lambda inputs, wanted: {}, {"type": "Dict", "spaces": {name: leaf | {"port": f"obs.{i}"} for i, name in enumerate(names)}}
    )
    with Server(policy, port=0) as server:
        printed = "curl() { printf '%s\\n' \"$@\"; }; " + server.example_line()
        done = subprocess.run(["sh", "-c", printed], capture_output=True, text=True)
        url, flag, question = done.stdout.splitlines()
    assert (url, flag, done.stderr) == (f"{server.url}/act", "-d", "")
    assert json.loads(question) == {"obs": dict.fromkeys(names, 0.0)}


# Requests that are no HTTP, or not as we want it

GOOD = b'{"obs": [0, 0, 0, 0]}'
POST = b"POST /act HTTP/1.1\r\n"
HEADS = {
    "noise": (b"\x16\x03\x01\x02\x00\x01\x00\n", 400, "HTTP/1.1"),
    "a word": (b"hello\r\n\r\n", 400, "Bad request syntax"),
    "an empty line": (b"\r\n", 400, "no first line"),
    "half a line": (b"GET /hea", 400, "no first line"),
    "no version": (b"POST /act\r\n\r\n", 400, "HTTP/0.9"),
    "a later version": (b"GET /health HTTP/2.0\r\n\r\n", 400, "Invalid HTTP version"),
    "another method": (b"BREW /act HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405, "Use POST"),
    "a long path": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431, "longer than 65536"),
    "a long header": (b"GET /health HTTP/1.1\r\nLong: " + b"a" * 70_000 + b"\r\n\r\n", 431, "Line too long"),
    "a long head": (b"GET /health HTTP/1.1\r\n" + (b"Long: " + b"a" * 2000 + b"\r\n") * 50 + b"\r\n", 431, "longer than 65536"),
    "many headers": (b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431, "at most 100 headers"),
    "no header": (b"GET /health HTTP/1.1\r\nthis is no header\r\n\r\n", 400, "no header"),
    "a space before the colon": (POST + b"Content-Length : 21\r\n\r\n" + GOOD, 400, "no header"),
    "no length": (POST + b"\r\n" + GOOD, 411, "Content-Length is missing"),
    "chunks": (POST + b"Transfer-Encoding: chunked\r\n\r\n15\r\n" + GOOD + b"\r\n0\r\n\r\n", 411, "Transfer-Encoding"),
    "a length in words": (POST + b"Content-Length: ten\r\n\r\n" + GOOD, 400, "Content-Length = 'ten' must be"),
    "a length below zero": (POST + b"Content-Length: -1\r\n\r\n" + GOOD, 400, "Content-Length = '-1' must be"),
    "a length with a sign": (POST + b"Content-Length: +21\r\n\r\n" + GOOD, 400, "must be one whole number"),
    "two lengths": (POST + b"Content-Length: 21\r\nContent-Length: 22\r\n\r\n" + GOOD, 400, "given twice, and differs"),
    "a length beyond belief": (POST + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + GOOD, 413, "is more than"),
    "a length that is too long": (POST + b"Content-Length: 30\r\n\r\n" + GOOD, 400, "Content-Length = 30, but only 21 bytes"),
    "a length that is too short": (POST + b"Content-Length: 11\r\nConnection: close\r\n\r\n" + GOOD, 400, "not JSON"),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_request_that_is_none_gets_a_reason(what, server):
    sent, wanted, reason = HEADS[what]
    status, body = raw(server, sent)
    assert status == wanted
    said = json.loads(body.partition("HTTP/1.1")[0] if body.count('"error"') > 1 else body)
    assert reason in said["error"]
    assert act(server, {"obs": [0, 0, 0, 0]})[0] == 200


@pytest.mark.parametrize(("method", "path", "status", "allow"), [
    ("GET", "/nowhere", 404, None), ("POST", "/act/", 404, None), ("GET", "/../etc/passwd", 404, None),
    ("GET", "/act", 405, "POST"), ("DELETE", "/act", 405, "POST"), ("PUT", "/", 405, "GET, HEAD"), ("POST", "/health", 405, "GET, HEAD"),
])  # fmt: skip
def test_what_cannot_be_asked(method, path, status, allow, server):
    got, headers, said = ask(server, method, path, None if method == "GET" else b"{}")
    assert (got, headers["Allow"]) == (status, allow)
    assert path in said["error"]


def test_a_connection_is_kept_after_answers_and_refusals_alike(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.connect()
    first = connection.sock
    for _ in range(3):
        for body, status in ((GOOD, 200), (b"nonsense", 400), (b'{"obs": 1}', 422)):
            connection.request("POST", "/act?x=1", body)
            response = connection.getresponse()
            assert (response.status, response.getheader("Connection")) == (status, "keep-alive")
            assert response.read().endswith(b"}\n")
    connection.request("HEAD", "/health")
    response = connection.getresponse()
    assert (response.status, response.read()) == (200, b"")
    assert int(response.getheader("Content-Length")) > 10
    assert connection.sock is first
    connection.close()


def test_requests_may_come_one_upon_another_and_in_pieces(server):
    request = POST + b"Content-Length: 21\r\n\r\n" + GOOD
    with connect(server) as connection:
        connection.sendall(request * 3)
        for byte in request + b"GET /health HTTP/1.0\r\n\r\n":
            connection.sendall(bytes([byte]))
        assert read_all(connection).count(b"HTTP/1.1 200 OK") == 5


def test_a_body_is_sent_once_it_is_wanted(server):
    with connect(server) as connection:
        connection.sendall(POST + b"Expect: 100-continue\r\nContent-Length: 21\r\nConnection: close\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(GOOD)
        assert b"200 OK" in read_all(connection)
    assert raw(server, POST + b"Expect: 100-continue\r\nContent-Length: 500000\r\n\r\n")[0] == 413


def test_a_refusal_reaches_a_client_that_is_still_sending(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("POST", "/act", b" " * 20_000_000)
    assert connection.getresponse().status == 413
    connection.close()


# Clients that are slow, silent, gone or many


def test_slow_clients_are_told_so_and_others_do_not_notice(bundle):
    half, request = POST + b"Content-Length: 21\r\n\r\n" + GOOD[:10], POST + b"Content-Length: 21\r\n\r\n" + GOOD
    with Server(deploy.load(bundle("plain")), port=0, request_seconds=1.0) as server, contextlib.ExitStack() as stack:
        halves = [stack.enter_context(connect(server)) for _ in range(5)]
        for connection in halves:
            connection.sendall(half)
        drips, stop = stack.enter_context(connect(server)), threading.Event()

        def drip():
            with contextlib.suppress(OSError):
                for byte in b"GET /health HTTP/1.1\r\nX: " + b"a" * 10_000:
                    drips.sendall(bytes([byte]))
                    if stop.wait(0.1):
                        break

        dripping = threading.Thread(target=drip)
        dripping.start()
        for _ in range(20):
            assert act(server, GOOD)[0] == 200
        for connection in [*halves, drips]:  # each byte in time, but not all of them
            said = read_all(connection)
            assert said.startswith(b"HTTP/1.1 408")
            assert b"did not arrive within 1 seconds" in said
        stop.set()
        dripping.join()
        assert raw(server, request + half[:30])[0] == 200


def test_clients_may_leave_at_any_time(server):
    request = POST + b"Content-Length: 21\r\n\r\n" + GOOD
    for cut in range(0, len(request) + 1, 7):
        connection = connect(server)
        connection.sendall(request[:cut])
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # hang up with a bang
        connection.close()
    assert act(server, GOOD)[0] == 200


def test_who_does_not_read_is_hung_up_on(bundle):
    with Server(deploy.load(bundle("plain")), port=0, request_seconds=1.0) as server, connect(server) as connection:

        def ask_on():
            for _ in range(1000):
                connection.sendall(b"GET / HTTP/1.1\r\n\r\n" * 1000)

        with pytest.raises(ConnectionError):
            ask_on()
        assert act(server, GOOD)[0] == 200


def test_who_reads_a_little_at_a_time_is_hung_up_on():
    """Each piece in time, but not the whole answer."""
    with Server(wide(), port=0, request_seconds=1.0) as server, connect(server) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        for end in (connection, *server._http.clients):  # the kernel keeps little, so that pieces are small
            for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                end.setsockopt(socket.SOL_SOCKET, buffer, 1 << 14)
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while more := connection.recv(1 << 14):
                heard += more
                time.sleep(0.05)
        head, _, body = heard.partition(b"\r\n\r\n")
        assert 0 < len(body) < int(re.search(rb"Content-Length: (\d+)", head)[1])


def test_when_there_is_no_room_the_most_silent_client_goes(bundle):
    with Server(deploy.load(bundle("plain")), port=0, max_clients=4) as server, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(server)) for _ in range(30)]
        for connection in silent[::2]:
            with contextlib.suppress(OSError):
                connection.sendall(POST)
        for _ in range(10):
            assert act(server, GOOD)[0] == 200
        assert b"200" not in read_all(silent[0])
        assert len(server._http.clients) <= 4


def wide():
    """A policy of which each answer is larger than what the kernel keeps for a client."""
    obs = {"type": "Box", "port": "obs", "shape": [400_000], "dtype": "float32", "own_shape": [400_000], "own_dtype": "float32"}
    return stub(lambda inputs, names: {"action": np.zeros(1)}, obs)


def test_who_asks_on_and_never_reads_makes_room():
    with Server(wide(), port=0, max_clients=2) as server, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(connect(server)).sendall(b"GET / HTTP/1.1\r\n\r\n" * 50)

        def stuck():
            clients = list(server._http.clients.values())
            return len(clients) == 2 and all(client.taking and client.waiting_since < time.monotonic() for client in clients)

        deadline = time.monotonic() + 60
        while not stuck():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ask(server, "GET", "/health")[0] == 200


def test_when_all_are_being_answered_one_more_is_asked_to_come_back():
    busy, go_on = threading.Semaphore(0), threading.Event()

    def engine(inputs, names):
        busy.release()
        assert go_on.wait(60)
        return {"action": np.zeros(1)}

    with Server(stub(engine), port=0, max_clients=2) as server:
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(act(server, {"obs": [0, 0]})[0])) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in threads:
            assert busy.acquire(timeout=60)
        began = time.monotonic()
        for _ in range(10):
            with connect(server) as connection:
                assert read_all(connection).startswith(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n")
        assert time.monotonic() - began < 5, "nobody waits for room that cannot be made"
        assert server.metrics.requests["other", 503] == 10
        assert sum(server.metrics.seconds.counts) == 0, "what was not read took no time"
        go_on.set()
        for thread in threads:
            thread.join()
        assert answers == [200, 200]
        assert act(server, {"obs": [0, 0]})[0] == 200


def test_health_and_metrics_are_answered_while_all_engines_are_busy():
    num, busy, go_on = 2 * (os.cpu_count() or 1) + 2, threading.Semaphore(0), threading.Event()

    def engine(inputs, names):
        busy.release()
        assert go_on.wait(60)
        return {"action": np.zeros(1)}

    with Server(stub(engine), port=0) as server, concurrent.futures.ThreadPoolExecutor(num) as pool:
        answers = [pool.submit(act, server, {"obs": [0, 0]}) for _ in range(num)]
        for _ in range(max(2, os.cpu_count() or 1)):
            assert busy.acquire(timeout=60)
        assert not busy.acquire(timeout=0.1), "no more are computed at once than there are cores"
        for path in ("/health", "/metrics", "/"):
            with urllib.request.urlopen(server.url + path, timeout=30) as response:
                assert response.status == 200
        go_on.set()
        assert [answer.result()[0] for answer in answers] == [200] * num


def test_a_server_that_stops_finishes_what_it_is_answering():
    busy, go_on, answers = threading.Event(), threading.Event(), []

    def engine(inputs, names):
        busy.set()
        assert go_on.wait(60)
        return {"action": np.zeros(1)}

    server = Server(stub(engine), port=0)
    server.start()
    with connect(server) as idle, connect(server) as half:
        half.sendall(POST + b"Content-Length: 15\r\n\r\n")
        asking = threading.Thread(target=lambda: answers.append(ask(server, "POST", "/act", {"obs": [0, 0]})))
        asking.start()
        assert busy.wait(60)
        stopping = threading.Thread(target=server.stop, args=(60.0,))
        stopping.start()
        assert read_all(idle) == b"", "who asks nothing is hung up on"
        with pytest.raises(OSError, match=r"refused|reset"):
            connect(server).recv(1)
        half.sendall(b'{"obs": [0, 0]}')
        assert not answers
        go_on.set()
        assert read_all(half).startswith(b"HTTP/1.1 200 OK")
        asking.join()
        stopping.join()
    ((status, headers, said),) = answers
    assert (status, headers["Connection"], said["action"]) == (200, "close", 0)
    assert not server._http.clients


# Tokens, and what else can be asked


def test_with_a_token_only_health_is_open(bundle):
    with Server(deploy.load(bundle("plain")), port=0, token="s3cret~") as server:
        for token in (None, "", "s3cret", "s3cret~~", "Ä", "s3cret~ "[:-1].upper()):
            for method, path in (("GET", "/"), ("GET", "/metrics"), ("POST", "/act")):
                status, headers, said = ask(server, method, path, GOOD if method == "POST" else None, token)
                assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="rl4jax"'), token
                assert "Authorization: Bearer TOKEN" in said["error"]
                assert "s3cret" not in said["error"]
            assert ask(server, "GET", "/health", token=token)[0] == 200
        assert ask(server, "POST", "/act", GOOD, "s3cret~")[0] == 200
        assert "curl http://127.0.0.1" in server.example_line()
        assert '-H "Authorization: Bearer $RL4JAX_TOKEN"' in server.example_line()
        assert "s3cret" not in server.example_line()


def test_health_and_what_can_be_asked(server):
    status, headers, said = ask(server, "GET", "/health")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert said["status"] == "ok"
    assert (said["policy"]["algorithm"], said["policy"]["env"], said["policy"]["recurrent"]) == ("ppo", "CartPole", False)
    _, _, said = ask(server, "GET", "/")
    assert said["obs"]["shape"] == [4]
    assert said["limits"] == {"max_body": 400_000, "max_batch": 64}
    assert act(server, said["example"])[0] == 200


def test_metrics_count_what_happened(bundle):
    with Server(deploy.load(bundle("plain")), port=0) as server:
        for body in (GOOD, GOOD, {"obs": [[0] * 4] * 5}, b"nonsense"):
            act(server, body)
        ask(server, "GET", "/nowhere")
        with urllib.request.urlopen(server.url + "/metrics", timeout=60) as response:
            kind, text = response.headers["Content-Type"], response.read().decode()
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert all(re.fullmatch(r'[a-z_0-9]+(\{([a-z]+="[^"]*",?)+\})?', name) and float(value) >= 0 for name, value in samples.items())
    assert samples['rl4jax_requests_total{path="/act",status="200"}'] == "3"
    assert samples['rl4jax_requests_total{path="/act",status="400"}'] == "1"
    assert samples['rl4jax_requests_total{path="other",status="404"}'] == "1"
    assert [samples[f'rl4jax_batch_size_bucket{{le="{n}"}}'] for n in ("1", "4", "8", "+Inf")] == ["2", "2", "3", "3"]
    assert (samples["rl4jax_batch_size_sum"], samples["rl4jax_batch_size_count"], samples["rl4jax_request_seconds_count"]) == (
        "7",
        "3",
        "5",
    )
    for name in ("rl4jax_requests_total", "rl4jax_request_seconds", "rl4jax_batch_size", "rl4jax_uptime_seconds"):
        assert f"# TYPE {name} " in text


def test_the_time_of_an_answer_is_not_that_of_what_comes_after_it(bundle):
    with Server(deploy.load(bundle("plain")), port=0, max_body=100) as server, connect(server) as connection:
        connection.sendall(b"POST /act?x=1 HTTP/1.1\r\nContent-Length: 101\r\n\r\n")
        assert read_all(connection).startswith(b"HTTP/1.1 413"), "and it goes on listening, for what they may be sending"
    assert server.metrics.requests == {("/act", 413): 1}
    assert server.metrics.seconds.total < 0.5


ELSEWHERE = {
    "another name": "Host: evil.example\r\n",
    "another name with our port": "Host: evil.example:8080\r\n",
    "a name that begins as ours": "Host: localhost.evil.example\r\n",
    "no name": "Host: [\r\n",
    "two names": "Host: localhost\r\nHost: evil.example\r\n",
    "a page": "Host: localhost\r\nOrigin: http://evil.example\r\n",
    "a page in a frame, or a file": "Host: localhost\r\nOrigin: null\r\n",
}


@pytest.mark.parametrize("what", ELSEWHERE)
@pytest.mark.parametrize("path", ["GET /health", "GET /", "POST /act"])
def test_web_pages_may_not_ask_a_server_of_this_machine(path, what, server):
    status, body = raw(server, f"{path} HTTP/1.1\r\n{ELSEWHERE[what]}Content-Length: 21\r\n\r\n".encode() + GOOD)
    assert (status, "is not of this machine" in body) == (403, True)


@pytest.mark.parametrize(
    "own", ["Host: localhost", "Host: LOCALHOST:1234", "Host: [::1]:1", "Host: 127.0.0.1", "Origin: http://localhost:3000", ""]
)
def test_this_machine_may(own, server):
    assert raw(server, f"GET /health HTTP/1.1\r\n{own}\r\n\r\n".encode())[0] == 200


def test_by_what_names_a_server_may_be_asked():
    assert own_names("MyHost", "127.0.1.1") >= {"localhost", "::1", "myhost", "127.0.1.1"}
    assert own_names("x", "::ffff:127.0.0.1") is not None
    assert own_names("::1", "::1") >= {"127.0.0.1", "::1"}
    assert own_names("0.0.0.0", "0.0.0.0") is own_names("::", "::") is own_names("example", "192.0.2.1") is None


@pytest.mark.filterwarnings("ignore:host = 0.0.0.0 lets other machines")
@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ("Host: robot:1", 200),
        ("Host: 192.0.2.1:1\r\nOrigin: http://192.0.2.1:3000", 200),
        ("Host: [2001:db8::1]:1\r\nOrigin: http://[2001:db8::1]", 200),
        ("Host: 192.0.2.1:1\r\nOrigin: http://192.0.2.2:1", 403),
        ("Host: robot:1\r\nOrigin: http://robot:1", 403),  # whoever owns the name robot says what it means
        ("Host: robot\r\nOrigin: http://evil", 403),
        ("Host: [\r\nOrigin: null", 403),
    ],
)
def test_pages_of_elsewhere_may_not_ask_a_server_for_all(asked, status, bundle):
    with Server(deploy.load(bundle("plain")), host="0.0.0.0", port=0) as server:
        assert raw(server, f"GET /health HTTP/1.1\r\n{asked}\r\n\r\n".encode())[0] == status


def test_pages_of_the_name_it_was_given_may_ask_a_server_for_all():
    asked = email.message_from_string("Host: robot:1\nOrigin: http://robot:1")
    check_asker(asked, None, "Robot")
    with pytest.raises(Refused, match="a web page of elsewhere asks"):
        check_asker(asked, None, "another")


def test_a_token_is_enough_for_a_proxy_with_a_name_of_its_own(bundle):
    with Server(deploy.load(bundle("plain")), port=0, token="s3cret") as server:
        asked = b"POST /act HTTP/1.1\r\nHost: robot.example\r\nOrigin: https://robot.example\r\nContent-Length: 21\r\n"
        assert raw(server, asked + b"\r\n" + GOOD)[0] == 401
        assert raw(server, asked + b"Authorization: Bearer s3cret\r\n\r\n" + GOOD)[0] == 200


def test_a_server_is_started_once(server):
    new = Server(server.policy, port=0)
    with pytest.raises(ConfigError, match=r"must be new. Make another one."):
        server.start()
    new.stop()
    with pytest.raises(ConfigError, match=r"must be new. Make another one."):
        new.start()
    assert act(server, GOOD)[0] == 200


def test_where_it_cannot_listen_is_said(bundle, server):
    policy, port = server.policy, int(server.url.rpartition(":")[2])
    with pytest.raises(ConfigError, match=f"port = {port}: cannot listen there: .* in use"):
        Server(policy, port=port)
    with pytest.raises(ConfigError, match="from 0 to 65535"):
        Server(policy, port=70_000)
    for wrong in ("", "two words", "Ä", "line\n"):
        with pytest.raises(ConfigError, match=r"token = '\.\.\.' must be"):
            Server(policy, port=0, token=wrong)
    with pytest.raises(ConfigError, match="max_batch = 0"):
        Server(policy, port=0, max_batch=0)
    with pytest.raises(ConfigError, match="max_body = 0"):
        Server(policy, port=0, max_body=0)


# The command


@contextlib.contextmanager
def served(*args):
    """A process of `rl4jax serve`, its address, and the line that it says to copy."""
    process = start("serve", *args, "--port", 0)
    try:
        first, line = process.stdout.readline(), process.stdout.readline()
        yield process, re.search(r"http://\S+:\d+", first or process.stderr.read())[0], line.strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_answers_until_a_signal(number, bundle):
    with served(bundle("plain")) as (process, url, line):
        assert url.startswith("http://127.0.0.1:"), "nobody else"
        asked = re.fullmatch(rf"curl {url}/act -d '(.*)'", line)[1]
        with urllib.request.urlopen(f"{url}/act", asked.encode(), timeout=60) as response:
            assert json.loads(response.read())["action"] in (0, 1)
        idle = socket.create_connection(url.removeprefix("http://").split(":"), timeout=60)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        idle.close()
    assert (process.returncode, out, err) == (0, "", "")


def test_the_command_takes_its_token_from_the_environment(bundle, monkeypatch):
    monkeypatch.setenv("RL4JAX_TOKEN", "abc")
    with served(bundle("plain"), "--max-batch", 2) as (_, url, line):
        assert "Authorization" in line
        request = urllib.request.Request(url + "/act", GOOD, {"Authorization": "Bearer abc"})
        with urllib.request.urlopen(request, timeout=60) as response:
            assert response.status == 200
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            urllib.request.urlopen(url + "/act", GOOD, timeout=60)
        refused.value.close()
    monkeypatch.setenv("RL4JAX_TOKEN", "")
    code, _, err = rl4jax("serve", bundle("plain"))
    assert (code, "RL4JAX_TOKEN = '' must be a secret, or not set at all" in err) == (2, True), "an empty one is no wish for none"


def test_the_command_says_what_is_wrong(tmp_path, bundle):
    code, _, err = rl4jax("serve", tmp_path)
    assert (code, "no bundle" in err) == (2, True)
    code, _, err = rl4jax("serve", bundle("plain"), "--prot", "1")
    assert (code, "Did you mean '--port'?" in err) == (2, True)


def test_other_machines_are_not_let_in_unnoticed(bundle):
    with served(bundle("plain"), "--host", "0.0.0.0") as (process, url, _):
        with urllib.request.urlopen(url + "/health", timeout=60) as response:
            assert response.status == 200
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert err == "Warning: host = 0.0.0.0 lets other machines ask, and there is no token. Set RL4JAX_TOKEN, or give one.\n"


def test_where_no_signal_would_arrive_it_does_not_begin(bundle):
    with concurrent.futures.ThreadPoolExecutor(1) as pool, pytest.raises(ConfigError, match=r"must be the main one. Use deploy.Server."):
        pool.submit(serve, bundle("plain"), port=0).result()


def test_serving_loads_no_jax(bundle):
    program = """
import json, sys, urllib.request
from rl4jax import deploy
from rl4jax.cli.commands import serve as command
from rl4jax.deploy.server import Server
with Server(deploy.load(sys.argv[1]), port=0) as server:
    with urllib.request.urlopen(server.url + "/act", b'{"obs": [0, 0, 0, 0]}') as response:
        print(json.loads(response.read())["action"])
print(sorted({"jax", "jaxlib", "equinox", "optax"} & set(sys.modules)))
"""
    done = fresh_process.run(program, str(bundle("plain")))
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"[01]\n\[\]\n", done.stdout)


# Many at once


@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="where Linux tells how much memory there is in use")
@pytest.mark.parametrize("num_requests", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_eight_clients_with_nonsense_among_them(num_requests, bundle):
    asked = list(questions(deploy.load(bundle("plain"))))
    with served(bundle("plain")) as (process, url, _):
        warm_up = run_load(url, asked, 200, every=len(NONSENSE) // 2)
        assert warm_up.wrong == []
        before, load = private_memory(process.pid), run_load(url, asked, num_requests)
        grown = (private_memory(process.pid) - before) / 2**20
        print(f"{load}; memory {before / 2**20:.1f} MiB and {grown:+.1f}")
    assert load.wrong == []
    assert (load.good, load.refused) == (num_requests * 99 // 100, num_requests // 100)
    assert grown < 6
