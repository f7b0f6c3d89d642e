/** What is recorded of a run, as names and texts; what is not recorded is left out. */
import type { Family } from "./catalog";
import { count, percent } from "../format/number";
import { STATE_TONES, elapsed, stateText, type Tone } from "./state";
import { clock, duration } from "../format/time";

export interface Fact {
  name: string;
  text: string;
  tone: Tone;
}

export function facts({ main, runs }: Family, now: number): Fact[] {
  const found: Fact[] = [];
  const add = (name: string, text: string | null, tone: Tone = ""): void => {
    if (text !== null) found.push({ name, text, tone });
  };
  add("State", stateText(main).text, STATE_TONES[main.state]);
  add("Reason", main.reason, STATE_TONES[main.state]);
  add("Started", main.started === null ? null : clock(main.started, now));
  add("Duration", duration0(elapsed(main, now)));
  add("Points", count(main.points));
  add("Recording", cost(main.overhead_ratio, main.dropped), main.dropped ? "bad" : "");
  add("Attempts", main.attempts > 1 ? count(main.attempts) : null);
  add("Writers", main.writers > 1 ? count(main.writers) : null);
  add(
    "With",
    runs.length > 1
      ? runs
          .slice(1)
          .map((run) => run.name)
          .join(", ")
      : null,
  );
  add("Tags", main.labels.length ? main.labels.join(", ") : null);
  add("Host", main.host);
  add("Stepscope", main.version);
  return found;
}

const duration0 = (seconds: number | null): string | null => (seconds === null ? null : duration(seconds));

/** Share of time and points lost; null where neither is recorded. */
export function cost(ratio: number | null, dropped: number | null): string | null {
  if (ratio === null && dropped === null) return null;
  const parts = [
    ratio === null ? null : percent(ratio),
    dropped === null ? null : `${count(dropped)} dropped`,
  ];
  return parts.filter((part) => part !== null).join(", ");
}
