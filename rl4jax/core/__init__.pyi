from .checkpoint import load as load, save as save
from .env import AbstractEnv as AbstractEnv, Step as Step
from .env_checker import check_env as check_env
from .errors import (
    CheckpointError as CheckpointError,
    ConfigError as ConfigError,
    EnvError as EnvError,
    Rl4JaxError as Rl4JaxError,
    ShapeError as ShapeError,
)
from .gym_export import to_gymnasium as to_gymnasium
from .gym_vec_env import GymState as GymState, GymVecEnv as GymVecEnv
from .log import (
    AbstractLogger as AbstractLogger,
    CompositeLogger as CompositeLogger,
    JsonLogger as JsonLogger,
    Logger as Logger,
    NoopLogger as NoopLogger,
    PrintLogger as PrintLogger,
    TensorBoardLogger as TensorBoardLogger,
    WandbLogger as WandbLogger,
)
from .run_dir import RunDir as RunDir
from .running_stats import RunningStats as RunningStats
from .runtime import setup as setup
from .schedule import Linear as Linear
from .spaces import clip_action as clip_action, flatten as flatten, random_action as random_action
from .vec_env import VecEnv as VecEnv, VecState as VecState, VecStep as VecStep
from .video import Act as Act, random_act as random_act, record as record, write_gif as write_gif
from .wrappers import (
    AbstractWrapper as AbstractWrapper,
    ClipAction as ClipAction,
    EpisodeStats as EpisodeStats,
    FlattenObservation as FlattenObservation,
    FrameStack as FrameStack,
    RescaleAction as RescaleAction,
    RewardClip as RewardClip,
    TimeLimit as TimeLimit,
)
