from .evaluation import Evaluation as Evaluation, evaluate as evaluate
from .play import unroll as unroll
from .playing import Playing as Playing, begin as begin
from .returns import gae as gae
from .rollout import Rollout as Rollout
