/** What is saved of the page: a chart as shapes, any other part as the browser draws it. */
import { painterOf } from "./painters";
import { allowedXml, escapeXml, type SvgSurface } from "./svg";

/** How much larger than on the page a PNG is. */
export const PNG_SCALE = 2;

const CONTROLS =
  "button:not(.link, [data-export]), input, select, textarea, dialog, script, style, [data-no-export], .overlay";
const LOOK =
  "fill fill-opacity stroke stroke-opacity stroke-width stroke-dasharray stroke-linecap stroke-linejoin vector-effect paint-order marker-end text-anchor font-size font-family font-weight visibility display".split(
    " ",
  );

/** Paints a chart, its top left corner at the origin: its canvases again, its inline drawings, its labels. */
export function paintChart(surface: SvgSurface, root: HTMLElement): void {
  const { left, top } = root.getBoundingClientRect();
  surface.save();
  surface.translate(-left, -top);
  for (const node of root.querySelectorAll("*")) {
    if (node.closest(CONTROLS) || node.parentElement?.closest("svg") || !seen(node)) continue;
    const box = node.getBoundingClientRect();
    if (node instanceof HTMLCanvasElement) canvas(surface, node, box);
    else if (node instanceof SVGSVGElement) surface.embed(drawing(node, box));
    else if (node instanceof HTMLElement) label(surface, node, box);
  }
  surface.restore();
}

function seen(node: Element): boolean {
  return node.checkVisibility({ opacityProperty: true, visibilityProperty: true });
}

function canvas(surface: SvgSurface, node: HTMLCanvasElement, box: DOMRect): void {
  const paint = painterOf(node);
  if (!paint) return surface.drawImage(node, box.left, box.top, box.width, box.height);
  surface.save();
  surface.translate(box.left, box.top);
  paint(surface.canvas2d, box.width, box.height);
  surface.restore();
}

/** The text that an element holds itself, on the line where it stands, cut at the end of its box. */
function label(surface: SvgSurface, node: HTMLElement, box: DOMRect): void {
  const texts = [...node.childNodes].filter((child) => child instanceof Text && child.data.trim());
  if (!texts.length || box.width <= 1) return;
  const range = document.createRange();
  range.setStartBefore(texts[0]!);
  range.setEndAfter(texts.at(-1)!);
  const { left, top, height } = range.getBoundingClientRect();
  const { fontWeight, fontSize, fontFamily, color } = getComputedStyle(node);
  surface.save();
  surface.beginPath();
  surface.rect(box.left, box.top, box.width, box.height);
  surface.clip();
  surface.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  surface.fillStyle = color;
  surface.textBaseline = "middle";
  const words = texts.map(({ textContent }) => textContent!.trim()).join(" ");
  surface.fillText(words.replace(/\s+/g, " "), left, top + height / 2);
  surface.restore();
}

/** An inline drawing with its look in attributes: no style sheet reaches the file. */
function drawing(svg: SVGSVGElement, box: DOMRect): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  for (const [node, twin] of pairs(svg, copy)) {
    const style = getComputedStyle(node);
    for (const name of twin.getAttributeNames())
      if (/^(class|style|role|tabindex|href|aria-.*|data-.*)$/.test(name)) twin.removeAttribute(name);
    if (style.opacity !== "1") twin.setAttribute("opacity", style.opacity);
    if (style.transform !== "none") twin.setAttribute("transform", style.transform);
    if (node instanceof SVGGeometryElement || node instanceof SVGTextContentElement)
      for (const name of LOOK) twin.setAttribute(name, style.getPropertyValue(name));
  }
  for (const title of copy.querySelectorAll("title")) title.remove();
  const { overflow } = getComputedStyle(svg);
  const place = { x: box.left, y: box.top, width: box.width, height: box.height, overflow };
  for (const [name, value] of Object.entries(place)) copy.setAttribute(name, String(value));
  return allowedXml(new XMLSerializer().serializeToString(copy));
}

/** Each element with the one at the same place in a copy. */
function pairs(root: Element, copy: Element): [Element, Element][] {
  const twins = [copy, ...copy.querySelectorAll("*")];
  return [root, ...root.querySelectorAll("*")].map((node, at) => [node, twins[at]!]);
}

/** A part of the page for the browser to draw within a picture, its look as the browser computed it. */
export function partOf(root: HTMLElement): string {
  const { width, height } = root.getBoundingClientRect();
  // In a document that shows nothing, so that nothing in it loads while it is made.
  const copy = document.implementation.createHTMLDocument("").importNode(root, true);
  const rules = new Map<string, string>();
  const pictures: [Element, HTMLImageElement][] = [];
  for (const [node, twin] of pairs(root, copy)) {
    const style = getComputedStyle(node);
    let look = "";
    for (const name of style) look += `${name}:${style.getPropertyValue(name)};`;
    if (node.matches(CONTROLS)) look += "visibility:hidden;";
    if (style.overflow !== "visible") look += "overflow:hidden;";
    const { scrollLeft, scrollTop } = node.parentElement!;
    if (node !== root && (scrollLeft || scrollTop)) look += `translate:${-scrollLeft}px ${-scrollTop}px;`;
    if (node === root) look += `position:relative;inset:auto;margin:0;width:${width}px;height:${height}px;`;
    const rule = rules.get(look) ?? `part${rules.size}`;
    rules.set(look, rule);
    for (const name of twin.getAttributeNames())
      if (/^(style|role|tabindex|href|src|srcset|aria-.*|data-.*)$/.test(name)) twin.removeAttribute(name);
    twin.setAttribute("class", rule);
    if (node instanceof HTMLCanvasElement) pictures.push([twin, pixels(node, rule)]);
  }
  for (const [twin, picture] of pictures) twin.replaceWith(picture);
  for (const script of copy.querySelectorAll("script, style")) script.remove();
  const sheet = [...rules].map(([look, rule]) => `.${rule}{${look}}`).join("\n");
  const markup = new XMLSerializer().serializeToString(copy);
  return allowedXml(
    `<style>${escapeXml(sheet)}</style><foreignObject width="${width}" height="${height}">${markup}</foreignObject>`,
  );
}

/** A canvas as a picture: painted again at the size of the file, if that is known. */
function pixels(node: HTMLCanvasElement, rule: string): HTMLImageElement {
  const picture = document.createElement("img");
  picture.className = rule;
  const paint = painterOf(node);
  const { clientWidth, clientHeight } = node;
  const large = document.createElement("canvas");
  [large.width, large.height] = [clientWidth * PNG_SCALE, clientHeight * PNG_SCALE];
  const context = large.getContext("2d");
  if (paint && context && large.width && large.height) {
    context.scale(PNG_SCALE, PNG_SCALE);
    paint(context, clientWidth, clientHeight);
    picture.src = large.toDataURL();
  } else if (node.width && node.height) picture.src = node.toDataURL();
  return picture;
}
