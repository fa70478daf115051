"""The page in a real browser. Not among the ordinary tests, by its name: `make test-browser`, which installs Chromium on Debian."""

# ruff: noqa: RUF001  real minus signs, as on the page
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlparse

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rl4jax as rl
from rl4jax import deploy
from rl4jax.deploy.web import write_page
from tests.deploy.browser.chromium import SOFTWARE_GPU, Browser, serve

pytestmark = pytest.mark.timeout(1800)
ARTEFACTS = Path(__file__).parents[3] / "bench-results" / "browser"
CLOSE = 1e-5
NUM_OBS = 1000


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("playwright")) as browser:
        yield browser


def cli(*words):
    program = "import sys; from rl4jax.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A bundle of PPO on CartPole, as a user makes it."""
    folder = tmp_path_factory.mktemp("cart_pole")
    cli("train", "ppo", "CartPole", "--total-steps", "100000", "--out", str(folder / "run"))
    cli("export", str(folder / "run"), "--out", str(folder / "bundle"))
    return folder / "bundle"


@pytest.fixture(scope="module")
def site(trained, tmp_path_factory):
    with serve(write_page(trained, tmp_path_factory.mktemp("site"))) as url:
        yield url


@pytest.fixture
def clean(browser):
    """Afterwards: no error was logged, and nothing was asked of another server."""
    yield browser
    seen = browser.do("seen")
    assert seen["errors"] == []
    assert {urlparse(url).hostname for url in seen["requests"]} == {"127.0.0.1"}


def record(**figures):
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    path = ARTEFACTS / "figures.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | figures, indent=1) + "\n")


def test_a_trained_policy_balances_the_pole_for_500_steps(clean, site):
    clean.open(site + "?paused&seed=3")
    state = clean.evaluate("while (!rl4jax.player.end) await rl4jax.step(); return rl4jax.state();")
    assert (state["return"], state["terminated"], state["truncated"]) == (500, False, True)
    assert state["returns"] == [500]


def test_the_browser_computes_what_python_does(clean, site, trained):
    rng = np.random.default_rng(0)
    obs = (rng.uniform(-1, 1, (NUM_OBS, 4)) * [2.4, 3, 0.21, 3]).astype(np.float32)
    ours = deploy.load(trained).outputs(obs)
    clean.open(site + "?paused")
    assert clean.evaluate("return rl4jax.policy.engine.name;") == "wasm"

    script = "const said = []; for (const obs of given) said.push(await rl4jax.policy.outputs(obs)); return said;"
    said = clean.evaluate(script, obs.tolist())

    logits = np.array([one["logits"] for one in said])
    error = float(np.abs(logits - ours["logits"]).max())
    record(max_logit_error_wasm=error)
    assert error < CLOSE
    assert np.allclose([one["value"][0] for one in said], ours["value"], rtol=1e-5, atol=1e-4)
    assert [one["action"][0] for one in said] == ours["action"].tolist()


def test_a_push_is_survived_or_ends_the_episode(clean, site):
    clean.open(site + "?paused&seed=5")
    before = clean.evaluate("for (let i = 0; i < 50; i++) await rl4jax.step(); return rl4jax.state();")
    pushed = clean.evaluate("rl4jax.push(1); return rl4jax.state();")
    assert pushed["theta_dot"] - before["theta_dot"] == pytest.approx(1, abs=0.1)
    assert pushed["x"] == before["x"]
    after = clean.evaluate("while (!rl4jax.player.end) await rl4jax.step(); return rl4jax.state();")
    assert after["terminated"] or after["return"] == 500

    after = clean.evaluate("await rl4jax.step(); rl4jax.push(-30); while (!rl4jax.player.end) await rl4jax.step(); return rl4jax.state();")
    assert after["terminated"]
    assert len(after["returns"]) == 2
    clean.do("wait", until="document.getElementById('history').childElementCount === 2")


def test_play_pause_step_and_speed_by_keyboard(clean, site):
    clean.open(site)
    clean.do("wait", until="rl4jax.state().t > 10")
    clean.do("press", key="Space")
    assert clean.evaluate("return document.getElementById('play').innerText;") == "Play"
    t = clean.evaluate("await new Promise((done) => setTimeout(done, 300)); return rl4jax.state().t;")
    clean.do("press", key="s")
    clean.do("wait", until=f"rl4jax.state().t === {t + 1}")
    theta_dot = clean.evaluate("return rl4jax.state().theta_dot;")
    clean.do("press", key="ArrowRight")
    assert clean.evaluate("return rl4jax.state().theta_dot;") > theta_dot + 0.5
    clean.do("press", key="n")
    assert clean.evaluate("return rl4jax.state().episode;") == 2
    clean.do("click", what="label:has-text('max')")
    clean.do("click", what="#play")
    clean.evaluate("rl4jax.push(30);")
    clean.do("wait", until="rl4jax.state().episode >= 3")


def test_keys_still_push_and_pause_after_a_click(clean, site):
    clean.open(site + "?paused&seed=1")
    clean.do("click", what="label:has-text('4×')")
    theta_dot = clean.evaluate("return rl4jax.state().theta_dot;")
    clean.do("press", key="ArrowRight")
    assert clean.evaluate("return rl4jax.state().theta_dot;") > theta_dot + 0.5
    assert clean.evaluate("return document.querySelector('[name=speed]:checked').value;") == "4"
    clean.do("click", what="#step")
    clean.do("wait", until="rl4jax.state().t === 1")
    clean.do("press", key="Space")
    assert clean.evaluate("return document.getElementById('play').innerText;") == "Pause"


HOLD = """
const hold = (key, times) => {
  for (let i = 0; i < times; i++) document.body.dispatchEvent(new KeyboardEvent("keydown", { key, repeat: i > 0, bubbles: true, cancelable: true }));
};
"""


def test_a_key_that_is_held_down_plays_once_and_pushes_now_and_then(clean, site):
    clean.open(site + "?paused&seed=1")
    episode, playing = clean.evaluate(
        HOLD + "hold('n', 10); hold(' ', 9); return [rl4jax.state().episode, document.getElementById('play').dataset.playing];"
    )
    assert (episode, playing) == (2, "true"), "ten times would be eleven episodes, nine times to pause"
    pushed = "const before = rl4jax.state().theta_dot; hold('ArrowRight', 10); return rl4jax.state().theta_dot - before;"
    assert clean.evaluate(HOLD + "rl4jax.pause();" + pushed) == pytest.approx(1, abs=0.2)
    later = "await new Promise((done) => setTimeout(done, 200)); hold('ArrowRight', 1);"
    later += "await new Promise((done) => setTimeout(done, 200)); document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', repeat: true, bubbles: true }));"
    assert clean.evaluate(HOLD + f"const first = rl4jax.state().theta_dot; {later} return rl4jax.state().theta_dot - first;") > 1.6


def test_keys_pressed_while_the_policy_thinks_wait_for_their_turn(clean, site):
    clean.open(site + "?paused&seed=1")
    slow = (
        "const { policy } = rl4jax, decide = policy.decide.bind(policy); window.asked = [];"
        "policy.decide = async (...given) => { window.asked.push(rl4jax.state().t); await new Promise((done) => setTimeout(done, 100)); return decide(...given); };"
        "for (let i = 0; i < 3; i++) document.getElementById('step').click();"
    )
    clean.evaluate(slow)
    clean.do("wait", until="rl4jax.state().t === 3")
    assert clean.evaluate("return window.asked;") == [0, 1, 2]


def test_a_single_step_that_fails_is_said(clean, site):
    clean.open(site + "?paused")
    clean.evaluate("rl4jax.policy.decide = async () => { throw new Error('the graphics card is gone'); };")
    clean.do("click", what="#step")
    clean.do("wait", until="document.body.dataset.state === 'failed'")
    assert "the graphics card is gone" in clean.evaluate("return document.getElementById('message').innerText;")


def test_what_has_the_focus_by_tab_keeps_its_own_keys(clean, site):
    clean.open(site + "?paused&seed=1")
    clean.evaluate("document.getElementById('play').focus();")
    clean.do("press", key="Tab")
    assert clean.evaluate("return document.activeElement.id;") == "step"
    clean.do("press", key="Space")
    clean.do("wait", until="rl4jax.state().t === 1")
    assert clean.evaluate("return [document.activeElement.id, document.getElementById('play').innerText];") == ["step", "Play"]
    theta_dot = clean.evaluate("document.querySelector('[name=speed]:checked').focus(); return rl4jax.state().theta_dot;")
    clean.do("press", key="ArrowRight")
    assert clean.evaluate("return document.activeElement.value;") == "4"
    assert clean.evaluate("return rl4jax.state().theta_dot;") == theta_dot


FRAME = "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"


def test_the_bar_of_the_chosen_action_is_the_blue_one_at_once(clean, site):
    clean.open(site + "?paused&seed=1")
    rows = clean.evaluate(
        "const rows = [], color = (row) => getComputedStyle(row.querySelector('i')).backgroundColor;"
        f"for (let i = 0; i < 20; i++) {{ await rl4jax.step(); {FRAME}"
        "  const bars = [...document.querySelectorAll('#bars .bar')];"
        "  rows.push([rl4jax.player.decision.action, bars.findIndex((row) => row.matches('.chosen')), ...bars.map(color)]);"
        "}"
        "return rows;"
    )
    blue = {row[2 + row[0]] for row in rows}
    others = {row[3 - row[0]] for row in rows}
    assert all(action == chosen for action, chosen, *_ in rows)
    assert {row[0] for row in rows} == {0, 1}
    assert len(blue) == len(others) == 1
    assert blue != others


def test_a_new_episode_shows_nothing_of_the_last(clean, site):
    look = (
        f"{FRAME} const bars = [...document.querySelectorAll('#bars .bar')], $ = (id) => document.getElementById(id);"
        "return { chosen: bars.filter((row) => row.matches('.chosen')).length, wide: bars.filter((row) => row.querySelector('i').clientWidth).length,"
        "  words: [...bars.map((row) => row.querySelector('.number').innerText), $('value').innerText],"
        "  line: $('spark').getAttribute('points'), return: $('return').innerText };"
    )
    clean.open(site + "?paused&seed=1")
    before = clean.evaluate("for (let i = 0; i < 5; i++) await rl4jax.step();" + look)
    assert (before["chosen"], before["return"], before["line"].count(",")) == (1, "5", 5)
    assert before["wide"] > 0
    clean.do("click", what="#again")
    assert clean.evaluate(look) == {"chosen": 0, "wide": 0, "words": ["–", "–", "–"], "line": "", "return": "0"}


def test_how_an_episode_ended_is_read_at_any_speed_but_not_after_new(clean, site):
    seen = f"{FRAME} return document.getElementById('flash').checkVisibility();"
    clean.open(site + "?paused&seed=1&speed=4")
    assert clean.evaluate("rl4jax.push(30); while (!rl4jax.player.end) await rl4jax.step();" + seen)
    clean.do("click", what="#again")
    assert not clean.evaluate(seen)
    until = "while (rl4jax.state().episode === 2) await new Promise((done) => requestAnimationFrame(done));"
    assert clean.evaluate(f"rl4jax.play(); rl4jax.push(30); {until} {seen}")


def test_the_value_has_a_meaning_and_a_scale(clean, site, trained):
    clean.open(site + "?paused&seed=1")
    meaning, least, most, values = clean.evaluate(
        f"for (let i = 0; i < 5; i++) await rl4jax.step(); {FRAME}"
        "return [...['value-meaning', 'least', 'most'].map((id) => document.getElementById(id).innerText), rl4jax.player.values];"
    )
    assert meaning == deploy.load(trained).config.get("value", "the value its critic gives")
    low, high = (float(words.replace("−", "-")) for words in (least, most))
    assert low < min(values) <= max(values) < high


def test_a_value_in_the_address_that_means_nothing_is_said(clean, site):
    look = (
        "return [document.getElementById('notice').innerText, document.querySelector('[name=speed]:checked').value,"
        " rl4jax.policy.engine.name];"
    )
    clean.open(site + "?paused&speed=9&engine=foo")
    notice, *rest = clean.evaluate(look)
    assert "engine = “foo” is not one of auto, wasm, webgpu" in notice
    assert "speed = “9” is not one of 0.25, 1, 4, max" in notice
    assert rest == ["1", "wasm"]
    clean.open(site + "?paused&speed=max&engine=wasm")
    assert clean.evaluate(look) == ["", "max", "wasm"]


def test_dragging_pulls_the_pole(clean, site):
    clean.open(site + "?paused&seed=1")
    start = clean.evaluate("rl4jax.play(); return rl4jax.state().x;")
    clean.do("drag", **{"from": [520, 300], "to": [900, 300]}, milliseconds=700)
    assert clean.evaluate("return rl4jax.player.target;") is None
    assert clean.evaluate("return rl4jax.state();")["x"] != start


SOME_EPISODES = """
for (const steps of [40, 15, 55, 30, 70]) {
  for (let i = 0; i < steps; i++) await rl4jax.step();
  rl4jax.push(30);
  while (!rl4jax.player.end) await rl4jax.step();
  await rl4jax.step();
}
for (let i = 0; i < 60; i++) {
  if (i === 50) rl4jax.push(1);
  await rl4jax.step();
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(390, 844), (1440, 900)])
def test_it_looks_right_on_phone_and_desktop(width, height, scheme, clean, site):
    clean.open(site + "?paused&seed=1", width=width, height=height, scheme=scheme)
    clean.evaluate(SOME_EPISODES)
    clean.do("wait", until="document.getElementById('history').childElementCount === 5 && rl4jax.state().t >= 60")
    wide, high, ground = clean.evaluate(
        "const { scrollWidth, scrollHeight } = document.documentElement;"
        "return [scrollWidth, scrollHeight, getComputedStyle(document.body).backgroundColor];"
    )
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    clean.do("screenshot", path=str(ARTEFACTS / f"cart-pole-{width}x{height}-{scheme}.png"), whole=False)
    assert wide == width, "nothing sticks out to the side"
    assert width < 600 or high == height, "a desktop shows all at once"
    assert (sum(map(int, ground[4:-1].split(","))) < 200) == (scheme == "dark")


def test_the_picture_follows_when_the_theme_changes(clean, site):
    clean.open(site + "?paused&seed=1", scheme="light")
    look = f"{FRAME} return document.getElementById('canvas').toDataURL();"
    light = clean.evaluate(look)
    clean.do("theme", scheme="dark")
    assert clean.evaluate(look) != light


SIZES = [(390, 844), (844, 390), (667, 375), (568, 320), (320, 640), (768, 1024), (1440, 900)]


def test_the_controls_are_in_reach_on_every_screen(clean, site):
    clean.open(site + "?paused&seed=1", width=390, height=844)
    clean.evaluate("await rl4jax.step();")
    for width, height in SIZES:
        clean.do("resize", width=width, height=height)
        look = clean.evaluate(
            f"{FRAME} const box = (what) => [...document.querySelectorAll(what)].map((found) => found.getBoundingClientRect().toJSON());"
            "return { wide: document.documentElement.scrollWidth, controls: box('button, .speed label'), icons: box('button svg'),"
            "  legend: box('legend')[0], screen: box('.screen')[0], return: box('#return')[0], aside: box('aside')[0], value: box('#value-card')[0] };"
        )
        size = f"{width}x{height}"
        assert look["wide"] == width, f"{size}: nothing sticks out to the side"
        assert len(look["controls"]) == 9
        for box in look["controls"]:
            assert 0 <= box["left"] < box["right"] <= width, f"{size}: {box}"
            assert 0 <= box["top"] < box["bottom"] <= height, f"{size}: {box}"
            assert min(box["width"], box["height"]) >= 43, f"{size}: {box} is for fingers"
        assert {round(box["width"]) for box in look["icons"]} == {15}, f"{size}: icons keep their size"
        assert look["screen"]["height"] > 150
        first = look["controls"][5]
        assert look["legend"]["right"] + 6 < first["left"] or look["legend"]["bottom"] <= first["top"], f"{size}: its name is apart"
        if (width, height) == (390, 844):
            assert look["return"]["bottom"] <= height, "the return is seen without scrolling"
        if width == 768:
            assert len({box["top"] for box in look["controls"]}) == 1, "all controls are in one row"
            assert look["value"]["width"] == look["aside"]["width"], "no hole beside the last card"


def test_a_finger_on_the_picture_scrolls_up_and_down_and_pulls_sideways(clean, site):
    clean.open(site + "?paused&seed=1", width=844, height=390)
    clean.evaluate(
        "window.pulls = 0; let target = null;"
        "Object.defineProperty(rl4jax.player, 'target', { get: () => target, set: (to) => { target = to; if (to) window.pulls += 1; } });"
    )
    clean.do("swipe", **{"from": [300, 100], "to": [500, 110]})
    assert clean.evaluate("return [window.pulls > 0, rl4jax.player.target, scrollY];") == [True, None, 0]
    clean.evaluate("window.pulls = 0;")
    clean.do("swipe", **{"from": [300, 300], "to": [300, 100]})
    clean.do("wait", until="scrollY > 100")
    assert clean.evaluate("return [window.pulls, rl4jax.player.target];") == [0, None]


def test_opened_as_a_file_it_says_what_to_do(browser, trained, tmp_path):
    folder = write_page(trained, tmp_path / "page")
    browser.open((folder / "index.html").as_uri())
    look = browser.evaluate(
        "const isSeen = (found) => found.checkVisibility({ visibilityProperty: true });"
        "const seen = (what) => [...document.querySelectorAll(what)].filter(isSeen);"
        "return { words: document.getElementById('cover').innerText, glyphs: seen('#play path').length, keys: seen('footer .keys').length,"
        "  enabled: document.querySelectorAll('button:enabled, input:enabled').length };"
    )
    assert "This page needs a web server" in look["words"]
    assert "python -m http.server" in look["words"]
    assert "Loading" not in look["words"]
    assert (look["glyphs"], look["keys"], look["enabled"]) == (1, 0, 0)


def test_a_page_without_one_of_its_scripts_says_so(browser, trained, tmp_path):
    folder = write_page(trained, tmp_path / "page")
    (folder / "numbers.js").unlink()
    with serve(folder) as url:
        browser.open(url)
        assert "main.js, or what it needs, cannot be loaded" in browser.evaluate("return document.getElementById('message').innerText;")


def test_a_page_without_its_policy_says_so(browser, trained, tmp_path):
    folder = write_page(trained, tmp_path / "page")
    (folder / "policy.onnx").unlink()
    with serve(folder) as url:
        browser.open(url)
        assert "policy.onnx cannot be loaded: 404" in browser.evaluate("return document.getElementById('message').innerText;")
        assert browser.evaluate("return document.querySelectorAll('button:enabled, input:enabled').length;") == 0
    shutil.rmtree(folder)


POLICIES = {
    "Pendulum": ({}, {"sample": True}),
    "MountainCar": ({"core": "lstm"}, {"sample": True}),
    "Acrobot": ({"core": "gru"}, {}),
    "GridWorld,size=5": ({}, {"masked": True, "sample": True}),
    "Catch,rows=8,columns=6": ({}, {}),
}


def test_a_page_shows_its_own_policy_where_another_was_before(clean, trained, tmp_path):
    page = write_page(trained, tmp_path / "page")
    about = page / "page.json"
    with serve(page) as url:
        clean.open(url + "?paused")
        assert clean.evaluate("return document.title;") == "PPO on CartPole"
        about.write_text(about.read_text().replace("PPO", "IMPALA"))
        os.utime(about, (1e9, 1e9))  # older than what was there: to the server it has not changed
        clean.open(url + "?paused")
        assert clean.evaluate("return document.title;") == "IMPALA on CartPole"


@pytest.mark.parametrize("env", POLICIES)
def test_every_environment_is_played_as_in_python(env, clean, tmp_path):
    """What the policy says, step after step, with its memory: but for chance, what Python says of the same observations."""
    network, options = POLICIES[env]
    name, _, rest = env.partition(",")
    fields = {field: int(value) for field, value in (part.split("=") for part in rest.split(",") if part)}
    games = rl.VecEnv(rl.envs.make(name, **fields), num_envs=1)
    model = rl.nn.ActorCritic(games, key=jax.random.key(0), **network)
    bundle = deploy.export(model, games, tmp_path / "bundle", about={"algorithm": "ppo", "env": env}, **options)
    with serve(write_page(bundle, tmp_path / "page")) as url:
        clean.open(url + "?paused&seed=2")
        steps = clean.evaluate(
            "const { player, env } = rl4jax, steps = [];"
            "for (let i = 0; i < 30; i++) {"
            "  const obs = env.observe(player.state), mask = env.mask?.(player.state) ?? null, isFirst = player.state.t === 0;"
            "  await rl4jax.step();"
            "  steps.push({ obs, mask, isFirst, said: player.decision.said });"
            "  if (player.end) await rl4jax.step();"
            "}"
            "return steps;"
        )
        shown = clean.evaluate(
            f"if (!rl4jax.player.decision) await rl4jax.step(); {FRAME}"
            "return { state: document.body.dataset.state, mask: rl4jax.player.decision.mask ?? [],"
            "  bars: [...document.querySelectorAll('#bars .bar')].map((row) => row.innerText) };"
        )
        assert shown["state"] == "ready"
        assert ["not allowed" in words for words in shown["bars"]][: len(shown["mask"])] == [not allowed for allowed in shown["mask"]]
        assert any(words.startswith("mean") for words in shown["bars"]) == (env == "Pendulum"), "what is drawn is not the mean"

    policy, carry = deploy.load(bundle), None
    leaf = policy.config["observation_space"]
    for step in steps:
        obs = np.array(step["obs"], leaf["dtype"]).reshape(leaf["shape"])
        ours = policy.outputs(obs, None if step["isFirst"] else carry, step["mask"])
        carry = ours["carry"]
        for output in {"logits", "mean", "value"} & set(ours):
            assert np.allclose(step["said"][output], ours[output], rtol=1e-4, atol=CLOSE), output
        if step["mask"]:
            assert step["mask"][int(step["said"]["action"][0])]


def test_a_greedy_policy_shows_its_action_once_and_a_real_minus(clean, tmp_path):
    games = rl.VecEnv(rl.envs.Pendulum(), num_envs=1)
    model = rl.nn.ActorCritic(games, key=jax.random.key(0))
    about = {"algorithm": "ppo", "env": "Pendulum", "evaluation": {"mean": -1139.2, "std": 213.4, "episodes": 100}}
    with serve(write_page(deploy.export(model, games, tmp_path / "bundle", about=about), tmp_path / "page")) as url:
        clean.open(url + "?paused")
        clean.evaluate(f"await rl4jax.step(); {FRAME}")
        assert clean.evaluate("return [...document.querySelectorAll('#bars dt')].map((name) => name.innerText);") == ["torque"]
        assert "return −1139 ± 213 over" in clean.evaluate("return document.getElementById('subtitle').innerText;")
        assert clean.evaluate("return document.getElementById('return').innerText;").startswith("−")
        assert clean.evaluate("return document.getElementById('value-meaning').innerText;") == "the value its critic gives"


def test_the_value_of_a_clone_is_not_shown(clean, tmp_path):
    games = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    about = {"algorithm": "bc", "env": "CartPole", "value": "nothing: cloning teaches no critic"}
    bundle = deploy.export(rl.nn.ActorCritic(games, key=jax.random.key(0)), games, tmp_path / "bundle", about=about)
    with serve(write_page(bundle, tmp_path / "page")) as url:
        clean.open(url + "?paused")
        clean.evaluate(f"await rl4jax.step(); {FRAME}")
        look = (
            "return [document.title, document.getElementById('title').innerText, document.getElementById('value-card').checkVisibility()];"
        )
        assert clean.evaluate(look) == ["Behavioral cloning on CartPole"] * 2 + [False]


def test_q_values_are_shown(clean, tmp_path):
    games = rl.VecEnv(rl.envs.CartPole(), num_envs=1)
    model = rl.nn.QPolicy(rl.nn.QNetwork(games, key=jax.random.key(0)), jnp.zeros(()))
    bundle = deploy.export(model, games, tmp_path / "bundle", about={"algorithm": "dqn", "env": "CartPole"})
    with serve(write_page(bundle, tmp_path / "page")) as url:
        clean.open(url + "?paused")
        clean.evaluate("await rl4jax.step();")
        clean.do("wait", until="/[0-9]/.test(document.querySelector('#bars .number').innerText)")
        assert "value of each action" in clean.evaluate("return document.getElementById('policy-card').innerText;")


def test_webgpu_computes_what_python_does(site, trained, tmp_path):
    """On a GPU of software: slow, but WebGPU."""
    obs = np.random.default_rng(1).uniform(-0.2, 0.2, (20, 4)).astype(np.float32)
    ours = deploy.load(trained).outputs(obs)
    with Browser(tmp_path, *SOFTWARE_GPU) as browser:
        browser.open(site + "?paused&engine=webgpu")
        assert browser.evaluate("return rl4jax.policy.engine.name;") == "webgpu"
        script = "const said = []; for (const obs of given) said.push((await rl4jax.policy.outputs(obs)).logits); return said;"
        logits = np.array(browser.evaluate(script, obs.tolist()))
    error = float(np.abs(logits - ours["logits"]).max())
    record(max_logit_error_webgpu=error)
    assert error < 1e-3
