/** Charts in sections, filtered by a regex. */
import type { Chart } from "../server/api";
import { byName } from "../runs/catalog";
import { compileRegex, reasonOf } from "../regex/regex.svelte";

export interface Section {
  name: string;
  charts: Chart[];
  /** Charts of the section that the filter leaves out. */
  filtered: number;
}

export interface Filter {
  test: (chart: Chart) => boolean;
  /** Why the text is not a regex; then nothing is filtered. */
  error: string | null;
}

/** Reads the filter text; it is tested against titles and tags, without regard to case. */
export function parseFilter(text: string): Filter {
  if (!text) return { test: () => true, error: null };
  try {
    const pattern = compileRegex(text, { ignoreCase: true });
    const test = (chart: Chart): boolean =>
      pattern.test(chart.title) || chart.lines.some((line) => pattern.test(line.tag));
    return { test, error: null };
  } catch (error) {
    return { test: () => true, error: reasonOf(error) };
  }
}

export interface Arranged {
  /** Whether sections go by the first two parts of the path, not by the first alone. */
  deep?: boolean;
  /** Charts that the user moved, as `chart\tthe one that it stands before`, in the order in which it was done. */
  moved?: readonly string[];
}

/** Sections in the order that tells most first; charts in the order of the server, as far as none was moved. */
export function sectionsOf(
  charts: readonly Chart[],
  filter: Filter,
  { deep = false, moved = [] }: Arranged = {},
): Section[] {
  const sections = new Map<string, Section & { place: number }>();
  for (const chart of charts) {
    const name = deep ? deepSection(chart) : chart.section;
    let section = sections.get(name);
    if (!section) {
      section = { name, charts: [], filtered: 0, place: chart.section_place };
      sections.set(name, section);
    }
    if (filter.test(chart)) section.charts.push(chart);
    else section.filtered += 1;
  }
  return [...sections.values()]
    .filter((section) => section.charts.length > 0)
    .sort((a, b) => a.place - b.place || byName(a.name, b.name))
    .map(({ name, charts, filtered }) => ({ name, charts: arranged(charts, moved), filtered }));
}

/** The first two parts of the path of a chart that has more than two. */
function deepSection({ section, title, lines }: Chart): string {
  const parts = (title.startsWith(`${section}/`) ? title : (lines[0]?.tag ?? title)).split("/");
  return parts.length > 2 && parts[0] === section ? `${section}/${parts[1]}` : section;
}

/** Charts with those that were moved in their new places. */
export function arranged(charts: readonly Chart[], moved: readonly string[]): Chart[] {
  const order = [...charts];
  for (const text of moved) {
    const [id, before] = text.split("\t");
    const from = order.findIndex((chart) => chart.id === id);
    if (from < 0 || (before !== "" && !order.some((chart) => chart.id === before))) continue;
    const [chart] = order.splice(from, 1);
    const to = before === "" ? order.length : order.findIndex((one) => one.id === before);
    order.splice(to, 0, chart!);
  }
  return order;
}
