import pytest

from tests.fresh_process import run

FLAG = "--xla_cpu_enable_concurrency_optimized_scheduler"


def test_importing_adds_the_flag_and_keeps_the_others():
    out = run("import os, rl4jax; print(os.environ['XLA_FLAGS'])", env={"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"})
    assert out.stdout.split() == ["--xla_cpu_multi_thread_eigen=false", f"{FLAG}=false"], out.stderr


def test_a_users_own_setting_wins():
    out = run("import os, rl4jax; print(os.environ['XLA_FLAGS'])", env={"XLA_FLAGS": f"{FLAG}=true"})
    assert out.stdout.split() == [f"{FLAG}=true"], out.stderr


def test_jax_may_be_imported_before_but_not_started():
    out = run("import jax, rl4jax; jax.numpy.ones(2); import os; print(os.environ['XLA_FLAGS'])")
    assert f"{FLAG}=false" in out.stdout, out.stderr


def test_coming_too_late_is_said_once():
    out = run(
        "import jax; jax.numpy.ones(2); import warnings, os\n"
        "with warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always'); import rl4jax\n"
        "print(len(seen), seen[0].category.__name__, os.environ.get('XLA_FLAGS')); print(seen[0].message)"
    )
    assert out.stdout.startswith("1 RuntimeWarning None"), out.stderr
    assert "Import rl4jax before the first JAX computation" in out.stdout


def test_an_unknown_flag_would_not_be_set():
    from rl4jax.core.runtime import _jaxlib_knows

    assert _jaxlib_knows(FLAG.removeprefix("--"))
    assert not _jaxlib_knows("xla_cpu_a_flag_that_nobody_ever_had")


def test_importing_needs_no_jax_and_no_optional_package():
    out = run(
        "import sys, rl4jax, rl4jax.core, rl4jax.envs\n"
        "heavy = ['jax', 'equinox', 'optax', 'tensorboardX', 'wandb', 'envpool', 'beartype', 'torch', 'PIL']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    assert out.stdout.strip() == "[]", out.stderr


def test_using_everything_needs_no_optional_package():
    blocked = "tensorboardX tensorboard wandb envpool beartype torch"
    out = run(
        f"import sys\nfor name in '{blocked}'.split(): sys.modules[name] = None\n"
        "import rl4jax as rl\nprint(len([getattr(rl, name) for name in rl.__all__]), len([getattr(rl.envs, n) for n in rl.envs.__all__]))"
    )
    assert out.returncode == 0, out.stderr


def test_all_names_of_the_public_face_exist():
    import rl4jax as rl

    for module in (rl, rl.core, rl.envs):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert set(rl.core.__all__) <= set(rl.__all__)
    with pytest.raises(AttributeError):
        rl.no_such_name  # noqa: B018


def test_setup_keeps_compiled_programs_on_disk(tmp_path):
    program = (
        "import rl4jax as rl; rl.setup(); import jax\n"
        "print(jax.config.jax_compilation_cache_dir)\n"
        "jax.jit(lambda x: jax.lax.fori_loop(0, 9, lambda i, y: jax.numpy.sin(y @ y), x))(jax.numpy.ones((9, 9)))\n"
        "env = rl.VecEnv(rl.make('Acrobot'), 4); env.step(env.reset(jax.random.key(0))[0], jax.numpy.zeros(4, int), jax.random.key(1))\n"
    )
    home = {"XDG_CACHE_HOME": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}  # keep all, however quick
    out = run(program, env=home)
    assert out.stdout.strip() == str(tmp_path / "rl4jax" / "xla"), out.stderr
    kept = {path.name for path in (tmp_path / "rl4jax" / "xla").iterdir() if path.name.endswith("-cache")}
    assert kept
    out = run(program, env=home)
    assert out.stderr == ""
    assert {path.name for path in (tmp_path / "rl4jax" / "xla").iterdir() if path.name.endswith("-cache")} == kept, "found again"


def test_setup_leaves_the_users_settings(tmp_path):
    out = run(
        "import rl4jax as rl; rl.setup(); import jax; print(jax.config.jax_compilation_cache_dir)",
        env={"JAX_COMPILATION_CACHE_DIR": str(tmp_path)},
    )
    assert out.stdout.strip() == str(tmp_path), out.stderr


def test_setup_leaves_what_was_set_in_code():
    out = run(
        "import rl4jax as rl, jax; jax.config.update('jax_persistent_cache_min_compile_time_secs', 7.0); rl.setup()\n"
        "print(jax.config.jax_persistent_cache_min_compile_time_secs)"
    )
    assert out.stdout.strip() == "7.0", out.stderr


def test_flags_in_a_file_are_left_there(tmp_path):
    flags = tmp_path / "flags.txt"
    flags.write_text("--xla_force_host_platform_device_count=3")
    program = (
        "import warnings\nwith warnings.catch_warnings(record=True) as seen:\n    warnings.simplefilter('always'); import rl4jax\n"
        "import jax; print(jax.device_count(), len(seen))"
    )
    assert run(program, env={"XLA_FLAGS": str(flags)}).stdout.split() == ["3", "1"]
    flags.write_text(f"--xla_force_host_platform_device_count=3 {FLAG}=false")
    assert run(program, env={"XLA_FLAGS": str(flags)}).stdout.split() == ["3", "0"]


def test_setup_checks_contracts_on_request():
    out = run(
        "import rl4jax as rl; rl.setup(contracts=True); import jax.numpy as jnp\n"
        "rl.RunningStats.like(jnp.zeros(2)).update(jnp.zeros((3, 2)), where=jnp.zeros(3))"
    )
    assert "TypeCheckError" in out.stderr
    assert "where" in out.stderr


def test_no_public_name_is_hidden_by_a_file_of_the_same_name():
    """A function `check_env` in a file `check_env.py` would turn into the module once that file is imported."""
    import pathlib

    import rl4jax as rl

    for module in (rl, rl.core, rl.envs):
        files = {path.stem for path in pathlib.Path(module.__path__[0]).glob("*.py")}
        assert not files & set(module.__all__)
