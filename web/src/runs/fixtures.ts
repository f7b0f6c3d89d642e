/** Runs and lines for tests. */
import type { RunFinding, RunSummary } from "../server/api";
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
