/** Runs, charts, lines and findings for tests. */
import type { Chart, RunFinding, RunFindings, RunSummary } from "../server/api";
import type { Family } from "./catalog";
import type { DrawLine } from "../series/shape";

export function runOf(name: string, extra: Partial<RunSummary> = {}): RunSummary {
  return {
    name,
    base: name,
    split: null,
    parent: null,
    state: "finished",
    reason: null,
    step: 100,
    total_steps: null,
    started: 1000,
    updated: 2000,
    attempts: 1,
    writers: 1,
    points: 10,
    tags: ["loss"],
    labels: [],
    config: {},
    seeds: [],
    problems: [],
    overhead_ratio: null,
    profiles_ratio: null,
    overhead_us_per_step: null,
    dropped: null,
    title: null,
    note: "",
    archived: false,
    step_notes: [],
    colour: null,
    steps_per_second: null,
    step_time: null,
    eta_seconds: null,
    eta_between: null,
    host: null,
    version: null,
    ...extra,
  };
}

export function familyOf(name: string, runs: RunSummary[] = [runOf(name)]): Family {
  return { name, main: runs[0]!, runs };
}

export function chartOf(tag: string, extra: Partial<Chart> = {}): Chart {
  const unit = extra.unit ?? null;
  return {
    id: tag,
    title: tag,
    short: tag,
    section: "",
    kind: "other",
    split: null,
    role: null,
    tier: "recorded",
    place: 0,
    section_place: 5,
    own_cost: false,
    lower_is_better: null,
    unit,
    measure: unit === "ratio" ? { factor: 100, unit: "%" } : { factor: 1, unit: unit ?? "" },
    lines: [{ tag, split: null }],
    ...extra,
  };
}

export function lineOf(run: string, x: number[], y: number[], extra: Partial<DrawLine> = {}): DrawLine {
  const values = Float64Array.from(y);
  return {
    id: run,
    run,
    tag: "loss",
    split: null,
    writer: "w",
    attempt: 1,
    x: Float64Array.from(x),
    y: values,
    raw: values,
    low: null,
    high: null,
    first: null,
    smoothed: false,
    group: null,
    members: 1,
    counts: null,
    end: x.length,
    nonfinite: [],
    points: x.length,
    bad: 0,
    last: null,
    ...extra,
  };
}

export function findingOf(changes: Partial<RunFinding> = {}): RunFinding {
  return {
    rule: "loss-spike",
    severity: "medium",
    title: "Loss spike",
    summary: "",
    tag: "train/loss",
    part: "",
    fact: null,
    in_profile: [],
    layer: null,
    rank: null,
    first_step: 0,
    step: 1200,
    wall: 0,
    closed_step: null,
    values: {},
    threshold: {},
    action: "",
    stack: [],
    also: [],
    causes: [],
    batches: [],
    rewind: [],
    stage: "",
    ...changes,
    since_step: changes.since_step ?? changes.step ?? 1200,
  };
}

export function findingsOf(
  run: string,
  findings: RunFinding[],
  extra: Partial<RunFindings> = {},
): RunFindings {
  return {
    run,
    attempt: 1,
    findings,
    abstained: [],
    verdict: "not judged",
    short: "not judged",
    coverage: [],
    passed: [],
    more: {},
    forecast: [],
    batch_size: null,
    ...extra,
  };
}
