/** Everything that can be done by a key or from the palette. */
import { PAGES, type Page } from "../view/view";
import { app } from "./app.svelte";
import { charts } from "./charts.svelte";
import { compare } from "./compare.svelte";
import { cursor } from "./cursor.svelte";
import { rights } from "./rights.svelte";
import { runs } from "./runs.svelte";
import { resetZoom } from "./zoom";
import { ui } from "./ui.svelte";

export interface Command {
  label: string;
  /** As `KeyboardEvent.key`, lower case; `mod+` for ⌘ or Ctrl. */
  key: string;
  group: "Page" | "Runs" | "Charts" | "View";
  run: () => void;
  /** It changes what others see too; who only looks does not have it. */
  changes?: true;
}

export const PAGE_NAMES: Record<Page, string> = {
  overview: "Overview",
  scalars: "Scalars",
  distributions: "Distributions",
  media: "Media",
  text: "Text & config",
  graph: "Graph",
  profile: "Profile",
  ranks: "Ranks",
  compare: "Compare",
  sql: "SQL",
};

const onCompare = (act: () => void) => (): void => {
  if (app.view.page === "compare") act();
};

const selected = (act: (name: string) => void) => (): void => {
  const name = cursor.state.family ?? app.selected?.name;
  if (name !== undefined && name !== null) act(name);
};

export const COMMANDS: readonly Command[] = [
  ...PAGES.map((page, at): Command => ({
    label: PAGE_NAMES[page],
    key: String((at + 1) % 10),
    group: "Page",
    run: () => app.set({ page }),
  })),
  {
    label: "Search in all commands, charts and runs",
    key: "mod+k",
    group: "View",
    run: () => ui.toggle("palette"),
  },
  { label: "Keyboard and help", key: "?", group: "View", run: () => ui.toggle("help") },
  { label: "Write a run query", key: "/", group: "View", run: () => ui.focus("run-query") },
  { label: "Filter charts by a regex", key: "g", group: "Charts", run: () => charts.focusFilter() },
  { label: "Runs rail", key: "[", group: "View", run: () => ui.toggleRail() },
  {
    label: "Details of the selected run",
    key: "]",
    group: "View",
    run: () => app.set({ panels: { details: !app.view.panels.details } }),
  },
  {
    label: "Light or dark",
    key: "t",
    group: "View",
    run: () => app.setTheme(app.theme === "dark" ? "light" : "dark"),
  },
  { label: "Copy a link to this view", key: "y", group: "View", run: () => void ui.copyLink() },
  { label: "Undo", key: "mod+z", group: "View", run: () => app.undo() },
  { label: "Next run", key: "j", group: "Runs", run: () => runs.move(1) },
  { label: "Previous run", key: "k", group: "Runs", run: () => runs.move(-1) },
  { label: "Show or hide the run", key: "x", group: "Runs", run: selected((name) => runs.toggle(name)) },
  { label: "Show only the run", key: "s", group: "Runs", run: selected((name) => runs.solo(name)) },
  {
    label: "Make the run the baseline",
    key: "b",
    group: "Runs",
    run: selected((name) => runs.baseline(name)),
  },
  {
    label: "Name, note and tags of the run",
    key: "n",
    group: "Runs",
    run: selected((name) => ui.about("run", name)),
    changes: true,
  },
  {
    label: "Note on the step at the cursor",
    key: "m",
    group: "Charts",
    run: () => noteStep(),
    changes: true,
  },
  {
    label: "Delete the run…",
    key: "",
    group: "Runs",
    run: selected((name) => ui.about("delete", name)),
    changes: true,
  },
  { label: "Trash", key: "", group: "Runs", run: () => ui.about("trash", null), changes: true },
  {
    label: "On Compare: put the run on side A, or take it off",
    key: "a",
    group: "Runs",
    run: onCompare(selected((name) => compare.toggle("A", name))),
  },
  {
    label: "On Compare: put the run on side B, or take it off",
    key: "v",
    group: "Runs",
    run: onCompare(selected((name) => compare.toggle("B", name))),
  },
  { label: "On Compare: swap A and B", key: "u", group: "Runs", run: onCompare(() => compare.swap()) },
  { label: "Pin the chart under the cursor, else the run", key: "p", group: "Charts", run: () => pin() },
  { label: "Full screen", key: "f", group: "Charts", run: () => charts.toggleFull() },
  { label: "Points of the chart as a table", key: "d", group: "Charts", run: () => charts.toggleTable() },
  { label: "Save all points of the chart as CSV", key: "e", group: "Charts", run: () => charts.save("csv") },
  { label: "New chart of tags or an expression", key: "c", group: "Charts", run: () => ui.make() },
  {
    label: "Log y",
    key: "l",
    group: "Charts",
    run: () => app.set({ charts: { logY: !app.view.charts.logY } }),
  },
  { label: "Reset zoom", key: "r", group: "Charts", run: resetZoom },
  { label: "Smooth less", key: "-", group: "Charts", run: () => charts.smooth(-0.1) },
  { label: "Smooth more", key: "=", group: "Charts", run: () => charts.smooth(0.1) },
  { label: "Cursor to the previous point", key: ",", group: "Charts", run: () => charts.step(-1) },
  { label: "Cursor to the next point", key: ".", group: "Charts", run: () => charts.step(1) },
];

/** Writes about the step at the cursor, of the run that is meant there. */
function noteStep(): void {
  if (app.view.page === "profile") return;
  const { x, family } = cursor.state;
  ui.note(
    family ?? app.selected?.name ?? null,
    x === null || app.view.charts.x !== "step" ? null : Math.round(x),
  );
}

function pin(): void {
  // The chart of an answer is on its own page alone.
  if (app.view.page === "sql") return;
  const chart = charts.active;
  if (chart !== null) charts.pin(chart);
  else selected((name) => runs.keep(name))();
}

/** The commands of the one who looks. */
export const offered = (): readonly Command[] =>
  rights.changes ? COMMANDS : COMMANDS.filter((command) => !command.changes);

const KEYS = new Map(
  COMMANDS.filter((command) => command.key !== "").map((command) => [command.key, command]),
);

/** Runs the command of a key; single keys only where no text is being typed and they are not switched off. */
export function onKey(event: KeyboardEvent): void {
  const mod = event.metaKey || event.ctrlKey;
  if (event.altKey || event.defaultPrevented) return;
  const command = KEYS.get((mod ? "mod+" : "") + event.key.toLowerCase());
  if (!command || (command.changes && !rights.changes)) return;
  if (isTyping(event.target) && command.key !== "mod+k") return;
  if (!mod && (!app.keysOn || ui.open !== null)) return;
  event.preventDefault();
  command.run();
}

/** Keeps what is typed while the palette is fetched, for its field: it listens before anything else on the page. */
export function keepKey(event: KeyboardEvent): void {
  if (ui.typed === null || ui.open !== "palette") return;
  const { key } = event;
  const mod = (event.metaKey || event.ctrlKey) && !event.getModifierState("AltGraph");
  if (mod && key.toLowerCase() === "k") return;
  event.stopPropagation();
  if (mod) return;
  event.preventDefault();
  if (key === "Escape") ui.toggle("palette");
  else if (ui.typed.endsWith("\n")) return;
  else if (key === "Backspace") ui.typed = ui.typed.slice(0, -1);
  else if (key === "Enter") ui.typed += "\n";
  else if (key.length === 1) ui.typed += key;
}

/** Whether keys are text, or choose, where they are pressed. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return target.type !== "range" && target.type !== "checkbox";
  return (
    target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable
  );
}
