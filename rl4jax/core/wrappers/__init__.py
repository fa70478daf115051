"""Environments around environments."""

from .bounded_action import ClipAction as ClipAction, RescaleAction as RescaleAction
from .episode_stats import EpisodeStats as EpisodeStats
from .flatten_observation import FlattenObservation as FlattenObservation
from .frame_stack import FrameStack as FrameStack
from .reward_clip import RewardClip as RewardClip
from .time_limit import TimeLimit as TimeLimit
from .wrapper import AbstractWrapper as AbstractWrapper
