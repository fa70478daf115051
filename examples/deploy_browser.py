"""A trained policy as a page for the browser: it balances a pole in JavaScript, and you may push it.

python examples/deploy_browser.py

Expect: a folder with a page that any web server shows. Half a minute on one core; the first time it fetches onnxruntime-web by npm.
"""

import rl4jax as rl

rl.setup()

import jax  # noqa: E402

from rl4jax import deploy, ppo  # noqa: E402


def main(short: bool = False) -> str:
    num_updates = 2 if short else 200
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)
    cfg = ppo.Config(lr=rl.Linear(2.5e-3, 0.0, num_updates))
    model = rl.nn.ActorCritic(env, key=jax.random.key(0))
    state, _ = ppo.train(ppo.init(model, env, cfg, key=jax.random.key(1)), env, cfg, num_updates)
    result = rl.evaluate(state.policy, rl.VecEnv(rl.envs.CartPole(), 100), 100, key=jax.random.key(2))
    print(f"seed 0: return {float(result.mean):.0f} of 500")

    evaluation = {"mean": float(result.mean), "std": float(result.std), "episodes": 100}
    bundle = deploy.export(state.policy, env, "runs/bundle", about={"algorithm": "ppo", "env": "CartPole", "evaluation": evaluation})
    page = "runs/page"
    if not short:  # npm is asked
        deploy.write_page(bundle, page)
        print(f"Look at it: python -m http.server --directory {page}")
    return page


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
