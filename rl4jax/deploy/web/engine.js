/** What computes the policy: onnxruntime-web, on the GPU where that works, else on WebAssembly. */

const BUILDS = {
  wasm: { script: "ort.wasm.min.mjs", binary: "ort-wasm-simd-threaded.wasm" },
  webgpu: { script: "ort.webgpu.min.mjs", binary: "ort-wasm-simd-threaded.asyncify.wasm" },
};
const CLOSE = 1e-3; // GPUs round differently
const FRAME = 16; // milliseconds: a GPU that takes longer for one step is of no use here

/**
 * `run(feeds)` of a model, and the name of what runs it. `wanted` is "wasm", "webgpu" or "auto"; `example(ort)` makes inputs to try it on.
 */
export async function makeEngine(model, { wanted = "auto", example, progress = () => {} }) {
  const folder = new URL("ort/", document.baseURI);
  const onGpu = wanted !== "wasm" && (await hasGpu(wanted === "webgpu"));
  if (wanted === "webgpu" && !onGpu) throw new Error("This browser has no WebGPU. Open the page without ?engine=webgpu.");

  const build = BUILDS[onGpu ? "webgpu" : "wasm"];
  const ort = await import(new URL(build.script, folder));
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  ort.env.wasm.wasmPaths = folder.href;
  ort.env.wasm.wasmBinary = await download(new URL(build.binary, folder), progress);

  const wasm = await open(ort, model, "wasm");
  if (!onGpu) return wasm;
  try {
    const gpu = await open(ort, model, "webgpu");
    if (wanted === "webgpu" || (await works(gpu, wasm, example(ort)))) return gpu;
  } catch (error) {
    if (wanted === "webgpu") throw error; // else it was only a try
  }
  return wasm;
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

async function open(ort, model, name) {
  const session = await ort.InferenceSession.create(model, { executionProviders: [name], logSeverityLevel: 3 });
  let last = Promise.resolve();
  const run = (feeds) => {
    const now = last.then(() => session.run(feeds)); // a session does one thing at a time
    last = now.catch(() => {});
    return now;
  };
  return { ort, name, run };
}

/** Whether a GPU says what WebAssembly says, and in time. */
async function works(gpu, wasm, feeds) {
  const expected = await wasm.run(feeds);
  const got = await gpu.run(feeds);
  for (const [name, { data }] of Object.entries(expected)) {
    for (let i = 0; i < data.length; i++) {
      const [x, y] = [Number(data[i]), Number(got[name].data[i])];
      if (!(Math.abs(x - y) <= CLOSE * (1 + Math.abs(x)))) return false;
    }
  }
  const start = performance.now();
  for (let i = 0; i < 5; i++) await gpu.run(feeds);
  return (performance.now() - start) / 5 < FRAME;
}

/** A file, with word of how much of it has come. */
async function download(url, progress) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url.pathname} cannot be loaded: ${answer.status} ${answer.statusText}.`);
  const total = Number(answer.headers.get("content-length"));
  const parts = [];
  let done = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const { value, done: isLast } = await reader.read();
    if (isLast) break;
    parts.push(value);
    done += value.length;
    progress(done, total);
  }
  return new Blob(parts).arrayBuffer();
}
