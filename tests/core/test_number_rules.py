"""What the numbers of a config may be."""

import dataclasses

import pytest

import rl4jax as rl
from rl4jax.core.number_rules import RATE, SHARE, check_numbers


@dataclasses.dataclass
class Settings:
    lr: object = 0.1
    share: object = 0.5


@pytest.mark.parametrize("lr", [0.1, rl.Linear(1.0, 0.0, 10), lambda step: 0.1])
def test_rates_may_be_schedules(lr):
    check_numbers(Settings(lr=lr), "Settings", {"lr": RATE, "share": SHARE})


@pytest.mark.parametrize("share", [rl.Linear(1.0, 0.0, 10), lambda step: 0.1])
def test_other_numbers_may_not(share):
    with pytest.raises(rl.ConfigError, match=r"Settings.share = .* must be in \[0, 1\]. It takes one number and no schedule."):
        check_numbers(Settings(share=share), "Settings", {"share": SHARE})


@pytest.mark.parametrize(("field", "value"), [("lr", rl.Linear(1.0, -1.0, 10)), ("lr", float("nan")), ("share", 2), ("share", "half")])
def test_numbers_outside_their_rule(field, value):
    with pytest.raises(rl.ConfigError, match=f"Settings.{field} = "):
        check_numbers(Settings(**{field: value}), "Settings", {"lr": RATE, "share": SHARE})
