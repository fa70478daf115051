"""A trained policy as a folder that runs without JAX, on onnxruntime and on NumPy alone.

python examples/deploy_policy.py

Expect: the exported policy holds the pole for 500 steps on both. Half a minute on one core.
"""

import tempfile

import rl4jax as rl

rl.setup()

import gymnasium  # noqa: E402
import jax  # noqa: E402

from rl4jax import deploy, ppo  # noqa: E402
from rl4jax.deploy.run import play  # noqa: E402


def main(short: bool = False) -> dict[str, float]:
    num_updates = 2 if short else 200
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))
    model = rl.nn.ActorCritic(env, key=jax.random.key(0))
    state, _ = ppo.train(ppo.init(model, env, cfg, key=jax.random.key(1)), env, cfg, num_updates)

    with tempfile.TemporaryDirectory() as folder:
        deploy.export(state.policy, env, folder, about={"algorithm": "ppo", "env": "CartPole"})
        returns = {}
        for runtime in ("onnxruntime", "numpy"):  # neither needs JAX: copy the folder to where there is none. "numpy" reads it with onnx
            act = deploy.load(folder, runtime)
            returns[runtime] = float(play(act, gymnasium.make("CartPole-v1"), num_episodes=2 if short else 10).mean())
            print(f"{runtime}: return {returns[runtime]:.0f} of 500")
    return returns


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
