/** A part of the page that is fetched when it is first needed; where that failed, when it is needed again. */
export function lazy<Module>(fetch: () => Promise<Module>): { load: () => Promise<Module> } {
  let module: Promise<Module> | undefined;
  const load = (): Promise<Module> =>
    (module ??= fetch().catch((error: unknown) => {
      module = undefined;
      throw error;
    }));
  return { load };
}
