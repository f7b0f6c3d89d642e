/** The picture of a chart on the page: drawn in its turn, and known to the page while it is there. */
import { charts } from "../state/charts.svelte";
import { LineChart } from "./LineChart";
import type { ChartModel } from "./model";

type Pointed = Parameters<LineChart["setCursor"]>[0];

interface Place {
  chart: () => string;
  host: () => HTMLElement;
  /** More room for axes and points. */
  large: () => boolean;
  /** Moves the cursor by some points. */
  step: (by: number) => void;
}

export class Drawing {
  picture: LineChart | undefined;
  #pointed: Pointed = { x: null, emphasis: null };

  constructor(private readonly place: Place) {}

  /** Charts of hundreds of lines take many frames to draw: lists, and the pointer, do not wait for all of them. */
  show(id: string, model: ChartModel, size: { width: number; height: number }): void {
    const draw = (): void => {
      const { chart, host, large, step } = this.place;
      if (this.picture) {
        this.picture.resize(size.width, size.height);
        this.picture.update(model);
      } else {
        this.picture = new LineChart(host(), model, size, !large());
        this.picture.setCursor(this.#pointed);
      }
      if (charts.onScreen.size === 0) performance.mark("stepscope:chart");
      charts.onScreen.set(id, {
        chart: chart(),
        model,
        picture: this.picture,
        host: host(),
        large: large(),
        step,
      });
    };
    charts.turns.ask(id, draw, model.lines.length);
  }

  point(pointed: Pointed): void {
    this.#pointed = pointed;
    this.picture?.setCursor(pointed);
  }

  clear(id: string): void {
    charts.turns.drop(id);
    charts.onScreen.delete(id);
    this.picture?.destroy();
    this.picture = undefined;
  }
}
