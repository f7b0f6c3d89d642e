/** Where an exception was raised, read from its stack as Python prints it. */

const FRAME = /^ {2}File "(.+)", line (\d+), in (.+)\n(?: {4}(\S.*))?/gm;
/** Folders of installed packages and of Python itself: no code of the user. */
const INSTALLED = /[\\/](?:site-packages|dist-packages|lib[\\/]python[\d.]+)[\\/]/i;

/** The innermost frame in the user's own code, else the innermost of all; empty if the stack has none. */
export function frameOf(stack: string): string {
  const frames = [...stack.matchAll(FRAME)];
  const match = frames.findLast(([, file]) => !INSTALLED.test(file!)) ?? frames.at(-1);
  if (!match) return "";
  const [, file, line, scope, code] = match;
  return `${file}:${line} in ${scope}${code ? `: ${code}` : ""}`;
}
