"""Episodes of the page, in Node.js, with a policy that takes its time: whatever is pressed meanwhile, each step leaves the state before it."""

import pytest

from tests.deploy.browser.node import modules, run_script

SLOW = """
const { Player } = await import(FOLDER + "player.js");
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
let asked = [], atOnce = 0, most = 0, fails = false;
const policy = {
  start() {},
  async decide([t]) {
    asked.push(t);
    most = Math.max(most, ++atOnce);
    await wait(10);
    atOnce -= 1;
    if (fails) throw new Error("no answer");
    return { action: t, said: { value: [t] } };
  },
};
const env = {
  reset: () => ({ t: 0 }),
  observe: ({ t }) => [t],
  push: (state) => state,
  step: ({ t }, action) => ({ state: { t: t + 1 }, reward: Number(action === t), terminated: t + 1 === 3, truncated: false }),
};
const player = new Player(env, policy, null);
"""


@pytest.fixture
def play(tmp_path):
    """What a script says, after SLOW."""
    folder = modules(tmp_path).as_uri() + "/"
    return lambda script: run_script("--input-type=module", "-e", f"const FOLDER = '{folder}';{SLOW}{script}")


def test_steps_that_are_asked_for_at_once_follow_one_another(play):
    said = play("""
await Promise.all([player.step(), player.step(), player.step()]);
console.log(JSON.stringify({ asked, most, t: player.state.t, total: player.total, end: player.end, returns: player.returns, values: player.values }));
""")
    assert said == {
        "asked": [0, 1, 2], "most": 1, "t": 3, "total": 3, "end": {"terminated": True, "truncated": False}, "returns": [3], "values": [0, 1, 2],
    }  # fmt: skip


def test_a_step_too_many_begins_the_next_episode_and_takes_none_in_the_last(play):
    said = play("""
await Promise.all(Array.from({ length: 5 }, () => player.step()));
console.log(JSON.stringify({ asked, t: player.state.t, returns: player.returns, episode: player.episode }));
""")
    assert said == {"asked": [0, 1, 2, 0], "t": 1, "returns": [3], "episode": 2}


def test_an_answer_for_an_episode_that_was_left_is_dropped(play):
    said = play("""
await player.step();
const late = player.step();
await wait(2);
player.begin();
await late;
console.log(JSON.stringify({ asked, t: player.state.t, total: player.total, episode: player.episode }));
""")
    assert said == {"asked": [0, 1], "t": 0, "total": 0, "episode": 2}


def test_a_step_that_fails_says_so_and_is_no_end(play):
    said = play("""
fails = true;
const failed = await player.step().catch((error) => error.message);
fails = false;
await player.step();
console.log(JSON.stringify([failed, player.state.t]));
""")
    assert said == ["no answer", 1]
