"""A small PPO-like loop, vmapped over 16 seeds: many small operations that XLA on CPU may run at the same time.

Programs of this kind have been seen to hang for ever with XLA's default scheduler on two cores; this one, so far, has not.
Run by `deadlock_check.py`, each time in a fresh process. Prints a sum, so that nothing is optimised away.
"""

import rl4jax as rl  # first: it adds the flag that prevents the hang

import equinox as eqx  # isort: skip
import jax
import jax.numpy as jnp
import optax

NUM_SEEDS, NUM_ENVS, NUM_STEPS, NUM_UPDATES, NUM_EPOCHS, NUM_MINIBATCHES = 16, 4, 128, 20, 4, 4


def train(env: rl.VecEnv, key: jax.Array) -> jax.Array:
    actor_key, critic_key, reset_key, run_key = jax.random.split(key, 4)
    actor = eqx.nn.MLP(4, 2, 64, 2, jax.nn.tanh, key=actor_key)
    critic = eqx.nn.MLP(4, "scalar", 64, 2, jax.nn.tanh, key=critic_key)
    params, static = eqx.partition((actor, critic), eqx.is_array)
    opt = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(2.5e-4, eps=1e-5))

    def evaluate(params, obs):
        actor, critic = eqx.combine(params, static)
        return jax.nn.log_softmax(jax.vmap(actor)(obs)), jax.vmap(critic)(obs)

    def loss(params, obs, action, old_log_prob, returns):
        log_probs, value = evaluate(params, obs)
        log_prob = jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]
        advantage = returns - jax.lax.stop_gradient(value)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio = jnp.exp(log_prob - old_log_prob)
        policy_loss = -jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage).mean()
        entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
        return policy_loss + 0.5 * ((returns - value) ** 2).mean() - 0.01 * entropy

    def update(carry, key):
        collect_key, shuffle_key = jax.random.split(key)

        def act(carry, key):
            env_state, obs = carry
            action_key, step_key = jax.random.split(key)
            log_probs, _ = evaluate(params, obs)
            action = jax.random.categorical(action_key, log_probs).astype(jnp.int32)
            env_state, step = env.step(env_state, action, step_key)
            log_prob = jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0]
            return (env_state, step.obs), (obs, action, log_prob, step.reward, step.terminated)

        def back(later, now):
            total = now[0] + jnp.where(now[1], 0.0, 0.99) * later
            return total, total

        def minibatch(carry, batch):
            params, opt_state = carry
            grads = jax.grad(loss)(params, *batch)
            updates, opt_state = opt.update(grads, opt_state)
            return (optax.apply_updates(params, updates), opt_state), None

        def epoch(carry, key):
            order = jax.random.permutation(key, NUM_STEPS * NUM_ENVS)
            shuffled = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[order].reshape(NUM_MINIBATCHES, -1, *x.shape[2:]), data)
            return jax.lax.scan(minibatch, carry, shuffled)

        params, opt_state, env_state, obs = carry
        (env_state, obs), rollout = jax.lax.scan(act, (env_state, obs), jax.random.split(collect_key, NUM_STEPS))
        reward, terminated = rollout[3:]
        returns = jax.lax.scan(back, evaluate(params, obs)[1], (reward, terminated), reverse=True)[1]
        data = (*rollout[:3], returns)
        (params, opt_state), _ = jax.lax.scan(epoch, (params, opt_state), jax.random.split(shuffle_key, NUM_EPOCHS))
        return (params, opt_state, env_state, obs), reward.sum() / terminated.sum()

    env_state, obs = env.reset(reset_key)
    start = (params, opt.init(params), env_state, obs)
    (params, *_), episode_length = jax.lax.scan(update, start, jax.random.split(run_key, NUM_UPDATES))
    return episode_length[-1] + 0 * sum(x.sum() for x in jax.tree.leaves(params))


if __name__ == "__main__":
    env = rl.VecEnv(rl.envs.CartPole(), NUM_ENVS)
    lengths = jax.jit(jax.vmap(train, in_axes=(None, 0)))(env, jax.random.split(jax.random.key(0), NUM_SEEDS))
    print(f"mean episode length after {NUM_UPDATES} updates: {lengths.mean():.1f}")
