/** The axes of a chart painted without uPlot, as for a file; ticks and labels are those that it has laid out. */
import { GAPS } from "./axes";
import type { Placing } from "./model";
import type { Box } from "./paint";
import type { Palette } from "../theme/palette";

/** What uPlot has laid out of an axis. */
export interface LaidOut {
  _splits: readonly number[] | null;
  _values: readonly (string | null)[] | null;
}

export function paintAxes(
  c: CanvasRenderingContext2D,
  axes: readonly LaidOut[],
  box: Box,
  place: Placing,
  palette: Palette,
): void {
  const [across, up, right] = axes;
  c.save();
  c.font = `11px ${palette.font}`;
  c.fillStyle = palette.muted;
  c.strokeStyle = palette.grid;
  c.lineWidth = 1;
  up?._splits?.forEach((value, at) => {
    const y = Math.round(place.y(value)) + 0.5;
    c.beginPath();
    c.moveTo(box.left, y);
    c.lineTo(box.left + box.width, y);
    c.stroke();
    c.textAlign = "right";
    c.textBaseline = "middle";
    c.fillText(up._values?.[at] ?? "", box.left - GAPS.y, y);
  });
  right?._splits?.forEach((value, at) => {
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.fillText(
      right._values?.[at] ?? "",
      box.left + box.width + GAPS.y,
      Math.round(place.right!(value)) + 0.5,
    );
  });
  c.textAlign = "center";
  c.textBaseline = "top";
  across?._splits?.forEach((value, at) => {
    const lines = String(across._values?.[at] ?? "").split("\n");
    lines.forEach((line, row) => c.fillText(line, place.x(value), box.top + box.height + GAPS.x + row * 13));
  });
  c.restore();
}
