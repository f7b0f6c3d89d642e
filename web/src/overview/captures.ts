/** Profiles that a run took of itself, as the overview shows them. */
import { px } from "../format/path";
import type { Capture, CaptureList } from "../server/api";
import { told } from "../server/client";
import { sentence } from "../runs/findings";
import type { Change } from "../view/view";
import { PARTS } from "../profile/questions";

/** Times of one part of a step over all profiled steps. */
export interface Part {
  part: string;
  mean_ns: number;
  min_ns: number;
  median_ns: number;
  max_ns: number;
  ratio: number | null;
}

export interface Operation {
  name: string;
  ns: number;
  ratio: number;
  calls: number | null;
}

export interface Advice {
  rule: string;
  severity: string;
  summary: string;
  action: string;
  /** What is to blame, as far as it is known. */
  place: { file?: string; line?: number; function?: string };
  /** Its longest events. */
  events: { row: number; start_ns: number; duration_ns: number }[];
}

/** `digits.py:92 read_from_a_busy_disk`; "" where no line is known. */
export function lineOf({ place }: Advice): string {
  if (!place.file) return "";
  const file = place.file.split(/[\\/]/).at(-1)!;
  return [place.line === undefined ? file : `${file}:${place.line}`, place.function ?? ""].join(" ").trim();
}

/** What a device's memory held at its fullest. */
export interface Peak {
  /** "host", "device 0". */
  name: string;
  bytes: number;
  step: number | null;
  capacity: number | null;
  /** Module scopes where they were recorded, else operators; the largest first. */
  holders: { name: string; bytes: number }[];
}

/** What `stepscope glance` says of a profile, as far as the overview uses it. */
export interface Glance {
  steps: {
    numbers: number[];
    count: number;
    mean_ns: number | null;
    min_ns: number | null;
    median_ns: number | null;
    max_ns: number | null;
  } | null;
  parts: Part[];
  operations: Operation[];
  onDevice: boolean;
  /** Whether operations are told by their part of the step, rather than by device or host time. */
  inStep: boolean;
  advice: Advice[];
  peaks: Peak[];
  /** Whether stacks were recorded. */
  stacks: boolean;
  /** What was not recorded, or could not be told. */
  notes: string[];
}

export const fetchCaptures = (run: string): Promise<CaptureList> => told("captures", { run });

type Row = Record<string, unknown>;

function rows(value: unknown): Row[] {
  return Array.isArray(value)
    ? value.filter((each): each is Row => typeof each === "object" && each !== null)
    : [];
}

function numberIn(row: Row, key: string): number | null {
  const value = row[key];
  return typeof value === "number" ? value : null;
}

function textIn(row: Row, key: string): string {
  const value = row[key];
  return typeof value === "string" ? value : "";
}

/** Read a summary that the server passed on as the run's files hold it; what is missing is empty. */
export function glanceOf(summary: Row | null): Glance | null {
  if (summary === null) return null;
  const steps = summary.steps as Glance["steps"] | undefined;
  const table = rows((summary.operations as Row | null)?.rows);
  const onDevice = table.some((row) => numberIn(row, "device_ns") !== null);
  const inStep = table.some((row) => numberIn(row, "step_ns") !== null);
  const where = inStep ? "step" : onDevice ? "device" : "host";
  return {
    steps: steps && steps.count > 0 ? steps : null,
    parts: rows(summary.parts) as unknown as Part[],
    // The first row is all of them together.
    operations: table.slice(1).map((row) => ({
      name: textIn(row, "name"),
      ns: numberIn(row, `${where}_ns`) ?? 0,
      ratio: numberIn(row, `${where}_ratio`) ?? 0,
      calls: numberIn(row, "calls"),
    })),
    onDevice,
    inStep,
    advice: rows(summary.advice).map((row) => ({
      rule: textIn(row, "rule"),
      severity: textIn(row, "severity"),
      summary: textIn(row, "summary"),
      action: textIn(row, "action"),
      place: (row.place as Advice["place"] | null) ?? {},
      events: rows(row.events) as unknown as Advice["events"],
    })),
    peaks: peaksOf(rows(summary.memory)),
    stacks: Array.isArray(summary.recorded) && summary.recorded.includes("stacks"),
    notes: Array.isArray(summary.notes) ? summary.notes.map(String) : [],
  };
}

function peaksOf(devices: Row[]): Peak[] {
  return devices.flatMap((row) => {
    const bytes = numberIn(row, "peak_bytes");
    if (bytes === null) return [];
    const scopes = rows(row.by_scope);
    const holders = (scopes.length ? scopes : rows(row.by_operator)).map((each) => ({
      name: textIn(each, "name").replaceAll("nn.Module: ", ""),
      bytes: numberIn(each, "bytes") ?? 0,
    }));
    const device = numberIn(row, "device") ?? -1;
    return [
      {
        name: device < 0 ? "host" : `device ${device}`,
        bytes,
        step: numberIn(row, "peak_step"),
        capacity: numberIn(row, "capacity_bytes"),
        holders,
      },
    ];
  });
}

/** What memory held at most at the end of a step: name of the level, bytes. */
export function levelsOf(capture: Capture): [string, number][] {
  const most = new Map<string, number>();
  for (const row of rows(capture.memory)) {
    for (const [key, value] of Object.entries(row)) {
      if (key.endsWith("_bytes") && typeof value === "number")
        most.set(key, Math.max(most.get(key) ?? 0, value));
    }
  }
  return [...most].map(([key, value]) => [key.replace(/_bytes$/, "").replaceAll("_", " "), value]);
}

export interface Analysed {
  capture: Capture;
  glance: Glance;
}

/** The captures that have been analysed, the newest first, with what is said of them. */
export function analysed(captures: readonly Capture[]): Analysed[] {
  return captures.flatMap((capture) => {
    const glance = glanceOf(capture.summary);
    return glance === null ? [] : [{ capture, glance }];
  });
}

/** What its reader should know of a profile: events that were lost, what could not be recorded and why. */
export function remarks(capture: Capture, glance: Glance): string[] {
  const lost = Object.entries(capture.dropped).map(
    ([what, number]) => `${String(number)} ${what.replaceAll("_", " ")} not kept`,
  );
  return [...new Set([...capture.notes, ...lost, ...glance.notes])].map(sentence);
}

/** Seconds after which nobody is at work on a summary any more, as `capture/side.py` has it. */
const LIMIT_SECS = 600;

/** Why a profile has no summary, "" where nobody was left to say; null while it may still be made. */
export function notAnalysed(capture: Capture, now: number): string | null {
  if (capture.not_analysed !== null) return capture.not_analysed;
  return capture.wall !== null && now - capture.wall > LIMIT_SECS ? "" : null;
}

/** A step before one that something asked to be captured. */
export interface Past {
  step: number;
  seconds: number;
  /** Seconds it waited for data; null where nobody measured that. */
  waited: number | null;
}

export function pastOf(capture: Capture): Past[] {
  const rows = capture.before.filter(
    (row): row is [number, number, number | null] =>
      Array.isArray(row) && typeof row[0] === "number" && typeof row[1] === "number",
  );
  return rows.map(([step, seconds, waited]) => ({
    step,
    seconds,
    waited: typeof waited === "number" ? waited : null,
  }));
}

/** Bars of one unit's width, as high as their values in the given height. */
export function barsPath(values: readonly number[], most: number, height: number): string {
  return values
    .map((value, at) =>
      value > 0 && most > 0
        ? `M${at} ${height}V${px(height * (1 - Math.min(1, value / most)), 2)}h1V${height}`
        : "",
    )
    .join("");
}

/** The captures that failed, newest first, each reason once. */
export function failures(captures: readonly Capture[]): Capture[] {
  const reasons = new Set<string>();
  return captures.filter(
    (each) => each.failure !== null && !reasons.has(each.failure) && reasons.add(each.failure),
  );
}

/** The view that shows a captured profile from its beginning. */
export function viewOf(path: string): Change {
  return {
    page: "profile",
    profile: { path, tab: "summary", steps: "", window: null, event: null, find: "" },
  };
}

/** Why a capture was made: `on request, by the page`. */
export function causeText(capture: Capture): string {
  const cause = capture.cause === "request" ? "on request" : (capture.cause ?? "");
  return [cause, capture.reason].filter((text) => text).join(", ");
}

/** The same, of one rank of several. */
export function rankAndCause(capture: Capture): string {
  return [(capture.world_size ?? 1) > 1 ? `rank ${capture.rank}` : "", causeText(capture)]
    .filter((text) => text)
    .join(", ");
}

const COLOURS: Record<string, string> = {
  data_loading: "--part-loading",
  forward: "--part-forward",
  backward: "--part-backward",
  optimizer: "--part-optimizer",
  other: "--part-compute",
  communication: "--part-collective",
  copy: "--part-copy",
};

/** Colour of a part of the step; idle has none and is hatched. */
export function partColour(part: string): string | null {
  const name = COLOURS[part];
  return name === undefined ? null : `var(${name})`;
}

export function partName(part: string): string {
  return PARTS.find(({ key }) => key === part)?.name ?? sentence(part.replaceAll("_", " "));
}
