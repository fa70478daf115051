from .build import load_run as load_run
from .policy import Policy as Policy, load_policy as load_policy
from .run import AbstractRun as AbstractRun
