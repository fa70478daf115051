"""`python -m rl4jax.deploy.run DIR --env gym:CartPole-v1`: play episodes with an exported policy. Those of Gymnasium need no JAX."""

import argparse
import contextlib
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from rl4jax.core.errors import EnvError, MissingPackage, Rl4JaxError, require
from rl4jax.core.figures import plus_minus
from rl4jax.envs.registry import BUILT_IN, make, parse

from .codec import SpaceSpec
from .env_names import GYM, to_play
from .errors import BundleError
from .policy import RUNTIMES, Policy, load
from .space_words import in_words

OWN = "Play it in a loop of your own, with deploy.load(folder)"


def make_env(name: str) -> gymnasium.Env:
    """An environment by the name that is typed: `gym:ID`, or one of ours such as `Catch,rows=16`."""
    if ":" in name and not name.startswith(GYM):
        raise EnvError(f"--env {name} is of your own, and not of Gymnasium. {OWN}.")
    try:
        if name.startswith(GYM):
            return gymnasium.make(name.removeprefix(GYM))
        own, fields = parse(name)
        if own in BUILT_IN:
            make(own, **fields)  # says which fields it has
        return gymnasium.make(f"rl4jax/{own}-v0", **fields)
    except ModuleNotFoundError as error:
        raise EnvError(f"--env {name} cannot be made: {missing(name, error)}") from error
    except (gymnasium.error.Error, ImportError, ValueError, TypeError) as error:
        raise EnvError(f"--env {name} cannot be made: {str(error).rstrip('.')}. Give gym:ID, or a built-in such as CartPole.") from error


def missing(name: str, error: ModuleNotFoundError) -> str:
    """What an environment needs, and what to do."""
    if error.name is None:  # of the module before a colon: Gymnasium has said it all
        return str(error)
    if name.startswith(GYM) and not name.startswith(f"{GYM}rl4jax/"):
        return f"{error.name} is not installed. Install it: pip install {error.name}."
    twin = to_play(name)
    instead = f"the same of Gymnasium does: --env {twin}" if twin and twin != name else "those of Gymnasium do: --env gym:ID"
    return f"{error.name} is not installed. The built-in ones need all that rl4jax trains with; {instead}."


def trained_in(policy: Policy) -> str:
    """The environment that the bundle names, if to make it runs no code but what is installed and registered."""
    name = policy.config.get("env") or ""
    known = to_play(name)
    if not name:
        raise BundleError("The bundle does not say where its policy was trained. Give --env gym:ID, or a built-in such as CartPole.")
    if known is None:
        raise BundleError(f"config.json: env = {name!r} is neither built in nor Gymnasium's. {OWN}, or give --env.")
    if ":" in known.removeprefix(GYM):  # Gymnasium imports the module before a colon
        advice = f"If you trust it, say so: --env {shlex.quote(known)}"
        raise BundleError(f"config.json: env = {name!r} names a module to import. {advice}.")
    return known


def same_actions(spec: SpaceSpec, space: gymnasium.Space) -> bool:
    """Whether the actions of a bundle are those of an environment: their kind, how many, and from where they count."""
    if not isinstance(space, getattr(gymnasium.spaces, spec["type"])):
        return False
    if isinstance(space, gymnasium.spaces.Dict):
        return set(spec["spaces"]) == set(space) and all(same_actions(spec["spaces"][key], space[key]) for key in space)
    if isinstance(space, gymnasium.spaces.Tuple):
        return len(spec["spaces"]) == len(space) and all(map(same_actions, spec["spaces"], space))
    counts = [(spec.get("start", 0), getattr(space, "start", 0))]
    counts += [(spec[name], getattr(space, name)) for name in ("n", "nvec") if name in spec]
    return tuple(spec["own_shape"]) == space.shape and all(bool(np.all(np.equal(*pair))) for pair in counts)


def play(policy: Policy, env: gymnasium.Env, num_episodes: int, seed: int = 0) -> np.ndarray:
    """The returns of whole episodes."""
    spec = policy.config["action_space"]
    if not same_actions(spec, env.action_space):
        own = in_words(spec)
        raise EnvError(f"env has actions {env.action_space}, but the policy's are {own}. Give the environment that it was trained in.")
    returns: list[float] = []
    for i in range(num_episodes):
        obs, info = env.reset(seed=seed + i)
        carry, over, total = None, False, 0.0
        while not over:
            action, carry = policy(obs, carry, mask_of(policy, env, info))
            if not env.action_space.contains(action):
                raise BundleError(f"{policy}: its action {action!r} is none of {env.action_space}. Export the policy again.")
            obs, reward, terminated, truncated, info = env.step(action)
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    return np.array(returns)


def mask_of(policy: Policy, env: gymnasium.Env, info: dict[str, Any]) -> Any:
    """Where Gymnasium's environments keep masks, if this policy wants one that is not among the observations."""
    if policy.config["mask"] is None or policy.config["mask"]["in_obs"]:
        return None
    method: Any = getattr(env.unwrapped, "action_masks", None)
    return info.get("action_mask", None if method is None else method())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rl4jax.deploy.run", description="Play episodes with an exported policy.")
    parser.add_argument("bundle", metavar="DIR", help="what `rl4jax export RUN --out DIR` wrote")
    parser.add_argument("--env", help="gym:ID or a built-in; left out: the one it was trained in, or the same of Gymnasium")
    parser.add_argument("--runtime", choices=list(RUNTIMES), default="onnxruntime")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(argv)
    try:
        require(flags.episodes > 0, "--episodes", flags.episodes, "a positive integer")
        require(flags.seed >= 0, "--seed", flags.seed, "an integer of at least 0")
        policy = load(flags.bundle, flags.runtime, seed=flags.seed)
        name = flags.env or trained_in(policy)
        with contextlib.closing(make_env(name)) as env:
            returns = play(policy, env, flags.episodes, flags.seed)
    except (Rl4JaxError, MissingPackage) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return 130
    print(f"{name} on {flags.runtime}: return {plus_minus(returns.mean(), returns.std())} over {len(returns)} episodes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
