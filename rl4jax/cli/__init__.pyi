from .policy import Policy as Policy, load_policy as load_policy
from .run import Run as Run, load_run as load_run
