"""The training loop of the command line: learn, log, evaluate, checkpoint, until the end, a signal or a failure.

Exactly once: what a turn has to say is in the log before its checkpoint is written; whoever goes on from a checkpoint first drops
the later lines of the log. All turns are alike, so every process runs the same compiled programs.
"""

import contextlib
import time
from collections.abc import Iterator
from signal import Signals
from typing import Any, NamedTuple

from rl4jax.collect.evaluation import evaluate
from rl4jax.collect.playing import AnyVecEnv
from rl4jax.core.errors import Rl4JaxError
from rl4jax.core.log.logger import Logger

from .environment import close, make_eval_env
from .errors import RunFailed
from .history import open_history
from .interrupts import Interrupts
from .progress import Progress
from .run import AbstractRun
from .tally import Tally
from .turn import Turn


class Outcome(NamedTuple):
    """Where a session ended, why if a signal ended it, and whether there was nothing left to do."""

    state: Any
    step: int
    tally: Tally
    signal: Signals | None = None
    was_finished: bool = False


class Session(NamedTuple):
    """What one process needs to go on with a run."""

    run: AbstractRun
    tally: Tally
    eval_env: AnyVecEnv
    log: Logger
    progress: Progress
    stop: Interrupts


def train_session(run: AbstractRun, progress: Progress, eval_env: AnyVecEnv | None = None) -> Outcome:
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
            state = one_turn(session, state, step, first=step == first)
            step += run.steps_per_turn
        if stop.signal is not None:
            log.flush()
            save_unless_saved(run, step, state, tally)
        return Outcome(state, step, tally, stop.signal)


def start(run: AbstractRun, progress: Progress) -> tuple[int, Any, Tally]:
    """The newest checkpoint, or a fresh state, which becomes checkpoint 0."""
    with progress.waiting("preparing"):
        found = run.load() if run.directory.steps() else None
        if found is not None:
            step, state = found
            plays_on_host = run.on_host and not run.algorithm.imitates
            anew = " The episodes of a host environment begin anew: it cannot be stored." if plays_on_host else ""
            goes_on = f"Going on from {run.place(step)} of {run.last_step}.{anew}"
            progress.say(goes_on if step < run.last_step else f"{run.path} is finished.")
            return step, state, Tally.from_metadata(run.metadata(step))
        state, tally = run.fresh(), Tally()
        save(run, 0, state, tally)
        return 0, state, tally


def one_turn(session: Session, state: Any, step: int, *, first: bool) -> Any:
    """A turn of learning and everything that belongs to it. If it fails, the last good state is saved."""
    run, tally = session.run, session.tally
    good = [(step, state)]
    with saved_on_failure(run, tally, good):
        began = time.perf_counter()
        state, turn = run.learn(state, step, session.progress, first=first)
        tally.add_seconds(time.perf_counter() - began)
        step += run.steps_per_turn
        tally.add_turn(turn)
        good.append((step, state))
        note = f"  {tally.total_skipped} skipped" if tally.total_skipped else ""
        session.progress.advance(step, run.last_step, run.algorithm.unit, run.status(turn, tally.recent) + note)
        keep_house(session, state, step, turn)
    return state


def keep_house(session: Session, state: Any, step: int, turn: Turn) -> None:
    """Log, evaluate, checkpoint, in this order, what is due after a turn."""
    run, tally = session.run, session.tally
    number, last = step // run.steps_per_turn, step == run.last_step
    log, evaluation, checkpoint = (last or (every > 0 and number % every == 0) for every in run.rhythm)
    began = time.perf_counter()
    if log:
        session.log.log_metrics({**turn.metrics, **tally.take_line()}, step)
    tally.add_housekeeping(time.perf_counter() - began)
    if evaluation:
        assess(session, state, step)
    began = time.perf_counter()
    if checkpoint:
        session.log.flush()
        save(run, step, state, tally)
    tally.add_housekeeping(time.perf_counter() - began)


def assess(session: Session, state: Any, step: int) -> None:
    """Evaluate, log it, and keep the state if it is the best so far."""
    run = session.run
    if step == run.last_step:
        session.progress.pause()
    with session.progress.waiting("evaluating", shown=step == run.last_step):
        result = evaluate(state.policy, session.eval_env, run.options.eval_episodes, key=run.key("eval", step))
    session.log.log_metrics(session.tally.set_evaluation(step, result), step)
    run.directory.save_best(step, state, float(result.mean))


def save(run: AbstractRun, step: int, state: Any, tally: Tally) -> None:
    with run.storing(state):
        run.directory.save(step, state, metadata=tally.metadata())


def save_unless_saved(run: AbstractRun, step: int, state: Any, tally: Tally) -> None:
    if step not in run.directory.steps():
        save(run, step, state, tally)


@contextlib.contextmanager
def saved_on_failure(run: AbstractRun, tally: Tally, good: list[tuple[int, Any]]) -> Iterator[None]:
    """Whatever goes wrong, the last good state is on disk before anyone hears of it."""
    try:
        yield
    except Exception as error:
        step, state = good[-1]
        if isinstance(error, RunFailed) and error.state is not None:
            step, state = step + run.steps_per_turn, error.state
        kept = f"The state of {run.place(step)} is saved in {run.path}."
        try:
            save_unless_saved(run, step, state, tally)
        except Rl4JaxError as problem:
            newest = run.place(max(run.directory.steps(), default=0))
            kept = f"The state of {run.place(step)} could not be saved: {problem} The newest one in {run.path} is that of {newest}."
        if isinstance(error, Rl4JaxError):
            raise RunFailed(f"{error}\n{kept}") from error
        raise
