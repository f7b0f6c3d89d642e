/** The charts of the overview: what one looks at first, of what is recorded. */
import type { Chart } from "../server/api";

/** Best first; each picks one chart before the rest fill up. */
const WANTED: RegExp[] = [
  /(^|\/)(total_)?loss$/i,
  /loss$/i,
  /perplexity|\bppl\b/i,
  /acc(uracy)?([@_]\w+)?$/i,
  /(^|[/_.-])(auc|f1|bleu|rouge\w*|m?ap|iou|reward|return|precision|recall|wer|psnr|fid)([/_.@-]|$)/i,
  /learning_?rate|(^|[/_.-])lr([/_.-]|$)/i,
  /grad(ient)?s?[/_.-]?(global_?)?norm/i,
  /update.?to.?weight|update_ratio/i,
  /step_time/i,
  /data_wait/i,
  /(examples|tokens|samples|items|images|global_step)[/_.-]?(_?per_?)?s(ec(ond)?)?$/i,
  /gpu_(busy|util)/i,
  /memory/i,
];

/** Spreads and parts of what another chart shows as a whole. */
const DETAIL = /[/_.-](p\d+|min|max|std)([/_.-]|$)|(^|\/)(children|host)\//i;

/** Picks up to `most` charts. Those about Stepscope's own cost are left to their figure.
 *
 * @param idle: Whether a chart says nothing, as a count of what never happened.
 */
export function keyCharts(
  charts: readonly Chart[],
  most = 12,
  idle: (chart: Chart) => boolean = () => false,
): Chart[] {
  const open = charts.filter((chart) => chart.section !== "stepscope" && !idle(chart));
  const picked: Chart[] = [];
  const take = (chart: Chart | undefined): void => {
    if (chart && !picked.includes(chart)) picked.push(chart);
  };
  const whole = open.filter((chart) => !DETAIL.test(chart.title));
  for (const pattern of WANTED) take(whole.find((chart) => !picked.includes(chart) && named(chart, pattern)));
  for (const pattern of WANTED) for (const chart of whole) if (named(chart, pattern)) take(chart);
  for (const group of [whole, open])
    for (const counts of [false, true]) for (const chart of group) if (isCount(chart) === counts) take(chart);
  return picked.slice(0, most);
}

/** Counts say least of how a training goes. */
function isCount({ kind }: Chart): boolean {
  return kind === "counter" || kind === "nonfinite";
}

function named(chart: Chart, pattern: RegExp): boolean {
  return pattern.test(chart.title) || chart.lines.some((line) => pattern.test(line.tag));
}

/** The chart that ranks runs: an eval loss before a train loss, a loss before anything else. */
export function rankingChart(charts: readonly Chart[]): Chart | undefined {
  const losses = [WANTED[0]!, WANTED[1]!].flatMap((pattern) =>
    charts.filter((chart) => pattern.test(chart.title)),
  );
  const withEval = losses.find(
    (chart) => chart.lines.some((line) => line.split === "eval") || /eval|val/i.test(chart.id),
  );
  return withEval ?? losses[0] ?? keyCharts(charts, 1)[0];
}
