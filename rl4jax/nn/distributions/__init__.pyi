from .categorical import Categorical as Categorical
from .composite import Composite as Composite
from .distribution import AbstractDistribution as AbstractDistribution
from .epsilon_greedy import EpsilonGreedy as EpsilonGreedy
from .multi_categorical import MultiCategorical as MultiCategorical
from .normal import Normal as Normal
from .tanh_normal import TanhNormal as TanhNormal
from .two_hot import TwoHot as TwoHot
