/** Charts in sections, filtered by a regex. */
import type { Chart } from "../server/api";
import { byName } from "../runs/catalog";

export interface Section {
  name: string;
  charts: Chart[];
  /** Charts of the section that the filter leaves out. */
  filtered: number;
}

export interface Filter {
  test: (chart: Chart) => boolean;
  /** Why the text is no regex; then nothing is filtered. */
  error: string | null;
}

/** Reads the filter text; it is tested against titles and tags, without regard to case. */
export function parseFilter(text: string): Filter {
  if (!text) return { test: () => true, error: null };
  try {
    const pattern = new RegExp(text, "i");
    const test = (chart: Chart): boolean =>
      pattern.test(chart.title) || chart.lines.some((line) => pattern.test(line.tag));
    return { test, error: null };
  } catch (error) {
    const reason =
      error instanceof Error ? error.message.replace(/^Invalid regular expression: /, "") : String(error);
    return { test: () => true, error: `Not a regex: ${reason.replace(/^\/.*\/[a-z]*: /s, "")}` };
  }
}

/** Sections in the order that tells most first; charts in the order of the server. */
export function sectionsOf(charts: readonly Chart[], filter: Filter): Section[] {
  const sections = new Map<string, Section>();
  for (const chart of charts) {
    let section = sections.get(chart.section);
    if (!section) sections.set(chart.section, (section = { name: chart.section, charts: [], filtered: 0 }));
    if (filter.test(chart)) section.charts.push(chart);
    else section.filtered += 1;
  }
  return [...sections.values()]
    .filter((section) => section.charts.length > 0)
    .sort((a, b) => weight(a.name) - weight(b.name) || byName(a.name, b.name));
}

/** What a run is about comes first, its own cost last. */
function weight(section: string): number {
  const known = ["metrics", "train", "eval", "loss", "health", "speed", "system", "stepscope"].indexOf(
    section,
  );
  if (section === "speed" || section === "system") return 50 + known;
  if (section === "stepscope") return 100;
  return known < 0 ? 20 : known;
}
