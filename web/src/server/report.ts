/** The report that the page may be: then the answers to its questions lie in it, and there is no server. */
import type { Report } from "./answers";

/** The element that holds the answers. */
const ELEMENT = "report";

/** The report that the page carries; null: there is a server behind it. */
export let report: Report | null = null;

/** Reads the report if the page carries one; what reads it is not loaded by any other page. */
export async function openReport(): Promise<void> {
  const packed = document.getElementById(ELEMENT)?.textContent;
  if (packed) report = await (await import("./answers")).unpacked(packed);
}
