/** The charts of the overview: what one looks at first, of what is recorded. The server says how much each tells. */
import type { Chart } from "../server/api";

/** Charts of how the training learns that come before its speed; where none does, of what people record. */
const FIRST = 4;

/** Picks up to `most` charts, first one of each role. Those about Stepscope's own cost are left to their figure.
 *
 * @param idle: Whether a chart says nothing, as a count of what never happened.
 */
export function keyCharts(
  charts: readonly Chart[],
  most = 12,
  idle: (chart: Chart) => boolean = () => false,
): Chart[] {
  const open = charts.filter((chart) => !chart.own_cost && !idle(chart)).sort((a, b) => a.place - b.place);
  const of = (tier: Chart["tier"]): Chart[] => open.filter((chart) => chart.tier === tier);
  const [learning, running, recorded] = [of("learning"), of("running"), of("recorded")];
  const lead = new Set(oneOfEach(learning));
  for (const chart of learning.length ? learning : recorded) if (lead.size < FIRST) lead.add(chart);
  const picked = [...lead, ...oneOfEach(running), ...learning, ...recorded, ...open];
  return [...new Set(picked)].slice(0, most);
}

/** Of charts in that order the first ones; details fill no screen: they come only where little else is recorded. */
export function firstCharts(charts: readonly Chart[], most = 12): Chart[] {
  const telling = charts.filter(({ tier }) => tier !== "detail");
  return (telling.length < FIRST ? charts.slice(0, FIRST) : telling).slice(0, most);
}

function oneOfEach(charts: readonly Chart[]): Chart[] {
  return charts.filter(({ role }, at) => charts.findIndex((chart) => chart.role === role) === at);
}

/** The chart that ranks runs: the most telling one. */
export const rankingChart = (charts: readonly Chart[]): Chart | undefined => keyCharts(charts, 1)[0];
