/** Names of kernels and code as people read them, and rows found by name. */

/** Rows whose name holds a text, whatever its case. */
export function named<Row extends { name: string }>(rows: readonly Row[], needle: string): Row[] {
  const wanted = needle.trim().toLowerCase();
  return wanted ? rows.filter((row) => row.name.toLowerCase().includes(wanted)) : [...rows];
}

/** A kernel's name without what says nothing of it: the return type and the types of its parameters. */
export function kernelName(name: string): string {
  const bare = name.replace(/^void /, "").replaceAll("(anonymous namespace)::", "");
  if (!bare.endsWith(")")) return bare;
  let depth = 0;
  for (let at = bare.length - 1; at > 0; at -= 1) {
    if (bare[at] === ")") depth += 1;
    else if (bare[at] === "(" && (depth -= 1) === 0)
      return /[>\w]$/.test(bare.slice(0, at)) ? bare.slice(0, at) : bare;
  }
  return bare;
}

/** A frame of a stack without the folders that packages lie in. */
export function frameName(frame: string): string {
  return frame.replace(/^.*\/(?:site|dist)-packages\//, "").replace(/^.*\/(?=[^/]+\/[^/]+\/[^/]+$)/, "");
}
