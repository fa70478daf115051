/** Random numbers from a seed, so that an episode can be played again: Marsaglia's xorshift. */
export class Random {
  constructor(seed = crypto.getRandomValues(new Uint32Array(1))[0]) {
    this.bits = Math.imul(seed + 1, 0x9e3779b1) | 1; // never 0, where it would stay
    for (let i = 0; i < 8; i++) this.uniform(); // small seeds begin alike
  }

  /** Between 0 and 1, neither included. */
  uniform() {
    this.bits ^= this.bits << 13;
    this.bits ^= this.bits >>> 17;
    this.bits ^= this.bits << 5;
    return ((this.bits >>> 0) + 0.5) / 2 ** 32;
  }

  between(low, high) {
    return low + (high - low) * this.uniform();
  }

  /** A whole number from 0 up to, and without, `count`. */
  below(count) {
    return Math.floor(count * this.uniform());
  }

  normal() {
    return Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  gumbel() {
    return -Math.log(-Math.log(this.uniform()));
  }
}
