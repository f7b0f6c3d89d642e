/** What each page shows. */
import type { Page } from "../view/view";

export const NOTES: Record<Page, string> = {
  overview: "State, speed and key charts",
  scalars: "Every scalar over steps or time",
  distributions: "Histograms of weights, gradients and activations",
  media: "Images, audio and video by step",
  text: "Text by step, configuration and environment",
  graph: "The model as scopes and operations, and what each costs",
  profile: "Where the time of a step goes",
  ranks: "Every rank beside the others",
  compare: "Two selections of runs side by side",
  sql: "Questions about all that is recorded, as a table and a chart",
};
