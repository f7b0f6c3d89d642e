/** Which colour and dash a run is drawn in. */

export interface Stroke {
  /** 1 to 12: a colour of the theme's series set; 0: grey, one of many. */
  series: number;
  /** A colour of its own, where runs are coloured by a config value. */
  colour?: string;
}

export const GREY: Stroke = { series: 0 };
/** Colours of the theme's series set. */
export const COLOURS = 12;
/** A colour each; runs beyond are grey until they are picked. A dash tells the evaluation from the training. */
export const SLOTS = COLOURS;

/** The place of every run for good: runs keep theirs, new ones follow in the order of their start.
 *
 * @param before: Names by place, as kept so far.
 * @param runs: Those that are there now.
 */
export function placesOf(
  before: readonly string[],
  runs: readonly { name: string; started: number | null }[],
): string[] {
  const known = new Set(before);
  const fresh = runs
    .filter(({ name }) => !known.has(name))
    .sort((a, b) => (a.started ?? Infinity) - (b.started ?? Infinity) || (a.name < b.name ? -1 : 1));
  return fresh.length ? [...before, ...fresh.map(({ name }) => name)] : [...before];
}

/** Gives the runs shown a slot each: its own, so that a run is drawn in one colour whatever else is shown.
 *
 * Only where more runs were recorded than there are slots, two that are shown may have the same one: the later
 * one then takes the next that is free.
 *
 * @param places: The place of every run.
 * @param shown: Names in order of importance.
 * @param said: Slots that people chose; two runs may have the same one then.
 */
export function assignSlots(
  places: ReadonlyMap<string, number>,
  shown: readonly string[],
  said: ReadonlyMap<string, number> = new Map(),
): Map<string, number> {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  const waiting: string[] = [];
  for (const name of shown) {
    const wanted = said.get(name);
    if (wanted === undefined) continue;
    slots.set(name, wanted);
    taken.add(wanted);
  }
  for (const name of shown) {
    if (slots.has(name)) continue;
    const place = places.get(name);
    const own = place === undefined ? -1 : place % SLOTS;
    if (own < 0 || taken.has(own)) waiting.push(name);
    else {
      slots.set(name, own);
      taken.add(own);
    }
  }
  let next = 0;
  for (const name of waiting) {
    while (taken.has(next)) next += 1;
    if (next >= SLOTS) break;
    slots.set(name, next);
    taken.add(next);
  }
  return slots;
}

export function slotStroke(slot: number | undefined): Stroke {
  if (slot === undefined) return GREY;
  return { series: (ORDER[slot % COLOURS] ?? 0) + 1 };
}

/** The second series colour reads best alone on a page, so that it goes to the first run. */
const ORDER = [1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/** Cividis at eleven places; colour-blind safe and even in lightness. */
const CIVIDIS = [
  "#00224e",
  "#1a386f",
  "#434e6c",
  "#5a616c",
  "#707173",
  "#848478",
  "#9b9778",
  "#b5aa72",
  "#cfbf66",
  "#ead553",
  "#fee838",
].map(rgb);

function rgb(hex: string): [number, number, number] {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)) as [number, number, number];
}

/** A place of cividis, of 0 to 1, between the two that are known beside it. */
export function cividisAt(share: number): [number, number, number] {
  const place = share * (CIVIDIS.length - 1);
  const low = CIVIDIS[Math.floor(place)]!;
  const high = CIVIDIS[Math.min(CIVIDIS.length - 1, Math.floor(place) + 1)]!;
  const mixed = low.map((value, at) => Math.round(value + (high[at]! - value) * (place - Math.floor(place))));
  return mixed as [number, number, number];
}

/** Cividis, its part that stands out from the page: the dark end on light, the bright end on dark.
 *
 * @param share: 0 to 1.
 */
export function cividis(share: number, dark: boolean): string {
  const mixed = cividisAt(dark ? 0.35 + 0.65 * share : 0.58 * share);
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** Strokes of runs by a config value: a scale for more than two numbers, series colours otherwise. */
export function strokesByValue(
  values: readonly { name: string; value: unknown }[],
  distinct: readonly unknown[],
  dark: boolean,
): Map<string, Stroke> {
  const places = new Map(distinct.map((value, place) => [JSON.stringify(value), place]));
  const scaled = distinct.length > 2 && distinct.every((value) => typeof value === "number");
  return new Map(
    values.map(({ name, value }) => {
      const place = places.get(JSON.stringify(value));
      if (place === undefined) return [name, GREY];
      if (!scaled) return [name, place < SLOTS ? slotStroke(place) : GREY];
      return [name, { series: 0, colour: cividis(place / (distinct.length - 1), dark) }];
    }),
  );
}
