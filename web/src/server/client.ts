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

/** Why there is no answer, and what to do. */
export interface Failed {
  message: string;
  hint: string;
}

export function failed(error: unknown): Failed {
  if (error instanceof Refused) return { message: error.message, hint: error.hint };
  const hint = "It may be busy reading a large file. Reload the page to ask again";
  return { message: "The server did not answer", hint };
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

type About = Record<string, string | number | null>;

/** A question and what it is about, as it stands in an address; null is not said. */
export function question(name: string, about: About): string {
  const said = Object.entries(about).flatMap(([key, value]) =>
    value === null ? [] : [`${key}=${encodeURIComponent(value)}`],
  );
  return [name, said.join("&")].filter(Boolean).join(name.includes("?") ? "&" : "?");
}

/** The answer to a question, as the server wrote it. */
export async function told<Answer>(name: string, about: About = {}, patienceMs?: number): Promise<Answer> {
  return (await (await ask(question(name, about), {}, patienceMs)).json()) as Answer;
}

/** What the server says to what is sent. */
export async function sent<Answer>(path: string, body: unknown, patienceMs?: number): Promise<Answer> {
  return (await (await post(path, body, patienceMs)).json()) as Answer;
}

export const fetchChanges = (cursor: string | null): Promise<Changes> => told("changes", { cursor });

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
export const checkExpression = (text: string): Promise<ExpressionAnswer> => told("expression", { text });

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
