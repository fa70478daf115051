"""rl4jax: reinforcement-learning building blocks on JAX. Functions, not a framework."""
