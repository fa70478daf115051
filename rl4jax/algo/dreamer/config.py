"""The settings of Dreamer."""

import equinox as eqx
from jaxtyping import ArrayLike

from rl4jax.core.errors import is_count_or_zero, require
from rl4jax.core.number import Number
from rl4jax.core.number_rules import NOT_NEGATIVE, POSITIVE, RATE, SHARE, check_counts, check_numbers
from rl4jax.core.schedule import Linear, Schedule, as_setting, value_at

STEPS_LIKE_A_GRADIENT_STEP = 50


class Config(eqx.Module):
    """Settings. Whole numbers and switches are static; the others are leaves: `vmap` over them works, a new value compiles nothing."""

    lr: Number | Schedule = eqx.field(default=Linear(0.0, 4e-5, 1000), converter=as_setting)  # a schedule counts gradient steps
    num_steps: int = eqx.field(default=16, static=True)  # T, per environment and rollout
    hold: Number = 0.0  # how likely the chance in an action is that of the step before: what is tried is tried for longer
    train_ratio: Number = 32.0  # steps that are learned from for each step that is played
    batch_size: int = eqx.field(default=16, static=True)  # stretches in each gradient step
    length: int = eqx.field(default=64, static=True)  # steps in each stretch
    capacity: int = eqx.field(default=1_000_000, static=True)  # steps that are remembered, in all environments together
    learning_starts: int = eqx.field(default=1_000, static=True)  # steps in memory before the first gradient step: until then chance plays
    horizon: Number = 333.0  # steps: the discount is 1 - 1 / horizon
    imagine_steps: int = eqx.field(default=15, static=True)  # length of imagined rollouts
    imagine_from: int = eqx.field(default=0, static=True)  # how many steps of each stretch, the last ones, are begun from; 0 = all
    lam: Number = 0.95  # of lambda-returns
    entropy_coef: Number | Schedule = eqx.field(default=3e-4, converter=as_setting)  # bonus for entropy; returns are scaled to about 1
    dyn_coef: Number = 1.0  # pull of the divergence at what is expected
    rep_coef: Number = 0.1  # and at what is seen
    free_nats: Number = 1.0  # divergence that costs nothing
    representation_coef: Number = 1.0  # of the loss of the representation; where few pixels matter, it has to be large
    replay_value_coef: Number = 0.3  # of the critic's loss on real steps
    slow_rate: Number = 0.02  # how far the slow critic follows at each gradient step
    return_decay: Number = 0.99  # of the percentiles that advantages are scaled by
    clip: Number = 0.3  # gradients, as a share of the norm of their weights
    b2: Number = 0.999  # of LaProp: gradients are scaled by the mean of about 1 / (1 - b2) squares; short runs must forget the first ones

    def __check_init__(self):
        check_counts(self, "dreamer.Config", "num_steps", "batch_size", "length", "capacity", "imagine_steps")
        for name in ("learning_starts", "imagine_from"):
            value = getattr(self, name)
            require(is_count_or_zero(value), f"dreamer.Config.{name}", value, "zero or a positive integer")
        require(self.length > 1, "dreamer.Config.length", self.length, "at least 2")  # a step, and what came of it
        starts = f"0 for all, or from 2 to length = {self.length}"
        require(self.imagine_from in (0, *range(2, self.length + 1)), "dreamer.Config.imagine_from", self.imagine_from, starts)
        rules = {
            "lr": RATE,
            "entropy_coef": RATE,
            "train_ratio": POSITIVE,
            "horizon": (lambda x: x > 1, "greater than 1"),
            "clip": POSITIVE,
        }
        rules |= dict.fromkeys(("b2", "return_decay"), (lambda x: (x >= 0) & (x < 1), "in [0, 1)"))
        coefs = ("dyn_coef", "rep_coef", "free_nats", "representation_coef", "replay_value_coef")
        rules |= dict.fromkeys(coefs, NOT_NEGATIVE) | dict.fromkeys(("lam", "slow_rate", "hold"), SHARE)
        check_numbers(self, "dreamer.Config", rules)

    def after(self, num_gradient_steps: ArrayLike) -> "Config":
        """The settings of that gradient step: numbers instead of schedules."""
        rates = tuple(value_at(rate, num_gradient_steps) for rate in (self.lr, self.entropy_coef))
        return eqx.tree_at(lambda cfg: (cfg.lr, cfg.entropy_coef), self, rates)

    def gradient_steps(self, num_steps: int) -> float:
        """How many are made for so many steps of all environments together, once learning has begun."""
        return float(self.train_ratio) * num_steps / (self.batch_size * self.length)

    def work_of_update(self, num_envs: int) -> int:
        """About how many steps of environments take as long as an update."""
        return round(STEPS_LIKE_A_GRADIENT_STEP * max(self.gradient_steps(self.num_steps * num_envs), 1.0))
