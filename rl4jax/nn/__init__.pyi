from .action_head import ActionHead as ActionHead
from .actor_critic import ActorCritic as ActorCritic
from .attention import MultiHeadAttention as MultiHeadAttention
from .attention_pool import AttentionPool as AttentionPool
from .beta_vae import BetaVAE as BetaVAE
from .block_gru import BlockGRU as BlockGRU
from .cnn import CNN as CNN
from .cnn_decoder import CNNDecoder as CNNDecoder
from .distributions import (
    AbstractDistribution as AbstractDistribution,
    Categorical as Categorical,
    Composite as Composite,
    EpsilonGreedy as EpsilonGreedy,
    MultiCategorical as MultiCategorical,
    Normal as Normal,
    OneHots as OneHots,
    TanhNormal as TanhNormal,
    TwoHot as TwoHot,
)
from .film import FiLM as FiLM
from .group_transformer import GroupTransformer as GroupTransformer
from .gru import GRU as GRU
from .linear import Linear as Linear
from .lstm import LSTM as LSTM
from .mlp import MLP as MLP
from .model import Normalized as Normalized, Recurrent as Recurrent, initial_carry as initial_carry
from .model_check import check_model as check_model
from .multi_encoder import MultiEncoder as MultiEncoder
from .obs_decoder import ObsDecoder as ObsDecoder
from .obs_encoder import ObsEncoder as ObsEncoder
from .orthogonal import orthogonal_linear as orthogonal_linear
from .packed import Packed as Packed, pack as pack
from .pointer import AbstractPointer as AbstractPointer
from .pointer_net import PointerNet as PointerNet
from .pointer_sequence import PointerSequence as PointerSequence
from .privileged import Privileged as Privileged
from .privileged_actor_critic import PrivilegedActorCritic as PrivilegedActorCritic
from .q_network import QNetwork as QNetwork
from .q_policy import QPolicy as QPolicy
from .recurrent import AbstractCore as AbstractCore
from .rssm import RSSM as RSSM, Latent as Latent
from .set_encoder import SetEncoder as SetEncoder
from .symlog import symexp as symexp, symlog as symlog
from .target_attention import TargetAttention as TargetAttention
from .target_network import polyak as polyak
from .transformer import TransformerBlock as TransformerBlock, TransformerEncoder as TransformerEncoder
from .z_conditioning import ZConditioning as ZConditioning, z_reward as z_reward
