"""Where the time of a Dreamer run goes: compiling, collecting, updating. A process of its own, without stored programs.

Size tiny on CartPole, 10,000 steps with the batches and the ratio of its preset.
"""

import json
import subprocess
import sys
import time

NUM_STEPS, NUM_ENVS = 10_000, 4


def shares() -> dict[str, float]:
    """Seconds of each part, measured in a new process."""
    done = subprocess.run([sys.executable, __file__], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure() -> dict[str, float]:
    import jax

    import rl4jax as rl
    from rl4jax import dreamer

    env = rl.VecEnv(rl.envs.CartPole(), num_envs=NUM_ENVS)
    cfg = dreamer.Config(batch_size=16, length=16, train_ratio=64, capacity=50_000, learning_starts=500, imagine_from=8)
    state = dreamer.init(dreamer.Agent(env, "tiny", key=jax.random.key(0)), env, cfg, key=jax.random.key(1))
    seconds = dict.fromkeys(("collecting", "updating"), 0.0)

    def timed(part, verb, *args):
        start = time.perf_counter()
        result = jax.block_until_ready(verb(*args))
        seconds[part] += time.perf_counter() - start
        return result

    start = time.perf_counter()
    _, rollout = dreamer.collect(state, env, cfg)
    jax.block_until_ready(dreamer.update(state, rollout, cfg))
    compiling = time.perf_counter() - start  # the first gradient steps are not earned yet: nothing but compiling takes time here
    for _ in range(NUM_STEPS // (cfg.num_steps * NUM_ENVS)):
        state, rollout = timed("collecting", dreamer.collect, state, env, cfg)
        state, _ = timed("updating", dreamer.update, state, rollout, cfg)
    return {"compiling": compiling} | seconds


if __name__ == "__main__":
    print(json.dumps(measure()))
