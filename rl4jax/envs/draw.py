"""Small pictures with Pillow: a canvas in world units, and boards of square cells. Host side only."""

import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont

Real = float | int
Point = tuple[Real, Real]

PAPER = "#fafaf7"
INK = "#2b2d33"
MUTED = "#8a8f99"
LINE = "#d5d8de"
CELL = "#eceef2"
BLUE = "#3b6fd6"
ORANGE = "#e8833a"
GREEN = "#35a06f"
RED = "#d64550"
YELLOW = "#edc343"
PURPLE = "#8d5fc4"
CYAN = "#2fa9b8"
SYMBOLS = (BLUE, ORANGE, GREEN, PURPLE, RED, YELLOW, CYAN, MUTED)

OVERSAMPLE = 3  # drawn so many times too large, and shrunk at the end: that smooths the edges
MARGIN, HEADER = 16, 40  # around a board, and above it for the text; pixels


class Canvas:
    """A picture to draw on in world units: x to the right, y upwards, `origin` in pixels from the top left corner.

    Lengths (radii, line widths) are in world units too; only the size of text is in pixels.
    """

    def __init__(self, width: int, height: int, *, origin: Point, scale: Real):
        self.image = Image.new("RGB", (width * OVERSAMPLE, height * OVERSAMPLE), PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.origin = (origin[0] * OVERSAMPLE, origin[1] * OVERSAMPLE)
        self.scale = scale * OVERSAMPLE

    def to_pixel(self, point: Point) -> Point:
        return self.origin[0] + point[0] * self.scale, self.origin[1] - point[1] * self.scale

    def polygon(self, points: Sequence[Point], fill: str) -> None:
        self.draw.polygon([self.to_pixel(point) for point in points], fill=fill)

    def line(self, points: Sequence[Point], fill: str, width: Real) -> None:
        """A thick line with round corners and round ends."""
        thick = max(1, round(width * self.scale))
        self.draw.line([self.to_pixel(point) for point in points], fill=fill, width=thick, joint="curve")
        for end in (points[0], points[-1]):
            self.circle(end, width / 2, fill)

    def circle(self, center: Point, radius: Real, fill: str) -> None:
        x, y = self.to_pixel(center)
        r = radius * self.scale
        self.draw.ellipse((x - r, y - r, x + r, y + r), fill=fill)

    def box(self, low: Point, high: Point, fill: str, round_by: Real = 0) -> None:
        """A rectangle between two opposite corners, its own corners rounded by a radius."""
        (left, bottom), (right, top) = self.to_pixel(low), self.to_pixel(high)
        self.draw.rounded_rectangle((left, top, right, bottom), radius=round_by * self.scale, fill=fill)

    def text(self, point: Point, words: str, *, size: int = 15, fill: str = MUTED, anchor: str = "mm") -> None:
        """Words at a point; the anchor is Pillow's: "mm" is their middle, "ls" the left end of their baseline."""
        self.draw.text(self.to_pixel(point), words, font=font(size * OVERSAMPLE), fill=fill, anchor=anchor)

    def caption(self, words: str) -> None:
        """Words at the top left, at the same pixels in every picture."""
        self.draw.text((MARGIN * OVERSAMPLE, 26 * OVERSAMPLE), words, font=font(15 * OVERSAMPLE), fill=MUTED, anchor="ls")

    def pixels(self) -> UInt8[np.ndarray, "H W 3"]:
        return np.array(self.image.reduce(OVERSAMPLE))


@functools.cache
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font, so that no font file is needed."""
    return ImageFont.load_default(size)


def board(rows: int, columns: int, *, cell: int, footer: int = 0) -> Canvas:
    """An empty board whose unit is one cell of `cell` pixels; `middle(row, column)` is where a cell is."""
    width, height = columns * cell + 2 * MARGIN, HEADER + rows * cell + footer + MARGIN
    canvas = Canvas(width, height, origin=(MARGIN, HEADER), scale=cell)
    for row in range(rows):
        for column in range(columns):
            tile(canvas, row, column, CELL)
    return canvas


def middle(row: int, column: int) -> Point:
    return column + 0.5, -row - 0.5


def tile(canvas: Canvas, row: int, column: int, fill: str, inset: Real = 0.04) -> None:
    """Fill one cell of a board, but for a thin gap to its neighbours."""
    canvas.box((column + inset, -row - 1 + inset), (column + 1 - inset, -row - inset), fill, round_by=0.12)


def star(canvas: Canvas, center: Point, radius: Real, fill: str) -> None:
    angles = np.pi / 2 + np.arange(10) * np.pi / 5
    radii = np.where(np.arange(10) % 2 == 0, radius, 0.42 * radius)
    xs, ys = center[0] + radii * np.cos(angles), center[1] + radii * np.sin(angles)
    canvas.polygon(list(zip(xs.tolist(), ys.tolist(), strict=True)), fill)


def turned(points: Sequence[Point], angle: float, center: Point) -> list[Point]:
    """Points around the origin, turned counter-clockwise and moved to a centre."""
    cos, sin = float(np.cos(angle)), float(np.sin(angle))
    return [(center[0] + cos * x - sin * y, center[1] + sin * x + cos * y) for x, y in points]
