// Take single steps in the JavaScript environments: JSON from Python on stdin, JSON to it on stdout. Run by test_same_as_python.py.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { makeEnv } = await import(pathToFileURL(process.argv[2]));
const { name, fields, states, actions, seed } = JSON.parse(readFileSync(0));
const env = makeEnv(name, fields);
const { Random } = await import(new URL("../random.js", pathToFileURL(process.argv[2])));
const random = new Random(seed);
const steps = states.map((state, i) => {
  const step = env.step(state, actions[i]);
  return { ...step, obs: env.observe(step.state), mask: env.mask?.(step.state) ?? null };
});
const resets = states.map(() => env.reset(random));
const pushed = states.map((state) => env.push(state, [1, 1]));
console.log(JSON.stringify({ steps, resets, pushed, obs: env.observe(resets[0]), actions: env.actions ?? null }));
