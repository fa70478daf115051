"""How policy and critic learn: from what the world model imagines, and the critic also from what really happened."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from rl4jax.collect.percentile_normalizer import PercentileNormalizer
from rl4jax.collect.returns import lambda_returns
from rl4jax.nn.distributions.two_hot import TwoHot
from rl4jax.nn.readout import Readout
from rl4jax.nn.rssm import each

from .agent import Agent
from .imagination import imagine_rollout
from .looking import Seen
from .world_model import Metrics, is_cut_off

Config = Any  # dreamer.Config


def actor_critic_loss(
    agent: Agent, slow_value: Readout, seen: Seen, normalizer: PercentileNormalizer, cfg: Config, *, key: PRNGKeyArray
) -> tuple[Float[Array, ""], tuple[Metrics, PercentileNormalizer]]:
    """The losses of policy and critic on imagined rollouts, and of the critic on the real steps they began with.

    The policy learns by REINFORCE, whatever its actions are. Nothing here teaches the world model, but for the critic's loss on real steps.
    """
    length, num = seen.moments.reward.shape
    starts = cfg.imagine_from or length
    frozen = jax.lax.stop_gradient(agent)
    last = jax.tree.map(lambda x: x[length - starts :], seen)
    start = jax.tree.map(lambda x: jax.lax.stop_gradient(x).reshape(starts * num, *x.shape[2:]), last.latents)
    imagined = imagine_rollout(frozen.rssm, frozen.pi, frozen.as_vector, start, cfg.imagine_steps, key=key)
    features = imagined.latents.features  # of frozen networks: no gradient

    reward = each(lambda x: frozen.reward_of(x).mean())(features)
    goes_on = jax.nn.sigmoid(each(frozen.goes_on_logit)(features))
    value_logits = each(agent.value)(features[:-1])
    value = jax.lax.stop_gradient(each(lambda x: TwoHot(x).mean())(value_logits))
    last_value = jax.vmap(lambda x: frozen.value_of(x).mean())(features[-1])
    values = jnp.concatenate([value, last_value[None]])
    returns = lambda_returns(reward[1:], values[1:], goes_on[1:], jnp.full_like(reward[1:], cfg.lam))
    weight = jnp.cumprod(goes_on, 0)[:-1]
    normalizer = normalizer.update(returns)
    advantage = normalizer.normalize(returns - value)

    def by_policy(features, action):
        pi = agent.pi(features)
        return pi.log_prob(action), pi.entropy(action)

    log_prob, entropy = each(by_policy)(features[:-1], jax.tree.map(lambda x: x[:-1], imagined.actions))
    policy_loss = -(weight * (log_prob * advantage + cfg.entropy_coef * entropy)).mean()
    value_loss = (weight * critic_loss(value_logits, slow_value, features[:-1], returns)).mean()
    real_loss = replay_value_loss(agent, slow_value, last, returns[0].reshape(starts, num), cfg)
    metrics = {
        "train/policy_loss": policy_loss,
        "train/value_loss": value_loss,
        "train/replay_value_loss": real_loss,
        "train/entropy": (weight * entropy).sum() / weight.sum(),
        "train/imagined_return": returns.mean(),
        "train/return_scale": normalizer.scale,
    }
    return policy_loss + value_loss + cfg.replay_value_coef * real_loss, (metrics, normalizer)


def replay_value_loss(agent: Agent, slow_value: Readout, seen: Seen, imagined: Float[Array, "L N"], cfg: Config) -> Float[Array, ""]:
    """The critic's loss on real steps, with returns of real rewards that end in imagined ones. It also teaches the world model."""
    moments, features = seen.moments, seen.latents.features[:-1]
    cut_off = is_cut_off(moments)
    discount = jnp.where(moments.is_terminal, 0.0, 1 - 1 / cfg.horizon)[1:]
    trace = jnp.where(cut_off, 0.0, cfg.lam)[1:]
    returns = lambda_returns(moments.reward[1:], imagined[1:], discount, trace)
    logits = each(agent.value)(features)
    return (jnp.where(cut_off[:-1], 0.0, 1.0) * critic_loss(logits, slow_value, features, returns)).mean()


def critic_loss(
    logits: Float[Array, "T N K"], slow_value: Readout, features: Float[Array, "T N F"], returns: Float[Array, "T N"]
) -> Float[Array, "T N"]:
    """The cross-entropy with the returns, and with what the slow critic says: it holds the fast one back."""
    slow = each(lambda x: TwoHot(slow_value(x)).mean())(jax.lax.stop_gradient(features))

    def one(logits, returned, slow):
        said = TwoHot(logits)
        return said.loss(returned) + said.loss(slow)

    return each(one)(logits, returns, slow)
