/** What computes the policy: onnxruntime-web, on the GPU where that works and is faster, else on WebAssembly. */

import { download } from "./download.js";
import { inTurn } from "./turns.js";

const CLOSE = 1e-3; // GPUs round differently
const TRIES = 5; // runs that are timed

/**
 * `run(feeds)` of a model, and the name of what runs it. `wanted` is "wasm", "webgpu" or "auto"; `example(ort)` makes inputs to try it on.
 */
export async function makeEngine(model, { wanted = "auto", example, progress = () => {} }) {
  if (wanted !== "wasm" && (await hasGpu(wanted === "webgpu"))) {
    try {
      return await withGpu(model, wanted, example, progress);
    } catch (error) {
      if (wanted === "webgpu") throw error; // else it was only a try
    }
  } else if (wanted === "webgpu") throw new Error("This browser has no WebGPU. Open the page without ?engine=webgpu.");
  return open(await loadRuntime("wasm", progress), model, "wasm");
}

/** On the GPU, or by the same build of onnxruntime on WebAssembly where that does better. */
async function withGpu(model, wanted, example, progress) {
  const ort = await loadRuntime("webgpu", progress);
  if (wanted === "webgpu") return open(ort, model, "webgpu");
  const wasm = await open(ort, model, "wasm");
  try {
    const gpu = await open(ort, model, "webgpu");
    return (await isBetter(gpu, wasm, example(ort))) ? gpu : wasm;
  } catch {
    return wasm;
  }
}

/** Whether there is a GPU; one that is only software is slower than WebAssembly, and counts if nothing else is wanted. */
async function hasGpu(software) {
  try {
    const adapter = await navigator.gpu?.requestAdapter();
    return Boolean(adapter) && (software || !(adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter));
  } catch {
    return false;
  }
}

/** A build of onnxruntime-web, under the names that web.py gives its files. */
async function loadRuntime(build, progress) {
  const file = (name) => new URL(`ort/${name}`, document.baseURI);
  const ort = await import(file(`ort.${build}.js`));
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  ort.env.wasm.wasmPaths = { mjs: file(`${build}.js`).href, wasm: file(`${build}.wasm`).href };
  ort.env.wasm.wasmBinary = await download(file(`${build}.wasm`), progress);
  return ort;
}

async function open(ort, model, name) {
  const session = await ort.InferenceSession.create(model, { executionProviders: [name], logSeverityLevel: 3 });
  return { ort, name, run: inTurn((feeds) => session.run(feeds)) };
}

/** Whether a GPU says what WebAssembly says, and sooner. */
async function isBetter(gpu, wasm, feeds) {
  const expected = await wasm.run(feeds);
  const got = await gpu.run(feeds); // the first run is slow, and not timed
  for (const [name, { data }] of Object.entries(expected)) {
    for (let i = 0; i < data.length; i++) {
      const [x, y] = [Number(data[i]), Number(got[name].data[i])];
      if (!(Math.abs(x - y) <= CLOSE * (1 + Math.abs(x)))) return false;
    }
  }
  return (await time(gpu, feeds)) < (await time(wasm, feeds));
}

async function time(engine, feeds) {
  const start = performance.now();
  for (let i = 0; i < TRIES; i++) await engine.run(feeds);
  return performance.now() - start;
}
