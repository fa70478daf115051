"""Forbidden actions: a village can buy only what it can pay for. Its legal moves change every turn, and which one it takes matters.

python examples/action_masking.py

Expect: a player that takes any legal move scores 42 % of the optimum (both computed exactly), the trained one 99 %. 7 seconds on
one core, once compiled.
"""

from collections.abc import Callable

import rl4jax as rl

rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from rl4jax import ppo  # noqa: E402

TURNS, MAX_COINS, MAX_FARMS = 20, 30, 5
COST = jnp.array([0, 3, 5, 15])  # of work (which earns a coin), a farm, a house, a castle
POINTS = jnp.array([0.0, 0.0, 1.0, 4.0])


def legal(coins: jax.Array, farms: jax.Array) -> jax.Array:
    """What the village can pay for, and no more farms than there is land."""
    affordable = coins[..., None] >= COST
    return affordable.at[..., 1].set(affordable[..., 1] & (farms < MAX_FARMS))


def turn(coins: jax.Array, farms: jax.Array, action: jax.Array, good_year: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Coins and farms after a turn, and the points it brought. Each farm pays a coin, in a good year two."""
    farms = farms + (action == 1)
    coins = coins - COST[action] + (action == 0) + farms * (1 + good_year)
    return jnp.clip(coins, 0, MAX_COINS), farms, POINTS[action]


class VillageState(eqx.Module):
    coins: jax.Array
    farms: jax.Array
    t: jax.Array


class Village(rl.AbstractEnv):
    """As many points as possible in 20 turns, beginning with nothing. Every second year is good, at random."""

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 1, (3,), np.float32)

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(4)

    def reset(self, key: jax.Array) -> tuple[VillageState, jax.Array]:
        return VillageState(jnp.int32(0), jnp.int32(0), jnp.int32(0)), jnp.zeros(3)

    def step(self, state: VillageState, action: jax.Array, key: jax.Array) -> tuple[VillageState, rl.Step]:
        coins, farms, points = turn(state.coins, state.farms, action, jax.random.bernoulli(key).astype(jnp.int32))
        state = VillageState(coins, farms, state.t + 1)
        obs = jnp.stack([coins / MAX_COINS, farms / MAX_FARMS, state.t / TURNS])
        return state, rl.Step(obs, points, terminated=state.t >= TURNS, truncated=jnp.array(False))

    def action_mask(self, state: VillageState) -> jax.Array:
        return legal(state.coins, state.farms)  # true = allowed; collect, update and evaluate ask for it and apply it


def solve(choose: Callable[[jax.Array, jax.Array], jax.Array]) -> float:
    """The exact mean score of a player, going back from the last turn; `choose` makes one value of those of the legal actions."""
    sizes = MAX_COINS + 1, MAX_FARMS + 1, 4, 2
    coins, farms, action, good_year = jnp.meshgrid(*(jnp.arange(n) for n in sizes), indexing="ij")
    next_coins, next_farms, points = turn(coins, farms, action, good_year)
    value = jnp.zeros(sizes[:2])
    for _ in range(TURNS):
        of_action = (points + value[next_coins, next_farms]).mean(-1)  # good and bad years are as likely
        value = choose(of_action, legal(coins[..., 0, 0], farms[..., 0, 0]))
    return float(value[0, 0])


def main(short: bool = False) -> tuple[float, float, float]:
    best = solve(lambda of_action, legal: of_action.max(-1, where=legal, initial=0.0))
    random = solve(lambda of_action, legal: of_action.mean(-1, where=legal))
    print(f"The best player scores {best:.2f} on average, one that takes any legal move {random:.2f} ({random / best:.0%}).")

    rl.check_env(Village())
    num_updates = 4 if short else 100  # of 8 environments x 100 steps: 80,000 steps
    env = rl.VecEnv(Village(), num_envs=8)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates), num_steps=100, gamma=1.0)
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(0)), env, cfg, key=jax.random.key(1))
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, metrics = ppo.update(state, rollout, cfg)
        if i % 10 == 0:
            print(f"update {i:3d}  score {rollout.mean_episode_return:5.2f}  entropy {metrics['train/entropy']:.2f}")

    result = rl.evaluate(state.policy, env, 100, key=jax.random.key(2))
    print(f"Greedy score over 100 games: {result.mean:.2f}, {result.mean / best:.0%} of the optimum")
    return float(result.mean), random, best


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
