from .count_based import CountBased as CountBased
from .entropy_reduction import EntropyReduction as EntropyReduction
from .intrinsic_reward import IntrinsicReward as IntrinsicReward, combine_rewards as combine_rewards
from .random_network import RND as RND
