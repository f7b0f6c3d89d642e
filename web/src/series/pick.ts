/** The charts of the overview: what one looks at first, of what is recorded. */
import type { Chart } from "../server/api";

/** Best first; each picks one chart before the rest fill up. */
/** What an agent is trained for; its losses say less. Not `rewards/chosen`, which is a part of a loss. */
const REWARD =
  /(^|[/_.-])(ep|episod(e|ic)|mean|avg|average|total|eval|test)[_-]?(rew(ard)?|return)s?([_-](mean|avg))?$|(^|\/)(reward|return)(_mean)?$/i;
const LEARNING: RegExp[] = [
  REWARD,
  /(^|\/)(total_)?loss$/i,
  /loss$/i,
  /(^|\/)loss(es)?\//i,
  /perplexity|\bppl\b/i,
  /acc(uracy)?([@_]\w+)?$/i,
  /(^|[/_.-])(auc|f1|bleu|rouge\w*|m?ap|iou|rew(ard)?|return|precision|recall|wer|psnr|fid)([/_.@-]|$)/i,
];
const WANTED: RegExp[] = [
  ...LEARNING,
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

/** What Stepscope measures by itself, beside what people record. */
const MEASURED = /^(speed|system|gradients|updates|weights|activations|ranks)$/;
/** Charts of how the training learns that come before its speed; where no name says so, of what people record. */
const FIRST = 4;

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
  const known = LEARNING.flatMap((pattern) => whole.filter((chart) => named(chart, pattern)));
  const unknown = whole.filter((chart) => !MEASURED.test(chart.section) && !isCount(chart));
  const one = (pattern: RegExp): void =>
    take(whole.find((chart) => !picked.includes(chart) && named(chart, pattern)));
  LEARNING.forEach(one);
  for (const chart of known.length ? known : unknown) if (picked.length < FIRST) take(chart);
  WANTED.slice(LEARNING.length).forEach(one);
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

/** The chart that ranks runs: a reward before an eval loss, that before a train loss, a loss before anything else. */
export function rankingChart(charts: readonly Chart[]): Chart | undefined {
  const reward = charts.find((chart) => REWARD.test(chart.title));
  if (reward) return reward;
  const losses = LEARNING.slice(1, 4).flatMap((pattern) =>
    charts.filter((chart) => pattern.test(chart.title)),
  );
  const withEval = losses.find(
    (chart) => chart.lines.some((line) => line.split === "eval") || /eval|val/i.test(chart.id),
  );
  return withEval ?? losses[0] ?? keyCharts(charts, 1)[0];
}
