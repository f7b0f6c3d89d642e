/** Decoder of the binary answer to a series request: a JSON header, then typed arrays at 8-byte alignment. */
import { MAGIC, type ChartAnswer, type Column, type Line, type SeriesHeader } from "./api";

export type Numbers = Float32Array | Float64Array | Int32Array | Uint32Array;

/** A series with its columns as arrays over the received bytes; nothing is copied. */
export interface DecodedLine extends Omit<Line, "columns"> {
  columns: Record<string, Numbers>;
}

export interface DecodedChart extends Omit<ChartAnswer, "lines" | "x_column"> {
  x_values: Numbers | null;
  lines: DecodedLine[];
}

/** The answer was not a series frame. */
export class FrameError extends Error {}

const ARRAYS = {
  f4: Float32Array,
  f8: Float64Array,
  i4: Int32Array,
  u4: Uint32Array,
} as const;

/** Splits a frame into charts.
 *
 * @throws FrameError: another magic number, a header or a column that goes over the end.
 */
export function decodeFrame(frame: ArrayBuffer): DecodedChart[] {
  const { header, start } = openFrame<SeriesHeader>(frame);
  return header.charts.map((chart) => decodeChart(frame, start, chart));
}

/** The JSON header of any frame, and where its arrays begin. */
export function openFrame<Header>(frame: ArrayBuffer): { header: Header; start: number } {
  if (frame.byteLength < 8)
    throw new FrameError(`series answer of ${frame.byteLength} bytes: expected at least 8`);
  const view = new DataView(frame);
  const magic = view.getUint32(0, true);
  if (magic !== MAGIC) throw new FrameError(`not a series answer: it begins with 0x${magic.toString(16)}`);
  const length = view.getUint32(4, true);
  if (8 + length > frame.byteLength)
    throw new FrameError(`series answer cut off within its header of ${length} bytes`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(frame, 8, length))) as Header;
  return { header, start: Math.ceil((8 + length) / 8) * 8 };
}

function decodeChart(frame: ArrayBuffer, start: number, chart: ChartAnswer): DecodedChart {
  const { lines, x_column, ...rest } = chart;
  return {
    ...rest,
    x_values: x_column ? columnOf(frame, start, x_column) : null,
    lines: lines.map((line) => ({
      ...line,
      columns: Object.fromEntries(
        Object.entries(line.columns).map(([name, column]) => [name, columnOf(frame, start, column)]),
      ),
    })),
  };
}

export function columnOf(frame: ArrayBuffer, start: number, column: Column): Numbers {
  const Kind = ARRAYS[column.dtype];
  if (!Kind) throw new FrameError(`unknown column type ${String(column.dtype)}`);
  const from = start + column.offset;
  if (from + column.count * Kind.BYTES_PER_ELEMENT > frame.byteLength) {
    throw new FrameError(
      `series answer cut off: a column of ${column.count} ends after byte ${frame.byteLength}`,
    );
  }
  return new Kind(frame, from, column.count);
}
