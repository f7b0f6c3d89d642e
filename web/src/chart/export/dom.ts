/** A part of the page onto a surface: boxes, borders, text, canvases and inline drawings, where the browser put them. */
import { painterOf } from "./painters";
import { SvgSurface } from "./svg";

const CONTROLS =
  "button:not(.link, [data-export]), input, select, textarea, dialog, script, style, [data-no-export], .overlay";
const CLEAR = /^(transparent|rgba\(0, 0, 0, 0\))$/;

/** Paints an element and what is in it, its top left corner at the origin. */
export function paintElement(surface: SvgSurface, root: HTMLElement): void {
  const { left, top } = root.getBoundingClientRect();
  surface.save();
  surface.translate(-left, -top);
  element(surface, root);
  surface.restore();
}

/** Paints one element; `zoom` is how much larger than its style says it stands, by transforms of what it lies in. */
function element(surface: SvgSurface, node: HTMLElement, outer = 1): void {
  if (node.matches(CONTROLS)) return;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  if (
    style.display === "none" ||
    style.visibility === "hidden" ||
    style.opacity === "0" ||
    (box.width <= 1 && box.height <= 1)
  )
    return;
  const zoom = outer * zoomOf(style);
  const radius = cornerOf(style, box, zoom);
  surface.save();
  surface.globalAlpha *= Number(style.opacity);
  background(surface, style, box, radius);
  borders(surface, style, box, radius, zoom);
  if (style.overflowX !== "visible") {
    surface.beginPath();
    surface.rect(box.left, box.top, box.width, box.height);
    surface.clip();
  }
  if (node instanceof HTMLCanvasElement) canvas(surface, node, box);
  else parts(surface, node, style, zoom);
  surface.restore();
}

function zoomOf(style: CSSStyleDeclaration): number {
  if (style.transform === "none") return 1;
  const { a, b } = new DOMMatrix(style.transform);
  return Math.hypot(a, b) || 1;
}

/** Radius of the corners, where all are alike. */
function cornerOf(style: CSSStyleDeclaration, box: DOMRect, zoom: number): number {
  const radius = style.borderRadius.endsWith("%")
    ? (parseFloat(style.borderRadius) / 100) * box.width
    : parseFloat(style.borderRadius) * zoom;
  return Math.min(radius || 0, box.width / 2, box.height / 2);
}

/** What an element holds, in its order; text that a place to break divides is one text. */
function parts(surface: SvgSurface, parent: HTMLElement, style: CSSStyleDeclaration, zoom: number): void {
  let run: Text[] = [];
  const written = (): void => {
    if (run.length) text(surface, run, parent, style, zoom);
    run = [];
  };
  for (const child of parent.childNodes) {
    if (child instanceof Text) run.push(child);
    else if (!(child instanceof Comment || child.nodeName === "WBR")) {
      written();
      if (child instanceof HTMLElement) element(surface, child, zoom);
      else if (child instanceof SVGSVGElement) drawing(surface, child);
    }
  }
  written();
}

function background(surface: SvgSurface, style: CSSStyleDeclaration, box: DOMRect, radius: number): void {
  const { backgroundColor, backgroundImage } = style;
  if (!CLEAR.test(backgroundColor)) {
    surface.fillStyle = backgroundColor;
    surface.beginPath();
    surface.roundRect(box.left, box.top, box.width, box.height, radius);
    surface.fill();
  }
  if (backgroundImage.includes("repeating-linear-gradient")) hatch(surface, backgroundImage, box);
}

/** What waits or was not recorded is hatched on the page; here with lines. */
function hatch(surface: SvgSurface, image: string, box: DOMRect): void {
  const colours = image.match(/(rgba?|color|oklch)\([^)]*\)/g)?.filter((colour) => !CLEAR.test(colour));
  if (!colours?.length) return;
  surface.save();
  surface.beginPath();
  surface.rect(box.left, box.top, box.width, box.height);
  surface.clip();
  surface.strokeStyle = colours[0]!;
  surface.lineWidth = 1.2;
  surface.beginPath();
  for (let x = box.left - box.height; x < box.right; x += 5) {
    surface.moveTo(x, box.bottom);
    surface.lineTo(x + box.height, box.top);
  }
  surface.stroke();
  surface.restore();
}

function borders(
  surface: SvgSurface,
  style: CSSStyleDeclaration,
  box: DOMRect,
  radius: number,
  zoom: number,
): void {
  const around = parseFloat(style.borderWidth) * zoom;
  if (
    /^[\d.]+px$/.test(style.borderWidth) &&
    around &&
    style.borderStyle !== "none" &&
    style.borderTopColor === style.borderBottomColor
  ) {
    if (CLEAR.test(style.borderTopColor)) return;
    surface.save();
    surface.strokeStyle = style.borderTopColor;
    surface.lineWidth = around;
    if (style.borderStyle === "dashed") surface.setLineDash([3, 3]);
    surface.beginPath();
    surface.roundRect(
      box.left + around / 2,
      box.top + around / 2,
      box.width - around,
      box.height - around,
      Math.max(0, radius - around / 2),
    );
    surface.stroke();
    return surface.restore();
  }
  const side = (name: "Top" | "Right" | "Bottom" | "Left"): number => {
    if (style[`border${name}Style`] === "none" || CLEAR.test(style[`border${name}Color`])) return 0;
    surface.fillStyle = style[`border${name}Color`];
    return parseFloat(style[`border${name}Width`]) || 0;
  };
  let wide = side("Top");
  surface.fillRect(box.left, box.top, box.width, wide);
  wide = side("Bottom");
  surface.fillRect(box.left, box.bottom - wide, box.width, wide);
  wide = side("Left");
  surface.fillRect(box.left, box.top, wide, box.height);
  wide = side("Right");
  surface.fillRect(box.right - wide, box.top, wide, box.height);
}

function canvas(surface: SvgSurface, node: HTMLCanvasElement, box: DOMRect): void {
  const paint = painterOf(node);
  if (!paint) return surface.drawImage(node, box.left, box.top, box.width, box.height);
  surface.save();
  surface.translate(box.left, box.top);
  paint(surface.canvas2d, box.width, box.height);
  surface.restore();
}

/** Text as the browser broke it into lines; what does not fit its box ends in dots. */
function text(
  surface: SvgSurface,
  nodes: readonly Text[],
  parent: HTMLElement,
  style: CSSStyleDeclaration,
  zoom: number,
): void {
  if (!nodes.some((node) => node.data.trim())) return;
  surface.save();
  surface.font = `${style.fontStyle === "italic" ? "italic " : ""}${style.fontWeight} ${parseFloat(style.fontSize) * zoom}px ${style.fontFamily}`;
  surface.fillStyle = style.color;
  surface.textBaseline = "middle";
  const upper = style.textTransform === "uppercase";
  for (const { words, left, right, middle } of linesOf(nodes, style.whiteSpace.startsWith("pre"))) {
    const line = upper ? words.toUpperCase() : words;
    const cut = style.textOverflow === "ellipsis" ? parent.getBoundingClientRect().right : Infinity;
    surface.fillText(right > cut + 1 ? fitted(surface, line, cut - left) : line, left, middle);
  }
  surface.restore();
}

interface Line {
  words: string;
  left: number;
  right: number;
  middle: number;
}

/** The lines in which texts that follow each other stand; `kept`: with each blank as it is. */
function linesOf(nodes: readonly Text[], kept: boolean): Line[] {
  const lines: Line[] = [];
  const range = document.createRange();
  let gap = "";
  const add = (words: string, { left, right, top, height }: DOMRect): void => {
    const [last, middle] = [lines.at(-1), top + height / 2];
    if (last && Math.abs(last.middle - middle) < 2 && left >= last.right - 1) {
      last.words += gap + words;
      last.right = right;
    } else lines.push({ words, left, right, middle });
    gap = "";
  };
  for (const node of nodes)
    for (const { 0: words, index } of node.data.matchAll(/\s+|\S+/g)) {
      if (!words.trim()) {
        gap = kept ? gap + words : " ";
        continue;
      }
      const boxesOf = (from: number, to: number): DOMRect[] => {
        range.setStart(node, index + from);
        range.setEnd(node, index + to);
        return [...range.getClientRects()].filter((box) => box.width > 0);
      };
      const boxes = boxesOf(0, words.length);
      if (boxes.length === 1) add(words, boxes[0]!);
      else if (boxes.length) {
        // A word that its column does not hold: sign by sign.
        let at = 0;
        for (const sign of words) {
          const [box] = boxesOf(at, (at += sign.length));
          if (box) add(sign, box);
        }
      }
    }
  return lines;
}

function fitted(surface: SvgSurface, words: string, width: number): string {
  let kept = words;
  while (kept.length > 1 && surface.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept.trimEnd()}…`;
}

type Place = (x: number, y: number) => [number, number];

/** Inline drawings of our own: their shapes, each point where the browser puts it. */
function drawing(surface: SvgSurface, svg: SVGSVGElement): void {
  const own = getComputedStyle(svg);
  if (own.display === "none" || own.visibility === "hidden") return;
  for (const shape of svg.querySelectorAll<SVGGraphicsElement>(
    "path, line, circle, ellipse, rect, polyline, polygon, text",
  )) {
    if (shape.closest("defs, clipPath, marker")) continue;
    const matrix = shape.getScreenCTM();
    const style = getComputedStyle(shape);
    if (!matrix || style.display === "none" || style.visibility === "hidden") continue;
    const { a, b, c, d, e, f } = matrix;
    const place: Place = (x, y) => [a * x + c * y + e, b * x + d * y + f];
    const scale = Math.sqrt(Math.abs(a * d - b * c));
    surface.save();
    clipped(surface, shape, place);
    if (shape instanceof SVGTextElement) words(surface, shape, style, place, scale);
    else if (shape instanceof SVGGeometryElement) outline(surface, shape, style, place, scale);
    surface.restore();
  }
}

/** Within the rectangle that it or what it lies in is clipped to. */
function clipped(surface: SvgSurface, shape: SVGGraphicsElement, place: Place): void {
  const name = /^url\(#([\w-]+)\)$/.exec(shape.closest("[clip-path]")?.getAttribute("clip-path") ?? "")?.[1];
  const edge = name && document.getElementById(name)?.querySelector("rect");
  if (!edge) return;
  surface.beginPath();
  corners(surface, edge.getBBox(), place);
  surface.clip();
}

const ANCHORS: Record<string, CanvasTextAlign> = { start: "left", middle: "center", end: "right" };

function words(
  surface: SvgSurface,
  shape: SVGTextElement,
  style: CSSStyleDeclaration,
  place: Place,
  scale: number,
): void {
  // Its title, what a pointer resting there is told, is no part of what is seen.
  const content = [...shape.childNodes]
    .map((node) => (node instanceof SVGTitleElement ? "" : (node.textContent ?? "")))
    .join("")
    .trim();
  if (!content || !shape.getNumberOfChars()) return;
  const start = shape.getStartPositionOfChar(0);
  const end = shape.getEndPositionOfChar(shape.getNumberOfChars() - 1);
  const anchor = ANCHORS[style.textAnchor] ?? "left";
  surface.textAlign = anchor;
  surface.font = `${style.fontWeight} ${parseFloat(style.fontSize) * scale}px ${style.fontFamily}`;
  surface.fillStyle = style.fill;
  surface.globalAlpha *= Number(style.opacity) * Number(style.fillOpacity);
  const x = anchor === "left" ? start.x : anchor === "right" ? end.x : (start.x + end.x) / 2;
  surface.fillText(content, ...place(x, start.y));
}

function outline(
  surface: SvgSurface,
  shape: SVGGeometryElement,
  style: CSSStyleDeclaration,
  place: Place,
  scale: number,
): void {
  surface.beginPath();
  trace(surface, shape, place);
  const alpha = surface.globalAlpha * Number(style.opacity);
  if (style.fill !== "none") {
    surface.globalAlpha = alpha * Number(style.fillOpacity);
    surface.fillStyle = style.fill;
    surface.fill();
  }
  if (style.stroke === "none" || !(parseFloat(style.strokeWidth) > 0)) return;
  const wide = style.vectorEffect === "non-scaling-stroke" ? 1 : scale;
  surface.globalAlpha = alpha * Number(style.strokeOpacity);
  surface.strokeStyle = style.stroke;
  surface.lineWidth = parseFloat(style.strokeWidth) * wide;
  surface.setLineDash(
    style.strokeDasharray === "none"
      ? []
      : style.strokeDasharray.split(/[\s,]+/).map((part) => parseFloat(part) * wide),
  );
  if (style.strokeLinecap === "round") surface.lineCap = "round";
  surface.stroke();
  if (style.markerEnd !== "none") arrowhead(surface, shape, place, scale);
}

const TIP_PX = 7;

/** The head of an arrow, in the colour of its line. */
function arrowhead(surface: SvgSurface, shape: SVGGeometryElement, place: Place, scale: number): void {
  const length = shape.getTotalLength();
  const [end, before] = [shape.getPointAtLength(length), shape.getPointAtLength(Math.max(0, length - 1))];
  const [[x, y], [fromX, fromY]] = [place(end.x, end.y), place(before.x, before.y)];
  const angle = Math.atan2(y - fromY, x - fromX);
  const corner = (back: number, aside: number): [number, number] => [
    x + scale * (back * Math.cos(angle) - aside * Math.sin(angle)),
    y + scale * (back * Math.sin(angle) + aside * Math.cos(angle)),
  ];
  surface.fillStyle = surface.strokeStyle;
  surface.beginPath();
  surface.moveTo(...corner(0, 0));
  surface.lineTo(...corner(-TIP_PX, TIP_PX / 2));
  surface.lineTo(...corner(-TIP_PX, -TIP_PX / 2));
  surface.closePath();
  surface.fill();
}

const STEP_PX = 2;
const MOST_POINTS = 4000;

/** Follows a shape: absolute moves, lines and curves as they are, any other in steps of two pixels. */
function trace(surface: SvgSurface, shape: SVGGeometryElement, place: Place): void {
  if (shape instanceof SVGPathElement && followed(surface, shape.getAttribute("d") ?? "", place)) return;
  if (shape instanceof SVGRectElement) return corners(surface, shape.getBBox(), place);
  if (shape instanceof SVGLineElement) {
    surface.moveTo(...place(shape.x1.baseVal.value, shape.y1.baseVal.value));
    return surface.lineTo(...place(shape.x2.baseVal.value, shape.y2.baseVal.value));
  }
  if (shape instanceof SVGCircleElement) {
    const [x, y, radius] = [shape.cx.baseVal.value, shape.cy.baseVal.value, shape.r.baseVal.value];
    const [[left, top], [right, bottom]] = [place(x - radius, y), place(x + radius, y)];
    return surface.arc(
      (left + right) / 2,
      (top + bottom) / 2,
      Math.hypot(right - left, bottom - top) / 2,
      0,
      2 * Math.PI,
    );
  }
  const length = shape.getTotalLength();
  if (!length) return;
  const count = Math.min(MOST_POINTS, Math.max(1, Math.ceil(length / STEP_PX)));
  for (let at = 0; at <= count; at += 1) {
    const { x, y } = shape.getPointAtLength((length * at) / count);
    if (at) surface.lineTo(...place(x, y));
    else surface.moveTo(...place(x, y));
  }
}

function corners(surface: SvgSurface, { x, y, width, height }: DOMRect, place: Place): void {
  surface.moveTo(...place(x, y));
  surface.lineTo(...place(x + width, y));
  surface.lineTo(...place(x + width, y + height));
  surface.lineTo(...place(x, y + height));
  surface.closePath();
}

const SIZES: Record<string, number> = { M: 2, L: 2, H: 1, V: 1, Q: 4, C: 6, Z: 0 };

/** Paints a path of absolute commands. @returns false, having painted nothing: it holds others. */
function followed(surface: SvgSurface, d: string, place: Place): boolean {
  const commands = [...d.matchAll(/([a-zA-Z])([^a-df-zA-DF-Z]*)/g)].map(([, name, rest]) => ({
    name: name === "z" ? "Z" : name!,
    numbers: (rest!.match(/[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/gi) ?? []).map(Number),
  }));
  if (!commands.every(({ name }) => name in SIZES)) return false;
  let [x, y] = [0, 0];
  for (const { name, numbers } of commands) {
    const size = SIZES[name]!;
    if (!size) surface.closePath();
    for (let at = 0; size && at + size <= numbers.length; at += size) {
      const n = numbers.slice(at, at + size);
      if (name === "H") x = n[0]!;
      else if (name === "V") y = n[0]!;
      else [x, y] = [n[size - 2]!, n[size - 1]!];
      if (name === "M" && !at) surface.moveTo(...place(x, y));
      else if (name === "Q") surface.quadraticCurveTo(...place(n[0]!, n[1]!), ...place(x, y));
      else if (name === "C")
        surface.bezierCurveTo(...place(n[0]!, n[1]!), ...place(n[2]!, n[3]!), ...place(x, y));
      else surface.lineTo(...place(x, y));
    }
  }
  return true;
}
