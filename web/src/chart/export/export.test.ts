import { describe, expect, it } from "vitest";
import { csvOf, csvRow, recordsCsv } from "./csv";
import { fileName } from "./names";
import { wrapped } from "./save";
import { escapeXml, readFont, safeColour, SvgSurface } from "./svg";

describe("file names", () => {
  it.each([
    ["train/loss", "train-loss.svg"],
    ["../../etc/passwd", "etc-passwd.svg"],
    ["<script>alert(1)</script>", "script-alert-1-script.svg"],
    ["=1+1", "1-1.svg"],
    ["CON", "_CON.svg"],
    ["...", "chart.svg"],
    ["損失", "chart.svg"],
    ["a\u0000b\nc", "a-b-c.svg"],
    ["x".repeat(300), `${"x".repeat(100)}.svg`],
  ])("of %j are safe", (title, name) => expect(fileName(title, "svg")).toBe(name));
});

describe("tables", () => {
  it("quote what needs it and keep every digit", () =>
    expect(
      csvOf(
        ["a", 'b"c'],
        [
          [0.1, "x,y"],
          [1e-300, null],
          [NaN, "line\nbreak"],
        ],
      ),
    ).toBe('a,"b""c"\r\n0.1,"x,y"\r\n1e-300,\r\nNaN,"line\nbreak"\r\n'));
  it("never hold a formula of a log", () => {
    for (const text of ["=1+1", "+1", "@x", "-2+3"]) expect(csvRow([text])).toBe(`'${text}\r\n`);
    expect(csvRow([-2])).toBe("-2\r\n");
  });
});

describe("rows of the server", () => {
  it("become columns, what is nested under its own name, lists in one cell", () =>
    expect(
      recordsCsv(
        [
          { name: "=x", a: { ns: 1.5, row: null }, list: ["p", "q"], yes: true, left: [1] },
          { name: "y", a: null, list: [], yes: null },
        ],
        ["left"],
      ),
    ).toBe("name,a_ns,a_row,list,yes\r\n'=x,1.5,,p | q,true\r\ny,,,,\r\n"));
  it("keep a column that is nothing everywhere", () =>
    expect(recordsCsv([{ a: null }, { a: null }])).toBe("a\r\n\r\n\r\n"));
});

describe("notes", () => {
  const ruler = { measureText: (text: string) => ({ width: text.length }) as TextMetrics };
  it("are broken into lines that fit", () =>
    expect(wrapped(ruler, "one two  three", 7)).toEqual(["one two", "three"]));
  it("break words that no line holds", () =>
    expect(wrapped(ruler, "a bbbbbbbbb c", 4)).toEqual(["a", "bbbb", "bbbb", "b c"]));
  it("of nothing are not lines", () => expect(wrapped(ruler, " ", 4)).toEqual([]));
});

describe("drawings", () => {
  it("escape every sign that could end a text", () => {
    expect(escapeXml("</text><script>\"&'")).toBe("&#60;/text&#62;&#60;script&#62;&#34;&#38;&#39;");
    expect(escapeXml("a\u0000\u0008\uFFFEb\ud800")).toBe("ab");
  });
  it("take colours and nothing else for colours", () => {
    for (const colour of [
      "#1a5fc8",
      "red",
      "rgb(1 2 3 / 0.5)",
      "rgba(1, 2, 3, 0.5)",
      "color(srgb 0.1 0.2 0.3)",
    ])
      expect(safeColour(colour)).toBe(colour);
    for (const colour of ['"/><script>', "url(#x)", "url(http://a)", "red;x:y", {} as string])
      expect(safeColour(colour)).toBe("#888");
  });
  it("read fonts", () =>
    expect([readFont('400 11px "Inter", system-ui'), readFont("italic 600 12.5px/16px x")]).toEqual([
      { size: 11, weight: "400", style: "normal", family: '"Inter", system-ui' },
      { size: 12.5, weight: "600", style: "italic", family: "x" },
    ]));
  it("hold what was painted, transformed, clipped and dashed", () => {
    const surface = new SvgSurface();
    surface.save();
    surface.translate(10, 20);
    surface.beginPath();
    surface.rect(0, 0, 5, 5);
    surface.clip();
    surface.beginPath();
    surface.moveTo(0, 0);
    surface.lineTo(1 / 3, NaN);
    surface.strokeStyle = "#f00";
    surface.globalAlpha = 0.5;
    surface.setLineDash([5, 2]);
    surface.stroke();
    surface.restore();
    surface.beginPath();
    surface.arc(3, 3, 2);
    surface.fill();
    const file = surface.finish(100, 50, "a < b");
    expect(file).toContain(
      '<path d="M0 0L0.33 0" fill="none" stroke="#f00" stroke-width="1" stroke-dasharray="5 2" opacity="0.5" transform="translate(10 20)"/>',
    );
    expect(file).toContain(
      '<clipPath id="clip1"><path d="M0 0h5v5h-5z" transform="translate(10 20)"/></clipPath><g clip-path="url(#clip1)">',
    );
    expect(file).toContain('<path d="M1 3a2 2 0 1 1 4 0a2 2 0 1 1 -4 0z" fill="#000"/>');
    expect(file.match(/<g /g)!.length).toBe(file.match(/<\/g>/g)!.length);
    expect(file).toContain("<title>a &#60; b</title>");
    expect(file).toContain('fill="#000"');
  });
});
