/** The verdicts of the server on the metrics of both sides, for all that shows them. */
import { ofCompared } from "../runs/contrast";
import type { Fact } from "../runs/fact";
import { tracksOf, type Track } from "../runs/sidelines";
import type { SideName } from "../runs/sides";
import type { Chart, Comparison, CompareRequest, Compared, Judgement } from "../server/api";
import { Asking } from "../server/asking";
import { messageOf, sent } from "../server/client";
import { isOwn } from "../series/own";
import { keyCharts, rankingChart } from "../series/pick";
import { app } from "../state/app.svelte";
import { compare } from "../state/compare.svelte";

const REST_MS = 3_000;
/** Series of which the largest difference is sought, those that say most first. */
const MOST = 40;
/** The section of what Stepscope says of itself, which is no result. */
export const OWN = "stepscope";

const trackId = ({ chart, split }: Compared): string => JSON.stringify([chart, split]);
const sidesOf = ({ a, b }: Pick<CompareRequest, "a" | "b">): string => JSON.stringify([a, b]);

/** One question about both sides; its last answer stands while another one about the same sides is awaited. */
class Question {
  #held = $state.raw<{ sides: string; answer: Comparison } | null>(null);
  failure = $state("");
  #current = "";
  readonly #asking = new Asking(REST_MS, (question) => this.#look(question));

  want(body: CompareRequest, points: number): () => void {
    this.#current = JSON.stringify(body);
    return this.#asking.want(this.#current, points);
  }

  of(sides: string): Comparison | null {
    return this.#held?.sides === sides ? this.#held.answer : null;
  }

  async #look(question: string): Promise<void> {
    try {
      const body = JSON.parse(question) as CompareRequest;
      const answer = await sent<Comparison>("compare", body);
      if (question !== this.#current) return;
      this.#held = { sides: sidesOf(body), answer };
      this.failure = "";
    } catch (error) {
      if (question === this.#current) this.failure = messageOf(error);
      throw error;
    }
  }
}

class Verdicts {
  readonly #leading = new Question();
  readonly #further = new Question();
  /** Charts that a part of the page shows. */
  #shown = $state.raw<readonly Chart[]>([]);
  /** The chart by which runs are ranked. */
  readonly metric = $derived(app.metric ?? rankingChart(app.catalog.charts));
  readonly tracks = $derived(
    tracksOf(
      [...new Set([...(this.metric ? [this.metric] : []), ...keyCharts(app.catalog.charts, MOST)])].filter(
        (chart) => chart.section !== OWN,
      ),
      compare.A,
      compare.B,
    ).filter(({ a, b }) => a.length && b.length),
  );
  readonly charts = $derived([...new Set(this.tracks.map(({ chart }) => chart))]);
  readonly #names = $derived({
    a: compare.A.map(({ name }) => name),
    b: compare.B.map(({ name }) => name),
  });
  readonly #more = $derived(this.#shown.filter((chart) => !this.charts.includes(chart)));
  /** null: it is awaited. */
  readonly answer = $derived(this.#leading.of(sidesOf(this.#names)));
  readonly #rows = $derived(
    new Map(
      [...(this.#further.of(sidesOf(this.#names))?.rows ?? []), ...(this.answer?.rows ?? [])].map((row) => [
        trackId(row),
        row.judgement,
      ]),
    ),
  );
  /** The differences that lead, the largest first. */
  readonly leads = $derived(
    (this.answer?.leads ?? []).flatMap((place) => {
      const row = this.answer!.rows[place]!;
      const track = this.tracks.find(({ id }) => id === trackId(row));
      return track ? [{ track, judged: row.judgement }] : [];
    }),
  );

  get failure(): string {
    return this.#leading.failure;
  }

  /** Asks; returns what ends it. */
  want(): () => void {
    const points = compare.runs.reduce((sum, { main }) => sum + main.points, 0);
    const released = [
      ...(this.charts.length ? [this.#leading.want(this.#body(this.charts, this.metric), points)] : []),
      ...(this.#more.length ? [this.#further.want(this.#body(this.#more), points)] : []),
    ];
    return () => released.forEach((release) => release());
  }

  /** Has charts judged while a part of the page shows them. */
  show(charts: readonly Chart[]): () => void {
    this.#shown = charts;
    return () => (this.#shown = []);
  }

  #body(charts: readonly Chart[], metric?: Chart): CompareRequest {
    return {
      ...this.#names,
      charts: charts.filter((chart) => !isOwn(chart)).map(({ id }) => id),
      own: charts.filter(isOwn).map(({ id, lines, lower_is_better }) => ({
        id,
        lines: lines.map(({ tag, expression = false }) => ({ tag, expression })),
        lower_is_better,
      })),
      metric: metric?.id ?? "",
    };
  }

  /** Whether verdicts on what is shown have not come yet. */
  readonly awaited = $derived(
    this.answer === null || (this.#more.length > 0 && this.#further.of(sidesOf(this.#names)) === null),
  );

  /** What the figure of a side in a verdict states. */
  factOf(side: SideName, { chart, split }: Track, { window }: Judgement): Fact | null {
    const runs = side === "A" ? this.#names.a : this.#names.b;
    return ofCompared(runs, { chart: chart.id, split }, window, chart.measure.unit);
  }

  /** null: a side does not have the metric, or the verdict is awaited. */
  of(track: Track): Judgement | null {
    return this.#rows.get(track.id) ?? null;
  }
}

export const verdicts = new Verdicts();
