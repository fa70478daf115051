import { makeEngine } from "./engine.js";

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int8: Int8Array, uint16: Uint16Array, int16: Int16Array,
  int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, bool: Uint8Array,
};

/** A bundle's policy: `decide(obs)`, step by step; `start()` before each episode. */
export class Policy {
  /** `config` is that of the bundle, `model` the bytes of policy.onnx, `options` those of the engine. */
  static async load(config, model, random, options = {}) {
    const policy = new Policy(config, random);
    policy.engine = await makeEngine(model, { ...options, example: (ort) => policy.feeds(ort, policy.zeros(), null, policy.carry) });
    await policy.outputs(policy.zeros()); // the first run is slow, and may fail: not later
    return policy;
  }

  constructor(config, random) {
    this.config = config;
    this.random = random;
    this.port = Object.fromEntries(config.inputs.map((port) => [port.name, port]));
    this.start();
  }

  /** Forget: the carry is what it is at the start of an episode. */
  start() {
    this.carry = Object.fromEntries(this.config.carry.map((port) => [port.name, filled(port)]));
  }

  /** The action for an observation, and why: what the policy says of it, by name. Remembers. */
  async decide(obs, mask = null) {
    const { carry } = this; // a new episode, begun while this runs, has another
    const outputs = await this.run(obs, mask, carry);
    for (const name of Object.keys(carry)) carry[name] = outputs[`next_${name}`].data;
    const said = plain(outputs);
    return { action: this.action(said.action), said };
  }

  /** All that the policy says at the start of an episode, as plain arrays. Remembers nothing. */
  async outputs(obs, mask = null) {
    const carry = Object.fromEntries(this.config.carry.map((port) => [port.name, filled(port)]));
    return plain(await this.run(obs, mask, carry));
  }

  run(obs, mask, carry) {
    return this.engine.run(this.feeds(this.engine.ort, obs, mask, carry));
  }

  feeds(ort, obs, mask, carry) {
    const given = { obs, ...carry };
    if (this.config.mask) given.mask = mask ?? new Array(this.config.mask.size).fill(true);
    for (const { name, shape, kind } of this.config.noise) given[name] = Array.from({ length: size(shape) }, () => this.random[kind]());
    const tensor = ({ name, shape, dtype }) => new ort.Tensor(dtype, typed(dtype, given[name]), [1, ...shape]);
    return Object.fromEntries(this.config.inputs.map((port) => [port.name, tensor(port)]));
  }

  zeros() {
    return new Array(size(this.port.obs.shape)).fill(0);
  }

  /** As the environment takes it: a number if it is a choice, else an array. */
  action(numbers) {
    const { type, start = 0 } = this.config.action_space;
    return type === "Discrete" ? numbers[0] + start : numbers;
  }
}

const plain = (outputs) => Object.fromEntries(Object.entries(outputs).map(([name, { data }]) => [name, Array.from(data, Number)]));
const size = (shape) => shape.reduce((product, n) => product * n, 1);
const typed = (dtype, numbers) => (dtype === "int64" ? BigInt64Array.from(numbers, BigInt) : ARRAYS[dtype].from(numbers));

/** The first value of a carry: one number for all, or all of them in nested lists. */
function filled({ initial, shape }) {
  return Array.isArray(initial) ? initial.flat(Infinity).map(Number) : new Array(size(shape)).fill(Number(initial));
}
