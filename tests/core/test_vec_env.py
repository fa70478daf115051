import re

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.core.vec_env import check_vec_env
from tests.core.counting_env import InGraphCounting


def play(env, key, num_steps):
    """Observations [T + 1, B] and the steps [T, B] of a rollout with actions 0."""
    reset_key, step_key = jax.random.split(key)
    state, obs = env.reset(reset_key)

    def one(state, key):
        state, step = env.step(state, jnp.zeros(env.num_envs, jnp.int32), key)
        return state, step

    _, steps = jax.lax.scan(one, state, jax.random.split(step_key, num_steps))
    return jnp.concatenate([obs[None], steps.obs]), steps


@pytest.mark.parametrize("num_envs", [1, 5])
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_every_transition_arrives_once_with_its_true_last_observation(num_envs, wrap, getkey):
    env = rl.VecEnv(InGraphCounting(), num_envs)
    obs, steps = wrap(lambda key: play(env, key, 40))(getkey())
    assert steps.valid.all()
    episodes = []
    for b in range(num_envs):
        for t in range(40):
            name, age = (int(x) for x in obs[t, b])
            # What the step led to is the same episode one step on, even when the next observation is of a new one.
            assert steps.final_obs[t, b].tolist() == [name, age + 1]
            assert steps.reward[t, b] == age + 1
            ended = age + 1 == 2 + name % 3
            assert bool(steps.terminated[t, b]) == (ended and name % 2 == 0)
            assert bool(steps.truncated[t, b]) == (ended and name % 2 == 1)
            if age == 0:
                episodes.append(name)
            if ended:
                assert obs[t + 1, b, 1] == 0
            else:
                assert obs[t + 1, b].tolist() == [name, age + 1]
    assert len(set(episodes)) == len(episodes), "two episodes started from the same draw"


def test_no_two_episodes_start_from_the_same_draw(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), 64)
    key, reset_key = jax.random.split(getkey())
    state, first = env.reset(reset_key)

    @jax.jit
    def roll(state, key):
        def one(state, key):
            state, step = env.step(state, jnp.ones(64, jnp.int32), key)
            return state, (step.obs, step.terminated)

        return jax.lax.scan(one, state, jax.random.split(key, 500))

    _, (obs, ended) = roll(state, key)
    starts = np.concatenate([first, np.asarray(obs)[np.asarray(ended)]])
    assert len(starts) > 1000
    assert len(np.unique(starts, axis=0)) == len(starts)
    assert np.abs(starts.mean()) < 2e-3, "starts are uniform around 0"
    assert np.abs(starts.std() - 0.1 / np.sqrt(12)) < 1e-3


def test_under_vmap_over_seeds_each_seed_is_as_if_alone(getkey):
    env = rl.VecEnv(InGraphCounting(), 3)
    keys = jax.random.split(getkey(), 4)
    with jax.debug_key_reuse(False):  # it takes any scan over keys under vmap for reuse
        together, _ = jax.jit(jax.vmap(lambda k: play(env, k, 20)))(jax.random.clone(keys))
    for i, key in enumerate(keys):
        alone, _ = play(env, key, 20)
        assert (together[i] == alone).all()


def test_spaces_can_be_read_inside_jit(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), 2)

    @jax.jit
    def f(env):
        return jnp.zeros(env.single_observation_space.shape), jnp.zeros(int(env.single_action_space.n))

    assert [x.shape for x in f(env)] == [(4,), (2,)]


def test_a_changed_constant_compiles_nothing_new():
    traces = 0

    @jax.jit
    def f(env):
        nonlocal traces
        traces += 1
        return env.env.gravity

    f(rl.VecEnv(rl.envs.CartPole(), 2))
    assert f(rl.VecEnv(rl.envs.CartPole(gravity=1.6), 2)) == jnp.float32(1.6)
    assert traces == 1


def test_step_compiles_once_in_a_user_owned_loop(getkey):
    env = rl.VecEnv(rl.envs.GridWorld(size=5), 3)
    state, _ = env.reset(getkey())
    with jax.log_compiles(False):
        compiled = rl.VecEnv.step._cache_size()
        for _ in range(5):
            state, _ = env.step(state, jnp.zeros(3, jnp.int32), getkey())
    assert rl.VecEnv.step._cache_size() == compiled + 1


def test_masks_and_pictures_come_from_the_inner_environment(getkey):
    env = rl.VecEnv(rl.envs.GridWorld(), 3)
    state, _ = env.reset(getkey())
    mask = env.action_mask(state)
    assert mask is not None
    assert (mask.shape, mask.dtype) == ((3, 4), jnp.bool_)
    assert env.render(state, 2).dtype == np.uint8
    assert rl.VecEnv(rl.envs.CartPole(), 3).action_mask(rl.VecEnv(rl.envs.CartPole(), 3).reset(getkey())[0]) is None


@pytest.mark.parametrize("num_envs", [0, -3])
def test_num_envs_must_be_a_positive_integer(num_envs):
    with pytest.raises(rl.ConfigError, match=r"VecEnv.num_envs = .* must be a positive integer"):
        rl.VecEnv(rl.envs.CartPole(), num_envs)


class Broken(InGraphCounting):
    """InGraphCounting with one thing wrong."""

    fault: str = eqx.field(static=True)

    def step(self, state, action, key):
        state, step = InGraphCounting().step(state, action, key)
        values = {"obs": step.obs, "reward": step.reward, "terminated": step.terminated, "truncated": step.truncated}
        changes = {
            "reward dtype": {"reward": jnp.int32(1)},
            "reward shape": {"reward": jnp.zeros(1)},
            "flag dtype": {"terminated": jnp.float32(0)},
            "obs dtype": {"obs": step.obs.astype(jnp.float32)},
            "obs shape": {"obs": step.obs[:1]},
        }
        if self.fault == "python if" and state.t > 3:
            return state, step
        if self.fault == "state":
            return eqx.tree_at(lambda s: s.t, state, state.t.astype(jnp.float32)), step
        return state, rl.Step(**{**values, **changes.get(self.fault, {})})


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("reward dtype", r"Step.reward is int32\[\]; it must be float32\[\]"),
        ("reward shape", r"Step.reward is float32\[1\]; it must be float32\[\]"),
        ("flag dtype", r"Step.terminated is float32\[\]; it must be bool\[\]"),
        ("obs dtype", r"observation of float32\[2\], but reset returned int32\[2\]"),
        ("obs shape", r"observation of int32\[1\], but reset returned int32\[2\]"),
        ("state", r"returned a state .*float32.*, but reset returned"),
        ("python if", r"Broken.step cannot be compiled.*jnp.where instead of `if`"),
    ],
)
def test_an_environment_that_breaks_its_contract_is_named(fault, message):
    with pytest.raises(rl.Rl4JaxError, match=message):
        rl.VecEnv(Broken(fault), 2)


class WithCallable(InGraphCounting):
    shaping: object = len


def test_a_field_that_is_not_a_number_must_be_static():
    with pytest.raises(rl.EnvError, match=r"WithCallable.shaping = .* eqx.field\(static=True\)"):
        rl.VecEnv(WithCallable(), 2)


@pytest.mark.parametrize(
    ("name", "action", "message"),
    [
        (
            "CartPole",
            jnp.zeros((4, 1), jnp.int32),
            r"action is int32\[4,1\]; it must be int32\[4\]: one action of Discrete\(2\) for each of the 4",
        ),
        ("CartPole", jnp.zeros(3, jnp.int32), r"action is int32\[3\]; it must be int32\[4\]"),
        ("CartPole", jnp.zeros(4), r"action is float32\[4\]; it must be int32\[4\]"),
        ("CartPole", jnp.int32(1), r"action is int32\[\]; it must be int32\[4\]"),
        ("MultiDiscreteNav", jnp.zeros(4, jnp.int32), r"action is int32\[4\]; it must be int32\[4,2\]"),
        ("Pendulum", jnp.zeros((4, 2)), r"action is float32\[4,2\]; it must be float32\[4,1\]"),
        ("CartPole", [0, 1, 0, 1], r"it must be int32\[4\].*as an array"),
    ],
)
def test_wrong_actions_are_named(name, action, message, getkey):
    env = rl.VecEnv(rl.make(name), 4)
    state, _ = env.reset(getkey())
    with pytest.raises(rl.ShapeError, match=message):
        env.step(state, action, getkey())


class Bandit(rl.AbstractEnv):
    """Without any state: one step, reward for action 1."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Box(0, 1, (1,))

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        return (), jnp.zeros(1)

    def step(self, state, action, key):
        return (), rl.Step(jnp.ones(1), action.astype(jnp.float32), jnp.array(True), jnp.array(False))


def test_an_environment_may_have_no_state(getkey):
    rl.check_env(Bandit(), num_steps=3)
    env = rl.VecEnv(Bandit(), 3)
    state, _ = env.reset(getkey())
    state, step = env.step(state, jnp.array([0, 1, 1]), getkey())
    assert step.reward.tolist() == [0, 1, 1]
    assert step.obs.tolist() == [[0]] * 3
    assert step.final_obs.tolist() == [[1]] * 3


class Ported(Bandit):
    """As somebody new to it writes it."""

    mistake: str = eqx.field(static=True)
    width: int = 1

    def reset(self, key):
        if self.mistake == "only obs":
            return jnp.zeros(1)
        if self.mistake == "size":
            return (), jnp.zeros(self.width)
        if self.mistake == "self":
            self.width = 2
        return (), jnp.zeros(1)

    def step(self, state, action, key):
        step = Bandit().step(state, action, key)[1]
        return (*step, {}) if self.mistake == "five values" else (state, step)


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("only obs", r"Ported.reset returned .*; it must return \(state, obs\)"),
        ("size", r"Ported.reset cannot be compiled.*eqx.field\(static=True\) for sizes"),
        ("self", r"Ported.reset changes the environment itself"),
        ("five values", r"Ported.step returned 5 values; it must return \(state, rl.Step"),
    ],
)
def test_mistakes_of_newcomers_are_explained(mistake, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.VecEnv(Ported(mistake), 2)


class NoKey(Bandit):
    def step(self, state, action):  # pyright: ignore
        return Bandit().step(state, action, None)


class WithStart(Bandit):
    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(2, start=5)


class WithStartInside(Bandit):
    @property
    def action_space(self):
        return gymnasium.spaces.Dict(a=gymnasium.spaces.Tuple([gymnasium.spaces.Discrete(2, start=5)]))


class WithoutProperty(Bandit):
    def action_space(self):  # pyright: ignore
        return gymnasium.spaces.Discrete(2)


class SpaceAsField(Bandit):
    space: object


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (NoKey, r"NoKey.step must take \(state, action, key\), but too many positional arguments"),
        (WithStart, r"in-graph environments count their actions from 0"),
        (WithStartInside, r"in-graph environments count their actions from 0"),
        (WithoutProperty, r"WithoutProperty.action_space is .*; it must be a gymnasium.Space. Put @property above it"),
        (
            lambda: SpaceAsField(gymnasium.spaces.Discrete(2)),
            r"SpaceAsField.space = Discrete\(2\) is not a number or an array.* Make it a property",
        ),
    ],
)
def test_environments_of_the_wrong_form_are_explained(env, message):
    with pytest.raises(rl.EnvError, match=message):
        rl.VecEnv(env(), 2)


def test_the_picture_must_be_of_an_environment_there_is(getkey):
    env = rl.VecEnv(rl.envs.CartPole(), 2)
    with pytest.raises(rl.ConfigError, match="one of the 2 environments"):
        env.render(env.reset(getkey())[0], 2)


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ("CartPole", "Use rl.VecEnv(rl.make('CartPole'), num_envs=4) or rl.GymVecEnv('CartPole', num_envs=4)."),
        (rl.envs.CartPole(), "Use rl.VecEnv(env, num_envs=4)."),
        (gymnasium.make_vec("CartPole-v1", 2), "Use rl.GymVecEnv(env)."),
    ],
)
def test_what_is_no_vector_environment_is_told_how_to_become_one(given, fix):
    with pytest.raises(rl.EnvError, match=re.escape(fix)):
        check_vec_env(given, "ppo.init")
