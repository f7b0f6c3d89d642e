/** Names of files, safe whatever a log calls its tags. */

/** A name that every file system takes: no path, no leading dot, no reserved word, at most 100 characters. */
export function fileName(title: string, ending: string): string {
  const plain = title
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9._=-]+/g, "-")
    .replace(/^[-.=]+|[-.]+$/g, "")
    .slice(0, 100);
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(plain);
  return `${reserved ? "_" : ""}${plain || "chart"}.${ending}`;
}
