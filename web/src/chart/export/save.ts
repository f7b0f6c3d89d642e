/** Charts as files: the look as SVG or PNG with title and legend, the data as CSV. */
import type { Palette } from "../../theme/palette";
import { paintChart, partOf, PNG_SCALE } from "./body";
import { fileName } from "./names";
import type { TableData } from "./rows";
import { SvgSurface } from "./svg";

export interface LegendEntry {
  label: string;
  colour: string;
  dash: readonly number[];
}

export interface Picture {
  title: string;
  /** What else has to be known to read it: the axis, the reduction. */
  note: string;
  legend: readonly LegendEntry[];
  /** What is drawn. */
  body: HTMLElement;
  /** Whether it is a chart: all of it shapes and labels. Anything else is a picture that the browser draws. */
  chart: boolean;
  palette: Palette;
}

/** A table beside the one that a menu always has. */
export interface Table {
  /** What its entry in the menu says. */
  says: string;
  /** What its file is called after. */
  title: string;
  make: () => Promise<TableData> | TableData;
}

const PAD = 12;
const LINE = 16;

/** The SVG file of a picture. */
export function svgOf({ title, note, legend, body, chart, palette }: Picture): string {
  const { width, height } = body.getBoundingClientRect();
  const whole = Math.max(280, width) + 2 * PAD;
  const surface = new SvgSurface();
  const rows = legendRows(surface, legend, whole - 2 * PAD, palette);
  surface.font = `600 13px ${palette.font}`;
  const titles = wrapped(surface, title, whole - 2 * PAD);
  surface.font = `11px ${palette.font}`;
  const notes = wrapped(surface, note, whole - 2 * PAD);
  const head =
    PAD +
    titles.length * 20 +
    notes.length * LINE +
    rows.length * LINE +
    (title || note || rows.length ? 6 : 0);
  surface.fillStyle = palette.surface;
  surface.fillRect(0, 0, whole, head + height + PAD);
  surface.textBaseline = "middle";
  let top = PAD;
  surface.font = `600 13px ${palette.font}`;
  surface.fillStyle = palette.fg;
  for (const line of titles) {
    surface.fillText(line, PAD, top + 9);
    top += 20;
  }
  surface.font = `11px ${palette.font}`;
  surface.fillStyle = palette.muted;
  for (const line of notes) {
    surface.fillText(line, PAD, top + 8);
    top += LINE;
  }
  for (const row of rows) {
    for (const { entry, left } of row) swatch(surface, entry, PAD + left, top + 8, palette);
    top += LINE;
  }
  surface.translate(PAD, head);
  if (chart) paintChart(surface, body);
  else surface.embed(partOf(body));
  return surface.finish(whole, head + height + PAD, title);
}

/** A text in lines that fit; a word that is longer than a line is broken. */
export function wrapped(surface: Pick<SvgSurface, "measureText">, text: string, width: number): string[] {
  const lines: string[] = [];
  const fits = (line: string): boolean => surface.measureText(line).width <= width;
  for (let word of text.split(/\s+/).filter(Boolean)) {
    const last = lines.at(-1);
    if (last !== undefined && fits(`${last} ${word}`)) {
      lines[lines.length - 1] = `${last} ${word}`;
      continue;
    }
    while (!fits(word) && word.length > 1) {
      let end = word.length - 1;
      while (end > 1 && !fits(word.slice(0, end))) end -= 1;
      lines.push(word.slice(0, end));
      word = word.slice(end);
    }
    lines.push(word);
  }
  return lines;
}

type Placed = { entry: LegendEntry; left: number };

function legendRows(
  surface: SvgSurface,
  legend: readonly LegendEntry[],
  width: number,
  palette: Palette,
): Placed[][] {
  surface.font = `11px ${palette.font}`;
  const rows: Placed[][] = [];
  let left = Infinity;
  for (const entry of legend) {
    const wide = 22 + surface.measureText(entry.label).width + 16;
    if (left + wide > width) {
      rows.push([]);
      left = 0;
    }
    rows.at(-1)!.push({ entry, left });
    left += wide;
  }
  return rows;
}

function swatch(
  surface: SvgSurface,
  entry: LegendEntry,
  left: number,
  middle: number,
  palette: Palette,
): void {
  surface.strokeStyle = entry.colour;
  surface.lineWidth = 2;
  surface.setLineDash([...entry.dash]);
  surface.beginPath();
  surface.moveTo(left, middle);
  surface.lineTo(left + 16, middle);
  surface.stroke();
  surface.setLineDash([]);
  surface.fillStyle = palette.fg;
  surface.fillText(entry.label, left + 22, middle);
}

export function saveSvg(picture: Picture): void {
  saveBlob(new Blob([svgOf(picture)], { type: "image/svg+xml" }), fileName(picture.title, "svg"));
}

/** Draws the SVG file at a larger size. */
export async function savePng(picture: Picture): Promise<void> {
  const image = new Image();
  // Of an address that only this page knows no pixel could be read again, if the browser drew a part of the page.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgOf(picture))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalWidth * PNG_SCALE;
  canvas.height = image.naturalHeight * PNG_SCALE;
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob) saveBlob(blob, fileName(picture.title, "png"));
}

export function saveCsv(title: string, data: TableData): void {
  if (Array.isArray(data)) saveBlob(new Blob(data, { type: "text/csv" }), fileName(title, "csv"));
  else saveAddress(data.address, data.name);
}

export function saveHtml(title: string, page: string): void {
  saveBlob(new Blob([page], { type: "text/html" }), fileName(title, "html"));
}

export function saveAddress(address: string, name: string): void {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

function saveBlob(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  saveAddress(address, name);
  // The browser has taken the file by then; at once would be too early for some.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
