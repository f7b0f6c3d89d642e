/** Sounds: what their headers say, and the outline of their samples. */

export interface SoundFacts {
  /** Samples a second as recorded; null: the header does not say. */
  rate: number | null;
  channels: number | null;
  /** Of PCM. */
  bits: number | null;
}

const UNKNOWN: SoundFacts = { rate: null, channels: null, bits: null };
const MP3_RATES = [44_100, 48_000, 32_000];

/** Rate and channels of a WAV, FLAC, Ogg or MP3, from its first bytes: decoders of browsers tell their own rate only. */
export function soundFacts(bytes: Uint8Array): SoundFacts {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const named = (at: number, name: string): boolean =>
    at + name.length <= bytes.length &&
    [...name].every((letter, place) => bytes[at + place] === letter.charCodeAt(0));
  if (named(0, "RIFF") && named(8, "WAVE")) return waveFacts(view, named);
  if (named(0, "fLaC") && bytes.length >= 26) {
    const packed = view.getUint32(18);
    return { rate: packed >>> 12, channels: ((packed >>> 9) & 7) + 1, bits: ((packed >>> 4) & 31) + 1 };
  }
  if (named(0, "OggS")) {
    const start = 27 + (bytes[26] ?? 0);
    if (named(start, "\u0001vorbis") && start + 16 <= bytes.length)
      return { rate: view.getUint32(start + 12, true), channels: bytes[start + 11]!, bits: null };
    if (named(start, "OpusHead") && start + 16 <= bytes.length)
      return { rate: view.getUint32(start + 12, true) || 48_000, channels: bytes[start + 9]!, bits: null };
    return UNKNOWN;
  }
  return mp3Facts(bytes, named(0, "ID3"));
}

function waveFacts(view: DataView, named: (at: number, name: string) => boolean): SoundFacts {
  for (let at = 12; at + 24 <= view.byteLength;) {
    if (named(at, "fmt "))
      return {
        rate: view.getUint32(at + 12, true),
        channels: view.getUint16(at + 10, true),
        bits: view.getUint16(at + 22, true) || null,
      };
    at += 8 + view.getUint32(at + 4, true) + (view.getUint32(at + 4, true) % 2);
  }
  return UNKNOWN;
}

function mp3Facts(bytes: Uint8Array, tagged: boolean): SoundFacts {
  // The tag's length stands in four bytes of seven bits.
  const start = tagged ? 10 + [6, 7, 8, 9].reduce((size, at) => (size << 7) | (bytes[at]! & 127), 0) : 0;
  const [first, second, third, fourth] = bytes.subarray(start, start + 4);
  if (first !== 255 || ((second ?? 0) & 0xe0) !== 0xe0 || fourth === undefined) return UNKNOWN;
  const rate = MP3_RATES[((third ?? 0) >> 2) & 3];
  const version = (second! >> 3) & 3;
  return rate === undefined
    ? UNKNOWN
    : {
        rate: version === 3 ? rate : version === 2 ? rate / 2 : rate / 4,
        channels: fourth >> 6 === 3 ? 1 : 2,
        bits: null,
      };
}

/** Least and largest sample within each of some columns: [least, largest, least, …]. */
export function outline(samples: Float32Array, columns: number): Float32Array {
  const found = new Float32Array(2 * columns);
  for (let column = 0; column < columns; column += 1) {
    const from = Math.floor((column * samples.length) / columns);
    const to = Math.max(from + 1, Math.floor(((column + 1) * samples.length) / columns));
    let [low, high] = [Infinity, -Infinity];
    for (let at = from; at < to && at < samples.length; at += 1) {
      const sample = samples[at]!;
      if (sample < low) low = sample;
      if (sample > high) high = sample;
    }
    found[2 * column] = low <= high ? low : 0;
    found[2 * column + 1] = low <= high ? high : 0;
  }
  return found;
}

/** Seconds as minutes and seconds. */
export function clockText(seconds: number): string {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}
