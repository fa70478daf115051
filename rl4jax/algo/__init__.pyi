from . import bc as bc, distill as distill, dqn as dqn, dreamer as dreamer, impala as impala, losses as losses, ppo as ppo
