/** Keys as they are printed on the keyboard. */
const MAC = navigator.platform.startsWith("Mac");

export function keyName(key: string): string {
  const plain = key.replace("mod+", "");
  const name = plain.length === 1 ? plain.toUpperCase() : plain;
  if (key.startsWith("mod+")) return MAC ? `⌘${name}` : `Ctrl ${name}`;
  return plain;
}
