import gymnasium
import numpy as np
import pytest
from PIL import Image

import rl4jax as rl


def frames_of(path):
    with Image.open(path) as gif:
        pictures, delays = [], []
        for i in range(gif.n_frames):
            gif.seek(i)
            pictures.append(np.asarray(gif.convert("RGB")))
            delays.append(gif.info["duration"])
        return pictures, delays, gif.info["loop"]


def test_a_gif_holds_the_frames_with_their_delay(tmp_path):
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 20, 30)]
    frames = [np.full((20, 30, 3), colour, np.uint8) for colour in colours]
    rl.write_gif(tmp_path / "new" / "a.gif", frames, 7)
    pictures, delays, loop = frames_of(tmp_path / "new" / "a.gif")
    assert len(pictures) == 4
    assert delays == [70] * 4
    assert loop == 0, "endless"
    for picture, frame in zip(pictures, frames, strict=True):
        assert np.abs(picture.astype(int) - frame).max() <= 4


def test_no_frames_no_file(tmp_path):
    rl.write_gif(tmp_path / "a.gif", [])
    assert not (tmp_path / "a.gif").exists()


@pytest.mark.parametrize(
    ("frames", "delay", "message"),
    [
        ([np.zeros((4, 4, 3), np.uint8), np.zeros((5, 4, 3), np.uint8)], 4, r"frames\[1\] is uint8 \(5, 4, 3\)"),
        ([np.zeros((4, 4, 3), np.uint8)], 0, r"write_gif: delay = 0 must be a whole number of centiseconds from 1"),
    ],
)
def test_what_cannot_be_written_is_named(frames, delay, message, tmp_path):
    with pytest.raises(rl.Rl4JaxError, match=message):
        rl.write_gif(tmp_path / "a.gif", frames, delay)


def test_record_plays_an_in_graph_environment_to_its_end(getkey):
    env = rl.envs.CartPole(max_steps=12)
    frames = rl.record(env, lambda obs, carry=None, mask=None, *, key=None: ((obs[2] + obs[3] > 0).astype(np.int32), carry), key=getkey())
    assert len(frames) == 13, "a picture before each step and one of the end"
    assert all(frame.shape == (400, 600, 3) and frame.dtype == np.uint8 for frame in frames)
    assert (frames[0] != frames[-1]).any()


def test_record_hands_masks_and_carry_to_the_agent(getkey):
    env = rl.VecEnv(rl.envs.GridWorld(max_steps=10), 4)
    seen = []

    def act(obs, carry=None, mask=None, *, key=None):
        seen.append((obs.shape, mask.shape, carry))
        return np.int32(mask.argmax()), (carry or 0) + 1

    rl.record(env, act, key=getkey())
    assert [carry for _, _, carry in seen] == [None, *range(1, len(seen))]
    assert {(obs, mask) for obs, mask, _ in seen} == {((4,), (4,))}


class Coloured(gymnasium.Env):
    """A Gymnasium environment with a start in its actions and 64-bit observations."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=3)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        assert action in (3, 4)
        self.t += 1
        return np.zeros(2), 0.0, self.t == 5, False, {}

    def render(self):
        return np.full((8, 8, 3), 40 * self.t, np.uint8)


def test_record_plays_a_gymnasium_environment_in_our_spaces(getkey):
    frames = rl.record(Coloured(), rl.random_act(gymnasium.spaces.Discrete(2)), key=getkey())
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 40, 80, 120, 160, 200]


def test_record_stops_at_max_steps(getkey):
    frames = rl.record(rl.envs.Pendulum(), rl.random_act(rl.envs.Pendulum().action_space), key=getkey(), max_steps=3)
    assert len(frames) == 4


def test_an_environment_without_pictures_is_named(getkey):
    env = gymnasium.make("CartPole-v1")
    with pytest.raises(rl.EnvError, match=r"has render_mode = None. Make it with render_mode='rgb_array'"):
        rl.record(env, rl.random_act(env.action_space), key=getkey())


class OwnBuffer(Coloured):
    """Draws every picture into one array, gives its observation as a list and masks by a method."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    buffer = np.zeros((8, 8, 3), np.uint8)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return [0.0, 5.0], {}

    def step(self, action):
        assert action == 4, "the other one is not allowed"
        self.t += 1
        return [float(self.t), 5.0], 0.0, self.t == 3, False, {}

    def action_masks(self):
        return [False, True]

    def render(self):
        self.buffer[:] = 40 * self.t
        return self.buffer


def test_record_sees_what_training_sees(getkey):
    seen = []

    def act(obs, carry=None, mask=None, *, key=None):
        seen.append((obs.tolist(), mask.tolist()))
        return 1, carry

    frames = rl.record(OwnBuffer(), act, key=getkey())
    assert seen == [([float(t), 5.0], [False, True]) for t in range(3)]
    assert [int(frame[0, 0, 0]) for frame in frames] == [0, 40, 80, 120]


def test_still_frames_keep_their_time_and_may_last(tmp_path):
    black, white = np.zeros((4, 4, 3), np.uint8), np.full((4, 4, 3), 255, np.uint8)
    rl.write_gif(tmp_path / "a.gif", [black, black, black, white, black], 5)
    assert frames_of(tmp_path / "a.gif")[1] == [150, 50, 50]
    rl.write_gif(tmp_path / "b.gif", [black] * 17_000, 4)
    with Image.open(tmp_path / "b.gif") as gif:
        assert getattr(gif, "n_frames", 1) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "b.gif"]


def test_an_act_of_the_wrong_form_is_named(getkey):
    with pytest.raises(rl.EnvError, match=r"act returned int; act\(obs, carry, mask, \*, key\) must return \(action, carry\)"):
        rl.record(rl.envs.CartPole(), lambda obs, carry=None, mask=None, *, key=None: 0, key=getkey())  # pyright: ignore
