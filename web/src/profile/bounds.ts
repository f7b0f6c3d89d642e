/** What stretches of a critical path are bound by, and the bars that show how a time is made up. */
import type { Category, DeviceOverlap, StepPath } from "../server/api";

export interface Bound {
  key: string;
  name: string;
  /** What it means, where the name does not say it. */
  title: string;
  category: Category | "idle";
}

/** In the order of a step. */
export const BOUNDS: readonly Bound[] = [
  { key: "data_loading", name: "Data loading", title: "The host loaded data", category: "loading" },
  { key: "host", name: "Host", title: "An operator or a call ran on the host", category: "host" },
  {
    key: "host_gap",
    name: "Host, between operators",
    title: "Python, or what was not recorded; named by what it lies in",
    category: "runtime",
  },
  {
    key: "launch",
    name: "Launch",
    title: "From the call that launches to the start on an idle device",
    category: "optimizer",
  },
  { key: "compute", name: "Compute", title: "The device computed", category: "compute" },
  { key: "communication", name: "Communication", title: "The device communicated", category: "collective" },
  { key: "copy", name: "Copy", title: "The device copied", category: "copy" },
  {
    key: "kernel_gap",
    name: "Between kernels",
    title: "From one piece of work to the next on its stream",
    category: "idle",
  },
  {
    key: "sync",
    name: "Synchronisation",
    title: "From the end of what was waited for to the end of the waiting",
    category: "wait",
  },
  { key: "unknown", name: "Not recorded", title: "Before anything that was recorded", category: "other" },
];

/** The bound of a word that the server says; one that is not known keeps its word. */
export function boundOf(key: string): Bound {
  return BOUNDS.find((one) => one.key === key) ?? { key, name: key, title: key, category: "other" };
}

/** Mean time of a step by bound, those without time left out, and what all sum to. */
export function meanBounds(paths: readonly StepPath[]): { bound: Bound; ns: number; share: number }[] {
  const all = paths.reduce((sum, one) => sum + one.end_ns - one.start_ns, 0);
  return BOUNDS.map((bound) => {
    const ns = paths.reduce((sum, one) => sum + (one.by_bound_ns[bound.key] ?? 0), 0);
    return { bound, ns: ns / Math.max(1, paths.length), share: all ? ns / all : 0 };
  }).filter((one) => one.ns > 0);
}

/** The four parts that fill the time of a device, in the order of the bar. */
export const DEVICE_PARTS = [
  { key: "compute_ns", name: "Computing", category: "compute" },
  { key: "exposed_communication_ns", name: "Exposed communication", category: "collective" },
  { key: "exposed_copy_ns", name: "Exposed copies", category: "copy" },
  { key: "idle_ns", name: "Idle", category: "idle" },
] as const;

export interface DeviceMean {
  rank: number;
  device: number;
  steps: number;
  window_ns: number;
  communication_ns: number;
  parts: { key: string; name: string; category: Category | "idle"; ns: number }[];
  /** Share of all its communication behind computation; null where it had none. */
  overlap_ratio: number | null;
}

/** Mean of each device over its steps, in the order of ranks and devices. */
export function deviceMeans(rows: readonly DeviceOverlap[]): DeviceMean[] {
  const devices = new Map<string, DeviceOverlap[]>();
  for (const row of rows) {
    const key = `${row.rank} ${row.device}`;
    devices.set(key, [...(devices.get(key) ?? []), row]);
  }
  return [...devices.values()].map((mine) => {
    const mean = (of: (row: DeviceOverlap) => number): number =>
      mine.reduce((sum, row) => sum + of(row), 0) / mine.length;
    const [communication, exposed] = [
      mean((row) => row.communication_ns),
      mean((row) => row.exposed_communication_ns),
    ];
    return {
      rank: mine[0]!.rank,
      device: mine[0]!.device,
      steps: mine.length,
      window_ns: mean((row) => row.window_ns),
      communication_ns: communication,
      parts: DEVICE_PARTS.map((part) => ({ ...part, ns: mean((row) => row[part.key]) })),
      overlap_ratio: communication > 0 ? 1 - exposed / communication : null,
    };
  });
}
