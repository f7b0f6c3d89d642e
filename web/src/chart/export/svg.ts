/** A drawing surface like that of a canvas which writes SVG: what paints a chart on the screen paints its file too.
 *
 * Only shapes, text and pictures made here come out of it, every text escaped: no script, link or style of a log
 * can get into the file.
 */

interface State {
  at: [number, number];
  clips: number;
  fillStyle: string;
  strokeStyle: string;
  lineWidth: number;
  globalAlpha: number;
  font: string;
  textAlign: CanvasTextAlign;
  textBaseline: CanvasTextBaseline;
  lineJoin: CanvasLineJoin;
  lineCap: CanvasLineCap;
  dash: number[];
}

const FRESH: State = {
  at: [0, 0],
  clips: 0,
  fillStyle: "#000",
  strokeStyle: "#000",
  lineWidth: 1,
  globalAlpha: 1,
  font: "10px sans-serif",
  textAlign: "start",
  textBaseline: "alphabetic",
  lineJoin: "miter",
  lineCap: "butt",
  dash: [],
};

const NAMES = Object.keys(FRESH) as (keyof State)[];

let ruler: CanvasRenderingContext2D | null = null;

/** Leaves out the signs that XML does not allow. */
export function allowedXml(text: string): string {
  return text.replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "");
}

/** Escapes text for element content and attributes. */
export function escapeXml(text: string): string {
  return allowedXml(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A colour as it may stand in the file: names, hex and functions of numbers, nothing that refers elsewhere. */
export function safeColour(colour: unknown): string {
  return typeof colour === "string" &&
    /^(#[\da-f]{3,8}|[a-z]+|(rgb|hsl|oklch|oklab|lab|lch|color)a?\([\w\s.,%/+-]*\))$/i.test(colour.trim())
    ? colour.trim()
    : "#888";
}

export class SvgSurface implements State {
  at = FRESH.at;
  clips = 0;
  fillStyle = FRESH.fillStyle;
  strokeStyle = FRESH.strokeStyle;
  lineWidth = 1;
  globalAlpha = 1;
  font = FRESH.font;
  textAlign: CanvasTextAlign = "start";
  textBaseline: CanvasTextBaseline = "alphabetic";
  lineJoin: CanvasLineJoin = "miter";
  lineCap: CanvasLineCap = "butt";
  dash: number[] = [];
  readonly #out: string[] = [];
  readonly #states: State[] = [];
  #path: string[] = [];
  #names = 0;

  /** This surface where a canvas is asked for; it has what our painters use of one. */
  get canvas2d(): CanvasRenderingContext2D {
    return this as unknown as CanvasRenderingContext2D;
  }

  save(): void {
    this.#states.push(Object.fromEntries(NAMES.map((name) => [name, this[name]])) as unknown as State);
  }

  restore(): void {
    const state = this.#states.pop();
    if (!state) return;
    for (let open = this.clips; open > state.clips; open -= 1) this.#out.push("</g>");
    Object.assign(this, state);
  }

  translate(x: number, y: number): void {
    const [left, top] = this.at;
    this.at = [left + x, top + y];
  }

  beginPath(): void {
    this.#path = [];
  }

  moveTo(x: number, y: number): void {
    this.#path.push(`M${point(x, y)}`);
  }

  lineTo(x: number, y: number): void {
    this.#path.push(`${this.#path.length ? "L" : "M"}${point(x, y)}`);
  }

  bezierCurveTo(a: number, b: number, c: number, d: number, x: number, y: number): void {
    this.#path.push(`C${point(a, b)} ${point(c, d)} ${point(x, y)}`);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.#path.push(`M${point(x, y)}h${short(width)}v${short(height)}h${short(-width)}z`);
  }

  /** A whole circle: the only arc that is painted. */
  arc(x: number, y: number, radius: number): void {
    const half = `a${short(radius)} ${short(radius)} 0 1 1`;
    this.#path.push(`M${point(x - radius, y)}${half} ${short(2 * radius)} 0${half} ${short(-2 * radius)} 0z`);
  }

  closePath(): void {
    this.#path.push("z");
  }

  clip(): void {
    const name = `clip${(this.#names += 1)}`;
    this.#out.push(
      `<clipPath id="${name}"><path d="${this.#path.join("")}"${this.#transform()}/></clipPath><g clip-path="url(#${name})">`,
    );
    this.clips += 1;
  }

  stroke(): void {
    if (!this.#path.length) return;
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.map(short).join(" ")}"` : "";
    const join = this.lineJoin === "miter" ? "" : ` stroke-linejoin="${this.lineJoin}"`;
    const cap = this.lineCap === "butt" ? "" : ` stroke-linecap="${this.lineCap}"`;
    this.#shape(
      `d="${this.#path.join("")}" fill="none" stroke="${safeColour(this.strokeStyle)}" stroke-width="${short(this.lineWidth)}"${dash}${join}${cap}`,
    );
  }

  fill(): void {
    if (this.#path.length) this.#shape(`d="${this.#path.join("")}" fill="${safeColour(this.fillStyle)}"`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    if (!(width && height)) return;
    const kept = this.#path;
    this.#path = [];
    this.rect(x, y, width, height);
    this.fill();
    this.#path = kept;
  }

  strokeRect(x: number, y: number, width: number, height: number): void {
    const kept = this.#path;
    this.#path = [];
    this.rect(x, y, width, height);
    this.stroke();
    this.#path = kept;
  }

  clearRect(): void {
    // A file begins empty.
  }

  setLineDash(dash: number[]): void {
    this.dash = dash;
  }

  measureText(text: string): TextMetrics {
    ruler ??= document.createElement("canvas").getContext("2d")!;
    ruler.font = this.font;
    return ruler.measureText(text);
  }

  fillText(text: string, x: number, y: number): void {
    const anchor = { start: "start", left: "start", center: "middle", end: "end", right: "end" }[
      this.textAlign
    ];
    const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = this.measureText(text);
    const lower = {
      top: up,
      hanging: up,
      middle: (up - down) / 2,
      alphabetic: 0,
      ideographic: -down,
      bottom: -down,
    }[this.textBaseline];
    const { size, weight, style, family } = readFont(this.font);
    const look = `${weight === "400" ? "" : ` font-weight="${weight}"`}${style === "normal" ? "" : ` font-style="${style}"`}`;
    this.#out.push(
      `<text x="${short(x)}" y="${short(y + lower)}" font-size="${short(size)}" font-family="${escapeXml(family)}"${look}` +
        `${anchor === "start" ? "" : ` text-anchor="${anchor}"`} fill="${safeColour(this.fillStyle)}"${this.#alpha()}${this.#transform()} xml:space="preserve">${escapeXml(text)}</text>`,
    );
  }

  /** A canvas as it is: of density maps, which are pixels by nature. */
  drawImage(source: HTMLCanvasElement, x: number, y: number, width: number, height: number): void {
    if (!source.width || !source.height) return;
    const data = source.toDataURL("image/png");
    this.#out.push(
      `<image x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" preserveAspectRatio="none"` +
        ` style="image-rendering:pixelated" href="${data}"${this.#alpha()}${this.#transform()}/>`,
    );
  }

  /** Puts in markup that was made for the file, at the origin. */
  embed(markup: string): void {
    this.#out.push(`<g${this.#alpha()}${this.#transform()}>${markup}</g>`);
  }

  #shape(attributes: string): void {
    this.#out.push(`<path ${attributes}${this.#alpha()}${this.#transform()}/>`);
  }

  #alpha(): string {
    return this.globalAlpha === 1 ? "" : ` opacity="${short(this.globalAlpha)}"`;
  }

  #transform(): string {
    const [x, y] = this.at;
    return x || y ? ` transform="translate(${short(x)} ${short(y)})"` : "";
  }

  /** The file. */
  finish(width: number, height: number, title: string): string {
    while (this.#states.length) this.restore();
    for (; this.clips > 0; this.clips -= 1) this.#out.push("</g>");
    const size = `width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img"><title>${escapeXml(title)}</title>\n${this.#out.join("\n")}\n</svg>\n`;
  }
}

function short(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : "0";
}

function point(x: number, y: number): string {
  return `${short(x)} ${short(y)}`;
}

/** The parts of a CSS font. */
export function readFont(font: string): { size: number; weight: string; style: string; family: string } {
  const match = /^(.*?)([\d.]+)px(?:\/\S+)?\s+(.*)$/s.exec(font.trim());
  if (!match) return { size: 11, weight: "400", style: "normal", family: "sans-serif" };
  const weight = /\b([1-9]00|[1-9]\d\d|bold)\b/.exec(match[1]!)?.[1] ?? "400";
  return {
    size: Number(match[2]),
    weight,
    style: /italic|oblique/.test(match[1]!) ? "italic" : "normal",
    family: match[3]!,
  };
}
