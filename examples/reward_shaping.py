"""A reward that is hard to find, and two ways to help: a bonus for what was rarely tried, and a potential that shows the way.

python examples/reward_shaping.py

Expect: of 8 seeds none, with luck one, learns to reach the goal without help; with either help or both, all do. Two minutes on one core.
"""

import rl4jax as rl

rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from rl4jax import ppo  # noqa: E402

MAZE = [
    "..#...#...",
    "..#.#.#.#.",
    "..#.#.#.#.",
    "..#.#.#.#.",
    "..#.#.#.#.",
    "....#...#G",
]  # from the top left to G in 34 steps at least: a random walk does not find it
ROWS, COLUMNS, GAMMA = len(MAZE), len(MAZE[0]), 0.99


def neighbour(row: int, column: int, down: int, right: int) -> int:
    to_row, to_column = row + down, column + right
    inside = 0 <= to_row < ROWS and 0 <= to_column < COLUMNS and MAZE[to_row][to_column] != "#"
    return to_row * COLUMNS + to_column if inside else row * COLUMNS + column


MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]
NEXT = np.array([[neighbour(*divmod(cell, COLUMNS), *move) for move in MOVES] for cell in range(ROWS * COLUMNS)])
GOAL = "".join(MAZE).index("G")
DISTANCE = np.where(np.arange(ROWS * COLUMNS) == GOAL, 0, ROWS * COLUMNS)
for _ in DISTANCE:  # steps to the goal: one more than from the best neighbour
    DISTANCE = np.minimum(DISTANCE, 1 + DISTANCE[NEXT].min(1))


class MazeState(eqx.Module):
    cell: jax.Array
    t: jax.Array


class Maze(rl.AbstractEnv):
    """+1 at the goal and nothing before; one step in ten slips in a random direction; 60 steps at most."""

    @property
    def observation_space(self) -> spaces.Discrete:
        return spaces.Discrete(ROWS * COLUMNS)  # one-hot for the network

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(4)

    def reset(self, key: jax.Array) -> tuple[MazeState, jax.Array]:
        return MazeState(jnp.int32(0), jnp.int32(0)), jnp.int32(0)

    def step(self, state: MazeState, action: jax.Array, key: jax.Array) -> tuple[MazeState, rl.Step]:
        slip, direction = jax.random.uniform(key, (2,))
        move = jnp.where(slip < 0.1, jnp.int32(4 * direction), action)
        state = MazeState(jnp.asarray(NEXT, jnp.int32)[state.cell, move], state.t + 1)
        arrived = state.cell == GOAL
        return state, rl.Step(state.cell, arrived.astype(jnp.float32), terminated=arrived, truncated=state.t >= 60)


class Shaped(rl.AbstractWrapper):
    """Adds `gamma * phi(next) - phi(now)`, which leaves the best policy as it is (Ng et al. 1999). Here phi falls with the distance.
    After a termination nothing follows, so phi is 0 there. After a truncation the world goes on: phi of the cell that was reached
    counts, and that is why this is a wrapper. A rollout shows what to act on next, which is then the start of another episode.
    """

    def step(self, state: MazeState, action: jax.Array, key: jax.Array) -> tuple[MazeState, rl.Step]:
        phi = -0.3 * jnp.asarray(DISTANCE)
        after, step = self.env.step(state, action, key)
        phi_after = jnp.where(step.terminated, 0.0, phi[after.cell])
        return after, step._replace(reward=step.reward + GAMMA * phi_after - phi[state.cell])


def train(key: jax.Array, help_by: str, num_updates: int) -> jax.Array:
    """The share of episodes in which the trained policy reaches the goal."""
    model_key, init_key, eval_key = jax.random.split(key, 3)
    env = rl.VecEnv(Shaped(Maze()) if "potential" in help_by else Maze(), num_envs=8)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates), num_steps=64, gamma=GAMMA, ent_coef=0.03)
    state = ppo.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=init_key)

    def collect_and_update(state_and_counts, _):
        state, counts = state_and_counts
        state, rollout = ppo.collect(state, env, cfg)
        if "bonus" in help_by:  # 0.05 / sqrt(how often this was done here), added before `update` makes advantages of the rewards
            done = (rollout.obs, rollout.action)
            counts = counts.at[done].add(1)
            rollout = rollout._replace(reward=rollout.reward + 0.05 / jnp.sqrt(counts[done]))
        return (ppo.update(state, rollout, cfg)[0], counts), None

    (state, _), _ = jax.lax.scan(collect_and_update, (state, jnp.zeros((ROWS * COLUMNS, 4))), length=num_updates)
    return rl.evaluate(state.policy, rl.VecEnv(Maze(), 10), 100, key=eval_key).mean  # by the true reward, always


def main(short: bool = False) -> dict[str, list[float]]:
    num_seeds, num_updates = (2, 2) if short else (8, 200)  # of 8 environments x 64 steps: 102,000 steps
    keys, rates = jax.random.split(jax.random.key(0), num_seeds), {}
    print("help by              reaches the goal, seed by seed")
    for help_by in ("nothing", "bonus", "potential", "bonus and potential"):
        rates[help_by] = jax.vmap(lambda key, help_by=help_by: train(key, help_by, num_updates))(keys).tolist()
        print(f"{help_by:19s} ", " ".join(f"{rate:4.0%}" for rate in rates[help_by]), flush=True)
    return rates


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
