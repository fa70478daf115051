"""A goal at the end of a spiral, which nobody finds by chance: PPO alone, with a bonus for rare places, and with one for surprise.

python examples/exploration.py

Expect: of 8 seeds none reaches the goal without a bonus; with either bonus all do, always. A picture shows where. 150 seconds on one core.
"""

import importlib.util
import pathlib

import rl4jax as rl

rl.setup()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402

from rl4jax import ppo  # noqa: E402
from rl4jax.collect import RND, CountBased, combine_rewards  # noqa: E402

MAZE = [
    ".......",
    "######.",
    ".....#.",
    ".###.#.",
    ".#G..#.",
    ".#####.",
    ".......",
]  # from the top left to G no direction is good for long
SIZE, WALL, GOAL = len(MAZE), np.array([tile == "#" for row in MAZE for tile in row]), "".join(MAZE).index("G")
MOVES = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, -1.0]])


def observe(place: jax.Array) -> dict[str, jax.Array]:
    row, column = place.astype(jnp.int32)
    return {"tile": row * SIZE + column, "offset": place % 1.0 - 0.5}


class Spiral(rl.AbstractEnv):
    """+1 at the goal and nothing before. A step goes about 0.6 tiles, and not into a wall; 150 steps at most."""

    @property
    def observation_space(self) -> spaces.Dict:
        return spaces.Dict({"tile": spaces.Discrete(SIZE**2), "offset": spaces.Box(-0.5, 0.5, (2,))})

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(4)

    def reset(self, key: jax.Array) -> tuple[tuple, dict[str, jax.Array]]:
        place = jnp.array([0.5, 0.5])  # in tiles
        return (place, jnp.int32(0)), observe(place)

    def step(self, state: tuple, action: jax.Array, key: jax.Array) -> tuple[tuple, rl.Step]:
        place, t = state
        move = 0.6 * (jnp.asarray(MOVES)[action] + jax.random.uniform(key, (2,), minval=-0.4, maxval=0.4))
        to = jnp.clip(place + move, 0.0, SIZE - 0.01)
        place = jnp.where(jnp.asarray(WALL)[observe(to)["tile"]], place, to)
        arrived = observe(place)["tile"] == GOAL
        return (place, t + 1), rl.Step(observe(place), arrived.astype(jnp.float32), terminated=arrived, truncated=t >= 149)


def train(key: jax.Array, help_by: str, num_updates: int) -> tuple[jax.Array, jax.Array]:
    """The share of episodes in which the trained policy reaches the goal, and how often it saw each tile while it learned."""
    model_key, init_key, explorer_key, eval_key = jax.random.split(key, 4)
    env = rl.VecEnv(Spiral(), num_envs=16)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates), num_steps=64, ent_coef=0.03)
    state = ppo.init(rl.nn.ActorCritic(env, key=model_key), env, cfg, key=init_key)
    counts, rnd = CountBased(resolution=1.0), RND(env, key=explorer_key, lr=3e-3)  # offsets are rounded to 0: tiles are counted
    explorer, coef = {"nothing": (None, 0.0), "counts": (counts, 0.1), "RND": (rnd, 1.0)}[help_by]

    def collect_and_update(carry, _):
        state, explorer, seen = carry
        state, rollout = ppo.collect(state, env, cfg)
        if explorer is not None:  # before `update` makes advantages of the rewards
            bonus, explorer = explorer.reward(rollout)
            rollout = rollout._replace(reward=combine_rewards(rollout.reward, bonus, coef))
        seen = seen.at[rollout.next_obs["tile"]].add(1)
        return (ppo.update(state, rollout, cfg)[0], explorer, seen), None

    (state, _, seen), _ = jax.lax.scan(collect_and_update, (state, explorer, jnp.zeros(SIZE**2)), length=num_updates)
    return rl.evaluate(state.policy, env, 96, key=eval_key).mean, seen  # by the true reward


def main(short: bool = False) -> dict[str, list[float]]:
    num_seeds, num_updates = (2, 2) if short else (8, 200)  # of 16 environments x 64 steps: 205,000 steps
    keys, rates, seen = jax.random.split(jax.random.key(0), num_seeds), {}, {}
    print("help by   reaches the goal, seed by seed")
    for help_by in ("nothing", "counts", "RND"):
        reached, tiles = jax.vmap(lambda key, help_by=help_by: train(key, help_by, num_updates))(keys)
        rates[help_by], seen[help_by] = reached.tolist(), np.asarray(tiles).mean(0)
        print(f"{help_by:8s} ", " ".join(f"{rate:4.0%}" for rate in rates[help_by]), flush=True)
    if not short and importlib.util.find_spec("matplotlib"):  # pip install 'rl4jax[plot]'
        draw(seen, pathlib.Path("runs") / "exploration.png")
    return rates


def draw(seen: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """How often each tile was seen, by help. Walls are grey, and tiles that nobody saw are white."""
    import matplotlib.figure

    figure = matplotlib.figure.Figure(figsize=(10, 3.4), layout="constrained")
    colours = matplotlib.colormaps["viridis"].with_extremes(bad="dimgray", under="white")
    for (help_by, tiles), ax in zip(seen.items(), figure.subplots(1, len(seen)), strict=True):
        ax.imshow(np.where(WALL, np.nan, np.maximum(tiles, 1e-3)).reshape(SIZE, SIZE), colours, norm="log", vmin=0.1, vmax=1e5)
        ax.text(GOAL % SIZE, GOAL // SIZE, "goal", ha="center", va="center", bbox={"facecolor": "white", "boxstyle": "round"})
        ax.set(title=f"help by {help_by}", xticks=[], yticks=[])
    figure.colorbar(figure.axes[0].images[0], ax=figure.axes, extend="min", label="visits per seed, log scale\nwhite: never, grey: wall")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=100)
    print(f"written to {path}")


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
