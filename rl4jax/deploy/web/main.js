import { Canvas } from "./canvas.js";
import { makeEnv } from "./envs/index.js";
import { minus, plusMinus } from "./numbers.js";
import { readOptions } from "./options.js";
import { Panel, softmax } from "./panel.js";
import { Player } from "./player.js";
import { Policy } from "./policy.js";
import { Random } from "./random.js";

const $ = (id) => document.getElementById(id);
const HOLD = 900; // milliseconds that the end of an episode is shown
const REPEAT = 150; // milliseconds between two of a key that is held down
const BUDGET = 12; // milliseconds of a frame that may go into steps
const TRAIL = 64; // points, QUARTERS of them for each step
const QUARTERS = [0.25, 0.5, 0.75, 1];
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const SIGNS = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
const calm = matchMedia("(prefers-reduced-motion: reduce)");

async function main() {
  const options = readOptions(location.search, Array.from(speeds(), (input) => input.value));
  if (options.wrong.length) $("notice").textContent = `In the address: ${options.wrong.join(" ")}`;
  const [page, config, model] = await Promise.all([load("page.json", "json"), load("config.json", "json"), load("policy.onnx", "arrayBuffer")]);
  const random = new Random(options.seed);
  const env = makeEnv(page.env, page.fields);
  describe(config, page);
  $("message").textContent = "Loading what computes the policy";
  const policy = await Policy.load(config, model, random, { wanted: options.engine, progress });
  const player = new Player(env, policy, random);
  const show = new Show(player, config);
  show.setSpeed(options.speed);
  show.setPlaying(!options.isPaused);
  window.rl4jax = {
    env, policy, player,
    play: () => show.setPlaying(true),
    pause: () => show.setPlaying(false),
    step: () => show.step(),
    push: (force = 1) => show.push(force),
    reset: () => show.again(),
    state: () => ({ ...player.state, episode: player.episode, return: player.total, returns: [...player.returns], ...player.end }),
  };
  $("controls").disabled = false;
  document.body.dataset.state = "ready";
  show.run();
}

const speeds = () => document.querySelectorAll("[name=speed]");

async function load(name, as) {
  const answer = await fetch(name, { cache: "no-store" });
  if (!answer.ok) throw new Error(`${name} cannot be loaded: ${answer.status} ${answer.statusText}. Write the page again.`);
  return answer[as]();
}

function describe({ evaluation }, { title, fields }) {
  document.title = $("title").textContent = title;
  const score = evaluation ? `return ${plusMinus(evaluation.mean, evaluation.std)} over ${evaluation.episodes} episodes` : "";
  const size = Object.entries(fields).map(([name, value]) => `${name.replaceAll("_", " ")} ${minus(String(value))}`).join(", ");
  $("subtitle").textContent = [size, score, "trained with rl4jax, plays in your browser"].filter(Boolean).join("\u00a0· ");
}

function progress(done, total) {
  const mega = (x) => (x / 1e6).toFixed(1);
  $("message").textContent = `Loading what computes the policy: ${mega(done)}${total ? ` of ${mega(total)}` : ""} MB`;
  $("progress").hidden = !total;
  if (total) $("progress").value = done / total;
}

function fail(error) {
  document.body.dataset.state = "failed";
  $("progress").hidden = true;
  $("message").textContent = error?.message ?? String(error);
  $("controls").disabled = true;
}

/** The page while it plays: time, controls and picture. */
class Show {
  constructor(player, config) {
    this.player = player;
    this.panel = new Panel(player.env, config);
    this.canvas = new Canvas($("canvas"));
    this.due = 0; // steps, with a fraction, that time asks for
    this.heldUntil = 0;
    this.spokenAt = -Infinity;
    this.keyAt = -Infinity; // when a key last did something
    this.forget();
    this.cost = null; // milliseconds of a step, averaged
    this.nudge = null; // what a push showed last: {force, until}
    const [left, bottom, right, top] = player.env.view;
    const aspect = Math.max(1.15, Math.min(1.7, (right - left) / (top - bottom)));
    document.documentElement.style.setProperty("--aspect", String(aspect));
    this.listen();
  }

  listen() {
    const { env } = this.player;
    $("play").onclick = () => this.setPlaying(!this.playing);
    $("step").onclick = () => (this.setPlaying(false), this.step().catch(fail));
    $("again").onclick = () => this.again();
    for (const input of speeds()) input.onchange = () => this.setSpeed(input.value);
    // A pointer leaves no focus behind, else keys would go to what it clicked. Later again, for a label gives its input the focus only then.
    const leave = () => document.activeElement.blur();
    $("controls").onclick = (event) => event.detail > 0 && (leave(), setTimeout(leave));
    const ways = env.constructor.name === "GridWorld" ? ["ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight"] : ["ArrowLeft", "ArrowRight"];
    this.ways = new Set(ways);
    const word = document.createElement("span");
    word.textContent = "Push"; // two buttons have room for it, four have not
    $("pushes").replaceChildren(...(ways.length > 2 ? [word] : []), ...ways.map((way) => this.pushButton(way, ways.length === 2)));
    const keys = ways.map((way) => `<kbd>${SIGNS[way]}</kbd>`).join(" ");
    for (const place of document.querySelectorAll(".arrows")) place.innerHTML = keys;
    $("hint").firstChild.textContent = `Drag ${env.grip}`;
    $("canvas").ariaLabel = `${env.constructor.name}, being played`;
    addEventListener("keydown", (event) => this.key(event));
    this.pointer($("canvas"));
    document.addEventListener("visibilitychange", () => (this.last = null)); // time in the background does not count
  }

  pushButton(way, wide) {
    const button = document.createElement("button");
    button.type = "button";
    const word = way.slice(5).toLowerCase();
    button.textContent = !wide ? SIGNS[way] : way === "ArrowLeft" ? "← Push" : "Push →";
    button.ariaLabel = `Push ${word}`;
    button.onclick = () => this.push(ARROWS[way]);
    return button;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = this.actionOf(event);
    if (!action) return;
    event.preventDefault();
    if (event.repeat && (!action.repeats || event.timeStamp < this.keyAt + REPEAT)) return;
    this.keyAt = event.timeStamp;
    action.does();
  }

  /** What a key does, and whether it does so again and again while it is held down. Tab leads to what has keys of its own. */
  actionOf({ key, target }) {
    if (this.ways.has(key) && target.name !== "speed") return { does: () => this.push(ARROWS[key]), repeats: true };
    if (key === " " && target.matches("button, input")) return null;
    const button = { " ": "play", s: "step", n: "again" }[key.toLowerCase()];
    return button && { does: () => $(button).click(), repeats: button === "step" };
  }

  /** Pull at what is played while a finger or button is down. */
  pointer(element) {
    let isPull; // the first move of a finger may be that of a scroll, of which there will be no second
    const at = (event) => {
      const { left, top } = element.getBoundingClientRect();
      this.player.target = this.canvas.toWorld([event.clientX - left, event.clientY - top]);
      $("hint").hidden = true; // it has been understood
    };
    element.onpointerdown = (event) => {
      element.setPointerCapture(event.pointerId);
      isPull = event.pointerType !== "touch";
      if (isPull) at(event);
    };
    element.onpointermove = (event) => {
      if (!element.hasPointerCapture(event.pointerId)) return;
      if (isPull) at(event);
      isPull = true;
    };
    element.onpointerup = element.onpointercancel = () => (this.player.target = null);
  }

  setPlaying(playing) {
    this.playing = playing;
    this.last = null;
    $("play").dataset.playing = String(playing);
    $("play").lastChild.textContent = playing ? "Pause" : "Play";
  }

  setSpeed(speed) {
    this.speed = speed === "max" ? Infinity : Number(speed);
    this.due = Math.min(this.due, 1);
    for (const input of speeds()) input.checked = input.value === speed;
  }

  push(force) {
    const [x, y] = Array.isArray(force) ? force : [force, 0];
    this.player.push([x, y]);
    this.nudge = { force: [x, y], until: performance.now() + 250 };
  }

  again() {
    this.player.begin();
    this.heldUntil = 0;
    this.due = 0;
    this.forget();
  }

  /** What was drawn of the last episode: its path, and how it ended. */
  forget() {
    this.trail = [];
    this.flash = null;
  }

  async step() {
    const { player } = this;
    const start = performance.now();
    await player.step();
    this.trail = [...this.trail, ...this.path(1)].slice(-TRAIL);
    if (player.end) this.ended();
    else if (player.decision) {
      const took = performance.now() - start;
      this.cost = this.cost === null ? took : 0.9 * this.cost + 0.1 * took;
    } else if (this.playing) this.trail = []; // a new episode: how the last one ended is still to be read, if this one came at once
    else this.forget();
  }

  /** Where the tip went in the last step, as far as it is shown. */
  path(fraction) {
    const { env } = this.player;
    return env.trail && !calm.matches ? QUARTERS.map((part) => env.handle(this.player.at(fraction * part))) : [];
  }

  ended() {
    const { player } = this;
    const words = player.env.says(player.end, player.state);
    const now = performance.now();
    this.heldUntil = now + (this.speed > 1 ? 0 : HOLD);
    this.flash = { words, until: now + HOLD };
    this.panel.history(player.returns);
    if (now - this.spokenAt > 5000) {
      this.spokenAt = now;
      $("spoken").textContent = `${words}. Episode ${player.episode}: ${$("mean").textContent}.`;
    }
  }

  run() {
    requestAnimationFrame(async (now) => {
      try {
        await this.advance(now);
        this.draw(now);
        this.run();
      } catch (error) {
        fail(error);
      }
    });
  }

  /** As many steps as the time since the last frame asks for, and as fit into a frame. */
  async advance(now) {
    const passed = this.last === null ? 0 : Math.min((now - this.last) / 1000, 0.25);
    this.last = now;
    if (!this.playing) return (this.due = Math.min(this.due, 1));
    if (now < this.heldUntil) return;
    this.due += this.speed === Infinity ? Infinity : passed * this.speed * this.player.env.rate;
    const start = performance.now();
    while (this.due >= 1 && this.playing) {
      await this.step();
      this.due -= 1;
      const late = performance.now() - start > BUDGET;
      if (late || performance.now() < this.heldUntil) this.due = Math.min(this.due, 1) % 1; // what does not fit is dropped
    }
    if (!Number.isFinite(this.due)) this.due = 0;
  }

  draw(now) {
    const { player, canvas, panel } = this;
    const { env, decision } = player;
    const isBetween = this.playing && !player.end && Number.isFinite(this.due);
    const fraction = isBetween ? Math.min(this.due, 1) : 1;
    const state = player.at(fraction);
    canvas.begin(env.view);
    canvas.trail([...this.trail.slice(0, -QUARTERS.length), ...this.path(fraction)], "orange", 5 / canvas.scale);
    env.draw(canvas, state, decision && !player.end ? { action: decision.action, strength: strength(decision) } : null);
    this.drawPush(now, env.handle(state));
    panel.decision(decision);
    panel.value(player.values);
    panel.episode(player);
    $("flash").hidden = !(this.flash && now < this.flash.until);
    if (this.flash) $("flash").textContent = this.flash.words;
    $("engine").textContent = `${{ wasm: "WebAssembly", webgpu: "WebGPU" }[player.policy.engine.name]}${this.cost ? ` · ${this.cost.toFixed(2)} ms a step` : ""}`;
  }

  /** What you do: a line to the pointer, or an arrow for a moment. */
  drawPush(now, handle) {
    const { canvas, player } = this;
    const pixels = (n) => n / canvas.scale;
    if (player.target) {
      canvas.dashes(handle, player.target, "muted", pixels(2));
      canvas.circle(player.target, pixels(7), "muted");
    } else if (this.nudge && now < this.nudge.until) {
      const [x, y] = this.nudge.force;
      const long = Math.hypot(x, y) || 1;
      const from = (part) => [handle[0] - (pixels(part) * x) / long, handle[1] - (pixels(part) * y) / long];
      canvas.arrow(from(62), from(16), "red", pixels(7));
    }
  }
}

/** How sure the policy is, from 0 to 1. */
function strength({ action, said }) {
  return said.logits && !Array.isArray(action) ? softmax(said.logits)[action] : 1;
}

main().catch(fail);
