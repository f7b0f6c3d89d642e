/** A drawing surface like that of a canvas which writes SVG: what paints a chart on the screen paints its file too.
 *
 * Only shapes, text and pictures made here come out of it, every text escaped: no script, link or style of a log
 * can get into the file.
 */

interface State {
  matrix: [number, number, number, number, number, number];
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
  matrix: [1, 0, 0, 1, 0, 0],
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

let ruler: CanvasRenderingContext2D | null = null;

/** Escapes text for element content and attributes; what XML does not allow is left out. */
export function escapeXml(text: string): string {
  const allowed = text.replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "");
  return allowed.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A colour as it may stand in the file: names, hex and functions of numbers, nothing that refers elsewhere. */
export function safeColour(colour: unknown): string {
  return typeof colour === "string" &&
    /^(#[\da-f]{3,8}|[a-z]+|(rgb|hsl|oklch|oklab|lab|lch|color)a?\([\w\s.,%/+-]*\))$/i.test(colour.trim())
    ? colour.trim()
    : "#888";
}

export class SvgSurface implements State {
  matrix = FRESH.matrix;
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
    const {
      matrix,
      clips,
      fillStyle,
      strokeStyle,
      lineWidth,
      globalAlpha,
      font,
      textAlign,
      textBaseline,
      lineJoin,
      lineCap,
      dash,
    } = this;
    this.#states.push({
      matrix,
      clips,
      fillStyle,
      strokeStyle,
      lineWidth,
      globalAlpha,
      font,
      textAlign,
      textBaseline,
      lineJoin,
      lineCap,
      dash,
    });
  }

  restore(): void {
    const state = this.#states.pop();
    if (!state) return;
    for (let open = this.clips; open > state.clips; open -= 1) this.#out.push("</g>");
    Object.assign(this, state);
  }

  translate(x: number, y: number): void {
    this.#multiply(1, 0, 0, 1, x, y);
  }

  scale(x: number, y: number): void {
    this.#multiply(x, 0, 0, y, 0, 0);
  }

  rotate(angle: number): void {
    this.#multiply(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0);
  }

  setTransform(a: number, b: number, c: number, d: number, e: number, f: number): void {
    this.matrix = [a, b, c, d, e, f];
  }

  #multiply(a: number, b: number, c: number, d: number, e: number, f: number): void {
    const [A, B, C, D, E, F] = this.matrix;
    this.matrix = [
      A * a + C * b,
      B * a + D * b,
      A * c + C * d,
      B * c + D * d,
      A * e + C * f + E,
      B * e + D * f + F,
    ];
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

  quadraticCurveTo(a: number, b: number, x: number, y: number): void {
    this.#path.push(`Q${point(a, b)} ${point(x, y)}`);
  }

  bezierCurveTo(a: number, b: number, c: number, d: number, x: number, y: number): void {
    this.#path.push(`C${point(a, b)} ${point(c, d)} ${point(x, y)}`);
  }

  rect(x: number, y: number, width: number, height: number): void {
    this.#path.push(`M${point(x, y)}h${short(width)}v${short(height)}h${short(-width)}z`);
  }

  roundRect(x: number, y: number, width: number, height: number, radius: number): void {
    const r = Math.max(0, Math.min(radius, width / 2, height / 2));
    if (r < 0.5) return this.rect(x, y, width, height);
    const corner = (right: number, down: number): string =>
      `a${short(r)} ${short(r)} 0 0 1 ${short(right)} ${short(down)}`;
    const [wide, tall] = [width - 2 * r, height - 2 * r];
    this.#path.push(
      `M${point(x + r, y)}h${short(wide)}${corner(r, r)}v${short(tall)}${corner(-r, r)}h${short(-wide)}${corner(-r, -r)}v${short(-tall)}${corner(r, -r)}z`,
    );
  }

  arc(x: number, y: number, radius: number, from: number, to: number): void {
    const start = point(x + radius * Math.cos(from), y + radius * Math.sin(from));
    const radii = `${short(radius)} ${short(radius)}`;
    const join = this.#path.length ? "L" : "M";
    if (Math.abs(to - from) >= 2 * Math.PI - 1e-6) {
      const middle = point(x - radius * Math.cos(from), y - radius * Math.sin(from));
      this.#path.push(`M${start}A${radii} 0 1 1 ${middle}A${radii} 0 1 1 ${start}z`);
    } else {
      const end = point(x + radius * Math.cos(to), y + radius * Math.sin(to));
      this.#path.push(
        `${join}${start}A${radii} 0 ${Math.abs(to - from) > Math.PI ? 1 : 0} ${to > from ? 1 : 0} ${end}`,
      );
    }
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

  #shape(attributes: string): void {
    this.#out.push(`<path ${attributes}${this.#alpha()}${this.#transform()}/>`);
  }

  #alpha(): string {
    return this.globalAlpha === 1 ? "" : ` opacity="${short(this.globalAlpha)}"`;
  }

  #transform(): string {
    const [a, b, c, d, e, f] = this.matrix;
    if (a === 1 && b === 0 && c === 0 && d === 1)
      return e === 0 && f === 0 ? "" : ` transform="translate(${short(e)} ${short(f)})"`;
    return ` transform="matrix(${[a, b, c, d, e, f].map(short).join(" ")})"`;
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
