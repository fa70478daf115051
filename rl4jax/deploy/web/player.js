import { inTurn } from "./turns.js";

/** One policy in one environment, episode after episode. Knows nothing of the page. */
export class Player {
  constructor(env, policy, random) {
    this.env = env;
    this.policy = policy;
    this.random = random;
    this.episode = 0;
    this.returns = []; // of the episodes that ended
    this.target = null; // where a drag pulls to
    /** One step of the policy; after the end of an episode, the beginning of the next. Two at once would both leave the same state. */
    this.step = inTurn(() => this.advance());
    this.begin();
  }

  begin() {
    this.episode += 1;
    this.policy.start();
    this.before = this.state = this.env.reset(this.random);
    this.total = 0;
    this.end = null; // {terminated, truncated} of an episode that has ended
    this.decision = null;
    this.values = [];
  }

  async advance() {
    if (this.end) return this.begin();
    const drag = this.drag();
    if (drag) this.push(drag);
    const { env, state, episode } = this;
    const mask = env.mask?.(state);
    const decision = await this.policy.decide(env.observe(state), mask);
    if (this.episode !== episode) return; // somebody began a new episode meanwhile
    const { state: next, reward, terminated, truncated } = env.step(this.state, decision.action);
    this.before = this.state;
    this.state = next;
    this.decision = { ...decision, mask };
    this.total += reward;
    if (decision.said.value) this.values.push(decision.said.value[0]);
    if (terminated || truncated) {
      this.end = { terminated, truncated };
      this.returns.push(this.total);
    }
  }

  /** Disturb what is played, at once: 1 is a firm push to the right, [0, 1] one upwards. */
  push(force) {
    if (!this.end) this.before = this.state = this.env.push(this.state, Array.isArray(force) ? force : [force, 0]);
  }

  /** The push of a drag: towards the pointer, the stronger the further, up to a limit. */
  drag() {
    if (!this.target) return null;
    const { pull, most } = this.env;
    const [x, y] = this.env.handle(this.state);
    const [dx, dy] = [pull * (this.target[0] - x), pull * (this.target[1] - y)];
    const shrink = Math.min(1, most / (Math.hypot(dx, dy) || 1));
    return [dx * shrink, dy * shrink];
  }

  /** Between the last step and the one before: what is shown while time runs on. Angles go the short way. */
  at(fraction) {
    const shown = { ...this.state };
    for (const [name, end] of Object.entries(this.state)) {
      const start = this.before[name];
      const turn = this.env.angles?.includes(name) ? 2 * Math.PI * Math.round((end - start) / (2 * Math.PI)) : 0;
      shown[name] = start + turn + fraction * (end - start - turn);
    }
    return shown;
  }
}
