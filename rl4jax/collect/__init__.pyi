from .evaluation import Evaluation as Evaluation, evaluate as evaluate
from .intrinsic import (
    RND as RND,
    CountBased as CountBased,
    EntropyReduction as EntropyReduction,
    IntrinsicReward as IntrinsicReward,
    combine_rewards as combine_rewards,
)
from .multi_head import MultiHead as MultiHead, MultiHeadAdvantage as MultiHeadAdvantage, multi_head_gae as multi_head_gae
from .percentile_normalizer import PercentileNormalizer as PercentileNormalizer
from .play import unroll as unroll
from .playing import Playing as Playing, begin as begin
from .replay import (
    DiskReplay as DiskReplay,
    HostPrioritizedReplay as HostPrioritizedReplay,
    HostReplay as HostReplay,
    HostSequenceReplay as HostSequenceReplay,
    PrioritizedReplay as PrioritizedReplay,
    Replay as Replay,
    Sample as Sample,
    SequenceReplay as SequenceReplay,
    Sequences as Sequences,
    importance_weights as importance_weights,
)
from .returns import gae as gae, lambda_returns as lambda_returns, n_step as n_step, td_lambda as td_lambda
from .rollout import Rollout as Rollout
from .transition import Transition as Transition
from .upgo import upgo as upgo
from .vtrace import VTrace as VTrace, vtrace as vtrace
