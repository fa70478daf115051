"""What an environment, a step, a log and a picture are. Imports nothing else of rl4jax."""
