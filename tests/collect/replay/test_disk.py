"""The ring on disk: its files, what is refused, and what a crash or a full disk leaves behind."""

import errno
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import rl4jax as rl
from rl4jax.collect import DiskReplay, HostPrioritizedReplay
from rl4jax.collect.replay import chunks
from tests.collect.replay import disk_life
from tests.collect.replay.kinds import ITEM_BYTES, LIKE, PER_CHUNK, Model, assert_holds, assert_same, disk, items_of
from tests.fresh_process import run


def files(folder):
    return sorted(int(path.stem.removeprefix("chunk_")) for path in folder.glob("chunk_*.bin"))


def filled(folder, num, capacity=10):
    ring, model = disk(capacity, folder), Model(capacity)
    return ring.add(items_of(model.add(np.ones(num, bool)))), model


def test_item_i_is_a_record_of_fixed_length_in_its_chunk(tmp_path):
    ring, _ = filled(tmp_path, 7)
    assert files(tmp_path) == [0, 1]
    record = (tmp_path / "chunk_000000001.bin").read_bytes()[ITEM_BYTES : 2 * ITEM_BYTES]  # of item 5
    item = items_of([5])
    assert record == b"".join(x.tobytes() for x in jax.tree.leaves(item))
    assert (tmp_path / "chunk_000000001.bin").stat().st_size == PER_CHUNK * ITEM_BYTES  # in full length from the start


def test_files_go_when_neither_of_the_last_two_checkpoints_needs_them(tmp_path):
    ring, model = filled(tmp_path, 9)  # items 0 to 8 in chunks 0 to 2
    with ring.checkpointed():
        pass
    ring = ring.add(items_of(model.add(np.ones(31, bool))))  # 30 to 39 are left, in chunks 7 to 9
    assert files(tmp_path) == [0, 1, 2, 7, 8, 9]  # what was never needed was never written
    for _ in range(2):  # the same items twice are one checkpoint
        with ring.checkpointed():
            assert files(tmp_path) == [0, 1, 2, 7, 8, 9]
        assert files(tmp_path) == [0, 1, 2, 7, 8, 9]  # the one before needs them
    ring = ring.add(items_of(model.add(np.ones(1, bool))))
    with ring.checkpointed():
        assert files(tmp_path) == [0, 1, 2, 7, 8, 9, 10]  # still while the next is being saved
    assert files(tmp_path) == [7, 8, 9, 10]
    assert_holds(ring, model)


def test_after_a_restart_the_checkpoint_it_began_with_stays_loadable(tmp_path):
    ring, model = filled(tmp_path / "ring", 9)
    run_dir = rl.RunDir(tmp_path / "run")
    with ring.checkpointed():
        run_dir.save(1, ring)
    again = run_dir.latest(disk(10, tmp_path / "ring"))[1].add(items_of(range(9, 40)))
    with again.checkpointed():
        run_dir.save(2, again)
    assert_holds(rl.load(run_dir.step_path(1), like=disk(10, tmp_path / "ring")), model)


def test_a_checkpoint_that_could_not_be_saved_removes_nothing(tmp_path):
    ring, _ = filled(tmp_path, 9)
    with ring.checkpointed():
        pass
    ring = ring.add(items_of(range(31)))
    before = files(tmp_path)
    for _ in range(3):
        with pytest.raises(rl.CheckpointError, match="no space"), ring.checkpointed():
            raise rl.CheckpointError("no space")
    assert files(tmp_path) == before


def test_a_checkpoint_is_one_number(tmp_path):
    ring, _ = filled(tmp_path, 9)
    assert [int(x) for x in jax.tree.leaves(ring)] == [9]
    rl.save(tmp_path / "ring.safetensors", ring)
    assert (tmp_path / "ring.safetensors").stat().st_size < 1000


def test_opening_at_a_checkpoint_ignores_and_overwrites_what_came_later(tmp_path):
    ring, model = filled(tmp_path / "ring", 13)
    with ring.checkpointed():
        rl.save(tmp_path / "state.safetensors", ring)
    ring.add(items_of(range(100, 109)))  # lost with the process
    for chunk in (3, 4, 5, 6):  # and torn: whatever is behind item 12, anything may be there
        path = tmp_path / "ring" / f"chunk_{chunk:09d}.bin"
        start = ITEM_BYTES if chunk == 3 else 0
        whole = path.read_bytes()[:start] if path.exists() else b""
        path.write_bytes(whole + b"\xa5" * ((PER_CHUNK * ITEM_BYTES if chunk < 6 else 5) - start))  # the last one is cut short as well
    restored = rl.load(tmp_path / "state.safetensors", like=disk(10, tmp_path / "ring"))
    assert_holds(restored, model)
    for _ in range(4):
        restored = restored.add(items_of(model.add(np.ones(5, bool))))
        assert_holds(restored, model)


def test_a_checkpoint_whose_files_are_gone_or_cut_is_refused_by_name(tmp_path):
    ring, _ = filled(tmp_path / "ring", 13)
    rl.save(tmp_path / "state.safetensors", ring)

    def restored():
        return rl.load(tmp_path / "state.safetensors", like=disk(10, tmp_path / "ring"))

    path = tmp_path / "ring" / "chunk_000000002.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # a map of it would end the process when its last page is read
    with pytest.raises(rl.CheckpointError, match=r"chunk_000000002.bin has 75 bytes of 76, but items 3 to 12 are needed. The folder keeps"):
        restored().sample_with(np.zeros(3, np.uint32))
    path.unlink()
    with pytest.raises(rl.CheckpointError, match=r"chunk_000000002.bin is missing, but items 3 to 12 are needed"):
        restored().add(items_of([1]))
    path.write_bytes(whole)
    assert_same(restored().items(), items_of(range(3, 13)))


def test_one_folder_in_use_does_not_go_back_but_opened_again_it_does(tmp_path):
    ring, model = filled(tmp_path / "ring", 13)
    rl.save(tmp_path / "state.safetensors", ring)
    ring.add(items_of([99]))
    with pytest.raises(rl.ConfigError, match=r"stale: .* To go back to a checkpoint, load it into a new DiskReplay"):
        rl.load(tmp_path / "state.safetensors", like=ring).add(items_of([13]))
    assert_holds(rl.load(tmp_path / "state.safetensors", like=disk(10, tmp_path / "ring")), model)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda folder: disk(11, folder), "capacity is 10 there and 11 here"),
        (lambda folder: disk(10, folder, chunk_bytes=100 * ITEM_BYTES), "items_per_chunk is 4 there and 100 here"),
        (
            lambda folder: DiskReplay(folder, 10, {**LIKE, "index": np.int16(0)}, chunk_bytes=70),
            r"item is .*'int32'.* there and .*'int16'.* here",
        ),
    ],
)
def test_a_folder_of_another_ring_is_refused(other, message, tmp_path):
    filled(tmp_path, 3)
    with pytest.raises(rl.CheckpointError, match=rf"(?s)was made for another ring.*{message}.*Use another folder"):
        other(tmp_path)
    disk(10, tmp_path)
    (tmp_path / "replay.json").write_text("{")
    with pytest.raises(rl.CheckpointError, match=r"replay.json cannot be read"):
        disk(10, tmp_path)
    (tmp_path / "replay.json").unlink()
    with pytest.raises(rl.CheckpointError, match=r"has chunks of items but no replay.json"):
        disk(10, tmp_path)


class NearlyFull:
    """A file on a disk that takes a few more bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        num = min(len(data), self.room)
        self.room -= num
        return self.file.write(data[:num])

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_full_disk_raises_and_leaves_the_ring_as_it_was(prioritized, tmp_path, monkeypatch):
    ring, model = disk(10, tmp_path), Model(10)
    ring = HostPrioritizedReplay.of(ring) if prioritized else ring
    ring = ring.add(items_of(model.add(np.ones(13, bool))))
    bits = np.arange(32, dtype=np.uint32) * np.uint32(2**27)
    before = ring.sample_with(bits)
    real = chunks.Chunks._file
    with monkeypatch.context() as patch:
        patch.setattr(chunks.Chunks, "_file", lambda self, chunk: NearlyFull(real(self, chunk), room=50))
        for _ in range(2):
            with pytest.raises(
                rl.CheckpointError, match=r"chunk_\d+.bin cannot be written: .*No space left on device. The ring is unchanged."
            ):
                ring.add(items_of(range(50, 59)))
            assert_holds(ring, model)
    assert_same(ring.sample_with(bits), before)
    ring = ring.add(items_of(model.add(np.ones(9, bool))))  # once there is room again
    assert_holds(ring, model)


def test_a_limit_on_file_sizes_raises_and_leaves_the_ring_as_it_was(tmp_path):
    """A real failure of the system, in a process of its own: of the file's length, and of a write within it."""
    program = """
import resource, sys, numpy as np, rl4jax as rl
from rl4jax.collect import DiskReplay
ring = DiskReplay(sys.argv[1], 100, np.zeros(1000, np.uint8), chunk_bytes=40_000).add(np.ones((30, 1000), np.uint8))
resource.setrlimit(resource.RLIMIT_FSIZE, (35_000, resource.RLIM_INFINITY))
for num in (8, 30):  # beyond the limit within a chunk of full length, and a chunk that cannot have its length
    try: ring.add(np.full((num, 1000), 2, np.uint8))
    except rl.CheckpointError as error: print(error)
    assert ring.items().shape == (30, 1000) and (ring.items() == 1).all()
    assert (ring.sample_with(np.arange(99, dtype=np.uint32)).items == 1).all()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ring = ring.add(np.full((30, 1000), 2, np.uint8))
print(ring.items().sum())
"""
    out = run(program, str(tmp_path / "ring"))
    assert out.returncode == 0, out.stderr
    first, second, total = out.stdout.splitlines()
    for line in (first, second):
        assert "cannot be written: [Errno 27] File too large. The ring is unchanged." in line
    assert total == str(30_000 * 3)


def test_items_that_did_not_reach_the_disk_are_in_no_checkpoint(tmp_path, monkeypatch):
    ring, _ = filled(tmp_path, 9)
    run_dir = rl.RunDir(tmp_path / "run")

    def lose(handle):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(chunks.os, "fsync", lose)
        with pytest.raises(rl.CheckpointError, match=r"chunk_000000000.bin cannot be synced: .*Input/output error"), ring.checkpointed():
            run_dir.save(1, ring)
    with pytest.raises(rl.CheckpointError, match=r"lost what it could not write"), ring.checkpointed():  # the system tells only once
        run_dir.save(1, ring)
    assert run_dir.steps() == []


def test_many_chunks_need_few_open_files(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "_MOST_MAPS", 3)
    monkeypatch.setattr(chunks, "_MOST_UNSYNCED", 2)
    ring, model = filled(tmp_path, 57, capacity=50)
    assert_holds(ring, model)
    ring = ring.add(items_of(model.add(np.ones(3, bool))))
    assert_holds(ring, model)
    assert len(ring._shared.chunks._maps) <= 3
    assert len(ring._shared.chunks._unsynced) <= 2


def killed_until_done(folder, num_steps, checkpoint_every, kind, num_kills, rng):
    """Run the program and kill it at random moments; the steps at which it was started again."""
    args = [sys.executable, "-m", "tests.collect.replay.disk_life", folder, str(num_steps), str(checkpoint_every), kind]
    starts = []
    while True:
        with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
            starts.append(int(process.stdout.readline()))
            last_step = starts[-1] + rng.uniform(0.5, 1.5) * (num_steps - starts[-1]) / (num_kills + 1)
            for line in process.stdout:
                if len(starts) <= num_kills and int(line) >= last_step:
                    time.sleep(rng.uniform(0, 0.02))  # not always between two steps
                    process.send_signal(signal.SIGKILL)
                    break
            process.stdout.read()
        if process.returncode == 0:
            return starts
        assert process.returncode == -signal.SIGKILL


def assert_a_killed_run_ends_like_one_left_alone(tmp_path, num_steps, checkpoint_every, prioritized, num_kills, seed):
    kind = "prioritized" if prioritized else "uniform"
    starts = killed_until_done(str(tmp_path / "killed"), num_steps, checkpoint_every, kind, num_kills, random.Random(seed))
    assert len(starts) == num_kills + 1
    assert starts[-1] > 0
    killed_until_done(str(tmp_path / "alone"), num_steps, 10**9, kind, num_kills=0, rng=random.Random(0))
    got, want = (rl.RunDir(tmp_path / name).latest(disk_life.begin(tmp_path / name, prioritized))[1] for name in ("killed", "alone"))
    assert got["step"] == want["step"] == num_steps
    assert got["drawn"] == want["drawn"]
    assert got["replay"].count == want["replay"].count
    assert_same(got["replay"].items(), want["replay"].items())
    num_chunks = disk_life.CAPACITY // 70 + 2  # of one checkpoint; the one before may need as many, and what came between
    assert len(files(tmp_path / "killed" / "replay")) <= 2 * num_chunks + checkpoint_every * 6 // 70


def test_a_run_that_is_killed_ends_like_one_left_alone(tmp_path):
    assert_a_killed_run_ends_like_one_left_alone(tmp_path, 1500, 70, prioritized=True, num_kills=2, seed=0)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("prioritized", [False, True])
def test_a_run_of_100_000_steps_that_is_killed_often_ends_like_one_left_alone(prioritized, tmp_path):
    assert_a_killed_run_ends_like_one_left_alone(tmp_path, 100_000, 900, prioritized, num_kills=8, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("program", ["disk_pictures", "stream_of_pictures"])
def test_a_million_pictures_need_no_memory_of_their_own(program, tmp_path):
    """64 x 64 x 3 bytes each: 12.3 GB; in streams 2 GB of latents with them."""
    out = run(f"from tests.collect.replay.{program} import live; live()", str(tmp_path / "ring"), timeout=3600)
    assert out.returncode == 0, out.stderr
    assert int(out.stdout.split()[-1]) < 2**20  # kB of anonymous memory, at most
