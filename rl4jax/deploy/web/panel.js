/** The numbers beside the picture. */

import { scale, show } from "./numbers.js";

const $ = (id) => document.getElementById(id);
const MOST_EPISODES = 20;
const MOST_VALUES = 200;

export class Panel {
  constructor(env, config) {
    this.range = [Infinity, -Infinity]; // of the values so far, in all episodes
    this.isMasked = Boolean(config.mask); // else nobody told the policy, and all is allowed
    this.kind = ["logits", "q_values"].find((name) => config.outputs.some((port) => port.name === name)) ?? "action";
    const isChoice = config.action_space.type === "Discrete";
    $("policy-title").innerHTML = { logits: "Policy <small>probability of each action</small>", q_values: "Policy <small>value of each action</small>" }[this.kind]
      ?? "Policy <small>what it does</small>";
    const isDrawn = config.noise.length > 0 && config.outputs.some((port) => port.name === "mean"); // else the action is the mean
    this.names = isChoice ? env.actions : [env.torque, ...(isDrawn ? ["mean"] : [])];
    this.limit = Array.isArray(config.action_space.high) ? config.action_space.high[0] : config.action_space.high;
    this.bars = this.names.map((name) => bar(name, !isChoice || this.kind === "q_values"));
    $("bars").replaceChildren(...this.bars);
    const meaning = String(config.value ?? "the value its critic gives");
    const isMeant = !meaning.startsWith("nothing"); // cloning teaches no critic
    $("value-card").hidden = !isMeant || !config.outputs.some((port) => port.name === "value");
    $("value-meaning").textContent = meaning;
  }

  /** What the policy said of the last step; null before the first. */
  decision(decision) {
    if (!decision) return this.bars.forEach((row) => fill(row, 0, "–", false, false));
    const { action, said, mask } = decision;
    if (Array.isArray(action)) {
      const numbers = [action[0], said.mean?.[0]];
      this.bars.forEach((row, i) => fill(row, numbers[i] / this.limit, show(numbers[i], true), i === 0, true));
      return;
    }
    const numbers = this.kind === "logits" ? softmax(said.logits) : (said.q_values ?? this.names.map((_, i) => Number(i === action)));
    const most = Math.max(...numbers.map(Math.abs)) || 1;
    const isValue = this.kind === "q_values";
    this.bars.forEach((row, i) => {
      const isOff = this.isMasked && !mask[i];
      const words = isOff ? "not allowed" : isValue ? show(numbers[i], true) : `${Math.round(100 * numbers[i])} %`;
      fill(row, isValue ? numbers[i] / most : numbers[i], words, i === action, isValue);
      row.classList.toggle("off", isOff);
    });
  }

  /** The values of this episode, on a scale for those of all episodes: it may only grow. */
  value(values) {
    const now = values.at(-1);
    $("value").textContent = show(now, true);
    const shown = values.slice(-MOST_VALUES);
    this.range = [Math.min(this.range[0], ...shown), Math.max(this.range[1], ...shown)];
    if (this.range[0] > this.range[1]) return; // none so far
    const { bottom, top, words } = scale(...this.range);
    [$("least").textContent, $("most").textContent] = words;
    const width = Math.max(shown.length - 1, 40);
    const points = shown.map((x, i) => `${((100 * i) / width).toFixed(2)},${((100 * (top - x)) / (top - bottom)).toFixed(2)}`);
    $("spark").setAttribute("points", points.join(" "));
  }

  episode(player) {
    $("return").textContent = show(player.total);
    $("episode").textContent = `episode ${player.episode}`;
    $("steps").textContent = `step ${player.state.t}`;
  }

  history(returns) {
    const last = returns.slice(-MOST_EPISODES);
    const [low, high] = [Math.min(0, ...last), Math.max(0, ...last)];
    const rows = last.map((x) => {
      const row = document.createElement("i");
      // The taller the better: of negative returns, 0 is the top.
      row.style.height = `${high > low ? (100 * (x - low)) / (high - low) : 100}%`;
      row.title = show(x);
      return row;
    });
    const mean = last.reduce((sum, x) => sum + x, 0) / last.length;
    const many = last.length > 1 ? `last ${last.length} episodes: mean ${show(mean)}, best ${show(Math.max(...last))}` : `last episode: ${show(last[0])}`;
    $("history").replaceChildren(...rows);
    $("history").ariaLabel = `Returns of the ${many}`;
    $("mean").textContent = many[0].toUpperCase() + many.slice(1);
  }
}

function bar(name, both) {
  const row = document.createElement("div");
  row.className = "bar";
  row.innerHTML = `<dt></dt><dd class="track ${both ? "both" : ""}" aria-hidden="true"><i></i></dd><dd class="number">–</dd>`;
  row.querySelector("dt").textContent = name;
  return row;
}

/** A bar from its left end, or to both sides of its middle. */
function fill(row, part, words, chosen, both) {
  const size = Math.max(-1, Math.min(1, part || 0));
  const { style } = row.querySelector("i");
  style.width = `${(both ? 50 : 100) * Math.abs(size)}%`;
  style.left = `${both ? 50 + 50 * Math.min(size, 0) : 0}%`;
  row.querySelector(".number").textContent = words;
  row.classList.toggle("chosen", chosen);
}

export function softmax(logits) {
  const most = Math.max(...logits);
  const weights = logits.map((x) => Math.exp(x - most));
  const sum = weights.reduce((total, x) => total + x, 0);
  return weights.map((x) => x / sum);
}
