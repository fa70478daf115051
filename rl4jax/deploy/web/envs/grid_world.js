import { drawBoard, middle } from "./board.js";
import { clip, setFields } from "./fields.js";

const DEFAULTS = { size: 7, goal_reward: 1.0, step_reward: -0.01, max_steps: 100 };
const MOVES = [[-1, 0], [0, 1], [1, 0], [0, -1]]; // rows and columns: up, right, down, left

/** rl4jax/envs/grid_world.py: walk to the last corner. The state has row, column, t. */
export class GridWorld {
  actions = ["up", "right", "down", "left"];
  grip = "the walker";
  rate = 4;
  pull = 1;
  most = 1;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    this.view = [-0.3, -this.size - 0.3, this.size + 0.3, 0.3];
  }

  reset(random) {
    const cell = random.below(this.size ** 2 - 1); // any but the last, which is the goal
    return { row: Math.floor(cell / this.size), column: cell % this.size, t: 0 };
  }

  step({ row, column, t }, action) {
    const last = this.size - 1;
    row = clip(row + MOVES[action][0], 0, last);
    column = clip(column + MOVES[action][1], 0, last);
    const terminated = row === last && column === last;
    const reward = terminated ? this.goal_reward : this.step_reward;
    return { state: { row, column, t: t + 1 }, reward, terminated, truncated: t + 1 >= this.max_steps };
  }

  mask({ row, column }) {
    const last = this.size - 1;
    return [row > 0, column < last, row < last, column > 0];
  }

  observe({ row, column }) {
    const goal = this.size - 1;
    return [row, column, goal, goal].map((x) => x / this.size);
  }

  handle({ row, column }) {
    return middle(row, column);
  }

  /** Carried by one cell, but not onto the goal: that would end the episode without a step. */
  push(state, [x, y]) {
    const last = this.size - 1;
    const sideways = Math.abs(x) >= Math.abs(y);
    const row = clip(state.row - (sideways ? 0 : Math.round(y)), 0, last);
    const column = clip(state.column + (sideways ? Math.round(x) : 0), 0, last);
    return row === last && column === last ? state : { ...state, row, column };
  }

  says({ terminated }) {
    return terminated ? "At the goal" : "The time is over";
  }

  draw(canvas, { row, column }, act) {
    drawBoard(canvas, this.size, this.size);
    canvas.star(middle(this.size - 1, this.size - 1), 0.36, "green");
    const [x, y] = middle(row, column);
    if (act) {
      const [down, right] = MOVES[act.action];
      canvas.arrow([x + 0.34 * right, y - 0.34 * down], [x + 0.56 * right, y - 0.56 * down], "orange", 0.08);
    }
    canvas.circle([x, y], 0.3, "blue");
  }
}
