"""DQN's verbs: what each promises, in-graph and on the host."""

import dataclasses
import inspect

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rl4jax as rl
from rl4jax import dqn
from rl4jax.algo import dqn_on_host
from rl4jax.collect.transition import Transition
from tests.algo.small import PROBES, AnyOf, Loop

SMALL = dqn.Config(capacity=64, batch_size=8, learning_starts=4, num_steps=2, lr=1e-2)


def q_started(env, cfg, seed=0, opt=None, **network):
    """A state of DQN before its first update."""
    model_key, key = jax.random.split(jax.random.key(seed))
    return dqn.init(rl.nn.QNetwork(env, key=model_key, **({"hidden": (16,)} | network)), env, cfg, key=key, opt=opt)


@pytest.fixture(scope="module")
def env():
    return rl.VecEnv(rl.envs.CartPole(), num_envs=4)


def turns(state, env, cfg, num, **how):
    for _ in range(num):
        state, rollout = dqn.collect(state, env, cfg)
        state, metrics = dqn.update(state, rollout, cfg, **how)
    return state, metrics


def test_the_defaults_are_the_books():
    cfg = dqn.Config()
    got = (cfg.lr, cfg.gamma, cfg.capacity, cfg.batch_size, cfg.tau, cfg.learning_starts)
    assert got == (1e-4, 0.99, 10_000, 32, 0.005, 1_000)
    assert [float(cfg.epsilon(t)) for t in (0, 5_000, 10_000, 20_000)] == pytest.approx([1.0, 0.525, 0.05, 0.05])
    assert (cfg.n_step, cfg.target_every, cfg.double, cfg.prioritized, cfg.max_grad_norm) == (1, 1, False, False, 0.0)


# The loss


def random_batch(rng, masked):
    mask = rng.random((6, 3)) < 0.6
    mask[:, 0] = True
    batch = Transition(
        obs=rng.normal(size=(6, 4)).astype(np.float32),
        action=rng.integers(0, 3, 6).astype(np.int32),
        reward=rng.normal(size=6).astype(np.float32),
        discount=np.float32([0.9, 0.0, 0.81, 0.9, 0.0, 0.9]),
        next_obs=rng.normal(size=(6, 4)).astype(np.float32),
        next_mask=mask if masked else None,
    )
    return jax.tree.map(jnp.asarray, batch)


class Table(eqx.Module):
    """Q-values that are linear in the observation."""

    weight: jax.Array

    def __call__(self, obs):
        return obs @ self.weight


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_the_loss_matches_a_plain_loop(double, masked, getkey):
    batch = random_batch(np.random.default_rng(0), masked)
    online, target = (Table(jax.random.normal(getkey(), (4, 3))) for _ in range(2))
    weight = np.float32([1.0, 0.5, 0.2, 1.0, 0.3, 0.9])
    got, (metrics, error) = dqn.loss(online, target, batch, dqn.Config(double=double), jnp.asarray(weight))
    errors = []
    for i in range(6):
        judge = batch.next_obs[i] @ np.asarray((online if double else target).weight)
        allowed = batch.next_mask[i] if masked else np.ones(3, bool)
        best = max((a for a in range(3) if allowed[a]), key=lambda a, judge=judge: judge[a])
        y = batch.reward[i] + batch.discount[i] * (batch.next_obs[i] @ np.asarray(target.weight))[best]
        errors.append((batch.obs[i] @ np.asarray(online.weight))[batch.action[i]] - y)
    np.testing.assert_allclose(error, errors, atol=1e-5)
    np.testing.assert_allclose(got, np.mean(weight * np.square(errors)), rtol=1e-5)
    assert set(metrics) == {"train/loss", "train/mean_q"}


@pytest.mark.parametrize("double", [False, True])
def test_no_gradient_reaches_the_target_network(double, getkey):
    batch = random_batch(np.random.default_rng(0), masked=False)
    online, target = (Table(jax.random.normal(getkey(), (4, 3))) for _ in range(2))
    cfg = dqn.Config(double=double)
    to_target = jax.grad(lambda target: dqn.loss(online, target, batch, cfg)[0])(target)
    to_online = jax.grad(lambda online: dqn.loss(online, target, batch, cfg)[0])(online)
    assert (to_target.weight == 0).all()
    assert (to_online.weight != 0).any()


def test_the_online_network_is_not_pulled_by_its_own_targets(getkey):
    """With one network in both places, the gradient is that of Q(s, a) alone."""
    batch, model = random_batch(np.random.default_rng(0), masked=False), Table(jax.random.normal(getkey(), (4, 3)))
    together = jax.grad(lambda model: dqn.loss(model, model, batch, dqn.Config(double=True))[0])(model)
    apart = jax.grad(lambda online: dqn.loss(online, model, batch, dqn.Config(double=True))[0])(model)
    np.testing.assert_allclose(together.weight, apart.weight)


# The verbs


def test_each_verb_compiles_once(env):
    with jax.debug_key_reuse(False):
        state, counts = q_started(env, SMALL), []
        for _ in range(6):
            state, _ = turns(state, env, SMALL, 1)
            counts.append((dqn._collect_in_graph._cache_size(), dqn._update_in_graph._cache_size()))
        turns(state, env, dataclasses.replace(SMALL, lr=1e-3, tau=0.5, epsilon=0.1), 1)
    assert counts[0] == counts[-1], "from the first round on"


def test_nothing_is_learned_before_it_starts(env):
    cfg = dataclasses.replace(SMALL, learning_starts=16)
    state = q_started(env, cfg)
    after, metrics = turns(state, env, cfg, 1)
    assert after.replay.size == 8
    assert np.isnan(metrics["train/loss"])
    assert metrics["train/gradient_steps"] == 0
    assert eqx.tree_equal(after.model, state.model)
    after, metrics = turns(after, env, cfg, 1)
    assert metrics["train/gradient_steps"] == 1
    assert np.isfinite(metrics["train/loss"])
    assert not eqx.tree_equal(after.model, state.model)


def test_the_target_network_follows_as_told(env):
    state = q_started(env, SMALL)
    start = state.target.advantage.weight

    def weights(**changes):
        with jax.debug_key_reuse(False):
            after, _ = turns(state, env, dataclasses.replace(SMALL, gradient_steps=3, **changes), 2)
        return after.model.advantage.weight, after.target.advantage.weight, after

    online, target, after = weights(target_every=0)
    assert (target == start).all(), "the caller moves it"
    moved = dqn.move_target(after, 0.25).target.advantage.weight
    np.testing.assert_allclose(moved, 0.25 * online + 0.75 * start, rtol=1e-6)
    assert eqx.tree_equal(dqn.move_target(after).target, after.model), "the default is a copy"
    online, target, _ = weights(target_every=3, tau=1.0)
    assert (target == online).all(), "a copy after every third gradient step"
    _, target, _ = weights(target_every=1000, tau=1.0)
    assert (target == start).all(), "not yet"
    online, target, _ = weights(target_every=1, tau=0.5)
    assert (target != online).any()
    assert (target != start).any()


def test_epsilon_follows_its_schedule_over_env_steps(env):
    cfg = dataclasses.replace(SMALL, epsilon=rl.Linear(1.0, 0.0, 32))
    state, seen = q_started(env, cfg), []
    for _ in range(5):
        state, metrics = turns(state, env, cfg, 1)
        seen.append(float(metrics["train/epsilon"]))
    assert seen == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
    assert float(state.policy.epsilon) == 0.0


@pytest.mark.parametrize(
    "changes",
    [{}, {"prioritized": True, "priority_beta": rl.Linear(0.4, 1.0, 8)}, {"n_step": 3, "double": True, "max_grad_norm": 0.5}],
    ids=["plain", "prioritized", "n-step"],
)
def test_training_in_one_program_is_the_loop(env, changes):
    cfg = dataclasses.replace(SMALL, gradient_steps=2, **changes)
    with jax.debug_key_reuse(False):
        one, metrics = dqn.train(q_started(env, cfg), env, cfg, 6)
        loop, last = turns(q_started(env, cfg), env, cfg, 6)
    for a, b in zip(
        jax.tree.leaves(eqx.filter(one.model, eqx.is_array)), jax.tree.leaves(eqx.filter(loop.model, eqx.is_array)), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)
    np.testing.assert_allclose(metrics["train/loss"][-1], last["train/loss"], rtol=1e-3)
    assert metrics["train/loss"].shape == (6,)


def test_seeds_and_learning_rates_vmap(env):
    def final(key, lr):
        cfg = dataclasses.replace(SMALL, lr=lr)
        state = dqn.init(rl.nn.QNetwork(env, key=jax.random.key(0), hidden=(16,)), env, cfg, key=key)
        return dqn.train(state, env, cfg, 4)[0].model.advantage.weight

    with jax.debug_key_reuse(False):
        weights = jax.vmap(final)(jax.random.split(jax.random.key(0), 3), jnp.array([1e-3, 1e-2, 0.0]))
    assert len(np.unique(np.asarray(weights).reshape(3, -1), axis=0)) == 3


def test_a_state_is_saved_and_loaded_whole(env, tmp_path):
    cfg = dataclasses.replace(SMALL, prioritized=True, n_step=2)
    state, _ = turns(q_started(env, cfg), env, cfg, 4)
    rl.save(tmp_path / "state.safetensors", state)
    loaded = rl.load(tmp_path / "state.safetensors", like=jax.eval_shape(lambda: q_started(env, cfg)))
    with jax.debug_key_reuse(False):
        (one, a), (other, b) = (turns(s, env, cfg, 2) for s in (state, loaded))
    assert a["train/loss"] == b["train/loss"]
    assert eqx.tree_equal(one.model, other.model)


def test_a_gradient_that_is_not_finite_changes_no_weight(env):
    state, rollout = dqn.collect(q_started(env, SMALL), env, SMALL)
    after, metrics = dqn.update(state, rollout._replace(reward=jnp.full_like(rollout.reward, jnp.inf)), SMALL)
    assert metrics["train/skipped"] == 1
    assert eqx.tree_equal(after.model, state.model)
    assert eqx.tree_equal(after.opt_state, state.opt_state)


def test_an_optimizer_and_a_reduction_of_ones_own(env):
    opt = optax.sgd(0.1)
    state, _ = turns(q_started(env, SMALL, opt=opt), env, SMALL, 2, opt=opt)
    with jax.debug_key_reuse(False):
        still, _ = turns(q_started(env, SMALL, opt=opt), env, SMALL, 2, opt=opt, reduce=no_gradient)
    assert not eqx.tree_equal(state.model, still.model)
    assert eqx.tree_equal(still.model, q_started(env, SMALL).model)
    with pytest.raises(rl.ConfigError, match=r"opt is missing: dqn\.init was given one"):
        turns(state, env, SMALL, 1)


def no_gradient(tree):
    return jax.tree.map(jnp.zeros_like, tree)


# Learning


@pytest.mark.parametrize(
    "changes", [{}, {"double": True, "n_step": 3, "prioritized": True, "target_every": 20, "tau": 1.0}], ids=["plain", "all options"]
)
def test_dqn_learns_the_known_value_and_the_right_action(changes):
    gamma = 0.5
    cfg = dqn.Config(
        lr=rl.Linear(1e-2, 1e-4, 300),
        gamma=gamma,
        capacity=2_000,
        batch_size=64,
        tau=0.1,
        learning_starts=100,
        gradient_steps=4,
        epsilon=0.5,
    )
    cfg = dataclasses.replace(cfg, **changes)
    for names in (("ProbeConstant",), ("ProbeObservation", "ProbeDiscount"), ("ProbeAction", "ProbeContext")):
        probes = tuple(rl.make(name) for name in names)
        for number, name in enumerate(names):
            env = rl.VecEnv(AnyOf(jnp.int32(number), probes), num_envs=16)
            state, _ = dqn.train(q_started(env, cfg), env, cfg, num_updates=300)
            seen = jnp.array(PROBES.get(name, [[0.0]]))
            value = jax.vmap(lambda obs, policy=state.policy: policy(obs)[1])(seen)
            np.testing.assert_allclose(value, probes[number].optimal_value(seen, gamma), atol=0.1, err_msg=name)
            if name != "ProbeObservation":  # whose returns are what was seen
                played = rl.evaluate(state.policy, env, 64, key=jax.random.key(3))
                assert float(played.mean) == 1.0, f"{name}: the greedy policy is right everywhere"


@pytest.mark.parametrize("n_step", [1, 4])
def test_a_truncated_episode_is_bootstrapped(n_step):
    gamma = 0.9
    env = rl.VecEnv(Loop(max_steps=10), num_envs=4)
    cfg = dqn.Config(lr=3e-3, gamma=gamma, capacity=1_000, batch_size=32, tau=0.05, learning_starts=50, gradient_steps=4, n_step=n_step)
    state, _ = dqn.train(q_started(env, cfg), env, cfg, num_updates=400)
    value = float(state.policy(jnp.ones(1))[1])
    watched = (1 - gamma**10) / (1 - gamma)
    assert abs(value - 1 / (1 - gamma)) < 0.5 < 1 / (1 - gamma) - watched, "10, not the 6.5 of ten steps"


# On the host


@pytest.mark.parametrize("changes", [{}, {"prioritized": True, "n_step": 3, "double": True}], ids=["plain", "options"])
def test_the_host_learns_as_the_graph_does(changes):
    """The same environment from both sides, the same keys: the same transitions, samples and weights."""
    cfg = dataclasses.replace(SMALL, gradient_steps=2, **changes)
    inside = rl.VecEnv(Loop(max_steps=5), num_envs=2)
    outside = rl.GymVecEnv(lambda: rl.to_gymnasium(Loop(max_steps=5)), num_envs=2)
    with jax.debug_key_reuse(False):
        graph, graph_metrics = turns(q_started(inside, cfg), inside, cfg, 8)
        host, host_metrics = turns(q_started(outside, cfg), outside, cfg, 8)
    items, theirs = graph.replay.items(), host.replay.items()
    for a, b in zip(jax.tree.leaves(items), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(graph.model.advantage.weight, host.model.advantage.weight, atol=1e-4)
    assert set(graph_metrics) == set(host_metrics)
    outside.close()


def played_on_host(changed, num_steps=1):
    """The rollouts of 40 turns in two CartPoles, with the state changed by a function after each update, and the last state."""
    cfg, rollouts = dataclasses.replace(SMALL, epsilon=0.3, num_steps=num_steps), []
    with rl.GymVecEnv("CartPole-v1", num_envs=2) as world:
        state = q_started(world, cfg)
        for _ in range(40):
            state, rollout = dqn.collect(state, world, cfg)
            state, _ = dqn.update(state, rollout, cfg)
            state = changed(state)
            rollouts.append(rollout)
    return rollouts, state


def actions_of(rollouts):
    return np.concatenate([rollout.action for rollout in rollouts])


@pytest.mark.parametrize("num_steps", [1, 3])
def test_what_update_foresees_is_what_the_network_answers(num_steps):
    def forgets(state):  # an epsilon of its own: nothing that was foreseen holds
        assert dqn_on_host.foreseen(state, num_steps) is not None or state.num_gradient_steps == 0
        state = state._replace(epsilon=np.array(state.epsilon))
        assert dqn_on_host.foreseen(state, num_steps) is None
        return state

    foreseen, state = played_on_host(lambda state: state, num_steps)
    asked, other = played_on_host(forgets, num_steps)
    assert state.num_gradient_steps > 20
    np.testing.assert_array_equal(actions_of(foreseen), actions_of(asked))
    np.testing.assert_array_equal(state.model.advantage.weight, other.model.advantage.weight)


def test_weights_that_were_replaced_are_asked_again():
    def always(choice):
        def changed(state):
            weights = {name: jnp.zeros_like(x) for name, x in state.packed.params.items()}
            weights["advantage.bias"] = jnp.zeros(2).at[choice].set(1.0)
            return state._replace(packed=state.packed.with_params(weights), epsilon=jnp.zeros(()))

        return changed

    for choice in (0, 1):
        rollouts, _ = played_on_host(always(choice))
        assert (actions_of(rollouts)[1:] == choice).all()


def test_the_host_keeps_dead_slots_out_of_memory():
    envs = gymnasium.make_vec(
        "CartPole-v1", num_envs=2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
    )
    env = rl.GymVecEnv(envs)
    cfg = dataclasses.replace(SMALL, capacity=1_000, num_steps=64, learning_starts=10_000)
    state, real = q_started(env, cfg), 0
    for _ in range(4):
        state, rollout = dqn.collect(state, env, cfg)
        real += int(np.asarray(rollout.valid).sum())
        state, _ = dqn.update(state, rollout, cfg)
    assert real < 4 * 64 * 2, "there were dead slots"
    assert int(state.replay.size) == real
    env.close()


# Bad input


def test_bad_settings_are_named():
    for changes, message in (
        ({"capacity": 0}, r"dqn\.Config\.capacity = 0 must be a positive integer"),
        ({"tau": 2.0}, r"dqn\.Config\.tau = 2\.0 must be in \(0, 1\]"),
        ({"epsilon": rl.Linear(1.5, 0.0, 10)}, r"dqn\.Config\.epsilon = .* must be in \[0, 1\], or a schedule"),
        ({"learning_starts": -1}, r"dqn\.Config\.learning_starts = -1 must be zero or a positive integer"),
        ({"n_step": 0}, r"dqn\.Config\.n_step = 0"),
    ):
        with pytest.raises(rl.ConfigError, match=message):
            dqn.Config(**changes)


def test_dead_slots_are_neither_remembered_nor_counted_wherever_the_memory_is():
    """In NEXT_STEP mode a slot is spent on each reset."""
    world = rl.GymVecEnv(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=AutoresetMode.NEXT_STEP))
    cfg = dqn.Config(num_steps=40, learning_starts=10**6, epsilon=1.0, n_step=1)
    on_host = q_started(world, cfg)
    in_graph = q_started(rl.VecEnv(rl.envs.CartPole(), num_envs=3), cfg)
    on_host, rollout = dqn.collect(on_host, world, cfg)
    num_valid = int(np.sum(rollout.valid))
    assert num_valid < 120
    for state in (on_host, in_graph):
        state, _ = dqn.update(state, rollout, cfg)
        assert int(state.replay.size) == int(state.num_steps) == num_valid
        assert (np.asarray(state.replay.items().reward) == 1).all()


def test_an_optimizer_that_was_forgotten_is_missed_before_anything_is_remembered():
    world, opt = rl.GymVecEnv("CartPole-v1", num_envs=1), optax.sgd(0.1)
    state = q_started(world, SMALL, opt=opt)
    state, rollout = dqn.collect(state, world, SMALL)
    with pytest.raises(rl.ConfigError, match="opt is missing"):
        dqn.update(state, rollout, SMALL)
    state, _ = dqn.update(state, rollout, SMALL, opt)
    assert state.replay.size == 2


def test_rollouts_that_do_not_follow_are_refused(env):
    state, rollout = dqn.collect(q_started(env, SMALL), env, SMALL)
    three = dataclasses.replace(SMALL, n_step=3)
    with pytest.raises(rl.ConfigError, match=r"n_step = 3, but the state was begun for \d+ environments and n_step = 1\. Begin a new one"):
        dqn.update(state, rollout, three)
    with pytest.raises(rl.ShapeError, match=r"rollout\.reward has shape .* it must be that of its other fields"):
        dqn.update(state, rollout._replace(reward=rollout.reward[:1]), SMALL)
    with pytest.raises(rl.EnvError, match="must give them from its first reset on"):
        dqn.update(state, rollout._replace(mask=jnp.ones((*rollout.reward.shape, 2), bool)), SMALL)


def test_a_ring_of_ones_own_must_fit(env):
    host = rl.GymVecEnv("CartPole-v1", num_envs=2)

    def begin(world, cfg, ring, **like):
        model = rl.nn.QNetwork(world, key=jax.random.key(0), hidden=(16,))
        item = dqn.transition_like(world, rl.collect.begin(model, world, key=jax.random.key(1)))
        return dqn.init(model, world, cfg, key=jax.random.key(2), replay=ring(5, like=item._replace(**like)))

    prioritized = dqn.Config(prioritized=True)
    assert begin(host, SMALL, rl.HostReplay.empty).replay.capacity == 5
    assert begin(env, prioritized, rl.collect.PrioritizedReplay.empty).replay.capacity == 5
    with pytest.raises(
        rl.ConfigError, match=r"replay, for an environment on the host and prioritized=True, = 'HostReplay' must be a HostP"
    ):
        begin(host, prioritized, rl.HostReplay.empty)
    with pytest.raises(rl.ConfigError, match=r"in-graph and prioritized=False, = 'PrioritizedReplay' must be a Replay\."):
        begin(env, SMALL, rl.collect.PrioritizedReplay.empty)
    with pytest.raises(
        rl.ShapeError, match=r"replay is not for the transitions of this environment\. Build it with like=dqn.transition_like"
    ):
        begin(env, SMALL, rl.Replay.empty, reward=jnp.zeros(2))


def test_models_and_environments_that_do_not_fit(env, getkey):
    init = inspect.unwrap(dqn.init)
    with pytest.raises(TypeError, match="one observation gave a tuple"):
        init(rl.nn.ActorCritic(env, key=getkey()), env, SMALL, key=getkey())
    pendulum = rl.VecEnv(rl.envs.Pendulum(), num_envs=2)
    with pytest.raises(rl.EnvError, match="Q-learning needs Discrete actions"):
        init(Table(jnp.ones((3, 2))), pendulum, SMALL, key=getkey())
    with pytest.raises(rl.EnvError, match="QNetwork: the actions are Box"):
        rl.nn.QNetwork(pendulum, key=getkey())
    with pytest.raises(rl.ShapeError, match=r"must be floats of shape \(2,\)"):
        init(Table(jnp.ones((4, 3))), env, SMALL, key=getkey())
    state = q_started(env, SMALL)
    with pytest.raises(rl.EnvError, match="the state plays in 4 environments"):
        dqn.collect(state, rl.VecEnv(rl.envs.CartPole(), num_envs=2), SMALL)


def test_a_real_end_at_the_time_limit_is_remembered_with_masks():
    class Corridor(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 9, (1,), np.float32), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.t = 0
            return np.zeros(1, np.float32), {"action_mask": np.ones(2, np.int8)}

        def step(self, action):
            self.t += 1
            return np.full(1, self.t, np.float32), float(self.t == 3), self.t == 3, False, {"action_mask": np.ones(2, np.int8)}

    cfg = dataclasses.replace(SMALL, num_steps=1, learning_starts=1000)
    with rl.GymVecEnv(lambda: gymnasium.wrappers.TimeLimit(Corridor(), 3), num_envs=1) as world:
        items = turns(q_started(world, cfg), world, cfg, 31)[0].replay.items()
    assert (items.reward == 1).sum() == (items.discount == 0).sum() == 10


def test_an_optimizer_that_is_forgotten_later_costs_nothing():
    opt = optax.sgd(1e-2, momentum=0.9)
    with rl.GymVecEnv("CartPole-v1", num_envs=2) as world:
        state, _ = turns(q_started(world, SMALL, opt=opt), world, SMALL, 3, opt=opt)
        state, rollout = dqn.collect(state, world, SMALL)
        with pytest.raises(rl.ConfigError, match="opt is missing"):
            dqn.update(state, rollout, SMALL)
        state, _ = dqn.update(state, rollout, SMALL, opt)
        assert state.num_updates == 4


@pytest.mark.parametrize("num_steps", [1, 3])
def test_nobody_can_write_into_what_happened_on_the_host(num_steps):
    def looks(state):
        assert not state.playing.obs.flags.writeable
        return state

    for rollout in played_on_host(looks, num_steps)[0]:
        arrays = [x for x in jax.tree.leaves(rollout) if isinstance(x, np.ndarray)]
        assert len(arrays) > 5
        assert not any(x.flags.writeable for x in arrays)


def test_steps_are_counted_up_to_what_32_bits_hold(env):
    many = 2**31 - 1
    cfg = dataclasses.replace(SMALL, epsilon=rl.Linear(1.0, 0.1, 10))
    with rl.GymVecEnv("CartPole-v1", num_envs=2) as world:
        for stage in (env, world):
            state, _ = turns(q_started(stage, cfg), stage, cfg, 3)
            state, metrics = turns(state._replace(num_steps=jnp.int32(many - 3)), stage, cfg, 3)
            assert state.num_steps == many
            assert metrics["train/gradient_steps"] == 1
            np.testing.assert_allclose(state.epsilon, 0.1, rtol=1e-6)


def test_one_can_learn_on_the_host_without_playing_on():
    with rl.GymVecEnv("CartPole-v1", num_envs=2) as world:
        state, rollout = dqn.collect(turns(q_started(world, SMALL), world, SMALL, 3)[0], world, SMALL)
    state, metrics = dqn.update(state._replace(playing=None), rollout, SMALL)
    assert np.isfinite(metrics["train/loss"])


def test_slips_are_named(env, getkey):
    state = q_started(env, SMALL)
    with pytest.raises(TypeError, match=r"model is a State.*Give state\.model"):
        inspect.unwrap(dqn.act)(state, jnp.zeros(4))
    with pytest.raises(rl.ConfigError, match=r"dqn\.act: epsilon = 7\.0 must be a probability"):
        dqn.act(state.model, jnp.zeros(4), epsilon=7.0)
    state, rollout = dqn.collect(state, env, SMALL)
    with pytest.raises(rl.ConfigError, match=r"cfg\.prioritized = True must be False, as for dqn\.init"):
        dqn.update(state, rollout, dataclasses.replace(SMALL, prioritized=True))
    state, _ = dqn.update(state, rollout, SMALL)
    with pytest.raises(TypeError, match=r"batch is a Sample.*\.items"):
        inspect.unwrap(dqn.loss)(state.model, state.target, state.replay.sample(4, key=getkey()), SMALL)
    with pytest.raises(rl.EnvError, match="plays in another environment than env"), jax.debug_key_reuse(False):
        dqn.collect(state, rl.VecEnv(rl.envs.Acrobot(), num_envs=4), SMALL)
    with pytest.raises(TypeError, match=r"Of a Q-network give the policy"):
        rl.evaluate(state.model, env, 4, key=getkey())
