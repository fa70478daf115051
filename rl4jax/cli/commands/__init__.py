"""One file per command of `rl4jax`, each with a function `command(argv) -> exit code`."""
