from . import ppo as ppo
