from .check_env import check_env as check_env
from .env import AbstractEnv as AbstractEnv
from .env import Step as Step
from .errors import (
    CheckpointError as CheckpointError,
)
from .errors import (
    ConfigError as ConfigError,
)
from .errors import (
    EnvError as EnvError,
)
from .errors import (
    Rl4JaxError as Rl4JaxError,
)
from .errors import (
    ShapeError as ShapeError,
)
from .gym_vec_env import GymState as GymState
from .gym_vec_env import GymVecEnv as GymVecEnv
from .log import (
    CompositeLogger as CompositeLogger,
)
from .log import (
    JsonLogger as JsonLogger,
)
from .log import (
    Logger as Logger,
)
from .log import (
    NoopLogger as NoopLogger,
)
from .log import (
    PrintLogger as PrintLogger,
)
from .log import (
    TensorBoardLogger as TensorBoardLogger,
)
from .log import (
    WandbLogger as WandbLogger,
)
from .running_stats import RunningStats as RunningStats
from .runtime import setup as setup
from .spaces import clip_action as clip_action
from .spaces import flatten as flatten
from .spaces import random_action as random_action
from .to_gymnasium import to_gymnasium as to_gymnasium
from .vec_env import VecEnv as VecEnv
from .vec_env import VecState as VecState
from .vec_env import VecStep as VecStep
from .video import Act as Act
from .video import random_act as random_act
from .video import record as record
from .video import write_gif as write_gif
from .wrappers import (
    AbstractWrapper as AbstractWrapper,
)
from .wrappers import (
    ClipAction as ClipAction,
)
from .wrappers import (
    EpisodeStats as EpisodeStats,
)
from .wrappers import (
    FlattenObservation as FlattenObservation,
)
from .wrappers import (
    FrameStack as FrameStack,
)
from .wrappers import (
    RescaleAction as RescaleAction,
)
from .wrappers import (
    RewardClip as RewardClip,
)
from .wrappers import (
    TimeLimit as TimeLimit,
)
