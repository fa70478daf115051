import { clip, setFields } from "./fields.js";

const DEFAULTS = { gravity: 10.0, mass: 1.0, length: 1.0, dt: 0.05, max_speed: 8.0, max_torque: 2.0, max_steps: 200 };

/** rl4jax/envs/pendulum.py: swing up and hold. The state has theta (counter-clockwise from upright), theta_dot, t. */
export class Pendulum {
  torque = "torque";
  grip = "the tip";
  pull = 0.35;
  most = 0.5;
  angles = ["theta"];
  trail = true;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    this.rate = 1 / this.dt;
    this.view = [-1.4 * this.length, -1.4 * this.length, 1.4 * this.length, 1.4 * this.length];
  }

  reset(random) {
    return { theta: random.between(-Math.PI, Math.PI), theta_dot: random.between(-1, 1), t: 0 };
  }

  step({ theta, theta_dot, t }, action) {
    const torque = clip(action[0], -this.max_torque, this.max_torque);
    const turn = 2 * Math.PI;
    const angle = ((((theta + Math.PI) % turn) + turn) % turn) - Math.PI; // % of JavaScript keeps the sign
    const cost = angle ** 2 + 0.1 * theta_dot ** 2 + 0.001 * torque ** 2;
    const acceleration = ((1.5 * this.gravity) / this.length) * Math.sin(theta) + (3 / (this.mass * this.length ** 2)) * torque;
    const speed = clip(theta_dot + this.dt * acceleration, -this.max_speed, this.max_speed);
    const state = { theta: theta + this.dt * speed, theta_dot: speed, t: t + 1 };
    return { state, reward: -cost, terminated: false, truncated: state.t >= this.max_steps };
  }

  observe({ theta, theta_dot }) {
    return [Math.cos(theta), Math.sin(theta), theta_dot];
  }

  handle({ theta }) {
    return [-this.length * Math.sin(theta), this.length * Math.cos(theta)];
  }

  /** A blow to the tip: at 1, and across the pole, it changes the speed by two radians per second. */
  push(state, [x, y]) {
    const across = -x * Math.cos(state.theta) - y * Math.sin(state.theta);
    return { ...state, theta_dot: clip(state.theta_dot + 2 * across, -this.max_speed, this.max_speed) };
  }

  says(_, state) {
    return Math.cos(state.theta) > 0.95 ? "Held upright to the end" : "The time is over";
  }

  draw(canvas, state, act) {
    const { length } = this;
    canvas.ring([0, 0], 1.2 * length, "line", 0.015 * length);
    for (let i = 0; i < 24; i++) {
      const [sin, cos] = [Math.sin((i * Math.PI) / 12), Math.cos((i * Math.PI) / 12)];
      const inner = i % 6 === 0 ? 1.13 : 1.16;
      canvas.line([[inner * length * sin, inner * length * cos], [1.2 * length * sin, 1.2 * length * cos]], "line", 0.012 * length);
    }
    canvas.line([[0, 1.12 * length], [0, 1.28 * length]], "green", 0.05 * length); // upright: the goal
    canvas.line([[0, 0], this.handle(state)], "red", 0.15 * length);
    if (act) canvas.turn([0, 0], 0.3 * length, (act.action[0] / this.max_torque) * 2.6, "blue", 0.035 * length);
    canvas.circle([0, 0], 0.055 * length, "paper");
  }
}
