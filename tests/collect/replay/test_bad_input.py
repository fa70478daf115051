"""Wrong types, as a user without run-time type checks gives them: in a fresh process, where no contract is checked."""

import json

import pytest

from tests.fresh_process import run

MAKE = {
    "Replay": "Replay.empty({}, 0)",
    "PrioritizedReplay": "PrioritizedReplay.empty({}, 0)",
    "HostReplay": "HostReplay.empty({}, 0)",
    "HostPrioritizedReplay": "HostPrioritizedReplay.empty({}, 0)",
    "DiskReplay": "DiskReplay(sys.argv[2], {}, 0)",
}
ONE = "np.ones(1, np.int32)"
STEPS = "Step(np.ones((2, 3), bool))"
STREAMS = ("SequenceReplay", "HostSequenceReplay")
CASES = {
    **{MAKE[kind].format(5) + f".add({ONE}, np.ones(2, bool))": "Replay.add: valid is bool[2]; it must be bool[1], one" for kind in MAKE},
    **{MAKE[kind].format(5) + f".add({ONE}, np.ones(1))": "Replay.add: valid is float64[1]; it must be bool[1], one" for kind in MAKE},
    **{MAKE[kind].format(5) + f".add({ONE}).sample(3, key=5)": "Replay.sample: key is int32[]; it must be one JAX key. Use" for kind in MAKE},
    **{MAKE[kind].format(5) + f".add({ONE}).sample(2.5, key=KEY)": "Replay.sample: num = 2.5 must be a positive integer." for kind in MAKE},
    **{
        MAKE[kind].format(5) + f".add({ONE}).sample(3, key=jax.random.split(KEY))": "Replay.sample: key is key<fry>[2]; it must be one JAX key."
        for kind in MAKE
    },
    **{
        MAKE[kind].format(5) + f".add({ONE}).sample_with(np.arange(3))": "Replay.sample_with: bits are int64[3]; they must be uint32[N]."
        for kind in MAKE
    },
    **{
        MAKE[kind].format(capacity): f"capacity = {capacity} must be a positive integer below"
        for kind in MAKE
        for capacity in ("0", "-1", "2.5", "True", "None", "'5'", str(2**40))
    },
    **{
        MAKE[kind].format(5) + ".reprioritize(np.zeros(2, int), np.ones(3))": "reprioritize: slots have shape (2,) and error (3,); both must be"
        for kind in ("PrioritizedReplay", "HostPrioritizedReplay")
    },
    **{MAKE[kind].format(5) + f".add({ONE}).at(np.array([1]))": "at: slots go from 1 to 1; they must be in [0, 1), where" for kind in MAKE},
    **{
        f"{kind}.empty(5, 3, Step(np.bool_(0))).add({STEPS}, {valid})": f"{kind}.add: valid is {found}; it must be bool[2, 3], one for each step."
        for kind in STREAMS
        for valid, found in (("np.ones((2, 3), int)", "int64[2, 3]"), ("[[True] * 3] * 2", "list[2, 3]"), ("np.ones(3, bool)", "bool[3]"))
    },
    "PrioritizedReplay.empty(5, 0, alpha=-1.0)": "PrioritizedReplay.empty: alpha = -1.0 must be zero or more.",
    "HostPrioritizedReplay.empty(5, 0, alpha='x')": "HostPrioritizedReplay: alpha = 'x' must be zero or more.",
    "DiskReplay(sys.argv[2], 5, 0, chunk_bytes=0)": "DiskReplay: chunk_bytes = 0 must be a positive integer.",
    "DiskReplay(sys.argv[2], 5, np.zeros((3, 0)))": "must be an item of at least one byte.",
}  # fmt: skip


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    program = (
        "import json, sys, jax, numpy as np\n"
        "from collections import namedtuple\n"
        "from rl4jax.collect import DiskReplay, HostPrioritizedReplay, HostReplay, PrioritizedReplay, Replay\n"
        "from rl4jax.collect import HostSequenceReplay, SequenceReplay\n"
        "Step = namedtuple('Step', 'is_first')\n"
        "KEY, out = jax.random.key(0), {}\n"
        "for case in json.loads(sys.argv[1]):\n"
        "    try: out[case] = f'no error: {eval(case)}'\n"
        "    except Exception as error: out[case] = f'{type(error).__name__}: {error}'\n"
        "print(json.dumps(out))"
    )
    out = run(program, json.dumps(list(CASES)), str(tmp_path_factory.mktemp("folder") / "ring"))
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


@pytest.mark.parametrize("case", CASES)
def test_the_answer_names_argument_value_rule_and_fix(case, answers):
    assert CASES[case] in answers[case]
