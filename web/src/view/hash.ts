/** The view in the address: `#/page?name=value&…`. */
import { FIELDS, PAGES, changed, defaultView, valueOf, type Page, type View } from "./view";

/** The hash of a view; what is as by default is left out. */
export function writeHash(view: View): string {
  const parts: string[] = [];
  for (const each of FIELDS) {
    const value = valueOf(view, each);
    if (value === null || same(value, each.field.initial)) continue;
    parts.push(`${each.field.name}=${encode(each.field.write(value))}`);
  }
  return `#/${view.page}${parts.length ? `?${parts.join("&")}` : ""}`;
}

function same(a: unknown, b: unknown): boolean {
  return (
    a === b ||
    (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((one, at) => one === b[at]))
  );
}

/** As little encoding as an address needs, so that links stay readable. */
function encode(value: string): string {
  return encodeURIComponent(whole(value)).replace(/%(2F|3A|2C|40|3D|24|3B)/g, decodeURIComponent);
}

/** The view of a hash; what is unknown or cannot be read is as by default. */
export function readHash(hash: string): View {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
  const view = defaultView();
  view.page = PAGES.find((page): page is Page => page === path.split("/")[0]) ?? view.page;
  for (const text of search.split("&")) {
    const at = text.indexOf("=");
    const found = FIELDS.find(({ field }) => field.name === text.slice(0, Math.max(at, 0)));
    if (!found) continue;
    const { part, key, field } = found;
    Object.assign(view[part], { [key]: field.read(decode(text.slice(at + 1))) });
  }
  return view.charts.x === "tag" && !view.charts.xTag ? changed(view, { charts: { x: "step" } }) : view;
}

function decode(value: string): string {
  try {
    return whole(decodeURIComponent(value.replace(/\+/g, "%20")));
  } catch {
    return whole(value);
  }
}

/** A text without half characters, of which no address can be made. */
function whole(value: string): string {
  return value.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}
