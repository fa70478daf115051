import { clip, setFields } from "./fields.js";

const DEFAULTS = {
  gravity: 0.0025, force: 0.001, max_speed: 0.07, min_position: -1.2, max_position: 0.6,
  goal_position: 0.5, goal_velocity: 0.0, min_start: -0.6, max_start: -0.4, max_steps: 200,
};

const height = (x) => 0.45 * Math.sin(3 * x) + 0.55;

/** rl4jax/envs/mountain_car.py: swing back to gain speed for the hill. The state has position, velocity, t. */
export class MountainCar {
  actions = ["left", "coast", "right"];
  grip = "the car";
  rate = 30;
  pull = 0.15;
  most = 0.15;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    this.view = [this.min_position - 0.02, -0.02, this.max_position + 0.08, 1.32];
  }

  reset(random) {
    return { position: random.between(this.min_start, this.max_start), velocity: 0, t: 0 };
  }

  step({ position, velocity, t }, action) {
    const faster = velocity + (action - 1) * this.force - this.gravity * Math.cos(3 * position);
    velocity = clip(faster, -this.max_speed, this.max_speed);
    position = clip(position + velocity, this.min_position, this.max_position);
    if (position <= this.min_position && velocity < 0) velocity = 0;
    const terminated = position >= this.goal_position && velocity >= this.goal_velocity;
    return { state: { position, velocity, t: t + 1 }, reward: -1, terminated, truncated: t + 1 >= this.max_steps };
  }

  observe({ position, velocity }) {
    return [position, velocity];
  }

  handle({ position }) {
    return [position, height(position) + 0.05];
  }

  /** A shove along the slope: at 1 a fifth of the highest speed. */
  push(state, [force]) {
    return { ...state, velocity: clip(state.velocity + 0.2 * force * this.max_speed, -this.max_speed, this.max_speed) };
  }

  says({ terminated }) {
    return terminated ? "On top of the hill" : "The time is over";
  }

  draw(canvas, { position }, act) {
    const slope = [];
    for (let i = 0; i <= 160; i++) {
      const x = canvas.left + ((canvas.right - canvas.left) * i) / 160;
      slope.push([x, height(x)]);
    }
    canvas.polygon([[canvas.left, canvas.bottom], ...slope, [canvas.right, canvas.bottom]], "ground");
    canvas.line(slope, "muted", 0.009);
    const goal = this.goal_position;
    const flag = height(goal) + 0.2;
    canvas.line([[goal, height(goal)], [goal, flag]], "ink", 0.01);
    canvas.polygon([[goal, flag], [goal + 0.1, flag - 0.035], [goal, flag - 0.07]], "green");
    const wall = this.min_position - 0.005;
    canvas.line([[wall, height(wall)], [wall, height(wall) + 0.12]], "muted", 0.012);

    // The car stands on its wheels, turned to the slope: the derivative of height is 1.35 cos(3 x).
    const angle = Math.atan(1.35 * Math.cos(3 * position));
    const at = ([x, y]) => [
      position + Math.cos(angle) * x - Math.sin(angle) * y,
      height(position) + Math.sin(angle) * x + Math.cos(angle) * y,
    ];
    const way = act ? act.action - 1 : 0;
    if (way) canvas.arrow(at([0.1 * way, 0.055]), at([(0.13 + 0.07 * act.strength) * way, 0.055]), "orange", 0.014);
    canvas.polygon([[-0.075, 0.028], [0.075, 0.028], [0.07, 0.06], [0.035, 0.066], [0.02, 0.095], [-0.045, 0.095], [-0.068, 0.062]].map(at), "blue");
    for (const wheel of [[-0.042, 0.024], [0.042, 0.024]]) {
      canvas.circle(at(wheel), 0.024, "ink");
      canvas.circle(at(wheel), 0.01, "muted");
    }
  }
}
