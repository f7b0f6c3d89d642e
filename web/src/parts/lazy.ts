/** A part of the page that is fetched when it is first needed. */
export function lazy<Module>(fetch: () => Promise<Module>): { load: () => Promise<Module> } {
  let module: Promise<Module> | undefined;
  return { load: () => (module ??= fetch()) };
}
