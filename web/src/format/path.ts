/** A coordinate of an SVG path: tenths of a pixel are more than can be seen. */
export function px(value: number, decimals = 1): string {
  return value.toFixed(decimals);
}

/** After a slash, an underscore or an equals sign; after a hyphen, dot or comma that is no part of a number. */
const BREAK = /(?<=[/_=]|\w(?<!\d[eE])-|[.,](?!\d))/;

/** Parts of a name, or of a text with names, between which a line may break: never within a word or number.
 *
 * @param least: Letters of a part: shorter ones stay with the next.
 */
export function pieces(text: string, least = 0): string[] {
  const parts: string[] = [];
  let open = false;
  for (const part of text.split(BREAK)) {
    if (open) parts[parts.length - 1] += part;
    else parts.push(part);
    open = parts.at(-1)!.length < least;
  }
  return parts;
}
