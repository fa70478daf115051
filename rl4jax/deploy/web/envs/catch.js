import { drawBoard, middle } from "./board.js";
import { clip, setFields } from "./fields.js";

const DEFAULTS = { rows: 10, columns: 5 };

/** rl4jax/envs/catch.py: move a paddle under a falling ball. The state has ball and paddle (their columns) and t, the ball's row. */
export class Catch {
  actions = ["left", "stay", "right"];
  grip = "the ball";
  rate = 6;
  pull = 1;
  most = 1;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    this.view = [-0.3, -this.rows - 0.3, this.columns + 0.3, 0.3];
  }

  reset(random) {
    return { ball: random.below(this.columns), paddle: Math.floor(this.columns / 2), t: 0 };
  }

  step({ ball, paddle, t }, action) {
    paddle = clip(paddle + action - 1, 0, this.columns - 1);
    const terminated = t + 1 >= this.rows - 1;
    const reward = terminated ? (ball === paddle ? 1 : -1) : 0;
    return { state: { ball, paddle, t: t + 1 }, reward, terminated, truncated: false };
  }

  observe({ ball, paddle, t }) {
    const pixels = new Array(this.rows * this.columns).fill(0);
    if (t < this.rows) pixels[t * this.columns + ball] = 255;
    pixels[(this.rows - 1) * this.columns + paddle] = 255;
    return pixels;
  }

  handle({ ball, t }) {
    return middle(t, ball);
  }

  /** Wind: the ball is blown to the next column. */
  push(state, [x]) {
    return { ...state, ball: clip(state.ball + Math.round(x), 0, this.columns - 1) };
  }

  says(_, { ball, paddle }) {
    return ball === paddle ? "Caught" : "Missed";
  }

  draw(canvas, { ball, paddle, t }) {
    drawBoard(canvas, this.rows, this.columns);
    canvas.box([paddle + 0.06, 0.1 - this.rows], [paddle + 0.94, 0.38 - this.rows], "blue", 0.13);
    canvas.circle(middle(t, ball), 0.3, "orange");
  }
}
