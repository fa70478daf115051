from . import bc as bc, distill as distill, dqn as dqn, impala as impala, losses as losses, ppo as ppo
