from .action_head import ActionHead as ActionHead
from .actor_critic import ActorCritic as ActorCritic
from .clip import clip_grad_norm as clip_grad_norm
from .cnn import CNN as CNN
from .distributions import (
    AbstractDistribution as AbstractDistribution,
    Categorical as Categorical,
    Composite as Composite,
    EpsilonGreedy as EpsilonGreedy,
    MultiCategorical as MultiCategorical,
    Normal as Normal,
    TanhNormal as TanhNormal,
)
from .linear import Linear as Linear
from .mlp import MLP as MLP
from .model import Normalized as Normalized, Recurrent as Recurrent, initial_carry as initial_carry
from .model_check import check_model as check_model
from .orthogonal import orthogonal_linear as orthogonal_linear
from .packed import Packed as Packed, pack as pack
from .q_network import QNetwork as QNetwork
from .q_policy import QPolicy as QPolicy
from .recurrent import GRU as GRU, LSTM as LSTM
from .target_network import polyak as polyak
