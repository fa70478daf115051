/**
 * What the address asks for: `?engine=wasm`, `?speed=4`, `?seed=1`, `?paused`. For tinkerers, and for tests.
 * `wrong` has a sentence for each value that means nothing; the usual one is taken instead.
 */
export function readOptions(search, speeds) {
  const given = new URLSearchParams(search);
  const wrong = [];
  const choose = (name, choices, usual) => {
    const value = given.get(name) ?? usual;
    if (choices.includes(value)) return value;
    wrong.push(`${name} = “${value}” is not one of ${choices.join(", ")}; ${usual} is used.`);
    return usual;
  };
  const seed = given.get("seed");
  const isSeed = seed !== null && /^\d{1,9}$/.test(seed);
  if (seed !== null && !isSeed) wrong.push(`seed = “${seed}” is not a whole number of up to nine digits; one is drawn.`);
  return {
    engine: choose("engine", ["auto", "wasm", "webgpu"], "auto"),
    speed: choose("speed", speeds, "1"),
    seed: isSeed ? Number(seed) : undefined,
    isPaused: given.has("paused"),
    wrong,
  };
}
