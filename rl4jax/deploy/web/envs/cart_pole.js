import { kick, setFields } from "./fields.js";

const DEFAULTS = {
  gravity: 9.8, cart_mass: 1.0, pole_mass: 0.1, half_length: 0.5, force: 10.0, dt: 0.02,
  x_limit: 2.4, theta_limit: (12 * Math.PI) / 180, start_range: 0.05, max_steps: 500,
};

/** rl4jax/envs/cart_pole.py: keep a pole upright on a cart. The state has x, x_dot, theta (clockwise from upright), theta_dot, t. */
export class CartPole {
  actions = ["left", "right"];
  grip = "the pole";
  pull = 0.16; // of a drag, on each step and per metre
  most = 0.24;

  constructor(fields = {}) {
    setFields(this, DEFAULTS, fields);
    this.rate = 1 / this.dt;
    this.view = [-1.1 * this.x_limit, -0.5, 1.1 * this.x_limit, 2 * this.half_length + 0.75];
  }

  reset(random) {
    const number = () => random.between(-this.start_range, this.start_range);
    return { x: number(), x_dot: number(), theta: number(), theta_dot: number(), t: 0 };
  }

  step({ x, x_dot, theta, theta_dot, t }, action) {
    const [sin, cos] = [Math.sin(theta), Math.cos(theta)];
    const total = this.cart_mass + this.pole_mass;
    const moment = this.pole_mass * this.half_length;
    const push = ((action === 1 ? this.force : -this.force) + moment * theta_dot ** 2 * sin) / total;
    const theta_acc = (this.gravity * sin - cos * push) / (this.half_length * (4 / 3 - (this.pole_mass * cos ** 2) / total));
    const x_acc = push - (moment * theta_acc * cos) / total;
    const state = {
      x: x + this.dt * x_dot,
      x_dot: x_dot + this.dt * x_acc,
      theta: theta + this.dt * theta_dot,
      theta_dot: theta_dot + this.dt * theta_acc,
      t: t + 1,
    };
    const terminated = Math.abs(state.x) > this.x_limit || Math.abs(state.theta) > this.theta_limit;
    return { state, reward: 1, terminated, truncated: state.t >= this.max_steps };
  }

  observe(state) {
    return [state.x, state.x_dot, state.theta, state.theta_dot];
  }

  handle({ x, theta }) {
    return [x + 2 * this.half_length * Math.sin(theta), 0.36 + 2 * this.half_length * Math.cos(theta)];
  }

  /** A sideways blow to the tip of the pole: at 1 it gains about one radian per second. */
  push(state, [force]) {
    const [length, impulse] = [this.half_length, 0.033 * force];
    const moment = this.pole_mass * length;
    const cos = Math.cos(state.theta);
    const [x, theta] = kick(
      this.cart_mass + this.pole_mass, moment * cos, (4 / 3) * moment * length, [impulse, 2 * length * cos * impulse]);
    return { ...state, x_dot: state.x_dot + x, theta_dot: state.theta_dot + theta };
  }

  says({ terminated }, state) {
    if (!terminated) return "Balanced to the end";
    return Math.abs(state.x) > this.x_limit ? "The cart left the track" : "The pole fell";
  }

  draw(canvas, state, act) {
    const { x, theta } = state;
    const { left, right, bottom } = canvas;
    canvas.box([left, bottom], [right, -0.03], "ground");
    canvas.line([[left, -0.03], [right, -0.03]], "line", 0.015);
    for (let tick = -2; tick <= 2; tick++) canvas.line([[tick, -0.09], [tick, -0.15]], "line", 0.015);
    for (const stop of [-this.x_limit, this.x_limit]) canvas.line([[stop, -0.03], [stop, 0.16]], "red", 0.035);

    const hinge = [x, 0.36];
    for (const limit of [-this.theta_limit, this.theta_limit]) {
      const end = 2 * this.half_length + 0.14;
      canvas.dashes(hinge, [x + end * Math.sin(limit), 0.36 + end * Math.cos(limit)], "line", 0.014);
    }
    if (act) {
      const way = act.action === 1 ? 1 : -1;
      canvas.arrow([x + way * 0.42, 0.24], [x + way * (0.5 + 0.28 * act.strength), 0.24], "blue", 0.042);
    }
    canvas.box([x - 0.32, 0.08], [x + 0.32, 0.4], "ink", 0.07);
    for (const wheel of [x - 0.19, x + 0.19]) {
      canvas.circle([wheel, 0.07], 0.1, "ink");
      canvas.circle([wheel, 0.07], 0.055, "muted");
    }
    canvas.line([hinge, this.handle(state)], "orange", 0.105);
    canvas.circle(hinge, 0.045, "paper");
  }
}
