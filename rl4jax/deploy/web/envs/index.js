import { Acrobot } from "./acrobot.js";
import { CartPole } from "./cart_pole.js";
import { Catch } from "./catch.js";
import { GridWorld } from "./grid_world.js";
import { MountainCar } from "./mountain_car.js";
import { Pendulum } from "./pendulum.js";

const ENVS = { Acrobot, CartPole, Catch, GridWorld, MountainCar, Pendulum };

export function makeEnv(name, fields = {}) {
  if (!Object.hasOwn(ENVS, name)) throw new Error(`There is no environment "${name}" in JavaScript. There are ${Object.keys(ENVS).join(", ")}.`);
  return new ENVS[name](fields);
}
