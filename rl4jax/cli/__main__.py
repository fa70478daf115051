"""`python -m rl4jax.cli`, the same as `rl4jax`."""

import sys

from rl4jax.cli.main import main

sys.exit(main())
