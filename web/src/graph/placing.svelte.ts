/** Where the boxes of the newest picture stand, found out by a worker so that the page stays quick meanwhile. */
import type { Picture } from "./boxes";
import { shapeOf } from "./layout";
import type { Places } from "./places";

/** Made while a component is made; ends with it. */
export class Placing {
  /** A picture with its places; that before until those of the next are known. */
  found = $state.raw<{ picture: Picture; places: Places } | null>(null);

  constructor(picture: () => Picture) {
    const worker = new Worker(new URL("./places.worker.ts", import.meta.url), { type: "module" });
    let turn = 0;
    let asked: Picture | null = null;
    worker.onmessage = ({ data: [answered, places] }: MessageEvent<[number, Places]>) => {
      if (answered === turn && asked) this.found = { picture: asked, places };
    };
    $effect(() => {
      asked = picture();
      turn += 1;
      worker.postMessage([turn, shapeOf(asked)]);
    });
    $effect(() => () => worker.terminate());
  }
}
