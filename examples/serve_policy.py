"""A policy behind HTTP: train a little, export, serve, and play an episode by asking the server for each action.

python examples/serve_policy.py

Expect: the pole is up for 500 steps, the most there is, by 500 requests. 15 seconds on one core, once compiled. The bundle stays in
runs/serve_policy: `rl4jax serve runs/serve_policy` answers until Ctrl-C, and needs no JAX.
"""

import json
import urllib.request

import rl4jax as rl

rl.setup()

import gymnasium  # noqa: E402
import jax  # noqa: E402
import numpy as np  # noqa: E402

from rl4jax import ppo  # noqa: E402
from rl4jax.deploy import export, load  # noqa: E402
from rl4jax.deploy.server import Server  # noqa: E402

FOLDER = "runs/serve_policy"


def train(num_updates: int) -> None:
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))
    state = ppo.init(rl.nn.ActorCritic(env, key=jax.random.key(0)), env, cfg, key=jax.random.key(1))
    returns = []
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, _ = ppo.update(state, rollout, cfg)
        returns = (returns + rollout.episode_returns())[-20:]
        if i % 30 == 0:
            print(f"update {i:3d}  return {sum(returns) / len(returns):5.1f}")
    export(state.policy, env, FOLDER, about={"algorithm": "ppo", "env": "CartPole"})


def ask(url: str, obs: np.ndarray) -> dict:
    """What the server says of an observation: `action`, `value`, `logits`."""
    with urllib.request.urlopen(f"{url}/act", json.dumps({"obs": obs.tolist()}).encode()) as response:
        return json.load(response)


def main(short: bool = False) -> float:
    train(num_updates=4 if short else 200)  # of 4 environments x 128 steps: 102,000 steps
    env, total, over = gymnasium.make("CartPole-v1"), 0.0, False
    with Server(load(FOLDER), port=0) as server:
        print(f"{server.url} answers. From a shell: {server.example_line()}")
        obs, _ = env.reset(seed=0)
        print(f"First answer: {ask(server.url, obs)}")
        while not over:
            obs, reward, terminated, truncated, _ = env.step(ask(server.url, obs)["action"])
            total, over = total + float(reward), terminated or truncated
    print(f"Return of an episode of requests: {total:.0f} (500 is the most)")
    return total


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
