import { clip, kick, setFields } from "./fields.js";

const DEFAULTS = {
  gravity: 9.8, torque: 1.0, length_1: 1.0, length_2: 1.0, mass_1: 1.0, mass_2: 1.0, center_1: 0.5, center_2: 0.5,
  inertia: 1.0, dt: 0.2, max_speed_1: 4 * Math.PI, max_speed_2: 9 * Math.PI, goal_height: 1.0, start_range: 0.1, max_steps: 500,
};

const plus = (y, scale, k) => y.map((x, i) => x + scale * k[i]);
const wrap = (angle) => angle - 2 * Math.PI * Math.round(angle / (2 * Math.PI));

/** rl4jax/envs/acrobot.py: swing the tip above a line. The state has theta_1 (from hanging), theta_2 (to the first link), their speeds, t. */
export class Acrobot {
  actions = ["turn ↻", "none", "turn ↺"];
  grip = "the tip";
  rate = 15; // three times real time, as Gymnasium shows it
  pull = 0.35;
  most = 0.5;
  angles = ["theta_1", "theta_2"];
  trail = true;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    const reach = 1.15 * (this.length_1 + this.length_2);
    this.view = [-reach, -reach, reach, reach];
  }

  reset(random) {
    const number = () => random.between(-this.start_range, this.start_range);
    return { theta_1: number(), theta_2: number(), theta_1_dot: number(), theta_2_dot: number(), t: 0 };
  }

  step(state, action) {
    const torque = (action - 1) * this.torque;
    const y = [state.theta_1, state.theta_2, state.theta_1_dot, state.theta_2_dot];
    const k1 = this.derivative(y, torque);
    const k2 = this.derivative(plus(y, this.dt / 2, k1), torque);
    const k3 = this.derivative(plus(y, this.dt / 2, k2), torque);
    const k4 = this.derivative(plus(y, this.dt, k3), torque);
    const end = y.map((x, i) => x + (this.dt / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]));
    const next = {
      theta_1: wrap(end[0]),
      theta_2: wrap(end[1]),
      theta_1_dot: clip(end[2], -this.max_speed_1, this.max_speed_1),
      theta_2_dot: clip(end[3], -this.max_speed_2, this.max_speed_2),
      t: state.t + 1,
    };
    const terminated = this.handle(next)[1] > this.goal_height;
    return { state: next, reward: terminated ? 0 : -1, terminated, truncated: next.t >= this.max_steps };
  }

  derivative([theta_1, theta_2, speed_1, speed_2], torque) {
    const [a, b, c] = this.masses(theta_2);
    const coupling = this.mass_2 * this.length_1 * this.center_2;
    const sin = Math.sin(theta_2);
    const phi_2 = this.mass_2 * this.center_2 * this.gravity * Math.sin(theta_1 + theta_2);
    const pull_1 = (this.mass_1 * this.center_1 + this.mass_2 * this.length_1) * this.gravity * Math.sin(theta_1);
    const phi_1 = pull_1 + phi_2 - coupling * speed_2 * (speed_2 + 2 * speed_1) * sin;
    const acc_2 = (torque + (b / a) * phi_1 - coupling * speed_1 ** 2 * sin - phi_2) / (c - b ** 2 / a);
    return [speed_1, speed_2, -(b * acc_2 + phi_1) / a, acc_2];
  }

  /** The mass matrix [[a, b], [b, c]]. */
  masses(theta_2) {
    const coupled = this.mass_2 * this.length_1 * this.center_2 * Math.cos(theta_2);
    const second = this.mass_2 * this.center_2 ** 2 + this.inertia;
    const first = this.mass_1 * this.center_1 ** 2 + this.mass_2 * this.length_1 ** 2 + this.inertia;
    return [first + second + 2 * coupled, second + coupled, second];
  }

  observe({ theta_1, theta_2, theta_1_dot, theta_2_dot }) {
    return [Math.cos(theta_1), Math.sin(theta_1), Math.cos(theta_2), Math.sin(theta_2), theta_1_dot, theta_2_dot];
  }

  elbow({ theta_1 }) {
    return [this.length_1 * Math.sin(theta_1), -this.length_1 * Math.cos(theta_1)];
  }

  handle(state) {
    const [[x, y], angle] = [this.elbow(state), state.theta_1 + state.theta_2];
    return [x + this.length_2 * Math.sin(angle), y - this.length_2 * Math.cos(angle)];
  }

  /** A blow of one newton second to the tip. */
  push(state, [x, y]) {
    const [[elbow_x, elbow_y], [tip_x, tip_y]] = [this.elbow(state), this.handle(state)];
    const [first, second] = [-tip_y * x + tip_x * y, -(tip_y - elbow_y) * x + (tip_x - elbow_x) * y];
    const [one, two] = kick(...this.masses(state.theta_2), [first, second]);
    return {
      ...state,
      theta_1_dot: clip(state.theta_1_dot + one, -this.max_speed_1, this.max_speed_1),
      theta_2_dot: clip(state.theta_2_dot + two, -this.max_speed_2, this.max_speed_2),
    };
  }

  says({ terminated }) {
    return terminated ? "The tip is above the line" : "The time is over";
  }

  draw(canvas, state, act) {
    const reach = this.length_1 + this.length_2;
    const [elbow, tip, goal] = [this.elbow(state), this.handle(state), this.goal_height];
    canvas.box([canvas.left, goal], [canvas.right, canvas.top], "goal");
    canvas.dashes([canvas.left, goal], [canvas.right, goal], "green", 0.012 * reach);
    canvas.line([[0, 0], elbow], "blue", 0.075 * reach);
    canvas.line([elbow, tip], "cyan", 0.075 * reach);
    if (act && act.action !== 1) canvas.turn(elbow, 0.13 * reach, (act.action - 1) * (0.8 + 1.4 * act.strength), "orange", 0.022 * reach);
    for (const joint of [[0, 0], elbow]) canvas.circle(joint, 0.02 * reach, "paper");
  }
}
