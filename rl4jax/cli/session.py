"""The training loop of the command line: collect, update, log, evaluate, checkpoint, until the end, a signal or a failure.

Exactly once: what an update has to say is in the log before its checkpoint is written; whoever goes on from a checkpoint first drops
the later lines of the log. The verbs are called as a user's loop would, so every process runs the same compiled programs.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from signal import Signals
from typing import Any, NamedTuple

import jax

from rl4jax.algo import ppo
from rl4jax.collect.evaluation import evaluate
from rl4jax.collect.playing import AnyVecEnv, check_faults
from rl4jax.collect.rollout import Rollout
from rl4jax.core.errors import CheckpointError, Rl4JaxError
from rl4jax.core.log.logger import Logger

from .environment import make_eval_env
from .errors import RunFailed
from .history import open_history
from .interrupts import Interrupts
from .nonfinite import explain
from .policy import close
from .progress import Progress
from .run import Run
from .tally import Tally


class Outcome(NamedTuple):
    """Where a session ended, why if a signal ended it, and whether there was nothing left to do."""

    state: ppo.State
    step: int
    tally: Tally
    signal: Signals | None = None
    was_finished: bool = False


class Session(NamedTuple):
    """What one process needs to go on with a run."""

    run: Run
    tally: Tally
    eval_env: AnyVecEnv
    log: Logger
    progress: Progress
    stop: Interrupts


def train_session(run: Run, progress: Progress, eval_env: AnyVecEnv | None = None) -> Outcome:
    """Train from the newest checkpoint, or from the beginning, to the end. An environment to evaluate in is made unless given.

    The caller holds the lock of the folder.
    """
    with contextlib.ExitStack() as stack:
        stop = stack.enter_context(Interrupts())
        step, state, tally = start(run, progress)
        if step == run.last_step and tally.evaluation is not None and tally.evaluation["step"] == step:
            return Outcome(state, step, tally, was_finished=True)
        if eval_env is None:
            eval_env = make_eval_env(run.options.env, run.options.eval_episodes)
            stack.callback(close, eval_env)
        log = stack.enter_context(open_history(run.path, step, tensorboard=run.options.tensorboard))
        stack.callback(progress.pause)
        session = Session(run, tally, eval_env, log, progress, stop)
        if step == run.last_step:  # only its evaluation failed
            assess(session, state, step)
            save(run, step, state, tally)
        first = step
        while step < run.last_step and stop.signal is None:
            state = turn(session, state, step, first=step == first)
            step += run.steps_per_update
        if stop.signal is not None:
            log.flush()
            save_unless_saved(run, step, state, tally)
        return Outcome(state, step, tally, stop.signal)


def start(run: Run, progress: Progress) -> tuple[int, ppo.State, Tally]:
    """The newest checkpoint, or a fresh state, which becomes checkpoint 0."""
    with progress.waiting("preparing"):
        found = run.load() if run.directory.steps() else None
        if found is not None:
            step, state = found
            anew = " The episodes of a host environment begin anew: it cannot be stored." if run.on_host else ""
            progress.say(f"Going on from step {step} of {run.last_step}.{anew}" if step < run.last_step else f"{run.path} is finished.")
            return step, state, Tally.from_metadata(run.metadata(step))
        state, tally = run.fresh(), Tally()
        save(run, 0, state, tally)
        return 0, state, tally


def turn(session: Session, state: ppo.State, step: int, *, first: bool) -> ppo.State:
    """One update and everything that belongs to it. If it fails, the last good state is saved."""
    run, tally = session.run, session.tally
    good = [(step, state)]
    with saved_on_failure(run, tally, good):
        began = time.perf_counter()
        state, rollout, metrics = learn(session, state, first)
        tally.add_seconds(time.perf_counter() - began)
        if metrics["train/skipped"] and run.options.on_nonfinite == "stop":
            raise RunFailed(f"The update after step {step} learned nothing. {explain(metrics, rollout)} Or go on: --on-nonfinite skip.")
        check_faults(state.playing.faults, run.env)
        step += run.steps_per_update
        tally.add_turn(rollout, metrics)
        good.append((step, state))
        note = f"  {tally.total_skipped} skipped" if tally.total_skipped else ""
        session.progress.advance(step, run.last_step, tally.recent, note)
        keep_house(session, state, step, metrics)
    return state


def learn(session: Session, state: ppo.State, first: bool) -> tuple[ppo.State, Rollout, Mapping[str, Any]]:
    """Collect and update; metrics come back on the host. The first time is shown as what it is."""
    run, progress = session.run, session.progress
    with progress.waiting("compiling collect", shown=first):
        state, rollout = ppo.collect(state, run.env, run.cfg)
        if first:
            jax.block_until_ready(rollout)
    with progress.waiting("compiling update", shown=first):
        state, metrics = ppo.update(state, rollout, run.cfg)
        return state, rollout, jax.device_get(metrics)


def keep_house(session: Session, state: ppo.State, step: int, metrics: Mapping[str, Any]) -> None:
    """Log, evaluate, checkpoint, in this order, what is due after an update."""
    run, tally, options = session.run, session.tally, session.run.options
    update, last = step // run.steps_per_update, step == run.last_step
    began = time.perf_counter()
    if last or update % run.log_every == 0:
        session.log.log_metrics({**metrics, **tally.take_line()}, step)
    tally.add_housekeeping(time.perf_counter() - began)
    if last or (options.eval_every and update % options.eval_every == 0):
        assess(session, state, step)
    began = time.perf_counter()
    if last or update % run.checkpoint_every == 0:
        session.log.flush()
        save(run, step, state, tally)
    tally.add_housekeeping(time.perf_counter() - began)


def assess(session: Session, state: ppo.State, step: int) -> None:
    """Evaluate, log it, and keep the state if it is the best so far."""
    run = session.run
    if step == run.last_step:
        session.progress.pause()
    with session.progress.waiting("evaluating", shown=step == run.last_step):
        result = evaluate(state.policy, session.eval_env, run.options.eval_episodes, key=run.key("eval", step))
    session.log.log_metrics(session.tally.set_evaluation(step, result), step)
    run.directory.save_best(step, state, float(result.mean))


def save(run: Run, step: int, state: ppo.State, tally: Tally) -> None:
    run.directory.save(step, state, metadata=tally.metadata())


def save_unless_saved(run: Run, step: int, state: ppo.State, tally: Tally) -> None:
    if step not in run.directory.steps():
        save(run, step, state, tally)


@contextlib.contextmanager
def saved_on_failure(run: Run, tally: Tally, good: list[tuple[int, ppo.State]]) -> Iterator[None]:
    """Whatever goes wrong, the last good state is on disk before anyone hears of it."""
    try:
        yield
    except Exception as error:
        step, state = good[-1]
        kept = f"The state of step {step} is saved in {run.path}."
        try:
            save_unless_saved(run, step, state, tally)
        except CheckpointError as problem:
            kept = f"The last state could not be saved either: {problem}"
        if isinstance(error, Rl4JaxError):
            raise RunFailed(f"{error}\n{kept}") from error
        raise
