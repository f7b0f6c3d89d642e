/** Which pages are there, and what fills the others. */
import type { Page } from "../core/hash";

export const READY: ReadonlySet<Page> = new Set(["overview", "scalars"]);

export const NOTES: Record<Page, string> = {
  overview: "State, speed and key charts",
  scalars: "Every scalar over steps or time",
  distributions: "Histograms of weights, gradients and activations",
  media: "Images, audio and video by step",
  text: "Text by step, configuration and environment",
  graph: "The model as a tree of modules",
  profile: "Where the time of a step goes",
  ranks: "Every rank beside the others",
  compare: "Two selections of runs side by side",
};
