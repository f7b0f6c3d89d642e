import { describe, expect, it } from "vitest";
import type { RecordTag, Tensor } from "../server/api";
import { curvePath, f1, thresholdAt } from "./curves";
import { colouring, found, pointName, tagAndStep } from "./labels";
import { byLayer, chosenEvenly } from "../distributions/histograms";
import { meshesOf, oneOf, pixelsOf } from "./meshes";
import { clockText, outline, soundFacts } from "./sound";

const tag = (name: string, mesh: RecordTag["mesh"] = null): RecordTag => ({
  tag: name,
  kind: "mesh",
  plugin: "",
  display_name: "",
  description: "",
  count: 1,
  last_step: 0,
  last_wall: 0,
  tensor: null,
  mesh,
  of_table: false,
});

describe("curves", () => {
  it("finds the nearest threshold", () => {
    expect(thresholdAt([0, 0.25, 0.5], 0.3)).toBe(1);
    expect(thresholdAt([], 0.3)).toBe(-1);
  });
  it("goes from recall 0 in steps", () => {
    const path = curvePath(
      [1, 0.5],
      [0.2, 1],
      (x) => 10 * x,
      (y) => 10 * y,
    );
    expect(path).toBe("M0.0,10.0H5.0V2.0H10.0");
  });
  it("has no F1 where nothing is right", () => {
    expect(f1(0, 0)).toBeNull();
    expect(f1(0.5, 1)).toBeCloseTo(2 / 3);
  });
});

describe("embeddings", () => {
  it("reads tag and step out of a name", () => {
    expect(tagAndStep("a:b:00000020")).toEqual({ tag: "a:b", step: 20 });
    expect(tagAndStep("layer:0")).toEqual({ tag: "layer:0", step: null });
  });
  it("gives groups colours by name, and the rest none", () => {
    const some = colouring(["10", "9", "9", "x"]);
    expect(some.groups.map(({ value }) => value)).toEqual(["9", "10", "x"]);
    expect([...some.of]).toEqual([1, 0, 0, 2]);
    const many = colouring(Array.from({ length: 40 }, (_, at) => `w${at}`));
    expect([many.groups.length, many.others, many.range]).toEqual([16, 24, null]);
  });
  it("takes many numbers as a scale", () => {
    const scale = colouring([...Array.from({ length: 20 }, (_, at) => String(at / 10)), "", ""]);
    expect(scale.range).toEqual([0, 1.9]);
    expect([scale.of[0], scale.of[19], scale.of[20], scale.others]).toEqual([0, 255, -1, 2]);
  });
  it("searches in every column", () => {
    expect(
      found(
        [
          ["a", "Cat"],
          ["b", "dog"],
        ],
        "cAT ",
      ),
    ).toEqual([0]);
    expect(found([["a"]], " ")).toEqual([]);
  });
  it("calls a point by its label or its number", () => {
    expect(pointName({ labels: [["x", " "]] }, 0, 1)).toBe("point 0");
    expect(pointName({ labels: [["x"]] }, 0)).toBe("x");
  });
});

describe("meshes", () => {
  it("puts their parts together", () => {
    const meshes = meshesOf([
      tag("points", { mesh: "a_b", part: "vertices" }),
      tag("sides", { mesh: "a_b", part: "faces" }),
      tag("c_COLOR", { mesh: "c", part: "colors" }),
      tag("d", { mesh: "d", part: "vertices" }),
      tag("e_VERTEX"),
    ]);
    expect(meshes.map((one) => [one.tag, one.faces?.tag, one.colours])).toEqual([
      ["a_b", "sides", null],
      ["d", undefined, null],
    ]);
  });
  it("takes one of a batch", () => {
    const numbers = Float32Array.from({ length: 12 }, (_, at) => at);
    expect([...oneOf(numbers, [2, 2, 3], 1)]).toEqual([6, 7, 8, 9, 10, 11]);
    expect([...oneOf(numbers, [2, 2, 3], 9)]).toEqual([6, 7, 8, 9, 10, 11]);
  });
  it("clips colours, and uses one for all where there are none", () => {
    expect([...pixelsOf(new Float32Array([300, -4, 16]), 1, 0)]).toEqual([0xff1000ff]);
    expect([...pixelsOf(new Float32Array([1]), 2, 7)]).toEqual([7, 7]);
  });
});

describe("sounds", () => {
  const bytes = (text: string, size = 64): Uint8Array =>
    Uint8Array.from({ length: size }, (_, at) => text.charCodeAt(at) || 0);
  it("reads the header of a WAV, whatever stands before its format", () => {
    const wav = bytes("RIFF....WAVELIST");
    const view = new DataView(wav.buffer);
    view.setUint32(16, 3, true);
    [..."fmt "].forEach((letter, at) => (wav[24 + at] = letter.charCodeAt(0)));
    view.setUint16(34, 2, true);
    view.setUint32(36, 16_000, true);
    view.setUint16(46, 24, true);
    expect(soundFacts(wav)).toEqual({ rate: 16_000, channels: 2, bits: 24 });
  });
  it("reads a FLAC and an Ogg", () => {
    const flac = bytes("fLaC");
    new DataView(flac.buffer).setUint32(18, (44_100 << 12) | (1 << 9) | (15 << 4));
    expect(soundFacts(flac)).toEqual({ rate: 44_100, channels: 2, bits: 16 });
    const ogg = bytes("OggS");
    [..."\u0001vorbis"].forEach((letter, at) => (ogg[27 + at] = letter.charCodeAt(0)));
    ogg[38] = 1;
    new DataView(ogg.buffer).setUint32(39, 22_050, true);
    expect(soundFacts(ogg)).toEqual({ rate: 22_050, channels: 1, bits: null });
  });
  it("reads an MP3 behind its tag", () => {
    const mp3 = bytes("ID3");
    mp3[9] = 4;
    mp3.set([0xff, 0xfb, 0x90, 0xc0], 14);
    expect(soundFacts(mp3)).toEqual({ rate: 44_100, channels: 1, bits: null });
  });
  it("does not know what it cannot read", () => {
    for (const size of [0, 3, 12, 30]) expect(soundFacts(bytes("RIFF....WAVE", size)).rate).toBeNull();
    expect(soundFacts(bytes("OggS", 20)).rate).toBeNull();
  });
  it("keeps least and largest of each column", () => {
    expect([...outline(new Float32Array([0.5, -0.5, 0.25, 0]), 2)]).toEqual([-0.5, 0.5, 0, 0.25]);
    expect([...outline(new Float32Array(), 1)]).toEqual([0, 0]);
  });
  it("writes minutes", () => expect(clockText(125.9)).toBe("2:05"));
});

describe("distributions", () => {
  it("puts the tensors of a layer beside each other, activations by their module", () => {
    const known = { outputs: false, bounded: false, counts: [] };
    const tensors: Tensor[] = [
      { kind: "gradients", layer: "net.0.weight", ...known },
      { kind: "weights", layer: "net.0.weight", ...known },
      { kind: "activations", layer: "net.0", ...known },
      { kind: "activations", layer: "net.1", ...known },
      { kind: null, layer: "other", ...known },
    ];
    const [first, second, ...more] = byLayer(tensors.map((tensor) => ({ tensor })));
    expect(first!.layer).toBe("net.0.weight");
    expect(Object.values(first!.cells).map((cell) => cell?.tensor ?? null)).toEqual([
      tensors[0],
      null,
      tensors[1],
      tensors[2],
    ]);
    expect([second!.layer, second!.cells.activations?.tensor]).toEqual(["net.1", tensors[3]]);
    expect(more).toEqual([]);
  });
  it("chooses steps evenly", () => expect(chosenEvenly([0, 1, 2, 3, 4], 3)).toEqual([0, 2, 4]));
});
