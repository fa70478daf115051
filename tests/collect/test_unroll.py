"""Rollouts: the same from both kinds of environment, true at ends, whole across rollouts."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rl4jax as rl
from rl4jax import collect, ppo
from rl4jax.collect import play
from tests.algo.small import Mixed, started


def model_of(env, **network):
    return rl.nn.ActorCritic(env, key=jax.random.key(7), **({"hidden": (8,)} | network))


class Deterministic(rl.AbstractEnv):
    """An environment that always starts alike, so that its two forms see the same."""

    inner: rl.AbstractEnv
    max_steps: int

    observation_space = property(lambda self: self.inner.observation_space)
    action_space = property(lambda self: self.inner.action_space)

    def reset(self, key):
        state, obs = self.inner.reset(jax.random.key(5))
        return (state, jnp.int32(0)), obs

    def step(self, state, action, key):
        inner, step = self.inner.step(state[0], action, key)
        return (inner, state[1] + 1), step._replace(truncated=step.truncated | (state[1] + 1 >= self.max_steps))

    def action_mask(self, state):
        return self.inner.action_mask(state[0])


@pytest.mark.parametrize(
    ("inner", "network"),
    [(rl.envs.CartPole(), {}), (rl.envs.CartPole(), {"core": "lstm"}), (rl.envs.Pendulum(), {}), (rl.envs.GridWorld(), {})],
    ids=["feed-forward", "recurrent", "continuous", "masked"],
)
def test_both_kinds_of_environment_give_equal_rollouts(inner, network):
    env = Deterministic(inner, max_steps=15)
    in_graph = rl.VecEnv(env, num_envs=3)
    host = rl.GymVecEnv(lambda: rl.to_gymnasium(env), num_envs=3)
    model = model_of(in_graph, **network)
    rollouts = []
    for kind in (in_graph, host):
        playing = collect.begin(model, kind, key=jax.random.key(0))
        for key in jax.random.split(jax.random.key(1), 2):
            playing, rollout = collect.unroll(model, kind, playing, 24, key=key)
            rollouts.append(rollout)
    assert rollouts[0].truncated.any()
    assert rollouts[0].terminated.any() or not isinstance(inner, rl.envs.CartPole)
    for ours, theirs in ((rollouts[0], rollouts[2]), (rollouts[1], rollouts[3])):
        for name, a, b in zip(ours._fields, ours, theirs, strict=True):
            for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-5, err_msg=name)


def test_greedy_rollouts_do_what_is_most_likely_on_both_sides():
    env = Deterministic(rl.envs.CartPole(), max_steps=15)
    kinds = rl.VecEnv(env, num_envs=2), rl.GymVecEnv(lambda: rl.to_gymnasium(env), num_envs=2)
    model, rollouts = model_of(kinds[0]), []
    for kind in kinds:
        playing = collect.begin(model, kind, key=jax.random.key(0))
        rollouts.append(collect.unroll(model, kind, playing, 20, key=jax.random.key(1), judged=False, greedy=True)[1])
    best = jax.vmap(jax.vmap(lambda obs: model(obs)[0].mode()))
    for rollout in rollouts:
        np.testing.assert_array_equal(rollout.action, best(rollout.obs))
        assert rollout.value is None
    np.testing.assert_allclose(rollouts[0].log_prob, rollouts[1].log_prob, atol=1e-5)


def test_noise_drawn_ahead_or_step_by_step_is_the_same(monkeypatch):
    env = rl.VecEnv(Mixed(), num_envs=2)
    model = model_of(env)
    rollouts = []
    for most in (play.MOST_AHEAD, 0):
        monkeypatch.setattr(play, "MOST_AHEAD", most)
        play.play_in_graph.clear_cache()
        playing = collect.begin(model, env, key=jax.random.key(0))
        rollouts.append(collect.unroll(model, env, playing, 9, key=jax.random.key(1))[1])
    for a, b in zip(*map(jax.tree.leaves, rollouts), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_held_chance_is_that_of_the_step_before():
    def drawn(hold):
        return np.asarray(jax.random.key_data(play.keys_of_actions(jax.random.key(3), 400, 5, hold)))

    free, often, always = drawn(None), drawn(0.75), drawn(1.0)
    np.testing.assert_array_equal(drawn(0.0), free)
    np.testing.assert_array_equal(always, np.broadcast_to(free[:1], free.shape))
    same = (often[1:] == often[:-1]).all(-1)
    assert 0.7 < same.mean() < 0.8
    np.testing.assert_array_equal(often[1:][~same], free[1:][~same])  # what is not held is drawn anew


def test_both_kinds_of_environment_hold_chance_alike():
    env = Deterministic(rl.envs.CartPole(), max_steps=15)
    in_graph, host = rl.VecEnv(env, num_envs=3), rl.GymVecEnv(lambda: rl.to_gymnasium(env), num_envs=3)
    packed = rl.nn.pack(model_of(in_graph))
    actions = []
    for kind, act in ((in_graph, play.play_in_graph), (host, play.play_on_host)):
        playing = collect.begin(packed.model, kind, key=jax.random.key(0))
        actions.append(act(packed, kind, playing, 24, key=jax.random.key(1), hold=0.9)[1].action)
    np.testing.assert_array_equal(*actions)
    assert (np.diff(actions[0], axis=0) == 0).mean() > 0.8, "at even chances, half of all actions would be as the one before"


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=str)
def test_every_autoreset_mode_of_gymnasium_gives_the_same_real_steps(mode):
    def make():
        return rl.to_gymnasium(Deterministic(rl.envs.CartPole(), max_steps=9))

    model = model_of(rl.GymVecEnv(make, num_envs=1), core="gru")
    rollouts = []
    for envs in (SyncVectorEnv([make], autoreset_mode=mode), SyncVectorEnv([make], autoreset_mode=AutoresetMode.SAME_STEP)):
        env = rl.GymVecEnv(envs)
        playing = collect.begin(model, env, key=jax.random.key(0))
        rollouts.append(collect.unroll(model, env, playing, 30, key=jax.random.key(1))[1])
    ours, plain = rollouts
    valid = np.asarray(ours.valid[:, 0])
    assert valid.all() == (mode != AutoresetMode.NEXT_STEP)
    np.testing.assert_allclose(ours.obs[:9], plain.obs[:9], atol=1e-6)
    starts = np.flatnonzero(np.asarray(ours.is_first[:, 0]) & valid)
    for start in starts:
        np.testing.assert_allclose(ours.obs[start], plain.obs[0], atol=1e-6)
    lengths = np.asarray(ours.episode_length)
    assert set(lengths[np.asarray(ours.ended)]) == {9}
    assert set(ours.episode_returns()) == {9.0}


def test_the_values_of_a_rollout_are_the_models_own():
    env = rl.VecEnv(rl.TimeLimit(rl.envs.CartPole(), 7), num_envs=2)
    model = model_of(env)
    playing = collect.begin(model, env, key=jax.random.key(0))
    end, rollout = collect.unroll(model, env, playing, 20, key=jax.random.key(1))
    for t in range(20):
        for b in range(2):
            pi, value = model(rollout.obs[t, b])
            np.testing.assert_allclose(rollout.value[t, b], value, atol=1e-5)
            np.testing.assert_allclose(rollout.log_prob[t, b], pi.log_prob(rollout.action[t, b]), atol=1e-5)
            if not rollout.ended[t, b]:
                follows = rollout.obs[t + 1, b] if t < 19 else end.obs[b]
                np.testing.assert_allclose(rollout.next_value[t, b], model(follows)[1], atol=1e-5)
    assert (rollout.next_value[np.asarray(rollout.terminated)] == 0).all()
    truncated = np.argwhere(np.asarray(rollout.truncated))
    assert len(truncated)
    for t, b in truncated:  # the last observation is not in the rollout: compute it from the one before
        state = env.env.env.state_from_obs(rollout.obs[t, b])
        _, step = env.env.env.step(state, rollout.action[t, b], jax.random.key(0))
        np.testing.assert_allclose(rollout.next_value[t, b], model(step.obs)[1], atol=1e-5)


def test_returns_span_rollouts():
    env = rl.VecEnv(rl.TimeLimit(rl.envs.Pendulum(), 10), num_envs=2)
    model = model_of(env)
    playing = collect.begin(model, env, key=jax.random.key(0))
    rewards, returns = [], []
    for key in jax.random.split(jax.random.key(1), 5):
        playing, rollout = collect.unroll(model, env, playing, 4, key=key)
        rewards.append(np.asarray(rollout.reward))
        returns += rollout.episode_returns()
        assert np.isnan(rollout.mean_episode_return) == (not rollout.ended.any())
    rewards = np.concatenate(rewards)
    np.testing.assert_allclose(sorted(returns), sorted(rewards.reshape(2, 10, 2).sum(1).ravel()), rtol=1e-5)


def test_a_recurrent_carry_starts_anew_with_each_episode(getkey):
    env = rl.VecEnv(rl.TimeLimit(rl.envs.Pendulum(), 5), num_envs=2)
    model = model_of(env, core="lstm")
    playing = collect.begin(model, env, key=getkey())
    _, rollout = collect.unroll(model, env, playing, 12, key=getkey())
    assert rollout.is_first[:, 0].tolist() == [True, False, False, False, False] * 2 + [True, False]
    for b in range(2):
        carry = model.initial_carry()
        for t in range(12):
            if rollout.is_first[t, b]:
                carry = model.initial_carry()
            _, value, carry = model(rollout.obs[t, b], carry)
            np.testing.assert_allclose(rollout.value[t, b], value, atol=1e-5)


def test_rollouts_hold_masks_and_actions_of_every_kind():
    env = rl.VecEnv(Mixed(), num_envs=3)
    cfg = ppo.Config(num_steps=16, num_minibatches=1)
    state, rollout = ppo.collect(started(env, cfg, core="gru"), env, cfg)
    assert rollout.mask.shape == (16, 3, 2 + 3 + 3 + 2)
    assert set(rollout.action) == {"move", "pair"}
    assert (rollout.action["move"][..., 1] < 2).all(), "the masked choice is never taken"
    t = np.asarray(rollout.obs["t"])
    assert (np.asarray(rollout.action["pair"][0]) <= t).all()


class Faulty(rl.AbstractEnv):
    """Breaks its contract at the third step."""

    fault: str = eqx.field(static=True)

    observation_space = property(lambda self: gymnasium.spaces.Box(-1, 1, (1,), np.float32))
    action_space = property(lambda self: gymnasium.spaces.Discrete(2))

    def reset(self, key):
        return jnp.int32(0), jnp.full(1, jnp.nan if self.fault == "start" else 0.0)

    def action_mask(self, state):
        return jnp.full(2, self.fault != "mask") | (state < 3)

    def step(self, state, action, key):
        bad = jnp.where(state >= 2, jnp.nan, 0.0)
        obs = jnp.zeros(1) + (bad if self.fault == "obs" else 0.0)
        return state + 1, rl.Step(obs, 1.0 + (bad if self.fault == "reward" else jnp.zeros(())), jnp.array(False), jnp.array(False))


@pytest.mark.parametrize("fault", ["reward", "obs", "start", "mask"])
def test_a_fault_inside_a_compiled_rollout_is_raised_by_the_next_collect(fault):
    said = {
        "reward": "8 rewards that are not finite",
        "obs": "8 observations that are not finite",
        "start": "2 observations that are not finite",
        "mask": "6 action masks that allow nothing",
    }
    env = rl.VecEnv(Faulty(fault), num_envs=2)
    cfg = ppo.Config(num_steps=6, num_minibatches=1)
    state, rollout = ppo.collect(started(env, cfg), env, cfg)
    with pytest.raises(rl.EnvError, match=f"Faulty gave {said[fault]}"):
        ppo.collect(state, env, cfg)
    if fault != "mask":
        updated, metrics = ppo.update(state, rollout, cfg)
        assert metrics["train/skipped"] == 1
        assert all((x == state.packed.params[name]).all() for name, x in updated.packed.params.items()), "nothing is learned from it"


def test_a_stale_state_of_a_host_environment_is_refused():
    env = rl.GymVecEnv("CartPole-v1", num_envs=2)
    cfg = ppo.Config(num_steps=4, num_minibatches=1)
    first = started(env, cfg)
    ppo.collect(first, env, cfg)
    with pytest.raises(rl.EnvError, match="not the newest state"), jax.debug_key_reuse(False):
        ppo.collect(first, env, cfg)


class LateMask(gymnasium.Env):
    """Forbids action 0 from its third step on, and says nothing before."""

    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        info = {"action_mask": np.array([False, True])} if self.t == 3 else {}
        return np.zeros(1, np.float32), 0.0, self.t == 6, False, info


def test_a_mask_that_comes_only_sometimes_allows_all_at_other_times():
    env = rl.GymVecEnv(LateMask, num_envs=1)
    model = model_of(env)
    playing = collect.begin(model, env, key=jax.random.key(0))
    for key in jax.random.split(jax.random.key(1), 2):
        playing, rollout = collect.unroll(model, env, playing, 6, key=key)
        assert rollout.mask[:, 0].tolist() == [[True, True]] * 3 + [[False, True]] + [[True, True]] * 2
        assert rollout.action[3, 0] == 1
