/** What is seen as one file that needs nothing else: no server, no script, no request. */

/** What the file may do: show its own pictures and styles. */
const POLICY =
  "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/** What does nothing in a file, or would reach out of it. */
const LEFT_OUT = "script, link, base, noscript, template, iframe, object, embed, meta[http-equiv]";
/** Bytes of sound and film that a file holds; what is beyond is named. */
const MOST_PLAYED = 64 << 20;

/** The page as it looks now.
 *
 * @param said: The line above it.
 * @param address: Where it can be looked at alive; links within the page lead there.
 */
export async function frozen(said: string, address: string): Promise<string> {
  const root = document.documentElement;
  // In a document that shows nothing, so that nothing in it loads while it is made.
  const copy = document.implementation.createHTMLDocument("").importNode(root, true);
  const twins = <K extends keyof HTMLElementTagNameMap>(name: K) => {
    const [from, to] = [root.getElementsByTagName(name), [...copy.getElementsByTagName(name)]];
    return to.map((twin, at) => [from[at]!, twin] as const);
  };
  // What was scrolled away stays out of view: only scripts could scroll a file. Lists hold every row, and begin at the first.
  const scrolled = [...root.querySelectorAll<HTMLElement>("*")].map((from) => [
    from.scrollLeft,
    from.scrollTop,
  ]);
  [...copy.querySelectorAll<HTMLElement>("*")].forEach((twin, at) => {
    const [left, top] = scrolled[at] ?? [0, 0];
    if ((left || top) && twin.dataset["rows"] === undefined && twin.firstElementChild instanceof HTMLElement)
      twin.firstElementChild.style.margin = `${-top!}px 0 0 ${-left!}px`;
  });
  const [canvases, images] = [twins("canvas"), twins("img")];
  const [sounds, films] = [twins("audio"), twins("video")];
  for (const [from, twin] of canvases) twin.replaceWith(pictureOf(from));
  for (const [from, twin] of twins("input")) {
    twin.setAttribute("value", from.value);
    twin.toggleAttribute("checked", from.checked);
  }
  for (const [from, twin] of twins("select"))
    [...twin.options].forEach((option, at) => option.toggleAttribute("selected", at === from.selectedIndex));
  await Promise.all(
    images.map(async ([from, twin]) => {
      const data = from.src.startsWith("data:") ? from.src : await dataOf(from.src);
      if (data === null) twin.removeAttribute("src");
      else twin.src = data;
      twin.removeAttribute("loading");
      twin.removeAttribute("srcset");
    }),
  );
  for (const film of copy.querySelectorAll<HTMLElement>("[data-film]")) playable(film);
  let room = MOST_PLAYED;
  for (const [from, twin] of [...sounds, ...films]) {
    const blob = from.src ? await blobOf(from.src) : null;
    if (blob && blob.size <= room) {
      room -= blob.size;
      twin.src = await asData(blob);
      twin.controls = true;
      continue;
    }
    const note = document.createElement("p");
    note.textContent = blob
      ? "Too large to be part of this file"
      : "Could not be read when this file was saved";
    twin.replaceWith(note);
  }
  for (const link of copy.querySelectorAll("a[href]")) {
    const target = link.getAttribute("href")!;
    if (target.startsWith("#/")) link.setAttribute("href", address + target);
    else link.removeAttribute("href");
  }
  for (const each of copy.querySelectorAll(LEFT_OUT)) each.remove();
  for (const sheet of copy.querySelectorAll("style")) sheet.remove();
  const head = copy.querySelector("head")!;
  head.prepend(
    made("meta", { charset: "utf-8" }),
    made("meta", { "http-equiv": "Content-Security-Policy", content: POLICY }),
  );
  const style = document.createElement("style");
  style.textContent = await stylesOf(document);
  head.append(style);
  const line = document.createElement("p");
  Object.assign(line.style, { flex: "none", padding: "4px 16px" });
  line.textContent = said;
  copy.querySelector(".shell")?.prepend(line);
  return `<!doctype html>\n${copy.outerHTML}\n`;
}

function made(name: string, attributes: Record<string, string>): HTMLElement {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** A film of which the buttons do nothing any more: one that stood still moves below its first frame when it is opened. */
function playable(film: HTMLElement): void {
  const moving = film.querySelector("img");
  if (!moving) return;
  film.querySelector("button")?.remove();
  if (!moving.hidden) return;
  const [fold, head] = [document.createElement("details"), document.createElement("summary")];
  head.textContent = "Play";
  moving.hidden = false;
  fold.append(head, moving);
  film.append(fold);
}

/** A canvas as the picture that is on it, at its place. */
function pictureOf(canvas: HTMLCanvasElement): HTMLImageElement {
  const picture = document.createElement("img");
  picture.alt = canvas.getAttribute("aria-label") ?? "";
  const role = canvas.getAttribute("role");
  if (role) picture.setAttribute("role", role);
  const { position, left, top, right, bottom, zIndex, opacity } = getComputedStyle(canvas);
  Object.assign(picture.style, { display: "block", position, left, top, right, bottom, zIndex, opacity });
  picture.style.width = `${canvas.offsetWidth}px`;
  picture.style.height = `${canvas.offsetHeight}px`;
  if (canvas.width && canvas.height) picture.src = canvas.toDataURL();
  return picture;
}

async function dataOf(address: string): Promise<string | null> {
  const blob = await blobOf(address);
  return blob && asData(blob);
}

async function blobOf(address: string): Promise<Blob | null> {
  try {
    const answer = await fetch(address);
    return answer.ok ? await answer.blob() : null;
  } catch {
    return null;
  }
}

function asData(blob: Blob): Promise<string> {
  return new Promise((done, fail) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => fail(reader.error ?? new Error("not readable"));
    reader.readAsDataURL(blob);
  });
}

/** The style sheets as they were written: rules that are read back lose shorthands that hold variables. */
async function stylesOf(page: Document): Promise<string> {
  const sheets = [...page.styleSheets].map(async ({ href, ownerNode }) =>
    href === null ? (ownerNode?.textContent ?? "") : await (await fetch(href)).text(),
  );
  return (await Promise.all(sheets)).join("\n");
}
