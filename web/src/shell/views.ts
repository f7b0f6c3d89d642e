/** What each page is drawn by, fetched when the page is first looked at. */
import { lazy } from "../parts/lazy";

export const VIEWS = {
  overview: lazy(() => import("../overview/Overview.svelte")),
  scalars: lazy(() => import("../scalars/Scalars.svelte")),
  distributions: lazy(() => import("../distributions/Distributions.svelte")),
  media: lazy(() => import("../media/Media.svelte")),
  text: lazy(() => import("../media/Texts.svelte")),
  graph: lazy(() => import("../graph/Graph.svelte")),
  profile: lazy(() => import("../profile/Profile.svelte")),
  ranks: lazy(() => import("../ranks/Ranks.svelte")),
  compare: lazy(() => import("../compare/Compare.svelte")),
  sql: lazy(() => import("../sql/Sql.svelte")),
};
