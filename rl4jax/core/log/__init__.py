"""Where metrics go: the terminal, a JSONL file, TensorBoard, Weights & Biases, or several of them at once."""

from .composite_logger import CompositeLogger as CompositeLogger
from .json_logger import JsonLogger as JsonLogger
from .logger import AbstractLogger as AbstractLogger, Logger as Logger
from .noop_logger import NoopLogger as NoopLogger
from .print_logger import PrintLogger as PrintLogger
from .tensorboard_logger import TensorBoardLogger as TensorBoardLogger
from .wandb_logger import WandbLogger as WandbLogger
