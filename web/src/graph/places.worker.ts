/** Answers a shape with its places, each with the number of the question. */
import { placesOf, type Shape } from "./places";

addEventListener("message", ({ data: [turn, shape] }: MessageEvent<[number, Shape]>) =>
  postMessage([turn, placesOf(shape)]),
);
