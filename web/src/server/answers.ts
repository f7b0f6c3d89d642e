/** A report: the page as one file, with the answers that a server gave when it was written. */
import type { Changes, ChartRequest, LineRequest } from "./api";
import { decodeFrame, type DecodedChart } from "./wire";

/** An answer to `GET path?query`. */
export interface ReportAnswer {
  path: string;
  query: Record<string, string>;
  /** Other than 200: why the server refused. */
  status?: number;
  json?: unknown;
  /** Bytes in base64, of a type. */
  bytes?: string;
  type?: string;
}

export interface Answers {
  /** Pages that have something to show. */
  pages: string[];
  /** The place that is opened, as in the address behind `#`. */
  opens: string;
  answers: ReportAnswer[];
  charts: { request: ChartRequest; frame: string }[];
}

/** What of a question only says how finely to answer: a report holds one fineness. */
const FINENESS: Record<string, readonly string[]> = {
  captures: ["request"],
  record: ["limit"],
  table: ["limit", "offset"],
  "ranks/frontier": ["columns"],
  "ranks/steps": ["columns"],
  timeline: ["start", "end", "pixels", "lanes"],
  tracks: ["start", "end", "pixels", "tracks"],
  "profile/memory": ["points"],
  "profile/path": ["pieces"],
};

export class Report {
  readonly pages: readonly string[];
  readonly opens: string;
  readonly #answers = new Map<string, ReportAnswer>();
  readonly #charts = new Map<string, { request: ChartRequest; frame: string }[]>();
  readonly #addresses = new Map<ReportAnswer, string>();
  /** Questions that it could not answer. */
  readonly missed: string[] = [];

  constructor({ pages, opens, answers, charts }: Answers) {
    this.pages = pages;
    this.opens = opens;
    for (const answer of answers) this.#answers.set(keyOf(answer.path, Object.entries(answer.query)), answer);
    for (const chart of charts) {
      const key = linesOf(chart.request.lines);
      this.#charts.set(key, [...(this.#charts.get(key) ?? []), chart]);
    }
  }

  /** The answer to a question; null: the report does not hold it. */
  answer(question: string): Response | null {
    const answer = this.#find(question);
    if (!answer) return null;
    if (answer.bytes !== undefined) return new Response(bytesOf(answer.bytes));
    const later = answer.path === "changes" && question.includes("cursor=");
    return Response.json(later ? nothingNew(answer.json as Changes) : answer.json, {
      status: answer.status ?? 200,
    });
  }

  /** Address of the bytes of an answer; null: the report does not hold them. */
  address(question: string): string | null {
    const answer = this.#find(question);
    if (answer?.bytes === undefined) return null;
    let address = this.#addresses.get(answer);
    if (address === undefined) {
      address = URL.createObjectURL(new Blob([bytesOf(answer.bytes)], { type: answer.type ?? "" }));
      this.#addresses.set(answer, address);
    }
    return address;
  }

  /** The series of charts, whole and as finely as they are held; a chart that is not held has no line. */
  series(requests: readonly ChartRequest[]): DecodedChart[] {
    return requests.map((request) => {
      const smoothing = request.smoothing ?? 0;
      const [nearest] = (this.#charts.get(linesOf(request.lines)) ?? []).toSorted(
        (a, b) =>
          Math.abs((a.request.smoothing ?? 0) - smoothing) - Math.abs((b.request.smoothing ?? 0) - smoothing),
      );
      return nearest
        ? { ...decodeFrame(bytesOf(nearest.frame).buffer)[0]!, id: request.id }
        : this.#composed(request);
    });
  }

  /** A chart of lines that are held one by one; those that share the places of means have no common ones. */
  #composed(request: ChartRequest): DecodedChart {
    const parts =
      request.lines.length > 1
        ? this.series(request.lines.map((line) => ({ ...request, lines: [line] })))
        : [];
    const raw = parts.filter(({ mode, lines }) => mode === "raw" && lines.length > 0);
    if (raw.length < request.lines.length) {
      this.missed.push(`series ${linesOf(request.lines)}`);
      return noChart(request);
    }
    return {
      ...raw[0]!,
      id: request.id,
      x0: Math.min(...raw.map(({ x0 }) => x0 ?? Infinity)),
      x1: Math.max(...raw.map(({ x1 }) => x1 ?? -Infinity)),
      total_points: raw.reduce((sum, { total_points }) => sum + total_points, 0),
      shown_points: raw.reduce((sum, { shown_points }) => sum + shown_points, 0),
      lines: raw.flatMap(({ lines }) => lines),
    };
  }

  #find(question: string): ReportAnswer | undefined {
    const [path = "", query = ""] = question.split("?");
    const answer = this.#answers.get(keyOf(path, new URLSearchParams(query)));
    if (!answer) this.missed.push(question);
    return answer;
  }
}

function keyOf(path: string, query: Iterable<[string, string]>): string {
  const loose = path === "changes" ? ["cursor"] : (FINENESS[path] ?? []);
  const pairs = [...query].filter(([name, value]) => value !== "" && !loose.includes(name)).sort();
  return JSON.stringify([path, pairs]);
}

const linesOf = (lines: readonly LineRequest[]): string =>
  JSON.stringify(lines.map(({ run, tag, expression }) => [run, tag, expression ?? false]).sort());

const nothingNew = (first: Changes): Changes => ({
  ...first,
  reset: false,
  runs: [],
  removed: [],
  dirty: {},
  charts: null,
});

const noChart = ({ id, x, lines }: ChartRequest): DecodedChart => ({
  id,
  x: x ?? "step",
  x0: null,
  x1: null,
  mode: "raw",
  buckets: 0,
  total_points: 0,
  shown_points: 0,
  x_values: null,
  lines: [],
  missing: lines,
});

const bytesOf = (base64: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));

/** Reads what a report holds: gzip of its answers as JSON, in base64. */
export async function unpacked(packed: string): Promise<Report> {
  const whole = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Report((await new Response(whole).json()) as Answers);
}
