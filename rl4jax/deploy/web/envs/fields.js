/** Give an environment its fields: the defaults, and what was given instead. */
export function setFields(env, defaults, given) {
  for (const name of Object.keys(given)) {
    if (!(name in defaults)) {
      throw new Error(`${env.constructor.name} has no field "${name}". It has ${Object.keys(defaults).join(", ")}.`);
    }
  }
  Object.assign(env, defaults, given);
}

export const clip = (x, low, high) => Math.min(Math.max(x, low), high);

/** The two speeds that an impulse gives to what has the symmetric mass matrix [[a, b], [b, c]]. */
export function kick(a, b, c, [p, q]) {
  const det = a * c - b * b;
  return [(c * p - b * q) / det, (a * q - b * p) / det];
}
