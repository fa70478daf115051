"""PPO with every line explained: a model of your own, the loop, logging, an annealed learning rate.

python examples/ppo_annotated.py

Expect: a greedy return of 500, the most there is, and all metrics in runs/annotated/log.jsonl. 6 seconds on one core, once compiled.
"""

import pathlib
import sys

import rl4jax as rl

# Keeps compiled programs on disk: the second start of this script takes a second instead of ten. Before jax is imported, because
# some settings are read when it starts.
rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from rl4jax import ppo  # noqa: E402


class Agent(eqx.Module):
    """Any eqx.Module that maps one observation to a distribution over actions and a value. Batches are `vmap`'s business."""

    actor: tuple[rl.nn.Linear, ...]
    critic: tuple[rl.nn.Linear, ...]

    def __init__(self, d_obs: int, num_actions: int, *, key: jax.Array):
        # Orthogonal weights with a gain by role: sqrt(2), the default, keeps the size of a signal through tanh layers; 0.01 makes the
        # first policy almost uniform, so that it explores; 1 lets the value reach the size of returns.
        keys = jax.random.split(key, 6)
        layer = rl.nn.orthogonal_linear
        self.actor = (layer(d_obs, 64, key=keys[0]), layer(64, 64, key=keys[1]), layer(64, num_actions, 0.01, key=keys[2]))
        self.critic = (layer(d_obs, 64, key=keys[3]), layer(64, 64, key=keys[4]), layer(64, 1, 1.0, key=keys[5]))

    def __call__(self, obs: jax.Array) -> tuple[rl.nn.Categorical, jax.Array]:
        # Two networks that share nothing: the critic's large errors early in training would spoil features that the actor needs.
        return rl.nn.Categorical(forward(self.actor, obs)), forward(self.critic, obs)[0]


def forward(layers: tuple[rl.nn.Linear, ...], x: jax.Array) -> jax.Array:
    *hidden, last = layers
    for layer in hidden:
        x = jnp.tanh(layer(x))
    return last(x)  # logits or a value: no activation


def main(short: bool = False, folder: pathlib.Path = pathlib.Path("runs/annotated")) -> float:
    # Four copies of CartPole, stepped together by one compiled program. An episode that ends is reset in the same step.
    env = rl.VecEnv(rl.envs.CartPole(), num_envs=4)

    # An update learns from num_steps x num_envs = 128 x 4 = 512 steps; 390 of them are 200,000 steps.
    num_updates = 4 if short else 390

    cfg = ppo.Config(
        lr=rl.Linear(2.5e-3, 0.0, num_updates),  # large steps first; at the end none, so that the last policy is a settled one
        num_steps=128,  # long enough to see what an action led to
        gamma=0.99,  # a reward 100 steps ahead counts for a third
        gae_lambda=0.95,  # 1 would trust what happened (noisy), 0 what the critic foresees (biased)
        update_epochs=4,  # each step is learned from four times, ...
        num_minibatches=4,  # ... in shuffled parts of 128,
        clip_eps=0.2,  # ... as long as the probability of its action has changed by less than 20 %
        vf_coef=0.5,  # weight of the critic's loss
        ent_coef=0.01,  # a small reward for staying undecided
        max_grad_norm=0.5,  # no single minibatch may throw the weights far
    )

    # Randomness is explicit: each key is used once. What follows is the same on every start.
    model_key, init_key, eval_key = jax.random.split(jax.random.key(1), 3)
    model = Agent(d_obs=4, num_actions=2, key=model_key)

    # All that changes in a run is in `state`: weights, Adam's moments, environments, keys. Nothing is changed in place: each verb
    # returns the next state, and saving the state is saving the run.
    state = ppo.init(model, env, cfg, key=init_key)

    (folder / "log.jsonl").unlink(missing_ok=True)  # JsonLogger appends: a new run, a new log
    loggers = [rl.PrintLogger(every=20_000, stream=sys.stdout), rl.JsonLogger(folder / "log.jsonl")]
    with rl.CompositeLogger(loggers) as logger:
        for i in range(num_updates):
            # Play 128 steps per environment from where the last rollout ended. `rollout` holds arrays [time, environment, ...]:
            # observations, actions, rewards, the policy's log-probabilities and values.
            state, rollout = ppo.collect(state, env, cfg)

            # Advantages from the rewards, then 4 x 4 gradient steps. To shape rewards, change `rollout` in between (reward_shaping.py).
            state, metrics = ppo.update(state, rollout, cfg)

            # Metrics are a dict of scalars, and the library logs nothing by itself. What to watch: the entropy falls slowly;
            # approx_kl stays below about 0.05 (else the learning rate is too large); explained_variance climbs towards 1.
            names = ("train/entropy", "train/approx_kl", "train/explained_variance", "train/lr")
            seen = {"rollout/avg_return": rollout.mean_episode_return}  # NaN if no episode ended in this rollout
            logger.log_metrics(seen | {name: metrics[name] for name in names}, step=(i + 1) * rollout.reward.size)

    # The claim: whole episodes from fresh starts, the most likely action each time. The returns during training are those of a policy
    # that still explores, and of many policies, since each rollout had its own.
    result = rl.evaluate(state.policy, env, 100, key=eval_key)
    print(f"Greedy return over 100 episodes: {result.mean:.1f} (500 is the most). All metrics are in {folder / 'log.jsonl'}.")
    return float(result.mean)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
