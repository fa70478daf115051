"""Learn from pixels, and look at what the agent imagines: DreamerV3 catches a ball on 16 x 16 pixels, and dreams of it.

python examples/dreamer_pixels.py

The decoder compares pictures blurred, too ("blurred"): a ball that is painted in the next column is nearly right, so columns that are near
each other become alike, and what was caught once in one of them is tried in the next.

Expect: 0.9 or more (1 is every ball, -1 none) after 20,000 steps, and runs/dreamer_pixels.gif: above what happened, below what the world
model thought would, from the first picture and the actions alone. A quarter of an hour on one core.
"""

import rl4jax as rl

rl.setup()

import equinox as eqx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from rl4jax import dreamer  # noqa: E402

CATCH = rl.envs.Catch(rows=16, columns=16)


def main(short: bool = False, seed: int = 0) -> float:
    num_turns = 2 if short else 19  # of about a thousand steps
    env = rl.VecEnv(CATCH, num_envs=4)
    cfg = dreamer.Config(
        lr=rl.Linear(1.5e-3, 3e-5, 14_300),
        batch_size=16,
        length=16,
        train_ratio=1 if short else 320,  # each step is learned from so many times, on average
        imagine_from=4,  # of the 16 steps of a stretch: a quarter of the dreams is enough
        capacity=50_000,
        learning_starts=500 if short else 8_000,  # until then chance plays, and catches in most columns
        hold=0.5,  # chance that lasts: by steps that cancel out, the outer columns are hardly ever reached
        entropy_coef=rl.Linear(0.02, 0.003, 14_300),
        representation_coef=10,  # two pixels of 256 are lit: their errors are small numbers
        free_nats=0.1,
        b2=0.99,  # a short run must soon forget how large its first gradients were
    )
    model_key, key, eval_key, dream_key = jax.random.split(jax.random.key(seed), 4)
    state = dreamer.init(dreamer.Agent(env, "tiny", "blurred", key=model_key), env, cfg, key=key)

    for i in range(num_turns):
        state, metrics = dreamer.train(state, env, cfg, num_updates=16)  # 16 rollouts of 4 x 16 steps, as one program
        returned = float(np.nanmean(metrics["rollout/avg_return"]))
        print(
            f"{1024 * (i + 1):6,} env steps  return {returned:5.2f}  not painted {metrics['train/representation_loss'][-1]:.3f}", flush=True
        )

    result = rl.evaluate(state.policy, rl.VecEnv(CATCH, num_envs=100), 100, key=eval_key)
    print(f"Greedy return over 100 episodes: {result.mean:.2f} (1 is the most)")
    if not short:
        rl.write_gif("runs/dreamer_pixels.gif", list(dream(state.model, dream_key)), delay=25)
        print("What it saw, and what it imagined: runs/dreamer_pixels.gif")
    return float(result.mean)


@eqx.filter_jit
def dream(agent: dreamer.Agent, key: jax.Array) -> jax.Array:
    """Pictures of an episode: above what happened, below what the model imagines after the first look. Both do the same."""
    assert isinstance(agent.representation, dreamer.Decoder)
    decoder = agent.representation.decoder
    play, obs = CATCH.reset(key)
    real, before = agent.initial_carry()
    real, _ = agent.rssm.observe_step(real, before, agent.encoder(obs), jnp.array(True))

    def step(now, _):
        play, obs, real, imagined = now
        above, below = obs / 255, decoder.images(imagined)[""]
        action = agent.pi(real.features).mode()
        play, after = CATCH.step(play, action, key)
        vector = agent.as_vector(action)
        real, _ = agent.rssm.observe_step(real, vector, agent.encoder(after.obs), jnp.array(False))
        return (play, after.obs, real, agent.rssm.imagine(imagined, vector)), jnp.concatenate([above, below])

    _, pictures = jax.lax.scan(step, (play, obs, real, real), None, length=CATCH.rows - 1)
    large = pictures.repeat(12, 1).repeat(12, 2).repeat(3, 3)
    return (255 * large).astype(jnp.uint8)


if __name__ == "__main__":
    from start import start

    start(main, __doc__)
