"""Draw docs/images/gallery.png: every built-in environment after some random steps. Run it from anywhere, without arguments."""

from pathlib import Path

import jax
import numpy as np
from PIL import Image, ImageDraw, ImageFont

import rl4jax as rl  # before jax: it makes CPU runs safe

COLUMNS, CELL, CAPTION, GAP = 5, (200, 150), 22, 12
NUM_STEPS = {"Acrobot": 40, "MountainCar": 60, "MountainCarContinuous": 60, "Pendulum": 20, "Memory": 6, "Catch": 4}  # others: 8


def picture(name: str) -> np.ndarray:
    env = rl.make(name)
    if name.startswith("Probe"):  # one step long: show the start
        return env.render(env.reset(jax.random.key(3))[0])
    return rl.record(env, rl.random_act(env.action_space), key=jax.random.key(3), max_steps=NUM_STEPS.get(name, 8))[-1]


def gallery() -> Image.Image:
    rows = -(-len(rl.envs.BUILT_IN) // COLUMNS)
    width, height = CELL[0] + GAP, CELL[1] + CAPTION + GAP
    sheet = Image.new("RGB", (COLUMNS * width + GAP, rows * height + GAP), "white")
    for i, name in enumerate(rl.envs.BUILT_IN):
        image = Image.fromarray(picture(name))
        image.thumbnail(CELL, Image.Resampling.LANCZOS)
        left, top = GAP + i % COLUMNS * width, GAP + i // COLUMNS * height
        cell = Image.new("RGB", CELL, "#fafaf7")
        cell.paste(image, ((CELL[0] - image.width) // 2, (CELL[1] - image.height) // 2))
        sheet.paste(cell, (left, top))
        middle = (left + CELL[0] // 2, top + CELL[1] + CAPTION // 2 + 2)
        ImageDraw.Draw(sheet).text(middle, name, fill="#2b2d33", font=ImageFont.load_default(14), anchor="mm")
    return sheet.quantize(256)


if __name__ == "__main__":
    path = Path(__file__).parent / "images" / "gallery.png"
    path.parent.mkdir(exist_ok=True)
    gallery().save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
