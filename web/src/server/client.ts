/** Questions to the server. Addresses are relative: the page works under any prefix. */
import {
  API,
  type Changes,
  type ChartRequest,
  type ExpressionAnswer,
  type Failure,
  type SeriesRequest,
} from "./api";
import type { Report } from "./answers";
import { report } from "./report";
import { decodeFrame, type DecodedChart } from "./wire";

/** The server answered that it will not; `hint` says what to do. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

/** What went wrong, in the words of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

const PATIENCE_MS = 15_000;

/** For questions that have a large profile read first. */
export const READING_MS = 600_000;

export async function ask(path: string, init: RequestInit = {}, patienceMs = PATIENCE_MS): Promise<Response> {
  if (report) return heldBy(report, path);
  asking += 1;
  try {
    const answer = await fetch(API + path, { ...init, signal: AbortSignal.timeout(patienceMs) });
    if (!answer.ok) throw await refusal(answer);
    return answer;
  } finally {
    asking -= 1;
  }
}

async function heldBy(held: Report, question: string): Promise<Response> {
  const answer = held.answer(question);
  if (answer?.ok) return answer;
  if (answer) throw await refusal(answer);
  const hint = "stepscope serve LOGDIR shows everything that was recorded";
  throw new Refused(404, "this report does not hold that", hint);
}

/** Where the browser itself fetches an answer. */
export const addressOf = (question: string): string =>
  report ? (report.address(question) ?? "") : API + question;

let asking = 0;

/** Whether an answer is on its way. */
export const isAsking = (): boolean => asking > 0;

async function refusal(answer: Response): Promise<Refused> {
  try {
    const failure = (await answer.json()) as Failure;
    return new Refused(answer.status, failure.error, failure.hint);
  } catch {
    return new Refused(answer.status, `the server answered ${answer.status}`, "");
  }
}

export async function fetchChanges(cursor: string | null): Promise<Changes> {
  const answer = await ask(cursor === null ? "changes" : `changes?cursor=${encodeURIComponent(cursor)}`);
  return (await answer.json()) as Changes;
}

export async function post(path: string, body: unknown, patienceMs?: number): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", body: JSON.stringify(body), headers }, patienceMs);
}

export async function fetchSeries(charts: ChartRequest[]): Promise<DecodedChart[]> {
  if (report) return report.series(charts);
  const body: SeriesRequest = { charts };
  const answer = await post("series", body);
  return decodeFrame(await answer.arrayBuffer());
}

/** The tags of an expression, or what is wrong with it. */
export async function checkExpression(text: string): Promise<ExpressionAnswer> {
  const answer = await ask(`expression?text=${encodeURIComponent(text)}`);
  return (await answer.json()) as ExpressionAnswer;
}

/** Address of all points of some series, in one file; where another tag is the x axis, with their place on it. */
export function pointsAddress(
  lines: readonly { run: string; tag: string; expression?: boolean }[],
  format: "csv" | "json",
  xTag: string | null = null,
): string {
  const pairs = lines.map(
    ({ run, tag, expression }) =>
      `run=${encodeURIComponent(run)}&tag=${encodeURIComponent(expression ? `=${tag}` : tag)}`,
  );
  return addressOf(
    `points?${pairs.join("&")}&format=${format}${xTag === null ? "" : `&x_tag=${encodeURIComponent(xTag)}`}`,
  );
}
