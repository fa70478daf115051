import copy
import functools

import envpool
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import rl4jax as rl
from rl4jax.core.gym_make import InTurn
from tests.core.host_counting import LENGTHS, Dies, HostCounting, KeepsItsArrays, Raises, expected_transitions

NUM_ENVS = len(LENGTHS)
KEY = 0


def no_actions(env):
    return np.zeros((env.num_envs, *env.single_action_space.shape), env.single_action_space.dtype)


def play(env, num_steps):
    """The real transitions of each environment, in order, as a collector would store them."""
    state, obs = env.reset(jax.random.key(KEY))
    transitions = [[] for _ in range(env.num_envs)]
    for _ in range(num_steps):
        state, step = env.step(state, no_actions(env))
        for b in range(env.num_envs):
            if step.valid[b]:
                flags = bool(step.terminated[b]), bool(step.truncated[b])
                transitions[b].append((tuple(obs[b]), tuple(step.final_obs[b]), step.reward[b], *flags))
        obs = step.obs
    return transitions


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_real_transition_arrives_once_and_no_dead_one(mode):
    # No copies: the vector environment hands out its own buffer, and each environment writes into one array for ever.
    makers = [functools.partial(HostCounting, i) for i in range(NUM_ENVS)]
    env = rl.GymVecEnv(SyncVectorEnv(makers, copy=False, autoreset_mode=mode))
    for b, got in enumerate(play(env, 30)):
        assert len(got) >= 15
        assert got == expected_transitions(b, 31)[: len(got)]


def test_a_factory_is_run_in_same_step_mode_and_loses_no_last_observation():
    indices = iter(range(NUM_ENVS))  # each call of the factory makes the next environment
    env = rl.GymVecEnv(lambda: HostCounting(next(indices)), NUM_ENVS)
    assert env.envs.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    for b, got in enumerate(play(env, 20)):
        assert got == expected_transitions(b, 20)[:20], "every step is a real one, though the environment writes in place"


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_spawned_workers_give_the_same_transitions(mode):
    makers = [functools.partial(KeepsItsArrays, i) for i in range(NUM_ENVS)]
    with rl.GymVecEnv(AsyncVectorEnv(makers, context="spawn", copy=False, autoreset_mode=mode)) as env:
        for b, got in enumerate(play(env, 12)):
            assert got == expected_transitions(b, 13)[: len(got)]


def test_asynchronous_factories_run_in_processes_of_their_own():
    with rl.GymVecEnv("CartPole-v1", 2, asynchronous=True) as env, rl.GymVecEnv("CartPole-v1", 2) as same:
        state, obs = env.reset(jax.random.key(3))
        other, other_obs = same.reset(jax.random.key(3))
        assert (obs == other_obs).all()
        for _ in range(30):
            state, step = env.step(state, np.ones(2, np.int32))
            other, other_step = same.step(other, np.ones(2, np.int32))
            assert (step.obs == other_step.obs).all()
            assert (step.final_obs == other_step.final_obs).all()


class InPlaceVector(gymnasium.vector.VectorEnv):
    """Writes every observation into the same memory, as fast vector environments do."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    num_envs = 2
    single_observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    single_action_space = gymnasium.spaces.Discrete(2)
    buffer = np.zeros((2, 3), np.float32)
    rewards = np.zeros(2, np.float32)
    flags = np.zeros(2, bool)

    def reset(self, *, seed=None, options=None):
        self.buffer[:] = 0
        self.rewards[:] = 0
        return self.buffer, {}

    def step(self, actions):
        self.buffer += 1
        self.rewards += 1
        return self.buffer, self.rewards, self.flags, self.flags, {}


def test_a_vector_env_that_overwrites_its_buffers_cannot_change_collected_data():
    env = rl.GymVecEnv(InPlaceVector())
    state, first = env.reset(jax.random.key(0))
    on_device = jnp.asarray(first)
    steps = []
    for _ in range(4):
        state, step = env.step(state, np.zeros(2, np.int32))
        steps.append((step, jnp.asarray(step.obs)))
    assert (first == 0).all()
    assert (on_device == 0).all()
    for t, (step, on_device) in enumerate(steps, start=1):
        assert (step.obs == t).all()
        assert (step.final_obs == t).all()
        assert (step.reward == t).all()
        assert (on_device == t).all()


class AnySpace(gymnasium.Env):
    """Checks that it is given actions of its own space, and shows samples of its observation space."""

    def __init__(self, observation_space, action_space=None):
        self.observation_space = observation_space
        self.action_space = action_space or gymnasium.spaces.Discrete(2)
        self.actions = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {"start": 1.0}

    def step(self, action):
        assert self.action_space.contains(action), (action, self.action_space)
        self.actions.append(action)
        return self.observation_space.sample(), 0.0, len(self.actions) % 5 == 0, False, {"count": len(self.actions)}


OBS_SPACES = {
    "float64": (gymnasium.spaces.Box(-1, 1, (2,), np.float64), ["float32[3,2]"]),
    "image": (gymnasium.spaces.Box(0, 255, (4, 5, 3), np.uint8), ["uint8[3,4,5,3]"]),
    "discrete with a start": (gymnasium.spaces.Discrete(4, start=-2), ["int32[3]"]),
    "multi-binary": (gymnasium.spaces.MultiBinary(4), ["int8[3,4]"]),
    "multi-discrete": (gymnasium.spaces.MultiDiscrete([3, 4], start=[1, -1]), ["int32[3,2]"]),
    "dict": (
        gymnasium.spaces.Dict(
            {
                "image": gymnasium.spaces.Box(0, 255, (2, 2, 1), np.uint8),
                "parts": gymnasium.spaces.Tuple((gymnasium.spaces.Discrete(3), gymnasium.spaces.Box(-1, 1, (2,), np.float64))),
            }
        ),
        ["uint8[3,2,2,1]", "int32[3]", "float32[3,2]"],
    ),
}


@pytest.mark.parametrize("name", OBS_SPACES)
def test_observations_arrive_zero_based_and_in_32_bits(name):
    space, wanted = OBS_SPACES[name]
    env = rl.GymVecEnv(lambda: AnySpace(space), 3)
    state, obs = env.reset(jax.random.key(0))
    for _ in range(12):  # over two ends, so that final_obs is put together too
        assert [f"{x.dtype}[{','.join(map(str, x.shape))}]" for x in jax.tree.leaves(obs)] == wanted
        for b in range(3):
            one = jax.tree.map(lambda x: x[b], obs)  # noqa: B023
            assert rl.core.spaces.flatten(env.single_observation_space, one).shape == (gymnasium.spaces.flatdim(space),)
            for leaf in jax.tree.leaves(one) if "discrete" in name else []:
                assert (leaf >= 0).all()
        state, step = env.step(state, np.zeros(3, np.int32))
        assert jax.tree.map(np.shape, step.final_obs) == jax.tree.map(np.shape, obs)
        obs = step.obs


ACTION_SPACES = {
    "discrete with a start": (gymnasium.spaces.Discrete(3, start=5), gymnasium.spaces.Discrete(3)),
    "multi-binary": (gymnasium.spaces.MultiBinary((2, 2)), gymnasium.spaces.MultiDiscrete([2, 2, 2, 2])),
    "multi-discrete": (gymnasium.spaces.MultiDiscrete([3, 2], start=[1, 7]), gymnasium.spaces.MultiDiscrete([3, 2])),
    "float64": (gymnasium.spaces.Box(-0.1, 0.3, (2,), np.float64), gymnasium.spaces.Box(np.float32(-0.1), np.float32(0.3), (2,))),
    "dict": (
        gymnasium.spaces.Dict({"kind": gymnasium.spaces.Discrete(2, start=1), "where": gymnasium.spaces.Box(-1, 1, (2,), np.float64)}),
        gymnasium.spaces.Dict({"kind": gymnasium.spaces.Discrete(2), "where": gymnasium.spaces.Box(-1, 1, (2,))}),
    ),
}


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_actions_reach_the_environment_in_its_own_space(name):
    own, shown = ACTION_SPACES[name]
    env = rl.GymVecEnv(lambda: AnySpace(gymnasium.spaces.Discrete(1), own), 3)
    assert env.single_action_space == shown
    state, _ = env.reset(jax.random.key(0))
    batch = gymnasium.vector.utils.batch_space(shown, 3)
    batch.seed(0)
    for action in [batch.sample() for _ in range(20)]:
        state, _ = env.step(state, action)
    if isinstance(shown, gymnasium.spaces.Box):  # the bounds themselves, which float32 rounds to just outside of float64's
        state, _ = env.step(state, np.stack([shown.low, shown.high, shown.high]))


@pytest.mark.parametrize("name", OBS_SPACES)
def test_our_vector_env_answers_as_gymnasiums_own(name):
    """`InTurn` against `SyncVectorEnv`, whose work it does in less time: observations, rewards, ends and infos of 20 steps."""

    def make():
        return AnySpace(copy.deepcopy(OBS_SPACES[name][0]))

    ours, theirs = (kind([make] * 3, autoreset_mode=AutoresetMode.SAME_STEP) for kind in (InTurn, SyncVectorEnv))
    assert data_equivalence(ours.reset(seed=3), theirs.reset(seed=3))
    for _ in range(20):
        action = ours.action_space.sample()
        assert data_equivalence(ours.step(action), theirs.step(action))


class Masked(gymnasium.Env):
    """Allows one action, the episode's age modulo 3, and gives the mask in one of three ways."""

    action_space = gymnasium.spaces.Discrete(3, start=4)

    def __init__(self, where):
        self.where = where
        self.observation_space = gymnasium.spaces.Box(0, 10, (1,))
        if where == "obs":
            self.observation_space = gymnasium.spaces.Dict(
                {"observation": self.observation_space, "action_mask": gymnasium.spaces.MultiBinary(3)}
            )

    def _mask(self):
        return (np.arange(3) == self.age % 3).astype(np.int8)

    def _out(self):
        obs = np.array([self.age], np.float32)
        return {"observation": obs, "action_mask": self._mask()} if self.where == "obs" else obs

    def _info(self):
        return {"action_mask": self._mask()} if self.where == "info" else {}

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return self._out(), self._info()

    def step(self, action):
        assert action - 4 == self.age % 3
        self.age += 1
        return self._out(), 1.0, self.age == 5, False, self._info()


class MaskedByMethod(Masked):
    def action_masks(self):
        return self._mask().astype(bool)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("where", ["info", "obs", "method"])
def test_masks_are_read_wherever_the_environment_keeps_them(where, mode):
    make = functools.partial(MaskedByMethod if where == "method" else Masked, where)
    env = rl.GymVecEnv(SyncVectorEnv([make, make], autoreset_mode=mode))
    assert env.single_observation_space == gymnasium.spaces.Box(0, 10, (1,))
    state, obs = env.reset(jax.random.key(0))
    for _ in range(14):
        mask = env.action_mask(state)
        assert mask is not None
        assert (mask.shape, mask.dtype) == ((2, 3), np.bool_)
        state, step = env.step(state, mask.argmax(-1).astype(np.int32))
        assert isinstance(step.obs, np.ndarray)


def test_a_mask_that_allows_nothing_is_an_error():
    class Stuck(Masked):
        def _mask(self):
            return np.full(3, self.age < 2, np.int8)

        def step(self, action):
            self.age += 1
            return self._out(), 0.0, False, False, self._info()

    env = rl.GymVecEnv(lambda: Stuck("info"), 2)
    state, _ = env.reset(jax.random.key(0))
    state, _ = env.step(state, np.zeros(2, np.int32))
    with pytest.raises(rl.EnvError, match=r"action_mask of environment 0 at step 2 is \[False False False\], which allows nothing"):
        env.step(state, np.zeros(2, np.int32))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(2, np.float32), r"action has dtype float32; Discrete\(2\) needs int64"),
        (np.zeros(3, np.int32), r"action has shape \(3,\); it must be \(2,\)"),
        (np.zeros((2, 1), np.int32), r"action has shape \(2, 1\); it must be \(2,\)"),
        (np.array([0, 2]), r"action\[1\] = 2 is not in Discrete\(2\). Count actions from 0"),
        (np.array([-1, 0]), r"action\[0\] = -1 is not in Discrete\(2\)"),
        (np.array([True, False]), r"action has dtype bool"),
    ],
)
def test_wrong_actions_are_named(action, message):
    env = rl.GymVecEnv("CartPole-v1", 2)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=message):
        env.step(state, action)
    env.step(state, np.zeros(2, np.int32))  # and nothing was stepped


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.float32([[3.0]]), r"action\[0\] = \[3.\] is not in Box.*rl.clip_action"),
        (np.float32([[np.nan]]), r"action\[0\] = \[nan\] is not in Box.* It is not finite"),
        (np.float32([[-np.inf]]), r"action\[0\] = \[-inf\] is not in Box.* It is not finite"),
        (None, r"action = None is not an array of numbers"),
        ([[1.0], [1.0, 2.0]], r"is not an array"),
    ],
)
def test_continuous_actions_outside_their_box_are_named(action, message):
    env = rl.GymVecEnv("Pendulum-v1", 1)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=message):
        env.step(state, action)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"kind": np.zeros(1, int)}, r"action is a dict of \['kind'\]; it must be a dict of \['kind', 'where'\]"),
        (np.zeros(1, int), r"action is a ndarray; it must be a dict of \['kind', 'where'\]"),
        ({"kind": np.zeros(1, int), "where": np.zeros((1, 3))}, r"action\['where'\] has shape \(1, 3\); it must be \(1, 2\)"),
    ],
)
def test_actions_of_the_wrong_structure_are_named(action, message):
    env = rl.GymVecEnv(lambda: AnySpace(gymnasium.spaces.Discrete(1), ACTION_SPACES["dict"][0]), 1)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=message):
        env.step(state, action)


class WrongStep(AnySpace):
    def __init__(self, **changes):
        super().__init__(gymnasium.spaces.Box(-1, 1, (2,)))
        self.changes = changes

    def step(self, action):
        out = dict(zip(("obs", "reward", "terminated", "truncated", "info"), super().step(action), strict=True))
        return tuple(out.values())[:4] if "drop" in self.changes else tuple((out | self.changes).values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drop": True}, r"environment 0, .*: step returned 4 values; it must return \(obs, reward, terminated"),
        ({"obs": np.zeros(3, np.float32)}, r"step returned an observation float32\[3\]; its space is Box"),
        ({"terminated": 2}, r"step returned terminated = 2"),
        ({"reward": "x"}, r"step returned reward = 'x'; it must be one number"),
    ],
)
def test_a_step_that_returns_wrong_things_is_named(changes, message):
    env = rl.GymVecEnv(lambda: WrongStep(**changes), 1)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=message):
        env.step(state, np.zeros(1, int))


@pytest.mark.parametrize("wrong", [np.array([0.5, 0.7]), np.array([300, -1])], ids=["fractions", "other integers"])
def test_an_observation_that_would_wrap_or_be_rounded_is_refused(wrong):
    class Pixels(AnySpace):
        def step(self, action):
            return wrong, *super().step(action)[1:]

    env = rl.GymVecEnv(lambda: Pixels(gymnasium.spaces.Box(0, 255, (2,), np.uint8)), 1)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=r"step returned an observation .*; its space is Box\(0, 255, \(2,\), uint8\)"):
        env.step(state, np.zeros(1, int))


class Faulty(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)
    age = 0

    def __init__(self, fault):
        self.fault = fault

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.age += 1
        late = self.age == 3 and action == 1
        obs = np.array([0, np.inf if late and self.fault == "obs" else 0], np.float32)
        return obs, float("nan") if late and self.fault == "reward" else 0.0, late and self.fault == "last obs", False, {}


@pytest.mark.parametrize("fault", ["obs", "reward"])
def test_a_non_finite_number_names_the_environment_and_the_step(fault):
    env = rl.GymVecEnv(lambda: Faulty(fault), 3)
    state, _ = env.reset(jax.random.key(0))
    for _ in range(2):
        state, _ = env.step(state, np.array([0, 0, 1]))
    name = {"obs": "observation", "reward": "reward"}[fault]
    with pytest.raises(rl.EnvError, match=rf"{name} of environment 2 at step 3 is .*(nan|inf).*; it must be finite"):
        env.step(state, np.array([0, 0, 1]))


class FaultyVector(InPlaceVector):
    def __init__(self, **changes):
        self.changes = changes

    def step(self, actions):
        out = dict(zip(("obs", "reward", "terminated", "truncated"), super().step(actions)[:4], strict=True))
        return *(out | self.changes).values(), {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros((2, 1))}, r"reward of step 1 is ndarray float64\[2, 1\]; it must be a NumPy array float\[2\]"),
        ({"terminated": np.zeros(2)}, r"terminated of step 1 is ndarray float64\[2\]; it must be a NumPy array bool\[2\]"),
        ({"truncated": False}, r"truncated of step 1 is bool bool\[\]; it must be a NumPy array bool\[2\]"),
        ({"obs": np.zeros((2, 4), np.float32)}, r"observation of step 1 has shape \(2, 4\); it must be \(2, 3\)"),
    ],
)
def test_a_vector_env_that_returns_wrong_shapes_is_named(changes, message):
    env = rl.GymVecEnv(FaultyVector(**changes))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=message):
        env.step(state, np.zeros(2, np.int32))


def test_same_step_without_final_obs_is_an_error():
    class Forgetful(FaultyVector):
        metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    env = rl.GymVecEnv(Forgetful(terminated=np.array([True, False])))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=r"SAME_STEP and an episode ended, but info has no 'final_obs'"):
        env.step(state, np.zeros(2, np.int32))


def test_an_unknown_autoreset_mode_is_an_error():
    class Silent(InPlaceVector):
        metadata = {}

    with pytest.raises(rl.EnvError, match=r"metadata\['autoreset_mode'\] is None"):
        rl.GymVecEnv(Silent())


def test_an_old_state_cannot_be_stepped_again():
    env = rl.GymVecEnv("CartPole-v1", 2)
    old, _ = env.reset(jax.random.key(0))
    new, _ = env.step(old, np.zeros(2, np.int32))
    with pytest.raises(rl.EnvError, match=r"this is not the newest state of this environment"):
        env.step(old, np.zeros(2, np.int32))
    env.step(new, np.zeros(2, np.int32))


def test_host_environments_refuse_to_be_traced():
    env = rl.GymVecEnv("CartPole-v1", 2)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=r"GymVecEnv.step runs Python code on the host and cannot be traced"):
        jax.jit(lambda a: env.step(state, a)[1].reward)(jnp.zeros(2, jnp.int32))
    with pytest.raises(rl.EnvError, match=r"GymVecEnv.reset runs Python"):
        jax.jit(env.reset)(jax.random.key(0))


@pytest.mark.parametrize("num_envs", [0, -1, None])
def test_num_envs_must_be_a_positive_integer(num_envs):
    with pytest.raises(rl.ConfigError, match=r"GymVecEnv.num_envs = .* must be a positive integer"):
        rl.GymVecEnv("CartPole-v1", num_envs)


def test_the_key_decides_the_episodes():
    def first(seed):
        return rl.GymVecEnv("CartPole-v1", 2).reset(jax.random.key(seed))[1]

    assert (first(1) == first(1)).all()
    assert (first(1) != first(2)).any()
    assert (first(1)[0] != first(1)[1]).any()


def test_our_environments_survive_the_way_through_gymnasium():
    env = rl.GymVecEnv("rl4jax/GridWorld-v0", 3)
    state, obs = env.reset(jax.random.key(0))
    mask = env.action_mask(state)
    assert mask is not None
    assert mask.shape == (3, 4)
    assert obs.dtype == np.float32


@pytest.mark.filterwarnings("ignore:.*precision lowered")  # of EnvPool's own spaces
def test_envpool_is_understood():
    env = rl.GymVecEnv(envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3, seed=1))
    state, obs = env.reset(jax.random.key(0))
    ages = np.zeros(3, int)
    resets = 0
    for _ in range(60):
        state, step = env.step(state, np.ones(3, np.int32))
        resets += int((~step.valid).sum())
        ages = np.where(step.valid, ages + 1, 0)
        assert (ages[step.terminated] >= 5).all()
        assert (step.reward == step.valid).all()
        # A pole that has fallen is beyond 12 degrees: the last observation is the true one.
        assert (np.abs(step.final_obs[step.terminated, 2]) > 0.2).all()
    assert resets > 5


class Lists(gymnasium.Env):
    """Gives Python lists for arrays, as many environments do."""

    observation_space = gymnasium.spaces.Tuple((gymnasium.spaces.Box(-1e3, 1e3, (2,), np.float32), gymnasium.spaces.MultiDiscrete([9, 9])))
    action_space = gymnasium.spaces.MultiDiscrete([2, 2])
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return ([0.0, 100.0], [0, 5]), {}

    def step(self, action):
        self.t += 1
        return ([float(self.t), 100.0 + self.t], [self.t, 5]), 1.0, self.t >= 2, False, {}


@pytest.mark.parametrize("num_envs", [1, 2, 3])
def test_observations_given_as_lists_keep_their_order(num_envs):
    env = rl.GymVecEnv(Lists, num_envs)
    state, _ = env.reset(jax.random.key(0))
    for _ in range(2):
        state, step = env.step(state, np.zeros((num_envs, 2), int))
    assert step.final_obs[0].tolist() == [[2.0, 102.0]] * num_envs
    assert step.final_obs[1].tolist() == [[2, 5]] * num_envs
    assert step.obs[0].tolist() == [[0.0, 100.0]] * num_envs


class MaskedSometimes(gymnasium.Env):
    """Gives its mask, a list, in the info of some steps only: of those after which `age` is odd. The second environment ends at 3."""

    observation_space = gymnasium.spaces.Box(0, 10, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, end):
        self.end = end

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.age += 1
        info = {"action_mask": [0, 1]} if self.age % 2 else {}
        return np.full(1, self.age, np.float32), 0.0, self.age == self.end, False, info


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_masks_that_come_only_sometimes_go_to_the_right_environment(mode):
    makers = [functools.partial(MaskedSometimes, end) for end in (9, 3)]
    env = rl.GymVecEnv(SyncVectorEnv(makers, autoreset_mode=mode))
    state, obs = env.reset(jax.random.key(0))
    for _ in range(7):
        state, step = env.step(state, np.ones(2, np.int32))
        ages = step.obs[:, 0]
        mask = env.action_mask(state)
        wanted = [[not age % 2, True] for age in ages.tolist()]
        assert (np.ones((2, 2), bool) if mask is None else mask).tolist() == wanted


def test_numbers_that_do_not_fit_32_bits_are_named():
    class Far(AnySpace):
        def reset(self, *, seed=None, options=None):
            return np.array([2**33 + 5]), {}

    env = rl.GymVecEnv(lambda: Far(gymnasium.spaces.Box(0, 2**40, (1,), np.int64)), 1)
    with pytest.raises(rl.EnvError, match=r"holds 8589934597, which int32 cannot"):
        env.reset(jax.random.key(0))


def test_a_reward_too_large_for_float32_is_not_finite():
    env = rl.GymVecEnv(FaultyVector(reward=np.array([0.0, 1e300])))
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match=r"reward of environment 1 at step 1 is inf"):
        env.step(state, np.zeros(2, np.int32))


def test_a_state_of_another_environment_is_refused():
    a, b = rl.GymVecEnv("CartPole-v1", 2), rl.GymVecEnv("CartPole-v1", 2)
    a.reset(jax.random.key(0))
    state_of_b, _ = b.reset(jax.random.key(0))
    with pytest.raises(rl.EnvError, match="not the newest state of this environment"):
        a.step(state_of_b, np.zeros(2, np.int32))


def test_after_an_error_in_a_step_the_old_state_is_refused():
    env = rl.GymVecEnv(lambda: Faulty("reward"), 1)
    state, _ = env.reset(jax.random.key(0))
    for _ in range(2):
        state, _ = env.step(state, np.array([1]))
    with pytest.raises(rl.EnvError, match="reward of environment 0 at step 3"):
        env.step(state, np.array([1]))
    with pytest.raises(rl.EnvError, match="To go on, begin new episodes"):
        env.step(state, np.array([1]))
    env.reset(jax.random.key(1))


def test_a_closed_environment_says_so():
    env = rl.GymVecEnv("CartPole-v1", 1)
    state, _ = env.reset(jax.random.key(0))
    env.close()
    with pytest.raises(rl.EnvError, match="is closed"):
        env.step(state, np.array([0]))


def test_a_worker_that_dies_is_named_and_does_not_hang():
    with rl.GymVecEnv(Dies, 2, asynchronous=True) as env:
        state, _ = env.reset(jax.random.key(0))
        with pytest.raises(rl.EnvError, match=r"a worker process died in step 0; exit codes \[.*3.*\]"):
            env.step(state, np.array([1, 0]))


@pytest.mark.filterwarnings("ignore:.*ERROR:UserWarning")
def test_after_a_worker_raised_the_environment_is_closed():
    env = rl.GymVecEnv(Raises, 2, asynchronous=True)
    state, _ = env.reset(jax.random.key(0))
    with pytest.raises(ValueError, match="a bug"):
        env.step(state, np.array([1, 0]))
    with pytest.raises(rl.EnvError, match=r"GymVecEnv.reset: .* is closed. Make a new one"):
        env.reset(jax.random.key(0))
    env.close()
