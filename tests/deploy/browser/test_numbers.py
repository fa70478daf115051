"""Numbers and options of the page, in Node.js: what it prints is what the command line prints."""

# ruff: noqa: RUF001  real minus signs, as on the page
import json

from rl4jax.core.figures import plus_minus
from rl4jax.deploy import web
from tests.deploy.browser.node import run_script


def call(file, function, cases):
    """What a function of the page gives for each list of arguments."""
    script = f"import {{ {function} as call }} from {json.dumps((web.ASSETS / file).as_uri())};"
    script += f"console.log(JSON.stringify({json.dumps(cases)}.map((args) => call(...args))));"
    return run_script("--input-type=module", "-e", script)


def test_a_score_reads_as_on_the_command_line():
    scores = [(-1139.2, 213.4), (498.27, 11.61), (500.0, 0.0), (0.92, 0.392), (-0.0001, 0.001), (0.0, 0.0), (12345.6, 3.3), (-84.6, 120.3)]
    said = call("numbers.js", "plusMinus", scores)
    assert [words.replace("−", "-") for words in said] == [plus_minus(*score) for score in scores]
    assert said[0] == "−1139 ± 213"


def test_a_number_has_few_digits_and_a_real_minus():
    numbers = [(-598, True), (-3, False), (-0.001, False), (0.5, True), (None, True)]
    assert call("numbers.js", "show", numbers) == ["−598.0", "−3", "0.00", "0.50", "–"]


def test_a_scale_is_round_and_holds_all():
    ranges = [(93.2, 98.7), (70, 70), (-0.16, 0.41), (-1240, -3), (0.0009, 0.0009)]
    scales = call("numbers.js", "scale", ranges)
    for (low, high), scale in zip(ranges, scales, strict=True):
        assert scale["bottom"] <= low <= high <= scale["top"]
        assert scale["bottom"] < scale["top"]
    assert [scale["words"] for scale in scales] == [["92", "100"], ["69", "71"], ["−0.2", "0.6"], ["−1500", "0"], ["−0.02", "0.03"]]


def test_a_value_in_the_address_that_means_nothing_is_said():
    usual = {"engine": "auto", "speed": "1", "isPaused": False, "wrong": []}
    expected = {
        "": {},
        "?utm_source=mail": {},
        "?engine=wasm&speed=max&seed=7&paused": {"engine": "wasm", "speed": "max", "seed": 7, "isPaused": True},
        "?speed=9": {"wrong": ["speed = “9” is not one of 0.25, 1, 4, max; 1 is used."]},
        "?engine=foo": {"wrong": ["engine = “foo” is not one of auto, wasm, webgpu; auto is used."]},
        "?seed=x": {"wrong": ["seed = “x” is not a whole number of up to nine digits; one is drawn."]},
    }
    options = call("options.js", "readOptions", [(search, ["0.25", "1", "4", "max"]) for search in expected])
    assert options == [usual | changes for changes in expected.values()]
