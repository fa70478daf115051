"""Settings in a file: TOML tables become the arguments of `ppo.Config` and of the network. A misspelt or impossible one is an error.

python examples/config_driven.py                     # config_driven.toml beside it
python examples/config_driven.py my_settings.toml

Expect: with the settings in the file, a greedy return of 500, the most there is. 6 seconds on one core, once compiled.
"""

import pathlib
import tomllib
from typing import Any

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import ppo  # noqa: E402

DEFAULT = pathlib.Path(__file__).with_suffix(".toml")


def read(path: str | pathlib.Path = DEFAULT) -> dict[str, Any]:
    return tomllib.loads(pathlib.Path(path).read_text())


def main(settings: dict[str, Any]) -> float:
    env = rl.VecEnv(rl.make(settings["env"]), settings["num_envs"])
    num_updates = settings["total_steps"] // (settings["num_envs"] * settings["ppo"]["num_steps"])
    # Both refuse names they do not know; Config also checks its values.
    cfg = ppo.Config(**settings["ppo"] | {"lr": rl.Linear(settings["ppo"]["lr"], 0.0, num_updates)})
    model_key, init_key, eval_key = jax.random.split(jax.random.key(settings["seed"]), 3)
    model = rl.nn.ActorCritic(env, key=model_key, **settings["network"])
    state = ppo.init(model, env, cfg, key=init_key)

    returns = []
    for i in range(num_updates):
        state, rollout = ppo.collect(state, env, cfg)
        state, _ = ppo.update(state, rollout, cfg)
        returns = (returns + rollout.episode_returns())[-20:]
        if i % 30 == 0:
            print(f"update {i:3d}  return {sum(returns) / max(len(returns), 1):.1f}")

    result = rl.evaluate(state.policy, env, 100, key=eval_key)
    print(f"{settings['env']}: greedy return over 100 episodes {result.mean:.1f}")
    return float(result.mean)


def main_of(*files: str, short: bool) -> None:
    settings = read(*files)
    if short:
        settings["total_steps"] = 2_000
    main(settings)


if __name__ == "__main__":
    from start import start

    start(main_of, __doc__, words="FILE")
