from . import core as core
from . import envs as envs
from .core import (
    AbstractEnv as AbstractEnv,
)
from .core import (
    AbstractWrapper as AbstractWrapper,
)
from .core import (
    Act as Act,
)
from .core import (
    CheckpointError as CheckpointError,
)
from .core import (
    ClipAction as ClipAction,
)
from .core import (
    CompositeLogger as CompositeLogger,
)
from .core import (
    ConfigError as ConfigError,
)
from .core import (
    EnvError as EnvError,
)
from .core import (
    EpisodeStats as EpisodeStats,
)
from .core import (
    FlattenObservation as FlattenObservation,
)
from .core import (
    FrameStack as FrameStack,
)
from .core import (
    GymState as GymState,
)
from .core import (
    GymVecEnv as GymVecEnv,
)
from .core import (
    JsonLogger as JsonLogger,
)
from .core import (
    Logger as Logger,
)
from .core import (
    NoopLogger as NoopLogger,
)
from .core import (
    PrintLogger as PrintLogger,
)
from .core import (
    RescaleAction as RescaleAction,
)
from .core import (
    RewardClip as RewardClip,
)
from .core import (
    Rl4JaxError as Rl4JaxError,
)
from .core import (
    RunningStats as RunningStats,
)
from .core import (
    ShapeError as ShapeError,
)
from .core import (
    Step as Step,
)
from .core import (
    TensorBoardLogger as TensorBoardLogger,
)
from .core import (
    TimeLimit as TimeLimit,
)
from .core import (
    VecEnv as VecEnv,
)
from .core import (
    VecState as VecState,
)
from .core import (
    VecStep as VecStep,
)
from .core import (
    WandbLogger as WandbLogger,
)
from .core import (
    check_env as check_env,
)
from .core import (
    clip_action as clip_action,
)
from .core import (
    flatten as flatten,
)
from .core import (
    random_act as random_act,
)
from .core import (
    random_action as random_action,
)
from .core import (
    record as record,
)
from .core import (
    setup as setup,
)
from .core import (
    to_gymnasium as to_gymnasium,
)
from .core import (
    write_gif as write_gif,
)
from .envs import make as make

__version__: str
