/** The profile that is open. */
import type { ProfileEntry, ProfileList, ProfileSummary } from "../server/api";
import { failed, type Failed } from "../server/client";
import { fetchProfile, fetchProfiles } from "./questions";
import { app } from "../state/app.svelte";
import { titlesOf } from "./titles";

const LOOK_AGAIN_MS = 5_000;

/** Numbers of the marked steps, each once whatever the ranks. */
export function stepNumbers(summary: ProfileSummary): number[] {
  return [...new Set(summary.steps.map((step) => step.number).filter((number) => number >= 0))].sort(
    (a, b) => a - b,
  );
}

const numberless = (path: string): string => path.replace(/\d+/g, "#");

/** Wall time of each step, the longest of its ranks. */
export function stepWalls(summary: ProfileSummary): Map<number, number> {
  const walls = new Map<number, number>();
  for (const step of summary.steps)
    walls.set(step.number, Math.max(walls.get(step.number) ?? 0, step.wall_ns));
  return walls;
}

class Profiles {
  list = $state.raw<ProfileList | null>(null);
  summary = $state.raw<ProfileSummary | null>(null);
  failure = $state.raw<Failed | null>(null);
  #asked: string | null = null;
  /** By the path of each. */
  titles = $derived(titlesOf(this.list?.profiles ?? []));

  /** The profile that is shown: the one in the address, else the newest of the run in the address, else that of
   * the only run, else the newest. */
  entry = $derived.by((): ProfileEntry | null => {
    const profiles = this.list?.profiles ?? [];
    const named = profiles.find((entry) => entry.path === app.view.profile.path);
    if (named) return named;
    // A capture of several files is known by its directory.
    const inside =
      app.view.profile.path && profiles.find((entry) => entry.path.startsWith(`${app.view.profile.path}/`));
    if (inside) return inside;
    const mine = profiles.find((entry) => entry.run !== null && this.#wanted.includes(entry.run));
    return mine ?? (app.view.runs.selected === null ? (profiles[0] ?? null) : null);
  });

  /** Names of the runs whose newest profile is meant: of the one in the address, else of the only one. */
  #wanted = $derived.by((): string[] => {
    const name = app.view.runs.selected;
    const family = name === null ? app.single : app.catalog.families.find((each) => each.name === name);
    if (family) return family.runs.map((one) => one.name);
    return name === null ? [] : [name];
  });

  /** Profiles of one run and rank over training time, the oldest first, the given one among them; beside the runs, those whose paths differ in numbers alone. */
  series(path: string): ProfileEntry[] {
    const every = this.list?.profiles ?? [];
    const mine = every.find((entry) => entry.path === path);
    if (!mine) return [];
    const alike = every.filter(
      (entry) =>
        entry.run === mine.run &&
        entry.rank === mine.rank &&
        entry.format === mine.format &&
        entry.files === mine.files &&
        (mine.run !== null || numberless(entry.path) === numberless(mine.path)),
    );
    return alike.sort((a, b) => a.path.localeCompare(b.path, "en", { numeric: true }));
  }

  /** Looks for profiles now and then; returns what ends that. */
  watch(): () => void {
    void this.look();
    const timer = setInterval(() => !document.hidden && void this.look(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }

  async look(): Promise<void> {
    try {
      const list = await fetchProfiles();
      if (!this.list) this.failure = null;
      if (JSON.stringify(list) !== JSON.stringify(this.list)) this.list = list;
    } catch (error) {
      // What is shown stays: the badge says that the server does not answer.
      if (!this.list) this.failure = failed(error);
    }
  }

  async open(path: string, again = false): Promise<void> {
    if (this.#asked === path && !again) return;
    this.#asked = path;
    this.failure = null;
    if (this.summary?.path !== path) this.summary = null;
    try {
      const summary = await fetchProfile(path);
      if (this.#asked === path) this.summary = summary;
    } catch (error) {
      if (this.#asked === path) this.failure = failed(error);
      this.#asked = null;
    }
  }
}

export const profiles = new Profiles();
