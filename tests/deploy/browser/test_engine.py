"""Which onnxruntime computes the policy, in Node.js with runtimes that only pretend, and how its loading is told."""

import pytest

from tests.deploy.browser.node import modules, run_script

PAGE = """
globalThis.document = { baseURI: FOLDER };
globalThis.fetch = async () => new Response(new Uint8Array(3), { headers: globalThis.headers });
Object.defineProperty(globalThis, "navigator", { value: { gpu: { requestAdapter: async () => ({ info: { isFallbackAdapter: false } }) } } });
const { makeEngine } = await import(FOLDER + "engine.js");
const { download } = await import(FOLDER + "download.js");
"""
RUNTIME = """
const TOOK = { wasm: WASM, webgpu: WEBGPU };
export const env = { wasm: {} };
export const build = "BUILD";
export const InferenceSession = {
  async create(model, { executionProviders: [name] }) {
    if (TOOK[name] === null) throw new Error("no session");
    return { run: () => new Promise((done) => setTimeout(() => done({ action: { data: [name === "webgpu" ? SAID : 1] } }), TOOK[name])) };
  },
};
"""


@pytest.fixture
def page(tmp_path):
    """What a script says on a page whose two builds of onnxruntime take so many milliseconds, or "null" and fail."""
    folder = modules(tmp_path)
    (folder / "ort").mkdir()

    def call(script, wasm=1, webgpu=1, said=1, broken=False):
        for build in ("wasm", "webgpu"):
            code = RUNTIME
            for name, value in {"WASM": wasm, "WEBGPU": webgpu, "BUILD": build, "SAID": said}.items():
                code = code.replace(name, str(value))
            (folder / "ort" / f"ort.{build}.js").write_text("throw new Error('broken');" if broken and build == "webgpu" else code)
        return run_script("--input-type=module", "-e", f"const FOLDER = '{folder.as_uri()}/';{PAGE}{script}")

    return call


def choose(wanted):
    return f"""
const engine = await makeEngine(null, {{ wanted: "{wanted}", example: () => ({{}}) }}).catch((error) => error);
console.log(JSON.stringify(engine.message ?? [engine.name, engine.ort.build]));
"""


@pytest.mark.parametrize(
    ("wanted", "how", "chosen"),
    [
        ("auto", {"wasm": 20, "webgpu": 1}, ["webgpu", "webgpu"]),
        ("auto", {"wasm": 1, "webgpu": 20}, ["wasm", "webgpu"]),
        ("auto", {"wasm": 20, "webgpu": 1, "said": 2}, ["wasm", "webgpu"]),
        ("auto", {"webgpu": "null"}, ["wasm", "webgpu"]),
        ("auto", {"broken": True}, ["wasm", "wasm"]),
        ("wasm", {"wasm": 20, "webgpu": 1}, ["wasm", "wasm"]),
        ("webgpu", {"wasm": 1, "webgpu": 20}, ["webgpu", "webgpu"]),
        ("webgpu", {"broken": True}, "broken"),
        ("webgpu", {"webgpu": "null"}, "no session"),
    ],
)
def test_the_faster_one_that_works_computes(wanted, how, chosen, page):
    assert page(choose(wanted), **how) == chosen


def test_without_a_gpu_it_is_webassembly(page):
    no_gpu = "navigator.gpu.requestAdapter = async () => null;"
    assert page(no_gpu + choose("auto")) == ["wasm", "wasm"]
    assert "has no WebGPU" in page(no_gpu + choose("webgpu"))


def test_the_parts_of_the_runtime_are_found_by_name_and_are_no_mjs(page):
    paths = page("""
const { ort } = await makeEngine(null, { wanted: "wasm", example: () => ({}) });
console.log(JSON.stringify([Object.entries(ort.env.wasm.wasmPaths).map(([kind, path]) => [kind, path.split("/").pop()]), ort.env.wasm.wasmBinary.byteLength]));
""")
    assert paths == [[["mjs", "wasm.js"], ["wasm", "wasm.wasm"]], 3]


@pytest.mark.parametrize(
    ("headers", "total"),
    [({"content-length": "3"}, 3), ({}, 0), ({"content-length": "2", "content-encoding": "gzip"}, 0)],
)
def test_how_much_there_is_to_load_is_told_only_where_it_is_known(headers, total, page):
    script = f"globalThis.headers = {headers};const told = [];await download(new URL(FOLDER), (...parts) => told.push(parts));"
    assert page(script + "console.log(JSON.stringify(told));") == [[3, total]]
